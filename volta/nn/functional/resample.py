"""Images at another size (`interpolate`), as the records of resampling."""
from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import float32, uint8
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.copy import pixels_as
from volta.ops.from_data import as_tensor
from volta.ops.linalg import matmul
from volta.ops.math import clamp
from volta.ops.records.copy import cast
from volta.ops.records.math import floor
from volta.ops.records.resample import np_resample, resample_op
from volta.ops.records.view import reshape_op, tied
from volta.ops.table import case, composed
from volta.shapes import per_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

# By mode: that of the record, and the numbers of spatial dimensions that it takes.
_MODES = {"nearest": ("nearest", (1, 2, 3)), "nearest-exact": ("nearest-exact", (1, 2, 3)), "area": ("area", (1, 2, 3)),
          "linear": ("linear", (1,)), "bilinear": ("linear", (2,)), "trilinear": ("linear", (3,)), "bicubic": ("cubic", (2,))}


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
    if len(factors) != rank or not all(isinstance(f, (int, float, np.number)) and 0 < f < math.inf for f in factors):
        raise ArgumentError(f"interpolate: scale_factor must be a positive number, or {rank} of them, got {scale_factor!r}")
    sizes = tuple(math.floor(n * float(f)) for n, f in zip(input_size, factors))
    if min(sizes) < 1:
        raise ArgumentError(f"interpolate: scale_factor {scale_factor} leaves nothing of {input_size}")
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


def filter_weights(given: int, wanted: int, kind: str, scale: float) -> np.ndarray:
    """The matrix by which `given` pixels become `wanted`, `scale` apart: each a mean with the weights of a filter ("linear" or "cubic")
    that is as wide as they are apart."""
    x = np.abs(np.arange(given) + 0.5 - ((np.arange(wanted) + 0.5) * scale)[:, None]) / max(scale, 1.0)
    if kind == "linear":
        weights = np.maximum(1 - x, 0)
    else:                                                   # a = -0.5, as in Pillow
        weights = np.where(x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0))
    return weights / weights.sum(1, keepdims=True)


@functools.lru_cache(maxsize=64)
def _weights(given, wanted, kind, scale, dtype, device):
    """The same as a tensor, which training steps need not make anew."""
    return as_tensor(filter_weights(given, wanted, kind, scale), dtype=dtype, device=device)


def _filtered(x, sizes, scales, kind):
    """Planes without aliasing: the rows, then the columns."""
    whole = x if x.dtype.is_floating_point else cast(x, float32)
    rows, columns = (_weights(n, m, kind, scale, whole.dtype, x.device) for n, m, scale in zip(x.shape[2:], sizes, scales))
    out = matmul(rows, matmul(whole, columns.T))
    return out if x.dtype is out.dtype else cast(clamp(floor(out + 0.5), 0, 255), x.dtype)


def _np_interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, antialias=False, **_):
    sizes, factors = _sizes(x.shape[2:], size, scale_factor, mode == "area" and size is None)
    kind = _MODES[mode][0]
    scales = [_scale(n, length, f, kind, x.ndim - 2, align_corners) for n, length, f in zip(x.shape[2:], sizes, factors)]
    if antialias:
        rows, columns = (filter_weights(n, m, kind, scale) for n, m, scale in zip(x.shape[2:], sizes, scales))
        return (rows @ x @ columns.T).astype(x.dtype)
    planes = x.reshape(-1, *x.shape[2:])
    return np_resample(planes, sizes, scales, kind, bool(align_corners)).reshape(*x.shape[:2], *sizes)


@composed(samples=(case((1, 2, 4), size=7), case((2, 1, 3, 4), scale_factor=2), case((1, 2, 4, 5), size=(3, 7), mode="nearest-exact"),
                   case((1, 2, 5), scale_factor=1.7, mode="linear"), case((1, 2, 3, 4), size=(5, 3), mode="bilinear"),
                   case((2, 1, 3, 4), size=(6, 2), mode="bilinear", align_corners=True), case((1, 1, 4, 5), size=(7, 3), mode="bicubic"),
                   case((1, 1, 2, 3, 4), scale_factor=(2, 1, 1.5), mode="trilinear"), case((1, 2, 5, 4), size=(2, 3), mode="area"),
                   case((1, 2, 5, 7), size=(2, 4), mode="bilinear", antialias=True),
                   case((2, 1, 8, 5), scale_factor=(0.4, 1.5), mode="bicubic", antialias=True)),
          numpy=_np_interpolate, function=False, method=False)
def interpolate(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
                mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:
    """Images at another `size`, or at `scale_factor` times theirs. Modes: "nearest", "nearest-exact", "area", "linear" of one,
    "bilinear" and "bicubic" of two, "trilinear" of three spatial dimensions. `align_corners` puts the centres of the corners onto each
    other; `recompute_scale_factor` takes the ratio of the sizes for the factor that was given. With `antialias`, "bilinear" and "bicubic"
    take means over what a pixel of a smaller image covers. Of uint8, the nearest, "bilinear" and "bicubic", which round after the width
    and after the height (with `antialias` once).

    Shape: (N, C, ...) with one to three more dimensions -> the same with the new sizes.
    Raises: ArgumentError for what does not go together; ShapeError; DTypeError.

    >>> volta.nn.functional.interpolate(volta.tensor([[[0.0, 1.0]]]), size=4, mode="linear")
    tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
    """
    if mode not in _MODES:
        raise ArgumentError(f"interpolate: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    kind, ranks = _MODES[mode]
    rank = input.ndim - 2
    if rank not in ranks or 0 in input.shape[1 + (mode == "area" and rank < 3):]:
        raise ShapeError(f"interpolate: mode {mode!r} needs an input (N, C, ...) of {' or '.join(str(r + 2) for r in ranks)} dimensions, "
                         f"none but the first empty, got {input.shape}")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ArgumentError(f"interpolate: antialias=True goes with mode 'bilinear' or 'bicubic', got {mode!r}")
    if align_corners is not None and kind not in ("linear", "cubic"):
        raise ArgumentError(f"interpolate: align_corners means nothing with mode {mode!r}; leave it out")
    if input.dtype is uint8 and kind.startswith("nearest"):
        return cast(interpolate(input.float(), size, scale_factor, mode, None, recompute_scale_factor), uint8)
    if not input.dtype.is_floating_point and not (input.dtype is uint8 and mode in ("bilinear", "bicubic")):
        raise DTypeError(f"interpolate: mode {mode!r} needs floating point elements, got {input.dtype}; convert them with .float()")
    sizes, factors = _sizes(input.shape[2:], size, scale_factor, recompute_scale_factor or kind == "area" and size is None)
    scales = tuple(_scale(n, length, f, kind, rank, align_corners) for n, length, f in zip(input.shape[2:], sizes, factors))
    if antialias:
        return pixels_as(input, _filtered(input, sizes, scales, kind))
    more = 3 - rank
    planes = reshape_op(tied(input) if kind == "area" else input, shape=(input.shape[0] * input.shape[1], *(1,) * more, *input.shape[2:]))
    if input.dtype is uint8:
        out = cast(planes, float32)
        for steps in (((input.shape[2], sizes[1]), (1.0, scales[1])), (sizes, (scales[0], 1.0))):
            out = resample_op(out, size=(1, *steps[0]), scales=(1.0, *steps[1]), mode=kind + "16", align_corners=bool(align_corners))
            out = clamp(floor(out + 0.5), 0, 255)
        out = cast(out, uint8)
    else:
        out = resample_op(planes, size=(1,) * more + sizes, scales=(1.0,) * more + scales, mode=kind, align_corners=bool(align_corners))
    out = reshape_op(out, shape=input.shape[:2] + sizes)
    return out if kind == "area" and rank == 3 else pixels_as(input, out)


@composed(samples=(case((1, 2, 3, 4), size=(5, 3), mode="bilinear"),), numpy=_np_interpolate, function=False, method=False)
def upsample(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
             mode: str = "nearest", align_corners: bool | None = None) -> Tensor:
    """The older name of `interpolate`.

    >>> volta.nn.functional.upsample(volta.ones(1, 1, 2), scale_factor=2).shape
    volta.Size([1, 1, 4])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


@composed(samples=(case((1, 2, 3, 4), scale_factor=2),), numpy=_np_interpolate, function=False, method=False)
def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None,
                     scale_factor: float | Sequence[float] | None = None) -> Tensor:
    """`interpolate` by "nearest".

    >>> volta.nn.functional.upsample_nearest(volta.ones(1, 1, 2, 2), scale_factor=2).shape
    volta.Size([1, 1, 4, 4])
    """
    return interpolate(input, size, scale_factor, "nearest")


@composed(samples=(case((1, 2, 3, 4), size=(5, 6)),), function=False, method=False,
          numpy=lambda x, size: _np_interpolate(x, size, None, "bilinear", True))
def upsample_bilinear(input: Tensor, size: int | Sequence[int] | None = None,
                      scale_factor: float | Sequence[float] | None = None) -> Tensor:
    """`interpolate` by "bilinear" with align_corners=True.

    >>> volta.nn.functional.upsample_bilinear(volta.ones(1, 1, 2, 2), scale_factor=2).shape
    volta.Size([1, 1, 4, 4])
    """
    return interpolate(input, size, scale_factor, "bilinear", True)
