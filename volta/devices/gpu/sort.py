"""Sorting of integer keys on the GPU: a radix sort, stable and the same on every run, three dispatches per eight bits.

Time is proportional to the number of keys. Adds steps to a plan; must not know tensors.
"""
from __future__ import annotations

from volta.devices.gpu.common import THREADS, ceil_div

DIGITS = 256


def add_sort(plan, keys: int, count: int, below: int) -> tuple:
    """(sorted keys, their positions in `keys`) as buffers of u32; equal keys stay in their order.

    IN: keys, a buffer of the plan with `count` u32 in [0, below), which is used up.
    """
    tiles = ceil_div(count, THREADS)
    counts, totals = plan.scratch(4 * DIGITS * tiles), plan.scratch(4 * DIGITS)
    places, spare_keys, spare_places = keys, None, None
    for shift in range(0, max((below - 1).bit_length(), 1), 8):
        plan.step("sort/count", (keys, counts), (count, tiles, shift), tiles)
        plan.step("sort/scan", (counts, totals), (tiles,), DIGITS)
        new_keys = plan.scratch(4 * count) if spare_keys is None else spare_keys
        new_places = plan.scratch(4 * count) if spare_places is None else spare_places
        plan.step("sort/scatter", (keys, places, counts, totals, new_keys, new_places), (count, tiles, shift), tiles, FIRST=shift == 0)
        spare_keys, spare_places = keys, None if shift == 0 else places
        keys, places = new_keys, new_places
    return keys, places
