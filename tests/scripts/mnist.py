"""Digits in PyTorch's idiom: torchvision's reader and transforms, a DataLoader with workers, a small CNN. It ends by printing "done"."""
import argparse
import os
import struct
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, Subset, random_split
from torchvision import datasets, transforms
from torchvision.transforms import functional as TF
from torchvision.utils import make_grid, save_image


def write_idx(path, array):
    with open(path, "wb") as file:
        file.write(struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def write_digits(root):
    """Blocks whose place tells the digit, with noise, in the files that MNIST has."""
    rng = np.random.default_rng(0)
    folder = os.path.join(root, "MNIST", "raw")
    os.makedirs(folder)
    for split, count in (("train", 480), ("t10k", 80)):
        labels = rng.integers(0, 10, count, dtype=np.uint8)
        images = rng.integers(0, 60, (count, 28, 28), dtype=np.uint8)
        for image, label in zip(images, labels):
            top, left = 3 + 13 * (label // 5), 2 + 5 * (label % 5)
            image[top:top + 9, left:left + 4] += 180
        write_idx(os.path.join(folder, f"{split}-images-idx3-ubyte"), images)
        write_idx(os.path.join(folder, f"{split}-labels-idx1-ubyte"), labels)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 2)
        self.dropout = nn.Dropout(0.1)
        self.fc = nn.Linear(16 * 6 * 6, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = self.dropout(F.relu(self.conv2(x)))
        return F.log_softmax(self.fc(torch.flatten(x, 1)), dim=1)


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            print(f"Train Epoch: {epoch} [{batch_idx * len(data)}/{len(train_loader.dataset)}]\tLoss: {loss.item():.6f}")


def test(model, device, test_loader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(f"Test set: Average loss: {test_loss / len(test_loader.dataset):.4f}, Accuracy: {correct}/{len(test_loader.dataset)}")
    return correct / len(test_loader.dataset)


def main(root):
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--log-interval", type=int, default=5)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    write_digits(root)
    transform = transforms.Compose([
        transforms.RandomCrop(28, padding=1),
        transforms.ToTensor(),
        transforms.Normalize((0.1307,), (0.3081,)),
    ])
    train_set = datasets.MNIST(root, train=True, download=True, transform=transform)
    test_set = datasets.MNIST(root, train=False, transform=transform)
    assert train_set.data.shape == (480, 28, 28) and train_set.targets.dtype == torch.int64 and len(train_set.classes) == 10
    train_part, valid_part = random_split(train_set, [0.9, 0.1], generator=torch.Generator().manual_seed(0))
    assert isinstance(train_part, Subset) and (len(train_part), len(valid_part)) == (432, 48)
    train_loader = DataLoader(train_part, args.batch_size, shuffle=True, num_workers=2, pin_memory=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=40)
    model = Net().to(device)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    train(args, model, device, train_loader, optimizer, 1)
    assert test(model, device, test_loader) > 0.8
    images, labels = next(iter(test_loader))
    assert images.shape == (40, 1, 28, 28) and labels.dtype == torch.int64
    grid = make_grid(images[:8], nrow=4, normalize=True)
    assert grid.shape == (3, 62, 122) and TF.hflip(grid).shape == grid.shape
    save_image(images[:8], os.path.join(root, "digits.png"), normalize=True)
    assert os.path.getsize(os.path.join(root, "digits.png")) > 1000
    print("done")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
