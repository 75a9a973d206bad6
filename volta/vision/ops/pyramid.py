"""Feature pyramids: maps of several sizes, each merged with the smaller ones. Source: Lin et al., Feature Pyramid Networks."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from volta import nn
from volta.nn import functional as F
from volta.vision.ops.layers import Conv2dNormActivation

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["ExtraFPNBlock", "FeaturePyramidNetwork", "LastLevelMaxPool", "LastLevelP6P7"]


class ExtraFPNBlock(nn.Module):
    """Makes further levels of a pyramid: takes the levels, the maps that they came from and the names, gives levels and names."""

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        raise NotImplementedError(f"{type(self).__name__}: define forward(self, results, x, names)")


class FeaturePyramidNetwork(nn.Module):
    """A dict of maps, the largest first, with `in_channels_list` channels: each is added to the next smaller one, enlarged, and has
    `out_channels` then.

    >>> maps = {"a": volta.ones(1, 2, 8, 8), "b": volta.ones(1, 4, 4, 4)}
    >>> [m.shape for m in volta.vision.ops.FeaturePyramidNetwork([2, 4], 3)(maps).values()]
    [volta.Size([1, 3, 8, 8]), volta.Size([1, 3, 4, 4])]
    """

    def __init__(self, in_channels_list: Sequence[int], out_channels: int, extra_blocks: ExtraFPNBlock | None = None,
                 norm_layer: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        if 0 in in_channels_list:
            raise ValueError("in_channels=0 is currently not supported")
        shared = {"norm_layer": norm_layer, "activation_layer": None}
        self.inner_blocks = nn.ModuleList([Conv2dNormActivation(n, out_channels, 1, **shared) for n in in_channels_list])
        self.layer_blocks = nn.ModuleList([Conv2dNormActivation(out_channels, out_channels, 3, **shared) for _ in in_channels_list])
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                _start(module)
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError(f"extra_blocks should be of type ExtraFPNBlock not {type(extra_blocks)}")
        self.extra_blocks = extra_blocks
        self.register_load_state_dict_pre_hook(_rename_old_keys)

    def forward(self, x: Mapping[str, Tensor]) -> dict[str, Tensor]:
        names, maps = list(x), list(x.values())
        merged, results = None, []
        for inner, layer, map in reversed(list(zip(self.inner_blocks, self.layer_blocks, maps))):
            lateral = inner(map)
            merged = lateral if merged is None else lateral + F.interpolate(merged, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, layer(merged))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results))


def _rename_old_keys(module, state, prefix, *_):
    """Files of torchvision's first pyramids have a convolution where now a block of layers begins."""
    for block in ("inner_blocks", "layer_blocks"):
        for i in range(len(module.inner_blocks)):
            for kind in ("weight", "bias"):
                if f"{prefix}{block}.{i}.{kind}" in state:
                    state[f"{prefix}{block}.{i}.0.{kind}"] = state.pop(f"{prefix}{block}.{i}.{kind}")


def _start(conv):
    nn.init.kaiming_uniform_(conv.weight, a=1)
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)


class LastLevelMaxPool(ExtraFPNBlock):
    """Every second pixel of the smallest level, under the name "pool"."""

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        return [*results, F.max_pool2d(results[-1], 1, 2, 0)], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Two smaller levels by convolutions, as RetinaNet has them."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6, self.p7 = nn.Conv2d(in_channels, out_channels, 3, 2, 1), nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        _start(self.p6)
        _start(self.p7)
        self.use_P5 = in_channels == out_channels

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        p6 = self.p6(results[-1] if self.use_P5 else x[-1])
        return [*results, p6, self.p7(F.relu(p6))], [*names, "p6", "p7"]
