"""Convolutions and pools of integers: windows are views, and what is made of them is exact. Floating point has kernels of its own."""
from __future__ import annotations

import math

from volta.dtypes import int64
from volta.ops.copy import flip
from volta.ops.creation import arange, ones
from volta.ops.join import pad
from volta.ops.linalg import matmul
from volta.ops.math import div
from volta.ops.records.copy import cast
from volta.ops.records.fold import window_views
from volta.ops.records.index import gather_op
from volta.ops.records.view import expand_op, permute_op, reshape_op
from volta.ops.reduce import max as max_
from volta.ops.reduce import sum

__all__ = []


def _windows(x, fill, size, kernel, stride, padding, dilation):
    """The elements of each window of images (N, C, ...) side by side: (N, C, *size, elements); outside of an image is `fill`."""
    behind = [(m - 1) * s + d * (k - 1) + 1 - n - p for m, s, d, k, n, p in zip(size, stride, dilation, kernel, x.shape[2:], padding)]
    x = pad(x, [side for sides in zip(padding[::-1], behind[::-1]) for side in sides], value=fill)
    return reshape_op(window_views(x, kernel, stride, dilation), shape=(*x.shape[:2], *size, math.prod(kernel)))


def max_pool(x, **geometry):
    """(largest values, their places in the plane)."""
    values, places = max_(_windows(cast(x, int64), -1 << (31 if x.device.is_gpu else 63), **geometry), -1, True)
    plane = reshape_op(arange(math.prod(x.shape[2:]), device=x.device), shape=(1, 1, *x.shape[2:]))
    numbers = _windows(plane, 0, **geometry)
    numbers = expand_op(numbers, shape=(*x.shape[:2], *numbers.shape[2:]))
    found = cast(values, x.dtype), gather_op(numbers, places, dim=values.ndim - 1)
    return tuple([reshape_op(out, shape=values.shape[:-1]) for out in found])


def avg_pool(x, count_padding, divisor, padding, **geometry):
    """Means, cut off."""
    geometry["dilation"] = (1,) * len(padding)
    if divisor is None:
        counted = ones((1, 1, *x.shape[2:]), dtype=int64, device=x.device)
        if count_padding:
            counted = pad(counted, [p for p in padding[::-1] for _ in (0, 1)], value=1)
        divisor = sum(_windows(counted, 0, padding=(0,) * len(padding) if count_padding else padding, **geometry), -1)
    return cast(div(sum(_windows(x, 0, padding=padding, **geometry), -1), divisor, rounding_mode="trunc"), x.dtype)


def conv(x, weight, bias, stride, padding, dilation, groups):
    """Images (N, C, ...) by kernels (O, C / groups, ...)."""
    kernel, n, inner = weight.shape[2:], x.shape[0], math.prod(weight.shape[1:])
    size = tuple((m + 2 * p - d * (k - 1) - 1) // s + 1 for m, p, d, k, s in zip(x.shape[2:], padding, dilation, kernel, stride))
    columns = reshape_op(_windows(x, 0, size, kernel, stride, padding, dilation),
                         shape=(n, groups, weight.shape[1], math.prod(size), math.prod(kernel)))
    columns = reshape_op(permute_op(columns, dims=(0, 1, 2, 4, 3)), shape=(n, groups, inner, math.prod(size)))
    out = matmul(reshape_op(weight, shape=(groups, weight.shape[0] // groups, inner)), columns)
    out = reshape_op(out, shape=(n, weight.shape[0], *size))
    return out if bias is None else out + reshape_op(bias, shape=bias.shape + (1,) * len(kernel))


def conv_transpose(x, weight, size, stride, padding, dilation, groups):
    """The convolution, by kernels turned round, of images whose pixels are apart by the stride."""
    kernel, rank = weight.shape[2:], len(size)
    apart = x.new_zeros((*x.shape[:2], *[(n - 1) * s + 1 for n, s in zip(x.shape[2:], stride)]))      # a batch of them under vmap
    apart[(..., *[slice(None, None, s) for s in stride])] = x
    reach = [d * (k - 1) for d, k in zip(dilation, kernel)]
    apart = pad(apart, [side for n, m, r, p in list(zip(apart.shape[2:], size, reach, padding))[::-1] for side in (r - p, m + p - n)])
    weight = reshape_op(weight, shape=(groups, weight.shape[0] // groups, *weight.shape[1:]))
    turned = permute_op(flip(weight, tuple(range(3, rank + 3))), dims=(0, 2, 1, *range(3, rank + 3)))
    turned = reshape_op(turned, shape=(groups * turned.shape[1], *turned.shape[2:]))
    return conv(apart, turned, None, (1,) * rank, (0,) * rank, dilation, groups)
