"""Vision programs in PyTorch's idiom: networks by name, weights from the cache, a GAN with a gradient penalty, a style loss by LBFGS,
segmentation with channels last and mixed precision. It ends by printing "done"."""
import copy
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.model_zoo as model_zoo
import torchvision.models as models
import torchvision.transforms as transforms
from torch import autograd
from torch.autograd import Variable
from torch.optim.lr_scheduler import _LRScheduler
from torchvision.models import ResNet18_Weights
from torchvision.models.resnet import BasicBlock, ResNet
from torchvision.ops import nms

cuda = torch.cuda.is_available()
device = torch.device("cuda" if cuda else "cpu")
assert not torch.xpu.is_available() and not torch.mps.is_available() and not torch.zeros(1).is_xpu
Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor


class WarmUp(_LRScheduler):
    def __init__(self, optimizer, total, last_epoch=-1):
        self.total = total
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [rate * self.last_epoch / (self.total + 1e-8) for rate in self.base_lrs]


def finetune():
    """Weights where torch.hub keeps them, one layer replaced, the others frozen."""
    names = sorted(name for name in models.__dict__ if name.islower() and not name.startswith("__") and callable(models.__dict__[name]))
    assert {"resnet18", "vgg16", "alexnet", "densenet121"} <= set(names)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCH_HOME"] = folder
        path = os.path.join(torch.hub.get_dir(), "checkpoints")
        os.makedirs(path)
        torch.save(models.__dict__["resnet18"]().state_dict(), os.path.join(path, "resnet18-f37072fd.pth"))
        model = models.resnet18(weights=ResNet18_Weights.DEFAULT)
        again = model_zoo.load_url("https://download.pytorch.org/models/resnet18-f37072fd.pth", map_location="cpu")
    assert torch.equal(again["conv1.weight"], model.conv1.weight.cpu())
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.fc = nn.Linear(model.fc.in_features, 2)
    model = model.to(device)
    optimizer = optim.SGD(model.fc.parameters(), lr=0.1, momentum=0.9)
    schedule = WarmUp(optimizer, 4)
    images, labels = torch.randn(8, 3, 32, 32).to(device), torch.arange(8).to(device) % 2
    model.train()
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(model(images), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and abs(optimizer.param_groups[0]["lr"] - 0.1) < 1e-6
    tiny = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=3)
    features = nn.Sequential(*list(tiny.children())[:-1])
    assert features(torch.randn(2, 3, 32, 32)).view(2, -1).shape == (2, 512)


def gan():
    generator = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16, 0.8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 2), nn.Tanh())
    critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1))
    if cuda:
        generator.cuda()
        critic.cuda()
    steps = [optim.Adam(net.parameters(), lr=1e-3, betas=(0.5, 0.999)) for net in (critic, generator)]
    rng = np.random.RandomState(0)
    for _ in range(3):
        real = Variable(Tensor(rng.normal(0, 0.1, (8, 2))))
        fake = generator(Variable(Tensor(rng.normal(0, 1, (8, 4)))))
        alpha = Tensor(rng.random_sample((8, 1)))
        between = (alpha * real.data + (1 - alpha) * fake.data).requires_grad_(True)
        ones = Variable(Tensor(8, 1).fill_(1.0), requires_grad=False)
        gradients = autograd.grad(outputs=critic(between), inputs=between, grad_outputs=ones, create_graph=True, retain_graph=True,
                                  only_inputs=True)[0]
        penalty = ((gradients.view(8, -1).norm(2, dim=1) - 1) ** 2).mean()
        steps[0].zero_grad()
        (critic(fake.detach()).mean() - critic(real).mean() + 10 * penalty).backward()
        steps[0].step()
        for p in critic.parameters():
            p.data.clamp_(-0.5, 0.5)
        steps[1].zero_grad()
        (-critic(fake).mean()).backward()
        steps[1].step()
    assert all(torch.isfinite(p).all() for p in generator.parameters())


def style():
    """An image changed to have the correlations of another's features."""
    cnn = copy.deepcopy(models.vgg11(num_classes=2, init_weights=False).features[:6]).to(device).eval().requires_grad_(False)

    def gram(x):
        n, channels, height, width = x.size()
        features = x.view(n * channels, height * width)
        return torch.mm(features, features.t()).div(n * channels * height * width)
    wanted = gram(cnn(torch.rand(1, 3, 16, 16, device=device))).detach()
    image = torch.rand(1, 3, 16, 16, device=device).requires_grad_(True)
    optimizer, losses = optim.LBFGS([image], max_iter=5, line_search_fn="strong_wolfe"), []

    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        loss = 1e9 * F.mse_loss(gram(cnn(image)), wanted)
        loss.backward()
        losses.append(loss.item())
        return loss
    optimizer.step(closure)
    assert losses[-1] < losses[0]
    picture = transforms.ToPILImage()(image.detach().clamp(0, 1).cpu().squeeze(0))
    assert picture.size == (16, 16)


def segmentation():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(8, 1, 1))
    net = net.to(device, memory_format=torch.channels_last)
    optimizer = optim.RMSprop(net.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9, foreach=True)
    images = torch.rand(2, 3, 8, 8).to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
    assert images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous()
    masks = (images.mean(1) > 0.5).float()
    losses = []
    for _ in range(5):
        predicted = net(images).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(predicted, masks)
        loss = loss + 1 - 2 * (torch.sigmoid(predicted) * masks).sum() / (torch.sigmoid(predicted) + masks).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    boxes = torch.tensor([[0., 0., 4., 4.], [0., 0., 4., 3.9], [5., 5., 6., 6.]], device=device)
    assert nms(boxes, torch.tensor([0.1, 0.9, 0.5], device=device), 0.5).tolist() == [1, 2]


if __name__ == "__main__":
    torch.manual_seed(0)
    finetune()
    gan()
    style()
    segmentation()
    print("done")
