"""Sorting on the GPU: short lines in workgroup memory, long ones by a radix sort, stable and the same on every run, three dispatches per
eight bits of a key; and searching in what is sorted.

Time is proportional to the number of keys. `add_sort` adds steps to the plans of other families too; it must not know tensors.
"""
from __future__ import annotations

from math import prod

from volta._kernels import core
from volta.devices.gpu.common import FLOAT16, INT32, INT64, STORED, THREADS, ceil_div
from volta.devices.gpu.copy import arange, full
from volta.devices.gpu.generate import Expression
from volta.devices.gpu.limits.cut import bytes_of, call, flat, halves, limit_of, part, refuse
from volta.devices.gpu.map import Geometry, elementwise_step
from volta.devices.gpu.plans import At, Kernel, Plan

DIGITS = 256
TILE = 2048                 # keys of a workgroup in a radix pass
SHORT = 2048                # elements of a line up to which it is sorted in workgroup memory
LEAST = 512                 # elements that a workgroup sorts there: of several lines where these are shorter


def add_sort(plan, keys: int, count: int, below: int, lines: int = 1) -> tuple:
    """(sorted keys, their positions in the line) as buffers of u32; equal keys stay in their order.

    IN: keys, a buffer of the plan with `count` u32 in [0, below) for each line, which is used up.
    """
    tiles = ceil_div(count, TILE)
    runs, groups = lines * DIGITS, lines * tiles
    counts, totals = plan.scratch(4 * runs * tiles), plan.scratch(4 * runs)
    places, spare_keys, spare_places = keys, None, None
    for shift in range(0, max((below - 1).bit_length(), 1), 8):
        plan.step("sort/count", (keys, counts), (groups, count, tiles, shift), groups)
        plan.step("sort/scan", (counts, totals), (runs, tiles), runs)
        new_keys = plan.scratch(4 * count * lines) if spare_keys is None else spare_keys
        new_places = plan.scratch(4 * count * lines) if spare_places is None else spare_places
        plan.step("sort/scatter", (keys, places, counts, totals, new_keys, new_places), (groups, count, tiles, shift), groups,
                  FIRST=shift == 0)
        spare_keys, spare_places = keys, None if shift == 0 else places
        keys, places = new_keys, new_places
    return keys, places


def _key(dtype, descending: bool) -> tuple:
    """(bits, WGSL function) of keys in the order of the elements: NaN is beyond all numbers, and -0 equals 0."""
    if dtype.code >= 4:
        bits, key = 32, "order_max(bitcast<f32>(select(bitcast<u32>(f32(x)), 0u, bitcast<u32>(f32(x)) == 0x80000000u)))"
    else:
        bits, key = {0: 1, 1: 8}.get(dtype.code, 32), "i32(x)"
    key = f"(bitcast<u32>({key}) ^ 0x80000000u)" if bits == 32 else "x"
    if dtype is FLOAT16:                    # the lower bits of the order of such a float32 are those of its sign
        bits, key = 19, f"({key} >> 13u)"
    return bits, f"fn key(x: E) -> u32 {{ return {f'~{key} & {hex((1 << bits) - 1)}u' if descending else key}; }}"


def _first(x, *, dim, descending, count):
    """(values, indices) of the first `count` in order of each SHORT elements along dim, one after the other."""
    length, run = x.shape[dim], max(1 << (count - 1).bit_length(), 2)
    tile = min(1 << (length - 1).bit_length(), SHORT)
    pieces, (_, key) = ceil_div(length, tile), _key(x.dtype, descending)
    found = (pieces - 1) * count + min(count, length - (pieces - 1) * tile)
    plan, shape = Plan(x), x.shape[:dim] + (found,) + x.shape[dim + 1:]
    values, indices = plan.output(shape, x.dtype), plan.output(shape, INT64)
    lines = x._size // length
    plan.step("sort/first", (0, values, indices), (lines, length, prod(x.shape[dim + 1:]), count, pieces, found, At(0)), lines * pieces,
              E=STORED[x.dtype.code], TILE=tile, RUN=run, key=key)
    return plan


def _first_of_long(x, dim, count, descending=False):
    """The first ones of a long line are among those of its pieces."""
    values, places = _FIRST(x, dim=dim, descending=descending, count=count)
    values, chosen = KERNELS["sort"](values, dim=dim, descending=descending, count=count)
    return values, call("gather", places, chosen, dim=dim)


def _sort(x, *, dim, descending=False, count=None):
    """(values, indices) in order along dim, the first `count` of them."""
    length, inner = (x.shape[dim], prod(x.shape[dim + 1:])) if x.shape else (1, 1)
    kept = length if count is None else count
    if x._size and 0 < kept <= min(length, SHORT) // 8:
        return _first(x, dim=dim, descending=descending, count=kept) if length <= SHORT else _first_of_long
    shape = x.shape[:dim] + (kept,) + x.shape[dim + 1:] if x.shape else ()
    plan = Plan(x)
    values, indices = plan.output(shape, x.dtype), plan.output(shape, INT64)
    if not prod(shape):
        return plan
    lines, (bits, key), element = x._size // length, _key(x.dtype, descending), STORED[x.dtype.code]
    if length <= SHORT:
        size = max(1 << (length - 1).bit_length(), 2)
        tile = max(size, LEAST)
        plan.step("sort/short", (0, values, indices), (lines, length, inner, kept, At(0)), ceil_div(lines, tile // size), E=element,
                  SIZE=size, TILE=tile, key=key)
        return plan
    keys = plan.scratch(4 * x._size)
    plan.step("sort/keys", (0, keys), (x._size, length, inner, At(0)), ceil_div(x._size, THREADS), E=element, key=key)
    _, places = add_sort(plan, keys, length, 1 << bits, lines)
    plan.step("sort/gather", (0, places, values, indices), (prod(shape), length, inner, kept, At(0)), ceil_div(prod(shape), THREADS),
              E=element)
    return plan


def _scatter_unique(g, index, *, dim, size):
    """Zeros with `size` along dim, and g at the places of index, none of which is named twice in a line."""
    plan, shape = Plan(g, index), g.shape[:dim] + (size,) + g.shape[dim + 1:] if g.shape else ()
    out, total = plan.output(shape, g.dtype), prod(shape)
    if g._size != total:
        pipeline, head, groups = elementwise_step(plan.ctx, Expression(("0",)), Geometry((total,), ((1,),), (0,)), (g.dtype,))
        plan.add(pipeline, (out,), head, groups)
    if g._size:
        plan.step("sort/unsort", (0, 1, out), (g._size, prod(g.shape[dim + 1:]), g.shape[dim] if g.shape else 1, size, At(0), At(1)),
                  ceil_div(g._size, THREADS), E=STORED[g.dtype.code])
    return plan


def _searchsorted(sorted, values, *, right=False):
    """Where each value belongs in its sorted line."""
    plan = Plan(sorted, values)
    plan.output(values.shape, INT64)
    if values._size:
        floating = sorted.dtype.code >= 4
        plan.step("sort/search", (0, 1, 2), (values._size, sorted.shape[-1], values.shape[-1] if values.shape else 1, At(0), At(1)),
                  ceil_div(values._size, THREADS), E=STORED[sorted.dtype.code], RIGHT=right, SHARED=len(sorted.shape) == 1,
                  unordered=f"fn unordered(x: E) -> bool {{ return {'is_nan(f32(x))' if floating else 'false'}; }}")
    return plan


# ---------------------------------------------------------------- beyond one binding

def _ranks(x, *, dim, descending):
    """int32 in the order of the elements."""
    plan = Plan(x)
    plan.step("sort/keys", (0, plan.output(x.shape, INT32)), (x._size, x._size, 1, At(0)), ceil_div(x._size, THREADS),
              E=STORED[x.dtype.code], key=_key(x.dtype, descending)[1].replace("return", "return 0x80000000u ^ (").replace(";", ");"))
    return plan


def _other(x, dim):
    """A dimension other than dim by which work can be cut; None where there is but one line."""
    return next((d for d, n in enumerate(x.shape) if d != dim and n > 1), None)


def _cut_sort(run, x, *, dim, descending=False, count=None):
    """By another dimension; of one line alone, sorted halves are merged: each element is behind those of the other half before it."""
    params, other = {"dim": dim, "descending": descending}, _other(x, dim)
    if other is not None:
        return halves(run, (x,), {**params, "count": count}, (other,), (other, other))
    length, line = x._size, flat(x)
    if length < 2:
        refuse(x)
    bounds = (0, length // 2), (length // 2, length)
    sides = [run(part(line, 0, a, b), dim=0, descending=descending) for a, b in bounds]
    ranks = [_RANKS(values, dim=0, descending=descending) for values, _ in sides]
    out = [full((length,), 0, t.dtype, t.storage.device) for t in sides[0]]
    for i, (begin, end) in enumerate(bounds):
        behind = call("searchsorted", ranks[1 - i], ranks[i], right=i == 1)
        to = call("add", behind, arange(0, 1, end - begin, INT64, x.storage.device))
        for target, given in zip(out, (sides[i][0], call("add", sides[i][1], begin))):
            call("index_put", target, to, given, rank=1, unique=True)
    kept = length if count is None else count
    return tuple([core.reshaped(part(t, 0, 0, kept), x.shape[:dim] + (kept,) + x.shape[dim + 1:]) for t in out])


def _cut_scatter(run, g, index, *, dim, size):
    other = _other(g, dim)
    if other is not None:
        return halves(run, (g, index), {"dim": dim, "size": size}, (other, other), other)
    out = full((size,), 0, g.dtype, g.storage.device)
    call("index_put", out, flat(index), flat(g), rank=1, unique=True)
    return core.reshaped(out, g.shape[:dim] + (size,) + g.shape[dim + 1:])


def _cut_search(run, sorted, values, *, right=False):
    """By lines, by values, and at last by the line: what is before a value in both halves adds up."""
    last = len(sorted.shape) - 1
    other = _other(sorted, last)
    if other is not None:
        return halves(run, (sorted, values), {"right": right}, (other, other), other)
    if bytes_of(values) > limit_of(values):
        at = max(range(len(values.shape)), key=lambda d: values.shape[d])
        lines = core.reshaped(flat(sorted), (sorted._size,))
        return halves(run, (lines, values), {"right": right}, (None, at), at)
    return halves(run, (sorted, values), {"right": right}, (last, None), None)


_FIRST = Kernel("sort_first", _first)
_RANKS = Kernel("sort_ranks", _ranks, cut=lambda run, x, **params: halves(run, (x,), params, (0,), 0))
KERNELS = {"sort": Kernel("sort", _sort, cut=_cut_sort), "scatter_unique": Kernel("scatter_unique", _scatter_unique, cut=_cut_scatter),
           "searchsorted": Kernel("searchsorted", _searchsorted, cut=_cut_search)}
