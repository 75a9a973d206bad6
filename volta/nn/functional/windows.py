"""Windows of images as columns and back (`unfold`, `fold`), and channels exchanged with pixels or with each other. All but `fold` are
views and a copy."""
from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import graph, host_sees, strides_of, view
from volta.errors import ArgumentError, RankError, ShapeError
from volta.ops.copy import clone, pixels_as
from volta.ops.records.fold import columns_op, fold_op, np_fold
from volta.ops.records.view import contiguous_op, permute_op, reshape_op
from volta.ops.table import case, composed
from volta.shapes import per_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["channel_shuffle", "fold", "pixel_shuffle", "pixel_unshuffle", "unfold"]


def _geometry(op, size, kernel_size, dilation, padding, stride):
    """(kernel, dilation, padding, stride, number of windows) in pairs, for images of `size`.

    Raises: ShapeError where no window fits.
    """
    kernel, dilation, padding, stride = [per_dim(op, name, value, 2, int(name != "padding"), one=False) for name, value in (
        ("kernel_size", kernel_size), ("dilation", dilation), ("padding", padding), ("stride", stride))]
    windows = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in zip(size, kernel, dilation, padding, stride))
    if min(windows) < 1:
        raise ShapeError(f"{op}: images of {size} with padding {padding} have no window of {kernel} with dilation {dilation}")
    return kernel, dilation, padding, stride, windows


def _np_places(kernel, dilation, stride, windows):
    """Per kernel element the slices of the padded image that it meets."""
    for k in range(kernel * kernel):
        yield k, (Ellipsis, *[slice(i * dilation, i * dilation + (n - 1) * stride + 1, stride) for i, n in
                              zip(divmod(k, kernel), windows)])


def _np_unfold(x, kernel_size, dilation=1, padding=0, stride=1):
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(padding, padding)] * 2)
    windows = [(n - dilation * (kernel_size - 1) - 1) // stride + 1 for n in x.shape[-2:]]
    parts = [x[at] for _, at in _np_places(kernel_size, dilation, stride, windows)]
    return np.stack(parts, -3).reshape(*x.shape[:-3], -1, math.prod(windows))


def _np_fold(x, output_size, kernel_size, dilation=1, padding=0, stride=1):
    options = [(n, n) for n in (kernel_size, stride, padding, dilation)]
    return np_fold(x.reshape(-1, *x.shape[-2:]), output_size, *options).reshape(*x.shape[:-2], -1, *output_size)


@composed(name="functional.unfold", samples=(case((2, 3, 5, 4), kernel_size=2),
                                             case((2, 4, 5), kernel_size=2, dilation=2, padding=1, stride=2)),
          numpy=_np_unfold, takes={"input": "fb"}, function=False, method=False)
def unfold(input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
           stride: int | Sequence[int] = 1) -> Tensor:
    """The windows of images as columns (im2col).

    Shape: (N, C, H, W) or (C, H, W) -> (N, C * kh * kw, windows).
    Raises: ShapeError where no window fits; ArgumentError.

    >>> volta.nn.functional.unfold(volta.ones(1, 2, 4, 4), 3).shape
    volta.Size([1, 18, 4])
    """
    if input.ndim not in (3, 4) or 0 in input.shape[-3:]:
        raise RankError(f"unfold: needs images (N, C, H, W) or (C, H, W) that are not empty, got {input.shape}")
    kernel, dilation, padding, stride, _ = _geometry("unfold", input.shape[-2:], kernel_size, dilation, padding, stride)
    x = input if input.ndim == 4 else reshape_op(input, shape=(1, *input.shape))
    found = columns_op(x, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    return found if input.ndim == 4 else reshape_op(found, shape=found.shape[1:])


@composed(name="functional.fold", samples=(case((2, 12, 12), output_size=(4, 5), kernel_size=2),
                                           case((8, 6), output_size=(5, 4), kernel_size=2, dilation=2, padding=1, stride=2)),
          numpy=_np_fold, takes={"input": "f"}, function=False, method=False)
def fold(input: Tensor, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
         padding: int | Sequence[int] = 0, stride: int | Sequence[int] = 1) -> Tensor:
    """Images from the columns of `unfold`; where windows overlap, they are added (col2im).

    Shape: (N, C * kh * kw, windows) or (C * kh * kw, windows) -> (N, C, H, W).
    Raises: ShapeError where the columns do not fit; ArgumentError.

    >>> volta.nn.functional.fold(volta.ones(1, 4, 4), 3, 2).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
    """
    size = per_dim("fold", "output_size", output_size, 2, one=False)
    kernel, dilation, padding, stride, windows = _geometry("fold", size, kernel_size, dilation, padding, stride)
    if input.ndim not in (2, 3) or 0 in input.shape[-2:]:
        raise ShapeError(f"fold: needs columns (N, C * kh * kw, windows) or (C * kh * kw, windows) that are not empty, got {input.shape}")
    rest = input.shape[-2] % (kernel[0] * kernel[1])
    if rest or input.shape[-1] != windows[0] * windows[1]:
        raise ShapeError(f"fold: input {input.shape} must have a multiple of {kernel[0] * kernel[1]} rows, and {windows[0]} * {windows[1]} "
                         f"columns for images of {size}")
    x = input if input.ndim == 3 else reshape_op(input, shape=(1, *input.shape))
    x = fold_op(x, size=size, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    return x if input.ndim == 3 else reshape_op(x, shape=x.shape[1:])


# ---------------------------------------------------------------- shuffles
@functools.lru_cache(maxsize=1024)
def _lies(shape, dims, out):
    """(the shape and the strides of what has `shape` with its dimensions in this order, the strides of what has the shape `out`). Kept,
    since small shuffles take no longer than this."""
    steps, ends = strides_of(shape), strides_of(out)
    return tuple([shape[d] for d in dims]), tuple([steps[d] for d in dims]), ends


def _shuffled(input, shape, dims, out):
    """The elements, seen in `shape`, with its dimensions in the order of `dims`, in the shape `out`."""
    if input._contiguous and host_sees(input) and not graph.wants_derivative(input):
        shown, steps, ends = _lies(shape, dims, out)
        return view(contiguous_op(view(input, shown, steps, input.offset)), out, ends, 0)
    return pixels_as(input, reshape_op(contiguous_op(permute_op(reshape_op(input, shape=shape), dims=dims)), shape=out))


def _np_pixel_shuffle(x, upscale_factor):
    *lead, c, h, w = x.shape
    r = upscale_factor
    x = x.reshape(-1, c // r ** 2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return x.reshape(*lead, c // r ** 2, h * r, w * r)


def _np_pixel_unshuffle(x, downscale_factor):
    *lead, c, h, w = x.shape
    r = downscale_factor
    x = x.reshape(-1, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return x.reshape(*lead, c * r ** 2, h // r, w // r)


def _np_channel_shuffle(x, groups):
    n, c, *rest = x.shape
    return x.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(x.shape)


def _factor(op, name, input, factor):
    """factor ** 2. Raises: ShapeError for an input of less than 3 dimensions; ArgumentError for a factor below 1."""
    if input.ndim < 3:
        raise RankError(f"{op}: needs an input (..., C, H, W), got {input.shape}")
    if factor < 1:
        raise ArgumentError(f"{op}: {name} must be positive, got {factor}")
    return factor * factor


@composed(samples=(case((2, 8, 3, 4), upscale_factor=2), case((9, 1, 2), upscale_factor=3)), kinds="fib", numpy=_np_pixel_shuffle,
          method=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels spread over blocks of r * r pixels, r being `upscale_factor`.

    Shape: (..., C * r * r, H, W) -> (..., C, H * r, W * r).
    Raises: ShapeError where the channels do not divide by r * r.

    >>> volta.pixel_shuffle(volta.arange(4).reshape(4, 1, 1), 2).tolist()
    [[[0, 1], [2, 3]]]
    """
    r, area = upscale_factor, _factor("pixel_shuffle", "upscale_factor", input, upscale_factor)
    *lead, c, h, w = input._shape
    if c % area:
        raise ShapeError(f"pixel_shuffle: {c} channels of {input.shape} do not divide by {r} * {r}")
    return _shuffled(input, (math.prod(lead), c // area, r, r, h, w), (0, 1, 4, 2, 5, 3), (*lead, c // area, h * r, w * r))


@composed(samples=(case((2, 2, 6, 4), downscale_factor=2), case((1, 3, 6), downscale_factor=3)), kinds="fib", numpy=_np_pixel_unshuffle,
          method=False)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Blocks of r * r pixels as channels, r being `downscale_factor`: the inverse of `pixel_shuffle`.

    Shape: (..., C, H * r, W * r) -> (..., C * r * r, H, W).
    Raises: ShapeError where the image does not divide by r.

    >>> volta.pixel_unshuffle(volta.arange(4).reshape(1, 2, 2), 2).flatten().tolist()
    [0, 1, 2, 3]
    """
    r, area = downscale_factor, _factor("pixel_unshuffle", "downscale_factor", input, downscale_factor)
    *lead, c, h, w = input._shape
    if h % r or w % r:
        raise ShapeError(f"pixel_unshuffle: images {(h, w)} of {input.shape} do not divide by {r}")
    if not input._size:
        return clone(input)                     # as in PyTorch, which leaves it in its shape
    return _shuffled(input, (math.prod(lead), c, h // r, r, w // r, r), (0, 1, 3, 5, 2, 4), (*lead, c * area, h // r, w // r))


@composed(samples=(case((2, 6, 3), groups=2), case((1, 6, 2, 2), groups=3)), kinds="fib", numpy=_np_channel_shuffle, method=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels dealt out anew: the first of each group, then the second of each, and so on.

    Shape: (N, C, ...) -> the same.
    Raises: ShapeError where the channels do not divide by `groups`.

    >>> volta.channel_shuffle(volta.arange(6).reshape(1, 6, 1), 2).flatten().tolist()
    [0, 3, 1, 4, 2, 5]
    """
    if input.ndim < 3:
        raise ShapeError(f"channel_shuffle: needs an input (N, C, ...) of at least 3 dimensions, got {input.shape}")
    n, c, *rest = input._shape
    if groups < 1 or c % groups:
        raise ShapeError(f"channel_shuffle: {c} channels of {input.shape} do not divide by groups={groups}")
    return _shuffled(input, (n, groups, c // groups, math.prod(rest)), (0, 2, 1, 3), input._shape)
