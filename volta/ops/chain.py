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


def fused(function: Callable, *operands: Tensor | float, **flags: object) -> Tensor:
    """function(*operands, **flags) of tensors and behind them numbers: a function of a module, which calls nothing but elementwise records
    and is recorded as one of tensors of float32 on a GPU. `flags` are what it decides by; its numbers take no part in that."""
    first = operands[0]
    if isinstance(first, TensorBase) and first.storage.device.is_gpu:
        tensors = tuple([x for x in operands if isinstance(x, TensorBase)])
        if _may_be_one(tensors):
            numbers = tuple(map(float, operands[len(tensors):]))
            return apply(chain_of(function, len(tensors), len(numbers), **flags), tensors, numbers)
    return function(*operands, **flags)


def _may_be_one(tensors):
    device = tensors[0].device
    if not all(x.dtype is float32 and x.device is device for x in tensors):
        return False
    try:
        return broadcast_shapes(*[x._shape for x in tensors]) is not None
    except ShapeError:                          # which the first record to meet it says better
        return False
