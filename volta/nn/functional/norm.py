"""Batch normalisation, and the normalisations composed of simpler ops."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta._kernels import core
from volta._kernels.core.call import run_kernel
from volta.autograd import no_grad
from volta.dtypes import float16, float32
from volta.errors import ArgumentError, ShapeError
from volta.ops.creation import full
from volta.ops.elementwise import maximum, mulacc, reciprocal, rsqrt
from volta.ops.movement import cast, in_float32
from volta.ops.operands import floating, same_device, same_dtype
from volta.ops.records.norm import batch_norm_op, batch_norm_update, column
from volta.ops.records.reduce import mean_op
from volta.ops.reduce import norm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor


@in_float32
def _normalised(input, mean, var, weight, bias, eps):
    """Batch normalisation by given statistics."""
    scale = rsqrt(var + eps)
    scale = scale if weight is None else scale * weight
    shift = -mean * scale
    shift = shift if bias is None else shift + bias
    return mulacc(input, column(scale, input.ndim), column(shift, input.ndim))


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float | Tensor = 0.1, eps: float = 1e-05) -> Tensor:
    """Normalise each channel over the batch (training) or by the running statistics, then scale and shift.

    In training the running statistics, where given, move by `momentum` (a number, or a 0-d tensor on their device) towards the
    batch's mean and unbiased variance.

    Shape: (N, C, ...) with vectors (C,) -> the same.
    Raises: ShapeError, DTypeError, ArgumentError where the arguments do not fit.
    Source: Ioffe and Szegedy 2015, algorithm 1.
    """
    if input.ndim < 2:
        raise ShapeError(f"batch_norm: needs an input (N, C, ...), got {input.shape}")
    if not eps > 0 and (training or not eps >= 0):
        raise ArgumentError(f"batch_norm: eps must be {'above' if training else 'at least'} 0{' in training' * training}, got {eps}")
    floating("batch_norm", input=input)
    same_dtype("batch_norm", input.dtype, weight=weight, bias=bias)
    statistics = {"running_mean": running_mean, "running_var": running_var}
    same_dtype("batch_norm", input.dtype, *([float32] if input.dtype is float16 else []), **statistics)
    same_device("batch_norm", input, **statistics)
    channels = (input.shape[1],)
    for name, v in (*statistics.items(), ("weight", weight), ("bias", bias)):
        if v is not None and v.shape != channels:
            raise ShapeError(f"batch_norm: {name} must have shape {channels} for input {input.shape}, got {v.shape}")
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("batch_norm: give both running_mean and running_var, or neither")
    if not training:
        if running_mean is None:
            raise ArgumentError("batch_norm: evaluation needs running_mean and running_var; pass them or training=True")
        return _normalised(input, running_mean, running_var, weight, bias, eps)
    if not input._size:                         # nothing to normalise and nothing to move the statistics by
        return _normalised(input, *[full(channels, v, dtype=input.dtype, device=input.device) for v in (0.0, 1.0)], weight, bias, eps)
    count = input._size // input.shape[1]
    if count < 2:
        raise ShapeError(f"batch_norm: training needs more than one value per channel, got input {input.shape}")
    out, mean, rstd = batch_norm_op(input, weight, bias, eps=float(eps))
    if isinstance(momentum, core.TensorBase) and running_mean is not None:
        _move(running_mean, running_var, mean.detach(), rstd.detach(), momentum, float(eps), count)
    elif running_mean is not None:
        run_kernel(batch_norm_update, input.device, (running_mean, running_var, mean, rstd),
                   {"momentum": float(momentum), "eps": float(eps), "count": count})
    return out


@no_grad
def _move(running_mean, running_var, mean, rstd, momentum, eps, count):
    """`batch_norm_update` with a momentum that is a tensor."""
    momentum = cast(momentum, running_mean.dtype)
    var = (reciprocal(rstd * rstd) - eps) * (count / (count - 1))
    running_mean.add_((mean - running_mean) * momentum)
    running_var.add_((var - running_var) * momentum)


@in_float32
def layer_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05) -> Tensor:
    """Normalise over the trailing dimensions `normalized_shape`, then scale and shift. Source: Ba et al. 2016, eq. 4."""
    floating("layer_norm", input=input)
    shape = (normalized_shape,) if hasattr(normalized_shape, "__index__") else tuple(normalized_shape)
    if not shape or input.shape[-len(shape):] != shape:
        raise ShapeError(f"layer_norm: input {input.shape} does not end with normalized_shape {shape}")
    same_dtype("layer_norm", input.dtype, weight=weight, bias=bias)
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    centred = input - mean_op(input, dim=dims, keepdim=True)
    out = centred * rsqrt(mean_op(centred * centred, dim=dims, keepdim=True) + eps)
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None and v.shape != shape:
            raise ShapeError(f"layer_norm: {name} must have shape {shape}, got {v.shape}")
    if weight is None:
        return out if bias is None else out + bias
    return out * weight if bias is None else mulacc(out, weight, bias)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """input / max(norm, eps) along `dim`."""
    return input / maximum(norm(input, p, dim, keepdim=True), eps)
