"""Distances of the rows of a matrix on the GPU, made of kernels that are there: the rows of each pair are selected."""
from __future__ import annotations

from volta._kernels import core
from volta.devices.gpu.common import INT64
from volta.devices.gpu.copy import arange, full
from volta.devices.gpu.limits.cut import call


def _pairs(x):
    """(the number of the first row of each pair, that of the second, the way from this to that)."""
    n, device = x.shape[0], x.storage.device
    pairs, rows = arange(0, 1, n * (n - 1) // 2, INT64, device), arange(0, 1, n - 1, INT64, device)

    def starts(i):                          # of the rows i among the pairs
        return call("floor_divide", call("mul", i, call("sub", 2 * n - 1, i)), 2)
    first = call("sub", call("searchsorted", starts(rows), pairs, right=True), 1)
    second = call("add", call("add", call("sub", pairs, starts(first)), first), 1)
    return first, second, call("sub", call("index_select", x, first, dim=0), call("index_select", x, second, dim=0))


def pair_distances(x):
    """The distance of each pair of rows."""
    if x.shape[0] < 2:
        return full((0,), 0.0, x.dtype, x.storage.device)
    return call("norm2", _pairs(x)[2], dim=(1,), keepdim=False)


def pair_distances_grad(g, x):
    """The gradient of x by that of pair_distances."""
    n = x.shape[0]
    if n < 2 or not x._size:
        return full(x.shape, 0.0, x.dtype, x.storage.device)
    first, second, way = _pairs(x)
    scale = call("root_grad", call("add", g, g), call("norm2", way, dim=(1,), keepdim=False))
    step = call("mul", way, core.reshaped(scale, (scale._size, 1)))
    return call("sub", call("index_add", step, first, dim=0, size=n), call("index_add", step, second, dim=0, size=n))


KERNELS = {"pair_distances": pair_distances, "pair_distances_grad": pair_distances_grad}
