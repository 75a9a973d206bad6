"""MobileNetV2. Source: Sandler et al., MobileNetV2: Inverted Residuals and Linear Bottlenecks."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.nn import functional as F
from volta.vision.models.weights import Weights, published
from volta.vision.ops.layers import Conv2dNormActivation, make_divisible

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["InvertedResidual", "MobileNetV2", "mobilenet_v2"]


def init_mobile(model: nn.Module) -> None:
    """The initial values of the mobile networks."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
        if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
            nn.init.zeros_(module.bias)


class InvertedResidual(nn.Module):
    """Many channels between few: each is convolved by itself in the middle."""

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError(f"stride should be 1 or 2 instead of {stride}")
        norm_layer = norm_layer or nn.BatchNorm2d
        self.stride, self.use_res_connect, self.out_channels = stride, stride == 1 and inp == oup, oup
        self._is_cn = stride > 1                    # a new size begins here: what feature extractors look at
        hidden = round(inp * expand_ratio)
        layers = [Conv2dNormActivation(inp, hidden, 1, norm_layer=norm_layer, activation_layer=nn.ReLU6)] if expand_ratio != 1 else []
        self.conv = nn.Sequential(*layers, Conv2dNormActivation(hidden, hidden, stride=stride, groups=hidden, norm_layer=norm_layer,
                                                                activation_layer=nn.ReLU6),
                                  nn.Conv2d(hidden, oup, 1, bias=False), norm_layer(oup))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


class MobileNetV2(nn.Module):
    """Stages of (expansion, channels, blocks, stride)."""

    def __init__(self, num_classes: int = 1000, width_mult: float = 1.0, inverted_residual_setting: Sequence[Sequence[int]] | None = None,
                 round_nearest: int = 8, block: Callable[..., nn.Module] | None = None,
                 norm_layer: Callable[..., nn.Module] | None = None, dropout: float = 0.2) -> None:
        super().__init__()
        block, norm_layer = block or InvertedResidual, norm_layer or nn.BatchNorm2d
        stages = inverted_residual_setting or ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                               (6, 320, 1, 1))
        if len(stages[0]) != 4:
            raise ValueError(f"inverted_residual_setting should be non-empty or a 4-element list, got {inverted_residual_setting}")
        channels = make_divisible(32 * width_mult, round_nearest)
        self.last_channel = make_divisible(1280 * max(1.0, width_mult), round_nearest)
        features = [Conv2dNormActivation(3, channels, stride=2, norm_layer=norm_layer, activation_layer=nn.ReLU6)]
        for expansion, width, count, stride in stages:
            width = make_divisible(width * width_mult, round_nearest)
            for i in range(count):
                features.append(block(channels, width, 1 if i else stride, expand_ratio=expansion, norm_layer=norm_layer))
                channels = width
        features.append(Conv2dNormActivation(channels, self.last_channel, 1, norm_layer=norm_layer, activation_layer=nn.ReLU6))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(self.last_channel, num_classes))
        init_mobile(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), (1, 1)).flatten(1))


@published("MobileNet_V2_Weights", "mobilenet_v2-b0353104.pth", Weights("mobilenet_v2-7ebf99e0.pth", 224, 232))
def mobilenet_v2(**options: Any) -> MobileNetV2:
    """MobileNetV2."""
    return MobileNetV2(**options)
