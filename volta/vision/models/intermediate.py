"""Networks that stop where others go on, and give what they have found on the way."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from volta import nn

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["IntermediateLayerGetter"]


class IntermediateLayerGetter(nn.ModuleDict):
    """The children of a model, called one after another up to the last of `return_layers`, which says under which names what each of
    its layers gives is returned. Layers must be children, in the order in which `forward` calls them."""

    def __init__(self, model: nn.Module, return_layers: Mapping[str, str]) -> None:
        children = dict(model.named_children())
        if not set(return_layers) <= set(children):
            raise ValueError(f"return_layers are not present in model: {sorted(set(return_layers) - set(children))}")
        last = max((list(children).index(str(name)) for name in return_layers), default=-1)
        super().__init__({name: children[name] for name in list(children)[:last + 1]})
        self.return_layers = {str(name): str(key) for name, key in return_layers.items()}

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        out = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out


def stages(features: nn.Sequential) -> list[int]:
    """Where in a mobile network's layers the size changes: the first layer, those with a stride, the last."""
    return [0, *(i for i, layer in enumerate(features) if getattr(layer, "_is_cn", False)), len(features) - 1]
