"""Slices of few entries, added to the rows that an index names, on the GPU: one dispatch, whose workgroups each look at the whole index.
In place, where there are fewer entries than rows, they have entries each, else rows.

Knows plans; must not know operands of several bindings, which index.py sees through windows.
"""
from __future__ import annotations

from volta.devices.gpu.common import THREADS, ceil_div
from volta.devices.gpu.plans import At, Plan

MOST_ENTRIES = 4096         # that workgroup memory lists
MOST_READS = 1 << 25        # of the index by all workgroups; from there, sorting costs less
GROUPS = 264                # workgroups that fill a large GPU
MOST_GROUPS = 2048          # from where each rather has more rows
MOST_OWN = 32               # entries of a workgroup
STRIP = 8                   # columns of a workgroup at least: one access to memory of V's


def _power(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def add_collected(plan: Plan, sizes: tuple, offset, based: bool, sums: dict, width: int) -> bool:
    """Whether the step that adds operand 0 at index operand 1 to the plan's result could be added. IN: sizes, the (outer, inner, entries,
    size), where inner counts V's of `width` elements; offset, of the result; sums, the overrides of adding kernels."""
    outer, inner, entries, size = sizes
    columns = min(_power(inner), THREADS)
    while columns > STRIP and outer * size * ceil_div(inner, columns) < GROUPS:
        columns //= 2
    rows = min(_power(ceil_div(STRIP * size, entries)), THREADS // columns, _power(size))
    strips = ceil_div(inner, columns)
    while rows < min(size, THREADS // columns) and outer * strips * ceil_div(size, rows) > MOST_GROUPS:
        rows *= 2
    blocks = ceil_div(size, rows)
    groups, most = outer * blocks * strips, max(_power(entries), THREADS)
    memory = plan.ctx.limits["max-compute-workgroup-storage-size"]
    if entries > MOST_ENTRIES or groups * entries > MOST_READS or 4 * most + 25 * THREADS > memory:
        return False
    plan.step("index/collect", (0, 1, 2), (groups, inner, entries, size, strips, blocks, At(0, width), At(1), offset), groups,
              BASED=based, THREADS=THREADS, COLUMNS=columns, ROWS=rows, MOST=most, **sums)
    return True


def add_entries(plan: Plan, sizes: tuple, offset, sums: dict, width: int) -> bool:
    """Whether the step that adds operand 0 in place at index operand 1 could be added, of no more entries than rows. IN: as above."""
    outer, inner, entries, size = sizes
    columns = min(_power(inner), THREADS)
    own, words = THREADS // columns, _power(max(entries, THREADS)) // 32
    strips, blocks = ceil_div(inner, columns), ceil_div(entries, own)
    if (entries > min(MOST_ENTRIES, size) or own > MOST_OWN or outer * blocks * strips * entries > MOST_READS
            or 4 * own * (words + 2) > plan.ctx.limits["max-compute-workgroup-storage-size"]):
        return False
    groups = outer * blocks * strips
    plan.step("index/rows", (0, 1, 2), (groups, inner, entries, size, strips, blocks, At(0, width), At(1), offset), groups,
              COLUMNS=columns, WORDS=words, **sums)
    return True
