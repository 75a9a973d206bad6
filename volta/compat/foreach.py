"""PyTorch's inner functions over lists of tensors, torch._foreach_add_ and the like, which optimizers of scripts call."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from volta.tensor import Tensor

_BOTH = ("abs add addcdiv addcmul ceil clamp_max clamp_min cos div erf exp expm1 floor lerp log log1p log2 log10 maximum minimum mul neg "
         "pow reciprocal round rsqrt sigmoid sign sin sqrt sub tan tanh trunc").split()


_METHODS = {"maximum": "clamp_min", "minimum": "clamp_max", "maximum_": "clamp_min_", "minimum_": "clamp_max_"}     # take numbers, too


def _foreach(name: str) -> Callable[..., Any]:
    """The function that calls a method of each tensor; a list among the arguments has one for each."""
    method = _METHODS.get(name, name)

    def call(self: Sequence[Tensor], *args: Any, **options: Any) -> list[Tensor] | None:
        options = {"p" if name == "norm" and key == "ord" else key: value for key, value in options.items()}
        if lengths := {len(a) for a in (*args, *options.values()) if isinstance(a, (list, tuple))} - {len(self)}:
            raise RuntimeError(f"_foreach_{name}: Tensor lists must have the same number of tensors, got {len(self)} and {lengths.pop()}")

        def own(value, i):
            return value[i] if isinstance(value, (list, tuple)) else value
        results = [getattr(x, method)(*(own(a, i) for a in args), **{key: own(value, i) for key, value in options.items()})
                   for i, x in enumerate(self)]
        return None if name.endswith("_") else results
    call.__name__ = call.__qualname__ = f"_foreach_{name}"
    return call


def _group_tensors_by_device_and_dtype(tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False) -> dict[Any, Any]:
    """The lists in parts, for each device and dtype of the first list's tensors: (the lists, the indices of what is in them)."""
    groups: dict[Any, list[int]] = {}
    for i, x in enumerate(tensorlistlist[0]):
        groups.setdefault((x.device, x.dtype), []).append(i)
    return {key: ([[each[i] for i in found] for each in tensorlistlist], found if with_indices else []) for key, found in groups.items()}


FOREACH = {f"_foreach_{name}": _foreach(name) for name in (*_BOTH, *(f"{name}_" for name in _BOTH), "copy_", "max", "norm", "zero_")}
