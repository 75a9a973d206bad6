"""PyTorch's inner forms of functions of networks, public under `torch`: norms with their statistics, dropout with its mask, convolutions
and grids by numbers."""
from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import graph, inplace
from volta.dtypes import HALVES, bool_, float32, int64
from volta.errors import ArgumentError, AutogradError, DTypeError, RankError, ShapeError
from volta.nn.functional import conv, lookup, norm, sample, windows
from volta.ops.creation import arange, full, ones_like, rand, zeros_like
from volta.ops.math import where
from volta.ops.records.copy import cast
from volta.ops.records.math import rsqrt
from volta.ops.records.view import reshape_op
from volta.ops.reduce import var_mean
from volta.ops.sort import searchsorted
from volta.ops.table import case, composed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__: list[str] = []


def _with_statistics(found, shape, dtype):
    """(out, mean, reciprocal standard deviation) of what a norm gives: these two, of which no gradients come, in a shape and a dtype; of
    rows without elements 0 and NaN."""
    out, *statistics = found
    if statistics[0] is None:
        statistics = [full(shape, v, dtype=dtype, device=out.device) for v in (0.0, nan)]
    return out, *[cast(reshape_op(v.detach(), shape=shape), dtype) for v in statistics]


def _dtype_of(x, weight, bias):
    """That of the statistics: the parameters', which may be float32 beside halves."""
    return next((p.dtype for p in (weight, bias) if p is not None), x.dtype)


def _np_statistics(out, x, axes, shape, eps):
    return out, x.mean(axes).reshape(shape), 1 / np.sqrt(x.var(axes) + eps).reshape(shape)


@composed(samples=(case((3, 4), 4, (4,), (4,), 1e-5),), method=False, rtol=1e-4, smooth=False,
          numpy=lambda x, shape, weight, bias, eps: _np_statistics(
              norm.layer_norm.details.numpy(x, shape, weight, bias, eps), x, tuple(range(1, x.ndim)), (len(x),) + (1,) * (x.ndim - 1), eps))
def native_layer_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None, bias: Tensor | None,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(`nn.functional.layer_norm`, mean, reciprocal standard deviation) of each row; gradients come of the first alone.

    >>> volta.native_layer_norm(volta.tensor([[1.0, 3.0]]), (2,), None, None, 0.0)[1]
    tensor([[2.]])
    """
    shape = (normalized_shape,) if hasattr(normalized_shape, "__index__") else tuple(normalized_shape)
    found = norm.over_trailing("layer_norm", input, shape, weight, bias, eps, True)
    return _with_statistics(found, input.shape[:input.ndim - len(shape)] + (1,) * len(shape), _dtype_of(input, weight, bias))


@composed(samples=(case((2, 4, 3), (4,), (4,), 2, 4, 3, 2, 1e-5), case((2, 4), None, None, 2, 4, 1, 1, 1e-3)), method=False, rtol=1e-4,
          numpy=lambda x, weight, bias, n, c, size, groups, eps: _np_statistics(
              norm.group_norm.details.numpy(x, groups, weight, bias, eps), x.reshape(n * groups, -1), (1,), (n, groups), eps))
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(`nn.functional.group_norm`, mean, reciprocal standard deviation) of each group of an input of N x C x HxW elements.

    Raises: ShapeError for an input of other sizes.

    >>> volta.native_group_norm(volta.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 0.0)[1]
    tensor([[2.]])
    """
    if input._size != N * C * HxW or group < 1 or C % group:
        raise ShapeError(f"native_group_norm: {N} x {C} x {HxW} elements in {group} groups do not fit an input of shape {input.shape}")
    found = norm.by_groups(reshape_op(input, shape=(N, C, HxW)), group, weight, bias, eps)
    out, *statistics = _with_statistics(found, (N, group), _dtype_of(input, weight, bias))
    if graph.wants_derivative(input) and input._size:           # here the statistics have derivatives, too, as in PyTorch
        rows = reshape_op(input, shape=(N, group, C // group * HxW))
        variance, middle = var_mean(cast(rows, float32) if rows.dtype in HALVES else rows, 2, correction=0)
        statistics = [cast(v, statistics[0].dtype) for v in (middle, rsqrt(variance + eps))]
    return reshape_op(out, shape=input.shape), *statistics


@composed(samples=(case((4, 3, 5), (3,), (3,), None, None, True, 0.1, 1e-5),), method=False, rtol=1e-4, smooth=False,
          numpy=lambda x, weight, bias, mean, variance, training, momentum, eps: _np_statistics(
              norm.batch_norm.details.numpy(x, mean, variance, weight, bias, training), x, (0, 2), (3,), eps))
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None,
                      training: bool, momentum: float, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """(`nn.functional.batch_norm`, mean, reciprocal standard deviation) of each channel; these two are empty unless in training, and
    gradients come of the first alone.

    Raises: ShapeError for an empty input in training; DTypeError for one that is not floating point.

    >>> volta.native_batch_norm(volta.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 1e-5)[1]
    tensor([2.])
    """
    if training and not input._size:
        raise ShapeError(f"native_batch_norm: needs elements in training, got an input of shape {input.shape}")
    if not input.dtype.is_floating_point:
        raise DTypeError(f"native_batch_norm: input must be floating point, got {input.dtype}; convert it with .float()")
    found = norm.by_batch(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return _with_statistics(found, input.shape[1:2] if found[1] is not None else (0,), _dtype_of(input, weight, bias))


@composed(samples=(case((3, 4), 0.5, False), case((3, 4), 1.0, True)), method=False,
          numpy=lambda x, p, train: (x * (not train), np.full(x.shape, not train)))
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """(`nn.functional.dropout`, which elements are kept).

    Raises: ArgumentError unless 0 <= p <= 1.

    >>> volta.native_dropout(volta.ones(2), 0.5, False)
    (tensor([1., 1.]), tensor([True, True]))
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"native_dropout: p must be a probability, got {p}")
    if train is False or not p:
        return input * 1.0, ones_like(input, dtype=bool_)
    if p == 1:
        return input * zeros_like(input), zeros_like(input, dtype=bool_)
    kept = rand(input.shape, device=input.device) >= p
    return input * cast(kept, input.dtype) * (1 / (1 - p)), kept


@composed(samples=windows.channel_shuffle.details.cases, numpy=windows.channel_shuffle.details.numpy, method=False)
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`nn.functional.channel_shuffle`.

    >>> volta.native_channel_shuffle(volta.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    return windows.channel_shuffle(input, groups)


# ---------------------------------------------------------------- convolutions
def _np_conv_tbc(x, weight, bias, pad=0):
    x = np.pad(x, ((pad, pad), (0, 0), (0, 0)))
    steps = len(x) - len(weight) + 1
    return sum(x[k:k + steps] @ weight[k] for k in range(len(weight))) + bias


@composed(samples=(case((5, 2, 3), (3, 3, 4), (4,)), case((4, 2, 3), (2, 3, 4), (4,), pad=1)), numpy=_np_conv_tbc, method=False, rtol=1e-4)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution along the first dimension. Shape: (T, N, C), weight (K, C, O), bias (O,) -> (T', N, O).

    Raises: ShapeError.

    >>> volta.conv_tbc(volta.ones(3, 1, 1), volta.ones(2, 1, 1), volta.zeros(1)).flatten()
    tensor([2., 2.])
    """
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise ShapeError(f"conv_tbc: needs (T, N, C), (K, C, O) and (O,), got {input.shape}, {weight.shape} and {bias.shape}")
    return conv.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1).contiguous()


@composed(samples=(case((2, 3, 5), (4, 3, 2), (4,), stride=(1,), padding=(0,), dilation=(1,), transposed=False, output_padding=(0,),
                        groups=1),), rtol=1e-4, method=False,
          numpy=lambda x, weight, bias, **rest: conv.conv1d.details.numpy(x, weight, bias))
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                transposed: bool, output_padding: Sequence[int], groups: int) -> Tensor:
    """`nn.functional.conv1d`, 2d or 3d, or `conv_transpose1d`, 2d or 3d, by the number of dimensions.

    Raises: ShapeError.

    >>> volta.convolution(volta.ones(1, 1, 3), volta.ones(1, 1, 2), None, (1,), (0,), (1,), False, (0,), 1)
    tensor([[[2., 2.]]])
    """
    rank = weight.ndim - 2
    if rank not in (1, 2, 3):
        raise ShapeError(f"convolution: weight must have 3 to 5 dimensions, got shape {weight.shape}")
    if transposed:
        return getattr(conv, f"conv_transpose{rank}d")(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(conv, f"conv{rank}d")(input, weight, bias, stride, padding, dilation, groups)


# ---------------------------------------------------------------- grids
@composed(samples=(case((2, 2, 3), size=(2, 1, 3, 4), align_corners=True),), rtol=1e-4, method=False,
          numpy=sample.affine_grid.details.numpy)
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid`.

    >>> volta.affine_grid_generator(volta.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), False).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    return sample.affine_grid(theta, size, align_corners)


def _make_grid_sampler(name, ranks, shapes):
    def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tensor:
        if interpolation_mode not in (0, 1, 2) or padding_mode not in (0, 1, 2):
            raise ArgumentError(f"{name}: interpolation_mode and padding_mode must be 0, 1 or 2, got {interpolation_mode} and "
                                f"{padding_mode}")
        if input.ndim - 2 not in ranks:
            raise RankError(f"{name}: needs images of {' or '.join(map(str, ranks))} dimensions, got an input of shape {input.shape}")
        return sample.grid_sample(input, grid, ("bilinear", "nearest", "bicubic")[interpolation_mode],
                                  ("zeros", "border", "reflection")[padding_mode], align_corners)
    grid_sampler.__name__ = grid_sampler.__qualname__ = name
    example = ", ".join(["0.0"] * ranks[-1])
    ones = "1, " * ranks[-1]
    grid_sampler.__doc__ = f"""`nn.functional.grid_sample` by numbers: the mode is 0 "bilinear", 1 "nearest", 2 "bicubic", the padding
    0 "zeros", 1 "border", 2 "reflection".

    Raises: ArgumentError, ShapeError.

    >>> volta.{name}(volta.ones(1, {ones}1), volta.tensor([{example}]).reshape(1, {ones}{ranks[-1]}), 0, 0, False).item()
    1.0
    """
    return composed(samples=(case(*shapes, 0, 0, False), case(*shapes, 0, 1, True)), method=False, rtol=1e-4,
                    numpy=lambda x, grid, mode, padding, align: sample.grid_sample.details.numpy(
                        x, grid, "bilinear", ("zeros", "border")[padding], align))(grid_sampler)


grid_sampler = _make_grid_sampler("grid_sampler", (2, 3), ((1, 2, 3, 4), (1, 3, 2, 2)))
grid_sampler_2d = _make_grid_sampler("grid_sampler_2d", (2,), ((1, 2, 3, 4), (1, 3, 2, 2)))
grid_sampler_3d = _make_grid_sampler("grid_sampler_3d", (3,), ((1, 1, 2, 3, 4), (1, 2, 1, 2, 3)))


@composed(untested="tests/test_native_forms.py: it is in place", method=False)
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The rows that `indices` number scaled down in place to a norm of at most `max_norm`.

    Raises: ShapeError, DTypeError, IndexRangeError where the indices do not fit; AutogradError where the input wants a gradient.

    >>> volta.embedding_renorm_(volta.tensor([[3.0, 4.0], [3.0, 4.0]]), volta.tensor([0]), 1.0, 2.0).tolist()[1]
    [3.0, 4.0]
    """
    if input.requires_grad and graph.is_grad_enabled():
        inplace.check_inplace("embedding_renorm", input)
        raise AutogradError("embedding_renorm_: there is no derivative by 'input'; do it under no_grad()")
    lookup.embedding(indices, input.detach(), None, max_norm, norm_type)
    return input


@composed(method=False, untested="tests/test_native_forms.py: its values are those of nn.functional.embedding_bag")
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
                  per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(`nn.functional.embedding_bag`, the bag of each index, how many each bag counts, for maxima the row that each comes from, else again
    how many). `mode` is 0 for sums, 1 for means, 2 for maxima.

    Raises: ArgumentError for another `mode`.

    >>> [x.tolist() for x in volta.embedding_bag(volta.tensor([[1.0], [2.0]]), volta.tensor([0, 1]), volta.tensor([0]))]
    [[[3.0]], [0, 0], [2], [2]]
    """
    if mode not in (0, 1, 2):
        raise ArgumentError(f"embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), got {mode!r}")
    out = lookup.embedding_bag(indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode], sparse,
                               per_sample_weights, include_last_offset, padding_idx)
    n, bags = indices.numel(), out.shape[0]
    place = arange(n, device=weight.device)
    bag = searchsorted(offsets[:bags].to(int64), place, right=True) - 1
    counted = ones_like(bag) if padding_idx is None else cast(indices != padding_idx % weight.shape[0], int64)
    size = zeros_like(out[:, 0], dtype=int64).index_add(0, bag, counted)
    if mode != 2 or not n:
        return out, bag, size, size
    rows = weight.detach()[indices]
    found = (rows == out.detach()[bag]).logical_and(counted.unsqueeze(1) > 0)
    first = zeros_like(out, dtype=int64).fill_(n).scatter_reduce(0, bag.unsqueeze(1).expand(n, rows.shape[1]),
                                                                 where(found, place.unsqueeze(1), n), "amin")
    return out, bag, size, where(first < n, indices.to(int64)[first.clamp(max=n - 1)], 0)
