"""Gather, scatter_add, index_select and index_add on the GPU, for every element type.

Additions have four forms: with few entries each output looks at all of them; with more that name rows, each workgroup lists those of its
rows (collect.py); very many are sorted by the row that they are added to, and each output adds those of its row. All add in the order of
the entries; of many for one row, sums of parts are added up. Many that name single elements are added exactly (exact.py).

What one binding cannot hold is seen through windows, in a plan for that call alone: of the source and of the output where elements
are copied, of the output where they are added. Sources of additions are cut by limits/rows.
"""
from __future__ import annotations

from functools import partial
from math import gcd, prod

from volta._kernels import core
from volta.devices.gpu.collect import add_collected, add_entries
from volta.devices.gpu.common import (
    THREADS,
    ceil_div,
)
from volta.devices.gpu.copy import contiguous, copy_into
from volta.devices.gpu.exact import Sum, add_columns, add_exactly, is_across, sums_of, width_of
from volta.devices.gpu.gather import add_gather, bits_of
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.limits.cut import KERNELS as TABLE
from volta.devices.gpu.limits.cut import call, narrow
from volta.devices.gpu.plans import At, Kernel, Plan
from volta.devices.gpu.sort import add_sort, swapped
from volta.devices.gpu.windows import Place, pieces, step_of, window

FEW_ENTRIES = 64            # up to which an addition is one dispatch
FEW_READS = 1 << 22         # index reads up to which that of up to four times as many is
MANY_ENTRIES = 4096         # from which rows may be so long that their parts are summed first
FEW_PLACES = 1024           # of a vector, up to which many entries are added up in parts
CHUNK = 256                 # entries of a part
MANY_COPIES = 1 << 20       # V's of a slice from which a thread copies several


# ---------------------------------------------------------------- copies

def _selected(full: bool, x, index, *, dim, windows=False):
    """Slices of x along dim; `full`: its elements, as torch.gather. With windows, pieces of the output by pieces of what they read."""
    size, inner, entries = x.shape[dim], prod(x.shape[dim + 1:]), index.shape[dim] if full else index._size
    narrowed = index.shape[:dim] + (size,) + index.shape[dim + 1:] if full else x.shape
    if narrowed != x.shape:         # other dims of the index may be shorter than those of x
        return lambda x, index, dim: KERNELS["gather"](core.view(x, narrowed, x._strides, x.offset), index, dim)
    plan = Plan(x, index)
    plan.output(x.shape[:dim] + (entries,) + x.shape[dim + 1:], x.dtype, windows)
    if windows and not full and index.storage.nbytes > plan.limit:
        return None
    alone = prod(x.shape[:dim]) == 1
    if (full or alone and inner == 1) and not windows and index._size and not index.offset % 4 and (
            alone and inner == 1 or not (inner if inner > 1 else entries) % 4):
        return add_gather(plan, x.dtype, (inner, entries, size), index._size, alone)
    width, lines = 1 if full else width_of(x.dtype, inner, x.offset), inner * entries
    total = prod(x.shape[:dim]) * lines
    step = step_of(plan.limit) if windows else total
    for first, count in pieces(0, total, step):
        target = window(2, x.dtype, first, count) if windows else Place(2, 0)
        named = window(1, index.dtype, index.offset + first, count) if windows and full else Place(1, At(1))
        each = 4 if count // width >= MANY_COPIES else 1
        begin, end = first // lines * size * inner, -(-(first + count) // lines) * size * inner
        for x_first, x_count in pieces(begin, end, step) if windows else [(0, 0)]:
            source = window(0, x.dtype, x.offset + x_first, x_count) if windows else Place(0, At(0))
            plan.step("index/select", (source.binding, named.binding, target.binding),
                      (count // width, inner // width, entries, size, source.words(width), named.words(), first // width, x_first // width,
                       x_count // width), ceil_div(count // width, THREADS * each), V=bits_of(x.dtype, width), FULL=full, WINDOWED=windows,
                      EACH=each)
    return plan


# ---------------------------------------------------------------- additions

def _added(full: bool, g, index, *, dim, size, windows=False):
    """Zeros with `size` along dim; g, or slices of it, added at index."""
    plan = Plan(g, index)
    if windows and max(g.storage.nbytes, index.storage.nbytes) > plan.limit:
        return None
    shape, entries = g.shape[:dim] + (size,) + g.shape[dim + 1:], g.shape[dim]
    plan.output(shape, g.dtype, windows)
    full = entries >= MANY_ENTRIES if g._size == entries else full          # of a vector both are the same
    fours = not (g.offset | index.offset) & 3
    count, what = prod(shape), Sum(g.dtype, full, prod(shape[:dim]), prod(shape[dim + 1:]), entries, size, g.offset & 3, fours)
    if not count:
        return plan
    if _is_small(entries, count):
        return _add(plan, what, count, windows)
    if not full and not windows and (what.inner == 1 < what.outer and add_columns(plan, what) or _collect(plan, what)):
        return plan
    if full and not windows and is_across(plan, what):
        return _added_across
    if full and not windows:
        found = _added_by_parts if _in_parts(g, size) else add_exactly(plan, what, index._size, count)
        if found:
            return found
    return _add_sorted(plan, what, index._size, windows)


def _summed(g, index, x, *, dim):
    """x, with g added at index along dim."""
    plan, entries, size = Plan(g, index, x), g.shape[dim], x.shape[dim]
    plan.output(x.shape, x.dtype)
    if _is_small(entries, x._size) or _in_parts(g, size):
        return _added_to
    what = Sum(g.dtype, True, prod(x.shape[:dim]), prod(x.shape[dim + 1:]), entries, size, g.offset & 3,
               not (g.offset | index.offset) & 3, True)
    if is_across(plan, what):
        return _added_to
    return add_exactly(plan, what, index._size, x._size) or _added_to


def _into(g, index, out, dim: int, elements: bool) -> tuple:
    """(plan, what is added in place, whether that is planned already: nothing, or so little that each place looks at all entries). IN:
    elements, that the index names one for each of g, rather than slices."""
    plan, entries, size = Plan(g, index, out), g.shape[dim], out.shape[dim]
    what = Sum(g.dtype, elements, prod(out.shape[:dim]), prod(out.shape[dim + 1:]), entries, size, (g.offset | out.offset) & 3,
               not (g.offset | index.offset) & 3, True, True)
    nothing, few = not g._size or not out._size, _is_small(entries, out._size)
    if few and not nothing:
        _add(plan, what, out._size, False)
    return plan, what, nothing or few


def _summed_into(g, index, out, *, dim):
    """In place: g added at index along dim."""
    plan, what, planned = _into(g, index, out, dim, True)
    if planned:
        return plan
    if _in_parts(g, what.size) or is_across(plan, what):
        return _added_to_all
    return add_exactly(plan, what, index._size, out._size) or _added_to_all


def _added_into(g, index, out, *, dim):
    """In place: slices of g added to those of out at index."""
    plan, what, planned = _into(g, index, out, dim, False)
    if planned:
        return plan
    if g._size == what.entries >= MANY_ENTRIES:     # of a vector both are the same
        return _SUMMED_INTO
    if what.inner == 1 < what.outer and add_columns(plan, what):
        return plan
    return plan if _collect(plan, what) else _add_sorted(plan, what, index._size, False)


def _added_to(g, index, x, *, dim):
    return call("add", x, KERNELS["scatter_add"](g, index, dim=dim, size=x.shape[dim]))


def _added_to_all(g, index, out, *, dim):
    TABLE["add"].into(out, out, KERNELS["scatter_add"](g, index, dim=dim, size=out.shape[dim]))


def _added_across(g, index, *, dim, size):
    """Along another dimension than the last, as lines of copies."""
    out = KERNELS["scatter_add"](*[contiguous(swapped(t, dim)) for t in (g, index)], dim=len(g.shape) - 1, size=size)
    return contiguous(swapped(out, dim))


def _is_small(entries: int, places: int) -> bool:
    """Whether each place may look at all entries of its line."""
    return entries <= FEW_ENTRIES or entries <= 4 * FEW_ENTRIES and places * entries <= FEW_READS


def _in_parts(g, size: int) -> bool:
    return len(g.shape) == 1 and size <= FEW_PLACES and g._size >= FEW_PLACES * size and g.dtype.code in (3, 5)      # int64, float32


def _added_by_parts(g, index, *, dim, size):
    """Many entries that name few places: those of parts, which are lines, and their sums."""
    whole, add = g._size // MANY_ENTRIES * MANY_ENTRIES, KERNELS["scatter_add"]
    lines = [core.view(t, (whole // MANY_ENTRIES, MANY_ENTRIES), (MANY_ENTRIES, 1), t.offset) for t in (g, index)]
    out = call("sum", add(*lines, dim=1, size=size), (0,), False)
    if whole < g._size:
        out = call("add", out, add(*[narrow(t, 0, whole, g._size) for t in (g, index)], dim=dim, size=size))
    return out


def _collect(plan: Plan, what: Sum) -> bool:
    """Whether workgroups that look at all entries can add them up."""
    width = what.width(what.inner)
    sizes, sums = (what.outer, what.inner // width, what.entries, what.size), sums_of(what.dtype, width)
    if what.into and add_entries(plan, sizes, At(2, width), sums, width):
        return True
    return add_collected(plan, sizes, At(2, width) if what.based else 0, what.based, sums, width)


def _add(plan: Plan, what: Sum, total: int, windows: bool) -> Plan:
    """Each output looks at all entries of its line."""
    width = 1 if what.full else what.width(what.inner)
    for first, count in pieces(0, total, step_of(plan.limit) if windows else total):
        target = window(2, what.dtype, first, count).binding if windows else 2
        plan.step("index/add", (0, 1, target),
                  (count // width, what.inner // width, what.entries, what.size, At(0, width), At(1), first // width,
                   At(2, width) if what.based else 0),
                  ceil_div(count // width, THREADS), FULL=what.full, BASED=what.based, **sums_of(what.dtype, width))
    return plan


def _add_sorted(plan: Plan, what: Sum, count: int, windows: bool):
    """The entries are sorted by row; each output adds those of its row. None where windows cannot show the output."""
    full, outer, inner, entries, rows = what.full, what.outer, what.inner, what.entries, what.size
    keys = add_keys(plan, Place(1, At(1)), (inner, entries, rows), count, full)
    if full:
        outer, inner, entries, rows = 1, 1, count, outer * rows * inner
    keys, places = add_sort(plan, keys, count, rows)
    width = what.width(inner)
    chunks = count // CHUNK if count >= MANY_ENTRIES else 0
    sums, overrides = None, sums_of(what.dtype, width)
    if chunks:
        vectors, sums = outer * chunks * inner // width, plan.scratch(4 * outer * chunks * inner)
        plan.step("index/sum", (0, places, keys, None, sums), (vectors, inner // width, entries, chunks, At(0, width), 0, 0),
                  ceil_div(vectors, THREADS), V=overrides["V"], A=overrides["A"], O=overrides["A"], CHUNKS=True)
    targets = _row_windows(plan.limit, what.dtype, outer, rows, inner) if windows else [(0, rows, 2)]
    for first, some, target in targets:
        starts, vectors = plan.scratch(4 * some + 4, "starts"), outer * some * inner // width
        plan.step("index/starts", (keys, starts), (some + 1, first, count, 0), ceil_div(some + 1, THREADS))
        plan.step("index/sum", (0, places, starts, sums, target), (vectors, inner // width, entries, some, At(0, width), chunks,
                                                                       At(2, width) if what.based else 0),
                  ceil_div(vectors, THREADS), PARTS=chunks > 0, BASED=what.based, **overrides)
    return plan if targets else None


def add_keys(plan: Plan, places: Place, sizes: tuple, count: int, full: bool = False, method: str = "ANY", helper=None) -> int:
    """Buffer of the places that the entries name, for sorting or as `method` says. IN: sizes, the (inner, entries, size) of the shader."""
    keys = plan.scratch(4 * count)
    plan.step("index/keys", (places.binding, helper, keys), (count, *sizes, places.words()),
              ceil_div(count, THREADS), FULL=full, METHOD=method)
    return keys


def _row_windows(limit: int, dtype, outer: int, rows: int, inner: int) -> list:
    """[(first row, how many, binding of the output)]; none where a window would not be a run of rows, or a row does not fit."""
    unit = 128 // gcd(inner, 128)                   # rows after which a binding may start
    step = step_of(limit) // inner // unit * unit
    if outer > 1 or not step:
        return []
    return [(first, count, window(2, dtype, first * inner, count * inner).binding) for first, count in pieces(0, rows, step)]


def _add_all_into(run, g, index, out, *, dim):
    """The same beyond a binding."""
    copy_into(out, call("add", out, KERNELS["index_add"](g, index, dim=dim, size=out.shape[dim])))


_INTO = Kernel("index_add_into", _added_into, writes=(2,), cut=_add_all_into)
_SUMMED_INTO = Kernel("scatter_add_into", _summed_into, writes=(2,),
                      cut=lambda run, *operands, **params: _added_to_all(*operands, **params))
_SUMMED = Kernel("scatter_sum", _summed, cut=lambda run, *operands, **params: _added_to(*operands, **params))
KERNELS = {
    **{name: Kernel(name, partial(_selected, full), windows=partial(_selected, full, windows=True), cut=cut)
       for name, full, cut in (("gather", True, None), ("index_select", False, cuts.index_select))},
    **{name: Kernel(name, partial(_added, full), windows=partial(_added, full, windows=True), cut=cuts.indexed_sum)
       for name, full in (("scatter_add", True), ("index_add", False))},
    "index_sum": lambda x, src, index, *, dim: call("add", x, KERNELS["index_add"](src, index, dim=dim, size=x.shape[dim])),
    "index_add_into": lambda out, g, index, *, dim: _INTO(g, index, out, dim=dim),
    "scatter_add_into": lambda out, g, index, *, dim: _SUMMED_INTO(g, index, out, dim=dim),
    "scatter_sum": lambda x, src, index, *, dim: _SUMMED(src, index, x, dim=dim)}
