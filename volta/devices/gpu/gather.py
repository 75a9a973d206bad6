"""Elements of a tensor at an index of the result's shape, on the GPU: by four neighbours, or by strips of columns that a cache holds.

Knows plans; must not know operands of several bindings, which index.py sees through windows.
"""
from __future__ import annotations

from volta.devices.gpu.common import STORED, THREADS, ceil_div
from volta.devices.gpu.plans import At, Plan

STRIP = 8                   # columns that are read together, one access to memory of them
STRIP_ROWS = 5120           # whose strips fit the cache of a multiprocessor
STRIP_READS = 4             # of each element of a strip, from which it pays to keep it
STRIP_LEAST = 512           # rows of a workgroup
STRIP_GROUPS = 132          # workgroups: one for each multiprocessor of a large GPU
MANY = 1 << 18              # fours from which a thread has two


def bits_of(dtype, width: int = 1) -> str:
    """Type that copies an element's bits: u32 for all of 32 bits."""
    element = "f16" if STORED[dtype.code] == "f16" else "u32"
    return element if width == 1 else f"vec4<{element}>"


def add_gather(plan: Plan, dtype, sizes: tuple, count: int, alone: bool) -> Plan:
    """Elements of x, four neighbours at a time; of one line, any number. IN: sizes, (inner, entries, size)."""
    inner, entries, size = sizes
    if inner >= STRIP and size <= STRIP_ROWS and entries * STRIP >= STRIP_READS * size and entries >= STRIP_LEAST:
        return _by_strips(plan, dtype, sizes, count // (inner * entries))
    fours, left = ceil_div(count, 4), count % 4
    columns, lines = (inner // 4, entries) if inner > 1 else (1, entries // 4)
    each = 2 if fours >= MANY else 1
    plan.step("index/gather", (0, 1, 2), (fours, columns, lines, inner, size, At(0), At(1, 4)), ceil_div(fours, THREADS * each),
              E=bits_of(dtype), V=bits_of(dtype, 4), STEP=int(inner > 1), ALONE=alone, EACH=each, LEFT=left)
    return plan


def _by_strips(plan: Plan, dtype, sizes: tuple, outer: int) -> Plan:
    """The same where x has so few rows that some columns of them fit a cache. IN: sizes, (inner, entries, size)."""
    inner, entries, size = sizes
    strips, threads = ceil_div(inner, STRIP), min(4 * THREADS, plan.ctx.limits["max-compute-invocations-per-workgroup"])
    parts = max(min(STRIP_GROUPS // (strips * outer), entries * STRIP // (STRIP_READS * size), entries // STRIP_LEAST), 1)
    rows = ceil_div(entries, parts)
    groups = outer * strips * ceil_div(entries, rows)
    plan.step("index/strips", (0, 1, 2), (groups, strips, ceil_div(entries, rows), rows, inner, entries, size, At(0), At(1)), groups,
              E=bits_of(dtype), THREADS=threads, COLUMNS=STRIP)
    return plan
