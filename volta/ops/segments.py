"""Reductions of segments, which lie one behind another along a dimension (`segment_reduce`)."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from volta._kernels import core
from volta.dtypes import int32, int64
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.creation import arange, full
from volta.ops.indexing import known_range
from volta.ops.records.copy import cast
from volta.ops.records.math import clamp_min, where_op
from volta.ops.records.view import expand_op, reshape_op
from volta.ops.scan import cumsum
from volta.ops.scatter import SHORT, scatter_reduce
from volta.ops.sort import searchsorted
from volta.ops.table import composed

if TYPE_CHECKING:
    from volta.tensor import Tensor

_STARTS = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}


@composed(untested="tests/test_native_forms.py: its lengths are given by name", method=False)
def segment_reduce(data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: None = None, offsets: Tensor | None = None,
                   axis: int = 0, unsafe: bool = False, initial: float | None = None) -> Tensor:
    """The sum, mean, product, largest or smallest of each segment along `axis`, of `lengths` elements each, or between `offsets`; these
    have one vector for each place of the dimensions before. Empty ones, and all reductions but the mean, start from `initial`.

    Raises: ArgumentError, ShapeError, DTypeError where the arguments do not fit; what the lengths add up to is not looked at if `unsafe`.

    >>> volta.segment_reduce(volta.tensor([1.0, 2.0, 3.0]), "max", lengths=volta.tensor([2, 1])).tolist()
    [2.0, 3.0]
    """
    reduce = SHORT.get(reduce, reduce)
    if reduce not in _STARTS:
        raise ArgumentError(f"segment_reduce: reduce must be one of {', '.join(_STARTS)}, got {reduce!r}")
    if indices is not None or (lengths is None) == (offsets is None):
        raise ArgumentError("segment_reduce: needs either lengths or offsets")
    given = offsets if lengths is None else lengths
    if not data.dtype.is_floating_point or given.dtype not in (int32, int64):
        raise DTypeError(f"segment_reduce: needs floating point data and int64 or int32 lengths or offsets, got {data.dtype} and "
                         f"{given.dtype}")
    axis = axis + given.ndim if axis < 0 else axis
    if axis != given.ndim - 1 or axis >= data.ndim or given.shape[:-1] != data.shape[:axis]:
        raise ShapeError(f"segment_reduce: lengths or offsets {given.shape} must have the dimensions of data {data.shape} up to axis "
                         f"{axis}, its last")
    given, steps, known = cast(given, int64), data.shape[axis], known_range(given)
    lead = math.prod(data.shape[:axis])
    if offsets is None:
        counts = reshape_op(given, shape=(lead, given.shape[-1]))
        ends = cumsum(counts, 1)
    else:
        ends = reshape_op(given, shape=(lead, given.shape[-1]))[:, 1:]
        counts = ends - reshape_op(given, shape=(lead, given.shape[-1]))[:, :-1]
    if unsafe and known is not None and lengths is not None and known[0] < 0:
        raise ArgumentError(f"segment_reduce: the lengths must not be negative, got {known[0]}")
    if not unsafe and core.host_sees(counts) and lengths is not None and counts._size:
        if (counts < 0).any().item() or (ends[:, -1] != steps).any().item():
            raise ArgumentError(f"segment_reduce: the lengths must not be negative, and add up to the {steps} elements along axis {axis}")
    elif not unsafe and known is not None and lengths is not None and not 0 <= known[0] <= known[1] <= steps:
        raise ArgumentError(f"segment_reduce: the lengths must not be negative, and add up to the {steps} elements along axis {axis}, got "
                            f"{known[0]} to {known[1]}")
    return _reduced(data, reduce, axis, counts, ends, initial)


def _reduced(data, reduce, axis, counts, ends, initial):
    lead, segments = counts.shape
    steps, inner = data.shape[axis], math.prod(data.shape[axis + 1:])
    out = full((lead, segments + 1, inner), _STARTS[reduce] if initial is None else float(initial), dtype=data.dtype, device=data.device)
    places = arange(steps, device=data.device)
    begin = reshape_op(ends[:, :1] - counts[:, :1], shape=(lead, 1)) if segments else None
    at = searchsorted(ends.contiguous(), places.expand(lead, steps).contiguous(), right=True)
    if begin is not None:                       # what lies before the first segment or behind the last one goes to a row of its own
        at = where_op(reshape_op(places, shape=(1, steps)) < begin, segments, at)
    index = expand_op(reshape_op(at, shape=(lead, steps, 1)), shape=(lead, steps, inner))
    out = scatter_reduce(out, 1, index, reshape_op(data, shape=(lead, steps, inner)), "sum" if reduce == "mean" else reduce)[:, :segments]
    if reduce == "mean":
        n = cast(reshape_op(counts, shape=(lead, segments, 1)), data.dtype)
        out = out / clamp_min(n, 1.0) if initial is not None else where_op(n > 0, out / clamp_min(n, 1.0), math.nan)
    return reshape_op(out, shape=data.shape[:axis] + (segments,) + data.shape[axis + 1:])
