"""Random tensors for tests."""
from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import volta
from volta.errors import ArgumentError

if TYPE_CHECKING:
    from volta.layout import memory_format as Layout
    from volta.types import DeviceLike


def make_tensor(*shape: int | Sequence[int], dtype: volta.dtype, device: DeviceLike = "cpu", low: float | None = None,
                high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False,
                memory_format: Layout | None = None) -> volta.Tensor:
    """A tensor of random numbers of [low, high), evenly spread: by default [-9, 9), of integers [-9, 10), within what the dtype can hold.

    With `noncontiguous` every second element of a larger tensor. `exclude_zero` puts 1, or of floating point the smallest normal number,
    in the place of 0.

    Raises: ArgumentError for NaN bounds, bounds that hold no number of the dtype, and options that exclude each other.

    >>> bool((make_tensor(3, 4, dtype=volta.int32, low=2, high=5) >= 2).all())
    True
    """
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    floats = dtype.is_floating_point
    if noncontiguous and memory_format is not None:
        raise ArgumentError(f"make_tensor: noncontiguous=True and memory_format={memory_format} exclude each other")
    if requires_grad and not floats:
        raise ArgumentError(f"make_tensor: requires_grad=True needs a floating point dtype, got {dtype}")
    low, high = _bounds(low, high, dtype)
    spread = noncontiguous and math.prod(size) > 1
    if spread:
        size = (*size[:-1], 2 * size[-1])
    if floats:
        out = volta.empty(size, dtype=dtype, device=device).uniform_(low, high)
    else:
        out = volta.randint(math.ceil(low), math.ceil(high), size, dtype=dtype, device=device)
    if spread:
        out = out[..., 1::2]
    elif memory_format is not None:
        out = out.clone(memory_format=memory_format)
    if exclude_zero:
        out.masked_fill_(out == 0, volta.finfo(dtype).tiny if floats else 1)
    return out.requires_grad_(requires_grad)


def _bounds(low: float | None, high: float | None, dtype: volta.dtype) -> tuple[float, float]:
    """The bounds that are given or meant, cut to what the dtype holds."""
    if dtype.is_floating_point:
        least, most, usual = volta.finfo(dtype).min, volta.finfo(dtype).max, (-9, 9)
    elif dtype is volta.bool:
        least, most, usual = 0, 2, (0, 2)
    else:
        least, most, usual = volta.iinfo(dtype).min, volta.iinfo(dtype).max + (dtype is not volta.int64), (-9, 10)
    low, high = usual[0] if low is None else low, usual[1] if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ArgumentError(f"make_tensor: low and high must be numbers, got {low} and {high}")
    if low == high and dtype.is_floating_point:
        warnings.warn("make_tensor: low and high are equal; write volta.full(...)", FutureWarning, stacklevel=3)
    elif low >= high:
        raise ArgumentError(f"make_tensor: low must be less than high, got {low} and {high}")
    elif high < least or low >= most:
        raise ArgumentError(f"make_tensor: {dtype} holds numbers of [{least}, {most}), none of [{low}, {high})")
    return min(max(low, least), most), min(max(high, least), most)
