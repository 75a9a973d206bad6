"""Train ResNet-18 on images in CIFAR-10's format, with random crops and flips, and say which class each test image has.

    python examples/resnet_cifar.py --device gpu --data FOLDER --steps 8000

FOLDER holds cifar-10-batches-py/ or cifar-10-batches-bin/ as they are downloaded; --width 64 is the network of the paper. Without --data,
ten kinds of drawn shapes take CIFAR's place, written and read in its format: the defaults find the class of 99.9% of 1000 unseen ones
after 80 seconds of processor time.
"""
from __future__ import annotations

from pathlib import Path

import common
import datasets

import volta
from volta import nn
from volta.nn import functional as F
from volta.vision import transforms
from volta.vision.datasets import CIFAR10

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Block(nn.Module):
    """Two convolutions beside a shortcut, which is a convolution of 1 x 1 where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: volta.Tensor) -> volta.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    """Four stages of two blocks, each stage with half the pixels and twice the channels, for images of 32 x 32."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.stages = nn.Sequential(*(
            nn.Sequential(Block(width * max(1, scale // 2), width * scale, 1 if scale == 1 else 2), Block(width * scale, width * scale, 1))
            for scale in (1, 2, 4, 8)))
        self.fc = nn.Linear(width * 8, classes)

    def forward(self, x: volta.Tensor) -> volta.Tensor:
        x = self.stages(F.relu(self.bn1(self.conv1(x))))
        return self.fc(x.mean((2, 3)))


@volta.no_grad()
def predict(model: nn.Module, loader: volta.data.DataLoader[list[volta.Tensor]]) -> tuple[volta.Tensor, volta.Tensor]:
    """The most likely class of each image, and the true one."""
    model.eval()
    found = [(model(images).argmax(1), labels) for images, labels in loader]
    return volta.cat([predicted for predicted, _ in found]), volta.cat([labels for _, labels in found])


def main() -> None:
    parser = common.parser(__doc__, "resnet-out", steps=500, quick=8)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="where CIFAR-10's files lie; without it, shapes are drawn")
    for name, full, quick in (("width", 16, 8), ("batch", 64, 16), ("images", 5000, 80)):
        common.add_size(parser, name, full, quick)
    options = common.start(parser)
    device, root = options.device, datasets.cifar10(options.data, options.out, options.images)
    normalize = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    train = CIFAR10(root, transform=transforms.Compose([transforms.RandomCrop(32, 4), transforms.RandomHorizontalFlip(), *normalize]))
    test = CIFAR10(root, train=False, transform=transforms.Compose(normalize))
    rate = 0.1 * options.batch / 64
    loader = volta.data.DataLoader(train, options.batch, shuffle=True, drop_last=True, num_workers=2, seed=options.seed, device=device)

    model = ResNet18(options.width, len(train.classes)).to(device)
    common.describe(model, device)
    optimizer = volta.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = volta.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=rate, total_steps=options.steps)
    progress = common.Progress(options.steps)
    for images, labels in progress.batches(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        schedule.step()
        progress.add(loss)
    progress.finish()

    predicted, labels = predict(model, volta.data.DataLoader(test, 100, num_workers=2, device=device))
    right = predicted == labels
    for i, name in enumerate(test.classes):
        shown = right[labels == i]
        print(f"{name:>12} {int(shown.sum().item()):4} of {len(shown)}")
    print(f"test accuracy {right.float().mean().item():.2%} of {len(test)} images")
    volta.save(model.state_dict(), options.out / "resnet18.safetensors")


if __name__ == "__main__":
    main()
