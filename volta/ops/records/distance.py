"""Records of distances: the p-norms of what the rows of x1[b, n, m] and of x2[b, r, m] differ by, or, without x2, those of each pair of
rows of x1 in the order (0, 1), (0, 2), ..., (1, 2), ...; where one is 0, so is its derivative. Of p = inf each element that is the
largest has the whole gradient, as in PyTorch, and NaN is no candidate but in pairs."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import int64
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op
from volta.ops.records.index import index_add_op, index_select_op
from volta.ops.records.math import abs, root_grad, sign, where_op
from volta.ops.records.reduce import amax_op, norm2_op, sum_op
from volta.ops.records.sort import searchsorted_op
from volta.ops.records.view import permute_op, reshape_op
from volta.ops.table import Derived, case, create, register

if TYPE_CHECKING:
    from volta.tensor import Tensor


def pairs_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of the first and of the second row of each pair of rows of x[b, n, m]."""
    n = x.shape[1]
    pairs, rows = (create(arange_op, 0, 1, count, dtype=int64, device=x.device) for count in (n * (n - 1) // 2, max(n - 1, 0)))
    # Row i begins at i (2n - i - 1) / 2: which row a pair is in follows from how many rows begin at or before it.
    first = searchsorted_op(rows * (2 * n - 1 - rows) // 2, pairs, right=True) - 1
    return first, pairs - first * (2 * n - 1 - first) // 2 + first + 1


def _np_ways(x1, x2):
    if x2 is not None:
        return x1[:, :, None] - x2[:, None]
    first, second = np.triu_indices(x1.shape[1], 1)
    return x1[:, first] - x1[:, second]


def _np_distances(x1, x2, p):
    size = np.abs(_np_ways(x1, x2))
    if p == 0:
        return (size > 0).sum(-1).astype(x1.dtype)
    if p == math.inf:
        return size.max(-1, initial=0.0)
    return (size ** p).sum(-1) ** (1 / p)


def _np_grad(g, x1, x2, out, p):
    way = _np_ways(x1, x2)
    size, far = np.abs(way), out[..., None]
    if p == math.inf:
        slope = np.sign(way) * (size >= far * (1 - 1e-6))         # which a test may have rounded
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where((size == 0) | (far == 0), 0.0, np.sign(way) * size ** (p - 1.0) * far ** (1.0 - p)) * (p != 0)
    step = slope * g[..., None]
    if x2 is not None:
        return step.sum(2)
    out, (first, second) = np.zeros_like(x1), np.triu_indices(x1.shape[1], 1)
    np.add.at(out, (slice(None), first), step)
    np.add.at(out, (slice(None), second), -step)
    return out


def _slopes(way, p):
    """The derivative of the p-norm over the last dimension by each element."""
    if p == 0 or not way.shape[-1]:
        return sign(way) * 0.0
    if p == 1:
        return sign(way)
    kept = (*way.shape[:-1], 1)
    if p == 2:
        size = norm2_op(way, dim=(way.ndim - 1,), keepdim=True)
        return way * root_grad(cast(where_op(size == size, 2.0, 2.0), way.dtype), size)
    zero = way == 0
    if p == math.inf:
        return sign(way) * cast(abs(way) >= amax_op(abs(way), dim=(way.ndim - 1,), keepdim=True), way.dtype)
    size = where_op(zero, 1.0, abs(way))
    total = reshape_op(sum_op(where_op(zero, 0.0, size ** p), dim=(way.ndim - 1,), keepdim=False), shape=kept)
    none = total == 0
    scale = where_op(none, 0.0, where_op(none, 1.0, total) ** (1.0 / p - 1.0))
    return where_op(zero, 0.0, sign(way) * size ** (p - 1.0)) * scale


def _grad(g, x1, x2, size, p):
    """Of the rows alone: the distances follow from them, so that the second derivative goes through the rows."""
    if x2 is None:
        first, second = pairs_of(x1)
        way = index_select_op(x1, first, dim=1) - index_select_op(x1, second, dim=1)
        step = _slopes(way, p) * reshape_op(g, shape=(*g.shape, 1))
        return index_add_op(step, first, dim=1, size=x1.shape[1]) - index_add_op(step, second, dim=1, size=x1.shape[1])
    (b, n, m), r = x1.shape, x2.shape[1]
    way = reshape_op(x1, shape=(b, n, 1, m)) - reshape_op(x2, shape=(b, 1, r, m))
    return sum_op(_slopes(way, p) * reshape_op(g, shape=(b, n, r, 1)), dim=(2,), keepdim=False)


def _second(g, x1, x2, out, p):
    """The gradient of x2, which is the first operand from where its rows are."""
    return distances_grad(_turned(g), x2, x1, _turned(out), p=p)


def _turned(x):
    return permute_op(x, dims=(0, 2, 1))


_POWERS = (2.0, 1.0, 3.0, 1.5, math.inf, 0.0)
_SHAPES = (((1, 4, 3), None), ((1, 7, 1), None), ((1, 20, 19), None), ((1, 2, 2), None), ((1, 0, 2), None), ((1, 3, 0), None),
           ((1, 5, 3), (1, 2, 3)), ((2, 3, 18), (2, 2, 18)), ((1, 0, 2), (1, 3, 2)), ((2, 3, 0), (2, 2, 0)))


def _cases():
    for i, (x1, x2) in enumerate(_SHAPES):
        for p in _POWERS if i in (0, 6) else (2.0, _POWERS[1 + i % 3]):
            yield x1, x2, p


def _grad_cases():
    for x1, x2, p in _cases():
        rows = (x1, x2)
        if p == math.inf:                       # whole numbers, of which the largest stays the largest in float16
            rows = [s and Derived(lambda *_, s=s, k=k: ((np.arange(math.prod(s)) * k + 3) % 11 - 5.0).reshape(s))
                    for s, k in ((x1, 7), (x2, 4))]
        g = (x1[0], x1[1] * (x1[1] - 1) // 2) if x2 is None else (x1[0], x1[1], x2[1])
        yield case(g, *rows, Derived(lambda g, x1, x2, p=p: _np_distances(x1, x2, p)), p=p)


distances_op = register(
    "distances", ("x1", "x2"), family="distance", takes={"x1": "f", "x2": "=x1?"}, numpy=_np_distances, rtol=2e-5,
    vjp=(lambda g, x1, x2, out, p: distances_grad(g, x1, x2, out, p=p), _second),
    cases=tuple(case(x1, x2, p=p) for x1, x2, p in _cases()))
distances_grad = register(
    "distances_grad", ("g", "x1", "x2", "size"), family="distance", takes={"g": "f", "x1": "=g", "x2": "=g?", "size": "=g"},
    numpy=_np_grad, rtol=1e-4, reference=_grad,
    cases=tuple(_grad_cases()))
