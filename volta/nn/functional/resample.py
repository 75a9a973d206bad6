"""Images at another size (`interpolate`), as the records of resampling."""
from __future__ import annotations

import functools
import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core.order import by_pixels
from volta.dtypes import float32, uint8
from volta.errors import ArgumentError, DTypeError, UnsupportedError, UnsupportedShapeError
from volta.nn.functional.antialias import filtered, np_filtered
from volta.ops.copy import lines_as, pixels_as
from volta.ops.math import clamp
from volta.ops.records.copy import cast
from volta.ops.records.math import floor
from volta.ops.records.resample import np_resample, resample_op
from volta.ops.records.view import permute_op, reshape_op, tied
from volta.ops.table import case, composed
from volta.shapes import per_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

_LANES = 8                  # channels from which on those of a pixel are worked on where they lie together

# By mode: that of the record, and the numbers of spatial dimensions that it takes.
_MODES = {"nearest": ("nearest", (1, 2, 3)), "nearest-exact": ("nearest-exact", (1, 2, 3)), "area": ("area", (1, 2, 3)),
          "linear": ("linear", (1,)), "bilinear": ("linear", (2,)), "trilinear": ("linear", (3,)), "bicubic": ("cubic", (2,)),
          "lanczos": ("lanczos", (2,))}
_FILTERED = ("bilinear", "bicubic", "lanczos")


def _sizes(input_size, size, scale_factor, recompute):
    """(output sizes, scale factors as far as they count)."""
    rank = len(input_size)
    if (size is None) == (scale_factor is None):
        raise ArgumentError(f"interpolate: needs either size or scale_factor, got size={size} and scale_factor={scale_factor}")
    if size is not None:
        if recompute:
            raise ArgumentError("interpolate: recompute_scale_factor means nothing with a size; leave it out")
        if isinstance(size, (tuple, list)) and len(size) != rank:       # one for all is a number
            raise ArgumentError(f"interpolate: size must be an int or {rank} ints, one for each dimension after (N, C), got {size!r}")
        return per_dim("interpolate", "size", tuple(size) if isinstance(size, list) else size, rank), (None,) * rank
    factors = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * rank
    factors = tuple([f.item() if isinstance(f, core.TensorBase) and f.ndim == 0 else f for f in factors])
    if len(factors) != rank or not all(isinstance(f, (int, float, np.number)) and 0 < f < math.inf for f in factors):
        raise ArgumentError(f"interpolate: scale_factor must be a positive number, or {rank} of them, got {scale_factor!r}")
    sizes = tuple(math.floor(n * float(f)) for n, f in zip(input_size, factors))
    if min(sizes) < 1:
        raise ArgumentError(f"interpolate: scale_factor {scale_factor} leaves nothing of {input_size}")
    if max(sizes) >= 1 << 31:
        raise ArgumentError(f"interpolate: scale_factor {scale_factor} makes more of {input_size} than a size may be, 2**31 - 1")
    return sizes, (None,) * rank if recompute else factors


def _scale(n, length, factor, kind, rank, align_corners):
    """Sources from one output to the next."""
    flat = kind == "nearest" and rank == 2              # where PyTorch's kernel looks at the sizes before the factor
    if n == length and (factor is None or kind == "linear" or flat):
        return 1.0
    if align_corners:
        return (n - 1) / (length - 1) if length > 1 else 0.0
    if flat and length == 2 * n:
        return 0.5
    return n / length if factor is None else 1.0 / float(factor)


def _scales(input_size, size, scale_factor, recompute, kind, align_corners):
    """(output sizes, scale factors as far as they count, sources from one output to the next)."""
    sizes, factors = _sizes(input_size, size, scale_factor, recompute)
    return sizes, factors, tuple([_scale(n, length, f, kind, len(input_size), align_corners)
                                  for n, length, f in zip(input_size, sizes, factors)])


_kept_scales = functools.lru_cache(maxsize=1024, typed=True)(_scales)           # small images take no longer than these


def _filter_scale(n, length, factor, align_corners):
    """Pixels from one output to the next, for filters."""
    if align_corners:
        return (n - 1) / (length - 1) if length > 1 else 0.0
    return n / length if factor is None else 1.0 / float(factor)


def _np_interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, antialias=False, **_):
    sizes, factors = _sizes(x.shape[2:], size, scale_factor, mode == "area" and size is None)
    kind = _MODES[mode][0]
    scales = [_scale(n, length, f, kind, x.ndim - 2, align_corners) for n, length, f in zip(x.shape[2:], sizes, factors)]
    planes = x.reshape(-1, *x.shape[2:])
    if antialias:
        scales = [_filter_scale(n, length, f, align_corners) for n, length, f in zip(x.shape[2:], sizes, factors)]
        return np_filtered(planes, sizes, scales, kind).reshape(*x.shape[:2], *sizes)
    return np_resample(planes, sizes, scales, kind, bool(align_corners)).reshape(*x.shape[:2], *sizes)


def _by_pixels(x, sizes, scales, kind, align_corners):
    """Images whose channels lie together, as a dimension that stays."""
    pixels, size = permute_op(x, dims=(0, 2, 3, 1)), (*sizes, x.shape[1])
    return permute_op(resample_op(pixels, size=size, scales=(*scales, 1.0), mode=kind, align_corners=align_corners), dims=(0, 3, 1, 2))


def _volume_by_pixels(x, sizes, scales, kind, align_corners):
    """Such volumes: first along the depth, where slices stay, then each slice."""
    n, channels, _, height, width = x.shape
    slices = reshape_op(permute_op(x, dims=(0, 2, 3, 4, 1)), shape=(n, 1, x.shape[2], height * width * channels))
    slices = resample_op(slices, size=(1, sizes[0], slices.shape[3]), scales=(1.0, scales[0], 1.0), mode=kind, align_corners=align_corners)
    slices = reshape_op(slices, shape=(n * sizes[0], height, width, channels))
    slices = resample_op(slices, size=(*sizes[1:], channels), scales=(*scales[1:], 1.0), mode=kind, align_corners=align_corners)
    return permute_op(reshape_op(slices, shape=(n, *sizes, channels)), dims=(0, 4, 1, 2, 3))


@composed(samples=(case((1, 2, 4), size=7), case((2, 1, 3, 4), scale_factor=2), case((1, 2, 4, 5), size=(3, 7), mode="nearest-exact"),
                   case((1, 2, 5), scale_factor=1.7, mode="linear"), case((1, 2, 3, 4), size=(5, 3), mode="bilinear"),
                   case((2, 1, 3, 4), size=(6, 2), mode="bilinear", align_corners=True), case((1, 1, 4, 5), size=(7, 3), mode="bicubic"),
                   case((1, 1, 2, 3, 4), scale_factor=(2, 1, 1.5), mode="trilinear"), case((1, 2, 5, 4), size=(2, 3), mode="area"),
                   case((1, 2, 7, 5), size=(3, 7), mode="bilinear", antialias=True),
                   case((2, 1, 4, 9), size=(5, 4), mode="bicubic", antialias=True),
                   case((1, 1, 8, 9), size=3, mode="lanczos", antialias=True)),
          numpy=_np_interpolate, function=False, method=False)
def interpolate(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
                mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:
    """Images at another `size`, or at `scale_factor` times theirs. Modes: "nearest", "nearest-exact", "area", "linear" of one,
    "bilinear" and "bicubic" of two, "trilinear" of three spatial dimensions. `align_corners` puts the centres of the corners onto each
    other; `recompute_scale_factor` takes the ratio of the sizes for the factor that was given. Of uint8, the nearest, "bilinear" and
    "bicubic", which round after the width and after the height. With `antialias`, "bilinear", "bicubic" and "lanczos" (which is there
    so alone) weigh by filters as wide as the outputs are apart, as Pillow does.

    Shape: (N, C, ...) with one to three more dimensions -> the same with the new sizes.
    Raises: ArgumentError for what does not go together; ShapeError; DTypeError.

    >>> volta.nn.functional.interpolate(volta.tensor([[[0.0, 1.0]]]), size=4, mode="linear")
    tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
    """
    if mode not in _MODES:
        raise UnsupportedError(f"interpolate: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    kind, ranks = _MODES[mode]
    rank = input.ndim - 2
    if rank not in ranks or 0 in input.shape[1 + (mode == "area" and rank < 3):]:
        raise UnsupportedShapeError(
            f"interpolate: mode {mode!r} needs an input (N, C, ...) of {' or '.join(str(r + 2) for r in ranks)} dimensions, "
                         f"none but the first empty, got {input.shape}")
    if antialias and mode not in _FILTERED or mode == "lanczos" and (not antialias or align_corners):
        raise ArgumentError(f"interpolate: antialias goes with the modes {', '.join(_FILTERED)}, and lanczos with antialias=True and "
                            f"without align_corners; got mode {mode!r}, antialias={antialias}, align_corners={align_corners}")
    if align_corners is not None and kind not in ("linear", "cubic", "lanczos"):
        raise ArgumentError(f"interpolate: align_corners means nothing with mode {mode!r}; leave it out")
    if input.dtype is uint8 and kind.startswith("nearest"):
        return cast(interpolate(input.float(), size, scale_factor, mode, None, recompute_scale_factor), uint8)
    if not input.dtype.is_floating_point and not (input.dtype is uint8 and mode in _FILTERED):
        raise DTypeError(f"interpolate: mode {mode!r} needs floating point elements, got {input.dtype}; convert them with .float()")
    if isinstance(scale_factor, core.TensorBase) and kind != "area":
        raise DTypeError("interpolate: scale_factor must be a number or a sequence of numbers or None, got Tensor")
    given = (input._shape[2:], size, scale_factor, recompute_scale_factor or kind == "area" and size is None, kind, align_corners)
    kept = (size is None or type(size) is int) and (scale_factor is None or type(scale_factor) in (int, float))
    sizes, factors, scales = (_kept_scales if kept else _scales)(*given)
    if input.shape[1] >= _LANES and not (input._contiguous or input.dtype is uint8 or antialias) and by_pixels(input):
        if rank == 2:
            return _by_pixels(tied(input) if kind == "area" else input, sizes, scales, kind, bool(align_corners))
        if kind != "area" and input.dtype.itemsize > 2:                 # of 16 bits, two steps would round twice
            return _volume_by_pixels(input, sizes, scales, kind, bool(align_corners))
    more = 3 - rank
    planes = reshape_op(tied(input) if kind == "area" else input, shape=(input.shape[0] * input.shape[1], *(1,) * more, *input.shape[2:]))
    if antialias:
        out = _filtered(input, sizes, factors, kind, align_corners)
    elif input.dtype is uint8:
        out = _of_bytes(planes, sizes, scales, kind, bool(align_corners))
    else:
        out = resample_op(planes, size=(1,) * more + sizes, scales=(1.0,) * more + scales, mode=kind, align_corners=bool(align_corners))
    out = reshape_op(out, shape=input.shape[:2] + sizes)
    if kind == "area" and rank != 2:
        return out if rank == 3 else lines_as(input, out)
    return pixels_as(input, out)


def _filtered(input, sizes, factors, kind, align_corners):
    """Planes under filters as wide as the outputs are apart, in float32 at least."""
    scales = tuple(_filter_scale(n, length, f, align_corners) for n, length, f in zip(input.shape[2:], sizes, factors))
    planes = reshape_op(input, shape=(input.shape[0] * input.shape[1], *input.shape[2:]))
    half = input.dtype.is_floating_point and input.dtype.itemsize == 2
    out = filtered(cast(planes, float32) if half else planes, sizes, scales, kind)
    return cast(out, input.dtype) if half else out


def _of_bytes(planes, sizes, scales, kind, align_corners):
    """Planes of uint8, rounded after the width and after the height."""
    out = cast(planes, float32)
    for steps in (((planes.shape[2], sizes[1]), (1.0, scales[1])), (sizes, (scales[0], 1.0))):
        out = resample_op(out, size=(1, *steps[0]), scales=(1.0, *steps[1]), mode=kind + "16", align_corners=align_corners)
        out = clamp(floor(out + 0.5), 0, 255)
    return cast(out, uint8)


@composed(samples=(case((1, 2, 3, 4), size=(5, 3), mode="bilinear"),), numpy=_np_interpolate, function=False, method=False)
def upsample(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
             mode: str = "nearest", align_corners: bool | None = None) -> Tensor:
    """The older name of `interpolate`.

    >>> volta.nn.functional.upsample(volta.ones(1, 1, 2), scale_factor=2).shape
    volta.Size([1, 1, 4])
    """
    warnings.warn("upsample is deprecated; write interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


@composed(samples=(case((1, 2, 3, 4), scale_factor=2),), numpy=_np_interpolate, function=False, method=False)
def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None,
                     scale_factor: float | Sequence[float] | None = None) -> Tensor:
    """`interpolate` by "nearest".

    >>> volta.nn.functional.upsample_nearest(volta.ones(1, 1, 2, 2), scale_factor=2).shape
    volta.Size([1, 1, 4, 4])
    """
    warnings.warn("upsample_nearest is deprecated; write interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, "nearest")


@composed(samples=(case((1, 2, 3, 4), size=(5, 6)),), function=False, method=False,
          numpy=lambda x, size: _np_interpolate(x, size, None, "bilinear", True))
def upsample_bilinear(input: Tensor, size: int | Sequence[int] | None = None,
                      scale_factor: float | Sequence[float] | None = None) -> Tensor:
    """`interpolate` by "bilinear" with align_corners=True.

    >>> volta.nn.functional.upsample_bilinear(volta.ones(1, 1, 2, 2), scale_factor=2).shape
    volta.Size([1, 1, 4, 4])
    """
    warnings.warn("upsample_bilinear is deprecated; write interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, "bilinear", True)
