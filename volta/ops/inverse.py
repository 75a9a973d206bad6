"""Inverses, determinants and linear equations of square matrices, computed on the CPU; leading dimensions are batches."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta.errors import ArgumentError, LinAlgError, RankError, ShapeError
from volta.ops.indexing import known_range
from volta.ops.records.copy import cast
from volta.ops.records.decomposition import by_columns, det_op, inv_op, matrix_exp_op, slogdet_op, solve_op, triangular_op
from volta.ops.records.linalg import turned
from volta.ops.records.math import exp, where_op
from volta.ops.records.view import permute_op, reshape_op
from volta.ops.table import Definite, Derived, case, composed
from volta.results import Result
from volta.shapes import as_dim, broadcast_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

DECLARED = {"rtol": 1e-4, "cpu_only": True}
MATRICES = (case(Definite((2, 3, 3))), case((0, 3, 3)), case((0, 0)))
_SINGULAR = "the matrix is singular: elimination finds 0 as pivot {}"


class InverseInfo(Result):
    """What `linalg.inv_ex` gives: the inverses, and per matrix 0 or the first pivot that is 0."""
    inverse: Tensor
    info: Tensor


class ResultInfo(Result):
    """What `linalg.solve_ex` gives: the solutions, and per matrix 0 or the first pivot that is 0."""
    result: Tensor
    info: Tensor


class SignLogabsdet(Result):
    """What `slogdet` gives: the signs of determinants, and the logarithms of their absolute values."""
    sign: Tensor
    logabsdet: Tensor


# ---------------------------------------------------------------- what is refused
def matrices(name: str, *tensors: Tensor) -> None:
    """Raise ShapeError for less than 2 dimensions."""
    for x in tensors:
        if x.ndim < 2:
            raise RankError(f"{name}: needs matrices, tensors of at least 2 dimensions, got shape {x.shape}")


def square(name: str, x: Tensor) -> None:
    """Raise ShapeError unless these are square matrices."""
    matrices(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"{name}: needs square matrices, got shape {x.shape}")


def succeeded(name: str, info: Tensor, reason: str) -> None:
    """Raise LinAlgError for the first matrix of which `info` is not 0."""
    if known_range(info) in (None, (0, 0)):             # of a GPU's nothing is known
        return
    codes = info.numpy()
    if codes.any():
        first = int(np.flatnonzero(codes)[0])
        raise LinAlgError(f"{name}: {f'(batch element {first}) ' if codes.ndim else ''}{reason.format(codes.flat[first])}")


# ---------------------------------------------------------------- inverses and determinants
@composed(samples=MATRICES, numpy=np.linalg.inv, aliases=("linalg.inv",), **DECLARED)
def inverse(input: Tensor) -> Tensor:
    """The inverse of a square matrix, on the CPU.

    Raises: LinAlgError for a singular one; ShapeError unless square.

    >>> volta.inverse(volta.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inv_ex(input, check_errors=True).inverse


@composed(name="linalg.inv_ex", function=False, method=False, samples=MATRICES, **DECLARED,
          numpy=lambda a: (np.linalg.inv(a), np.zeros(a.shape[:-2], np.int32)))
def inv_ex(A: Tensor, *, check_errors: bool = False) -> InverseInfo:
    """The inverse, and per matrix 0, or the first pivot that is 0 where there is none: it is not finite then, or raises with
    `check_errors`.

    >>> volta.linalg.inv_ex(volta.zeros(1, 1)).info
    tensor(1, dtype=volta.int32)
    """
    square("linalg.inv", A)
    out, info = inv_op(A)
    if check_errors:
        succeeded("linalg.inv", info, _SINGULAR)
    return InverseInfo(out, info)


@composed(samples=MATRICES, numpy=np.linalg.det, aliases=("linalg.det",), halves=None, **DECLARED)
def det(input: Tensor) -> Tensor:
    """The determinant of a square matrix, on the CPU.

    >>> volta.det(volta.tensor([[1.0, 2.0], [3.0, 4.0]])).item()
    -2.0
    """
    square("linalg.det", input)
    return det_op(input)[0]


@composed(name="linalg.slogdet", function=False, method=False, samples=MATRICES, numpy=lambda a: tuple(np.linalg.slogdet(a)), **DECLARED)
def linalg_slogdet(A: Tensor) -> SignLogabsdet:
    """`slogdet`.

    >>> volta.linalg.slogdet(volta.tensor([[-1.0]])).sign
    tensor(-1.)
    """
    square("linalg.slogdet", A)
    size, sign = slogdet_op(A)[:2]
    return SignLogabsdet(sign, size)


@composed(samples=MATRICES, numpy=lambda a: tuple(np.linalg.slogdet(a)), **DECLARED)
def slogdet(input: Tensor) -> SignLogabsdet:
    """The sign of the determinant of a square matrix, and the logarithm of its absolute value, on the CPU.

    >>> volta.slogdet(volta.tensor([[-1.0]]))
    volta.return_types.slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    return SignLogabsdet(*linalg_slogdet(input))


@composed(samples=MATRICES, numpy=lambda a: np.linalg.slogdet(a)[1], **DECLARED)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant of a square matrix, on the CPU; NaN where that is negative.

    >>> volta.logdet(volta.eye(2)).item()
    0.0
    """
    sign, size = slogdet(input)
    return where_op(sign < 0, math.nan, size)


@composed(samples=MATRICES, numpy=lambda a: (lambda w, v: v * np.exp(w)[..., None, :] @ np.swapaxes(v, -1, -2))(*np.linalg.eigh(a)),
          smooth=False, aliases=("linalg.matrix_exp",), halves=True, **DECLARED)
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of a square matrix, the sum of A ** k / k!, on the CPU.

    >>> volta.matrix_exp(volta.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.],
            [0., 1.]])
    """
    square("linalg.matrix_exp", input)
    return exp(input) if input.shape[-1] == 1 and input.dtype.is_floating_point else matrix_exp_op(input)


# ---------------------------------------------------------------- linear equations
def is_vector(A: Tensor, B: Tensor) -> bool:
    """Whether B is a right side, or a batch of them, without a dimension for columns."""
    return B.ndim == 1 or B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]


def fitting(name: str, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """A and B. Raise ShapeError unless the rows of both are equally many and their batches broadcast."""
    if B.ndim < 2 or A.shape[-2] != B.shape[-2]:
        raise ShapeError(f"{name}: A X = B with A {A.shape} needs B of {A.shape[-2]} rows, got {B.shape}")
    try:
        broadcast_shapes(A.shape[:-2], B.shape[:-2])
    except ValueError:
        raise ShapeError(f"{name}: the batches of {A.shape} and {B.shape} do not broadcast") from None
    return A, B


_EQUATIONS = (case(Definite((2, 3, 3)), (2, 3, 2)), case(Definite((1, 3, 3)), (4, 3, 2)), case(Definite((2, 3, 3)), (2, 3)))


def _np_solve(a, b, left=True):
    if not left:
        return b @ np.linalg.inv(a)
    return np.linalg.solve(a, b) if b.ndim == a.ndim else np.linalg.solve(a, b[..., None])[..., 0]


@composed(name="linalg.solve", function=False, method=False, samples=(*_EQUATIONS, case(Definite((2, 3, 3)), (2, 2, 3), left=False)),
          numpy=_np_solve, halves=None, **DECLARED)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X of A X = B, or of X A = B unless `left`, on the CPU. B may be one vector, or one per matrix.

    Raises: LinAlgError for a singular matrix; ShapeError where the sizes do not fit.

    >>> volta.linalg.solve(volta.tensor([[2.0, 0.0], [0.0, 4.0]]), volta.tensor([1.0, 1.0]))
    tensor([0.5000, 0.2500])
    """
    return solve_ex(A, B, left=left, check_errors=True).result


@composed(name="linalg.solve_ex", function=False, method=False, samples=_EQUATIONS, halves=None, **DECLARED,
          numpy=lambda a, b: (_np_solve(a, b), np.zeros(a.shape[:-2], np.int32)))
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> ResultInfo:
    """The solution of `solve`, and per matrix 0, or the first pivot that is 0: it is not finite then, or raises with `check_errors`.

    Raises: ShapeError where they do not fit, or for vectors with left=False; LinAlgError as above.

    >>> volta.linalg.solve_ex(volta.zeros(1, 1), volta.ones(1)).info
    tensor(1, dtype=volta.int32)
    """
    square("linalg.solve", A)
    vector = is_vector(A, B)
    if not left and (vector or not B.ndim):
        raise ShapeError(f"linalg.solve: left=False needs matrices B, got A {A.shape} and B {B.shape}")
    b = reshape_op(B, shape=B.shape + (1,)) if vector else B
    fitting("linalg.solve", A, b if left else turned(b))
    out, info, *_ = solve_op(A, b if left else turned(b), turn=not left)
    if check_errors:
        succeeded("linalg.solve", info, _SINGULAR)
    if vector:                                          # PyTorch lays batches of vectors out as if they were matrices
        out = reshape_op(out, shape=out.shape[:-1])
        return ResultInfo(by_columns(out) if out.ndim > 1 else out, info)
    return ResultInfo(out if left else turned(out), info)


def _np_solve_triangular(a, b, upper, left=True, unitriangular=False):
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        a = a + np.eye(a.shape[-1]) * (1 - a)
    return np.linalg.solve(a, b) if left else b @ np.linalg.inv(a)


@composed(name="linalg.solve_triangular", function=False, method=False, numpy=_np_solve_triangular, **DECLARED,
          samples=(case(Definite((2, 3, 3)), (2, 3, 2), upper=True), case(Definite((1, 3, 3)), (2, 3, 2), upper=False),
                   case(Definite((2, 3, 3)), (2, 2, 3), upper=False, left=False, unitriangular=True)))
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X of A X = B, or of X A = B unless `left`, where only the upper or the lower triangle of A is read, and with `unitriangular` its
    diagonal is taken for ones; on the CPU.

    >>> volta.linalg.solve_triangular(volta.tensor([[1.0, 0.0], [1.0, 2.0]]), volta.ones(2, 1), upper=False).tolist()
    [[1.0], [0.0]]
    """
    a, b = A._shape, B._shape
    if A.dtype is B.dtype and len(a) > 1 and a[-2] == a[-1] == b[-2 if left else -1:][0] and a[:-2] == b[:-2] and len(b) == len(a):
        return triangular_op(A, B, upper=upper, unitriangular=unitriangular, left=left)
    square("linalg.solve_triangular", A)
    matrices("linalg.solve_triangular", B)
    B = cast(B, A.dtype)                                    # of any dtype, as in PyTorch
    if left:
        return triangular_op(*fitting("linalg.solve_triangular", A, B), upper=upper, unitriangular=unitriangular, left=True)
    fitting("linalg.solve_triangular", turned(A), turned(B))
    return triangular_op(A, B, upper=upper, unitriangular=unitriangular, left=False)


# ---------------------------------------------------------------- of more dimensions
@composed(out="cast", name="linalg.tensorinv", function=False, method=False, numpy=np.linalg.tensorinv,
          samples=(case(Derived(lambda: np.eye(6).reshape(2, 3, 6) + 0.1)), case(Derived(lambda: np.eye(4).reshape(4, 2, 2) + 0.1), ind=1)),
          **DECLARED)
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a map from its dimensions after the first `ind` to those, on the CPU.

    Raises: ShapeError where the two have different numbers of elements; ArgumentError for `ind` below 1.

    >>> volta.linalg.tensorinv(volta.eye(4).reshape(4, 2, 2), ind=1).shape
    volta.Size([2, 2, 4])
    """
    if ind < 1:
        raise ShapeError(f"linalg.tensorinv: ind must be at least 1, got {ind}")
    if ind > A.ndim:
        raise ShapeError(f"linalg.tensorinv: ind must be at most {A.ndim}, the dimensions of {A.shape}, got {ind}")
    rows, columns = A.shape[:ind], A.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ShapeError(f"linalg.tensorinv: the first {ind} dimensions of {A.shape} must have as many elements as the others")
    return reshape_op(inverse(reshape_op(A, shape=(math.prod(rows), math.prod(columns)))), shape=columns + rows)


@composed(out="cast", name="linalg.tensorsolve", function=False, method=False, numpy=lambda a, b,
          dims=None: np.linalg.tensorsolve(a, b, dims),
          samples=(case(Derived(lambda: np.eye(6).reshape(2, 3, 6) + 0.1), (2, 3)),), **DECLARED)
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X of tensordot(A, X, X.ndim) = B, on the CPU; the dimensions `dims` of A are moved to its end first.

    Raises: ShapeError where A does not map to B; ArgumentError for a dimension that `dims` names twice.

    >>> volta.linalg.tensorsolve(volta.eye(4).reshape(2, 2, 4), volta.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    if dims is not None:
        last = [as_dim("linalg.tensorsolve", d, A.ndim) for d in dims]
        if len(set(last)) != len(last):
            raise ArgumentError(f"linalg.tensorsolve: dims must name each dimension once, got {tuple(dims)}")
        A = permute_op(A, dims=(*[d for d in range(A.ndim) if d not in last], *last))
    shape, n = A.shape[B.ndim:], B._size
    if math.prod(shape) != n or A._size != n * n:
        raise ShapeError(f"linalg.tensorsolve: A {A.shape} does not map to B {B.shape}: as many elements are needed before and after "
                         f"the first {B.ndim} dimensions")
    return reshape_op(solve(reshape_op(A, shape=(n, n)), reshape_op(B, shape=(n,))), shape=shape)
