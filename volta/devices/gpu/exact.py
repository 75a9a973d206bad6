"""Exact sums of elements that an index sends to places, on the GPU, in workgroup memory: one result in any order.

Where some columns have few entries or places, a workgroup looks at all entries of its columns; else the entries are put into buckets first:
those of a few columns into buckets of these, where that are many, so that what a workgroup has for a bucket is a longer run.
"""
from __future__ import annotations

from typing import NamedTuple

from volta.devices.gpu.common import BOOL, COMPUTED, INT32, STORED, THREADS, UINT8, ceil_div
from volta.devices.gpu.map import add_elementwise
from volta.devices.gpu.plans import At, Plan
from volta.devices.gpu.sort import add_scan

MANY_ENTRIES = 4096         # from which they are put into buckets
LINES = 128                 # workgroups from which each may have any number of entries
STRIP = 8                   # columns of a workgroup: one access to memory
MOST_WINDOWS = 2            # workgroups that look at the same entries, each for other places: eight take longer than buckets
ACROSS = 1 << 21            # entries from which columns of many places are copied to be lines
BUCKETS = 1024              # of places, where there are as many blocks of them
COUNTED = 2048              # buckets that workgroup memory counts
FEWEST_OF_STRIP = 1 << 15   # entries of some columns from which they have buckets of their own,
OF_STRIP = 1024             # of about so many places
SHARED = 2048               # places of a bucket up to which several workgroups find room for theirs on a multiprocessor
ITEMS = 16                  # entries of a thread that moves each of them by itself,
MOVERS, MOVED = 512, 8      # threads that put theirs together, and entries of each of some columns, of others twice as many


def sums_of(dtype, width: int) -> dict:
    """Overrides of the adding kernels."""
    stored, computed = STORED[dtype.code], COMPUTED[dtype.code]
    if width == 4:
        stored, computed = f"vec4<{stored}>", f"vec4<{computed}>"
    finish = {0: "min(v, 1u)", 1: "v & 255u"}.get(dtype.code)         # bool, uint8
    return {"V": stored, "A": computed, "O": stored, **({"finish": finish} if finish else {})}


def width_of(dtype, inner: int, offset: int) -> int:
    """4 where elements can be handled as vec4."""
    return 4 if dtype not in (BOOL, UINT8) and not inner % 4 and not offset % 4 else 1


class Sum(NamedTuple):
    """What is added: the entries of each of `outer` parts, `inner` elements each, into `size` places."""

    dtype: object
    full: bool          # by an index of g's shape (scatter_add), else by one that serves every outer and inner (index_add)
    outer: int
    inner: int
    entries: int
    size: int
    offset: int         # of g, modulo 4
    fours: bool = False # neither g nor the index begins within four elements
    based: bool = False # onto a third operand
    into: bool = False  # which is changed in place

    def width(self, inner: int) -> int:
        return width_of(self.dtype, inner, self.offset)


def add_exactly(plan: Plan, what: Sum, total: int, places: int) -> Plan | None:
    """The plan, whose last step adds exactly; None where there is another way."""
    return add_columns(plan, what) or (_add_buckets(plan, what, total, places) if total >= MANY_ENTRIES else None)


def add_columns(plan: Plan, what: Sum) -> Plan | None:
    """The same by workgroups that each look at all entries of some columns, where that are enough workgroups, or few entries."""
    columns, memory = 1 if what.inner == 1 else STRIP, plan.ctx.limits["max-compute-workgroup-storage-size"]
    window = min(what.size, min(memory // 96 * 8, 4096) // columns)
    windows, strips, entries = ceil_div(what.size, window), ceil_div(what.inner, columns), what.entries * columns
    groups = what.outer * strips * windows
    if windows > MOST_WINDOWS or groups < LINES and entries > 4 * MANY_ENTRIES:
        return None
    threads = min(max(1 << max(entries // 4, 1).bit_length() - 1, 64), THREADS if entries < 8 * THREADS else 4 * THREADS,
                  plan.ctx.limits["max-compute-invocations-per-workgroup"])
    return _add_sums(plan, what, (1, None), groups, window * columns, (what.entries, what.size), lines=(what.inner, strips, windows),
                     THREADS=threads, EACH=min(ceil_div(entries, threads), 8), COLUMNS=columns, WINDOW=window, FULL=what.full)


def is_across(plan: Plan, what: Sum) -> bool:
    """Whether lines of neighbours, as which the columns are copied, are sooner added up than the columns."""
    def windows(columns):
        return ceil_div(what.size, min(plan.ctx.limits["max-compute-workgroup-storage-size"] // 96 * 8, 4096) // columns)
    return (what.inner > STRIP and what.entries * what.outer * what.inner >= ACROSS and what.outer * what.inner >= LINES
            and windows(1) <= MOST_WINDOWS < windows(STRIP))


def _most_places(plan: Plan) -> int:
    """Places of a bucket whose sums workgroup memory holds, a multiple of 8; it holds 98 words more."""
    return min((plan.ctx.limits["max-compute-workgroup-storage-size"] - 392) // 96 * 8, 4096)


def _bits_of(dtype) -> dict:
    """Overrides of the kernels that add integers, and floats as such."""
    return {"bits": f"bitcast<u32>({COMPUTED[dtype.code]}(v))", "V": STORED[dtype.code]}


def _add_sums(plan: Plan, what: Sum, bound: tuple, groups: int, places: int, sizes: tuple, shift: int = 0, lines: tuple = (1, 1, 1),
              behind: int = 0, **more) -> Plan:
    """The last step of an exact addition."""
    there = {"at_out": "p.base_offset + i", "base_at": "out[i]"} if what.into else {}
    plan.step("index/accumulate", (0, *bound, 2 if what.based and not what.into else None, 2 if what.into else plan.last),
              (groups, *sizes, At(0), At(1), shift, At(2) if what.based else 0, *lines, behind), groups, PLACES=places,
              FLOAT=what.dtype.is_floating_point, BASED=what.based, **there, **(sums_of(what.dtype, 1) | _bits_of(what.dtype)), **more)
    return plan


def _strip_of(what: Sum, most: int) -> int:
    """Columns whose entries are put into buckets of their own; 0 where that would be few entries, or all of them, or more than `most`
    buckets."""
    strip = STRIP if what.inner >= 2 * STRIP or what.inner == STRIP else what.inner
    some = what.outer * what.inner > strip <= STRIP and what.entries * strip >= FEWEST_OF_STRIP
    return strip if some and 2 * what.size * strip <= OF_STRIP * most else 0


def _add_buckets(plan: Plan, what: Sum, total: int, places: int) -> Plan:
    """A workgroup adds up a bucket of places, whose entries have been put together."""
    limits, memory = plan.ctx.limits, plan.ctx.limits["max-compute-workgroup-storage-size"]
    most_threads, counted = limits["max-compute-invocations-per-workgroup"], min(COUNTED, memory >> 4)
    strip = _strip_of(what, counted)
    strips = ceil_div(what.inner, strip) if strip else 1
    parts, entries = (what.outer * strips, what.entries * strip) if strip else (1, total)
    stretches = ceil_div(what.size * strip if strip else places, 8)
    wanted = ceil_div(8 * stretches, OF_STRIP) if strip else min(BUCKETS, max(stretches, THREADS))
    buckets = max(1 << (max(ceil_div(8 * stretches, _most_places(plan)), wanted) - 1).bit_length(), 64)
    shift = buckets.bit_length() - 1
    direct = buckets > counted
    threads, items = (THREADS, ITEMS) if direct else (min(MOVERS, most_threads), MOVED if strip else 2 * MOVED)
    # of workgroup memory, the buckets' counts and what sums along threads take; then a word an entry
    while not direct and 4 * (max(buckets, threads) + threads * items) + 5 * threads > memory:
        threads //= 2
    width = 4 if what.fours and items >= 4 and not entries % 4 and not (strip and (what.inner | strip) % 4) else 1
    items -= items % width
    wide = {"G": STORED[what.dtype.code]} if width == 1 else {
        "G": f"vec4<{STORED[what.dtype.code]}>", "I": "vec4<i32>", "WIDE": 4, "value_in": "four[c]", "row_in": "four[c]"}
    block = threads * items
    blocks = ceil_div(entries, block)
    ends = plan.scratch(4 * buckets * (1 if direct else parts * blocks))
    moved = parts * blocks * block
    found = plan.scratch(8 * total if direct else 6 * moved)
    if direct:
        add_elementwise(plan, "0", (ends,), (buckets,), ((1,),), INT32)
    column = {} if strip or what.inner & what.inner - 1 else {"column": "k & (p.inner - 1u)"}
    how = {} if direct else {"F": "u32", "put": "fn put(i: u32, entry: vec2<u32>) { }", "put_word": "found[i] = word;"}
    for entry in ("count", "spread") if direct else ("block",):
        plan.step("index/partition", (0, 1, ends, found),
                  (entries, what.inner, what.entries, what.size, At(0, width), At(1, width), shift, blocks, parts, strips), parts * blocks,
                  entry=entry, THREADS=threads, ITEMS=items, BUCKETS=threads if direct else buckets, STRIP=strip, **wide, **how,
                  DIRECT=direct, ALONE=what.outer == 1, **column, **_bits_of(what.dtype))
        if entry == "count":
            add_scan(plan, ends, buckets)
    here = 8 * ceil_div(stretches, buckets)
    threads = min((2 if here <= SHARED else 4) * THREADS, most_threads)
    lanes = 1 << min(max(block // buckets, 1), 32).bit_length() - 1
    how = {"I": "vec2<u32>", "named": "index[i]"} if direct else {
        "I": "u32", "named": "return vec2<u32>((index[p.behind + (i >> 1u)] >> ((i & 1u) << 4u)) & 0xffffu, index[i]);", "BLOCKS": True,
        "BLOCK": block, "LANES": lanes, "EVEN": 16 * lanes, "STRIP": strip, "KEPT": min(ceil_div(blocks * lanes, threads), 4)}
    return _add_sums(plan, what, (found, ends), parts * buckets, here, (total if direct else blocks, what.size if strip else places), shift,
                     lines=(what.inner, strips, 1) if strip else (1, 1, 1),
                     behind=moved, LINES=False, row_at="0u", THREADS=threads, EACH=min(24 * THREADS // threads, 12),
                     **how)
