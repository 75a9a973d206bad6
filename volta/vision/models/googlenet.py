"""GoogLeNet, with batch normalization. Source: Szegedy et al., Going Deeper with Convolutions."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from volta import nn
from volta.nn import functional as F
from volta.ops.join import cat
from volta.vision.models.weights import published

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["GoogLeNet", "GoogLeNetOutputs", "googlenet"]


class GoogLeNetOutputs(NamedTuple):
    """What the network gives in training: the result and those of the heads inside it."""
    logits: Tensor
    aux_logits2: Tensor | None
    aux_logits1: Tensor | None


class BasicConv2d(nn.Module):
    """A convolution, normalized, and a ReLU."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(in_channels, out_channels, bias=False, **options), nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


def as_other_weights_take(x: Tensor) -> Tensor:
    """Images normalized as ImageNet's, as weights of another origin take them: with mean and deviation 0.5."""
    statistics = enumerate(zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    return cat([x[:, i:i + 1] * (std / 0.5) + (mean - 0.5) / 0.5 for i, (mean, std) in statistics], 1)


def init_truncated(model: nn.Module, std: float) -> None:
    """Initial weights of a normal distribution cut at 2; a module's own deviation is its `stddev`."""
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.trunc_normal_(module.weight, std=float(getattr(module, "stddev", std)), a=-2, b=2)


class Inception(nn.Module):
    """Four views of an image side by side: pixels, 3 x 3 twice, and the largest neighbours."""

    def __init__(self, in_channels: int, ch1x1: int, ch3x3red: int, ch3x3: int, ch5x5red: int, ch5x5: int, pool_proj: int) -> None:
        super().__init__()
        self.branch1 = BasicConv2d(in_channels, ch1x1, kernel_size=1)
        self.branch2, self.branch3 = (
            nn.Sequential(BasicConv2d(in_channels, fewer, kernel_size=1), BasicConv2d(fewer, width, kernel_size=3, padding=1))
            for fewer, width in ((ch3x3red, ch3x3), (ch5x5red, ch5x5)))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), BasicConv2d(in_channels, pool_proj, kernel_size=1))

    def forward(self, x: Tensor) -> Tensor:
        return cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    """A head inside the network, for training."""

    def __init__(self, in_channels: int, num_classes: int, dropout: float = 0.7) -> None:
        super().__init__()
        self.conv, self.fc1, self.fc2 = BasicConv2d(in_channels, 128, kernel_size=1), nn.Linear(2048, 1024), nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(F.adaptive_avg_pool2d(x, (4, 4))).flatten(1)
        return self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))


class GoogLeNet(nn.Module):
    """Nine Inception modules; in training, a tuple of the results of three heads."""

    def __init__(self, num_classes: int = 1000, aux_logits: bool = True, transform_input: bool = False, init_weights: bool | None = True,
                 dropout: float = 0.2, dropout_aux: float = 0.7) -> None:
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.conv1, self.maxpool1 = BasicConv2d(3, 64, kernel_size=7, stride=2, padding=3), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2, self.conv3 = BasicConv2d(64, 64, kernel_size=1), BasicConv2d(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.inception3a, self.inception3b = Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64)
        self.maxpool3 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.inception4a, self.inception4b = Inception(480, 192, 96, 208, 16, 48, 64), Inception(512, 160, 112, 224, 24, 64, 64)
        self.inception4c, self.inception4d = Inception(512, 128, 128, 256, 24, 64, 64), Inception(512, 112, 144, 288, 32, 64, 64)
        self.inception4e, self.maxpool4 = Inception(528, 256, 160, 320, 32, 128, 128), nn.MaxPool2d(2, 2, ceil_mode=True)
        self.inception5a, self.inception5b = Inception(832, 256, 160, 320, 32, 128, 128), Inception(832, 384, 192, 384, 48, 128, 128)
        self.aux1 = InceptionAux(512, num_classes, dropout_aux) if aux_logits else None
        self.aux2 = InceptionAux(528, num_classes, dropout_aux) if aux_logits else None
        self.avgpool, self.dropout, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Dropout(dropout), nn.Linear(1024, num_classes)
        if init_weights is not False:
            init_truncated(self, 0.01)

    def drop_auxiliary(self) -> None:
        """Go without the heads of training."""
        self.aux_logits, self.aux1, self.aux2 = False, None, None

    def forward(self, x: Tensor) -> Tensor | GoogLeNetOutputs:
        x = as_other_weights_take(x) if self.transform_input else x
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        x = self.inception4a(self.maxpool3(self.inception3b(self.inception3a(x))))
        aux1 = self.aux1(x) if self.aux1 is not None and self.training else None
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        aux2 = self.aux2(x) if self.aux2 is not None and self.training else None
        x = self.inception5b(self.inception5a(self.maxpool4(self.inception4e(x))))
        x = self.fc(self.dropout(self.avgpool(x).flatten(1)))
        return GoogLeNetOutputs(x, aux2, aux1) if self.training and self.aux_logits else x


@published("GoogLeNet_Weights", "googlenet-1378be20.pth", auxiliary=False)
def googlenet(**options: Any) -> GoogLeNet:
    """GoogLeNet."""
    return GoogLeNet(**options)
