"""Matrix products: `matmul` in 1-D, 2-D and batched forms, and `linear` with its bias."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import float16, float32
from volta.errors import ShapeError
from volta.ops.elementwise import where
from volta.ops.movement import _reshape, cast, in_float32, sum_to, transpose
from volta.ops.operands import numbers, same_dtype
from volta.ops.reduce import sum_primitive
from volta.ops.table import case, register
from volta.shapes import broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor



def _batch_sum(a, b, shape):
    """a @ b, summed down to `shape` where that was broadcast: in float32, since a float16 would be rounded before the sum."""
    if a.dtype is not float16 or max(a.ndim, b.ndim) == len(shape) and a.shape[:-2] == b.shape[:-2] == shape[:-2]:
        return matmul_primitive(a, b)
    return cast(sum_to(matmul_primitive(cast(a, float32), cast(b, float32)), shape), float16)


matmul_primitive = register(
    "matmul", ("a", "b"), family="linalg", numpy=np.matmul, kinds="fi", rtol=1e-4,
    vjp=(lambda g, b, a_shape: _batch_sum(g, transpose(b, -1, -2), a_shape),
         lambda g, a, b_shape: _batch_sum(transpose(a, -1, -2), g, b_shape)),
    cases=(case((3, 4), (4, 5)), case((2, 3, 4), (2, 4, 5)), case((2, 1, 3, 4), (5, 4, 2)), case((1, 1), (1, 1)), case((0, 3), (3, 2)),
           case((2, 0), (0, 3)), case((33, 65), (65, 17)), case((1, 70), (70, 5))))
linear_primitive = register(
    "linear", ("x", "weight", "bias"), family="linalg", rtol=1e-4,
    numpy=lambda x, weight, bias: x @ weight.T + (0 if bias is None else bias),
    vjp=(lambda g, weight: matmul_primitive(g, weight), lambda g, x: matmul_primitive(transpose(g, 0, 1), x),
         lambda g: sum_primitive(g, dim=(0,), keepdim=False)),
    cases=(case((3, 4), (5, 4), (5,)), case((3, 4), (5, 4), None), case((0, 4), (2, 4), (2,)), case((40, 33), (18, 33), (18,))))


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
        return matmul_primitive(input, other)
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
        return _reshape(matmul_primitive(_reshape(input, shape=(rows, a[-1])), other), shape=a[:-1] + b[-1:])
    for i in range(1, min(len(a), len(b)) - 1):
        if a[-2 - i] != b[-2 - i] and 1 not in (a[-2 - i], b[-2 - i]):
            raise ShapeError(f"matmul: batch sizes do not broadcast, got {a} @ {b}")
    return matmul_primitive(input, other)


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


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias over the last dimension.

    Shape: (..., in) with weight (out, in) and bias (out,) -> (..., out); with weight (in,) and bias () -> (...).
    Raises: ShapeError where they do not fit.
    """
    if weight.dtype is not input.dtype or bias is not None and bias.dtype is not input.dtype:
        same_dtype("linear", input.dtype, weight=weight, bias=bias)
    if weight.ndim == 1 and (bias is None or bias.ndim == 0):
        out = matmul(input, weight)
        return out if bias is None else out + bias
    if weight.ndim != 2 or input.ndim < 1 or input.shape[-1] != weight.shape[1]:
        raise ShapeError(f"linear: input {input.shape} does not fit weight {weight.shape}: the last size of the input must be "
                         f"{weight.shape[1] if weight.ndim == 2 else 'that of a (out, in) matrix'}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(f"linear: bias must have shape {weight.shape[:1]}, got {bias.shape}")
    if not input.dtype.is_floating_point:
        out = matmul(input, transpose(weight, 0, 1))
        return out if bias is None else out + bias
    if input.ndim == 2:
        return linear_primitive(input, weight, bias)
    rows = 1
    for s in input.shape[:-1]:
        rows *= s
    out = linear_primitive(_reshape(input, shape=(rows, input.shape[-1])), weight, bias)
    return _reshape(out, shape=input.shape[:-1] + weight.shape[:1])


