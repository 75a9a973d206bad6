"""Elements replaced by, multiplied or compared with those that an index sends to them, on the GPU: scatter_reduce.

Extremes have one result in any order, and are atomic: in workgroup memory while that holds the places of some columns. Products are made in
the order of the entries, place by place, once these are listed in workgroup memory or, where it does not hold those of a column, sorted.
"""
from __future__ import annotations

from math import prod

from volta._kernels import core
from volta.devices.gpu.common import INT32, INT64, THREADS, ceil_div
from volta.devices.gpu.copy import arange, contiguous, copy_into
from volta.devices.gpu.exact import LINES, sums_of
from volta.devices.gpu.gather import bits_of
from volta.devices.gpu.index import FEW_ENTRIES, MANY_ENTRIES, add_keys
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.limits.cut import call
from volta.devices.gpu.map import add_elementwise
from volta.devices.gpu.plans import At, Kernel, Plan
from volta.devices.gpu.sort import add_sort
from volta.devices.gpu.windows import Place

STRIP = 8                   # columns of a workgroup: one access to memory
MOST_LISTED = 16            # entries of a place, on the average, from which many are rather sorted
EACH = 4                    # entries, or places, of a thread that lists them


def _replaced(run, x, src, index, *, dim):
    """What _last does, by writing at the places of all elements."""
    outer, size, inner, device = prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1:]), x.storage.device
    out, entries = contiguous(x), core.reshaped(contiguous(index), (outer, src.shape[dim], inner))
    lines, columns = arange(0, size * inner, outer, INT64, device), arange(0, 1, inner, INT64, device)
    places = call("add", call("add", call("mul", entries, inner), core.reshaped(lines, (outer, 1, 1))), columns)
    call("index_put", *(core.reshaped(t, (t._size,)) for t in (out, places, contiguous(src))), rank=1)
    return out


def _last(x, src, index, *, dim):
    """x, with the elements of src written where index sends them along dim; the last of those that go to one place counts."""
    plan = Plan(x, src, index)
    out, count, inner, entries, size = plan.output(x.shape, x.dtype), x._size, prod(x.shape[dim + 1:]), src.shape[dim], x.shape[dim]
    lines, last = count // (size * inner) if count else 0, 2
    in_lines = inner == 1 and size <= MANY_ENTRIES and (lines >= LINES or entries <= MANY_ENTRIES)
    if not in_lines and count:
        last = plan.scratch(4 * count)
        add_elementwise(plan, "0", (last,), (count,), ((1,),), INT32)
        plan.step("index/last", (2, last), (src._size, inner, entries, size, At(2)), ceil_div(src._size, THREADS), FULL=True)
    if count:
        plan.step("index/replace", (0, 1, last, out), (lines if in_lines else count, entries, size, At(0), At(1), At(2)),
                  lines if in_lines else ceil_div(count, 4 * THREADS), V=bits_of(x.dtype), LINES=in_lines,
                  PLACES=1 << max(size - 1, 1).bit_length() if in_lines else 1)
    return plan


def _places(plan: Plan) -> int:
    """Words of workgroup memory for places."""
    return min(plan.ctx.limits["max-compute-workgroup-storage-size"], 32768) // 4


def _extremes(x, src, index, *, dim, reduce):
    """x, or the largest (amax) or least of it and what index sends there along dim."""
    plan = Plan(x, src, index)
    plan.output(x.shape, x.dtype)
    inner, entries, size = prod(x.shape[dim + 1:]), src.shape[dim], x.shape[dim]
    if not x._size:
        return plan
    floating, columns, order = x.dtype.is_floating_point, 1 if inner == 1 else STRIP, "order_max" if reduce == "amax" else "order_min"
    overrides = {"V": sums_of(x.dtype, 1)["V"], "LARGEST": reduce == "amax", "key": f"{order}(f32(v))" if floating else "i32(v)"}
    if columns * size <= _places(plan):
        strips = ceil_div(inner, columns)
        groups = x._size // (inner * size) * strips
        threads = min(max(1 << max(max(entries, size) * columns // 4, 1).bit_length() - 1, 64), THREADS)
        plan.step("index/extreme", (0, 1, 2, 3), (groups, inner, entries, size, strips, At(0), At(1), At(2)), groups, COLUMNS=columns,
                  THREADS=threads, PLACES=columns * size, value="V(from_order(order))" if floating else "V(order)", **overrides)
        return plan
    best, sizes = plan.scratch(4 * x._size) if floating else 3, (inner, entries, size, At(0), At(1), At(2))
    for entry, count in (("start", x._size), ("compare", src._size), ("finish", x._size))[:2 + floating]:
        plan.step("index/best", (0, 1, 2, best, 3 if entry == "finish" else None), (count, *sizes), ceil_div(count, THREADS), entry=entry,
                  **overrides, **({} if floating else {"value": "V(order)"}))
    return plan


def _threads_of_lists(plan: Plan, most: int) -> int:
    """Threads of a workgroup that lists entries. IN: most, of its entries or places."""
    return min(max(1 << max(most // EACH, 1).bit_length() - 1, 64), 4 * THREADS, plan.ctx.limits["max-compute-invocations-per-workgroup"])


def _columns_of_lists(plan: Plan, outer: int, inner: int, most: int, words: int) -> int:
    """Columns of a workgroup that lists their entries, 0 where its memory has no room for one. IN: most, entries or places of a column;
    words, of both."""
    memory = plan.ctx.limits["max-compute-workgroup-storage-size"]

    def fits(columns):
        return 4 * columns * words + 5 * _threads_of_lists(plan, columns * most) <= memory
    columns = 1
    while columns < min(STRIP, inner) and fits(2 * columns) and outer * ceil_div(inner, 2 * columns) >= LINES:
        columns *= 2
    return columns if fits(columns) else 0


def _products(x, src, index, *, dim):
    """x, multiplied with what index sends there along dim."""
    plan = Plan(x, src, index)
    plan.output(x.shape, x.dtype)
    count, inner, entries, size = x._size, prod(x.shape[dim + 1:]), src.shape[dim], x.shape[dim]
    if not count:
        return plan
    few, columns = entries <= FEW_ENTRIES, _columns_of_lists(plan, count // (size * inner), inner, max(entries, size), entries + size)
    overrides = sums_of(x.dtype, 1)
    overrides.pop("O")
    if not few and columns and (entries < MANY_ENTRIES or entries <= MOST_LISTED * size):
        strips = ceil_div(inner, columns)
        groups = count // (size * inner) * strips
        plan.step("index/product", (0, 1, 2, 3), (groups, inner, entries, size, strips, At(0), At(1), At(2)), groups, COLUMNS=columns,
                  PLACES=columns * size, ENTRIES=columns * entries, THREADS=_threads_of_lists(plan, columns * max(entries, size)),
                  **overrides)
        return plan
    places, starts = 2, None
    if not few:
        keys = add_keys(plan, Place(2, At(2)), (inner, entries, size), index._size, True)
        keys, places = add_sort(plan, keys, index._size, count)
        starts = plan.scratch(4 * count + 4, "starts")
        plan.step("index/starts", (keys, starts), (count + 1, 0, index._size, 0), ceil_div(count + 1, THREADS))
    plan.step("index/reduce", (0, 1, places, starts, 3), (count, inner, entries, size, At(0), At(1), At(2)), ceil_div(count, THREADS),
              SORTED=not few, **overrides)
    return plan


def _scatter_reduce(x, src, index, dim, reduce):
    if reduce == "last":
        return _LAST(x, src, index, dim=dim)
    return _PRODUCTS(x, src, index, dim=dim) if reduce == "prod" else _EXTREMES(x, src, index, dim=dim, reduce=reduce)


def _scatter_reduce_into(out, src, index, dim, reduce):
    if len(index.shape) < len(out.shape):
        strides = [0] * len(src.shape)
        strides[dim] = index._strides[0]
        index = core.view(index, src.shape, tuple(strides), index.offset)
    copy_into(out, _scatter_reduce(out, src, index, dim, reduce))


def _cut_products(run, x, src, index, dim):
    return cuts.indexed_reduction(lambda *tensors, dim, reduce: run(*tensors, dim=dim), x, src, index, dim, "prod")


_LAST = Kernel("scatter_last", _last, cut=_replaced)
_EXTREMES = Kernel("scatter_extremes", _extremes, cut=cuts.indexed_reduction)
_PRODUCTS = Kernel("scatter_products", _products, cut=_cut_products)
KERNELS = {"scatter_reduce": _scatter_reduce, "scatter_reduce_into": _scatter_reduce_into}
