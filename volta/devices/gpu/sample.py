"""Sampling at the places of a grid on the GPU. The derivative by the images sorts what the places take by the element, so that each element
adds up its own, in the order of the places."""
from __future__ import annotations

from math import prod

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.limits import sample as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32
from volta.devices.gpu.sort import add_sort

MODES = {"nearest": 0, "bilinear": 1, "bicubic": 2}
PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}
CHANNELS = 4                # of a thread
MANY_CHANNELS = 16          # of one, where places alone are FULL_GPU threads
FULL_GPU = 1 << 16
LONG = 1024                 # entries of an image from which it may be sorted by itself
ACROSS = 32                 # places of a workgroup that shares the channels


def _variant(rank: int, mode: str, padding_mode: str, align_corners: bool, direction) -> dict:
    """What the texts are specialised for."""
    return {"MODE": MODES[mode], "PADDING": PADDINGS[padding_mode], "ALIGNED": align_corners, "RANK": rank,
            "DIRECTED": direction is not None}


def _sizes(size: tuple) -> tuple:
    """(width, height, depth)."""
    return (*size[::-1], 1)[:3]


def _sample(x, grid, direction, **options):
    """x[N, C, ...] at the places of grid[N, ..., rank]."""
    need_float32("grid_sample", x, grid, direction)
    plan, size, (images, channels) = Plan(x, grid, direction), x.shape[2:], x.shape[:2]
    out, places, along = plan.output((images, channels, *grid.shape[1:-1]), FLOAT32), prod(grid.shape[1:-1]), 1 if direction is None else 2
    blocks = ceil_div(images * places, THREADS)
    each = MANY_CHANNELS if images * places >= FULL_GPU else CHANNELS
    if blocks and channels:
        plan.step("sample/forward", (0, 1, along, out), (*_sizes(size), channels, places, images * places, blocks, At(0), At(1), At(along)),
                  blocks * ceil_div(channels, each), EACH=each, **_variant(len(size), direction=direction, **options))
    return plan


def _input(g, grid, direction, *, size, mode, **options):
    """The gradient of grid_sample's x, whose planes had this size."""
    need_float32("grid_sample_input", g, grid, direction)
    plan, (images, channels), along = Plan(g, grid, direction), g.shape[:2], 1 if direction is None else 2
    out, places = plan.output((images, channels, *size), FLOAT32), prod(grid.shape[1:-1])
    variant = _variant(len(size), mode, direction=direction, **options)
    taps, rows, blocks = 1 << variant["MODE"] * len(size), images * prod(size), ceil_div(images * prod(size), THREADS)
    if not rows or not channels:
        return plan
    # A place is sorted by the cell that it lies in; where "bicubic" moves elements into the image, these are, one by one.
    by_cell, more = mode != "bicubic" or options["padding_mode"] == "zeros", (1 << variant["MODE"]) - 1
    entries, cells = (places, prod([n + more for n in size])) if by_cell else (places * taps, prod(size))
    lines = _by_image(images, entries, cells)
    count, below = (entries, cells) if lines > 1 else (images * entries, images * cells)
    how = {"BY_CELL": by_cell, "LINES": lines > 1}
    keys, weights = plan.scratch(4 * max(images * entries, 1)), plan.scratch(4 * max(images * places * taps, 1))
    found, starts = keys, plan.scratch(4 * lines * (below + 1))
    if entries:
        plan.step("sample/keys", (1, along, keys, weights), (*_sizes(size), places, images * places, below, At(1), At(along)),
                  ceil_div(images * places, THREADS), **how, **variant)
        keys, found = add_sort(plan, keys, count, below + 1, lines)
    plan.step("index/starts", (keys, starts), (lines * (below + 1), 0, count, below + 1), ceil_div(lines * (below + 1), THREADS),
              LINES=lines > 1)
    plan.step("sample/input", (0, found, starts, weights, out), (*_sizes(size), channels, places, rows, blocks, At(0)),
              blocks * ceil_div(channels, CHANNELS), MODE=variant["MODE"], RANK=len(size), **how)
    return plan


def _by_image(images: int, entries: int, cells: int) -> int:
    """How many lines are sorted: as many as images, where these are long and their keys have fewer digits than all together."""
    return images if entries >= LONG and (cells.bit_length() - 1) // 8 < ((images * cells).bit_length() - 1) // 8 else 1


def _grid(g, x, grid, direction, **options):
    """The gradient of grid_sample's grid."""
    need_float32("grid_sample_grid", g, x, grid, direction)
    plan, size, places, along = Plan(g, x, grid, direction), x.shape[2:], prod(grid.shape[1:-1]), 2 if direction is None else 3
    out, count = plan.output(grid.shape, FLOAT32), x.shape[0] * places
    if count:
        plan.step("sample/grid", (0, 1, 2, along, out), (*_sizes(size), x.shape[1], places, count, At(0), At(1), At(2), At(along)),
                  ceil_div(count, ACROSS), **_variant(len(size), direction=direction, **options))
    return plan


KERNELS = {name: Kernel(name, make, cut=cut) for name, make, cut in (
    ("grid_sample", _sample, cuts.sample), ("grid_sample_input", _input, cuts.sample_input), ("grid_sample_grid", _grid, cuts.sample_grid))}
