"""Batch normalisation, and the normalisations composed of simpler ops."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core.call import run_kernel
from volta.autograd import no_grad
from volta.dtypes import float16
from volta.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from volta.ops.copy import widened
from volta.ops.creation import full
from volta.ops.norms import norm
from volta.ops.records.copy import cast
from volta.ops.records.math import maximum, mulacc, reciprocal, rsqrt
from volta.ops.records.norm import batch_norm_op, batch_norm_update, column, np_batch_norm
from volta.ops.records.reduce import mean_op
from volta.ops.table import case, composed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["batch_norm", "layer_norm", "normalize"]


def _normalised(input, mean, var, weight, bias, eps):
    """Batch normalisation by given statistics."""
    if input.dtype is float16:
        return widened(_normalised, (input, mean, var, weight, bias, eps), {})
    scale = rsqrt(var + eps)
    scale = scale if weight is None else scale * weight
    shift = -mean * scale
    shift = shift if bias is None else shift + bias
    return mulacc(input, column(scale, input.ndim), column(shift, input.ndim))


def _np_batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False):
    if training:
        return np_batch_norm(x, weight, bias, 1e-5)[0]
    mean, var, weight, bias = (v.reshape((1, -1) + (1,) * (x.ndim - 2)) for v in (running_mean, running_var, weight, bias))
    return (x - mean) / np.sqrt(var + 1e-5) * weight + bias


@composed(samples=(case((4, 3, 5, 2), None, None, (3,), (3,), training=True), case((6, 2), None, None, training=True),
                   case((4, 3, 5), (3,), (3,), (3,), (3,))), numpy=_np_batch_norm, domain=(0.2, 2.0), rtol=1e-4,
          function=False, method=False,
          takes={"input": "f", "running_mean": "=input or wide?", "running_var": "=running_mean?", "weight": "=input?", "bias": "=input?"})
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float | Tensor = 0.1, eps: float = 1e-05) -> Tensor:
    """Normalise each channel over the batch (training) or by the running statistics, then scale and shift.

    In training the running statistics, where given, move by `momentum` (a number, or a 0-d tensor on their device) towards the
    batch's mean and unbiased variance.

    Shape: (N, C, ...) with vectors (C,) -> the same.
    Raises: ShapeError, DTypeError, ArgumentError where the arguments do not fit.
    Source: Ioffe and Szegedy 2015, algorithm 1.

    >>> volta.nn.functional.batch_norm(volta.tensor([[1.0], [3.0]]), volta.zeros(1), volta.ones(1), eps=0)
    tensor([[1.],
            [3.]])
    """
    if input.ndim < 2:
        raise ShapeError(f"batch_norm: needs an input (N, C, ...), got {input.shape}")
    if not eps > 0 and (training or not eps >= 0):
        raise ArgumentError(f"batch_norm: eps must be {'above' if training else 'at least'} 0{' in training' * training}, got {eps}")
    channels = (input.shape[1],)
    for name, v in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)):
        if v is not None and v.shape != channels:
            raise ShapeError(f"batch_norm: {name} must have shape {channels} for input {input.shape}, got {v.shape}")
        if v is not None and name.startswith("running") and v.device != input.device:
            raise DeviceError(f"batch_norm: {name} must be on {input.device}, as the input is, got {v.device}; "
                              f"move it with .to({str(input.device)!r})")
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("batch_norm: give both running_mean and running_var, or neither")
    if running_mean is not None and running_var.dtype is not running_mean.dtype:
        raise DTypeError(f"batch_norm: running_var must be {running_mean.dtype.name} as running_mean is, got {running_var.dtype.name}; "
                         f"convert it with .to({running_mean.dtype})")
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


def _np_layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    axes = tuple(range(-np.size(normalized_shape), 0))
    out = (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + eps)
    return out * (1 if weight is None else weight) + (0 if bias is None else bias)


@composed(samples=(case((4, 5), 5, (5,), (5,)), case((2, 3, 4), normalized_shape=(3, 4)), case((3, 4), 4, None, (4,), eps=0.1)),
          numpy=_np_layer_norm, rtol=1e-4, method=False, in_float32=True,
          takes={"input": "f", "weight": "=input or wide?", "bias": "=input or wide?"})
def layer_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05) -> Tensor:
    """Normalise over the trailing dimensions `normalized_shape`, then scale and shift. Source: Ba et al. 2016, eq. 4.

    >>> volta.layer_norm(volta.tensor([[1.0, 3.0]]), 2, eps=0)
    tensor([[-1.,  1.]])
    """
    shape = (normalized_shape,) if hasattr(normalized_shape, "__index__") else tuple(normalized_shape)
    if not shape or input.shape[-len(shape):] != shape:
        raise ShapeError(f"layer_norm: input {input.shape} does not end with normalized_shape {shape}")
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    centred = input - mean_op(input, dim=dims, keepdim=True)
    out = centred * rsqrt(mean_op(centred * centred, dim=dims, keepdim=True) + eps)
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None and v.shape != shape:
            raise ShapeError(f"layer_norm: {name} must have shape {shape}, got {v.shape}")
    if weight is None:
        return out if bias is None else out + bias
    return out * weight if bias is None else mulacc(out, weight, bias)


@composed(samples=(case((3, 4)), case((2, 3, 4), p=1, dim=-1)), domain=(0.3, 2.0), function=False, method=False,
          numpy=lambda x, p=2, dim=1: x / (np.abs(x) ** p).sum(axis=dim, keepdims=True) ** (1 / p))
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """input / max(norm, eps) along `dim`.

    >>> volta.nn.functional.normalize(volta.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return input / maximum(norm(input, p, dim, keepdim=True), eps)
