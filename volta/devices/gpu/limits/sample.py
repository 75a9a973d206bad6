"""Sampling beyond one binding: by images, channels and runs of places. A plane that is larger alone is refused."""
from __future__ import annotations

from volta.devices.gpu.limits.cut import bytes_of, halves, limit_of, refuse


def _cut(run, tensors, channelled: tuple, params, joined: tuple):
    """By images, else channels, else the longest dimension of places. IN: which tensors have channels before the places, else these behind
    the images; joined, the dimensions of the result for channels and for places (None adds, as a number what the first place is)."""
    g, grid = tensors[0], tensors[-2]
    if g.shape[0] > 1:
        return halves(run, tensors, params, (0,) * len(tensors), 0)
    if g.shape[1] > 1:
        return halves(run, tensors, params, [1 if has else None for has in channelled], joined[0])
    d = max(range(grid.ndim - 2), key=lambda k: grid.shape[k + 1])
    if grid.shape[d + 1] < 2:
        refuse(g)
    return halves(run, tensors, params, joined[1](d), joined[2](d))


def sample(run, x, grid, direction, **params):
    if x.shape[0] == x.shape[1] == 1 and bytes_of(x) > limit_of(x):
        refuse(x)
    return _cut(run, (x, grid, direction), (True, False, False), params, (1, lambda d: (None, d + 1, d + 1), lambda d: d + 2))


def sample_input(run, g, grid, direction, **params):
    return _cut(run, (g, grid, direction), (True, False, False), params, (1, lambda d: (d + 2, d + 1, d + 1), lambda d: None))


def sample_grid(run, g, x, grid, direction, **params):
    if x.shape[0] == x.shape[1] == 1 and bytes_of(x) > limit_of(x):
        refuse(x)
    return _cut(run, (g, x, grid, direction), (True, True, False, False), params,
                (None, lambda d: (d + 2, None, d + 1, d + 1), lambda d: d + 1))
