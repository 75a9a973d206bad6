"""Counts of integers, and histograms. Where the shape depends on the values (`bincount`), one number is read."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase, checked_size, read_scalar, tallied
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta.dtypes import HALVES, float32, float64, int64
from volta.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from volta.ops.creation import arange, full, ones, zeros
from volta.ops.indexing import known_range
from volta.ops.join import stack
from volta.ops.math import clamp, where
from volta.ops.parts import narrow, select
from volta.ops.records.copy import cast
from volta.ops.records.index import scatter_add_op
from volta.ops.records.places import counts_op
from volta.ops.records.reduce import amax_op, amin_op
from volta.ops.records.sort import searchsorted_op
from volta.ops.records.view import clone_op, flat, reshape_op
from volta.ops.table import Derived, Labels, case, composed
from volta.results import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor


_FEW_BINS = 4096            # that a GPU counts in workgroup memory
_SHORT = 1 << 16            # elements that are counted by one thread in one step


@composed(samples=(case(Labels((30,), 7)), case(Labels((5,), 3), minlength=6)), kinds="i", smooth=False, reads=True,
          numpy=lambda x, weights=None, minlength=0: np.bincount(x, weights, minlength))
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each integer from 0 to the largest occurs in a vector, or the sum of its `weights` (float64; float32 where they are, and on
    a GPU). Reads the extremes of `input` where they are not known from the host. No gradient passes.

    Raises: ShapeError unless vectors of one length are given; IndexRangeError for a negative number; DTypeError unless they are integers;
    ArgumentError for a negative `minlength`.

    >>> volta.bincount(volta.tensor([1, 2, 2]), minlength=4)
    tensor([0, 1, 2, 0])
    """
    if input.ndim != 1 or weights is not None and input._size and weights.shape != input.shape:
        raise ShapeError(f"bincount: needs vectors of one length, got {input.shape}{'' if weights is None else f' and {weights.shape}'}")
    if input.dtype.is_floating_point or input.dtype.code == 0:
        raise DTypeError(f"bincount: needs an integer tensor, got {input.dtype}; convert it with .long()")
    if minlength < 0:
        raise ArgumentError(f"bincount: minlength must be >= 0, got {minlength}")
    if not input._size:
        return zeros(minlength, dtype=int64, device=input.device)
    least, largest = known_range(input) or stack([f(input, dim=(0,), keepdim=False) for f in (amin_op, amax_op)]).tolist()
    if least < 0:
        raise IndexRangeError(f"bincount: the numbers must not be negative, got {least}")
    size = checked_size((max(largest + 1, minlength),))
    if weights is None and (size <= _FEW_BINS or not input.device.is_gpu):
        return counts_op(input, None, None, bins=size, between=None)
    if weights is None:
        weights = ones(input.shape, dtype=int64, device=input.device)
    elif weights.dtype is not float32:
        weights = cast(weights, float32 if weights.device.is_gpu else float64)
    return scatter_add_op(weights.detach(), cast(input, int64), dim=0, size=size)


class Histogram(Result):
    """What `histogram` gives: the counts, and the edges between which they are."""
    hist: Tensor
    bin_edges: Tensor


def _range(name, input, bins, low, high, widening):
    """low and high, numbers; None for the extremes of the input, apart by twice `widening` where they are equal."""
    if bins < 1:
        raise ArgumentError(f"{name}: bins must be at least 1, got {bins}")
    if low is None:
        x = flat(input)
        low, high = (f(x, dim=(0,), keepdim=True) for f in (amin_op, amax_op))
        if not input.device.is_gpu and not bool((high - low).isfinite().item()):
            raise ArgumentError(f"{name}: the elements are not all finite; give the range")
        return where(low == high, low - widening, low), where(low == high, high + widening, high)
    return tuple([full((1,), float(v), dtype=input.dtype, device=input.device) for v in (low, high)])


def _edges(name, input, bins, low, high, widening):
    """bins + 1 edges of the range."""
    low, high = _range(name, input, bins, low, high, widening)
    steps, step = arange(bins + 1, dtype=input.dtype, device=input.device), (high - low) / bins
    return where(steps < (bins + 1) // 2, low + step * steps, high - step * (bins - steps))


def _counted(columns, edges, weight):
    """The weights in each bin, in their order; per column of coordinates there is a vector of edges. A bin has its lower edge, the last one
    both; what is outside, and NaN, is in none."""
    at, inside, count = 0, True, 1
    for x, edge in zip(columns, edges):
        bins = edge.shape[0] - 1
        place = searchsorted_op(narrow(edge, 0, 0, bins), x, right=True)       # NaN is beyond the last edge
        if len(columns) == 1:
            return _added(where(x <= narrow(edge, 0, bins, 1), place, 0), bins, weight, x, first=1)
        low, high = narrow(edge, 0, 0, 1), narrow(edge, 0, bins, 1)
        at, inside, count = at * bins + place - 1, inside & (x >= low) & (x <= high), count * bins
    return _added(where(inside, at, count), count, weight, x)


def _added(place, count, weight, x, first=0):
    """Weights, or ones, added at places of which `count` are given, from the first on; there is one place more."""
    if weight is None and not x.device.is_gpu:
        found = counts_op(place, None, None, bins=count + 1, between=None)
    else:
        weight = ones(x.shape, dtype=x.dtype, device=x.device) if weight is None else flat(weight)
        found = scatter_add_op(weight.detach(), place, dim=0, size=count + 1)
    return cast(narrow(found, 0, first, count), x.dtype).contiguous()


def _np_histc(x, bins=100, min=0, max=0):
    low, high = (min, max) if min != max else (x.min(), x.max())
    return np.histogram(x, bins, (low, high))[0].astype(x.dtype)


@composed(samples=(case((60,), 5), case((3, 7), bins=4, min=-1, max=1), case((60,))), smooth=False, in_float32=True, takes={"input": "f"},
          numpy=_np_histc)
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements lie in each of `bins` equal parts of [min, max]; where both are equal, of the range of the elements.

    Raises: ArgumentError for min above max, and, on the CPU, for a range that is not finite.

    >>> volta.histc(volta.tensor([1.0, 2.0, 1.0]), 4, 0, 3)
    tensor([0., 2., 1., 0.])
    """
    min, max = (v.item() if isinstance(v, TensorBase) else v for v in (min, max))           # as of x.min() and x.max()
    if not min <= max:
        raise ArgumentError(f"histc: min must not be above max, got {min} and {max}")
    if not math.isfinite(max - min):
        raise ArgumentError(f"histc: the range from min to max must be finite, got {min} and {max}")
    input = input.detach()
    bounds = (None, None) if min == max and input._size else (min - (min == max), max + (min == max))
    if bins <= _FEW_BINS or not input.device.is_gpu:
        if bounds[0] is None and bins > 0 and input.dtype in (float32, float64) and bare(input):
            low, high = _ends(input)
            if low <= high and high - low <= 3e38:
                bounds = low - (low == high), high + (low == high)
        known = bounds[0] is not None and bins > 0
        low, high = (None, None) if known else _range("histc", input, bins, *bounds, 1.0)
        found = counts_op(flat(input), low, high, bins=bins, between=tuple([float(v) for v in bounds]) if known else None)
        return cast(found, input.dtype)
    x, edges = flat(input), _edges("histc", input, bins, *bounds, 1.0)
    low, high = narrow(edges, 0, 0, 1), narrow(edges, 0, bins, 1)
    place = cast((x - low) * float(bins) / (high - low), int64)
    return _added(where((x >= low) & (x <= high), clamp(place, 0, bins - 1), bins), bins, None, x)


def _np_histogram(x, bins, range=None, density=False):
    hist, edges = np.histogram(x, bins, range, density=density)
    return hist.astype(x.dtype), edges.astype(x.dtype)


@composed(samples=(case((60,), 5), case((3, 7), 4, range=(-1.0, 1.0)), case((60,), 5, density=True),
                   case((60,), Derived(lambda x: np.arange(-2.0, 2.5, 0.5)))), smooth=False, takes={"input": "f"}, numpy=_np_histogram)
def histogram(input: Tensor, bins: int | Tensor = 100, *, range: Sequence[float] | None = None, weight: Tensor | None = None,
              density: bool = False) -> Histogram:
    """(hist, bin_edges): the sum of the weights of the elements between the edges, a tensor, or of so many equal parts of `range` or of the
    range of the elements; with `density` as shares per width.

    Raises: ShapeError where `weight` has another shape, or the edges are no vector; DTypeError for edges of another dtype; ArgumentError
    for a range that is no range.

    >>> volta.histogram(volta.tensor([1.0, 2.0, 1.0]), 3, range=(0.0, 3.0)).hist
    tensor([0., 2., 1.])
    """
    if weight is not None and (weight.shape != input.shape or weight.dtype is not input.dtype):
        raise ShapeError(f"histogram: weight must be {input.dtype} of shape {input.shape}, got {weight.dtype} {weight.shape}")
    if isinstance(bins, TensorBase) and bins.dtype is not input.dtype:
        raise DTypeError(f"histogram: the edges must be {input.dtype} as the input, got {bins.dtype}; convert them with .to(dtype)")
    if weight is None and (found := _tallied(input, bins, range)) is not None:
        return Histogram(found[0] if not density else _shares(*found), found[1])
    hist, edges = _histogram("histogram", [flat(input)], [bins], [range], weight, density)
    return Histogram(hist, edges[0].clone() if isinstance(bins, TensorBase) else edges[0])         # no view of those that were given


def _ends(x):
    """The least and the largest element of a tensor that the host may look at, as numbers."""
    dims = {"dim": tuple(range(len(x._shape))), "keepdim": False}
    return tuple([read_scalar(run_kernel(op, x.device, (x,), dims)) for op in (amin_op, amax_op)])


def _tallied(x, bins, range):
    """(the counts, the edges) of few elements that the host may look at, by edges or equal parts of a range, in one step; or None."""
    if not 0 < x._size <= _SHORT or x.dtype not in (float32, float64) or not x._contiguous or not bare(x):
        return None
    if isinstance(bins, TensorBase):
        plain = range is None and len(bins._shape) == 1 and bins._size > 1 and bins._contiguous and bare(bins)
        return tallied(x, clone_op(bins.detach()), 0, 0.0, 0.0) if plain else None
    if type(bins) is not int or bins < 1:
        return None
    if range is None:
        low, high = _ends(x)
    else:
        low, high = map(float, range) if len(range) == 2 else (0.0, 0.0)
    return tallied(x, None, bins, low, high) if low < high and high - low <= 3e38 else None


def _shares(hist, edges):
    """Counts as shares per width."""
    n = hist._size
    return hist / hist.sum() / (narrow(edges, 0, 1, n) - narrow(edges, 0, 0, n))


def _histogram(name, columns, bins, ranges, weight, density):
    """(the counts in the shape of the bins, the edges of each column), computed in float32 at least."""
    dtype = columns[0].dtype
    columns = [cast(x.detach(), float32 if dtype in HALVES else dtype) for x in columns]
    edges = [_bin_edges(name, *each) for each in zip(columns, bins, ranges)]
    hist = reshape_op(_counted(columns, edges, weight), shape=tuple([edge.shape[0] - 1 for edge in edges]))
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges, 1):
            n = edge.shape[0] - 1
            hist = hist / reshape_op(narrow(edge, 0, 1, n) - narrow(edge, 0, 0, n), shape=(n,) + (1,) * (len(edges) - d))
    return cast(hist, dtype), [given if isinstance(given, TensorBase) and given.dtype is dtype else cast(edge, dtype)
                               for given, edge in zip(bins, edges)]


def _bin_edges(name, x, bins, range):
    """Edges as a tensor gives them, or of as many equal parts of the range as a number says."""
    if isinstance(bins, TensorBase):
        if bins.ndim != 1 or bins._size < 2 or range is not None:
            raise ShapeError(f"{name}: the edges must be a vector of two or more, without a range, got shape {bins.shape} and "
                             f"range {range}")
        return cast(bins.detach(), x.dtype)
    if range is None:
        return _edges(name, x, bins, None, None, 0.5) if x._size else _edges(name, x, bins, 0.0, 1.0, 0.5)
    if len(range) != 2 or not range[0] <= range[1]:
        raise ArgumentError(f"{name}: range must be two numbers in order, got {range!r}")
    wider = 0.5 * (range[0] == range[1])
    return _edges(name, x, bins, range[0] - wider, range[1] + wider, 0.5)


class HistogramDD(Result):
    """What `histogramdd` gives: the counts, and per dimension the edges between which they are."""
    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def _np_histogramdd(x, bins, range=None, density=False):
    hist, edges = np.histogramdd(x, bins, range and list(zip(range[::2], range[1::2])), density=density)
    return hist.astype(x.dtype), [edge.astype(x.dtype) for edge in edges]


@composed(samples=(case((40, 2), 3), case((30, 3), bins=[2, 3, 4], range=[-2.0, 2.0, -1.0, 1.0, -3.0, 3.0]),
                   case((20, 2), 2, density=True)), method=False, smooth=False, takes={"input": "f"}, numpy=_np_histogramdd)
def histogramdd(input: Tensor, bins: int | Sequence[int] | Sequence[Tensor], *, range: Sequence[float] | None = None,
                weight: Tensor | None = None, density: bool = False) -> HistogramDD:
    """(hist, bin_edges): `histogram` of points in as many dimensions as `input` has columns. `bins` and the pairs of numbers of `range` are
    given for each of them.

    Shape: (..., D) -> one dimension for each column, and D vectors of edges.
    Raises: ShapeError where `weight` or the edges do not fit; DTypeError for edges of another dtype; ArgumentError for a range that is no
    range.

    >>> volta.histogramdd(volta.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]), bins=[2, 2]).hist
    tensor([[0., 1.],
            [2., 0.]])
    """
    if input.ndim < 2 or not input.shape[-1]:
        raise ShapeError(f"histogramdd: needs points (..., D), got shape {input.shape}")
    if weight is not None and (weight.shape != input.shape[:-1] or weight.dtype is not input.dtype):
        raise ShapeError(f"histogramdd: weight must be {input.dtype} of shape {input.shape[:-1]}, got {weight.dtype} {weight.shape}")
    size = input.shape[-1]
    bins = [bins] * size if isinstance(bins, int) else bins
    if any(isinstance(each, TensorBase) and each.dtype is not input.dtype for each in bins):
        raise DTypeError(f"histogramdd: the edges must be {input.dtype} as input is, got {[getattr(each, 'dtype', None) for each in bins]}")
    if len(bins) != size or range is not None and len(range) != 2 * size:
        raise ArgumentError(f"histogramdd: bins and pairs of numbers of the range must be given for each of {size} columns, got "
                            f"{len(bins)} bins and range {range}")
    ranges = [None] * size if range is None else list(zip(range[::2], range[1::2]))
    points = reshape_op(input, shape=(input._size // size, size))
    hist, edges = _histogram("histogramdd", [select(points, 1, d) for d, _ in enumerate(bins)], bins, ranges, weight, density)
    return HistogramDD(hist, tuple(edges))


histogramdd.has_out = False         # one of its results is a tuple, and PyTorch has no out= there
