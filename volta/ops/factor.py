"""Factors of matrices by elimination and by reflections, and what is solved by them, on the CPU; leading dimensions are batches."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import graph
from volta.dtypes import HALVES, float32, float64, int32, to_numpy
from volta.errors import ArgumentError, DTypeError, ShapeError, warn_once
from volta.ops.creation import new_empty, randn
from volta.ops.decomposition import linalg_qr, linalg_svd
from volta.ops.inverse import DECLARED, MATRICES, matrices, solve_triangular, square, succeeded
from volta.ops.join import tril, triu
from volta.ops.linalg import matmul
from volta.ops.records.copy import from_array
from volta.ops.records.decomposition import by_columns, cholesky_inverse_op, leading
from volta.ops.records.factor import (
    geqrf_op,
    lu_op,
    lu_solve_op,
    lu_unpack_op,
    np_q,
    np_reflected,
    order_of,
    reflected_op,
    reflections_op,
)
from volta.ops.records.linalg import turned
from volta.ops.records.view import reshape_op
from volta.ops.reduce import mean
from volta.ops.table import Definite, Derived, bridged, case, composed
from volta.results import Result
from volta.shapes import broadcast_shapes

if TYPE_CHECKING:
    from volta.tensor import Tensor

_FACTORS = (case(Definite((2, 3, 3))), case((2, 4, 3)), case((2, 2, 4)), case((0, 3, 3)))
_PIVOTS = Derived(lambda *before: np.array([[2, 3, 3], [1, 2, 3]], np.int32))


class LUFactors(Result):
    """What `linalg.lu_factor` gives: L below the diagonal and U, and per column the row that was exchanged with its own, from 1."""
    LU: Tensor
    pivots: Tensor


class LUInfo(Result):
    """What `linalg.lu_factor_ex` gives: `LUFactors`, and per matrix 0 or the first pivot that is 0."""
    LU: Tensor
    pivots: Tensor
    info: Tensor


class PLU(Result):
    """What `linalg.lu` gives: A = P L U."""
    P: Tensor
    L: Tensor
    U: Tensor


class TriangularSolution(Result):
    """What `triangular_solve` gives: the solution, and a copy of the matrices."""
    solution: Tensor
    cloned_coefficient: Tensor


def _eye(rows, columns, like):
    dtype = np.float32 if like.dtype in HALVES else to_numpy(like.dtype)            # NumPy has no bfloat16
    return from_array(np.eye(rows, columns, dtype=dtype)).to(like.device, like.dtype)


def _refused_on_gpu(name, x):
    """Raise DeviceError for a tensor on a GPU, after the checks that are the same everywhere, unless gaps are bridged there."""
    if x.device.is_gpu:
        bridged(name)


def _unit_lower(x):
    return tril(x, -1) + _eye(*x.shape[-2:], x)


# ---------------------------------------------------------------- elimination
def _np_factors(a):
    return lu_op.details.numpy(a)[:2]


def _np_plu(a):
    out, pivots, _ = lu_op.details.numpy(a)
    m, k = a.shape[-2], min(a.shape[-2:])
    order = np.array([_np_order(p, m) for p in pivots.reshape(-1, k)], int).reshape(*a.shape[:-2], m)
    return np.swapaxes(np.eye(m)[order], -1, -2), np.tril(out[..., :k], -1) + np.eye(m, k), np.triu(out[..., :k, :])


def _np_order(pivots, rows):
    order = list(range(rows))
    for i, p in enumerate(pivots):
        order[i], order[p - 1] = order[p - 1], order[i]
    return order


def _factors(name, A, pivot):
    matrices(name, A)
    if not pivot:
        raise ArgumentError(f"{name}: elimination without exchanges of rows, pivot=False, is not there on the CPU")
    return lu_op(A)


@composed(name="linalg.lu_factor_ex", function=False, method=False, samples=_FACTORS, numpy=lambda a: lu_op.details.numpy(a), **DECLARED)
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUInfo:
    """The factors of `linalg.lu_factor`, and per matrix 0, or the first pivot that is 0: raises for that with `check_errors`. On the CPU.

    >>> volta.linalg.lu_factor_ex(volta.zeros(1, 1)).info
    tensor(1, dtype=volta.int32)
    """
    found = LUInfo(*_factors("linalg.lu_factor_ex", A, pivot))
    if check_errors:
        succeeded("linalg.lu_factor_ex", found.info, "U has 0 as pivot {}, by which lu_solve would divide")
    return found


@composed(name="linalg.lu_factor", function=False, method=False, samples=_FACTORS, numpy=_np_factors, **DECLARED)
def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactors:
    """L and U of A = P L U in one matrix, L below the diagonal, where it has ones, and the exchanges of rows that P stands for; on the CPU.

    Raises: LinAlgError where a pivot is 0; ArgumentError for pivot=False, as PyTorch on the CPU.

    >>> volta.linalg.lu_factor(volta.tensor([[1.0, 2.0], [2.0, 2.0]])).LU
    tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]])
    """
    out, pivots, info = _factors("linalg.lu_factor", A, pivot)
    succeeded("linalg.lu_factor", info, "U has 0 as pivot {}, by which lu_solve would divide; linalg.lu_factor_ex gives the factors")
    return LUFactors(out, pivots)


@composed(out="any", samples=_FACTORS, numpy=_np_factors, **DECLARED)
def lu(input: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """LU and pivots of `linalg.lu_factor_ex`, or all of it with `get_infos`.

    >>> volta.lu(volta.eye(2))[1].tolist()
    [1, 2]
    """
    warn_once("lu is deprecated; write linalg.lu_factor, or linalg.lu_factor_ex for the infos, too")
    found = lu_factor_ex(input, pivot=pivot)
    return found if get_infos else tuple(found[:2])


@composed(samples=(case((2, 3, 3), _PIVOTS), case((2, 3, 2), Derived(lambda a: np.array([[2, 3], [1, 2]], np.int32)))),
          halves=True, **DECLARED,
          numpy=lambda a, p: (np.swapaxes(np.eye(3)[[_np_order(x, 3) for x in p]], -1, -2), np.tril(a, -1) + np.eye(*a.shape[-2:]),
                              np.triu(a[..., :a.shape[-1], :])))
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> PLU:
    """P, L and U of what `linalg.lu_factor` gives; those that are not asked for have no elements.

    Raises: DTypeError unless the pivots are int32; ArgumentError for such outside the rows.

    >>> volta.lu_unpack(*volta.linalg.lu_factor(volta.tensor([[1.0, 2.0], [2.0, 2.0]]))).P
    tensor([[0., 1.],
            [1., 0.]])
    """
    matrices("lu_unpack", LU_data)
    if unpack_data and unpack_pivots and LU_data.dtype in (float32, float64):
        _check_pivots("lu_unpack", LU_data, LU_pivots)
        return PLU(*lu_unpack_op(LU_data, LU_pivots))
    order, k = _order("lu_unpack", LU_data, LU_pivots), min(LU_data.shape[-2:])
    none = new_empty(LU_data, (0,))
    turns = np.eye(LU_data.shape[-2], dtype=np.float32 if LU_data.dtype in HALVES else to_numpy(LU_data.dtype))[order]
    P = from_array(np.ascontiguousarray(np.swapaxes(turns, -1, -2))).to(LU_data.device, LU_data.dtype) if unpack_pivots else none
    if not unpack_data:
        return PLU(P, none, none)
    return PLU(P, _unit_lower(leading(LU_data, -1, k)), triu(leading(LU_data, -2, k)))


def _check_pivots(name, LU, pivots):
    """Raise DTypeError and ShapeError for pivots that are not those of LU."""
    if pivots.dtype is not int32:
        raise DTypeError(f"{name}: pivots must be int32, as lu_factor gives them, got {pivots.dtype.name}; convert them with .int()")
    if pivots.shape != (*LU.shape[:-2], min(LU.shape[-2:])):
        raise ShapeError(f"{name}: needs pivots for each of the matrices {LU.shape}, as lu_factor gives them, got shape {pivots.shape}")


def _order(name, LU, pivots):
    _check_pivots(name, LU, pivots)
    _refused_on_gpu(name, LU)
    return order_of(name, pivots, LU.shape[-2])


@composed(name="linalg.lu", function=False, method=False, samples=_FACTORS, numpy=_np_plu, **DECLARED)
def linalg_lu(A: Tensor, *, pivot: bool = True) -> PLU:
    """A = P L U, where P exchanges rows, L is lower triangular with ones on the diagonal and U upper triangular; on the CPU.

    >>> volta.linalg.lu(volta.tensor([[1.0, 2.0], [2.0, 2.0]])).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    out, pivots, _ = _factors("linalg.lu", A, pivot)
    return lu_unpack(out, pivots)


def _np_lu_solve(a, p, b, left=True, adjoint=False):
    order = [_np_order(x, 3) for x in p]
    whole = np.swapaxes(np.eye(3)[order], -1, -2) @ (np.tril(a, -1) + np.eye(3)) @ np.triu(a)
    whole = np.swapaxes(whole, -1, -2) if adjoint else whole
    return np.linalg.solve(whole, b) if left else b @ np.linalg.inv(whole)


@composed(name="linalg.lu_solve", function=False, method=False, numpy=_np_lu_solve, in_float32=True, halves=None, **DECLARED,
          samples=(case(Definite((2, 3, 3)), _PIVOTS, (2, 3, 2)), case(Definite((2, 3, 3)), _PIVOTS, (3, 2), adjoint=True),
                   case(Definite((2, 3, 3)), _PIVOTS, (2, 2, 3), left=False),
                   case(Definite((2, 3, 3)), _PIVOTS, (2, 2, 3), left=False, adjoint=True)))
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X of A X = B, or of X A = B unless `left`, for the A, or with `adjoint` its transpose, of `linalg.lu_factor`; on the CPU.

    Raises: DTypeError for different dtypes; ShapeError where the rows of B do not fit.

    >>> volta.linalg.lu_solve(*volta.linalg.lu_factor(volta.tensor([[2.0]])), volta.ones(1, 1))
    tensor([[0.5000]])
    """
    matrices("linalg.lu_solve", LU, B)
    if LU.dtype is not B.dtype:
        raise DTypeError(f"linalg.lu_solve: both must have one dtype, got {LU.dtype} and {B.dtype}; convert one with .to(dtype)")
    square("linalg.lu_solve", LU)
    if not left:
        return turned(linalg_lu_solve(LU, pivots, turned(B), adjoint=not adjoint))
    if B.shape[-2] != LU.shape[-1]:
        raise ShapeError(f"linalg.lu_solve: A X = B with A {LU.shape} needs B of {LU.shape[-1]} rows, got {B.shape}")
    broadcast_shapes(LU.shape[:-2], B.shape[:-2])
    _check_pivots("linalg.lu_solve", LU, pivots)
    return lu_solve_op(LU, pivots, B, turn=adjoint)


@composed(samples=(case((2, 3, 2), Definite((2, 3, 3)), _PIVOTS),), numpy=lambda b, a, p: _np_lu_solve(a, p, b), halves=None, **DECLARED)
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve` with the right side first.

    >>> volta.lu_solve(volta.ones(1, 1), *volta.lu(volta.tensor([[2.0]])))
    tensor([[0.5000]])
    """
    warn_once("lu_solve is deprecated; write linalg.lu_solve(LU, pivots, B)")
    return linalg_lu_solve(LU_data, LU_pivots, input)


# ---------------------------------------------------------------- by triangles
def _np_cholesky_inverse(a, upper=False):
    r = np.triu(a) if upper else np.swapaxes(np.tril(a), -1, -2)
    return np.linalg.inv(np.swapaxes(r, -1, -2) @ r)


@composed(out="cast", samples=(*MATRICES, case(Definite((2, 3, 3)), upper=True)), numpy=_np_cholesky_inverse, smooth=False,
          **DECLARED)
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """The inverse of a matrix that is given by its Cholesky factor, on the CPU.

    Raises: LinAlgError where the diagonal of the factor has a 0.

    >>> volta.cholesky_inverse(volta.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    matrices("cholesky_inverse", input)
    square("cholesky_inverse", input)
    out, info = cholesky_inverse_op(input, upper=upper)
    succeeded("cholesky_inverse", info, "the matrix is singular: its factor has 0 as element {} of the diagonal")
    return out


def _np_triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    t = np.triu(a) if upper else np.tril(a)
    t = t + np.eye(a.shape[-1]) * (1 - t) if unitriangular else t
    return np.linalg.solve(np.swapaxes(t, -1, -2) if transpose else t, b), a


@composed(samples=(case((2, 3, 2), Definite((2, 3, 3))), case((2, 3, 2), Definite((2, 3, 3)), upper=False, transpose=True),
                   case((3, 2), Definite((2, 3, 3)), unitriangular=True)),
          numpy=lambda b, a, **options: (lambda x, a: (x, a + np.zeros((*x.shape[:-2], 1, 1))))(*_np_triangular_solve(b, a, **options)),
          **DECLARED)
def triangular_solve(input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> TriangularSolution:
    """X of A X = input, or with `transpose` of A' X = input, where only the upper or the lower triangle of A is read; and a copy of A; on
    the CPU.

    Raises: DTypeError for different dtypes.

    >>> volta.triangular_solve(volta.ones(1, 1), volta.tensor([[2.0]])).solution
    tensor([[0.5000]])
    """
    warn_once("triangular_solve is deprecated; write linalg.solve_triangular(A, B, upper=upper), which gives no copy of A")
    matrices("triangular_solve", input, A)
    if input.dtype is not A.dtype:
        raise DTypeError(f"triangular_solve: both must have one dtype, got {input.dtype} and {A.dtype}; convert one with .to(dtype)")
    X = solve_triangular(turned(A) if transpose else A, input, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolution(X, by_columns(A.expand(*X.shape[:-2], *A.shape[-2:]).clone()))


# ---------------------------------------------------------------- reflections
def _check_factors(name, A, tau):
    if tau.dtype is not A.dtype:
        raise DTypeError(f"{name}: the factors must be {A.dtype} as the matrices are, got {tau.dtype}; convert them with .to({A.dtype})")
    if tau.ndim != A.ndim - 1 or tau.shape[:-1] != A.shape[:-2]:
        raise ShapeError(f"{name}: the factors must be a vector for each matrix of {A.shape}, got {tau.shape}")


def _reflections(A, tau):
    """V and T of Q = 1 - V T V', the product of the reflections 1 - tau_i v_i v_i'. Source: Schreiber and Van Loan, A Storage-Efficient WY
    Representation for Products of Householder Transformations, 1989."""
    k = tau.shape[-1]
    V = _unit_lower(leading(A, -1, k))
    scale = reshape_op(tau, shape=(*tau.shape, 1))
    return V, solve_triangular(scale * triu(matmul(turned(V), V), 1), scale * _eye(k, k, A), upper=True, unitriangular=True)


@composed(out="cast", samples=(case((2, 4, 3), (2, 3)), case((4, 3), (2,)), case((3, 3), (3,)), case((0, 3, 2), (0, 2))),
          aliases=("linalg.householder_product",), numpy=lambda a, tau: np_q(a, tau)[..., :a.shape[-1]],
          in_float32=True, **DECLARED)
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """The first columns of the product of reflections that `geqrf` gives: 1 - tau_i v_i v_i', with v_i below the diagonal of column i and
    one on it; on the CPU.

    Raises: ShapeError for fewer rows than columns, or more factors than columns.

    >>> volta.orgqr(volta.tensor([[0.0], [1.0]]), volta.tensor([1.0]))
    tensor([[ 0.],
            [-1.]])
    """
    name = "linalg.householder_product"
    matrices(name, input)
    _check_factors(name, input, input2)
    n = input.shape[-1]
    if input.shape[-2] < n or input2.shape[-1] > n:
        raise ShapeError(f"{name}: needs at least as many rows as columns, and at most a factor in input2 for each column, got "
                         f"{input.shape} and {input2.shape}")
    _refused_on_gpu(name, input)
    if not (graph.wants_derivative(input) or graph.wants_derivative(input2)):
        return reflections_op(input, input2)
    V, T = _reflections(input, input2)
    return by_columns(_eye(input.shape[-2], n, input) - matmul(V, matmul(T, turned(leading(V, -2, n)))))


@composed(samples=(case((2, 4, 3), (2, 3), (2, 4, 2)), case((4, 3), (3,), (4, 2), transpose=True),
                   case((4, 3), (3,), (2, 4), left=False), case((2, 4), (2,), (2, 3))),
          numpy=np_reflected, in_float32=True, **DECLARED)
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q input3, or input3 Q unless `left`, or either with the transpose of Q, the square product of reflections that `geqrf` gives; on the
    CPU.

    Raises: ShapeError where `input2` or `input3` does not fit `input`.

    >>> volta.ormqr(volta.tensor([[0.0], [1.0]]), volta.tensor([1.0]), volta.eye(2))
    tensor([[ 0., -1.],
            [-1.,  0.]])
    """
    matrices("ormqr", input, input3)
    _check_factors("ormqr", input, input2)
    if input2.shape[-1] != min(input.shape[-2:]):
        raise ShapeError(f"ormqr: input2 must have the smaller size of input {input.shape}, got {input2.shape}")
    if input3.shape[-2 if left else -1] != input.shape[-2]:
        raise ShapeError(f"ormqr: input3 {input3.shape} must have the {input.shape[-2]} rows of input as {'rows' if left else 'columns'}")
    _refused_on_gpu("ormqr", input)
    if input3.dtype is input.dtype and not any(map(graph.wants_derivative, (input, input2, input3))):
        return reflected_op(input, input2, input3, left=left, transpose=transpose)
    V, T = _reflections(input, input2)
    T = turned(T) if transpose else T
    if left:
        return by_columns(input3 - matmul(V, matmul(T, matmul(turned(V), input3))))
    return by_columns(input3 - matmul(matmul(matmul(input3, V), T), turned(V)))


class Reflections(Result):
    """What `geqrf` gives: R on and above the diagonal, the reflections below it, and their factors."""
    a: Tensor
    tau: Tensor


@composed(out="cast", untested="tests/test_linalg.py: it has no derivative", cpu_only=True)
def geqrf(input: Tensor) -> Reflections:
    """The QR decomposition as LAPACK packs it, for `orgqr` and `ormqr`, on the CPU. As in PyTorch it has no derivative.

    Raises: AutogradError at backward: `linalg.qr` has one.

    >>> volta.geqrf(volta.tensor([[3.0], [4.0]])).a[0].item()
    -5.0
    """
    matrices("geqrf", input)
    return Reflections(*geqrf_op(input))


# ---------------------------------------------------------------- of low rank
_DRAWN = {"untested": "tests/test_linalg.py: of random draws, and of signs that may differ", "cpu_only": True, "method": False}


def _basis(A, q, niter):
    """Orthonormal columns that span nearly what the q largest singular values do. Source: Halko et al., Finding Structure with Randomness,
    2009, algorithm 4.4."""
    Q = linalg_qr(matmul(A, randn(A.shape[-1], q, dtype=A.dtype, device=A.device))).Q
    for _ in range(niter):
        Q = linalg_qr(matmul(A, linalg_qr(matmul(turned(A), Q)).Q)).Q
    return Q


@composed(**_DRAWN)
def svd_lowrank(A: Tensor, q: int | bool | None = 6, niter: int = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """U, S and V of A - M = U diag(S) V' for the q largest singular values, nearly, by random projections and `niter` iterations; on the
    CPU.

    >>> volta.svd_lowrank(volta.diag(volta.tensor([3.0, 2.0, 0.0])), q=2)[1].round().tolist()
    [3.0, 2.0]
    """
    matrices("svd_lowrank", A)
    q = 6 if q is None else int(q)
    A = A if M is None else A - M
    if A.shape[-2] < A.shape[-1]:
        V, S, U = svd_lowrank(turned(A), q, niter)
        return U, S, V
    Q = _basis(A, q, niter)
    U, S, Vh = linalg_svd(matmul(turned(Q), A), full_matrices=False)
    return matmul(Q, U), S, turned(Vh)


@composed(**_DRAWN)
def pca_lowrank(A: Tensor, q: int | bool | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """`svd_lowrank` of A, its columns centred first: the q principal components are the columns of V; on the CPU.

    Raises: ArgumentError for q or niter out of range.

    >>> volta.pca_lowrank(volta.tensor([[1.0, 1.0], [-1.0, -1.0]]), q=1)[1].round().tolist()
    [2.0]
    """
    matrices("pca_lowrank", A)
    most = min(A.shape[-2:])
    q = min(6, most) if q is None else int(q)
    if not 0 <= q <= most or niter < 0:
        raise ArgumentError(f"pca_lowrank: q must be between 0 and {most}, the smaller size, and niter at least 0, got {q} and {niter}")
    return svd_lowrank(A - mean(A, -2, keepdim=True) if center else A, q, niter)
