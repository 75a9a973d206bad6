"""Distances beyond one binding: by halves of the rows; pairs by way of all rows with all."""
from __future__ import annotations

from volta._kernels import core
from volta.devices.gpu.common import INT64
from volta.devices.gpu.copy import arange
from volta.devices.gpu.limits.cut import call, halves


def _numbers(n, device):
    """(the number of the first row of each pair, that of the second)."""
    pairs, rows = arange(0, 1, n * (n - 1) // 2, INT64, device), arange(0, 1, n - 1, INT64, device)

    def starts(i):                          # of the rows i among the pairs
        return call("floor_divide", call("mul", i, call("sub", 2 * n - 1, i)), 2)
    first = call("sub", call("searchsorted", starts(rows), pairs, right=True), 1)
    return first, call("add", call("add", call("sub", pairs, starts(first)), first), 1)


def forward(run, x1, x2, *, p, keep):
    """Distances, of half the batches or of half the rows of the larger one."""
    if x2 is None:
        (b, n, _), (first, second) = x1.shape, _numbers(x1.shape[1], x1.storage.device)
        square = core.reshaped(run(x1, x1, p=p, keep=True), (b, n * n))
        return call("index_select", square, call("add", call("mul", first, n), second), dim=1)
    params = {"p": p, "keep": keep}
    if x1.shape[0] > 1:
        return halves(run, (x1, x2), params, (0, 0), 0)
    if x1.shape[1] >= x2.shape[1]:
        return halves(run, (x1, x2), params, (1, None), 1)
    return halves(run, (x1, x2), params, (None, 1), 2)


def backward(run, g, x1, x2, size, *, p):
    """The gradient, of half the batches or of half the rows or elements."""
    b, n, m = x1.shape
    if x2 is None:
        first, second = _numbers(n, x1.storage.device)
        places = call("cat", call("add", call("mul", first, n), second), call("add", call("mul", second, n), first), dim=0)

        def square(x):                      # of both orders of a pair; those of a row with itself are 0
            return core.reshaped(call("index_add", call("cat", x, x, dim=1), places, dim=1, size=n * n), (b, n, n))
        return run(square(g), x1, x1, square(size), p=p)
    if b > 1:
        return halves(run, (g, x1, x2, size), {"p": p}, (0, 0, 0, 0), 0)
    if m > max(n, x2.shape[1]):
        return halves(run, (g, x1, x2, size), {"p": p}, (None, 2, 2, None), 2)
    if n >= x2.shape[1]:
        return halves(run, (g, x1, x2, size), {"p": p}, (1, 1, None, 1), 1)
    return halves(run, (g, x1, x2, size), {"p": p}, (2, None, 1, 2), None)
