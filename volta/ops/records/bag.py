"""The records of sums, means and maxima of the rows of a table that bags of indices name."""
from __future__ import annotations

import math

import numpy as np

from volta.dtypes import int64
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op, full_op
from volta.ops.records.index import gather_op, index_add_op, index_select_op, scatter_add_op, scatter_reduce_op
from volta.ops.records.math import clamp_max, clamp_min, where_op
from volta.ops.records.reduce import sum_op
from volta.ops.records.sort import searchsorted_op, sort_op
from volta.ops.records.view import expand_op, reshape_op, slice_op
from volta.ops.table import Derived, Labels, case, create, register


def _np_bags(weight, index, offsets, scales, bags, padding, mean):
    out, each = np.zeros((bags, weight.shape[1]), weight.dtype), len(index) // max(bags, 1)
    for k in range(bags):
        first, last = (k * each, (k + 1) * each) if offsets is None else (*offsets, len(index))[k:k + 2]
        at = index[first:last]
        rows = weight[at] * (1 if scales is None else scales[first:last, None])
        rows = rows[at != padding]
        out[k] = rows.sum(0) / (max(len(rows), 1) if mean else 1)
    return out


def _totals(x, offsets, bags):
    """x[n, width], added bag by bag."""
    n, width = x.shape
    if offsets is None:
        return sum_op(reshape_op(x, shape=(bags, n // max(bags, 1), width)), dim=(1,), keepdim=False)
    places = create(arange_op, 0, 1, n, dtype=int64, device=x.device)
    bag = searchsorted_op(offsets, places, right=True) - 1
    return slice_op(index_add_op(x, bag, dim=0, size=bags + 1), starts=(0, 0), sizes=(bags, width), steps=(1, 1))


def _bag_sum(weight, index, offsets, scales, bags, padding, mean):
    """By the rows one by one."""
    n, rows = index._size, index_select_op(weight, index, dim=0)
    counts = reshape_op(index != padding, shape=(n, 1))
    if scales is not None:
        rows = rows * reshape_op(scales, shape=(n, 1))
    total = _totals(where_op(counts, rows, 0.0), offsets, bags)
    if not mean:
        return total
    counted = _totals(cast(counts, int64), offsets, bags)
    return total / cast(where_op(counted > 1, counted, 1), weight.dtype)


def _bags_of(index, offsets, bags, padding):
    """Which bag each index is in, and whether it counts there: offsets may leave out the first and the last ones."""
    places = create(arange_op, 0, 1, index._size, dtype=int64, device=index.device)
    counts = index != padding
    if offsets is None:
        return places // (index._size // max(bags, 1)), counts
    bag = searchsorted_op(offsets, places, right=True) - 1
    return clamp_max(clamp_min(bag, 0), bags - 1), counts & (bag >= 0) & (bag < bags)


def _by_rows(g, weight_shape, index, offsets, scales, bags, padding, mean):
    """The gradient of the table is made of bags itself: those of the bags that name a row, in the order of the indices."""
    rows, n = weight_shape[0], index._size
    if not n or not g._size:
        return create(full_op, weight_shape, 0, dtype=g.dtype, device=g.device)
    if offsets is None and padding < 0:                                 # bags of one size, all of whose indices count
        each = n // bags
        g = g / float(each) if mean else g
        line, order = sort_op(index, dim=0)
        bag = order // each
    else:
        bag, counts = _bags_of(index, offsets, bags, padding)
        if mean:
            counted = _totals(cast(reshape_op(index != padding, shape=(n, 1)), int64), offsets, bags)
            g = g / cast(where_op(counted > 1, counted, 1), g.dtype)
        line, order = sort_op(where_op(counts, index, rows), dim=0)     # what does not count is behind all rows
        bag = index_select_op(bag, order, dim=0)
    starts = searchsorted_op(line, create(arange_op, 0, 1, rows + 1, dtype=int64, device=index.device), right=False)
    scales = None if scales is None else index_select_op(scales, order, dim=0)
    return bag_sum_op(g, bag, starts, scales, bags=rows, padding=-1, mean=False)


def _of_scales(g, weight, index, offsets, bags, padding, mean):
    """<g, row> of each index."""
    if not index._size or not g._size:
        return create(full_op, (index._size,), 0, dtype=g.dtype, device=g.device)
    bag, counts = _bags_of(index, offsets, bags, padding)
    found = sum_op(index_select_op(g, bag, dim=0) * index_select_op(weight, index, dim=0), dim=(1,), keepdim=False)
    if mean:
        counted = _totals(cast(reshape_op(index != padding, shape=(index._size, 1)), int64), offsets, bags)
        found = found / cast(index_select_op(reshape_op(where_op(counted > 1, counted, 1), shape=(bags,)), bag, dim=0), g.dtype)
    return where_op(counts, found, 0.0)


_OFFSETS = Derived(lambda *_: np.array([0, 2, 2, 5]))
bag_sum_op = register(
    "bag_sum", ("weight", "index", "offsets", "scales"), family="bag",
    takes={"weight": "f", "index": "int64", "offsets": "int64?", "scales": "=weight?"}, numpy=_np_bags, reference=_bag_sum,
    vjp=(_by_rows, None, None, _of_scales),
    cases=(case((7, 3), Labels((6,), 7), _OFFSETS, None, bags=4, padding=-1, mean=False),
           case((7, 3), Labels((6,), 7), _OFFSETS, (6,), bags=4, padding=2, mean=False),
           case((7, 70), Labels((9,), 7), _OFFSETS, None, bags=3, padding=1, mean=True),
           case((5, 131), Labels((12,), 5), None, None, bags=3, padding=-1, mean=True),
           case((5, 64), Labels((40,), 5), None, (40,), bags=2, padding=3, mean=False),
           case((5, 2), Labels((0,), 5), None, None, bags=2, padding=-1, mean=True)))


def _np_largest(weight, index, offsets, bags, padding):
    out, taken, each = np.zeros((bags, weight.shape[1]), weight.dtype), np.full((bags, weight.shape[1]), -1), len(index) // max(bags, 1)
    for k in range(bags):
        at = index[k * each:(k + 1) * each] if offsets is None else index[slice(*(*offsets, len(index))[k:k + 2])]
        at = at[at != padding]
        if len(at):
            out[k], taken[k] = weight[at].max(0), at[weight[at].argmax(0)]
    return out, taken


def _largest_gradient(g, taken, weight_shape, weight_dtype, weight_device):
    if not weight_shape[0]:
        return create(full_op, weight_shape, 0, dtype=weight_dtype, device=weight_device)
    return scatter_add_op(where_op(taken < 0, 0.0, g), clamp_min(taken, 0), dim=0, size=weight_shape[0])


def _bag_max(weight, index, offsets, bags, padding):
    """By the rows one by one: where a NaN leads its bag it counts as infinite, others as the least; of the largest, the first."""
    n, width = index._size, weight.shape[1]
    if not n:
        return tuple([create(full_op, (bags, width), value, dtype=dtype, device=weight.device) for value, dtype in (
            (0, weight.dtype), (-1, int64))])
    places = create(arange_op, 0, 1, n, dtype=int64, device=weight.device)
    end = create(full_op, (bags + 1,), n, dtype=int64, device=weight.device)
    bag = places // (n // max(bags, 1)) if offsets is None else searchsorted_op(offsets, places, right=True) - 1
    counts, rows = index != padding, index_select_op(weight, index, dim=0)
    first = scatter_reduce_op(end, where_op(counts, places, n), bag, dim=0, reduce="amin")
    leads, column, counts = (reshape_op(t, shape=(n, 1)) for t in (index_select_op(first, bag, dim=0) == places, places, counts))
    known = where_op(rows == rows, rows, where_op(leads, math.inf, -math.inf))
    wide = expand_op(reshape_op(bag, shape=(n, 1)), shape=(n, width))
    least = create(full_op, (bags + 1, width), -math.inf, dtype=weight.dtype, device=weight.device)
    top = scatter_reduce_op(least, where_op(counts, known, -math.inf), wide, dim=0, reduce="amax")
    own = where_op(counts & (known == index_select_op(top, bag, dim=0)), column, n)
    at = scatter_reduce_op(expand_op(reshape_op(end, shape=(bags + 1, 1)), shape=(bags + 1, width)), own, wide, dim=0, reduce="amin")
    at = slice_op(at, starts=(0, 0), sizes=(bags, width), steps=(1, 1))
    none, at = at == n, clamp_max(at, n - 1)
    taken = reshape_op(index_select_op(index, reshape_op(at, shape=(at._size,)), dim=0), shape=at.shape)
    return where_op(none, 0.0, gather_op(rows, at, dim=0)), where_op(none, -1, taken)


bag_max_op = register(
    "bag_max", ("weight", "index", "offsets"), family="bag", outputs=("out", "taken"), reference=_bag_max,
    takes={"weight": "f", "index": "int64", "offsets": "int64?"}, numpy=_np_largest, vjp=(_largest_gradient, None, None),
    cases=(case((7, 3), Labels((6,), 7), _OFFSETS, bags=4, padding=-1), case((7, 3), Labels((6,), 7), _OFFSETS, bags=4, padding=2),
           case((5, 131), Labels((12,), 5), None, bags=3, padding=-1), case((5, 2), Labels((0,), 5), None, bags=2, padding=-1)))
