"""Changes of an image's numbers: inverted, with fewer bits, stretched, equalised, sharpened."""
from __future__ import annotations

from typing import Any

import numpy as np

from volta.dtypes import float32, iinfo, int64, uint8
from volta.errors import ArgumentError
from volta.nn import functional as F
from volta.ops.copy import clone
from volta.ops.creation import arange, ones_like, zeros
from volta.ops.from_data import as_tensor
from volta.ops.join import cat
from volta.ops.math import where
from volta.vision.transforms import pillow
from volta.vision.transforms.colour import blend, check_channels
from volta.vision.transforms.kinds import images


def _largest(img):
    return 1 if img.dtype.is_floating_point else iinfo(img.dtype).max


def _check_bytes(img):
    check_channels(img)
    if img.dtype is not uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")


@images("invert", pillow.invert)
def invert(img: Any) -> Any:
    """The image's negative."""
    check_channels(img)
    return (_largest(img) - img).to(img.dtype)


@images("posterize", pillow.posterize)
def posterize(img: Any, bits: int) -> Any:
    """The image of bytes with only the upper `bits` of each."""
    _check_bytes(img)
    return img & (256 - 2 ** (8 - bits))


@images("solarize", pillow.solarize)
def solarize(img: Any, threshold: float) -> Any:
    """The image with its numbers from `threshold` on inverted."""
    check_channels(img)
    if threshold > _largest(img):
        raise TypeError("solarize: Threshold should be less than bound of img.")
    return where(img >= threshold, invert(img), img)


@images("autocontrast", pillow.autocontrast)
def autocontrast(img: Any) -> Any:
    """The image with each channel stretched from black to white."""
    check_channels(img)
    whole = img if img.dtype.is_floating_point else img.to(float32)
    low, high = whole.amin((-2, -1), keepdim=True), whole.amax((-2, -1), keepdim=True)
    flat = low == high
    stretched = (whole - where(flat, 0 * low, low)) * where(flat, ones_like(low), _largest(img) / where(flat, ones_like(low), high - low))
    return stretched.clamp(0, _largest(img)).to(img.dtype)


@images("equalize", pillow.equalize)
def equalize(img: Any) -> Any:
    """The image of bytes with each channel's numbers spread so that all are about as frequent."""
    _check_bytes(img)
    rows = img.reshape(-1, img.shape[-2] * img.shape[-1]).to(int64)
    counts = zeros(rows.shape[0], 256, dtype=int64, device=img.device).scatter_add(1, rows, ones_like(rows))
    step = (rows.shape[1] - counts.gather(1, rows.amax(1, keepdim=True))) // 255
    sums = (counts.cumsum(1) + step // 2) // step.clamp(1)
    table = cat([zeros(rows.shape[0], 1, dtype=int64, device=img.device), sums[:, :-1]], 1).clamp(0, 255)
    table = where(step == 0, arange(256, device=img.device), table)
    return table.gather(1, rows).to(uint8).reshape(img.shape)


@images("adjust_gamma", pillow.adjust_gamma)
def _with_gamma(img, gamma, gain=1):
    check_channels(img)
    largest = _largest(img)
    whole = img if img.dtype.is_floating_point else img.to(float32) / largest
    out = (gain * whole ** gamma).clamp(0, 1)
    return out if largest == 1 else (out * (largest + 1 - 1e-3)).to(img.dtype)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain * image ** gamma, its numbers taken from 0 to 1. Raises: ArgumentError for a negative gamma."""
    if gamma < 0:
        raise ArgumentError(f"adjust_gamma: Gamma should be a non-negative real number, got {gamma}")
    return _with_gamma(img, gamma, gain)


@images("adjust_sharpness", pillow.adjust_sharpness)
def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """The image sharper by a factor: 0 is smoothed, 1 the image."""
    if sharpness_factor < 0:
        raise ArgumentError(f"sharpness_factor ({sharpness_factor}) is not non-negative.")
    check_channels(img)
    if min(img.shape[-2:]) <= 2:
        return img
    whole = (clone(img) if img.dtype.is_floating_point else img.to(float32)).reshape(-1, 1, *img.shape[-2:])
    kernel = np.ones((1, 1, 3, 3))
    kernel[0, 0, 1, 1] = 5
    smooth = F.conv2d(whole, as_tensor(kernel / 13, dtype=whole.dtype, device=img.device))
    if not img.dtype.is_floating_point:
        smooth = smooth.round()
    whole[..., 1:-1, 1:-1] = smooth                       # the border stays
    return blend("sharpness_factor", img, whole.reshape(img.shape), sharpness_factor)
