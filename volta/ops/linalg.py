"""Matrix products: `matmul` in 1-D, 2-D and batched forms, and what is composed of it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta.errors import ShapeError
from volta.ops.elementwise import where
from volta.ops.movement import _reshape, in_float32
from volta.ops.operands import numbers, same_dtype
from volta.ops.records.linalg import matmul_op
from volta.shapes import broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product. 1-D operands are a row on the left and a column on the right; leading dimensions are batches and broadcast.

    Shape: (..., m, k) @ (..., k, n) -> (..., m, n).
    Raises: ShapeError where the inner sizes or the batches do not fit; DTypeError for different dtypes.
    """
    a, b = input.shape, other.shape
    if not a or not b:
        raise ShapeError(f"matmul: both operands need at least 1 dimension, got {a} @ {b}; use * for a scalar")
    if a[-1] != b[-2 if len(b) > 1 else 0]:
        raise ShapeError(f"matmul: inner sizes differ, got {a} @ {b}")
    if input.dtype is not other.dtype or input.dtype.code == 0:
        same_dtype("matmul", input.dtype, other=other)
        numbers("matmul", input=input)
    if len(a) == 2 and len(b) == 2:
        return matmul_op(input, other)
    if len(a) == 1:
        out = matmul(_reshape(input, shape=(1,) + a), other)
        return _reshape(out, shape=out.shape[:-2] + out.shape[-1:] if len(b) > 1 else ())
    if len(b) == 1:
        out = matmul(input, _reshape(other, shape=b + (1,)))
        return _reshape(out, shape=out.shape[:-1])
    if len(b) == 2:
        rows = 1
        for s in a[:-1]:
            rows *= s
        return _reshape(matmul_op(_reshape(input, shape=(rows, a[-1])), other), shape=a[:-1] + b[-1:])
    for i in range(1, min(len(a), len(b)) - 1):
        if a[-2 - i] != b[-2 - i] and 1 not in (a[-2 - i], b[-2 - i]):
            raise ShapeError(f"matmul: batch sizes do not broadcast, got {a} @ {b}")
    return matmul_op(input, other)


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices."""
    if input.ndim != 2 or mat2.ndim != 2:
        raise ShapeError(f"mm: needs two matrices, got {input.shape} @ {mat2.shape}")
    return matmul(input, mat2)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise ShapeError(f"mv: needs a matrix and a vector, got {input.shape} @ {vec.shape}")
    return matmul(input, vec)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two batches of matrices: (b, m, k) @ (b, k, n)."""
    if input.ndim != 3 or mat2.ndim != 3 or input.shape[0] != mat2.shape[0]:
        raise ShapeError(f"bmm: needs (b, m, k) @ (b, k, n), got {input.shape} @ {mat2.shape}")
    return matmul(input, mat2)


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Inner product of two vectors."""
    if input.ndim != 1 or tensor.ndim != 1:
        raise ShapeError(f"dot: needs two vectors, got {input.shape} and {tensor.shape}")
    return matmul(input, tensor)


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Outer product of two vectors."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise ShapeError(f"outer: needs two vectors, got {input.shape} and {vec2.shape}")
    return _reshape(input, shape=(input._size, 1)) * _reshape(vec2, shape=(1, vec2._size))


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2). Of integers the factors are cut to integers; beta 0 ignores `input`, NaN or not.

    Raises: DTypeError for different dtypes; ShapeError where `input` does not broadcast to the product.
    """
    return _added("addmm", mm, input, mat1, mat2, beta, alpha)


def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), of batches of matrices, with the rules of `addmm`."""
    return _added("baddbmm", bmm, input, batch1, batch2, beta, alpha)


def _added(name, product, input, a, b, beta, alpha):
    same_dtype(name, a.dtype, **{"mat2" if a.ndim == 2 else "batch2": b, "input": input})
    if not a.dtype.is_floating_point:
        beta, alpha = int(beta), int(alpha)
    return _sum(a, b, input, name, product, beta, alpha)


@in_float32
def _sum(a, b, input, name, product, beta, alpha):
    out = product(a, b)
    if not broadcasts_to(input.shape, out.shape):
        raise ShapeError(f"{name}: input {input.shape} does not broadcast to the product's shape {out.shape}")
    input = input if beta == 1 else input * beta if beta else where(input < input, input, 0)    # zeros, of NaN as well, in the graph
    return (out if alpha == 1 else out * alpha) + input
