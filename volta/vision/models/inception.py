"""Inception v3. Source: Szegedy et al., Rethinking the Inception Architecture for Computer Vision."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from volta import nn
from volta.nn import functional as F
from volta.ops.join import cat
from volta.vision.models.googlenet import BasicConv2d, as_other_weights_take, init_truncated
from volta.vision.models.weights import Weights, published

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["Inception3", "InceptionOutputs", "inception_v3"]


class InceptionOutputs(NamedTuple):
    """What the network gives in training: the result and that of the head inside it."""
    logits: Tensor
    aux_logits: Tensor | None


def _conv(before, width, kernel=1, stride=1, padding=None):
    """A convolution that keeps the size, unless a padding says otherwise."""
    height, breadth = (kernel, kernel) if isinstance(kernel, int) else kernel
    return BasicConv2d(before, width, kernel_size=kernel, stride=stride,
                       padding=(height // 2, breadth // 2) if padding is None else padding)


class InceptionA(nn.Module):
    """Pixels, 5 x 5, 3 x 3 twice, and the mean of neighbours."""

    def __init__(self, in_channels: int, pool_features: int) -> None:
        super().__init__()
        self.branch1x1 = _conv(in_channels, 64)
        self.branch5x5_1, self.branch5x5_2 = _conv(in_channels, 48), _conv(48, 64, 5)
        self.branch3x3dbl_1, self.branch3x3dbl_2, self.branch3x3dbl_3 = _conv(in_channels, 64), _conv(64, 96, 3), _conv(96, 96, 3)
        self.branch_pool = _conv(in_channels, pool_features)

    def forward(self, x: Tensor) -> Tensor:
        return cat([self.branch1x1(x), self.branch5x5_2(self.branch5x5_1(x)),
                    self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))), self.branch_pool(F.avg_pool2d(x, 3, 1, 1))], 1)


class InceptionB(nn.Module):
    """To half the size."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.branch3x3 = _conv(in_channels, 384, 3, 2, 0)
        self.branch3x3dbl_1, self.branch3x3dbl_2, self.branch3x3dbl_3 = _conv(in_channels, 64), _conv(64, 96, 3), _conv(96, 96, 3, 2, 0)

    def forward(self, x: Tensor) -> Tensor:
        return cat([self.branch3x3(x), self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x))), F.max_pool2d(x, 3, 2)], 1)


class InceptionC(nn.Module):
    """7 x 7 as rows and columns."""

    def __init__(self, in_channels: int, channels_7x7: int) -> None:
        super().__init__()
        c, row, column = channels_7x7, (1, 7), (7, 1)
        self.branch1x1 = _conv(in_channels, 192)
        self.branch7x7_1, self.branch7x7_2, self.branch7x7_3 = _conv(in_channels, c), _conv(c, c, row), _conv(c, 192, column)
        self.branch7x7dbl_1, self.branch7x7dbl_2, self.branch7x7dbl_3 = _conv(in_channels, c), _conv(c, c, column), _conv(c, c, row)
        self.branch7x7dbl_4, self.branch7x7dbl_5, self.branch_pool = _conv(c, c, column), _conv(c, 192, row), _conv(in_channels, 192)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        return cat([self.branch1x1(x), self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x))),
                    self.branch7x7dbl_5(self.branch7x7dbl_4(double)), self.branch_pool(F.avg_pool2d(x, 3, 1, 1))], 1)


class InceptionD(nn.Module):
    """To half the size."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.branch3x3_1, self.branch3x3_2 = _conv(in_channels, 192), _conv(192, 320, 3, 2, 0)
        self.branch7x7x3_1, self.branch7x7x3_2 = _conv(in_channels, 192), _conv(192, 192, (1, 7))
        self.branch7x7x3_3, self.branch7x7x3_4 = _conv(192, 192, (7, 1)), _conv(192, 192, 3, 2, 0)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.branch7x7x3_2(self.branch7x7x3_1(x))
        return cat([self.branch3x3_2(self.branch3x3_1(x)), self.branch7x7x3_4(self.branch7x7x3_3(rows)), F.max_pool2d(x, 3, 2)], 1)


class InceptionE(nn.Module):
    """3 x 3 as rows and columns side by side."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        row, column = (1, 3), (3, 1)
        self.branch1x1, self.branch3x3_1 = _conv(in_channels, 320), _conv(in_channels, 384)
        self.branch3x3_2a, self.branch3x3_2b = _conv(384, 384, row), _conv(384, 384, column)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = _conv(in_channels, 448), _conv(448, 384, 3)
        self.branch3x3dbl_3a, self.branch3x3dbl_3b = _conv(384, 384, row), _conv(384, 384, column)
        self.branch_pool = _conv(in_channels, 192)

    def forward(self, x: Tensor) -> Tensor:
        single, double = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        return cat([self.branch1x1(x), self.branch3x3_2a(single), self.branch3x3_2b(single), self.branch3x3dbl_3a(double),
                    self.branch3x3dbl_3b(double), self.branch_pool(F.avg_pool2d(x, 3, 1, 1))], 1)


class InceptionAux(nn.Module):
    """A head inside the network, for training."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.conv0, self.conv1, self.fc = _conv(in_channels, 128), _conv(128, 768, 5, 1, 0), nn.Linear(768, num_classes)
        self.fc.stddev = 0.001

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.adaptive_avg_pool2d(self.conv1(self.conv0(F.avg_pool2d(x, 5, 3))), (1, 1)).flatten(1))


class Inception3(nn.Module):
    """Eleven Inception modules, for images of 299 x 299; in training, a tuple of the results of two heads."""

    def __init__(self, num_classes: int = 1000, aux_logits: bool = True, transform_input: bool = False, init_weights: bool | None = True,
                 dropout: float = 0.5) -> None:
        super().__init__()
        self.aux_logits, self.transform_input = aux_logits, transform_input
        self.Conv2d_1a_3x3, self.Conv2d_2a_3x3 = _conv(3, 32, 3, 2, 0), _conv(32, 32, 3, 1, 0)
        self.Conv2d_2b_3x3, self.maxpool1 = _conv(32, 64, 3), nn.MaxPool2d(3, 2)
        self.Conv2d_3b_1x1, self.Conv2d_4a_3x3, self.maxpool2 = _conv(64, 80), _conv(80, 192, 3, 1, 0), nn.MaxPool2d(3, 2)
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = InceptionA(192, 32), InceptionA(256, 64), InceptionA(288, 64)
        self.Mixed_6a, self.Mixed_6b, self.Mixed_6c = InceptionB(288), InceptionC(768, 128), InceptionC(768, 160)
        self.Mixed_6d, self.Mixed_6e = InceptionC(768, 160), InceptionC(768, 192)
        self.AuxLogits = InceptionAux(768, num_classes) if aux_logits else None
        self.Mixed_7a, self.Mixed_7b, self.Mixed_7c = InceptionD(768), InceptionE(1280), InceptionE(2048)
        self.avgpool, self.dropout, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Dropout(dropout), nn.Linear(2048, num_classes)
        if init_weights is not False:
            init_truncated(self, 0.1)

    def drop_auxiliary(self) -> None:
        """Go without the head of training."""
        self.aux_logits, self.AuxLogits = False, None

    def forward(self, x: Tensor) -> Tensor | InceptionOutputs:
        x = as_other_weights_take(x) if self.transform_input else x
        x = self.maxpool1(self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x))))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(self.maxpool2(self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(x))))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))))
        aux = self.AuxLogits(x) if self.AuxLogits is not None and self.training else None
        x = self.fc(self.dropout(self.avgpool(self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x))))).flatten(1))
        return InceptionOutputs(x, aux) if self.training and self.aux_logits else x


@published("Inception_V3_Weights", Weights("inception_v3_google-0cc3c7bd.pth", 299, 342), auxiliary=True)
def inception_v3(**options: Any) -> Inception3:
    """Inception v3."""
    return Inception3(**options)
