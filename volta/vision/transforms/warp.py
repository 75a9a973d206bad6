"""Images seen elsewhere: turned, sheared, in perspective, displaced. Each pixel of the result is looked up in the image."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from volta.dtypes import float32
from volta.errors import ArgumentError, ShapeError
from volta.nn import functional as F
from volta.ops.from_data import as_tensor, tensor
from volta.ops.join import cat
from volta.ops.math import where
from volta.vision.transforms import pillow
from volta.vision.transforms.kinds import InterpolationMode, as_mode, get_dimensions, images, is_pil

if TYPE_CHECKING:
    from volta.tensor import Tensor


def rotate(img: Any, angle: float, interpolation: InterpolationMode | int = InterpolationMode.NEAREST, expand: bool = False,
           center: Sequence[int] | None = None, fill: float | Sequence[float] | None = None) -> Any:
    """The image turned by `angle` degrees against the clock about its middle or `center`; with `expand` it grows to hold all of it."""
    return _rotated(img, angle, as_mode(interpolation), expand, center, fill)


@images("rotate", pillow.rotate)
def _rotated(img, angle, mode, expand, center, fill):
    height, width = img.shape[-2:]
    middle = (0.0, 0.0) if center is None else [c - 0.5 * n for c, n in zip(center, (width, height))]
    matrix = _inverse_matrix(middle, -angle, (0, 0), 1.0, (0.0, 0.0))
    size = (height, width)
    if expand:
        corners = np.array([[x * width / 2, y * height / 2, 1] for x in (-1, 1) for y in (-1, 1)]) @ np.reshape(matrix, (2, 3)).T
        corners, least = (corners + [width / 2, height / 2]).astype(np.float32), np.float32(1e-4)
        high, low = (np.trunc(v / least) * least for v in (corners.max(0), corners.min(0)))
        size = tuple(int(n) for n in (np.ceil(high) - np.floor(low))[::-1])
    return _sampled(img, matrix, mode, size, fill)


def affine(img: Any, angle: float, translate: Sequence[int], scale: float, shear: float | Sequence[float],
           interpolation: InterpolationMode | int = InterpolationMode.NEAREST, fill: float | Sequence[float] | None = None,
           center: Sequence[int] | None = None) -> Any:
    """The image turned by `angle` degrees with the clock, moved (right, down), scaled and sheared, about its middle or `center`."""
    if len(translate) != 2 or scale <= 0:
        raise ArgumentError(f"affine: translate should be two numbers and scale positive, got {translate} and {scale}")
    shear = (shear, 0.0) if isinstance(shear, (int, float)) else tuple(shear) * (2 // len(shear))
    _, height, width = get_dimensions(img)
    half = (width * 0.5, height * 0.5)
    if is_pil(img):
        return pillow.affine(img, _inverse_matrix(half if center is None else center, angle, translate, scale, shear),
                             as_mode(interpolation), fill)
    middle = (0.0, 0.0) if center is None else [c - n for c, n in zip(center, half)]
    return _transformed(img, _inverse_matrix(middle, angle, translate, scale, shear), as_mode(interpolation), fill)


@images("affine")
def _transformed(img, matrix, mode, fill):
    return _sampled(img, matrix, mode, tuple(img.shape[-2:]), fill)


def _inverse_matrix(center, angle, translate, scale, shear):
    """The six numbers that lead from places in the result to places in the image."""
    turn, sx, sy = (math.radians(v) for v in (angle, *shear))
    a, c = math.cos(turn - sy) / math.cos(sy), math.sin(turn - sy) / math.cos(sy)
    b, d = -a * math.tan(sx) - math.sin(turn), -c * math.tan(sx) + math.cos(turn)
    inverse = np.array([[d, -b], [-c, a]]) / scale
    moved = inverse @ -(np.array(center, float) + translate) + center
    return [*inverse[0], moved[0], *inverse[1], moved[1]]


def _sampled(img, matrix, mode, size, fill):
    """The image at the places that the matrix gives for each pixel, counted from the middle."""
    height, width = img.shape[-2:]
    y, x = (np.arange(n) - 0.5 * n + 0.5 for n in size)
    places = np.stack([*np.broadcast_arrays(x, y[:, None]), np.ones(size)], -1) @ np.reshape(matrix, (2, 3)).T / [0.5 * width, 0.5 * height]
    return _looked_up(img, places, mode, fill)


def _looked_up(img, places, mode, fill):
    """The image at places from -1 to 1; `fill` where it has none."""
    if mode.value not in ("nearest", "bilinear"):
        raise ArgumentError(f"This interpolation mode is unsupported with Tensor input: {mode.value}")
    whole = img if img.dtype.is_floating_point else img.to(float32)
    batch = whole.reshape(1, -1, *img.shape[-2:])
    grid = as_tensor(places, dtype=whole.dtype, device=img.device).unsqueeze(0)
    out = F.grid_sample(cat([batch, batch[:, :1] * 0 + 1], 1), grid, mode=mode.value, padding_mode="zeros", align_corners=False)
    seen, out = out[:, -1:], out[:, :-1]
    if fill is not None:
        colours, channels = np.atleast_1d(np.array(fill, np.float64)), get_dimensions(img)[0]
        if colours.size not in (1, channels):
            raise ArgumentError("The number of elements in 'fill' cannot broadcast to match the number of channels of the image "
                                f"({colours.size} != {channels})")
        colours = as_tensor(np.resize(colours, batch.shape[1])[:, None, None], dtype=whole.dtype, device=img.device)
        out = where(seen < 0.5, colours, out) if mode.value == "nearest" else out * seen + (1 - seen) * colours
    out = out.reshape(*img.shape[:-2], *grid.shape[1:3])
    return out if img.dtype is out.dtype else out.round().to(img.dtype)


def perspective(img: Any, startpoints: Sequence[Sequence[int]], endpoints: Sequence[Sequence[int]],
                interpolation: InterpolationMode | int = InterpolationMode.BILINEAR, fill: float | Sequence[float] | None = None) -> Any:
    """The image with four corners (upper left and right, lower right and left, each x and y) moved from start to end.

    Raises: ArgumentError for other than four corners, and where no perspective does it.
    """
    start, end = (np.asarray(points, np.float64) for points in (startpoints, endpoints))
    if start.shape != (4, 2) or end.shape != (4, 2):
        raise ArgumentError(f"perspective: Please provide exactly four corners, got {len(start)} startpoints and {len(end)} endpoints.")
    ones, nothing = np.ones((4, 1)), np.zeros((4, 3))
    rows = np.stack([np.concatenate([end, ones, nothing, -start[:, :1] * end], 1),
                     np.concatenate([nothing, end, ones, -start[:, 1:] * end], 1)], 1)
    try:
        numbers = np.linalg.solve(rows.reshape(8, 8), start.reshape(8))
    except np.linalg.LinAlgError:
        raise ArgumentError(f"perspective: three of the corners {end.tolist()} lie on a line") from None
    return _in_perspective(img, numbers, as_mode(interpolation), fill)


@images("perspective", pillow.perspective)
def _in_perspective(img, numbers, mode, fill):
    y, x = (np.arange(n) + 0.5 for n in img.shape[-2:])
    here = np.stack([*np.broadcast_arrays(x, y[:, None]), np.ones(img.shape[-2:])], -1)
    places = here @ numbers[:6].reshape(2, 3).T / (here @ [*numbers[6:], 1.0])[..., None]
    return _looked_up(img, places / [0.5 * img.shape[-1], 0.5 * img.shape[-2]] - 1, mode, fill)


@images("elastic_transform", pillow.through_arrays(lambda *args, **options: elastic_transform(*args, **options)))
def elastic_transform(img: Any, displacement: Tensor, interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
                      fill: float | Sequence[float] | None = None) -> Any:
    """The image with each pixel seen from elsewhere: `displacement` (1, height, width, 2) is how far (right, down), in halves of the
    image's size.

    Raises: ShapeError for a displacement of another shape.
    """
    height, width = img.shape[-2:]
    if tuple(displacement.shape) != (1, height, width, 2):
        raise ShapeError(f"elastic_transform: Argument displacement shape should be {(1, height, width, 2)}, but given "
                         f"{tuple(displacement.shape)}")
    y, x = ((np.arange(n) * 2 + 1) / n - 1 for n in (height, width))
    here = tensor(np.stack(np.broadcast_arrays(x, y[:, None]), -1), dtype=float32, device=img.device)
    return _looked_up(img, here + displacement[0].to(img.device, float32), as_mode(interpolation), fill)
