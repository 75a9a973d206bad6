"""Records of elimination and of reflections, which the CPU alone computes. Leading dimensions are batches; g belongs to one matrix of them,
X' is the transpose of X."""
from __future__ import annotations

import numpy as np

from volta.dtypes import to_numpy
from volta.errors import ArgumentError, AutogradError
from volta.ops.records.copy import cat_op, from_array
from volta.ops.records.decomposition import leading, np_lu, triangular_op, weighted
from volta.ops.records.index import gather_op
from volta.ops.records.linalg import matmul_op, turned
from volta.ops.records.view import expand_op, reshape_op, slice_op
from volta.ops.table import Definite, Derived, case, register


def unit_lower(x):
    """The lower triangle of matrices, with ones on the diagonal."""
    return weighted(x, 1, 0, 0) + from_array(np.eye(*x.shape[-2:], dtype=to_numpy(x.dtype))).to(x.device)


def trailing(x, dim, start):
    """What follows the first `start` along one of the last two dimensions."""
    starts, sizes = [0] * x.ndim, list(x.shape)
    starts[dim], sizes[dim] = start, sizes[dim] - start
    return slice_op(x, starts=tuple(starts), sizes=tuple(sizes), steps=(1,) * x.ndim)


_FEW = 128                              # matrices up to which lists are faster than arrays


def _exchanged(rows: int, swaps: list) -> list:
    order = list(range(rows))
    for i, j in enumerate(swaps):
        order[i], order[j] = order[j], order[i]
    return order


def order_of(name: str, pivots, rows: int) -> np.ndarray:
    """The order of rows after the exchanges of row i with row pivots[i] - 1, one after another.

    Raises: ArgumentError for pivots outside 1 to `rows`.
    """
    swaps = pivots.detach().numpy().astype(np.int64) - 1
    if swaps.size and (swaps.min() < 0 or swaps.max() >= rows) or swaps.shape[-1] > rows:
        raise ArgumentError(f"{name}: pivots must be between 1 and the {rows} rows, as lu_factor gives them")
    if swaps.size < _FEW * swaps.shape[-1]:
        found = [_exchanged(rows, each) for each in swaps.reshape(-1, swaps.shape[-1]).tolist()]
        return np.array(found, np.int64).reshape(*swaps.shape[:-1], rows)
    order = np.broadcast_to(np.arange(rows), (*swaps.shape[:-1], rows)).copy()
    for i in range(swaps.shape[-1]):
        j = swaps[..., i, None]
        order[..., i, None], there = np.take_along_axis(order, j, -1), order[..., i, None].copy()
        np.put_along_axis(order, j, there, -1)
    return order


def ordered(x, order: np.ndarray):
    """The rows of matrices in this order. Batches broadcast."""
    batch = np.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    index = reshape_op(from_array(np.ascontiguousarray(order)).to(x.device), shape=(*order.shape, 1))
    shape = (*batch, *x.shape[-2:])
    return gather_op(x if x.shape == shape else expand_op(x, shape=shape), expand_op(index, shape=shape), dim=len(shape) - 2)


def _lu_vjp(g, out, pivots):
    """gA = P L'^-1 (the strict lower triangle of L' gL, and the upper one of gU U') U'^-1 of square matrices. Of wide ones, with
    U = (U1, U2), gA = P L'^-1 (gU1 + strict lower(L' gL - gU U') U1'^-1, gU2), of tall ones alike with the parts of L. These are PyTorch's
    terms in its order, which decides what numbers that are not finite leave."""
    m, n = out.shape[-2:]
    k = min(m, n)
    square, g_square = leading(leading(out, -2, k), -1, k), leading(leading(g, -2, k), -1, k)

    def over_lower(x):
        return triangular_op(turned(square), x, upper=True, unitriangular=True, left=True)

    def over_upper(x):
        return triangular_op(turned(square), x, upper=False, unitriangular=False, left=False)
    L, gL = (unit_lower(leading(out, -1, k)), weighted(leading(g, -1, k), 1, 0, 0))
    U, gU = weighted(leading(out, -2, k), 0, 1, 1), weighted(leading(g, -2, k), 0, 1, 1)
    below, above = matmul_op(turned(L), gL), matmul_op(gU, turned(U))
    if m == n:
        found = over_lower(over_upper(weighted(below, 1, 0, 0) + weighted(above, 0, 1, 1)))
    elif m < n:
        first = over_upper(weighted(below - above, 1, 0, 0)) + weighted(g_square, 0, 1, 1)
        found = over_lower(cat_op(first, trailing(g, -1, k), dim=g.ndim - 1))
    else:
        first = over_lower(weighted(above - below, 0, 1, 1)) + weighted(g_square, 1, 0, 0)
        found = over_upper(cat_op(first, trailing(g, -2, k), dim=g.ndim - 2))
    back = np.eye(m, dtype=to_numpy(g.dtype))[np.argsort(order_of("lu", pivots, m), -1)]         # a product, as in PyTorch: NaN spreads
    return (matmul_op(from_array(back).to(g.device), found),)


def _zeros(shape, like):
    return from_array(np.zeros(shape, to_numpy(like.dtype))).to(like.device)


def _unpacked_vjp(g_L, g_U, lu_shape):
    """What is below the diagonal comes from L, the rest from U."""
    k = min(lu_shape[-2:])
    below, above = None if g_L is None else weighted(g_L, 1, 0, 0), None if g_U is None else weighted(g_U, 0, 1, 1)
    if below is None:
        below = _zeros(lu_shape[:-1] + (k,), g_U)
    if above is None:
        above = _zeros(lu_shape[:-2] + (k, lu_shape[-1]), g_L)
    if lu_shape[-2] == lu_shape[-1]:
        return below + above, None
    if lu_shape[-2] > k:
        return cat_op(leading(below, -2, k) + above, trailing(below, -2, k), dim=len(lu_shape) - 2), None
    return cat_op(below + leading(above, -1, k), trailing(above, -1, k), dim=len(lu_shape) - 1), None


def _np_reflections(a):
    """A reflection after the other, each to a multiple of a unit vector."""
    a, k = a.copy(), min(a.shape[-2:])
    taus = np.zeros((*a.shape[:-2], k))
    for i in np.ndindex(a.shape[:-2]):
        for j in range(k):
            x = a[i][j:, j].copy()
            if not x[1:].any():
                continue
            beta = -np.copysign(np.linalg.norm(x), x[0])
            taus[i][j], v = (beta - x[0]) / beta, np.append(1.0, x[1:] / (x[0] - beta))
            a[i][j:, j:] -= taus[i][j] * np.outer(v, v @ a[i][j:, j:])
            a[i][j + 1:, j] = v[1:]
    return a, taus


def _np_ldl(a):
    """Of definite matrices, whose pivots lie on the diagonal."""
    lower = np.linalg.cholesky(a)
    root = np.diagonal(lower, axis1=-2, axis2=-1)
    pivots = np.broadcast_to(np.arange(1, a.shape[-1] + 1, dtype=np.int32), a.shape[:-1])
    return np.tril(lower / root[..., None, :], -1) + np.eye(a.shape[-1]) * root[..., None] ** 2, pivots, np.zeros(a.shape[:-2], np.int32)


def _np_ldl_solve(a, pivots, b):
    lower = np.tril(a, -1) + np.eye(a.shape[-1])
    return np.linalg.solve(lower * np.diagonal(a, axis1=-2, axis2=-1)[..., None, :] @ np.swapaxes(lower, -1, -2), b)


def _refused(name, other):
    """As in PyTorch the results want gradients, and backward raises."""
    raise AutogradError(f"{name}: has no derivative; call it on x.detach(), or use {other}")


def _np_order(pivots, rows):
    return np.array([_exchanged(rows, [p - 1 for p in each]) for each in pivots.reshape(-1, pivots.shape[-1])], int).reshape(
        *pivots.shape[:-1], rows)


def _np_unpacked(lu, pivots):
    m, n = lu.shape[-2:]
    k = min(m, n)
    return (np.swapaxes(np.eye(m)[_np_order(pivots, m)], -1, -2), np.tril(lu[..., :k], -1) + np.eye(m, k), np.triu(lu[..., :k, :]))


def _np_lu_solve(lu, pivots, b, turn):
    turns, lower, upper = _np_unpacked(lu, pivots)
    whole = turns @ lower @ upper
    return np.linalg.solve(np.swapaxes(whole, -1, -2) if turn else whole, b)


def _lu_solve_vjp(g, lu, pivots, out, needs, turn):
    """gB = A'^-1 g, and gA = -gB X', or its transpose where A' X = B was solved. Of L and U, which lie in one matrix, gL is what P' gA U'
    has below the diagonal, and gU what L' P' gA has besides."""
    gb = lu_solve_op(lu, pivots, g, turn=not turn)
    if not needs[0]:
        return None, None, gb
    left, right = (out, gb) if turn else (gb, out)
    rows = -matmul_op(ordered(left, order_of("linalg.lu_solve", pivots, lu.shape[-1])), turned(right))
    below, above = matmul_op(rows, turned(weighted(lu, 0, 1, 1))), matmul_op(turned(unit_lower(lu)), rows)
    return weighted(below, 1, 0, 0) + weighted(above, 0, 1, 1), None, gb


def _np_least(a, b, rtol):
    """X in as many rows as a has, and a bound of the condition."""
    inverse = np.linalg.pinv(a)
    out = np.zeros(b.shape)
    out[..., :a.shape[-1], :] = inverse @ b
    return out, np.linalg.norm(a, axis=(-2, -1)) * np.linalg.norm(inverse, axis=(-2, -1))


def np_q(a, tau):
    """All columns of the product, a reflection after the other."""
    q = np.broadcast_to(np.eye(a.shape[-2]), (*a.shape[:-2], a.shape[-2], a.shape[-2]))
    for i in range(tau.shape[-1]):
        v = np.tril(a, -1)[..., i] + np.eye(a.shape[-2])[i]
        q = q - tau[..., i, None, None] * (q @ v[..., None]) * v[..., None, :]
    return q


def np_reflected(a, tau, c, left=True, transpose=False):
    q = np_q(a, tau)
    q = np.swapaxes(q, -1, -2) if transpose else q
    return q @ c if left else c @ q


_DECLARED = {"family": "factor", "takes": "f", "rtol": 2e-5, "cpu_only": True}

lu_op = register("lu", ("a",), outputs=("out", "pivots", "info"), numpy=np_lu, vjp=_lu_vjp, **_DECLARED,
                 cases=(case(Definite((2, 3, 3))), case((4, 3)), case((2, 2, 4)), case((0, 3, 3)), case((0, 3)), case((3, 0))))
geqrf_op = register("geqrf", ("a",), outputs=("out", "tau"), differentiable=("out", "tau"), numpy=_np_reflections, derivable=False,
                    vjp=(lambda g_out, g_tau: _refused("geqrf", "linalg.qr"),), **_DECLARED,
                    cases=(case(Definite((2, 3, 3))), case((4, 3)), case((2, 2, 4)), case((0, 3, 3))))
ldl_op = register("ldl", ("a",), outputs=("out", "pivots", "info"), numpy=_np_ldl, derivable=False, **_DECLARED,
                  vjp=(lambda g: _refused("linalg.ldl_factor", "linalg.solve or linalg.eigh"),),
                  cases=(case(Definite((2, 3, 3))), case(Definite((4, 4))), case((0, 3, 3)), case((0, 0))))
ldl_solve_op = register("ldl_solve", ("a", "pivots", "b"), numpy=_np_ldl_solve, derivable=False,
                        vjp=lambda g: _refused("linalg.ldl_solve", "linalg.solve"),
                        **{**_DECLARED, "takes": {"a": "f", "pivots": "int32", "b": "=a"}},
                        cases=(case(Definite((2, 3, 3)), Derived(lambda a: np.arange(1, 4, dtype=np.int32)), (2, 3, 2)),
                               case(Definite((4, 4)), Derived(lambda a: np.arange(1, 5, dtype=np.int32)), (4, 1))))

_PIVOTS = Derived(lambda *before: np.array([[2, 3, 3], [1, 2, 3]], np.int32))
lu_solve_op = register("lu_solve", ("lu", "pivots", "b"), numpy=_np_lu_solve, vjp=_lu_solve_vjp,
                       **{**_DECLARED, "takes": {"lu": "f", "pivots": "int32", "b": "=lu"}},
                       cases=(case(Definite((2, 3, 3)), _PIVOTS, (2, 3, 2), turn=False),
                              case(Definite((2, 3, 3)), _PIVOTS, (3, 2), turn=True)))
lu_unpack_op = register("lu_unpack", ("lu", "pivots"), outputs=("P", "L", "U"), numpy=_np_unpacked, differentiable=("L", "U"),
                        vjp=_unpacked_vjp,
                        **{**_DECLARED, "takes": {"lu": "f", "pivots": "int32"}},
                        cases=(case((2, 3, 3), _PIVOTS), case((2, 3, 4), _PIVOTS), case((2, 4, 3), _PIVOTS)))
least_op = register("least", ("a", "b"), outputs=("out", "bounds"), numpy=_np_least, **{**_DECLARED, "takes": {"a": "f", "b": "=a"}},
                    cases=(case(Definite((2, 3, 3)), (2, 3, 2), rtol=0.0),
                           case(Derived(lambda: np.vander([1.0, 2.0, -1.0, 0.5], 3)), (4, 2), rtol=0.0)))
reflections_op = register("reflections", ("a", "tau"), numpy=lambda a, tau: np_q(a, tau)[..., :a.shape[-1]],
                          **{**_DECLARED, "takes": {"a": "f", "tau": "=a"}}, cases=(case((2, 4, 3), (2, 3)), case((4, 3), (2,))))
reflected_op = register("reflected", ("a", "tau", "c"), numpy=np_reflected, **{**_DECLARED, "takes": {"a": "f", "tau": "=a", "c": "=a"}},
                        cases=(case((2, 4, 3), (2, 3), (2, 4, 2), left=True, transpose=False),
                               case((4, 3), (3,), (2, 4), left=False, transpose=True)))
