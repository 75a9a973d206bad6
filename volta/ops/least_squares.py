"""Linear equations of any shape, solved in the least square, on the CPU; leading dimensions are batches."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph
from volta.dtypes import int64, to_numpy
from volta.errors import ArgumentError, LinAlgError, ShapeError
from volta.ops.creation import full, new_empty
from volta.ops.decomposition import matrix_rank, pinv, svdvals, tolerances
from volta.ops.inverse import DECLARED, is_vector, succeeded
from volta.ops.join import cat
from volta.ops.linalg import matmul
from volta.ops.records.copy import from_array
from volta.ops.records.decomposition import by_columns, leading, qr_op, solve_again_op, solve_op, triangular_op
from volta.ops.records.factor import least_op
from volta.ops.records.linalg import turned
from volta.ops.records.math import where_op
from volta.ops.records.view import expand_op, part, reshape_op
from volta.ops.reduce import sum
from volta.ops.table import case, composed
from volta.results import Result

if TYPE_CHECKING:
    from volta.tensor import Tensor


class LeastSquares(Result):
    """What `linalg.lstsq` gives; a tensor that the driver does not compute has no elements."""
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


FEW = 0.25                          # of the matrices of a batch, whose singular values are looked for apart
CERTAIN = 0.5                       # of a tolerance times a bound of the condition, up to which no singular value counts as 0


def _full_rank(a):
    """Raise LinAlgError for a matrix of which a reflection leaves 0 on the diagonal, as LAPACK's gels finds it."""
    if not a.size:
        return
    rows, columns = a.shape[-2:]
    tall = a if rows >= columns else np.swapaxes(a, -1, -2)
    endless = np.isinf(tall)
    tall = np.where(endless, np.nan, np.where(endless.any((-2, -1), keepdims=True), 0, tall)).astype(a.dtype)      # scaled by the largest
    with np.errstate(all="ignore"):
        sizes = np.abs(np.diagonal(np.linalg.qr(tall, "r"), axis1=-2, axis2=-1))
        low = (sizes <= 2 * np.finfo(a.dtype).eps * np.linalg.norm(tall, axis=-2)) | (sizes == 0)
    info = from_array(np.where(low.any(-1), low.argmax(-1) + 1, 0).astype(np.int32))
    succeeded("linalg.lstsq", info, "driver='gels' needs a matrix of full rank, and element {} of its triangle is 0; take another driver")


def _norm(x):
    return np.vdot(x, x) ** 0.5 if x.ndim == 2 else np.linalg.norm(x, axis=(-2, -1))


def _quick(A, b, rtol, driver):
    """(X, the ranks) by reflections from one kernel, X in memory as `_as_it_lies` leaves it, where no derivative is wanted, and by singular
    values for a few matrices of a batch; None as `_certain`."""
    if not isinstance(rtol, float) or A.shape[-2] < A.shape[-1] or A.shape[:-2] != b.shape[:-2] or not (A._size and b._size):
        return None
    if not (core.host_sees(A) and core.host_sees(b)) or graph.wants_derivative(A) or graph.wants_derivative(b) or A.dtype is not b.dtype:
        return None
    X, bounds = least_op(A, b, rtol=rtol)
    X = X if A.shape[-2] == A.shape[-1] else leading(X, -2, A.shape[-1])
    rank = full(A._shape[:-2], A._shape[-1], dtype=int64, device=A.device)
    if A.ndim == 2 and bounds.item() * rtol < CERTAIN:
        return X, rank
    doubtful = ~(bounds.numpy() * rtol < CERTAIN)
    if doubtful.any():
        if doubtful.mean() > FEW:
            return None
        some, right = (from_array(np.ascontiguousarray(x.detach().numpy()[doubtful])) for x in (A, b))
        try:
            X.numpy()[doubtful] = _solution(some, right, 0.0 if driver == "gels" else rtol, driver).numpy()
        except LinAlgError:                     # whose text names a matrix of the whole batch
            return None
        if driver != "gels":
            rank.numpy()[doubtful] = matrix_rank(some, rtol=rtol).numpy()
    return X, rank


def _certain(A, b, rtol):
    """X by elimination or reflections where a bound of the condition of A shows that no singular value counts as 0; else None."""
    if not (isinstance(rtol, float) and A._size and b._size and core.host_sees(A) and core.host_sees(b)):
        return None
    rows, columns = A.shape[-2:]
    one = from_array(np.eye(min(rows, columns), dtype=to_numpy(A.dtype)))
    if rows == columns:
        X, info, lu, pivots = solve_op(A, b, turn=False)
        if info.numpy().any():
            return None
        whole, inverse = A, solve_again_op(A.detach(), expand_op(one, shape=A.shape), lu, pivots, turn=False)
    else:
        Q, R = qr_op(A if rows > columns else turned(A), mode="reduced")
        if not np.diagonal(R.detach().numpy(), axis1=-2, axis2=-1).all():
            return None
        whole, inverse = R, triangular_op(R.detach(), one, upper=True, unitriangular=False, left=True)
        if rows > columns:
            X = triangular_op(R, matmul(turned(Q), b), upper=True, unitriangular=False, left=True)
        else:
            X = matmul(Q, triangular_op(turned(R), b, upper=False, unitriangular=False, left=True))
    bound = _norm(whole.detach().numpy()) * _norm(inverse.numpy())
    return X if np.all(bound * rtol < CERTAIN) and np.isfinite(X.detach().numpy()).all() else None


def _solution(A, b, rtol, driver):
    """X by the pseudo-inverse: NaN for matrices whose b is infinite somewhere, as LAPACK scales by the largest."""
    endless = None
    if core.host_sees(A) and core.host_sees(b):
        a, right = A.detach().numpy(), b.detach().numpy()
        if np.isnan(a).any() or np.isnan(right).any() or driver == "gelsd" and np.isinf(a).any():
            raise LinAlgError("linalg.lstsq: needs matrices without NaN, and for driver='gelsd' finite ones; see isfinite()")
        if driver == "gels":
            _full_rank(a)
        if np.isinf(right).any():
            endless = from_array(np.isinf(right).any((-2, -1), keepdims=True))
    X = matmul(pinv(A, rtol=rtol), b)
    return X if endless is None else X + where_op(endless, float("nan"), X.detach() * 0.0)


def _as_it_lies(X, rows):
    """X in the memory of B, whose columns it overwrites in LAPACK: of as many elements as A has rows or columns."""
    if rows > X.shape[-2]:
        below = X.new_zeros((*X.shape[:-2], rows - X.shape[-2], X.shape[-1]))
        return leading(by_columns(cat([X, below], -2)), -2, X.shape[-2])
    return by_columns(X)


_DRIVERS = (None, "gels", "gelsy", "gelsd", "gelss")


@composed(out="cast", name="linalg.lstsq", function=False, method=False, **DECLARED,
          samples=(case((4, 2), (4, 3)), case((2, 4, 2), (2, 4, 1)), case((2, 2, 4), (2, 2, 1))),
          numpy=lambda a, b: (np.linalg.pinv(a) @ b, np.zeros(0), np.linalg.matrix_rank(a), np.zeros(0)))
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """The X of least |A X - B|, and of these the least X, by singular values, on the CPU. Those up to `rcond` times the largest count as 0.
    As in PyTorch `driver` decides what is given besides: the rank ("gelsy", the default), and the singular values and, of more rows than
    columns and full rank, the sums of squares of what remains ("gelsd", "gelss"); "gels" gives that alone and takes the rank for full.

    Raises: LinAlgError for NaN, and with "gels" for a matrix whose rank is not full; ShapeError where they do not fit; ArgumentError for
    another `driver`.

    >>> volta.linalg.lstsq(volta.tensor([[1.0], [1.0]]), volta.tensor([[1.0], [3.0]])).rank.item()
    1
    """
    if driver not in _DRIVERS:
        raise ArgumentError(f"linalg.lstsq: driver must be one of {_DRIVERS}, got {driver!r}")
    _, rtol = tolerances("linalg.lstsq", A, None, rcond)
    vector = is_vector(A, B)
    b = reshape_op(B, shape=B.shape + (1,)) if vector else B
    if b.ndim != A.ndim or A.shape[-2] != b.shape[-2]:
        raise ShapeError(f"linalg.lstsq: A X = B with A {A.shape} needs B of {A.shape[-2]} rows, got {B.shape}")
    none, tall = new_empty(A, (0,)), A.shape[-2] > A.shape[-1]
    quick = _quick(A, b, rtol, driver) if driver in (None, "gelsy", "gels") else None
    X = quick and quick[0]
    if X is None and driver in (None, "gelsy", "gels"):
        X = _certain(A, b, rtol)
    certain = X is not None
    if not certain:
        X = _solution(A, b, 0.0 if driver == "gels" else rtol, driver)
    values = none if driver in (None, "gelsy", "gels") else svdvals(A.detach())
    if driver == "gels":
        rank = none.to(int64)
    else:
        whole = A.new_full(A.shape[:-2], min(A.shape[-2:]), dtype=int64) if certain and not quick else None
        rank = quick[1] if quick else matrix_rank(A.detach(), rtol=rtol) if whole is None else whole
    if quick:
        residuals = core.view(none, (0,), (1,), 0)
    else:
        residuals = reshape_op(part(X, X.ndim - 1, 0, 0), shape=(0,))       # of none, too, there is a gradient
    if tall and driver not in (None, "gelsy") and (driver == "gels" or not (rank < A.shape[-1]).any().item()):
        rest = matmul(A, X) - b
        residuals = sum(rest * rest, -2)
        if driver == "gels" and not A.shape[-1]:        # as LAPACK leaves it, which has nothing to do then
            residuals = residuals - residuals.detach()
    X = X if quick is not None else _as_it_lies(X, A.shape[-2])
    return LeastSquares(reshape_op(X, shape=X.shape[:-1]) if vector else X, residuals, rank, values)
