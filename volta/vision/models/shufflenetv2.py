"""ShuffleNetV2. Source: Ma et al., ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture Design."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.nn import functional as F
from volta.ops.join import cat
from volta.vision.models.weights import Weights, published

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["ShuffleNetV2", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0"]


def _pixels(inp, oup):
    """A convolution of single pixels."""
    return nn.Conv2d(inp, oup, 1, bias=False), nn.BatchNorm2d(oup), nn.ReLU(inplace=True)


def _depthwise(channels, stride):
    """A convolution of each channel by itself."""
    return nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False), nn.BatchNorm2d(channels)


class InvertedResidual(nn.Module):
    """One half of the channels convolved, then the halves interleaved; at stride 2, both."""

    def __init__(self, inp: int, oup: int, stride: int) -> None:
        super().__init__()
        half = oup // 2
        if stride == 1 and inp != half * 2:
            raise ValueError(f"Invalid combination of stride {stride}, inp {inp} and oup {oup} values")
        self.stride = stride
        self.branch1 = nn.Sequential(*_depthwise(inp, stride), *_pixels(inp, half)) if stride > 1 else nn.Sequential()
        self.branch2 = nn.Sequential(*_pixels(inp if stride > 1 else half, half), *_depthwise(half, stride), *_pixels(half, half))

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, 1) if self.stride == 1 else (self.branch1(x), x)
        return F.channel_shuffle(cat([kept, self.branch2(changed)], 1), 2)


class ShuffleNetV2(nn.Module):
    """Three stages of `stages_repeats` blocks."""

    def __init__(self, stages_repeats: Sequence[int], stages_out_channels: Sequence[int], num_classes: int = 1000) -> None:
        super().__init__()
        first, *widths, last = stages_out_channels
        self.conv1 = nn.Sequential(nn.Conv2d(3, first, 3, 2, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU(inplace=True))
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for i, (before, width, count) in enumerate(zip([first, *widths], widths, stages_repeats)):
            blocks = [InvertedResidual(width if j else before, width, 1 if j else 2) for j in range(count)]
            setattr(self, f"stage{i + 2}", nn.Sequential(*blocks))
        self.conv5, self.fc = nn.Sequential(*_pixels(widths[-1], last)), nn.Linear(last, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage4(self.stage3(self.stage2(self.maxpool(self.conv1(x)))))
        return self.fc(self.conv5(x).mean([2, 3]))


@published("ShuffleNet_V2_X0_5_Weights", "shufflenetv2_x0.5-f707e7126e.pth")
def shufflenet_v2_x0_5(**options: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of half the width."""
    return ShuffleNetV2((4, 8, 4), (24, 48, 96, 192, 1024), **options)


@published("ShuffleNet_V2_X1_0_Weights", "shufflenetv2_x1-5666bf0f80.pth")
def shufflenet_v2_x1_0(**options: Any) -> ShuffleNetV2:
    """ShuffleNetV2."""
    return ShuffleNetV2((4, 8, 4), (24, 116, 232, 464, 1024), **options)


@published("ShuffleNet_V2_X1_5_Weights", Weights("shufflenetv2_x1_5-3c479a10.pth", 224, 232))
def shufflenet_v2_x1_5(**options: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of one and a half times the width."""
    return ShuffleNetV2((4, 8, 4), (24, 176, 352, 704, 1024), **options)


@published("ShuffleNet_V2_X2_0_Weights", Weights("shufflenetv2_x2_0-8be3c8ee.pth", 224, 232))
def shufflenet_v2_x2_0(**options: Any) -> ShuffleNetV2:
    """ShuffleNetV2 of twice the width."""
    return ShuffleNetV2((4, 8, 4), (24, 244, 488, 976, 2048), **options)
