"""EfficientNet and EfficientNetV2. Sources: Tan and Le, EfficientNet: Rethinking Model Scaling; EfficientNetV2: Smaller Models and Faster
Training."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.vision.models.weights import Weights, published
from volta.vision.ops.layers import Conv2dNormActivation, SqueezeExcitation, StochasticDepth, make_divisible
from volta.vision.transforms.functional import InterpolationMode

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["EfficientNet", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4", "efficientnet_b5",
           "efficientnet_b6", "efficientnet_b7", "efficientnet_v2_l", "efficientnet_v2_m", "efficientnet_v2_s"]


@dataclass
class MBConvConfig:
    """A stage: its blocks, of `MBConv` or `FusedMBConv`."""
    expand_ratio: float
    kernel: int
    stride: int
    input_channels: int
    out_channels: int
    num_layers: int
    fused: bool = False


class _Block(nn.Module):
    """Layers and, where shapes allow, a shortcut around them."""

    def __init__(self, cnf: MBConvConfig, stochastic_depth_prob: float, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.use_res_connect = cnf.stride == 1 and cnf.input_channels == cnf.out_channels
        self.block = nn.Sequential(*layers)
        self.stochastic_depth, self.out_channels = StochasticDepth(stochastic_depth_prob, "row"), cnf.out_channels

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result = self.stochastic_depth(result)
            result += input
        return result


class MBConv(_Block):
    """Many channels between few: each is convolved by itself in the middle, and weighed."""

    def __init__(self, cnf: MBConvConfig, stochastic_depth_prob: float, norm_layer: Callable[..., nn.Module]) -> None:
        shared = {"norm_layer": norm_layer, "activation_layer": nn.SiLU}
        width = make_divisible(cnf.input_channels * cnf.expand_ratio, 8)
        layers: list[nn.Module] = [Conv2dNormActivation(cnf.input_channels, width, 1, **shared)] if width != cnf.input_channels else []
        layers += [Conv2dNormActivation(width, width, cnf.kernel, cnf.stride, groups=width, **shared),
                   SqueezeExcitation(width, max(1, cnf.input_channels // 4), functools.partial(nn.SiLU, inplace=True)),
                   Conv2dNormActivation(width, cnf.out_channels, 1, norm_layer=norm_layer, activation_layer=None)]
        super().__init__(cnf, stochastic_depth_prob, layers)


class FusedMBConv(_Block):
    """Many channels between few, of one convolution."""

    def __init__(self, cnf: MBConvConfig, stochastic_depth_prob: float, norm_layer: Callable[..., nn.Module]) -> None:
        width = make_divisible(cnf.input_channels * cnf.expand_ratio, 8)
        expands = width != cnf.input_channels
        layers: list[nn.Module] = [Conv2dNormActivation(cnf.input_channels, width if expands else cnf.out_channels, cnf.kernel, cnf.stride,
                                                        norm_layer=norm_layer, activation_layer=nn.SiLU)]
        if expands:
            layers.append(Conv2dNormActivation(width, cnf.out_channels, 1, norm_layer=norm_layer, activation_layer=None))
        super().__init__(cnf, stochastic_depth_prob, layers)


class EfficientNet(nn.Module):
    """Stages of blocks; the deeper a block, the likelier it is left out of a step."""

    def __init__(self, inverted_residual_setting: Sequence[MBConvConfig], dropout: float, stochastic_depth_prob: float = 0.2,
                 num_classes: int = 1000, norm_layer: Callable[..., nn.Module] | None = None, last_channel: int | None = None) -> None:
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        norm_layer = norm_layer or nn.BatchNorm2d
        shared = {"norm_layer": norm_layer, "activation_layer": nn.SiLU}
        layers: list[nn.Module] = [Conv2dNormActivation(3, inverted_residual_setting[0].input_channels, 3, 2, **shared)]
        total, done = sum(cnf.num_layers for cnf in inverted_residual_setting), 0
        for cnf in inverted_residual_setting:
            stage = []
            for i in range(cnf.num_layers):
                block = replace(cnf, input_channels=cnf.out_channels, stride=1) if i else cnf
                stage.append((FusedMBConv if cnf.fused else MBConv)(block, stochastic_depth_prob * done / total, norm_layer))
                done += 1
            layers.append(nn.Sequential(*stage))
        before = inverted_residual_setting[-1].out_channels
        last = 4 * before if last_channel is None else last_channel
        self.features = nn.Sequential(*layers, Conv2dNormActivation(before, last, 1, **shared))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(dropout, inplace=True), nn.Linear(last, num_classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, nn.Linear):
                bound = 1 / math.sqrt(module.out_features)
                nn.init.uniform_(module.weight, -bound, bound)
            if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _b(width, depth, dropout, **options):
    """EfficientNet with this many times the channels and blocks of B0."""
    stages = ((1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3), (6, 5, 1, 80, 112, 3),
              (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1))
    setting = [MBConvConfig(*head, make_divisible(before * width, 8), make_divisible(after * width, 8), math.ceil(count * depth))
               for *head, before, after, count in stages]
    return EfficientNet(setting, options.pop("dropout", dropout), **options)


def _v2(stages, dropout, **options):
    """EfficientNetV2 of stages (expansion, stride, channels, blocks), the first three fused."""
    setting, channels = [], stages[0][2]
    for i, (expansion, stride, width, count) in enumerate(stages):
        setting.append(MBConvConfig(expansion, 3, stride, channels, width, count, fused=i < 3))
        channels = width
    options = {"norm_layer": functools.partial(nn.BatchNorm2d, eps=1e-3), "last_channel": 1280, **options}
    return EfficientNet(setting, options.pop("dropout", dropout), **options)


_LARGE_NORM = functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
_BICUBIC = InterpolationMode.BICUBIC


@published("EfficientNet_B0_Weights", Weights("efficientnet_b0_rwightman-7f5810bc.pth", 224, 256, _BICUBIC))
def efficientnet_b0(**options: Any) -> EfficientNet:
    """EfficientNet B0."""
    return _b(1.0, 1.0, 0.2, **options)


@published("EfficientNet_B1_Weights", Weights("efficientnet_b1_rwightman-bac287d4.pth", 240, 256, _BICUBIC),
           Weights("efficientnet_b1-c27df63c.pth", 240, 255))
def efficientnet_b1(**options: Any) -> EfficientNet:
    """EfficientNet B1."""
    return _b(1.0, 1.1, 0.2, **options)


@published("EfficientNet_B2_Weights", Weights("efficientnet_b2_rwightman-c35c1473.pth", 288, 288, _BICUBIC))
def efficientnet_b2(**options: Any) -> EfficientNet:
    """EfficientNet B2."""
    return _b(1.1, 1.2, 0.3, **options)


@published("EfficientNet_B3_Weights", Weights("efficientnet_b3_rwightman-b3899882.pth", 300, 320, _BICUBIC))
def efficientnet_b3(**options: Any) -> EfficientNet:
    """EfficientNet B3."""
    return _b(1.2, 1.4, 0.3, **options)


@published("EfficientNet_B4_Weights", Weights("efficientnet_b4_rwightman-23ab8bcd.pth", 380, 384, _BICUBIC))
def efficientnet_b4(**options: Any) -> EfficientNet:
    """EfficientNet B4."""
    return _b(1.4, 1.8, 0.4, **options)


@published("EfficientNet_B5_Weights", Weights("efficientnet_b5_lukemelas-1a07897c.pth", 456, 456, _BICUBIC))
def efficientnet_b5(**options: Any) -> EfficientNet:
    """EfficientNet B5."""
    return _b(1.6, 2.2, 0.4, **{"norm_layer": _LARGE_NORM, **options})


@published("EfficientNet_B6_Weights", Weights("efficientnet_b6_lukemelas-24a108a5.pth", 528, 528, _BICUBIC))
def efficientnet_b6(**options: Any) -> EfficientNet:
    """EfficientNet B6."""
    return _b(1.8, 2.6, 0.5, **{"norm_layer": _LARGE_NORM, **options})


@published("EfficientNet_B7_Weights", Weights("efficientnet_b7_lukemelas-c5b4e57e.pth", 600, 600, _BICUBIC))
def efficientnet_b7(**options: Any) -> EfficientNet:
    """EfficientNet B7."""
    return _b(2.0, 3.1, 0.5, **{"norm_layer": _LARGE_NORM, **options})


@published("EfficientNet_V2_S_Weights", Weights("efficientnet_v2_s-dd5fe13b.pth", 384, 384))
def efficientnet_v2_s(**options: Any) -> EfficientNet:
    """EfficientNetV2, small."""
    return _v2(((1, 1, 24, 2), (4, 2, 48, 4), (4, 2, 64, 4), (4, 2, 128, 6), (6, 1, 160, 9), (6, 2, 256, 15)), 0.2, **options)


@published("EfficientNet_V2_M_Weights", Weights("efficientnet_v2_m-dc08266a.pth", 480, 480))
def efficientnet_v2_m(**options: Any) -> EfficientNet:
    """EfficientNetV2, medium."""
    return _v2(((1, 1, 24, 3), (4, 2, 48, 5), (4, 2, 80, 5), (4, 2, 160, 7), (6, 1, 176, 14), (6, 2, 304, 18), (6, 1, 512, 5)), 0.3,
               **options)


@published("EfficientNet_V2_L_Weights", Weights("efficientnet_v2_l-59c71312.pth", 480, 480, _BICUBIC, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)))
def efficientnet_v2_l(**options: Any) -> EfficientNet:
    """EfficientNetV2, large."""
    return _v2(((1, 1, 32, 4), (4, 2, 64, 7), (4, 2, 96, 7), (4, 2, 192, 10), (6, 1, 224, 19), (6, 2, 384, 25), (6, 1, 640, 7)), 0.4,
               **options)
