"""Records of distances: the Euclidean one of each pair of rows of x[n, m], in the order (0, 1), (0, 2), ..., (1, 2), ...; where it is 0,
so is its derivative."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import int64
from volta.ops.records.create import arange_op
from volta.ops.records.index import index_add_op, index_select_op
from volta.ops.records.math import root_grad
from volta.ops.records.reduce import norm2_op
from volta.ops.records.sort import searchsorted_op
from volta.ops.records.view import reshape_op
from volta.ops.table import case, create, register

if TYPE_CHECKING:
    from volta.tensor import Tensor


def pairs_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of the first and of the second row of each pair."""
    n = x.shape[0]
    pairs, rows = (create(arange_op, 0, 1, count, dtype=int64, device=x.device) for count in (n * (n - 1) // 2, max(n - 1, 0)))
    # Row i begins at i (2n - i - 1) / 2: which row a pair is in follows from how many rows begin at or before it.
    first = searchsorted_op(rows * (2 * n - 1 - rows) // 2, pairs, right=True) - 1
    return first, pairs - first * (2 * n - 1 - first) // 2 + first + 1


def _np_pairs(x):
    first, second = np.triu_indices(len(x), 1)
    return np.sqrt(((x[first] - x[second]) ** 2).sum(1))


def _np_pairs_grad(g, x):
    (first, second), size, out = np.triu_indices(len(x), 1), _np_pairs(x), np.zeros_like(x)
    step = (x[first] - x[second]) * (np.where(size == 0, 0.0, g) / np.where(size == 0, 1.0, size))[:, None]
    np.add.at(out, first, step)
    np.add.at(out, second, -step)
    return out


def _pairs_grad(g, x):
    first, second = pairs_of(x)
    way = index_select_op(x, first, dim=0) - index_select_op(x, second, dim=0)
    step = way * reshape_op(root_grad(g + g, norm2_op(way, dim=(1,), keepdim=False)), shape=(g.shape[0], 1))
    return index_add_op(step, first, dim=0, size=x.shape[0]) - index_add_op(step, second, dim=0, size=x.shape[0])


_SHAPES = ((4, 3), (7, 1), (20, 19), (3, 40), (2, 2), (0, 2), (3, 0))
pairs_op = register(
    "pair_distances", ("x",), family="distance", takes="f", numpy=_np_pairs, rtol=2e-5, vjp=(lambda g, x: pairs_grad(g, x),),
    cases=tuple(map(case, _SHAPES)))
pairs_grad = register(
    "pair_distances_grad", ("g", "x"), family="distance", takes={"g": "f", "x": "=g"}, numpy=_np_pairs_grad, rtol=1e-4,
    reference=_pairs_grad, cases=tuple(case((s[0] * (s[0] - 1) // 2,), s) for s in _SHAPES))
