"""Sorting on the GPU, stable and the same on every run: lines in workgroup memory, by a network or by digits; longer ones by runs that are
put together, or by a radix sort, three to five dispatches per eight bits of a key; few elements of a long line by selection. And searching
in what is sorted.

Time is proportional to the number of keys. `add_sort` adds steps to the plans of other families too; it must not know tensors.
"""
from __future__ import annotations

from math import prod
from typing import NamedTuple

from volta._kernels import core
from volta.devices.gpu.common import FLOAT16, INT32, INT64, STORED, THREADS, ceil_div
from volta.devices.gpu.copy import arange, contiguous, full
from volta.devices.gpu.generate import Expression
from volta.devices.gpu.limits.cut import bytes_of, call, flat, halves, limit_of, narrow, part, refuse
from volta.devices.gpu.map import Geometry, add_elementwise, elementwise_step
from volta.devices.gpu.plans import At, Kernel, Plan

DIGITS = 256
SCANNED = 2048              # counts of a workgroup of the scan between a pass's two looks at the keys,
MOST_COUNTS = 1 << 18       # and of those that need none: where each workgroup that counts adds to totals of all, of
FEWEST_TILES = 64           # few lines, each of many
ROWS = 32                   # of 256 elements, of a workgroup that selects
ITEMS = 16                  # elements of a thread where a workgroup sorts by digits
LONGEST = 8192              # elements of a line that it sorts, at most
FEWEST = 64 * 4             # places that it has, at least: `running_sum` takes 64 threads and multiples of them, with fewer elements each
RUN = 4096                  # of a run that is sorted so, of longer lines
MERGED = 16 * RUN           # elements of a line whose runs are put together, rather than that all are passed over by their digits
FEW_MERGED = 1 << 18        # and of all lines
TILES = (4096, 2048, 1024)  # keys that it has in a pass over longer lines, as its memory allows
SHORT = 2048                # elements of a line up to which it is sorted in workgroup memory
RANKED = 64                 # elements of a line up to which each is compared with all others, to find that at a place
NTH_LONGEST = 1 << 14       # elements of a line of which one workgroup finds that at a place, where there are fewer than NTH_LINES
NTH_LINES = 128
NTH_ACROSS = 1 << 20        # elements from which lines along another dimension are copied, to read neighbours
LEAST = 512                 # elements that a workgroup sorts there: of several lines where these are shorter


def add_sort(plan, keys: int, count: int, below: int, lines: int = 1) -> tuple:
    """(sorted keys, their positions in the line) as buffers of u32; equal keys stay in their order.

    IN: keys, a buffer of the plan with `count` u32 in [0, below) for each line, which is used up.
    """
    if count <= MERGED and count * lines <= FEW_MERGED and fits(plan, RUN):
        results = plan.scratch(4 * count * lines), plan.scratch(4 * count * lines)
        _add_runs(plan, keys, results, (lines, count, count), max((below - 1).bit_length(), 1), {"E": "u32", "key": "x"},
                  {"bits": "x", "element": "b"})
        return results
    spares, places = (None, None), keys
    for shift in range(0, max((below - 1).bit_length(), 1), 8):
        targets = tuple([plan.scratch(4 * count * lines) if spare is None else spare for spare in spares])
        _pass(plan, (keys, places, keys), targets, count, lines, shift)
        spares, (keys, places) = (keys, None if shift == 0 else places), targets
    return keys, places


def _add_runs(plan, source: int, results: tuple, sizes: tuple, bits: int, typed: dict, copied: dict, at=0) -> None:
    """At most two steps from elements, which begin at `at`, to them in order and their places: runs in order, and these put together. IN:
    sizes, (lines, elements of one, how many of them are kept); typed, overrides that say what an element is."""
    lines, length, kept = sizes
    runs, size = ceil_div(length, RUN), RUN if length > RUN else max(1 << (length - 1).bit_length(), FEWEST)
    total = lines * length
    found = results if runs == 1 else tuple([plan.scratch(4 * total) for _ in results])
    plan.step("sort/line", (source, *found), (lines, min(length, RUN), kept if runs == 1 else RUN, at, length), lines * runs,
              BITS=bits, RUNS=runs, **_places(size), **typed, **copied)
    if runs > 1:
        plan.step("sort/merge", (*found, *results), (total, length, RUN, kept), ceil_div(total, THREADS), RUNS=runs,
                  STEPS=RUN.bit_length(), **typed)


def _places(size: int) -> dict:
    """Overrides of a workgroup that sorts `size` places."""
    items = min(ITEMS, size // 64)
    return {"THREADS": size // items, "ITEMS": items, "PLACE_BITS": size.bit_length() - 1}


def _pass(plan, sources: tuple, targets: tuple, length: int, lines: int, shift: int, kept: int | None = None, first: dict | None = None,
          last: dict | None = None, at=0) -> None:
    """One pass, by eight bits of the keys. IN: sources, buffers of keys, places and elements; first and last, overrides where the keys are
    made of elements, which begin at `at`, and where elements are made of keys."""
    tile, first = next((n for n in TILES if fits(plan, n, more=2048)), 64 * ITEMS), first or {}
    tiles, threads = ceil_div(length, tile), tile // ITEMS
    counts = lines * DIGITS * tiles
    starts = plan.scratch(4 * counts, "counts")
    keys, at_keys = sources[0], at if first else 0
    several, at_totals = SCANNED < counts <= MOST_COUNTS and tiles >= FEWEST_TILES, shift // 8 * lines * DIGITS
    totals = plan.scratch(4 * 4 * lines * DIGITS if several else 4, "digits")
    if several and shift == 0:
        add_elementwise(plan, "0", (totals,), (4 * lines * DIGITS,), ((1,),), INT32)
    plan.step("sort/count", (keys, starts, totals), (lines * tiles, length, tiles, shift, at_keys, at_totals), lines * tiles, TILE=tile,
              TOTALS=several, **first)
    if several:
        plan.step("sort/offsets", (totals, starts), (lines * DIGITS, length, tiles, at_totals), lines * DIGITS)
    else:
        add_scan(plan, starts, counts)
    plan.step("sort/scatter", (*sources[:2], starts, sources[2], *targets),
              (lines * tiles, length, tiles, shift, length if kept is None else kept, at_keys, at), lines * tiles,
              THREADS=threads, ITEMS=ITEMS, FIRST=shift == 0, **first, **(last or {}))


def add_scan(plan, counts: int, number: int) -> None:
    """Each count becomes the sum of those before it."""
    groups = ceil_div(number, SCANNED)
    totals = plan.scratch(4 * groups, "totals")
    if groups > 1:
        plan.step("sort/scan", (totals, counts), (number,), groups, TOTALS=True)
    plan.step("sort/scan", (totals, counts), (number,), groups)


def fits(plan, tile: int, items: int = ITEMS, more: int = 0) -> bool:
    """Whether a workgroup can sort so many elements by their digits, `items` to a thread, with `more` bytes of workgroup memory beside."""
    limits = plan.ctx.limits
    return (4 * (33 * tile >> 5) + 5 * tile // items + more <= limits["max-compute-workgroup-storage-size"]
            and tile // items <= limits["max-compute-invocations-per-workgroup"])


class Keys(NamedTuple):
    """Keys in the order of the elements: how many bits they have, and the WGSL functions from elements to keys and back; an ambiguous key
    has several elements. NaN is beyond all numbers, and -0 equals 0."""

    bits: int
    key: str
    value: str
    ambiguous: str


def _keys(dtype, descending: bool) -> Keys:
    bits, key, value, ambiguous = {0: 1, 1: 8}.get(dtype.code, 32), "x", "k", "false"
    if dtype.is_floating_point:
        key = "bitcast<u32>(order_max(bitcast<f32>(select(bitcast<u32>(f32(x)), 0u, bitcast<u32>(f32(x)) == 0x80000000u))))"
        value = "bitcast<u32>(from_order(bitcast<i32>({})))"
    elif bits == 32:
        key, value = "bitcast<u32>(i32(x))", "{}"
    if bits == 32:
        key, value = f"({key} ^ 0x80000000u)", value.format("k ^ 0x80000000u")
    if dtype is FLOAT16:                    # the lower bits of the order of such a float32 are those of its sign
        bits, key, value = 19, f"({key} >> 13u)", f"({value.replace('k ^', '(k << 13u) ^')} & 0xffffe000u)"
    if dtype.is_floating_point:
        ambiguous = f"k == {hex(1 << bits - 1)}u"
        value = f"bitcast<f32>({value})"
    mask = f"{hex((1 << bits) - 1)}u"
    flip = f"let k = ~given & {mask}; " if descending else "let k = given; "
    element = STORED[dtype.code]
    return Keys(bits, f"fn key(x: E) -> u32 {{ return {f'~{key} & {mask}' if descending else key}; }}",
                f"fn value(given: u32) -> {element} {{ {flip}return {element}({value}); }}",
                f"fn ambiguous(given: u32) -> bool {{ {flip}return {ambiguous}; }}")


def _copied(dtype) -> dict:
    """WGSL functions that make 32 bits of an element, and an element of these."""
    element = STORED[dtype.code]
    there, back = ("bitcast<u32>(f32(x))", "f16(bitcast<f32>(b))") if element == "f16" else ("bitcast<u32>(x)", f"bitcast<{element}>(b)")
    return {"bits": f"fn bits(x: E) -> u32 {{ return {there}; }}", "element": f"fn element(b: u32) -> E {{ return {back}; }}"}


def _selected(x, *, dim, descending, count):
    """(values, indices) of the first `count` along the last dimension, in the order in which they come."""
    length, keys, plan = x.shape[dim], _keys(x.dtype, descending), Plan(x)
    values, indices = [plan.output(x.shape[:dim] + (count,), dtype) for dtype in (x.dtype, INT64)]
    lines, passes, chunks = x._size // length, ceil_div(keys.bits, 8), ceil_div(length, THREADS * ROWS)
    found, in_rows = plan.scratch(4 * passes * lines * DIGITS), 2 * lines * ceil_div(length, THREADS)
    rows = plan.scratch(4 * in_rows)
    add_elementwise(plan, "0", (found,), (passes * lines * DIGITS,), ((1,),), INT32)

    def step(entry, number):
        plan.step("sort/select", (0, found, rows, values, indices), (lines, length, count, chunks, number, At(0)), lines * chunks,
                  entry=entry, E=STORED[x.dtype.code], PASSES=passes, ROWS=ROWS, key=keys.key)
    for number in range(passes):
        step("histogram", number)
    step("count", passes)
    add_scan(plan, rows, in_rows)
    step("take", passes)
    return plan


def _first_of_long(x, dim, count, descending=False):
    """The first ones of a long line, found by their digits, are sorted."""
    values, places = _SELECTED(x, dim=dim, descending=descending, count=count)
    values, chosen = KERNELS["sort"](values, dim=dim, descending=descending)
    return values, call("gather", places, chosen, dim=dim)


def _sort_across(x, dim, **params):
    """Along another dimension than the last: as the lines of a transposed copy."""
    results = KERNELS["sort"](contiguous(swapped(x, dim)), dim=len(x.shape) - 1, **params)
    return tuple([contiguous(swapped(t, dim)) for t in results])


def swapped(x, dim):
    """A view with `dim` and the last dimension exchanged."""
    order = list(range(len(x.shape)))
    order[dim], order[-1] = order[-1], dim
    return core.view(x, tuple([x.shape[d] for d in order]), tuple([x._strides[d] for d in order]), x.offset)


def _sort(x, *, dim, descending=False, count=None):
    """(values, indices) in order along dim, the first `count` of them."""
    length, inner = (x.shape[dim], prod(x.shape[dim + 1:])) if x.shape else (1, 1)
    kept = length if count is None else count
    size = max(1 << (length - 1).bit_length(), 2)
    few = 0 < kept <= length // 8
    if x._size and inner > 1 and size > (SHORT if few and kept <= SHORT // 8 else LEAST):
        return _sort_across
    if x._size and few and length > SHORT:
        return _first_of_long
    shape = x.shape[:dim] + (kept,) + x.shape[dim + 1:] if x.shape else ()
    plan = Plan(x)
    values, indices = plan.output(shape, x.dtype), plan.output(shape, INT64)
    if not prod(shape):
        return plan
    lines, keys, element = x._size // length, _keys(x.dtype, descending), STORED[x.dtype.code]
    if few:
        plan.step("sort/first", (0, values, indices), (lines, length, inner, kept, At(0)), lines, E=element, TILE=size,
                  RUN=max(1 << (kept - 1).bit_length(), 2), key=keys.key)
    elif inner == 1 and LEAST <= size <= LONGEST and fits(plan, size, _places(size)["ITEMS"]):
        plan.step("sort/line", (0, values, indices), (lines, length, kept, At(0), length), lines, E=element, BITS=keys.bits,
                  key=keys.key, **_places(size), **_copied(x.dtype))
    elif inner == 1 and length <= MERGED and x._size <= FEW_MERGED and fits(plan, RUN):
        _add_runs(plan, 0, (values, indices), (lines, length, kept), keys.bits, {"E": element, "key": keys.key}, _copied(x.dtype),
                  At(0))
    elif length <= SHORT:
        tile = max(size, LEAST)
        plan.step("sort/short", (0, values, indices), (lines, length, inner, kept, At(0)), ceil_div(lines, tile // size), E=element,
                  SIZE=size, TILE=tile, key=keys.key)
    else:
        _add_elements_sort(plan, (values, indices), length, lines, kept, keys, element)
    return plan


def _add_elements_sort(plan, results: tuple, length: int, lines: int, kept: int, keys: Keys, element: str) -> None:
    """Passes from operand 0 to the results."""
    pairs = [[plan.scratch(4 * length * lines) for _ in results] for _ in range(min((keys.bits - 1) // 8, 2))]
    back, source, places = {"O": element, "I": "i32", "value": keys.value, "ambiguous": keys.ambiguous}, 0, 0
    for shift in range(0, keys.bits, 8):
        first, last = shift == 0, shift + 8 >= keys.bits
        target = results if last else tuple(pairs[shift // 8 % 2])
        _pass(plan, (source, places, 0 if last else source), target, length, lines, shift, kept if last else None,
              {"E": element, "key": keys.key} if first else None, back if last else None, At(0))
        source, places = target


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
        floating = sorted.dtype.is_floating_point
        plan.step("sort/search", (0, 1, 2), (values._size, sorted.shape[-1], values.shape[-1] if values.shape else 1, At(0), At(1)),
                  ceil_div(values._size, THREADS), E=STORED[sorted.dtype.code], RIGHT=right, SHARED=len(sorted.shape) == 1,
                  unordered=f"fn unordered(x: E) -> bool {{ return {'is_nan(f32(x))' if floating else 'false'}; }}")
    return plan


def _longest_run(x, *, dim):
    """Of each sorted line the index of the last element of its longest run of equal ones."""
    plan, (length, inner) = Plan(x), (x.shape[dim], prod(x.shape[dim + 1:])) if x.shape else (1, 1)
    out = plan.output(x.shape[:dim] + (1,) + x.shape[dim + 1:] if x.shape else (), INT64)
    if x._size:
        lines, lanes = x._size // length, min(1 << max(length // 4, 1).bit_length() - 1, THREADS)
        plan.step("sort/runs", (0, out), (lines, length, inner, At(0)), ceil_div(lines * lanes, THREADS), E=STORED[x.dtype.code],
                  LANES=lanes)
    return plan


# ---------------------------------------------------------------- beyond one binding

def _ranks(x, *, dim, descending):
    """int32 in the order of the elements."""
    plan = Plan(x)
    plan.step("sort/keys", (0, plan.output(x.shape, INT32)), (x._size, x._size, 1, At(0)), ceil_div(x._size, THREADS),
              E=STORED[x.dtype.code], key=_keys(x.dtype, descending).key.replace("return", "return 0x80000000u ^ (").replace(";", ");"))
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


def _cut_runs(run, x, *, dim):
    """By another dimension; of one line alone, by how far each element is behind the first that differs."""
    other = _other(x, dim)
    if other is not None:
        return halves(run, (x,), {"dim": dim}, (other,), other)
    line = flat(x)
    places = arange(0, 1, x._size, INT64, x.storage.device)
    changed = call("changes", line)
    starts, _ = call("cummax", call("where", changed, places, 0), dim=0)
    sizes = call("sub", places, starts)
    return core.reshaped(call("argmax", sizes, dim=0, keepdim=True), x.shape[:dim] + (1,) + x.shape[dim + 1:])


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


def _middle(x, *, dim, skip=False, place=None):
    """(values, indices) of the element of each line that sorting puts at its middle, or at a place."""
    length, inner = (x.shape[dim], prod(x.shape[dim + 1:])) if x.shape else (1, 1)
    long = length > NTH_LONGEST and x._size < NTH_LINES * length
    if inner > 1 and (long or x._size > NTH_ACROSS):
        return _middle_across
    plan, shape = Plan(x), x.shape[:dim] + (1,) + x.shape[dim + 1:] if x.shape else ()
    results = [plan.output(shape, dtype) for dtype in (x.dtype, INT64)]
    if long:
        return _middle_of_long(plan, x, length, results, place, skip)
    if x._size:
        keys, lines, short = _keys(x.dtype, False), x._size // length, length <= RANKED
        plan.step("sort/rank" if short else "sort/nth", (0, *results), (x._size if short else lines, length, inner, place or 0, At(0)),
                  ceil_div(x._size, THREADS) if short else lines, E=STORED[x.dtype.code], MEDIAN=place is None, SKIP=skip, key=keys.key,
                  **({} if short else {"BITS": keys.bits, "AHEAD": min(ceil_div(length, THREADS), 8)}))
    return plan


def _middle_of_long(plan: Plan, x, length: int, results: list, place: int | None, skip: bool) -> Plan:
    """Few long lines, each of which many workgroups look at: once for each eight bits of a key, then for where it is."""
    lines, keys, chunks = x._size // length, _keys(x.dtype, False), ceil_div(length, THREADS * ROWS)
    passes = ceil_div(keys.bits, 8)
    found, equal = plan.scratch(4 * lines * (passes * DIGITS + 1)), plan.scratch(4 * lines * chunks)
    add_elementwise(plan, "0", (found,), (lines * (passes * DIGITS + 1),), ((1,),), INT32)
    floating = x.dtype.is_floating_point
    for entry, number in (*(("histogram", i) for i in range(passes)), ("count", passes), ("find", passes)):
        plan.step("sort/middle", (0, found, equal, *results), (lines, length, place or 0, chunks, number, At(0)), lines * chunks,
                  entry=entry, E=STORED[x.dtype.code], PASSES=passes, ROWS=ROWS, MEDIAN=place is None, SKIP=skip, key=keys.key,
                  **({} if floating else {"missing": "false"}))
    return plan


def _middle_across(x, *, dim, **params):
    results = KERNELS["middle"](contiguous(swapped(x, dim)), dim=len(x.shape) - 1, **params)
    return tuple([contiguous(swapped(t, dim)) for t in results])


def _middle_by_sorting(x, *, dim, skip=False, place=None):
    """The same of few long lines, or beyond one binding."""
    count = None if place is None else place + 1
    values, indices = KERNELS["sort"](x, dim=dim, count=count)
    if place is not None:
        return tuple([contiguous(narrow(t, dim, place, count)) for t in (values, indices)])
    n = x.shape[dim]
    count = call("sub", n, call("sum", call("cast", call("isnan", values), dtype=INT64), dim=(dim,), keepdim=True))
    if skip:
        at = call("clamp_min", call("floor_divide", call("sub", count, 1), 2), 0)
    else:
        at = call("where", call("eq", count, n), full(count.shape, (n - 1) // 2, INT64, x.storage.device), count)
    return call("gather", values, at, dim=dim), call("gather", indices, at, dim=dim)


_SELECTED = Kernel("sort_selected", _selected)
_RANKS = Kernel("sort_ranks", _ranks, cut=lambda run, x, **params: halves(run, (x,), params, (0,), 0))
KERNELS = {"sort": Kernel("sort", _sort, cut=_cut_sort),
           "median_all": lambda x, *, skip=False: core.reshaped(KERNELS["middle"](flat(x), dim=0, skip=skip)[0], ()),
           "middle": Kernel("middle", _middle, cut=lambda run, x, **params: _middle_by_sorting(x, **params)),
           "longest_run": Kernel("longest_run", _longest_run, cut=_cut_runs),
           "scatter_unique": Kernel("scatter_unique", _scatter_unique, cut=_cut_scatter),
           "searchsorted": Kernel("searchsorted", _searchsorted, cut=_cut_search)}
