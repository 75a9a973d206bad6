"""Records of sampling: images x[N, C, ...] at the places of a grid[N, ..., rank], in two or three dimensions.

Along an axis of `size`, -1 and 1 are the outer edges, or the centres of the outer elements with `align_corners`. "nearest" takes one
element, "bilinear" weighs two, "bicubic" four (Keys 1981, a = -3/4), each by a polynomial of how far the place lies beyond an element
(`WEIGHTS`); a place takes the products of its axes. Elements outside are 0; with "border" and "reflection" the place is moved into the
image first, of "bicubic" each element by itself.

With a `direction`, of the grid's shape, the weights are those of the derivative along it. So the records are each other's derivatives:
`grid_sample` is linear in x, `grid_sample_input` is its transpose, and `grid_sample_grid` its derivative by the grid.
"""
from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.polynomial.polynomial import polyder, polyval

from volta.errors import AutogradError
from volta.ops.records.create import full_op
from volta.ops.table import Derived, case, create, register

MODES = ("nearest", "bilinear", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
# Of each element that a place takes, by powers of the distance.
WEIGHTS = {"nearest": ((1,),), "bilinear": ((1, -1), (0, 1)),
           "bicubic": ((0, -0.75, 1.5, -0.75), (1, 0, -2.25, 1.25), (0, 0.75, 1.5, -1.25), (0, 0, -0.75, 0.75))}


def _np_padded(x, size, padding_mode, align_corners):
    """(x moved into the image, the derivative of that)."""
    slope = 1.0
    if padding_mode == "reflection":
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        turns, rest = divmod(abs(x - low), span) if span else (0, 0.0)
        slope = math.copysign(1.0, x - low) * (-1 if turns % 2 else 1) * bool(span)
        x = (span - rest if turns % 2 else rest) + low
    if padding_mode == "zeros":
        return x, slope
    return min(max(x, 0.0), size - 1.0), slope * (0 < x < size - 1)


def _np_taps(x, size, mode, padding_mode, align_corners):
    """[(element, its weight and two derivatives)] of one axis."""
    x, slope = ((x + 1) * (size - 1) / 2, (size - 1) / 2) if align_corners else (((x + 1) * size - 1) / 2, size / 2)
    if mode != "bicubic":
        x, moved = _np_padded(x, size, padding_mode, align_corners)
        slope *= moved
    first = round(x) if mode == "nearest" else math.floor(x)
    elements = [first + k - (mode == "bicubic") for k in range(len(WEIGHTS[mode]))]
    if mode == "bicubic":
        elements = [round(_np_padded(i, size, padding_mode, align_corners)[0]) for i in elements]
    return [(i, [polyval(x - first, polyder(w, order)) * slope ** order for order in range(3)])
            for i, w in zip(elements, WEIGHTS[mode]) if 0 <= i < size]


def _np_places(size, grid, direction, orders, options):
    """(place, element, its weight); `orders`: of derivatives, by coordinate."""
    rank = len(size)
    for place in np.ndindex(grid.shape[:-1]):
        axes = [_np_taps(x, n, **options) for x, n in zip(grid[place], size[::-1])]
        for taps in product(*axes):
            def weight(more, taps=taps):
                return math.prod(w[order + (d == more)] for d, ((_, w), order) in enumerate(zip(taps, orders)))
            total = weight(None) if direction is None else sum(direction[place][d] * weight(d) for d in range(rank))
            yield place, tuple(i for i, _ in taps[::-1]), total


def np_grid_sample(x, grid, direction=None, **options):
    """The definition in NumPy, for the tests."""
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for (n, *place), at, weight in _np_places(x.shape[2:], grid, direction, (0, 0, 0), options):
        out[(n, slice(None), *place)] += x[(n, slice(None), *at)] * weight
    return out


def _np_input(g, grid, direction=None, *, size, **options):
    out = np.zeros((*g.shape[:2], *size))
    for (n, *place), at, weight in _np_places(size, grid, direction, (0, 0, 0), options):
        out[(n, slice(None), *at)] += g[(n, slice(None), *place)] * weight
    return out


def _np_grid(g, x, grid, direction=None, **options):
    out = np.zeros(grid.shape)
    for d in range(grid.shape[-1]):
        for (n, *place), at, weight in _np_places(x.shape[2:], grid, direction, tuple(e == d for e in range(3)), options):
            out[(n, *place, d)] += g[(n, slice(None), *place)] @ x[(n, slice(None), *at)] * weight
    return out


def _by_grid(g, x, grid, direction, mode, padding_mode, align_corners):
    """The derivative of <g, grid_sample(x, grid, direction)> by the grid."""
    if mode == "nearest":
        return create(full_op, grid.shape, 0.0, dtype=grid.dtype, device=grid.device)
    return grid_sample_grid(g, x, grid, direction, mode=mode, padding_mode=padding_mode, align_corners=align_corners)


def _grid_vjp(gg, g, x, grid, direction, mode, padding_mode, align_corners, needs):
    """With the direction gg instead of one."""
    if direction is not None:
        raise AutogradError("grid_sample: there is no third derivative; take at most two")
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    return (grid_sample_op(x, grid, gg, **options) if needs[0] else None,
            grid_sample_input(g, grid, gg, size=x.shape[2:], **options) if needs[1] else None,
            grid_sample_grid(g, x, grid, gg, **options) if needs[2] else None, None)


def _places(*shape):
    """A grid inside and outside, away from where the derivative jumps, that gradients see as a constant."""
    return Derived(lambda *_: (np.arange(math.prod(shape)) * 0.7302 % 2.6 - 1.3).reshape(shape))


_SAMPLES = (((2, 2, 3, 4), (2, 2, 3, 2), ("bilinear", "zeros", False)), ((1, 2, 3, 4), (1, 3, 2, 2), ("nearest", "zeros", True)),
            ((1, 1, 3, 4), (1, 2, 2, 2), ("bicubic", "border", False)), ((1, 2, 3, 4), (1, 2, 2, 2), ("bilinear", "reflection", False)),
            ((2, 1, 4, 3), (2, 2, 1, 2), ("bicubic", "reflection", True)), ((1, 5, 3, 4), (1, 19, 17, 2), ("bilinear", "border", True)),
            ((1, 2, 2, 3, 4), (1, 2, 1, 3, 3), ("bilinear", "border", True)), ((2, 1, 3, 2), (2, 1, 5, 2), ("bicubic", "zeros", False)),
            ((1, 1, 2, 2, 3), (1, 1, 2, 2, 3), ("nearest", "reflection", False)))


def _cases(inputs, samples=_SAMPLES, sized=False):
    """Samples of a record, of what `inputs` makes of the shapes of x, the grid and the output."""
    return tuple(case(*inputs(x, grid, x[:2] + grid[1:-1]), **({"size": x[2:]} if sized else {}), mode=mode, padding_mode=padding,
                      align_corners=aligned) for x, grid, (mode, padding, aligned) in samples)


_SMOOTH = tuple(sample for sample in _SAMPLES if sample[2][0] != "nearest")

grid_sample_op = register(
    "grid_sample", ("x", "grid", "direction"), family="sample", takes={"x": "f", "grid": "=x", "direction": "=x?"}, numpy=np_grid_sample,
    rtol=1e-4,
    vjp=(lambda g, x_shape, grid, direction, mode, padding_mode, align_corners: grid_sample_input(
            g, grid, direction, size=x_shape[2:], mode=mode, padding_mode=padding_mode, align_corners=align_corners),
         lambda g, x, grid, direction, mode, padding_mode, align_corners: _by_grid(
            g, x, grid, direction, mode, padding_mode, align_corners),
         lambda g, x, grid, mode, padding_mode, align_corners: _by_grid(g, x, grid, None, mode, padding_mode, align_corners)),
    cases=_cases(lambda x, grid, out: (x, grid, None)) + _cases(lambda x, grid, out: (x, _places(*grid), _places(*grid)), _SMOOTH))
grid_sample_input = register(
    "grid_sample_input", ("g", "grid", "direction"), family="sample", takes={"g": "f", "grid": "=g", "direction": "=g?"}, numpy=_np_input,
    rtol=1e-4,
    vjp=(lambda gg, grid, direction, mode, padding_mode, align_corners: grid_sample_op(
            gg, grid, direction, mode=mode, padding_mode=padding_mode, align_corners=align_corners),
         lambda gg, g, grid, direction, mode, padding_mode, align_corners: _by_grid(
            g, gg, grid, direction, mode, padding_mode, align_corners),
         lambda gg, g, grid, mode, padding_mode, align_corners: _by_grid(g, gg, grid, None, mode, padding_mode, align_corners)),
    cases=_cases(lambda x, grid, out: (out, grid, None), sized=True)
    + _cases(lambda x, grid, out: (out, _places(*grid), _places(*grid)), _SMOOTH, True))
grid_sample_grid = register(
    "grid_sample_grid", ("g", "x", "grid", "direction"), family="sample",
    takes={"g": "f", "x": "=g", "grid": "=g", "direction": "=g?"}, numpy=_np_grid, rtol=1e-4, vjp=_grid_vjp,
    cases=_cases(lambda x, grid, out: (out, x, _places(*grid), None), _SMOOTH))
