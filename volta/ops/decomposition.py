"""Decompositions of matrices and what is made of them, computed on the CPU; leading dimensions are batches."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import TensorBase, graph
from volta.dtypes import finfo, int64
from volta.errors import ArgumentError, DTypeError, warn_once
from volta.ops.creation import new_empty
from volta.ops.inverse import DECLARED, MATRICES, fitting, inv_ex, matrices, square, succeeded
from volta.ops.join import cat, stack
from volta.ops.linalg import matmul
from volta.ops.norms import matrix_norm
from volta.ops.parts import unbind
from volta.ops.records.decomposition import cholesky_op, cholesky_solve_op, eigh_op, pinv_op, qr_op, svd_op
from volta.ops.records.linalg import turned
from volta.ops.records.math import clamp_min, where_op
from volta.ops.records.view import expand_op, reshape_op
from volta.ops.reduce import amax, sum
from volta.ops.table import Definite, Derived, case, composed
from volta.results import Result
from volta.shapes import broadcast_shapes

if TYPE_CHECKING:
    from volta.tensor import Tensor

_WIDE = Derived(lambda: np.arange(6.0).reshape(2, 3) % 4)


class CholeskyInfo(Result):
    """What `linalg.cholesky_ex` gives: the factors, and per matrix 0 or the order of the first leading part that is not definite."""
    L: Tensor
    info: Tensor


class QR(Result):
    """What `linalg.qr` gives: Q with orthonormal columns and the upper triangular R."""
    Q: Tensor
    R: Tensor


class SVD(Result):
    """What `linalg.svd` gives: A = U diag(S) Vh."""
    U: Tensor
    S: Tensor
    Vh: Tensor


class USV(Result):
    """What `svd` gives: A = U diag(S) V', V' the transpose of V."""
    U: Tensor
    S: Tensor
    V: Tensor


class Eigen(Result):
    """What `linalg.eigh` gives: the eigenvalues in ascending order, and their vectors as columns."""
    eigenvalues: Tensor
    eigenvectors: Tensor


# ---------------------------------------------------------------- Cholesky
def _np_cholesky(a, upper=False):
    return np.linalg.cholesky(np.swapaxes(a, -1, -2), upper=upper)


@composed(samples=(*MATRICES, case(Definite((2, 3, 3)), upper=True)), numpy=_np_cholesky, smooth=False,
          out="cast", halves=None, **DECLARED)
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`; of a tensor without elements one of the same shape, as in PyTorch.

    >>> volta.cholesky(volta.eye(1))
    tensor([[1.]])
    """
    warn_once("cholesky is deprecated; write linalg.cholesky(A), or linalg.cholesky(A).mH for upper=True")
    if not input._size:
        return input.clone()
    return linalg_cholesky(input, upper=upper)


@composed(name="linalg.cholesky", function=False, method=False, samples=(*MATRICES, case(Definite((2, 3, 3)), upper=True)),
          numpy=_np_cholesky, smooth=False, halves=None, **DECLARED)
def linalg_cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower triangular L with L L' = A, or with `upper` its transpose, of a symmetric positive definite matrix, of which only that
    triangle is read; on the CPU.

    Raises: LinAlgError unless positive definite.

    >>> volta.linalg.cholesky(volta.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return cholesky_ex(A, upper=upper, check_errors=True).L


@composed(name="linalg.cholesky_ex", function=False, method=False, samples=MATRICES, smooth=False, halves=None, **DECLARED,
          numpy=lambda a: (np.linalg.cholesky(a), np.zeros(a.shape[:-2], np.int32)))
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyInfo:
    """The factor of `linalg.cholesky`, and per matrix 0, or the order of the first leading part that is not positive definite: the factor
    is right before that column alone then, or raises with `check_errors`.

    >>> volta.linalg.cholesky_ex(-volta.eye(1)).info
    tensor(1, dtype=volta.int32)
    """
    square("linalg.cholesky", A)
    out, info = cholesky_op(A, upper=upper)
    if check_errors:
        succeeded("linalg.cholesky", info, "the matrix is not positive definite: its leading part of order {} is not")
    return CholeskyInfo(out, info)


@composed(out="cast", samples=(case((2, 3, 2), Definite((2, 3, 3))), case((2, 3, 2), Definite((2, 3, 3)), upper=True)),
          **DECLARED, smooth=False, numpy=lambda b, a, upper=False: (lambda r: np.linalg.solve(np.swapaxes(r, -1, -2) @ r, b))(
              np.triu(a) if upper else np.swapaxes(np.tril(a), -1, -2)))
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """X of A X = input, of a matrix A that is given by its Cholesky factor `input2`; on the CPU.

    >>> volta.cholesky_solve(volta.ones(1, 1), volta.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    matrices("cholesky_solve", input, input2)
    square("cholesky_solve", input2)
    fitting("cholesky_solve", input2, input)
    return cholesky_solve_op(input, input2, upper=upper)


# ---------------------------------------------------------------- QR
@composed(name="linalg.qr", function=False, method=False, numpy=lambda a, mode="reduced": tuple(np.linalg.qr(a, mode)), **DECLARED,
          samples=(case(Definite((2, 3, 3))), case((4, 3)), case((2, 2, 4)), case(_WIDE, mode="complete"), case((0, 0))))
def linalg_qr(A: Tensor, mode: str = "reduced") -> QR:
    """A = Q R on the CPU. With mode "reduced" Q has as many columns as A has rows or columns, with "complete" it is square, with "r" empty.

    Raises: ArgumentError for another mode; AutogradError at backward for "complete" of more rows than columns.

    >>> volta.linalg.qr(volta.eye(2)).R.abs()
    tensor([[1., 0.],
            [0., 1.]])
    """
    matrices("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}")
    rows, columns = A._shape[-2:]
    if mode == "r" and core.host_sees(A) and not graph.wants_derivative(A):
        return QR(new_empty(A, (0,)), qr_op(A, mode="r")[1])
    if rows < columns:                                  # A = Q [R, Q' B], of which the first has a derivative of its own
        Q, R = qr_op(A[..., :rows], mode="reduced")
        R = turned(cat([turned(R), matmul(turned(A[..., rows:]), Q)], -2))        # column by column in memory
    else:
        Q, R = qr_op(A, mode="complete" if mode == "complete" else "reduced")
    return QR(new_empty(A, (0,)) if mode == "r" else Q, R)


@composed(samples=(case((2, 4, 3)), case(_WIDE, some=False)), **DECLARED,
          numpy=lambda a, some=True: tuple(np.linalg.qr(a, "reduced" if some else "complete")))
def qr(input: Tensor, some: bool = True) -> QR:
    """`linalg.qr`, complete unless `some`.

    >>> volta.qr(volta.eye(2)).Q.shape
    volta.Size([2, 2])
    """
    warn_once("qr is deprecated; write linalg.qr(A, 'reduced'), or 'complete' for some=False")
    return linalg_qr(input, "reduced" if some else "complete")


# ---------------------------------------------------------------- singular values and eigenvalues
@composed(name="linalg.svd", function=False, method=False, halves=None, **DECLARED,
          numpy=lambda a, full_matrices=True: tuple(np.linalg.svd(a, full_matrices)),
          samples=(case(Definite((2, 3, 3))), case(_WIDE), case((4, 3), full_matrices=False), case((2, 2, 3), full_matrices=False)))
def linalg_svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """A = U diag(S) Vh with orthonormal U and Vh and falling S, on the CPU; not square U and Vh unless `full_matrices`.

    Raises: ArgumentError for a `driver`, of which only a GPU's library has several; LinAlgError for NaN and infinity.

    >>> volta.linalg.svd(volta.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    matrices("linalg.svd", A)
    if driver is not None:
        raise ArgumentError(f"linalg.svd: on the CPU there is one driver, so driver must be None, got {driver!r}")
    return SVD(*svd_op(A, full_matrices=full_matrices))


@composed(name="linalg.svdvals", function=False, method=False, numpy=lambda a: np.linalg.svd(a, compute_uv=False), halves=None, **DECLARED,
          samples=(case(Definite((2, 3, 3))), case((4, 3)), case((2, 2, 3)), case((0, 3))))
def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """The singular values of matrices in falling order, on the CPU.

    >>> volta.linalg.svdvals(volta.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    if not A.requires_grad and core.host_sees(A) and A.ndim > 1 and np.isinf(A.detach().numpy()).any():
        endless = A.isinf().any(-1).any(-1)             # NaN, but for matrices with NaN an error, as PyTorch without vectors
        values = linalg_svd(where_op(reshape_op(endless, shape=endless.shape + (1, 1)) & ~A.isnan(), 0.0, A), False).S
        return where_op(reshape_op(endless, shape=endless.shape + (1,)), math.nan, values)
    if not (driver or A.ndim < 2 or graph.wants_derivative(A)):
        return svd_op(A, full_matrices=False, vectors=False)[1]
    return linalg_svd(A, False, driver=driver).S


def _np_svd(a, some=True):
    u, s, vh = np.linalg.svd(a, not some)
    return u, s, np.swapaxes(vh, -1, -2)


@composed(samples=(case((2, 4, 3)), case(_WIDE, some=False)), numpy=_np_svd, halves=None, **DECLARED)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> USV:
    """input = U diag(S) V' on the CPU; U and V are square unless `some`, and zeros unless `compute_uv`.

    >>> volta.svd(volta.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    if not compute_uv:
        S, (rows, columns) = svdvals(input), input.shape[-2:]
        return USV(S.new_zeros(input.shape[:-1] + (rows,)), S, turned(S.new_zeros(input.shape[:-2] + (columns, columns))))
    U, S, Vh = linalg_svd(input, not some)
    return USV(U, S, turned(Vh))


@composed(name="linalg.eigh", function=False, method=False, samples=(*MATRICES, case(Definite((2, 3, 3)), UPLO="U")),
          numpy=lambda a, UPLO="L": tuple(np.linalg.eigh(a, UPLO)), smooth=False, halves=None, **DECLARED)
def eigh(A: Tensor, UPLO: str = "L") -> Eigen:
    """The eigenvalues of symmetric matrices in ascending order, and their vectors as columns, on the CPU. Only the lower triangle is read,
    or the upper one ("U").

    Raises: ArgumentError for another `UPLO`.

    >>> volta.linalg.eigh(volta.tensor([[3.0, 0.0], [0.0, 2.0]])).eigenvalues
    tensor([2., 3.])
    """
    square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise ArgumentError(f"linalg.eigh: UPLO must be 'L' or 'U', got {UPLO!r}")
    if not (A._size or A.dtype.is_floating_point):      # of no elements, of which PyTorch takes any dtype
        return Eigen(A.new_empty(A.shape[:-1]), turned(A.new_empty(A.shape)))
    return Eigen(*eigh_op(A, uplo=UPLO.upper()))


@composed(name="linalg.eigvalsh", function=False, method=False, samples=(*MATRICES, case(Definite((2, 3, 3)), UPLO="U")),
          numpy=lambda a, UPLO="L": np.linalg.eigvalsh(a, UPLO), smooth=False, halves=None, **DECLARED)
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of `eigh`.

    >>> volta.linalg.eigvalsh(volta.tensor([[3.0, 0.0], [0.0, 2.0]]))
    tensor([2., 3.])
    """
    if A._size and A.ndim > 1 and A.shape[-1] == A.shape[-2] and UPLO in ("L", "U") and not graph.wants_derivative(A):
        return eigh_op(A, uplo=UPLO, vectors=False)[0]
    return eigh(A, UPLO).eigenvalues


# ---------------------------------------------------------------- by singular values
def tolerances(name, A, atol, rtol):
    """Below which singular values count as 0, absolutely and relative to the largest."""
    matrices(name, A)
    if not A.dtype.is_floating_point:
        raise DTypeError(f"{name}: needs a floating point tensor, got {A.dtype}; convert it with .float()")
    atol, rtol = (0.0 if atol is None else _column(atol)), (None if rtol is None else _column(rtol))
    if rtol is None:
        smallest = finfo(A.dtype).eps * max(A.shape[-2:])
        rtol = where_op(atol > 0, 0.0, smallest) if isinstance(atol, TensorBase) else 0.0 if atol else smallest
    return atol, rtol


def _column(x):
    """A tolerance as a number, or one for each matrix of a batch to compare with its singular values."""
    return reshape_op(x, shape=x.shape + (1,)) if isinstance(x, TensorBase) and x.ndim else float(x)


@composed(out="cast", name="linalg.pinv", function=False, method=False, numpy=lambda a, **_: np.linalg.pinv(a), dtype=lambda d: d,
          **DECLARED, samples=(case((2, 4, 3)), case((2, 3), rtol=1e-5), case(Definite((2, 3, 3)), atol=1e-6)))
def pinv(A: Tensor, rcond: float | Tensor | None = None, hermitian: bool = False, *, atol: float | Tensor | None = None,
         rtol: float | Tensor | None = None) -> Tensor:
    """The pseudo-inverse of Moore and Penrose on the CPU. Singular values up to `atol` and up to `rtol` (or `rcond`) times the largest
    count as 0; by default `rtol` is epsilon times the larger size, or 0 beside `atol`. With `hermitian` only the lower triangle is read.

    >>> volta.linalg.pinv(volta.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    atol, rtol = tolerances("linalg.pinv", A, atol, rtol if rcond is None else rcond)
    if hermitian and not A._size and A.shape[-2] != A.shape[-1]:
        return turned(A)
    if hermitian:
        square("linalg.pinv", A)
    if isinstance(atol, TensorBase) or isinstance(rtol, TensorBase):
        return _pinv_of_each(A, atol, rtol, hermitian)
    return pinv_op(A, atol=atol, rtol=rtol, hermitian=hermitian)


def _pinv_of_each(A, atol, rtol, hermitian):
    """Pseudo-inverses of matrices, each with tolerances of its own."""
    batch = broadcast_shapes(A.shape[:-2], *[x.shape[:-1] for x in (atol, rtol) if isinstance(x, TensorBase)])
    count, rows, columns = math.prod(batch), *A.shape[-2:]
    if not count or not A._size:
        return A.new_zeros((*batch, columns, rows))
    bounds = [reshape_op(expand_op(x, shape=(*batch, 1)), shape=(count,)).tolist() if isinstance(x, TensorBase) else [x] * count
              for x in (atol, rtol)]
    of_each = unbind(reshape_op(expand_op(A, shape=(*batch, rows, columns)), shape=(count, rows, columns)))
    found = [pinv_op(a, atol=low, rtol=ratio, hermitian=hermitian) for a, low, ratio in zip(of_each, *bounds, strict=True)]
    return reshape_op(stack(found), shape=(*batch, columns, rows))


@composed(samples=(case((2, 4, 3)),), numpy=np.linalg.pinv, **DECLARED)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with a relative tolerance.

    >>> volta.pinverse(volta.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return pinv(input, rtol=rcond)


@composed(out="cast", name="linalg.matrix_rank", function=False, method=False, numpy=lambda a, **_: np.linalg.matrix_rank(a),
          **DECLARED, samples=(case((2, 4, 3)), case((2, 3), rtol=1e-5), case(Definite((2, 3, 3)), atol=1e-6)))
def matrix_rank(A: Tensor, tol: float | Tensor | None = None, hermitian: bool = False, *, atol: float | Tensor | None = None,
                rtol: float | Tensor | None = None) -> Tensor:
    """How many singular values of matrices are not 0, on the CPU, with the tolerances of `pinv`, with tensors of one for each matrix, or
    with the absolute `tol` alone.

    >>> volta.linalg.matrix_rank(volta.ones(3, 3)).item()
    1
    """
    atol, rtol = tolerances("linalg.matrix_rank", A, *((atol, rtol) if tol is None else (tol, 0.0)))
    if not A._size:
        return A.new_zeros(A.shape[:-2], dtype=int64)
    values = abs(eigvalsh(A)) if hermitian else svdvals(A.detach())
    return sum(values > clamp_min(amax(values, -1, True) * rtol, atol), -1)


@composed(out="cast", name="linalg.cond", function=False, method=False, numpy=lambda a, p=None: np.linalg.cond(a, p), **DECLARED,
          samples=(case(Definite((2, 3, 3))), case((4, 3), p=-2), case(Definite((2, 3, 3)), p="fro"), case(Definite((2, 3, 3)), p=1),
                   case(Definite((2, 3, 3)), p=-math.inf)))
def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """The condition of matrices in the norm `p`: None or 2 (the largest singular value by the smallest), -2, "fro", "nuc", 1, -1, inf or
    -inf; infinite for a singular matrix. On the CPU.

    Raises: ArgumentError for another `p`.

    >>> volta.linalg.cond(volta.tensor([[2.0, 0.0], [0.0, 4.0]])).item()
    2.0
    """
    matrices("linalg.cond", A)
    if p not in (None, 2, -2, "fro", "nuc", 1, -1, math.inf, -math.inf):
        raise ArgumentError(f"linalg.cond: p must be None, 2, -2, 'fro', 'nuc', 1, -1, inf or -inf, got {p!r}")
    if not A._size:
        return A.new_zeros(A.shape[:-2])
    if p in (None, 2, -2):
        values = svdvals(A)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    square(f"linalg.cond with p={p!r}", A)
    inverse, info = inv_ex(A)
    singular = info != 0
    safe = where_op(reshape_op(singular, shape=singular.shape + (1, 1)), 1.0, inverse)
    return where_op(singular, math.inf, matrix_norm(A, p) * matrix_norm(safe, p))
