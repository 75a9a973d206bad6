"""Images at another size by filters as wide as the pixels are apart (`interpolate` with antialias=True): two gathers of windows with
constant weights, of the width first. Knows sizes and scales, no arguments of `interpolate`."""
from __future__ import annotations

import numpy as np

from volta.dtypes import int32, uint8
from volta.ops.from_data import tensor
from volta.ops.math import clamp
from volta.ops.records.copy import cast
from volta.ops.records.index import index_select_op
from volta.ops.records.reduce import sum_op
from volta.ops.records.view import reshape_op

__all__: list[str] = []


def _linear(x):
    return np.maximum(1 - x, 0)


def _cubic(x):                                      # a = -0.5, as in Pillow
    return np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0))


def _lanczos(x):
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)


# By kind: the filter of a distance, and half its width.
FILTERS = {"linear": (_linear, 1.0), "cubic": (_cubic, 2.0), "lanczos": (_lanczos, 3.0)}


def windows(n, length, scale, kind, share=True):
    """For each of `length` outputs of n pixels: the pixels that it is made of and their weights, both (elements, length)."""
    weigh, reach = FILTERS[kind]
    wide = max(scale, 1.0)
    centre = scale * (np.arange(length) + 0.5)
    first = np.maximum((centre - reach * wide + 0.5).astype(np.int64), 0)
    count = np.minimum((centre + reach * wide + 0.5).astype(np.int64), n) - first
    step = np.arange(count.max())[:, None]
    weights = np.where(step < count, weigh(np.abs(step + first - centre + 0.5) / wide), 0.0)
    weights /= weights.sum(0)
    if share:                       # shorter windows go on with their last pixel: a weight of zero would make NaN of an infinite one
        last = np.take_along_axis(weights, count[None] - 1, 0) / (count.max() - count + 1)
        weights = np.where(step < count - 1, weights, last)
    return first + np.minimum(step, count - 1), weights


def _along(x, dim, length, scale, kind):
    """Planes (planes, height, width) with `length` elements along `dim`."""
    images = x.dtype is uint8
    places, weights = windows(x.shape[dim], length, scale, kind, not images)
    shape = list(x.shape)
    shape[dim:dim + 1] = places.shape
    if images:                                      # in integers of 16 bits, rounded up from the half, as PyTorch computes
        bits = 0
        while bits < 22 and int(0.5 + weights.max() * (2 << bits)) < 1 << 15:
            bits += 1
        weights = np.trunc(weights * (1 << bits) + np.where(weights < 0, -0.5, 0.5)).astype(np.int32)
        x = cast(x, int32)
    picked = reshape_op(index_select_op(x, tensor(places.reshape(-1), device=x.device), dim=dim), shape=tuple(shape))
    weights = tensor(weights.reshape(*weights.shape, *(1,) * (2 - dim)), dtype=x.dtype, device=x.device)
    out = sum_op(picked * weights, dim=(dim,), keepdim=False)
    return cast(clamp((out + (1 << bits - 1)) >> bits, 0, 255), uint8) if images else out


def filtered(planes, sizes, scales, kind):
    """Planes (planes, height, width) of another size; as they are where it is theirs, whatever the scales."""
    if planes.shape[1:] == sizes:
        return planes
    for dim in (2, 1):
        planes = _along(planes, dim, sizes[dim - 1], scales[dim - 1], kind)
    return planes


def np_filtered(planes, sizes, scales, kind):
    """The same by NumPy."""
    for dim in (2, 1):
        places, weights = windows(planes.shape[dim], sizes[dim - 1], scales[dim - 1], kind)
        planes = np.moveaxis((np.moveaxis(planes, dim, -1)[..., places] * weights).sum(-2), -1, dim)
    return planes
