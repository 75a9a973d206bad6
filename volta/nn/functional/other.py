"""`linear`, dropout and one-hot rows."""
from __future__ import annotations

from volta.errors import ShapeError
from volta.ops import creation, indexing
from volta.ops.linalg import matmul
from volta.ops.movement import _reshape, transpose
from volta.ops.operands import same_dtype
from volta.ops.records.linalg import linear_op
from volta.tensor import Tensor, replace


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
        return linear_op(input, weight, bias)
    rows = 1
    for s in input.shape[:-1]:
        rows *= s
    out = linear_op(_reshape(input, shape=(rows, input.shape[-1])), weight, bias)
    return _reshape(out, shape=input.shape[:-1] + weight.shape[:1])


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p), in training."""
    return replace(input, creation.dropout, p, training) if inplace else creation.dropout(input, p, training)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 rows with a 1 at each label; num_classes -1 takes the largest label + 1, which reads the tensor."""
    return indexing.one_hot(tensor, int(tensor.max()) + 1 if num_classes == -1 else num_classes)
