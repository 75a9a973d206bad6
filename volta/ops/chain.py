"""Functions made of elementwise records, which a GPU computes in one dispatch, as it does each of their derivatives."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from volta._kernels.core import TensorBase
from volta.dtypes import float32
from volta.errors import ShapeError
from volta.ops.records.chain import apply, chain_of
from volta.shapes import broadcast_shapes

if TYPE_CHECKING:
    from volta.tensor import Tensor


def fused(function: Callable, *tensors: Tensor, numbers: tuple = (), **flags: object) -> Tensor:
    """function(*tensors, *numbers, **flags) of a function of a module, which calls nothing but elementwise records and is recorded as one
    of tensors of float32 on a GPU. `flags` are what it decides by; its numbers take no part in that."""
    if _on_a_gpu(tensors) and _broadcast(tensors):
        return apply(chain_of(function, len(tensors), len(numbers), **flags), tensors, tuple(map(float, numbers)))
    return function(*tensors, *numbers, **flags)


def _on_a_gpu(tensors):
    device = getattr(tensors[0], "device", None)
    return device is not None and device.is_gpu and all(
        isinstance(x, TensorBase) and x.dtype is float32 and x.device is device for x in tensors)


def _broadcast(tensors):
    try:
        return broadcast_shapes(*[x._shape for x in tensors]) is not None
    except ShapeError:                          # which the first record to meet it says better
        return False
