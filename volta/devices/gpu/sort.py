"""Sorting of integer keys on the GPU: a radix sort, stable and the same on every run, three dispatches per eight bits.

Time is proportional to the number of keys. Knows buffers and the runtime's context; must not know tensors.
"""
from __future__ import annotations

from volta.devices.gpu.plans import THREADS, Plans, ceil_div, packer

DIGITS = 256

_plans = Plans()


def _launches(ctx) -> tuple:
    """((pipeline, packer), ...) of the three dispatches; the last has a form of its own for the first pass."""
    plan = _plans.get(ctx)
    if plan is None:
        pipelines = (ctx.pipeline("sort/count"), ctx.pipeline("sort/scan"), ctx.pipeline("sort/scatter", FIRST=True),
                     ctx.pipeline("sort/scatter", FIRST=False))
        plan = _plans[ctx] = tuple((pipeline, packer(pipeline)) for pipeline in pipelines)
    return plan


def sorted_places(ctx, keys, count: int, below: int) -> tuple:
    """(sorted keys, their positions in `keys`) as buffers of u32; equal keys stay in their order.

    IN: keys, `count` u32 in [0, below); the buffer is used up.
    """
    (tally, pack_tally), (scan, pack_scan), first, later = _launches(ctx)
    tiles = ceil_div(count, THREADS)
    counts, totals = ctx.alloc(4 * DIGITS * tiles), ctx.alloc(4 * DIGITS)
    places, spare_keys, spare_places = keys, None, None
    for shift in range(0, max((below - 1).bit_length(), 1), 8):
        params = pack_tally(count, tiles, shift)
        ctx.launch(tally, (keys, counts), params, tiles)
        ctx.launch(scan, (counts, totals), pack_scan(tiles), DIGITS)
        scatter, pack = first if shift == 0 else later
        new_keys, new_places = spare_keys or ctx.alloc(4 * count), spare_places or ctx.alloc(4 * count)
        ctx.launch(scatter, (keys, places, counts, totals, new_keys, new_places), pack(count, tiles, shift), tiles)
        spare_keys, spare_places = keys, None if shift == 0 else places
        keys, places = new_keys, new_places
    return keys, places
