"""Images at another size (`interpolate`) and at any places (`affine_grid`, `grid_sample`), as the records of resampling and of indexing."""
from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import float32, int64, uint8
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.copy import contiguous
from volta.ops.creation import arange, linspace
from volta.ops.join import stack
from volta.ops.math import clamp
from volta.ops.records.copy import cast
from volta.ops.records.index import index_select_op
from volta.ops.records.math import floor, where_op
from volta.ops.records.resample import np_resample, resample_op
from volta.ops.records.view import expand_op, permute_op, reshape_op
from volta.ops.table import Derived, case, composed
from volta.shapes import per_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["affine_grid", "grid_sample", "interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

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


def _np_interpolate(x, size=None, scale_factor=None, mode="nearest", align_corners=None, **_):
    sizes, factors = _sizes(x.shape[2:], size, scale_factor, mode == "area" and size is None)
    kind = _MODES[mode][0]
    scales = [_scale(n, length, f, kind, x.ndim - 2, align_corners) for n, length, f in zip(x.shape[2:], sizes, factors)]
    planes = x.reshape(-1, *x.shape[2:])
    return np_resample(planes, sizes, scales, kind, bool(align_corners)).reshape(*x.shape[:2], *sizes)


@composed(samples=(case((1, 2, 4), size=7), case((2, 1, 3, 4), scale_factor=2), case((1, 2, 4, 5), size=(3, 7), mode="nearest-exact"),
                   case((1, 2, 5), scale_factor=1.7, mode="linear"), case((1, 2, 3, 4), size=(5, 3), mode="bilinear"),
                   case((2, 1, 3, 4), size=(6, 2), mode="bilinear", align_corners=True), case((1, 1, 4, 5), size=(7, 3), mode="bicubic"),
                   case((1, 1, 2, 3, 4), scale_factor=(2, 1, 1.5), mode="trilinear"), case((1, 2, 5, 4), size=(2, 3), mode="area")),
          numpy=_np_interpolate, function=False, method=False)
def interpolate(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None,
                mode: str = "nearest", align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> Tensor:
    """Images at another `size`, or at `scale_factor` times theirs. Modes: "nearest", "nearest-exact", "area", "linear" of one,
    "bilinear" and "bicubic" of two, "trilinear" of three spatial dimensions. `align_corners` puts the centres of the corners onto each
    other; `recompute_scale_factor` takes the ratio of the sizes for the factor that was given. Of uint8, the nearest, "bilinear" and
    "bicubic", which round after the width and after the height.

    Shape: (N, C, ...) with one to three more dimensions -> the same with the new sizes.
    Raises: ArgumentError for what does not go together and for antialias=True, which there is none of; ShapeError; DTypeError.

    >>> volta.nn.functional.interpolate(volta.tensor([[[0.0, 1.0]]]), size=4, mode="linear")
    tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
    """
    if mode not in _MODES:
        raise ArgumentError(f"interpolate: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    kind, ranks = _MODES[mode]
    rank = input.ndim - 2
    if rank not in ranks or 0 in input.shape[1:]:
        raise ShapeError(f"interpolate: mode {mode!r} needs an input (N, C, ...) of {' or '.join(str(r + 2) for r in ranks)} dimensions, "
                         f"none but the first empty, got {input.shape}")
    if antialias:
        raise ArgumentError("interpolate: there is no antialias=True; reduce by mode='area' instead")
    if align_corners is not None and kind not in ("linear", "cubic"):
        raise ArgumentError(f"interpolate: align_corners means nothing with mode {mode!r}; leave it out")
    if input.dtype is uint8 and kind.startswith("nearest"):
        return cast(interpolate(input.float(), size, scale_factor, mode, None, recompute_scale_factor), uint8)
    if not input.dtype.is_floating_point and not (input.dtype is uint8 and mode in ("bilinear", "bicubic")):
        raise DTypeError(f"interpolate: mode {mode!r} needs floating point elements, got {input.dtype}; convert them with .float()")
    sizes, factors = _sizes(input.shape[2:], size, scale_factor, recompute_scale_factor or kind == "area" and size is None)
    scales = tuple(_scale(n, length, f, kind, rank, align_corners) for n, length, f in zip(input.shape[2:], sizes, factors))
    more = 3 - rank
    planes = reshape_op(input, shape=(input.shape[0] * input.shape[1], *(1,) * more, *input.shape[2:]))
    if input.dtype is uint8:
        out = cast(planes, float32)
        for steps in (((input.shape[2], sizes[1]), (1.0, scales[1])), (sizes, (scales[0], 1.0))):
            out = resample_op(out, size=(1, *steps[0]), scales=(1.0, *steps[1]), mode=kind, align_corners=bool(align_corners))
            out = clamp(floor(out + 0.5), 0, 255)
        out = cast(out, uint8)
    else:
        out = resample_op(planes, size=(1,) * more + sizes, scales=(1.0,) * more + scales, mode=kind, align_corners=bool(align_corners))
    return reshape_op(out, shape=input.shape[:2] + sizes)


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


# ---------------------------------------------------------------- grids
def _np_affine_grid(theta, size, align_corners=None):
    axes = [np.linspace(-1, 1, n) * (1 if align_corners else (n - 1) / n) if n > 1 else np.zeros(1) for n in size[2:]]
    base = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(size[2:])], -1)
    return np.einsum("...k,nik->n...i", base, theta)


@composed(samples=(case((2, 2, 3), size=(2, 1, 3, 4)), case((1, 3, 4), size=(1, 2, 2, 3, 2), align_corners=True)), numpy=_np_affine_grid,
          rtol=1e-4, in_float32=True, takes={"theta": "f"}, function=False, method=False)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The places that affine maps give the pixels of images of `size`, for `grid_sample`; -1 and 1 are the outer edges of the image, or
    the centres of its outer pixels with `align_corners`.

    Shape: theta (N, 2, 3) with size (N, C, H, W) -> (N, H, W, 2); (N, 3, 4) with (N, C, D, H, W) -> (N, D, H, W, 3).
    Raises: ShapeError, ArgumentError.

    >>> volta.nn.functional.affine_grid(volta.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2)).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]
    """
    rank = len(size) - 2
    if rank not in (2, 3) or min(size) < 1:
        raise ArgumentError(f"affine_grid: size must be (N, C, H, W) or (N, C, D, H, W), all positive, got {tuple(size)}")
    if theta.shape != (size[0], rank, rank + 1):
        raise ShapeError(f"affine_grid: theta must have shape {(size[0], rank, rank + 1)} for size {tuple(size)}, got {theta.shape}")
    spatial = tuple(size[2:])
    axes = []
    for d, n in enumerate(spatial):
        edge = 0.0 if n == 1 else 1.0 if align_corners else (n - 1) / n
        line = linspace(-edge, edge, n, dtype=theta.dtype, device=theta.device)
        axes.append(expand_op(reshape_op(line, shape=(n,) + (1,) * (rank - d - 1)), shape=spatial))
    base = reshape_op(stack(axes[::-1], -1), shape=(math.prod(spatial), rank))
    out = base @ theta[:, :, :rank].transpose(1, 2) + reshape_op(theta[:, :, rank], shape=(size[0], 1, rank))
    return reshape_op(out, shape=(size[0], *spatial, rank))


def _clipped(x, most):
    """x in [0, most], with a gradient strictly inside only; NaN gives 0."""
    return where_op(x > 0, where_op(x < most, x, float(most)), 0.0)


def _reflected(x, size, align_corners):
    """x mirrored at the outer edges, or at the centres of the outer pixels, until it lies inside."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if not span:
        return x * 0.0
    x = x - low
    x = where_op(x < 0, -x, x)
    turns = (x.detach() / span).floor()
    rest = x - turns * span
    return where_op(turns % 2 == 0, rest, span - rest) + low


def _tap(place, weight, size):
    """(index, weight, whether it lies inside) of a source of one axis."""
    inside = (place >= 0) & (place <= size - 1)
    return cast(where_op(inside, place, 0.0), int64), weight, inside


def _axis_taps(x, size, mode, padding_mode, align_corners):
    """The sources of one axis, for places x in [-1, 1]."""
    x = (x + 1) * ((size - 1) / 2) if align_corners else ((x + 1) * size - 1) / 2

    def padded(x):
        if padding_mode == "reflection":
            x = _reflected(x, size, align_corners)
        return x if padding_mode == "zeros" else _clipped(x, size - 1)
    if mode != "bicubic":
        x = padded(x)
    if mode == "nearest":
        return [_tap(x.detach().round(), where_op(x > x, x, 1.0) if x.requires_grad else None, size)]        # 1, whose gradient is 0
    first = x.detach().floor()
    t = x - first
    u = 1 - t
    if mode == "bilinear":
        return [_tap(first, u, size), _tap(first + 1, t, size)]
    weights = (-0.75 * t * u * u, 1 + t * t * (1.25 * t - 2.25), 1 + u * u * (1.25 * u - 2.25), -0.75 * t * t * u)
    return [_tap(padded(first + k).round(), weight, size) for k, weight in enumerate(weights, -1)]


def _np_reflected(x, size, align_corners):
    low, span = (0, size - 1) if align_corners else (-0.5, size)
    x = np.abs(x - low) % (2 * span) if span else 0 * x
    return np.minimum(x, 2 * span - x) + low


def _np_sampled(image, at, mode, padding_mode, align_corners):
    """One image (C, ...) at one place, given in the order of its axes."""
    taps = []
    for size, x in zip(image.shape[1:], at):
        x = (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2

        def padded(x, size=size):
            x = _np_reflected(x, size, align_corners) if padding_mode == "reflection" else x
            return x if padding_mode == "zeros" else min(max(x, 0), size - 1)
        x = x if mode == "bicubic" else padded(x)
        first = math.floor(x)
        t = x - first
        cubic = [((-0.75 * d + 3.75) * d - 6) * d + 3 if d > 1 else (1.25 * d - 2.25) * d * d + 1 for d in (1 + t, t, 1 - t, 2 - t)]
        near = {"nearest": [(round(x), 1)], "bilinear": [(first, 1 - t), (first + 1, t)],
                "bicubic": [(padded(first + k), w) for k, w in zip((-1, 0, 1, 2), cubic)]}[mode]
        taps.append([(int(i), w) for i, w in near if 0 <= i < size])
    return sum((image[(slice(None), *[i for i, _ in tap])] * math.prod(w for _, w in tap) for tap in product(*taps)), np.zeros(len(image)))


def _np_grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    out = np.zeros((*grid.shape[:-1], x.shape[1]))
    for place in np.ndindex(grid.shape[:-1]):
        out[place] = _np_sampled(x[place[0]], grid[place][::-1], mode, padding_mode, align_corners)
    return np.moveaxis(out, -1, 1)


def _places(*shape):
    """Places inside and outside, away from where the derivative jumps."""
    return Derived(lambda *_: (np.arange(math.prod(shape)) * 0.7302 % 2.6 - 1.3).reshape(shape))


@composed(samples=(case((2, 2, 3, 4), _places(2, 2, 3, 2)), case((1, 2, 3, 4), _places(1, 3, 2, 2), mode="nearest", align_corners=True),
                   case((1, 1, 3, 4), _places(1, 2, 2, 2), mode="bicubic", padding_mode="border"),
                   case((1, 2, 3, 4), _places(1, 2, 2, 2), padding_mode="reflection"),
                   case((1, 2, 2, 3, 4), _places(1, 2, 1, 3, 3), padding_mode="border", align_corners=True)), numpy=_np_grid_sample,
          rtol=1e-4, in_float32=True, takes={"input": "f", "grid": "=input"}, function=False, method=False)
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:
    """Images at the places (x, y) or (x, y, z) of a grid, in [-1, 1] from edge to edge, or between the centres of the outer pixels with
    `align_corners`. Modes: "bilinear" (of three dimensions, too), "nearest", "bicubic" (of two). Outside are "zeros", or the place is
    moved to the "border", or mirrored there ("reflection").

    Shape: (N, C, H, W) with grid (N, H', W', 2) -> (N, C, H', W'); (N, C, D, H, W) with (N, D', H', W', 3) -> (N, C, D', H', W').
    Raises: ShapeError, ArgumentError, DTypeError.

    >>> volta.nn.functional.grid_sample(volta.tensor([[[[0.0, 1.0]]]]), volta.zeros(1, 1, 1, 2)).item()
    0.5
    """
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ArgumentError(f"grid_sample: mode must be 'bilinear', 'nearest' or 'bicubic', got {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ArgumentError(f"grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', got {padding_mode!r}")
    n, rank = input.shape[0] if input.ndim else 0, input.ndim - 2
    if rank not in (2, 3) or grid.ndim != input.ndim or grid.shape[0] != n or grid.shape[-1] != rank or 0 in input.shape[2:]:
        raise ShapeError(f"grid_sample: needs images (N, C, H, W) and a grid (N, H', W', 2), or (N, C, D, H, W) and (N, D', H', W', 3), "
                         f"got {input.shape} and {grid.shape}")
    if mode == "bicubic" and rank == 3:
        raise ArgumentError("grid_sample: mode 'bicubic' needs images of two dimensions")
    sizes, places, channels = input.shape[2:], math.prod(grid.shape[1:-1]), input.shape[1]
    rows = reshape_op(permute_op(input, dims=(0, *range(2, rank + 2), 1)), shape=(n * math.prod(sizes), channels))
    image = reshape_op(arange(n, device=input.device) * math.prod(sizes), shape=(n, 1))
    points = reshape_op(grid, shape=(n, places, rank))
    axes = [_axis_taps(points[:, :, rank - 1 - d], size, mode, padding_mode, align_corners) for d, size in enumerate(sizes)]
    out = None
    for taps in product(*axes):
        (at, weight, inside), *others = taps
        for (index, more, within), size in zip(others, sizes[1:]):
            at, weight, inside = at * size + index, more if weight is None else weight * more, inside & within
        part = index_select_op(rows, reshape_op(image + at, shape=(n * places,)), dim=0)
        part = where_op(reshape_op(inside, shape=(n * places, 1)), part, 0.0)
        if weight is not None:                          # in volumes, as in PyTorch, a place that is NaN lies outside
            part = part * reshape_op(weight if rank == 2 else where_op(inside, weight, 0.0), shape=(n * places, 1))
        out = part if out is None else out + part
    out = reshape_op(out, shape=(n, *grid.shape[1:-1], channels))
    return contiguous(permute_op(out, dims=(0, rank + 1, *range(1, rank + 1))))
