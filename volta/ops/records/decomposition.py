"""Records of inverses and decompositions of matrices, which the CPU alone computes. Leading dimensions are batches.

A derivative may so take constants from host memory, and is of one matrix of a batch what the comment says: X' is the transpose of X, gX
its gradient.
"""
from __future__ import annotations

import numpy as np

from volta._kernels import core
from volta.dtypes import to_numpy
from volta.errors import AutogradError
from volta.ops.records.copy import cat_op, from_array, transfer
from volta.ops.records.join import triangle_op
from volta.ops.records.linalg import matmul_op, turned
from volta.ops.records.math import where_op
from volta.ops.records.reduce import sum_op
from volta.ops.records.view import clone_op, contiguous_op, reshape_op, slice_op
from volta.ops.table import Definite, Derived, case, register


def _beside(x, array):
    """A constant where `x` is."""
    made = from_array(array)
    return transfer(made, device=x.device) if x.device.is_gpu else made


def weighted(x, below, diagonal, above):
    """Matrices with their elements below, on and above the diagonal multiplied by these, of which the first or the last is 0 and the other
    1; what is multiplied by 0 is 0, also NaN."""
    upper = bool(above)
    inner = 1 if upper else -1
    if diagonal == 0.5:
        return (triangle_op(x, diagonal=0, upper=upper) + triangle_op(x, diagonal=inner, upper=upper)) * 0.5
    return triangle_op(x, diagonal=0 if diagonal else inner, upper=upper)


def _on_diagonal(values, x):
    """Square matrices with their diagonal replaced."""
    return where_op(_beside(x, np.eye(x.shape[-1], dtype=bool)), values, x)


def _column(x):
    return reshape_op(x, shape=x.shape + (1,))


def _row(x):
    return reshape_op(x, shape=x.shape[:-1] + (1,) + x.shape[-1:])


def _scalar(x):
    return reshape_op(x, shape=x.shape + (1, 1))


def by_columns(x):
    """Matrices that lie in memory column by column, as LAPACK gives them."""
    y = turned(x)
    return turned(clone_op(y) if not x._size else y if y._strides == core.strides_of(y._shape) else contiguous_op(y))


def leading(x, dim, count):
    """The first `count` along one of the last two dimensions."""
    if x.shape[dim] == count:
        return x
    sizes = list(x.shape)
    sizes[dim] = count
    return slice_op(x, starts=(0,) * x.ndim, sizes=tuple(sizes), steps=(1,) * x.ndim)


def _differences(values):
    """[..., i, j]: values[j] - values[i], 1 where i is j."""
    return _on_diagonal(1.0, _row(values) - _column(values))


def _unchecked(function):
    """A reference for records that also give an `info` per matrix."""
    return lambda a, *b: (function(a, *b), np.zeros(a.shape[:-2], np.int32))


_SQUARE = (case(Definite((2, 3, 3))), case(Definite((4, 4))), case((0, 3, 3)), case((0, 0)))
_DECLARED = {"family": "decomposition", "takes": "f", "rtol": 2e-5, "cpu_only": True}


# ---------------------------------------------------------------- inverses
def np_lu(a):
    """Elimination, a column after the other."""
    a, k = a.copy(), min(a.shape[-2:])
    pivots, info = np.zeros((*a.shape[:-2], k), np.int32), np.zeros(a.shape[:-2], np.int32)
    for i in np.ndindex(a.shape[:-2]):
        for j in range(k):
            row = j + int(np.argmax(np.abs(a[i][j:, j])))
            pivots[i][j] = row + 1
            a[i][[j, row]] = a[i][[row, j]]
            if a[i][j, j] == 0:
                info[i] = info[i] or j + 1
                continue
            a[i][j + 1:, j] /= a[i][j, j]
            a[i][j + 1:, j + 1:] -= np.outer(a[i][j + 1:, j], a[i][j, j + 1:])
    return a, pivots, info


def _np_solve(a, b, turn):
    return np.linalg.solve(np.swapaxes(a, -1, -2) if turn else a, b), np.zeros(a.shape[:-2], np.int32), *np_lu(a)[:2]


def _solve_vjp(g, a, out, lu, pivots, turn):
    """gB = A'^-1 g, gA = -gB X', or its transpose where A' X = B was solved."""
    gb = solve_again_op(a, g, lu, pivots, turn=not turn)
    return -(matmul_op(out, turned(gb)) if turn else matmul_op(gb, turned(out))), gb


def _triangular_vjp(g, a, out, upper, unitriangular, left):
    gb = triangular_op(turned(a), g, upper=not upper, unitriangular=unitriangular, left=left)
    product = matmul_op(gb, turned(out)) if left else matmul_op(turned(out), gb)
    return weighted(-product, not upper, not unitriangular, upper), gb


inv_op = register(
    "inv", ("a",), outputs=("out", "info"), numpy=_unchecked(np.linalg.inv), cases=_SQUARE, **_DECLARED,
    vjp=(lambda g, out: -matmul_op(turned(out), matmul_op(g, turned(out))),))
_FACTORS = tuple(Derived(lambda a, *_, i=i: np_lu(a)[i]) for i in range(2))
solve_again_op = register(                      # by factors that are known, which count as constant: a derivative is that of A
    "solve_again", ("a", "b", "lu", "pivots"), numpy=lambda a, b, lu, pivots, turn: _np_solve(a, b, turn)[0],
    vjp=lambda g, a, out, lu, pivots, turn: (*_solve_vjp(g, a, out, lu, pivots, turn), None, None),
    **{**_DECLARED, "takes": {"a": "f", "b": "=a", "lu": "=a", "pivots": "int32"}},
    cases=(case(Definite((2, 3, 3)), (2, 3, 2), *_FACTORS, turn=False), case(Definite((4, 4)), (4, 1), *_FACTORS, turn=True)))
solve_op = register(
    "solve", ("a", "b"), outputs=("out", "info", "lu", "pivots"), numpy=_np_solve, vjp=_solve_vjp, **_DECLARED,
    cases=(case(Definite((2, 3, 3)), (2, 3, 2), turn=False), case(Definite((4, 4)), (4, 1), turn=False), case((0, 0), (0, 2), turn=True),
           case(Derived(lambda: np.array([[2.0, 1.0], [0.5, 3.0]])), (2, 3), turn=True)))


def _np_triangular(a, b, upper, unitriangular, left):
    if not left:
        return np.swapaxes(_np_triangular(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not upper, unitriangular, True), -1, -2)
    a = np.triu(a) if upper else np.tril(a)
    return np.linalg.solve(a - unitriangular * (a * np.eye(a.shape[-1]) - np.eye(a.shape[-1])), b)


triangular_op = register(
    "triangular", ("a", "b"), numpy=_np_triangular, vjp=_triangular_vjp, **_DECLARED,
    cases=(case(Definite((2, 3, 3)), (2, 3, 2), upper=True, unitriangular=False, left=True),
           case(Definite((4, 4)), (4, 1), upper=False, unitriangular=False, left=True),
           case(Definite((3, 3)), (3, 2), upper=False, unitriangular=True, left=True),
           case((0, 0), (0, 2), upper=True, unitriangular=True, left=True),
           case(Definite((2, 3, 3)), (2, 2, 3), upper=False, unitriangular=False, left=False),
           case(Definite((3, 3)), (1, 3), upper=True, unitriangular=True, left=False)))


def _np_cholesky_solve(b, a, upper):
    lower = np.swapaxes(np.triu(a), -1, -2) if upper else np.tril(a)
    return np.linalg.solve(lower @ np.swapaxes(lower, -1, -2), b)


def _cholesky_solve_vjp(g, a, out, upper):
    """gB = A^-1 g, and with P = gB X' + X gB': gL = -P L, or gU = -U P, as in PyTorch of L or U as they are given."""
    gb = cholesky_solve_op(g, a, upper=upper)
    inner = matmul_op(gb, turned(out))
    inner = inner + turned(inner)
    return gb, -(matmul_op(a, inner) if upper else matmul_op(inner, a))


cholesky_solve_op = register(
    "cholesky_solve", ("b", "a"), numpy=_np_cholesky_solve, vjp=_cholesky_solve_vjp, smooth=False, **_DECLARED,
    cases=(case((2, 3, 2), Definite((2, 3, 3)), upper=True), case((4, 1), Definite((4, 4)), upper=False), case((0, 2), (0, 0), upper=True)))


def _np_cholesky_inverse(a, upper):
    return _np_cholesky_solve(np.broadcast_to(np.eye(a.shape[-1]), a.shape), a, upper), np.zeros(a.shape[:-2], np.int32)


def _cholesky_inverse_vjp(g, a, out, upper):
    """With P = A^-1 (g + g') A^-1: gL = -P L, or gU = -U P, as in PyTorch of L or U as they are given."""
    inner = matmul_op(out, matmul_op(g + turned(g), out))
    return (-(matmul_op(a, inner) if upper else matmul_op(inner, a)),)


cholesky_inverse_op = register(
    "cholesky_inverse", ("a",), outputs=("out", "info"), numpy=_np_cholesky_inverse, vjp=_cholesky_inverse_vjp, smooth=False, **_DECLARED,
    cases=(case(Definite((2, 3, 3)), upper=True), case(Definite((4, 4)), upper=False), case((0, 0), upper=True)))


# ---------------------------------------------------------------- determinants
def _cofactor_vjp(g, a, out):
    """Of det(A) A'^-1 = Y: <g, Y> A'^-1 - Y g' A'^-1."""
    inverse = turned(inv_op(a)[0])
    total = sum_op(g * out, dim=(g.ndim - 2, g.ndim - 1), keepdim=True)
    return total * inverse - matmul_op(out, matmul_op(turned(g), inverse)), None, None


def _turned_lu(a):
    return np_lu(np.swapaxes(a, -1, -2))[:2]


def _np_cofactor(a, *_):
    return np.linalg.det(a)[..., None, None] * np.swapaxes(np.linalg.inv(a), -1, -2)


def _slogdet_vjp(g_out, g_sign, a, lu, pivots):
    """A'^-1 g. The sign is constant."""
    if g_out is None:
        return (a * 0.0,)
    scaled = _on_diagonal(_scalar(g_out), _beside(a, np.zeros(a.shape, to_numpy(a.dtype))))
    return (solve_again_op(turned(a) if a._contiguous else a, scaled, lu, pivots, turn=not a._contiguous),)


cofactor_op = register("cofactor", ("a", "lu", "pivots"), numpy=_np_cofactor, vjp=_cofactor_vjp,
                       cases=tuple(case(c.inputs[0], *(Derived(lambda a, *_, i=i: _turned_lu(a)[i]) for i in range(2))) for c in _SQUARE),
                       **{**_DECLARED, "takes": {"a": "f", "lu": "=a", "pivots": "int32"}})
det_op = register("det", ("a",), outputs=("out", "lu", "pivots"), numpy=lambda a: (np.linalg.det(a), *_turned_lu(a)), cases=_SQUARE,
                  vjp=(lambda g, a, lu, pivots: _scalar(g) * cofactor_op(a, lu, pivots),), **_DECLARED)
slogdet_op = register("slogdet", ("a",), outputs=("out", "sign", "lu", "pivots"), differentiable=("out", "sign"), vjp=_slogdet_vjp,
                      cases=_SQUARE, numpy=lambda a: (*tuple(np.linalg.slogdet(a))[::-1], *_turned_lu(a)), **_DECLARED)


# ---------------------------------------------------------------- decompositions
def _cholesky_vjp(g, out, upper):
    """gA = the symmetric part of L'^-1 P L^-1, where P is the lower triangle of L' g, its diagonal halved."""
    g, upper = (turned(g), out) if upper else (g, turned(out))
    left = triangular_op(upper, weighted(matmul_op(upper, g), 1, 0.5, 0), upper=True, unitriangular=False, left=True)
    ga = triangular_op(upper, turned(left), upper=True, unitriangular=False, left=True)
    return (ga + turned(ga)) * 0.5


def _qr_vjp(g_Q, g_R, Q, R):
    """gA = (gQ + Q S) R'^-1, where S is symmetric with the upper triangle of gR R' - Q' gQ."""
    if R.shape[-2] != R.shape[-1]:
        raise AutogradError("linalg.qr: with mode='complete' there is no derivative for more rows than columns; use mode='reduced'")
    upper = 0.0 if g_R is None else matmul_op(g_R, turned(R))
    if g_Q is not None:
        upper = upper - matmul_op(turned(Q), g_Q)
    half = weighted(upper, 0, 0.5, 1)
    out = matmul_op(Q, half + turned(half))
    return (triangular_op(turned(R), out if g_Q is None else out + g_Q, upper=False, unitriangular=False, left=False),)


def _svd_vjp(g_U, g_S, g_Vh, U, S, Vh):
    """gA = U (K(U' gU) S + S K(V' gV) + gS) V' + (1 - U U') gU S^-1 V' + U S^-1 gV' (1 - V V'), where K(X) = (X - X') / (S_j^2 - S_i^2)."""
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    U, Vh = leading(U, -1, k), leading(Vh, -2, k)
    inner = 0.0 if g_S is None else _on_diagonal(_column(g_S), 0.0 * matmul_op(_column(S), _row(S)))
    gap = _on_diagonal(1.0, (_row(S) - _column(S)) * (_row(S) + _column(S)))
    left = right = None
    if g_U is not None:
        g_U = leading(g_U, -1, k)
        turn = matmul_op(turned(U), g_U)
        inner = inner + (turn - turned(turn)) / gap * _row(S)
        if m > k:
            left = g_U / _row(S)
            left = matmul_op(left - matmul_op(U, matmul_op(turned(U), left)), Vh)
    if g_Vh is not None:
        g_Vh = leading(g_Vh, -2, k)
        turn = matmul_op(Vh, turned(g_Vh))
        inner = inner + _column(S) * ((turn - turned(turn)) / gap)
        if n > k:
            right = g_Vh / _column(S)
            right = matmul_op(U, right - matmul_op(matmul_op(right, turned(Vh)), Vh))
    out = matmul_op(matmul_op(U, inner), Vh)
    for part in (left, right):
        out = out if part is None else out + part
    return (out,)


def _eigh_vjp(g_values, g_vectors, values, vectors):
    """gA = the symmetric part of V (gL + V' gV / (L_j - L_i)) V'."""
    inner = 0.0 * matmul_op(_column(values), _row(values)) if g_vectors is None else (
        matmul_op(turned(vectors), g_vectors) / _differences(values))
    inner = _on_diagonal(0.0 if g_values is None else _column(g_values), inner)
    out = matmul_op(matmul_op(vectors, inner), turned(vectors))
    return ((out + turned(out)) * 0.5,)


cholesky_op = register("cholesky", ("a",), outputs=("out", "info"), vjp=(_cholesky_vjp,), smooth=False, **_DECLARED,
                       numpy=lambda a, upper: (np.linalg.cholesky(a, upper=upper), np.zeros(a.shape[:-2], np.int32)),
                       cases=tuple(case(*of.inputs, upper=upper) for of in _SQUARE for upper in (False, True)))
qr_op = register("qr", ("a",), outputs=("Q", "R"), differentiable=("Q", "R"), vjp=_qr_vjp,
                 numpy=lambda a, mode: tuple(np.linalg.qr(a, mode)),       # with mode "r" it is R alone, and Q has no columns
                 cases=(case((2, 4, 3), mode="reduced"), case(Definite((3, 3)), mode="complete"), case((0, 0), mode="reduced")),
                 **_DECLARED)
svd_op = register("svd", ("a",), outputs=("U", "S", "Vh"), differentiable=("U", "S", "Vh"), vjp=_svd_vjp,
                  numpy=lambda a, full_matrices: tuple(np.linalg.svd(a, full_matrices)), **_DECLARED,
                  cases=(case(Definite((2, 3, 3)), full_matrices=True), case((4, 3), full_matrices=False),
                         case((2, 2, 3), full_matrices=False), case((0, 3), full_matrices=False)))
eigh_op = register("eigh", ("a",), outputs=("values", "vectors"), differentiable=("values", "vectors"), vjp=_eigh_vjp, smooth=False,
                   numpy=lambda a, uplo: tuple(np.linalg.eigh(a, uplo)), **_DECLARED,
                   cases=(case(Definite((2, 3, 3)), uplo="L"), case(Definite((4, 4)), uplo="U"), case((0, 0), uplo="L")))


# ---------------------------------------------------------------- functions of matrices
def _pinv_vjp(g, a, out):
    """With P the result and K = g' P: gA = -(P K)' + K P' - A P K P' + P' P (g' - K A).
    Source: Golub and Pereyra, The Differentiation of Pseudo-Inverses, 1973, equation 4.12."""
    h, p = turned(g), turned(out)
    k = matmul_op(h, out)
    kp = matmul_op(k, p)
    return (turned(-matmul_op(out, k)) + kp - matmul_op(matmul_op(a, out), kp)
            + matmul_op(matmul_op(p, out), h - matmul_op(k, a)))


def _exp_grad(g, a):
    """The upper right block of exp([[A', g], [0, A']])."""
    t, n, rows, columns = turned(a), a.shape[-1], a.ndim - 2, a.ndim - 1
    nothing = _beside(a, np.zeros(a.shape, to_numpy(a.dtype)))
    out = matrix_exp_op(cat_op(cat_op(t, g, dim=columns), cat_op(nothing, t, dim=columns), dim=rows))
    return slice_op(out, starts=(0,) * rows + (0, n), sizes=a.shape, steps=(1,) * a.ndim)


def _np_exp(a):
    values, vectors = np.linalg.eigh((a + np.swapaxes(a, -1, -2)) / 2)
    return vectors * np.exp(values)[..., None, :] @ np.swapaxes(vectors, -1, -2)


_CUT = {"atol": 0.0, "rtol": 1e-6, "hermitian": False}
pinv_op = register("pinv", ("a",), numpy=lambda a, atol, rtol, hermitian: np.linalg.pinv(a, rcond=rtol, hermitian=hermitian),
                   vjp=(_pinv_vjp,), **_DECLARED,
                   cases=(case((2, 4, 3), **_CUT), case((2, 3), **_CUT), case(Definite((3, 3)), **_CUT), case((0, 3), **_CUT)))
def _np_exp_grad(g, a):
    """exp(A'), differentiated along g: by its eigenvalues, the quotients of differences of their exponentials."""
    values, vectors = np.linalg.eigh((a + np.swapaxes(a, -1, -2)) / 2)
    gap, turned = values[..., None] - values[..., None, :], np.swapaxes(vectors, -1, -2)
    rise = np.exp(values)[..., None] - np.exp(values)[..., None, :]
    slope = np.where(gap == 0, np.exp(values)[..., None], rise / np.where(gap == 0, 1, gap))
    return vectors @ (slope * (turned @ g @ vectors)) @ turned


matrix_exp_op = register("matrix_exp", ("a",), numpy=_np_exp, cases=_SQUARE, **_DECLARED,
                         vjp=(lambda g, a: matrix_exp_grad(g, a),))
matrix_exp_grad = register("matrix_exp_grad", ("g", "a"), numpy=_np_exp_grad, reference=_exp_grad, **_DECLARED,
                           cases=(case((2, 3, 3), Definite((2, 3, 3))), case((4, 4), Definite((4, 4))), case((0, 0), (0, 0))))
