"""Batch normalisation, and the normalisations composed of simpler ops."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta.autograd import no_grad
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.elementwise import mulacc, reciprocal, rsqrt
from volta.ops.movement import _reshape, cast, in_float32
from volta.ops.reduce import mean_primitive, sum_primitive
from volta.ops.table import Derived, case, register, update

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor


def _axes(x):
    return (0,) + tuple(range(2, len(x.shape)))


def _column(v, rank):
    """A vector over channels, shaped to broadcast against (N, C, ...)."""
    return _reshape(v, shape=(1, v.shape[0]) + (1,) * (rank - 2))


def _np_batch_norm(x, weight, bias, eps):
    axes = _axes(x)
    mean, var = x.mean(axis=axes), x.var(axis=axes)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    rstd = 1 / np.sqrt(var + eps)
    out = (x - mean.reshape(shape)) * rstd.reshape(shape)
    if weight is not None:
        out = out * weight.reshape(shape) + (0 if bias is None else bias.reshape(shape))
    return out, mean, rstd


def _np_batch_norm_grad(g, x, weight, mean, rstd):
    axes, shape = _axes(x), (1, -1) + (1,) * (x.ndim - 2)
    normal = (x - mean.reshape(shape)) * rstd.reshape(shape)
    h = g if weight is None else g * weight.reshape(shape)
    centred = h - h.mean(axis=axes, keepdims=True) - normal * (h * normal).mean(axis=axes, keepdims=True)
    return centred * rstd.reshape(shape), (g * normal).sum(axis=axes), g.sum(axis=axes)


def _np_batch_norm_update(running_mean, running_var, mean, rstd, momentum, eps, count):
    var = (1 / rstd ** 2 - eps) * count / (count - 1)
    return (running_mean + momentum * (mean - running_mean), running_var + momentum * (var - running_var), None, None)


def _batch_norm_grad(g, x, weight, mean, rstd):
    """The fused derivative in simpler ops. Statistics are taken from x again, so that higher orders see them depend on it."""
    axes, rank = _axes(x), x.ndim
    eps = (reciprocal(rstd * rstd) - _variance(x, axes)).detach()
    centred = x - mean_primitive(x, dim=axes, keepdim=True)
    scale = rsqrt(mean_primitive(centred * centred, dim=axes, keepdim=True) + _column(eps, rank))
    normal = centred * scale
    dweight = sum_primitive(g * normal, dim=axes, keepdim=False)
    dbias = sum_primitive(g, dim=axes, keepdim=False)
    h = g if weight is None else g * _column(weight, rank)
    dx = (h - mean_primitive(h, dim=axes, keepdim=True) - normal * mean_primitive(h * normal, dim=axes, keepdim=True)) * scale
    return dx, dweight, dbias


def _variance(x, axes):
    x = x.detach()
    centred = x - mean_primitive(x, dim=axes, keepdim=True)
    return mean_primitive(centred * centred, dim=axes, keepdim=False)


def _batch_norm_vjp(g, x, weight, mean, rstd, needs):
    wide = mean.dtype                           # float32 for float16 inputs
    gradients = batch_norm_grad(cast(g, wide), cast(x, wide), None if weight is None else cast(weight, wide), mean, rstd)
    return tuple(cast(d, x.dtype) if need else None for d, need in zip(gradients, needs))


_MEAN = Derived(lambda g, x, weight: x.mean(axis=_axes(x)))
_RSTD = Derived(lambda g, x, weight, mean: 1 / np.sqrt(x.var(axis=_axes(x)) + 1e-5))
_batch_norm = register(
    "batch_norm", ("x", "weight", "bias"), family="norm", outputs=("out", "mean", "rstd"), vjp=_batch_norm_vjp,
    numpy=_np_batch_norm, rtol=1e-4,
    cases=(case((4, 3, 5, 2), (3,), (3,), eps=1e-5), case((6, 2), (2,), (2,), eps=1e-3), case((3, 2, 4), None, None, eps=1e-5)))
batch_norm_grad = register(
    "batch_norm_grad", ("g", "x", "weight", "mean", "rstd"), family="norm", outputs=("dx", "dweight", "dbias"),
    reference=_batch_norm_grad, numpy=_np_batch_norm_grad, rtol=1e-4,
    cases=tuple(case(s, s, w, _MEAN, _RSTD)
                for s, w in (((4, 3, 5, 2), (3,)), ((6, 2), (2,)), ((3, 2, 4), None), ((9, 3, 7, 1), (3,)))))
_batch_norm_update = register(
    "batch_norm_update", ("running_mean", "running_var", "mean", "rstd"), family="update", numpy=_np_batch_norm_update,
    writes=("running_mean", "running_var"),
    domain=(0.3, 2.0), rtol=1e-4,
    cases=(case((3,), (3,), (3,), (3,), momentum=0.1, eps=1e-5, count=40),
           case((300,), (300,), (300,), (300,), momentum=1.0, eps=1e-3, count=2)))


@in_float32
def _normalised(input, mean, var, weight, bias, eps):
    """Batch normalisation by given statistics."""
    scale = rsqrt(var + eps)
    scale = scale if weight is None else scale * weight
    shift = -mean * scale
    shift = shift if bias is None else shift + bias
    return mulacc(input, _column(scale, input.ndim), _column(shift, input.ndim))


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
    if not input.dtype.is_floating_point:
        raise DTypeError(f"batch_norm: needs a floating point tensor, got {input.dtype}")
    channels = (input.shape[1],)
    for name, v in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)):
        if v is not None and v.shape != channels:
            raise ShapeError(f"batch_norm: {name} must have shape {channels} for input {input.shape}, got {v.shape}")
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("batch_norm: give both running_mean and running_var, or neither")
    if not training:
        if running_mean is None:
            raise ArgumentError("batch_norm: evaluation needs running_mean and running_var; pass them or training=True")
        return _normalised(input, running_mean, running_var, weight, bias, eps)
    count = input._size // input.shape[1] if input.shape[1] else 0
    if count < 2:
        raise ShapeError(f"batch_norm: training needs more than one value per channel, got input {input.shape}")
    out, mean, rstd = _batch_norm(input, weight, bias, eps=float(eps))
    if isinstance(momentum, core.TensorBase) and running_mean is not None:
        _move(running_mean, running_var, mean.detach(), rstd.detach(), momentum, float(eps), count)
    elif running_mean is not None:
        update(_batch_norm_update, (running_mean, running_var, mean, rstd), momentum=float(momentum), eps=float(eps), count=count)
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
    shape = (normalized_shape,) if hasattr(normalized_shape, "__index__") else tuple(normalized_shape)
    if not shape or input.shape[-len(shape):] != shape:
        raise ShapeError(f"layer_norm: input {input.shape} does not end with normalized_shape {shape}")
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    centred = input - mean_primitive(input, dim=dims, keepdim=True)
    out = centred * rsqrt(mean_primitive(centred * centred, dim=dims, keepdim=True) + eps)
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None and v.shape != shape:
            raise ShapeError(f"layer_norm: {name} must have shape {shape}, got {v.shape}")
    if weight is None:
        return out if bias is None else out + bias
    return out * weight if bias is None else mulacc(out, weight, bias)
