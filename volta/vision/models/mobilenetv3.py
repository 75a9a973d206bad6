"""MobileNetV3. Source: Howard et al., Searching for MobileNetV3."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.vision.models.mobilenetv2 import init_mobile
from volta.vision.models.weights import Weights, published
from volta.vision.ops.layers import Conv2dNormActivation, SqueezeExcitation, make_divisible

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["MobileNetV3", "mobilenet_v3_large", "mobilenet_v3_small"]


class InvertedResidualConfig:
    """A block: its channels at a width, kernel, squeeze and excitation, activation ("RE", "HS"), stride and dilation."""

    def __init__(self, input_channels: int, kernel: int, expanded_channels: int, out_channels: int, use_se: bool, activation: str,
                 stride: int, dilation: int, width_mult: float = 1.0) -> None:
        self.input_channels, self.expanded_channels, self.out_channels = (
            self.adjust_channels(channels, width_mult) for channels in (input_channels, expanded_channels, out_channels))
        self.kernel, self.use_se, self.use_hs, self.stride, self.dilation = kernel, use_se, activation == "HS", stride, dilation

    @staticmethod
    def adjust_channels(channels: int, width_mult: float) -> int:
        """A number of channels at this width."""
        return make_divisible(channels * width_mult, 8)


class InvertedResidual(nn.Module):
    """Many channels between few: each is convolved by itself in the middle, and some are weighed."""

    def __init__(self, cnf: InvertedResidualConfig, norm_layer: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.use_res_connect, self.out_channels = cnf.stride == 1 and cnf.input_channels == cnf.out_channels, cnf.out_channels
        self._is_cn = cnf.stride > 1                # a new size begins here: what feature extractors look at
        width, shared = cnf.expanded_channels, {"norm_layer": norm_layer, "activation_layer": nn.Hardswish if cnf.use_hs else nn.ReLU}
        layers: list[nn.Module] = [Conv2dNormActivation(cnf.input_channels, width, 1, **shared)] if width != cnf.input_channels else []
        layers.append(Conv2dNormActivation(width, width, cnf.kernel, 1 if cnf.dilation > 1 else cnf.stride, groups=width,
                                           dilation=cnf.dilation, **shared))
        if cnf.use_se:
            layers.append(SqueezeExcitation(width, make_divisible(width // 4, 8), scale_activation=nn.Hardsigmoid))
        layers.append(Conv2dNormActivation(width, cnf.out_channels, 1, norm_layer=norm_layer, activation_layer=None))
        self.block = nn.Sequential(*layers)

    def forward(self, input: Tensor) -> Tensor:
        result = self.block(input)
        if self.use_res_connect:
            result += input
        return result


class MobileNetV3(nn.Module):
    """Blocks, then `last_channel` hidden numbers."""

    def __init__(self, inverted_residual_setting: Sequence[InvertedResidualConfig], last_channel: int, num_classes: int = 1000,
                 block: Callable[..., nn.Module] | None = None, norm_layer: Callable[..., nn.Module] | None = None,
                 dropout: float = 0.2) -> None:
        super().__init__()
        if not inverted_residual_setting:
            raise ValueError("The inverted_residual_setting should not be empty")
        norm_layer = norm_layer or functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        shared = {"norm_layer": norm_layer, "activation_layer": nn.Hardswish}
        first, last = inverted_residual_setting[0].input_channels, inverted_residual_setting[-1].out_channels
        self.features = nn.Sequential(Conv2dNormActivation(3, first, 3, 2, **shared),
                                      *[(block or InvertedResidual)(cnf, norm_layer) for cnf in inverted_residual_setting],
                                      Conv2dNormActivation(last, 6 * last, 1, **shared))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(6 * last, last_channel), nn.Hardswish(inplace=True), nn.Dropout(dropout, inplace=True),
                                        nn.Linear(last_channel, num_classes))
        init_mobile(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _mobilenet_v3(blocks, last_channel, width_mult=1.0, reduced_tail=False, dilated=False, **options):
    """A network of blocks (channels in, kernel, inside, out, squeeze, activation, stride); the last three may be dilated or halved."""
    setting, channels = [], blocks[0][0]
    for i, (kernel, inside, out, squeeze, activation, stride) in enumerate(block[1:] for block in blocks):
        tail = i >= len(blocks) - 3
        if tail and reduced_tail:
            out, inside = out // 2, inside // 2 if i > len(blocks) - 3 else inside
        setting.append(InvertedResidualConfig(channels, kernel, inside, out, squeeze, activation, stride, 1 + (tail and dilated),
                                              width_mult))
        channels = out
    last = InvertedResidualConfig.adjust_channels(last_channel // (1 + reduced_tail), width_mult)
    return MobileNetV3(setting, last, **options)


@published("MobileNet_V3_Large_Weights", "mobilenet_v3_large-8738ca79.pth", Weights("mobilenet_v3_large-5c1a4163.pth", 224, 232))
def mobilenet_v3_large(**options: Any) -> MobileNetV3:
    """MobileNetV3, large."""
    return _mobilenet_v3([
        (16, 3, 16, 16, False, "RE", 1), (16, 3, 64, 24, False, "RE", 2), (24, 3, 72, 24, False, "RE", 1), (24, 5, 72, 40, True, "RE", 2),
        (40, 5, 120, 40, True, "RE", 1), (40, 5, 120, 40, True, "RE", 1), (40, 3, 240, 80, False, "HS", 2),
        (80, 3, 200, 80, False, "HS", 1), (80, 3, 184, 80, False, "HS", 1), (80, 3, 184, 80, False, "HS", 1),
        (80, 3, 480, 112, True, "HS", 1),
        (112, 3, 672, 112, True, "HS", 1), (112, 5, 672, 160, True, "HS", 2), (160, 5, 960, 160, True, "HS", 1),
        (160, 5, 960, 160, True, "HS", 1)], 1280, **options)


@published("MobileNet_V3_Small_Weights", "mobilenet_v3_small-047dcff4.pth")
def mobilenet_v3_small(**options: Any) -> MobileNetV3:
    """MobileNetV3, small."""
    return _mobilenet_v3([
        (16, 3, 16, 16, True, "RE", 2), (16, 3, 72, 24, False, "RE", 2), (24, 3, 88, 24, False, "RE", 1), (24, 5, 96, 40, True, "HS", 2),
        (40, 5, 240, 40, True, "HS", 1), (40, 5, 240, 40, True, "HS", 1), (40, 5, 120, 48, True, "HS", 1), (48, 5, 144, 48, True, "HS", 1),
        (48, 5, 288, 96, True, "HS", 2), (96, 5, 576, 96, True, "HS", 1), (96, 5, 576, 96, True, "HS", 1)], 1024, **options)
