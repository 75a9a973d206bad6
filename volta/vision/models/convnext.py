"""ConvNeXt. Source: Liu et al., A ConvNet for the 2020s."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.ops.creation import full
from volta.vision.models.weights import Weights, published
from volta.vision.ops.layers import Conv2dNormActivation, Permute, StochasticDepth

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["ConvNeXt", "convnext_base", "convnext_large", "convnext_small", "convnext_tiny"]


class LayerNorm2d(nn.LayerNorm):
    """Layer normalization over the channels of images."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    """Each channel convolved by itself, then a network of each pixel's channels, and a shortcut."""

    def __init__(self, dim: int, layer_scale: float, stochastic_depth_prob: float,
                 norm_layer: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        norm = (norm_layer or functools.partial(nn.LayerNorm, eps=1e-6))(dim)
        self.block = nn.Sequential(nn.Conv2d(dim, dim, 7, padding=3, groups=dim), Permute([0, 2, 3, 1]), norm, nn.Linear(dim, 4 * dim),
                                   nn.GELU(), nn.Linear(4 * dim, dim), Permute([0, 3, 1, 2]))
        self.layer_scale = nn.Parameter(full((dim, 1, 1), layer_scale))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        return self.stochastic_depth(self.layer_scale * self.block(input)) + input


@dataclass
class CNBlockConfig:
    """A stage: its channels, those of the next one, its blocks."""
    input_channels: int
    out_channels: int | None
    num_layers: int


class ConvNeXt(nn.Module):
    """Stages of blocks with half the size between them; the deeper a block, the likelier it is left out of a step."""

    def __init__(self, block_setting: Sequence[CNBlockConfig], stochastic_depth_prob: float = 0.0, layer_scale: float = 1e-6,
                 num_classes: int = 1000, block: Callable[..., nn.Module] | None = None,
                 norm_layer: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        if not block_setting:
            raise ValueError("The block_setting should not be empty")
        norm_layer = norm_layer or functools.partial(LayerNorm2d, eps=1e-6)
        layers: list[nn.Module] = [Conv2dNormActivation(3, block_setting[0].input_channels, 4, 4, 0, norm_layer=norm_layer,
                                                        activation_layer=None, bias=True)]
        total, done = sum(cnf.num_layers for cnf in block_setting), 0
        for cnf in block_setting:
            layers.append(nn.Sequential(*[(block or CNBlock)(cnf.input_channels, layer_scale, stochastic_depth_prob * i / (total - 1.0))
                                          for i in range(done, done + cnf.num_layers)]))
            done += cnf.num_layers
            if cnf.out_channels is not None:
                layers.append(nn.Sequential(norm_layer(cnf.input_channels), nn.Conv2d(cnf.input_channels, cnf.out_channels, 2, 2)))
        self.features, self.avgpool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1)
        width = block_setting[-1].out_channels or block_setting[-1].input_channels
        self.classifier = nn.Sequential(norm_layer(width), nn.Flatten(1), nn.Linear(width, num_classes))
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)))


def _convnext(widths, counts, stochastic_depth_prob, **options):
    """A network of stages of these channels and blocks."""
    setting = [CNBlockConfig(width, after, count) for width, after, count in zip(widths, [*widths[1:], None], counts)]
    return ConvNeXt(setting, options.pop("stochastic_depth_prob", stochastic_depth_prob), **options)


@published("ConvNeXt_Tiny_Weights", Weights("convnext_tiny-983f1562.pth", 224, 236))
def convnext_tiny(**options: Any) -> ConvNeXt:
    """ConvNeXt, tiny."""
    return _convnext((96, 192, 384, 768), (3, 3, 9, 3), 0.1, **options)


@published("ConvNeXt_Small_Weights", Weights("convnext_small-0c510722.pth", 224, 230))
def convnext_small(**options: Any) -> ConvNeXt:
    """ConvNeXt, small."""
    return _convnext((96, 192, 384, 768), (3, 3, 27, 3), 0.4, **options)


@published("ConvNeXt_Base_Weights", Weights("convnext_base-6075fbad.pth", 224, 232))
def convnext_base(**options: Any) -> ConvNeXt:
    """ConvNeXt, base."""
    return _convnext((128, 256, 512, 1024), (3, 3, 27, 3), 0.5, **options)


@published("ConvNeXt_Large_Weights", Weights("convnext_large-ea097f82.pth", 224, 232))
def convnext_large(**options: Any) -> ConvNeXt:
    """ConvNeXt, large."""
    return _convnext((192, 384, 768, 1536), (3, 3, 27, 3), 0.5, **options)
