"""Normalisation by batch, by rows (layer, RMS, group, instance) and by neighbouring channels; `normalize`."""
from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core.call import run_kernel
from volta.autograd import no_grad
from volta.dtypes import HALVES, finfo, float32, float64
from volta.errors import ArgumentError, DeviceError, DTypeError, RankError, ShapeError
from volta.nn.functional.formulas import responded, variance
from volta.nn.functional.pool import avg_pool2d
from volta.ops.copy import pixels_as, widened
from volta.ops.creation import full
from volta.ops.join import pad
from volta.ops.norms import norm
from volta.ops.records.chain import fused
from volta.ops.records.copy import cast
from volta.ops.records.math import clamp_min, reciprocal
from volta.ops.records.math import pow as pow_op
from volta.ops.records.norm import batch_norm_given, batch_norm_op, batch_norm_update, column, np_batch_norm
from volta.ops.records.reduce import mean_op
from volta.ops.records.row_norm import row_norm_op
from volta.ops.records.unit import unit_op
from volta.ops.records.view import lies_as, permute_op, reshape_op, row_major
from volta.ops.table import case, composed
from volta.shapes import as_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize", "rms_norm"]


def _normalised(input, mean, var, weight, bias, eps):
    """Batch normalisation by given statistics."""
    if input.dtype in HALVES:
        return cast(widened(_normalised, (input, mean, var, weight, bias, eps), {}), input.dtype)
    return batch_norm_given(input, *[v if v is None else cast(v, input.dtype) for v in (mean, var, weight, bias)], eps=float(eps))


def _np_batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False):
    if training:
        return np_batch_norm(x, weight, bias, 1e-5)[0]
    mean, var, weight, bias = (v.reshape((1, -1) + (1,) * (x.ndim - 2)) for v in (running_mean, running_var, weight, bias))
    return (x - mean) / np.sqrt(var + 1e-5) * weight + bias


@composed(name="functional.batch_norm",
          samples=(case((4, 3, 5, 2), None, None, (3,), (3,), training=True), case((6, 2), None, None, training=True),
                   case((4, 3, 5), (3,), (3,), (3,), (3,))), numpy=_np_batch_norm, domain=(0.2, 2.0), rtol=1e-4,
          function=False, method=False,
          takes={"input": "f", "running_mean": "=input or wide?", "running_var": "=running_mean?", "weight": "=input or wide?",
                 "bias": "=input or wide?"})
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
    if not eps > 0 and (training or not eps >= 0):
        raise ArgumentError(f"batch_norm: eps must be {'above' if training else 'at least'} 0{' in training' * training}, got {eps}")
    return by_batch(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


def by_batch(input, running_mean, running_var, weight, bias, training, momentum, eps):
    """(out of `batch_norm`, with any eps, which only `nn.functional` looks at, mean, reciprocal standard deviation): these two None, but of
    elements in training."""
    if input.ndim < 2 and input.shape != (0,):
        raise RankError(f"batch_norm: needs an input (N, C, ...), got {input.shape}")
    channels = input._shape[1:2] or input._shape
    for name, v in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)):
        if v is None:
            continue
        if v._shape != channels:
            raise ShapeError(f"batch_norm: {name} must have shape {input.shape[1:2] or input.shape} for input {input.shape}, got {v.shape}")
        if name.startswith("running") and v.device != input.device:
            raise DeviceError(f"batch_norm: {name} must be on {input.device}, as the input is, got {v.device}; "
                              f"move it with .to({str(input.device)!r})")
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("batch_norm: give both running_mean and running_var, or neither")
    if running_mean is not None and running_var.dtype is not running_mean.dtype:
        raise DTypeError(f"batch_norm: running_var must be {running_mean.dtype.name} as running_mean is, got {running_var.dtype.name}; "
                         f"convert it with .to({running_mean.dtype})")
    own = input.dtype
    if weight is not None and weight.dtype is not own or bias is not None and bias.dtype is not own:        # float32 beside halves
        return _by_batch_widened(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if input.ndim < 2:
        return _of_nothing(input, weight, bias), None, None
    if not input._contiguous and input.ndim in (4, 5):
        pixels = permute_op(input, dims=(0, *range(2, input.ndim), 1))
        if pixels._contiguous:                  # channels last: rows of channels, and the result lies so, too
            rows = reshape_op(pixels, shape=(input._size // input.shape[1], input.shape[1]))
            out, *statistics = by_batch(rows, running_mean, running_var, weight, bias, training, momentum, eps)
            return permute_op(reshape_op(out, shape=pixels.shape), dims=(0, input.ndim - 1, *range(1, input.ndim - 1))), *statistics
    if not training:
        if running_mean is None:
            raise ArgumentError("batch_norm: evaluation needs running_mean and running_var; pass them or training=True")
        out = _normalised(input, running_mean, running_var, weight, bias, eps)
        return out if input._contiguous else pixels_as(input, out), None, None
    if not input._size:                         # nothing to normalise and nothing to move the statistics by
        empty = _normalised(input, *[full(channels, v, dtype=input.dtype, device=input.device) for v in (0.0, 1.0)], weight, bias, eps)
        return empty, None, None
    count = input._size // input.shape[1]
    if count < 2:
        raise ShapeError(f"batch_norm: training needs more than one value per channel, got input {input.shape}")
    out, mean, rstd = batch_norm_op(input, weight, bias, eps=float(eps))
    if running_mean is not None and (isinstance(momentum, core.TensorBase) or core.stands_in(mean) or core.stands_in(running_mean)):
        _move(running_mean, running_var, mean.detach(), rstd.detach(), momentum, float(eps), count)
    elif running_mean is not None:
        run_kernel(batch_norm_update, input.device, (running_mean, running_var, mean, rstd),
                   {"momentum": float(momentum), "eps": float(eps), "count": count})
    return out, mean, rstd


def _by_batch_widened(input, running_mean, running_var, weight, bias, *rest):
    if running_mean is not None and running_mean.dtype is not float32:
        raise DTypeError(f"batch_norm: running statistics must be float32 as weight and bias are, got {running_mean.dtype.name}")
    wide = [v if v is None else cast(v, float32) for v in (input, weight, bias)]
    out, *statistics = by_batch(wide[0], running_mean, running_var, *wide[1:], *rest)
    return cast(out, input.dtype), *statistics


@no_grad
def _move(running_mean, running_var, mean, rstd, momentum, eps, count):
    """`batch_norm_update` by composed ops: with a momentum that is a tensor, statistics of each sample, (N, C), or under `vmap`."""
    momentum = cast(momentum, mean.dtype) if isinstance(momentum, core.TensorBase) else momentum
    var = fused(variance, rstd, eps, count / (count - 1))
    for running, each in ((running_mean, mean), (running_var, var)):
        each = each if each.ndim == 1 else mean_op(each, dim=(0,), keepdim=False)
        if running.dtype is each.dtype:
            running.lerp_(each, momentum)
        else:                                                                           # of halves, in float32
            running.copy_(cast(running, each.dtype).lerp(each, momentum))


# ---------------------------------------------------------------- rows
def _affine(name, shape, **vectors):
    """Raise unless weight and bias, where given, have the `shape`."""
    for each, v in vectors.items():
        if v is not None and v.shape != shape:
            raise ShapeError(f"{name}: {each} must have shape {shape}, got {v.shape}")


def _flat(v):
    return v if v is None or v.ndim == 1 else reshape_op(v, shape=(v._size,))


@cache
def _least(dtype):
    return finfo(dtype).eps


def over_trailing(name, input, normalized_shape, weight, bias, eps, centred):
    """(Normalisation over the last dimensions, each element of which has a weight of its own, mean, reciprocal standard deviation): these
    two one after another, or None without elements."""
    if input.dtype in HALVES and any(t is not None and t.dtype is not input.dtype for t in (weight, bias)):
        out, *statistics = widened(over_trailing, (name, input, normalized_shape, weight, bias, eps, centred), {})
        return cast(out, input.dtype), *statistics
    shape = (normalized_shape,) if hasattr(normalized_shape, "__index__") else tuple(normalized_shape)
    if not shape or input._shape[-len(shape):] != shape:
        raise ShapeError(f"{name}: input {input.shape} does not end with normalized_shape {shape}")
    if weight is not None and weight._shape != shape or bias is not None and bias._shape != shape:
        _affine(name, shape, weight=weight, bias=bias)
    if not input._size:
        return _of_nothing(input, weight, bias), None, None
    if len(shape) > 1:
        weight, bias = _flat(weight), _flat(bias)
    if centred and not input._contiguous:
        input = row_major(input)
    return row_norm_op(input, weight, bias, length=math.prod(shape), groups=1, inner=1, centred=centred,
                       eps=_least(float32 if input.dtype in HALVES else input.dtype) if eps is None else float(eps))


def _of_nothing(input, weight, bias):
    """An input without elements, seen to depend on weight and bias, which broadcast against it."""
    out = input if weight is None else input * weight
    return out + 0.0 if bias is None else out + bias


_TRAILING = {"input": "f", "weight": "=input or wide?", "bias": "=input or wide?"}


def _np_layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    axes = tuple(range(-np.size(normalized_shape), 0))
    out = (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + eps)
    return out * (1 if weight is None else weight) + (0 if bias is None else bias)


@composed(name="functional.layer_norm",
          samples=(case((4, 5), 5, (5,), (5,)), case((2, 3, 4), normalized_shape=(3, 4)), case((3, 4), 4, None, (4,), eps=0.1),
                   case((0, 4), 4, (4,), (4,))),
          numpy=_np_layer_norm, rtol=1e-4, function=False, method=False, takes=_TRAILING)
def layer_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05) -> Tensor:
    """Normalise over the trailing dimensions `normalized_shape`, then scale and shift. Source: Ba et al. 2016, eq. 4.

    >>> volta.layer_norm(volta.tensor([[1.0, 3.0]]), 2, eps=0)
    tensor([[-1.,  1.]])
    """
    return over_trailing("layer_norm", input, normalized_shape, weight, bias, eps, True)[0]


def _np_rms_norm(x, normalized_shape, weight=None, eps=0.0):
    axes = tuple(range(-np.size(normalized_shape), 0))
    return x / np.sqrt((x * x).mean(axis=axes, keepdims=True) + eps) * (1 if weight is None else weight)


@composed(samples=(case((4, 5), 5, (5,)), case((2, 3, 4), normalized_shape=(3, 4)), case((3, 4), 4, (4,), eps=0.1)),
          numpy=_np_rms_norm, rtol=1e-4, method=False, takes={"input": "f"})
def rms_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Divide by the root of the mean square over the trailing dimensions, then scale; `eps` is the dtype's unless given (float32's for
    float16), and the result has the dtype of `input`. Source: Zhang and Sennrich 2019, eq. 4.

    >>> volta.rms_norm(volta.tensor([[3.0, -3.0]]), 2)
    tensor([[ 1., -1.]])
    """
    if weight is not None and weight.dtype is not input.dtype:
        weight = cast(weight, float32 if input.dtype in HALVES else input.dtype)
    return over_trailing("rms_norm", input, normalized_shape, weight, None, eps, False)[0]


def _np_group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    grouped = x.reshape(*x.shape[:1], num_groups, -1)
    out = ((grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + eps)).reshape(x.shape)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return out * (1 if weight is None else weight.reshape(shape)) + (0 if bias is None else bias.reshape(shape))


def _grouped(input, groups, weight, bias, eps):
    """(out, mean, rstd) over groups of channels; a weight for each channel."""
    channels, size = input.shape[1], math.prod(input.shape[2:])
    return row_norm_op(input, weight, bias, length=channels // groups * size, groups=groups, inner=size, centred=True, eps=float(eps))


@composed(name="functional.group_norm",
          samples=(case((2, 6, 3), 2, (6,), (6,)), case((3, 4), 2), case((2, 4, 3, 2), 4, None, (4,), eps=0.1)),
          numpy=_np_group_norm, rtol=1e-4, function=False, method=False, takes=_TRAILING)
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-05) -> Tensor:
    """Normalise groups of channels, then scale and shift each channel.

    Shape: (N, C, ...) with vectors (C,) -> the same.
    Raises: ShapeError, ArgumentError where the arguments do not fit.
    Source: Wu and He 2018, eq. 7.

    >>> volta.group_norm(volta.tensor([[1.0, 3.0, 5.0, 9.0]]), 2, eps=0)
    tensor([[-1.,  1., -1.,  1.]])
    """
    return by_groups(input, num_groups, weight, bias, eps)[0]


def by_groups(input, num_groups, weight, bias, eps):
    """(out of `group_norm`, mean, reciprocal standard deviation): these two one after another, or None without elements."""
    if input.dtype in HALVES:
        out, *statistics = widened(by_groups, (input, num_groups, weight, bias, eps), {})
        return cast(out, input.dtype), *statistics
    if input.ndim < 2:
        raise RankError(f"group_norm: needs an input (N, C, ...), got {input.shape}")
    if num_groups < 1 or input.shape[1] % num_groups:
        raise ArgumentError(f"group_norm: {input.shape[1]} channels of input {input.shape} do not divide into num_groups {num_groups}")
    _affine("group_norm", (input.shape[1],), weight=weight, bias=bias)
    if not input._size:
        return _of_nothing(input, *[None if v is None else column(v, input.ndim) for v in (weight, bias)]), None, None
    if input._size == num_groups:
        raise ShapeError(f"group_norm: needs more than one value in a group, got input {input.shape} with num_groups {num_groups}")
    return _grouped(input, num_groups, weight, bias, eps)


def _np_instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True):
    if use_input_stats:
        return _np_group_norm(x, x.shape[1], weight, bias)
    return _np_batch_norm(x, running_mean, running_var, weight, bias)


@composed(name="functional.instance_norm",
          samples=(case((2, 3, 4), None, None, (3,), (3,)), case((2, 3, 4, 2)),
                   case((2, 3, 4), (3,), (3,), (3,), (3,), use_input_stats=False)), numpy=_np_instance_norm, domain=(0.2, 2.0), rtol=1e-4,
          function=False, method=False,
          takes={"input": "f", "running_mean": "f?", "running_var": "=running_mean?", "weight": "=input or wide?",
                 "bias": "=input or wide?"})
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
                  bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-05) -> Tensor:
    """Normalise each channel of each sample, then scale and shift it. The running statistics, where given, move by `momentum` towards
    the mean over the batch of means and unbiased variances; without `use_input_stats` they take the place of the sample's own.

    Shape: (N, C, ...) with vectors (C,) -> the same.
    Raises: ShapeError, ArgumentError where the arguments do not fit.
    Source: Ulyanov et al. 2016, eq. 2.

    >>> volta.nn.functional.instance_norm(volta.tensor([[[1.0, 3.0], [2.0, 8.0]]]), eps=0)
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    if not use_input_stats:
        return by_batch(row_major(input), running_mean, running_var, weight, bias, False, momentum, eps)[0]
    if input.ndim < 3 or math.prod(input.shape[2:]) == 1:
        raise RankError(f"instance_norm: needs an input (N, C, ...) of more than one value per channel, got {input.shape}")
    channels = input.shape[1:2]
    _affine("instance_norm", channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if (running_mean is None) != (running_var is None):
        raise ArgumentError("instance_norm: give both running_mean and running_var, or neither")
    if not input._size:
        return _of_nothing(input, *[None if v is None else column(v, input.ndim) for v in (weight, bias)])
    x, vectors = input, [weight, bias]
    if any(v is not None and v.dtype is not x.dtype for v in vectors):          # float32 beside halves
        x, *vectors = [v if v is None else cast(v, float32) for v in (x, *vectors)]
    out, mean, rstd = _grouped(row_major(x), x.shape[1], *vectors, eps)
    out = cast(out, input.dtype)
    if running_mean is not None:
        _move(running_mean, running_var, *[v.detach().reshape(-1, *channels) for v in (mean, rstd)], momentum, float(eps),
              math.prod(input.shape[2:]))
    return out


def _np_local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    squares = np.pad(x * x, ((0, 0), (size // 2, (size - 1) // 2)) + ((0, 0),) * (x.ndim - 2))
    return x / (k + alpha / size * sum(squares[:, i:i + x.shape[1]] for i in range(size))) ** beta


@composed(samples=(case((2, 5, 3), 3, alpha=0.5), case((2, 4, 3, 2), 2, alpha=1.0, beta=0.5, k=2.0), case((1, 3, 2), size=5)),
          numpy=_np_local_response_norm, rtol=1e-4, method=False, in_float32=True, function=False)
def local_response_norm(input: Tensor, size: int, alpha: float | Tensor = 0.0001, beta: float | Tensor = 0.75,
                        k: float | Tensor = 1.0) -> Tensor:
    """input / (k + alpha * the mean of squares over `size` neighbouring channels) ** beta. Source: Krizhevsky et al. 2012, section 3.3.

    Raises: RankError for an input of rank below 3; ArgumentError for a `size` below 1.

    >>> volta.nn.functional.local_response_norm(volta.tensor([[[3.0], [4.0]]]), 1, alpha=1.0, beta=0.5, k=0.0)
    tensor([[[1.],
             [1.]]])
    """
    if input.ndim < 3:
        raise RankError(f"local_response_norm: needs an input (N, C, ...) of rank 3 or more, got {input.shape}")
    if not input._size:
        return input
    if size < 1:
        raise ArgumentError(f"local_response_norm: size must be at least 1, got {size}")
    squares = reshape_op(pow_op(input, 2), shape=(input.shape[0], 1, input.shape[1], math.prod(input.shape[2:])))
    if size % 2:
        means = avg_pool2d(squares, (size, 1), stride=1, padding=(size // 2, 0))
    else:
        means = avg_pool2d(pad(squares, (0, 0, size // 2, (size - 1) // 2)), (size, 1), stride=1)
    means = reshape_op(means, shape=input.shape)
    return fused(responded, input, means, alpha, k, beta)


@composed(out="cast", samples=(case((3, 4)), case((2, 3, 4), p=1, dim=-1)), domain=(0.3, 2.0), function=False, method=False,
          numpy=lambda x, p=2, dim=1: x / (np.abs(x) ** p).sum(axis=dim, keepdims=True) ** (1 / p))
def normalize(input: Tensor, p: float | None = 2.0, dim: int | Sequence[int] | None = 1, eps: float = 1e-12) -> Tensor:
    """input / max(norm, eps) along `dim`.

    >>> volta.nn.functional.normalize(volta.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    if (p == 2 or p is None) and type(dim) is int and (input.dtype is float32 or input.dtype is float64) and input.ndim and eps >= 0:
        out = unit_op(input, dim=as_dim("normalize", dim, input.ndim), eps=eps)[0]
        return out if input._contiguous else lies_as(input, out)
    size = clamp_min(norm(input, 2.0 if p is None else p, dim, keepdim=True), eps)
    return input / size if input.dtype in HALVES else input * reciprocal(size)
