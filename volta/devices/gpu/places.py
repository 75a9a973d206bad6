"""Where elements are other than 0, on the GPU: how many before each block, and their places in order; which differ from the one before; and
counts of elements.

Beyond one binding places come from a running sum, which may be of any length.
"""
from __future__ import annotations

from volta._kernels import core
from volta.devices.gpu.common import BOOL, FLOAT16, INT32, INT64, MAX_RANK, STORED, THREADS, ceil_div
from volta.devices.gpu.copy import arange
from volta.devices.gpu.limits.cut import call, halves, narrow
from volta.devices.gpu.map import add_elementwise
from volta.devices.gpu.plans import At, Kernel, Plan
from volta.devices.gpu.sort import add_scan

GROUPS = 264                # workgroups that count, each in memory of its own: two for each multiprocessor of a large GPU


def _add(plan: Plan, entry: str, x, bound: tuple, block: int, starts: int, words: tuple = (), **overrides) -> None:
    """A step of places.wgsl. IN: starts, their number; words, of its parameters `values_offset` and what is behind it, then the sizes."""
    element = STORED[x.dtype.code]
    width = 1 if x.offset % 4 else 4
    if width == 1:
        four = ", ".join(f"x[p.x_offset + min(4u * v + {c}u, p.size - 1u)]" for c in range(4))
        overrides["fetched"] = f"return V({four});"
    values, count, *sizes = words or (0, 0)
    begin = At(bound[2]) if entry == "write" else 0
    words = (*sizes[::-1], *[1] * (MAX_RANK - len(sizes)), x._size, At(bound[0], width), begin, values, count, starts)
    plan.step("places/places", bound, words, starts if entry == "count" else ceil_div(x._size, block), entry=entry, V=f"vec4<{element}>",
              E=f"vec4<{element}>" if width == 4 else element, ROUNDS=block // 1024, RANK=max(len(sizes), 1), **overrides)


def _changes(x):
    """Whether each element, the first too, differs from the one before it."""
    plan = Plan(x)
    out = plan.output(x.shape, BOOL)
    plan.step("places/changes", (0, out), (x._size, At(0)), ceil_div(x._size, 4 * THREADS), E=STORED[x.dtype.code])
    return plan


def _cut_changes(run, x):
    """By halves; the first of the second half is compared with the last of the first."""
    n = x._size // 2
    parts = run(narrow(x, 0, 0, n)), narrow(run(narrow(x, 0, n - 1, x._size)), 0, 1, x._size - n + 1)
    return call("cat", *parts, dim=0)


def _starts(x, *, block, changes, running):
    """How many elements each block of a vector has that are not 0, or differ from the one before; with `running`, how many there are before
    each block, and last of all how many there are."""
    plan, count = Plan(x), ceil_div(x._size, block) + running
    out = plan.output((count,), INT64)
    _add(plan, "count", x, (0, None, out, None), block, count, CHANGES=changes)
    if running:
        add_scan(plan, out, count)
    return plan


def _places(x, starts, *, block, sizes, count, changes, running):
    """The place of each along the dimensions of `sizes`, which x is a vector of."""
    plan = Plan(x, starts)
    out = plan.output((len(sizes), count), INT64)
    if count:
        _add(plan, "write", x, (0, None, 1, out), block, starts._size, (0, count, *sizes), CHANGES=changes, RUNNING=running)
    return plan


def _values(x, mask, starts, *, block, count, changes, running):
    """The elements of x at these places of `mask`."""
    plan = Plan(x, mask, starts)
    out = plan.output((count,), x.dtype)
    if count:
        _add(plan, "write", mask, (1, 0, 2, out), block, starts._size, (At(0), count), CHANGES=changes, RUNNING=running, VALUES=True,
             O="f16" if x.dtype is FLOAT16 else "u32")
    return plan


def _ends(x):
    return call("cumsum", call("ne", x, 0), dim=0)


def _cut_starts(run, x, *, block, changes, running):
    device, x = x.storage.device, call("changes", x) if changes else x
    lasts = call("minimum", arange(block - 1, block, ceil_div(x._size, block), INT64, device), x._size - 1)
    ends = call("index_select", _ends(x), lasts, dim=0)
    starts = call("cat", arange(0, 1, 1, INT64, device), ends, dim=0)
    return starts if running else call("sub", ends, narrow(starts, 0, 0, ends._size))


def _cut_places(run, x, starts, *, block, sizes, count, changes, running):
    ends, found = _ends(call("changes", x) if changes else x), []
    rest = call("searchsorted", ends, arange(1, 1, count, INT64, x.storage.device), right=False)
    for n in sizes[:0:-1]:
        found.insert(0, call("remainder", rest, n))
        rest = call("floor_divide", rest, n)
    return call("cat", *[core.reshaped(part, (1, count)) for part in (rest, *found)], dim=0)


def _cut_values(run, x, mask, starts, *, block, count, changes, running):
    places = _cut_places(run, mask, starts, block=block, sizes=(x._size,), count=count, changes=changes, running=running)
    return call("index_select", x, core.reshaped(places, (count,)), dim=0)


def _counts(x, low, high, *, bins, between):
    """How many elements of a vector lie in each of equal parts of [low, high], or are each integer."""
    plan = Plan(x, low, high)
    out, limits = plan.output((bins,), INT64), plan.ctx.limits
    add_elementwise(plan, "0", (out,), (bins,), ((1,),), INT32)
    threads = min(4 * THREADS, limits["max-compute-invocations-per-workgroup"])
    groups = min(ceil_div(x._size, 4 * threads), GROUPS)
    given, (first, last) = low is not None and high is not None, between or (0, 0)
    if groups:
        plan.step("places/counts", (0, 1 if given else None, 2 if given else None, out),
                  (x._size, bins, groups * threads, At(0), At(1) if given else 0, At(2) if given else 0, float(first), float(last)), groups,
                  E=STORED[x.dtype.code], WHOLE=not given and between is None, NUMBERS=between is not None, THREADS=threads,
                  BINS=1 << max(bins - 1, 1).bit_length())
    return plan


KERNELS = {
    "changes": Kernel("changes", _changes, cut=_cut_changes),
    "counts": Kernel("counts", _counts, cut=lambda run, *operands, **params: halves(run, operands, params, (0, None, None), None)),
    "true_starts": Kernel("true_starts", _starts, cut=_cut_starts), "true_places": Kernel("true_places", _places, cut=_cut_places),
    "true_values": Kernel("true_values", _values, cut=_cut_values)}
