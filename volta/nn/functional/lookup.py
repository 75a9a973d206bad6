"""Rows of a table by their numbers: embedding and embedding_bag."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph
from volta._kernels.core.grad_mode import call_under
from volta.autograd import Function
from volta.dtypes import HALVES, float32, float64, int64
from volta.errors import ArgumentError, DTypeError, IndexRangeError, RankError, ShapeError
from volta.ops.creation import arange, ones_like
from volta.ops.indexing import known_range, positions
from volta.ops.math import clamp
from volta.ops.norms import norm, shortened
from volta.ops.records.bag import bag_max_op, bag_sum_op
from volta.ops.records.chain import fused
from volta.ops.records.copy import cast
from volta.ops.records.index import index_add_op, index_select_op, scale_gradient
from volta.ops.records.math import where_op
from volta.ops.records.view import flat, reshape_op
from volta.ops.reduce import sum
from volta.ops.scan import cumsum
from volta.ops.sparse import SparseTensor
from volta.ops.subscript import setitem
from volta.ops.table import Derived, Labels, case, composed

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["embedding", "embedding_bag"]


def _row(op, padding_idx, rows):
    """The number of a row, counted from the end where it is negative; None stays."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ArgumentError(f"{op}: padding_idx must be within the {rows} rows of weight, got {padding_idx}")
    return padding_idx % rows


def _check(op, input, weight, sparse, scale_grad_by_freq, shortened=False, direct=False):
    if sparse and scale_grad_by_freq and graph.is_grad_enabled() and weight.requires_grad:
        raise ArgumentError(f"{op}: scale_grad_by_freq counts all rows, and goes with sparse=False alone")
    if weight.ndim != 2:
        raise RankError(f"{op}: weight must be a matrix, got shape {weight.shape}")
    if not weight.dtype.is_floating_point and (op != "embedding" or shortened):
        raise DTypeError(f"{op}: weight must be floating point, got {weight.dtype}")
    return positions(op, flat(input), weight.shape[0], kernel_checks=direct or op == "embedding" and not (shortened or scale_grad_by_freq))


class _SparseRows(Function):
    """Rows whose gradient is sparse: for the weight, an entry for each row that was taken."""

    @staticmethod
    def forward(ctx, weight, at, padding):
        ctx.save_for_backward(at)
        ctx.shape, ctx.padding = weight.shape, padding
        return index_select_op(weight, at, dim=0)

    @staticmethod
    def backward(ctx, g):
        at, = ctx.saved_tensors
        if ctx.padding is not None and at.device.is_gpu:            # where how many there are is not known
            g = where_op(reshape_op(at == ctx.padding, shape=(at._size, 1)), 0.0, g)
        elif ctx.padding is not None:
            kept = at != ctx.padding
            at, g = at[kept], g[kept]
        return SparseTensor(reshape_op(at, shape=(1, at._size)), g, ctx.shape), None, None


def _rows(at, weight, padding, max_norm, norm_type, scale_grad_by_freq, sparse):
    """Rows of weight at a vector of positions; those that are too long are scaled in the weight itself."""
    if max_norm is not None and at._size:
        call_under(False, _shorten, (weight, at, max_norm, norm_type), {})
    if sparse:
        return _SparseRows.apply(weight, at, padding)
    out = index_select_op(weight, at, dim=0)
    if not weight.requires_grad or padding is None and not scale_grad_by_freq:
        return out
    factor = ones_like(at, dtype=weight.dtype)
    if scale_grad_by_freq:
        factor = factor / index_select_op(index_add_op(factor, at, dim=0, size=weight.shape[0]), at, dim=0)
    if padding is not None:
        factor = where_op(at == padding, 0.0, factor)
    return scale_gradient(out, reshape_op(factor, shape=(at._size, 1)))


def _shorten(weight, at, max_norm, norm_type):
    rows = index_select_op(weight, at, dim=0)
    length = norm(rows, norm_type, dim=1, keepdim=True)
    setitem(weight, at, fused(shortened, rows, length, max_norm))


@composed(name="functional.embedding",
          samples=(case(Labels((2, 3), 5), (5, 4)), case(Labels((4,), 5), (5, 3), padding_idx=None), case(Labels((), 2), (2, 3))),
          numpy=lambda input, weight, padding_idx=None: weight[input], function=False, method=False)
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """The rows of `weight` that `input` numbers. The row `padding_idx` gets no gradient; rows longer than `max_norm` are first scaled to
    it in `weight` itself; `scale_grad_by_freq` divides gradients by how often a row is named; with `sparse`, the gradient that `weight`
    gets is a SparseTensor.

    Shape: (...) with weight (rows, size) -> (..., size).
    Raises: IndexRangeError; ArgumentError for a padding_idx that is no row.

    >>> volta.nn.functional.embedding(volta.tensor([2, 0]), volta.tensor([[1.0], [2.0], [3.0]])).tolist()
    [[3.0], [1.0]]
    """
    at = _check("embedding", input, weight, sparse, scale_grad_by_freq, max_norm is not None)
    padding = _row("embedding", padding_idx, weight.shape[0])
    try:
        out = _rows(at, weight, padding, max_norm, norm_type, scale_grad_by_freq, sparse)
    except IndexRangeError as error:                # the kernel's, which selects
        error.args = (str(error).replace("index_select", "embedding", 1),)
        raise
    return out if input.ndim == 1 else reshape_op(out, shape=input.shape + weight.shape[1:])


def _np_embedding_bag(input, weight, offsets=None, mode="mean", per_sample_weights=None, padding_idx=None, include_last_offset=False):
    bags = list(input) if input.ndim == 2 else np.split(input, offsets[1:-1] if include_last_offset else offsets[1:])
    scales = np.split(np.ones(input.size) if per_sample_weights is None else per_sample_weights.reshape(-1), np.cumsum(
        [len(b) for b in bags])[:-1])
    out = np.zeros((len(bags), weight.shape[1]))
    for k, (bag, scale) in enumerate(zip(bags, scales)):
        rows = (weight[bag] * scale[:, None])[bag != padding_idx]
        if len(rows):
            out[k] = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode](rows, 0)
    return out


_OFFSETS = Derived(lambda *_: np.array([0, 2, 2, 5]))


@composed(samples=tuple(case(Labels((6,), 7), (7, 3), _OFFSETS, mode=mode, padding_idx=padding) for mode in ("sum", "mean", "max")
                        for padding in (None, 3)) + tuple(case(Labels((3, 4), 7), (7, 2), mode=mode, padding_idx=1)
                                                          for mode in ("sum", "mean", "max"))
          + (case(Labels((5,), 7), (7, 2), _OFFSETS, mode="sum", include_last_offset=True),),
          numpy=_np_embedding_bag, name="functional.embedding_bag", function=False, method=False)
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
                  include_last_offset: bool = False, padding_idx: int | None = None) -> Tensor:
    """Sums, means or maxima of the rows of `weight` that each bag of `input` numbers: a row of it, or of a vector what is from one of the
    `offsets` to the next. Rows `padding_idx` do not count; an empty bag gives 0, and a maximum whose first is NaN is NaN.
    `per_sample_weights` scale the rows of a sum.

    Shape: (bags, n), or (n,) with offsets (bags,), or (bags + 1,) where they include the last -> (bags, size).
    Raises: ArgumentError for what does not go together; IndexRangeError; ShapeError; DTypeError for weights of another dtype.

    >>> volta.nn.functional.embedding_bag(volta.tensor([[0, 1]]), volta.tensor([[1.0], [2.0]]), mode="sum").tolist()
    [[3.0]]
    """
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"embedding_bag: mode must be sum, mean or max, got {mode!r}")
    if input.ndim not in (1, 2):
        raise RankError(f"embedding_bag: input must have 1 or 2 dimensions, got {input.shape}")
    if mode == "max" and scale_grad_by_freq:
        raise ArgumentError("embedding_bag: mode='max' does not take scale_grad_by_freq")
    if mode == "max" and sparse:
        raise ArgumentError("embedding_bag: mode='max' does not take sparse=True")
    if per_sample_weights is not None and (mode != "sum" or per_sample_weights.shape != input.shape):
        raise ArgumentError(f"embedding_bag: per_sample_weights are for mode='sum' and must have the shape of the input, {input.shape}; "
                            f"got mode={mode!r} and shape {per_sample_weights.shape}")
    if per_sample_weights is not None and per_sample_weights.dtype is not weight.dtype:
        raise DTypeError(f"embedding_bag: per_sample_weights must be {weight.dtype} as weight is, got {per_sample_weights.dtype}")
    if offsets is not None and offsets.dtype is not input.dtype and int64 in (offsets.dtype, input.dtype) and not (
            offsets.dtype.is_floating_point or input.dtype.is_floating_point):
        offsets, input = cast(offsets, int64), cast(input, int64)
    direct = mode == "max" or _goes_directly(weight, per_sample_weights, scale_grad_by_freq or sparse)
    at = _check("embedding_bag", input, weight, sparse, scale_grad_by_freq, direct=direct and max_norm is None)
    padding = _row("embedding_bag", padding_idx, weight.shape[0])
    if direct:
        return _direct(at, weight, _bag_count(input, offsets, include_last_offset), offsets, per_sample_weights, padding, mode,
                       (max_norm, norm_type))
    bag, bags = _bags(input, offsets, include_last_offset)
    rows = _rows(at, weight, padding, max_norm, norm_type, scale_grad_by_freq, sparse)
    counts = None if padding is None else at != padding
    if counts is not None:
        rows = where_op(reshape_op(counts, shape=(at._size, 1)), rows, 0.0)
    if per_sample_weights is not None:
        scales = reshape_op(per_sample_weights, shape=(at._size,))
        rows = rows * reshape_op(scales if counts is None else where_op(counts, scales, 0.0), shape=(at._size, 1))
    if mode == "sum":
        return _totals(rows, bag, bags)
    counted = ones_like(at) if counts is None else cast(counts, int64)
    count = reshape_op(_totals(reshape_op(counted, shape=(at._size, 1)), bag, bags), shape=(bags, 1))
    return _totals(rows, bag, bags) / cast(clamp(count, 1, None), weight.dtype)


def _goes_directly(weight, scales, special):
    """Whether one kernel adds up the rows: no gradient of a `special` kind is recorded, no table of narrow numbers is widened."""
    if weight.dtype not in (float32, float64) or not (weight.device.is_gpu or core.host_sees(weight)):
        return False
    if scales is not None and (scales.dtype is not weight.dtype or scales.device is not weight.device):
        return False
    return not (special and graph.is_grad_enabled() and (weight.requires_grad or scales is not None and scales.requires_grad))


def _direct(at, weight, bags, offsets, scales, padding, mode, longest):
    """Sums, means or maxima of the rows, none of which is made; those longer than `longest` says are scaled in the weight itself."""
    if longest[0] is not None and at._size:
        call_under(False, _shorten, (weight, at, *longest), {})
    if offsets is not None and offsets.dtype is not int64:
        offsets = cast(offsets, int64)
    if scales is not None and scales.ndim != 1:
        scales = flat(scales)
    padding = -1 if padding is None else padding
    try:
        if mode == "max":
            if weight.dtype in HALVES and padding < 0 and at._size < weight._shape[0] and not weight.device.is_gpu:
                weight, at = index_select_op(weight, at, dim=0), arange(at._size)               # no other rows are widened
            return bag_max_op(weight, at, offsets, bags=bags, padding=padding)[0]
        return bag_sum_op(weight, at, offsets, scales, bags=bags, padding=padding, mean=mode == "mean")
    except IndexRangeError as error:
        error.args = (re.sub("^(bag_max|bag_sum|index_select)", "embedding_bag", str(error)),)
        raise


def _bag_count(input, offsets, include_last_offset):
    """How many bags there are, which have to fit the input."""
    if input.ndim == 2:
        if offsets is not None:
            raise ArgumentError("embedding_bag: the rows of a matrix are the bags; give no offsets")
        return input.shape[0]
    if input.ndim != 1 or offsets is None or offsets.ndim != 1:
        raise ShapeError(f"embedding_bag: needs a matrix, or a vector with a vector of offsets, got input {input.shape}")
    if include_last_offset and not offsets._size:
        raise ArgumentError("embedding_bag: include_last_offset needs at least one offset")
    if offsets.dtype.is_floating_point or offsets.dtype.code == 0:
        raise DTypeError(f"embedding_bag: offsets must be integers, got {offsets.dtype}")
    size, bags, known = input._size, offsets._size - bool(include_last_offset), known_range(offsets)
    if known is not None and (known[0] != 0 or known[1] > size):
        raise IndexRangeError(f"embedding_bag: offsets must begin with 0 and not exceed the {size} indices, got {known[0]} to {known[1]}")
    return bags


def _bags(input, offsets, include_last_offset):
    """(the number of the bag of each entry, or None where all have equally many; how many bags there are)."""
    bags, size = _bag_count(input, offsets, include_last_offset), input._size
    if offsets is None:
        return None, bags
    offsets = clamp(cast(offsets, int64), 0, size)
    begun = index_add_op(ones_like(offsets), offsets, dim=0, size=size + 1)[:size]
    return clamp(cumsum(begun, 0) - 1, 0, bags), bags


def _totals(rows, bag, bags):
    """The rows of each bag, added."""
    if bag is None:
        return sum(reshape_op(rows, shape=(bags, rows.shape[0] // max(bags, 1), rows.shape[1])), 1)
    return index_add_op(rows, bag, dim=0, size=bags + 1)[:bags]
