"""Slices repeated as often as counts say."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase
from volta.dtypes import int32, int64
from volta.errors import ArgumentError, DTypeError, IndexRangeError, RankError
from volta.ops.creation import arange, ones_like
from volta.ops.indexing import as_vector, known_range
from volta.ops.math import clamp
from volta.ops.records.copy import cast
from volta.ops.records.index import index_add_op, index_select_op
from volta.ops.records.sort import searchsorted_op
from volta.ops.records.view import contiguous_op, expand_op, flat, reshape_op
from volta.ops.scan import cumsum
from volta.ops.table import Labels, case, composed
from volta.shapes import as_dim

if TYPE_CHECKING:

    from volta.tensor import Tensor


_FEW = 1024                 # counts whose place a CPU looks for sooner than it adds up where each begins


@composed(samples=(case((2, 3), repeats=2), case((2, 3), repeats=3, dim=1), case((2, 3), repeats=0, dim=1),
                   case((4, 3), Labels((4,), 5), 0), case((2, 3), Labels((6,), 3)), case((2, 3), Labels((1,), 3), 1)),
          kinds="fib", reads=True, numpy=lambda x, repeats, dim=None: np.repeat(x, repeats, dim))
def repeat_interleave(input: Tensor | None = None, repeats: int | Tensor | None = None, dim: int | None = None, *,
                      output_size: int | None = None) -> Tensor:
    """Each slice along `dim` so many times in a row, by one count for all or one for each; without `dim`, of the elements as one dimension.
    Of counts alone: the position of each count, that many times. `output_size`, the sum of the counts, saves reading it from a tensor.

    Raises: ArgumentError for a negative count, or for an output_size that is not their sum; ShapeError unless there is one for each slice;
    DTypeError for counts without a tensor, and unless they are integers; IndexRangeError for a `dim` of a tensor without dimensions.

    >>> volta.repeat_interleave(volta.arange(2), volta.tensor([1, 2])).tolist()
    [0, 1, 1]
    """
    if input is None or repeats is None:
        counts = repeats if input is None else input
        if not isinstance(counts, TensorBase) or dim is not None:
            raise DTypeError("repeat_interleave: needs a tensor, and how often each of its elements is repeated; or counts alone, a vector")
        return cast(_repeated(counts, output_size), counts.dtype)
    if dim is None:
        input, dim = flat(input), 0
    elif not input._shape:
        raise IndexRangeError("repeat_interleave: a tensor without dimensions has none to repeat along; leave dim out")
    d = as_dim("repeat_interleave", dim, input.ndim)
    x, shape = as_vector(input), input.shape or (1,)
    if isinstance(repeats, TensorBase):
        if repeats.ndim > 1:
            raise RankError(f"repeat_interleave: repeats must be a number or a vector, got shape {repeats.shape}")
        repeats = expand_op(as_vector(repeats), shape=shape[d:d + 1]) if repeats._size == 1 else repeats
        if repeats.shape != shape[d:d + 1]:
            raise RankError(f"repeat_interleave: repeats of shape {repeats.shape} must be one count or a vector of {shape[d]}")
        return index_select_op(x, _repeated(repeats, output_size), dim=d)
    if not hasattr(repeats, "__index__") or repeats < 0 or repeats > 2 ** 60:
        raise ArgumentError(f"repeat_interleave: repeats must be an integer >= 0, got {repeats!r}")
    if output_size is not None and output_size != shape[d] * repeats:
        raise ArgumentError(f"repeat_interleave: output_size is {output_size}, but the counts add up to {shape[d] * repeats}")
    wide = expand_op(reshape_op(x, shape=shape[:d + 1] + (1,) + shape[d + 1:]), shape=shape[:d + 1] + (repeats,) + shape[d + 1:])
    return reshape_op(contiguous_op(wide), shape=shape[:d] + (shape[d] * repeats,) + shape[d + 1:])


def _repeated(counts, size):
    """The position of each count, that many times."""
    if counts.ndim != 1 or counts.dtype not in (int32, int64):
        raise DTypeError(f"repeat_interleave: counts must be a vector of int32 or int64, got {counts.dtype} of shape {counts.shape}")
    if not counts._size:
        return cast(counts, int64)
    known = known_range(counts)
    if known is not None and known[0] < 0:
        raise ArgumentError(f"repeat_interleave: counts must be >= 0, got {known[0]}")
    ends = cumsum(counts, 0)
    if size is None or not counts.device.is_gpu:
        total = int(ends[-1])
        if size is not None and size != total:
            raise ArgumentError(f"repeat_interleave: output_size is {size}, but the counts add up to {total}")
        if not 0 <= total < 2 ** 60:                # beyond int64 the sum has wrapped
            raise ArgumentError(f"repeat_interleave: the counts must add up to less than 2**60 elements, got {counts.tolist()[:4]}...")
        size = total
    if counts._size <= _FEW and not counts.device.is_gpu:
        return searchsorted_op(ends, arange(size), right=True)
    starts = index_add_op(ones_like(ends), clamp(ends, 0, size), dim=0, size=size + 1)     # how many end where a place begins
    return clamp(cumsum(starts[:size], 0), 0, counts._size - 1)
