"""Factors of symmetric matrices that need not be definite, on the CPU; leading dimensions are batches. Backward of
them raises, as in PyTorch."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta.dtypes import int32
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.inverse import matrices, square, succeeded
from volta.ops.records.factor import ldl_op, ldl_solve_op
from volta.ops.table import bridged, composed
from volta.results import Result

if TYPE_CHECKING:
    from volta.tensor import Tensor

_SYMMETRIC = {"function": False, "method": False, "cpu_only": True, "halves": None,
              "untested": "tests/test_linalg.py: it has no derivative"}


class LDLFactors(Result):
    """What `linalg.ldl_factor` gives: the packed factors, and the exchanges of rows, as LAPACK's sytrf."""
    LD: Tensor
    pivots: Tensor


class LDLInfo(Result):
    """What `linalg.ldl_factor_ex` gives: `LDLFactors`, and per matrix 0 or the first block of D that is 0."""
    LD: Tensor
    pivots: Tensor
    info: Tensor


@composed(name="linalg.ldl_factor_ex", **_SYMMETRIC)
def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLInfo:
    """The factors of `linalg.ldl_factor`, and per matrix 0, or the first block of D that is 0: raises for that with `check_errors`.
    Matrices are real, so `hermitian` says nothing that symmetric does not.

    >>> volta.linalg.ldl_factor_ex(volta.zeros(1, 1)).info
    tensor(1, dtype=volta.int32)
    """
    square("linalg.ldl_factor", A)
    found = LDLInfo(*ldl_op(A))
    if check_errors:
        succeeded("linalg.ldl_factor", found.info, "D has 0 as block {}, by which ldl_solve would divide")
    return found


@composed(name="linalg.ldl_factor", **_SYMMETRIC)
def ldl_factor(A: Tensor, *, hermitian: bool = False) -> LDLFactors:
    """L and D of A = L D L' with rows exchanged, D of blocks of 1 or 2 on the diagonal, for a symmetric matrix of which the lower triangle
    is read; on the CPU.

    Raises: LinAlgError where D has a 0.

    >>> volta.linalg.ldl_factor(volta.tensor([[0.0, 1.0], [1.0, 0.0]])).pivots.tolist()
    [-2, -2]
    """
    return LDLFactors(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


@composed(name="linalg.ldl_solve", **_SYMMETRIC)
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X of A X = B, for the A of `linalg.ldl_factor`; on the CPU.

    Raises: DTypeError unless the pivots are int32; ShapeError where they or B do not fit; ArgumentError for pivots outside of LD.

    >>> volta.linalg.ldl_solve(*volta.linalg.ldl_factor(volta.tensor([[2.0]])), volta.ones(1, 1))
    tensor([[0.5000]])
    """
    square("linalg.ldl_solve", LD)
    matrices("linalg.ldl_solve", B)
    n = LD.shape[-1]
    if pivots.dtype is not int32:
        raise DTypeError(f"linalg.ldl_solve: pivots must be int32, as ldl_factor gives them, got {pivots.dtype.name}; convert them with "
                         ".int()")
    if pivots.shape != LD.shape[:-1] or B.shape[-2] != n:
        raise ShapeError(f"linalg.ldl_solve: LD {LD.shape} needs pivots of {LD.shape[:-1]} and B of {n} rows, got {pivots.shape} and "
                         f"{B.shape}")
    if LD.device.is_gpu:
        bridged("linalg.ldl_solve")
    rows = abs(pivots.numpy())
    if rows.size and (rows.min() < 1 or rows.max() > n):
        raise ArgumentError(f"linalg.ldl_solve: pivots must be between 1 and the {n} rows, as ldl_factor gives them, negative or not")
    return ldl_solve_op(LD, pivots, B)
