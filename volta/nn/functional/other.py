"""`linear`, `bilinear` and one-hot rows."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import bool_
from volta.errors import DTypeError, RankError, ShapeError
from volta.ops import indexing
from volta.ops.linalg import matmul
from volta.ops.records.linalg import linear_op
from volta.ops.records.view import permute_op, reshape_op
from volta.ops.table import Labels, case, composed
from volta.shapes import broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["bilinear", "linear", "one_hot"]


@composed(samples=(case((2, 3, 4), (5, 4), (5,)), case((3, 4), (2, 4)), case((4,), (2, 4), (2,)), case((3, 4), (2, 4), (3, 1)),
                   case((3, 4), (4,), ())), rtol=1e-4, kinds="fi", function=False, method=False,
          numpy=lambda x, weight, bias=None: x @ weight.T + (0 if bias is None else bias),
          takes={"input": "fib", "weight": "=input", "bias": "=input?"})
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias over the last dimension.

    Shape: (..., in) with weight (out, in) and bias (out,), or one that broadcasts to the result, -> (..., out); with weight (in,) and
    bias () -> (...).
    Raises: ShapeError where they do not fit; DTypeError for bool.

    >>> volta.nn.functional.linear(volta.ones(1, 3), volta.ones(2, 3), volta.tensor([0.0, 1.0]))
    tensor([[3., 4.]])
    """
    if input.ndim == weight.ndim == 2 and input.dtype.is_floating_point and input.shape[1] == weight.shape[1] and (
            bias is None or bias.shape == weight.shape[:1]):
        return linear_op(input, weight, bias)
    if input.dtype is bool_ and (weight.ndim == 1 or input._size and weight._size):         # of nothing there is a product
        raise DTypeError("linear: input must be floating point or integer, got bool; convert it with .float()")
    if weight.ndim == 1 and (bias is None or bias.ndim == 0):
        out = matmul(input, weight)
        return out if bias is None else out + bias
    if weight.ndim != 2 or input.ndim < 1 or input.shape[-1] != weight.shape[1]:
        raise ShapeError(f"linear: input {input.shape} does not fit weight {weight.shape}: the last size of the input must be "
                         f"{weight.shape[1] if weight.ndim == 2 else 'that of a (out, in) matrix'}")
    if bias is not None and bias.shape != weight.shape[:1]:
        shape = input.shape[:-1] + weight.shape[:1]
        if not broadcasts_to(bias.shape, shape):
            raise ShapeError(f"linear: bias must have shape {weight.shape[:1]}, or one that broadcasts to {shape}, got {bias.shape}")
        return linear(input, weight) + bias
    if not input.dtype.is_floating_point:
        out = matmul(input, permute_op(weight, dims=(1, 0)))
        return out if bias is None else out + bias
    out = linear_op(reshape_op(input, shape=(math.prod(input.shape[:-1]), input.shape[-1])), weight, bias)
    return reshape_op(out, shape=input.shape[:-1] + weight.shape[:1])


@composed(samples=(case((2, 3, 4), (2, 3, 5), (2, 4, 5), (2,)), case((4,), (3,), (2, 4, 3), None)), rtol=1e-4, kinds="fi", method=False,
          numpy=lambda x, y, weight, bias: np.einsum("...n,onm,...m->...o", x, weight, y) + (0 if bias is None else bias),
          takes={"input1": "fi", "input2": "=input1", "weight": "=input1", "bias": "=input1?"})
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 @ weight[o] @ input2 + bias[o] for every output o, over the last dimensions.

    Shape: (..., n), (..., m), weight (out, n, m), bias (out,) -> (..., out).
    Raises: ShapeError where they do not fit.

    >>> volta.bilinear(volta.ones(1, 2), volta.ones(1, 3), volta.ones(1, 2, 3))
    tensor([[6.]])
    """
    if weight.ndim != 3 or not input1.ndim or not input2.ndim or input1.shape[:-1] != input2.shape[:-1] or (
            input1.shape[-1], input2.shape[-1]) != weight.shape[1:]:
        raise RankError(f"bilinear: inputs {input1.shape} and {input2.shape} do not fit weight {weight.shape}: needed are (..., n), "
                         "(..., m) and (out, n, m)")
    outputs, n, m = weight.shape
    if bias is not None and bias.shape != (outputs,):
        raise ShapeError(f"bilinear: bias must have shape {(outputs,)}, got {bias.shape}")
    rows = math.prod(input1.shape[:-1])
    left = matmul(reshape_op(input1, shape=(rows, n)), reshape_op(permute_op(weight, dims=(1, 0, 2)), shape=(n, outputs * m)))
    out = matmul(reshape_op(left, shape=(rows, outputs, m)), reshape_op(input2, shape=(rows, m, 1)))
    out = reshape_op(out, shape=(*input1.shape[:-1], outputs))
    return out if bias is None else out + bias


@composed(name="functional.one_hot", samples=(case(Labels((4,), 3), 3), case(Labels((2, 3), 5), num_classes=6)), kinds="i",
          numpy=lambda x, num_classes: np.eye(num_classes, dtype=np.int64)[x], function=False, method=False)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 rows with a 1 at each label; num_classes -1 takes the largest label + 1, which reads the tensor.

    >>> volta.nn.functional.one_hot(volta.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    return indexing.one_hot(tensor, num_classes)
