"""Images at another size by filters as wide as the pixels are apart (`interpolate` with antialias=True): two sums of windows, of the
width first, with weights that are computed where the image lies. Knows sizes and scales, no arguments of `interpolate`."""
from __future__ import annotations

import functools

import numpy as np

from volta._kernels.core import host_sees, inferring
from volta.dtypes import float32, float64, int32, int64, uint8
from volta.ops.creation import arange
from volta.ops.records.copy import cast
from volta.ops.records.math import clamp_max, clamp_min, floor, minimum, sinc, trunc, where_op
from volta.ops.records.reduce import sum_op
from volta.ops.records.resample import windowed_bytes_op, windowed_op
from volta.ops.records.view import reshape_op

__all__: list[str] = []


def _cubic(x, where):                               # a = -0.5, as in Pillow
    return where(x < 1, (1.5 * x - 2.5) * x * x + 1, where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0.0))


# By kind: half the width of the filter, and the filter of a distance, by the functions of NumPy or of Volta.
FILTERS = {"linear": (1.0, lambda x, where, sinc: where(x < 1, 1 - x, 0.0)), "cubic": (2.0, lambda x, where, sinc: _cubic(x, where)),
           "lanczos": (3.0, lambda x, where, sinc: where(x < 3, sinc(x) * sinc(x / 3), 0.0))}


def np_windows(n, length, scale, kind):
    """For each of `length` outputs of n pixels: the pixels that it is made of and their weights, both (elements, length)."""
    reach, weigh = FILTERS[kind]
    wide = max(scale, 1.0)
    centre = scale * (np.arange(length) + 0.5)
    first = np.maximum(np.floor(centre - reach * wide + 0.5), 0)
    count = np.minimum(np.floor(centre + reach * wide + 0.5), n) - first
    step = np.arange(count.max(initial=1))[:, None]
    weights = np.where(step < count, weigh(np.abs(step + first - centre + 0.5) / wide, np.where, np.sinc), 0.0)
    return (first + np.minimum(step, count - 1)).astype(np.int64), weights / weights.sum(0)


def _windows(n, length, scale, kind, elements, device, share):
    """The same as tensors of a device: in float32 on a GPU, where a window may end one pixel, of weight 0, sooner or later. With `share`,
    shorter windows go on with their last pixel, which gets its weight in parts: a weight of zero would make NaN of an infinite one."""
    reach, weigh = FILTERS[kind]
    wide = max(scale, 1.0)
    dtype = float32 if device.is_gpu else float64
    centre = (arange(length, dtype=dtype, device=device) + 0.5) * scale
    first = clamp_min(floor(centre - (reach * wide - 0.5)), 0)
    count = clamp_max(clamp_max(floor(centre + (reach * wide + 0.5)), n) - first, elements)
    step = reshape_op(arange(elements, dtype=dtype, device=device), shape=(elements, 1))
    weights = where_op(step < count, weigh(abs(step + first - centre + 0.5) / wide, where_op, sinc), 0.0)
    weights = weights / sum_op(weights, dim=(0,), keepdim=True)
    if share:
        last = sum_op(where_op(step == count - 1, weights, 0.0), dim=(0,), keepdim=True) / (elements + 1 - count)
        weights = where_op(step < count - 1, weights, last)
    return cast(first + minimum(step, count - 1), int64), weights


@functools.lru_cache(maxsize=64)
def _widest(n, length, scale, kind):
    """(elements of the widest window, by which power of two PyTorch multiplies weights for bytes: the largest has 15 bits then)."""
    weights = np_windows(n, length, scale, kind)[1]
    largest = weights.max()
    return weights.shape[0], next(bits for bits in range(23) if bits == 22 or int(0.5 + largest * (2 << bits)) >= 1 << 15)


def _tables(n, length, scale, kind, device, dtype):
    """`_windows` for images of this dtype, for bytes in integers."""
    elements, bits = _widest(n, length, scale, kind)
    places, weights = _windows(n, length, scale, kind, elements, device, dtype is not uint8)
    if dtype is uint8:
        weights = trunc(weights * (1 << bits) + where_op(weights < 0, -0.5, 0.5))
    return places, cast(weights, int32 if dtype is uint8 else dtype)


@functools.lru_cache(maxsize=64)
def _kept_tables(n, length, scale, kind, device, dtype, inferred):
    """`_tables`, kept: making them takes longer than small images. IN: inferred, whether they are made in inference mode."""
    return _tables(n, length, scale, kind, device, dtype)


def _along(x, dim, length, scale, kind):
    """Planes (planes, height, width) with `length` elements along `dim`."""
    given = x._shape[dim], length, scale, kind, x.device, x.dtype
    places, weights = _kept_tables(*given, inferring()) if host_sees(x, True) else _tables(*given)
    if x.dtype is uint8:                            # rounded up from the half, as PyTorch computes
        return windowed_bytes_op(x, places, weights, dim=dim, bits=_widest(*given[:4])[1])
    return windowed_op(x, places, weights, dim=dim)


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
        places, weights = np_windows(planes.shape[dim], sizes[dim - 1], scales[dim - 1], kind)
        planes = np.moveaxis((np.moveaxis(planes, dim, -1)[..., places] * weights).sum(-2), -1, dim)
    return planes
