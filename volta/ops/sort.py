"""Sorting along a dimension, what is read off a sorted line (the largest, the middle, the most frequent), and searching in one."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase, graph, host_sees, reshaped, stands_in, view
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta._kernels.core.order import dense_strides, outermost_first
from volta.dtypes import bool_, iinfo, int32, int64, result_type, uint8
from volta.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from volta.layout import contiguous_format
from volta.ops.copy import clone
from volta.ops.creation import full, zeros
from volta.ops.indexing import check_index
from volta.ops.math import where
from volta.ops.parts import narrow
from volta.ops.records.copy import cast
from volta.ops.records.index import gather_op
from volta.ops.records.math import isnan
from volta.ops.records.sort import longest_run, median_all_op, middle_op, order, searchsorted_op, sort_op
from volta.ops.records.view import flat, permute_op, reshape_op
from volta.ops.reduce import ValuesIndices, sum
from volta.ops.reduce import max as max_of
from volta.ops.table import Derived, case, composed
from volta.shapes import as_dim, reduced

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number

_ALONG = (case((3, 5), dim=1), case((4, 3), dim=0), case((2, 3, 4), dim=-2), case((), dim=0))
_PICKED = (*_ALONG, case((3, 5), dim=1, keepdim=True))
LONG = 65536                    # elements of a line from which threads share it
_FAR = (-900.0, 900.0)          # of samples: elements lie far apart, for finite differences


def _sorted(name, input, dim, descending=False, count=None):
    """(values, indices, dim) along dim; a 0-d tensor counts as one of shape (1,)."""
    d = as_dim(name, dim, input.ndim)
    values, indices = sort_op(input if input.ndim else reshape_op(input, shape=(1,)), dim=d, descending=bool(descending), count=count)
    return values, indices, d


def _np_sort(x, dim=-1, descending=False, stable=None):
    indices = order(np.atleast_1d(x), dim, descending)
    return np.take_along_axis(np.atleast_1d(x), indices, dim).reshape(x.shape), indices.reshape(x.shape)


# ---------------------------------------------------------------- in order
@composed(samples=(*_ALONG, case((7,)), case((5, 2), dim=0, descending=True), case((3, 0), stable=True)), kinds="fib", numpy=_np_sort,
          domain=_FAR)
def sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> ValuesIndices:
    """(values, indices) in order along `dim`; NaN is beyond all numbers. Equal elements stay in their order, `stable` or not.

    >>> volta.sort(volta.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """
    strides = None if stands_in(input) else dense_strides(input)
    if strides is not None:                     # as it lies in memory
        dims = outermost_first(strides)
        places = tuple(map(dims.index, range(input.ndim)))
        found = _sorted("sort", permute_op(input, dims=dims), places[as_dim("sort", dim, input.ndim)], descending)
        return ValuesIndices(*[permute_op(x, dims=places) for x in found[:2]])
    values, indices, _ = _sorted("sort", input, dim, descending)
    return ValuesIndices(reshape_op(values, shape=input.shape), reshape_op(indices, shape=input.shape))


@composed(samples=(*_ALONG, case((5, 2), dim=0, descending=True)), kinds="fib", numpy=lambda *x, **options: _np_sort(*x, **options)[1])
def argsort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """The indices that `sort` gives.

    >>> volta.argsort(volta.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """
    return sort.function(input, dim, descending)[1]         # its arguments need no second check


@composed(samples=(case((5, 3)), case((4,)), case(())), kinds="fib", numpy=lambda x: np.sort(x, 0) if x.ndim else x, domain=_FAR)
def msort(input: Tensor) -> Tensor:
    """`sort` of dimension 0, the values alone.

    >>> volta.msort(volta.tensor([3.0, 1.0, 2.0]))
    tensor([1., 2., 3.])
    """
    return sort(input, 0).values


def _np_topk(x, k, dim=-1, largest=True, sorted=True):
    values, indices = _np_sort(x, dim, largest)
    return (np.take(values, np.arange(k), dim), np.take(indices, np.arange(k), dim)) if x.ndim else (values, indices)


@composed(samples=(case((3, 5), 2), case((5, 3), 3, dim=0, largest=False), case((2, 60), 4), case((3, 4), 0), case((), 1)), kinds="fi",
          numpy=_np_topk, domain=_FAR, takes={"input": "fi"})
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """(values, indices) of the k largest (or smallest) elements along `dim`, the best first, `sorted` or not; NaN is the largest.

    Raises: ArgumentError where there are not k; DTypeError for bool.

    >>> volta.topk(volta.tensor([3.0, 1.0, 2.0]), 2).values
    tensor([3., 2.])
    """
    shape = input._shape
    d = as_dim("topk", dim, len(shape))
    length = shape[d] if shape else 1
    if not 0 <= k <= length:
        raise ArgumentError(f"topk: k must be from 0 to {length}, the size of dimension {dim}, got {k}")
    if shape:
        return tuple.__new__(ValuesIndices, sort_op(input, dim=d, descending=bool(largest), count=k))
    values, indices, _ = _sorted("topk", input, dim, largest, 1)
    return ValuesIndices(reshape_op(values, shape=()), reshape_op(indices, shape=()))


# ---------------------------------------------------------------- one of a sorted line
def _check_line(name, input, dim):
    """Raises: DTypeError for bool; IndexRangeError for a dimension without elements."""
    if input.dtype.code == 0:
        raise DTypeError(f"{name}: needs floating point or integer tensors, got bool; convert it with .to(dtype)")
    if input.ndim and not input.shape[as_dim(name, dim, input.ndim)]:
        raise IndexRangeError(f"{name}: dimension {dim} of shape {input.shape} is empty")


def _shaped(input, d, keepdim, *results):
    """(values, indices) with one element along d, without that dimension unless it is kept."""
    shape = reduced(input._shape, (d,) if input.ndim else (), keepdim)
    if shape == results[0]._shape:
        return ValuesIndices(*results)
    return ValuesIndices(*[reshape_op(x, shape=shape) for x in results])


def _np_at(place):
    """The reference of what picks place(x, dim) of the sorted elements."""
    def pick(x, *args, dim=-1, keepdim=False):
        values, indices = _np_sort(np.atleast_1d(x), dim)
        at = place(np.atleast_1d(x).shape[dim], *args)
        kept = [np.take(a, [at], dim) for a in (values, indices)]
        return tuple(k if keepdim and x.ndim else k.squeeze(dim) for k in kept)
    return pick


@composed(apart=0, samples=tuple(case(*c.inputs, 2 if c.inputs[0] else 1, **c.params) for c in _PICKED), kinds="fi", domain=_FAR,
          numpy=_np_at(lambda n, k: k - 1))
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """(values, indices) of the k-th smallest element along `dim`, counted from 1; NaN is the largest.

    Raises: ArgumentError where there are not k; DTypeError for bool.

    >>> volta.kthvalue(volta.tensor([3.0, 1.0, 2.0]), 2).values
    tensor(2.)
    """
    if type(k) is int and type(dim) is int and (found := _at_place(input, k, dim, keepdim, place=k - 1)) is not None:
        return found
    if input.ndim or input.dtype.code:                  # of a number, also of bool, there is nothing to compare
        _check_line("kthvalue", input, dim)
    elif k == 1:
        as_dim("kthvalue", dim, 1)
        return ValuesIndices(clone(input), zeros((), dtype=int64, device=input.device))
    length = input.shape[as_dim("kthvalue", dim, input.ndim)] if input.ndim else 1
    as_dim("kthvalue", dim, max(input.ndim, 1))
    if not 1 <= k <= length:
        raise ArgumentError(f"kthvalue: k must be from 1 to {length}, the size of dimension {dim}, got {k}")
    if _in_the_middle(input, length):
        d = as_dim("kthvalue", dim, input.ndim)
        found = _shaped(input, d, keepdim, *middle_op(input, dim=d, place=k - 1))
        if keepdim:
            return found
    else:
        values, indices, d = _sorted("kthvalue", input, dim, count=k)
        found = _shaped(input, d, keepdim, narrow(values, d, k - 1, 1), narrow(indices, d, k - 1, 1))
    return ValuesIndices(*(clone(x, memory_format=contiguous_format) for x in found))      # a slice would keep all that was sorted


def _at_place(input, k, dim, keepdim, **place):
    """What stands at a place in the order of k elements or more that nobody records or watches, by one call of its kernel; else None."""
    shape, dtype = input._shape, input.dtype
    d = dim + len(shape) if dim < 0 else dim
    if dtype.itemsize < 4 and dtype is not uint8 or not 0 <= d < len(shape) or not 1 <= k <= shape[d] < 1 << 32 or not bare(input):
        return None
    found = run_kernel(middle_op, input.device, (input,), {"dim": d} | place)
    if not keepdim:
        shape = shape[:d] + shape[d + 1:]
        found = reshaped(found[0], shape), reshaped(found[1], shape)
    return tuple.__new__(ValuesIndices, found)


def _in_the_middle(input, length):
    """Whether the record of medians finds what is at a place: of a tensor with lines of this length."""
    return input.ndim and length < 1 << 32 and (input.device.is_gpu and not stands_in(input) or host_sees(input))


def _middle(name, input, dim, keepdim, skip):
    """The median along dim: the lower one of two; a NaN where there is one, or with `skip` that of the numbers."""
    if type(dim) is int and (found := _at_place(input, 1, dim, keepdim, skip=skip)) is not None:
        return found
    _check_line(name, input, dim)
    d = as_dim(name, dim, input.ndim)
    if _in_the_middle(input, input._shape[d] if input.ndim else 1):
        return _shaped(input, d, keepdim, *middle_op(input, dim=d, skip=skip))
    values, indices, d = _sorted(name, input, dim)
    length = values.shape[d]
    count = length - sum(isnan(values), d, True)
    place = where(count == 0, 0, (count - 1) // 2) if skip else where(count == length, (length - 1) // 2, count)
    return _shaped(input, d, keepdim, gather_op(values, place, dim=d), gather_op(indices, place, dim=d))


def _of_all(input, skip):
    """The median of all elements; equal ones share the gradient."""
    if not input._size:
        if input.dtype.is_floating_point:
            return sum(input) + float("nan")
        return full((), max(iinfo(input.dtype).min, -1 << (31 if input.device.is_gpu else 63)), dtype=input.dtype, device=input.device)
    size = input._size
    if input._contiguous and size < 1 << 32 and bare(input):
        return reshaped(run_kernel(middle_op, input.device, (reshaped(input, (size,)),), {"dim": 0, "skip": skip})[0], ())
    recorded = graph.wants_derivative(input)
    if recorded and _in_the_middle(input, size):
        return median_all_op(input, skip=skip)
    x = flat(input)
    alone, seen = x.detach() if recorded else x, host_sees(x)
    if _in_the_middle(alone, input._size):
        values = middle_op(alone, dim=0, skip=skip)[0]
        found = view(values, (), (), values.offset) if seen else reshape_op(values, shape=())
    else:
        found = _middle("median", alone, 0, False, skip).values
    if not recorded:
        return found
    sign = where(found == float("-inf"), -1, 1)         # which is then told from what is left out
    return max_of(where((x <= found) | isnan(found), x * sign, float("-inf"))) * sign


_MEDIANS = (case((3, 5)), case((2, 4)), *_PICKED)


def _median(name, input, dim, keepdim, skip):
    if input.dtype.code == 0:
        raise DTypeError(f"{name}: needs floating point or integer tensors, got bool; convert it with .to(dtype)")
    return _of_all(input, skip) if dim is None else _middle(name, input, dim, keepdim, skip)


def _np_median(x, dim=None, keepdim=False):
    if dim is None:
        return np.sort(x, None)[(x.size - 1) // 2]
    return _np_at(lambda n: (n - 1) // 2)(x, dim=dim, keepdim=keepdim)


@composed(samples=_MEDIANS, kinds="fi", numpy=_np_median, domain=_FAR)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The median, the lower one of two, of all elements; with `dim` (values, indices) along it. NaN where there is a NaN.

    Raises: DTypeError for bool; IndexRangeError for an empty dimension.

    >>> volta.median(volta.tensor([3.0, 1.0, 2.0, 4.0]))
    tensor(2.)
    """
    return _median("median", input, dim, keepdim, False)


@composed(samples=_MEDIANS, kinds="fi", numpy=_np_median, domain=_FAR)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """`median` of the elements that are not NaN.

    >>> volta.nanmedian(volta.tensor([3.0, float("nan"), 2.0]))
    tensor(2.)
    """
    return _median("nanmedian", input, dim, keepdim, True)


def _np_mode(x, dim=-1, keepdim=False):
    def of_line(line):
        values, counts = np.unique(line, return_counts=True)
        return np.flatnonzero(line == values[counts.argmax()])[-1]
    x, shape = np.atleast_1d(x), x.shape
    at = np.apply_along_axis(of_line, dim, x)
    picked = np.take_along_axis(x, np.expand_dims(at, dim), dim)
    return (picked, np.expand_dims(at, dim)) if keepdim and shape else (picked.squeeze(dim), at)


@composed(samples=(*_PICKED, case((3, 60), dim=1)), kinds="fib", numpy=_np_mode, domain=_FAR)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """(values, indices) of the most frequent element along `dim`, the smallest of several, the last of equal ones.

    Raises: IndexRangeError for an empty dimension.

    >>> volta.mode(volta.tensor([1, 2, 2, 3, 3]))
    volta.return_types.mode(
    values=tensor(2),
    indices=tensor(2))
    """
    shape = input._shape
    if shape and input._size and bare(input):
        d, device = as_dim("mode", dim, len(shape)), input.device
        values, places = run_kernel(sort_op, device, (input,), {"dim": d, "descending": False, "count": None})
        at, options = run_kernel(longest_run, device, (values,), {"dim": d}), {"dim": d}
        found = [run_kernel(gather_op, device, (x, at), options) for x in (values, places)]
        return tuple.__new__(ValuesIndices, found if keepdim else [reshaped(x, shape[:d] + shape[d + 1:]) for x in found])
    if input.dtype.code:
        _check_line("mode", input, dim)
    x = input if input.ndim else reshape_op(input, shape=(1,))
    values, places, d = _sorted("mode", x.detach(), dim)
    index = gather_op(places, longest_run(values, dim=d), dim=d)
    return _shaped(input, d, keepdim, gather_op(x, index, dim=d), index)


# ---------------------------------------------------------------- searching
_BOUNDS = Derived(lambda: np.arange(12.0))


@composed(samples=(case(_BOUNDS, (3, 4)), case(_BOUNDS, (5,), right=True), case(_BOUNDS, 3.5), case(_BOUNDS, (5,), side="right")),
          kinds="fi", smooth=False, method=False, domain=(-2.0, 12.0),
          numpy=lambda s, x, right=False, side="left": np.asarray(np.searchsorted(s, x, "right" if right else side)))
def searchsorted(sorted_sequence: Tensor, input: Tensor | Number, *, out_int32: bool = False, right: bool = False, side: str | None = None,
                 sorter: Tensor | None = None) -> Tensor:
    """Where each element of `input` belongs in its line along the last dimension of `sorted_sequence`: before equal elements, or with
    `right` (side="right") behind them. A vector serves all lines; `sorter` holds the order of what is not sorted.

    Raises: ShapeError where the leading dimensions differ; ArgumentError for another `side`, or one that `right` contradicts.

    >>> volta.searchsorted(volta.tensor([1, 3, 5]), volta.tensor([3, 6]))
    tensor([1, 3])
    """
    if side not in (None, "left", "right") or side == "left" and right:
        raise ArgumentError(f"searchsorted: side must be 'left' or 'right', and not contradict right, got side={side!r}, right={right}")
    if not sorted_sequence.ndim:
        raise ShapeError("searchsorted: sorted_sequence needs at least 1 dimension, got a 0-d tensor")
    if not isinstance(input, TensorBase):
        input = full((), input, device=sorted_sequence.device)
    lines, shape = sorted_sequence._shape, input._shape
    if len(lines) > 1 and (len(lines) != len(shape) or lines[:-1] != shape[:-1]):
        raise ShapeError(f"searchsorted: sorted_sequence {sorted_sequence.shape} must be a vector, or have the leading dimensions of input "
                         f"{input.shape}")
    if sorter is not None:
        if sorter._shape != lines or sorter.dtype is not int64:
            raise ShapeError(f"searchsorted: sorter must be int64 and have the shape of sorted_sequence {sorted_sequence.shape}, got "
                             f"{sorter.dtype} {sorter.shape}")
        check_index("searchsorted", sorter, lines[-1])
        sorted_sequence = gather_op(sorted_sequence, sorter, dim=len(lines) - 1)
    dtype = input.dtype if input.dtype is sorted_sequence.dtype else result_type(sorted_sequence, input)
    if dtype is bool_ and not input._size:              # nothing to compare, which PyTorch takes of any dtype
        dtype = uint8
    out = searchsorted_op(_values(sorted_sequence, dtype), _values(input, dtype), right=bool(right or side == "right"))
    return cast(out, int32) if out_int32 else out


def _values(x, dtype):
    """Numbers of a dtype, without a graph."""
    return x if x.dtype is dtype and not x.requires_grad else cast(x, dtype).detach()


_BUCKETS = Derived(lambda x: np.arange(12.0))


@composed(samples=(case((3, 4), _BUCKETS), case((5,), _BUCKETS, right=True)), kinds="fi", smooth=False, method=False, domain=(-2.0, 12.0),
          numpy=lambda x, bounds, right=False: np.searchsorted(bounds, x, "right" if right else "left"))
def bucketize(input: Tensor | Number, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket of each element, between increasing `boundaries`, a vector: `searchsorted` with exchanged arguments.

    Raises: ShapeError where `boundaries` is no vector.

    >>> volta.bucketize(volta.tensor([[1, 6], [3, 9]]), volta.tensor([1, 3, 5])).tolist()
    [[0, 3], [1, 3]]
    """
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries must be a vector, got shape {boundaries.shape}")
    return searchsorted.function(boundaries, input, out_int32=out_int32, right=right)

