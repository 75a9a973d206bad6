"""Images at the places of a grid (`grid_sample`), and grids of affine maps (`affine_grid`)."""
from __future__ import annotations

import functools
import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta.errors import ArgumentError, RankError, ShapeError
from volta.ops.creation import linspace
from volta.ops.from_data import tensor
from volta.ops.linalg import matmul
from volta.ops.math import addcmul
from volta.ops.records.sample import MODES, PADDINGS, grid_sample_op, np_grid_sample
from volta.ops.records.view import expand_op, reshape_op, tied
from volta.ops.table import case, composed
from volta.ops.view import transpose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["affine_grid", "grid_sample"]

SMALL = 4096                    # pixels of an image whose coordinates are kept


def _np_affine_grid(theta, size, align_corners=None):
    axes = [np.linspace(-1, 1, n) * (1 if align_corners else (n - 1) / n) if n > 1 else np.zeros(1) for n in size[2:]]
    base = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(size[2:])], -1)
    return np.einsum("...k,nik->n...i", base, theta)


def _edge(n, align_corners):
    """The coordinate of the last pixel's centre; the first one's is the negative."""
    return 0.0 if n == 1 else 1.0 if align_corners else (n - 1) / n


def _warn_of_corners(name):
    warnings.warn(f"{name}: align_corners is False unless given, since PyTorch 1.3; give it", stacklevel=3)


@functools.lru_cache(maxsize=32)
def _places(sizes, align_corners, dtype):
    """The coordinates of the pixels of small images and a 1, as rows. Kept, since they take longer than their product with a map."""
    axes = [np.linspace(-edge, edge, n) for n, edge in ((n, _edge(n, align_corners)) for n in sizes)]
    places = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(sizes)], -1)
    inferring = core.set_inferring(False)               # those that are kept serve training, too
    try:
        return tensor(places.reshape(-1, len(sizes) + 1), dtype=dtype, device="cpu")
    finally:
        core.set_inferring(inferring)


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
    if align_corners is None:
        _warn_of_corners("affine_grid")
    elif align_corners and min(size[2:], default=0) == 1:
        warnings.warn("affine_grid: with align_corners the one place of a dimension of size 1 is its middle, since PyTorch 1.3",
                      stacklevel=2)
    rank = len(size) - 2
    if rank not in (2, 3) or min(size) < 1:
        raise ArgumentError(f"affine_grid: size must be (N, C, H, W) or (N, C, D, H, W), all positive, got {tuple(size)}")
    if theta.shape != (size[0], rank, rank + 1):
        raise ShapeError(f"affine_grid: theta must have shape {(size[0], rank, rank + 1)} for size {tuple(size)}, got {theta.shape}")
    (*_, width), batch = size[2:], size[0]
    if core.host_sees(theta) and math.prod(size[2:]) <= SMALL:
        places = _places(tuple(map(int, size[2:])), bool(align_corners), theta.dtype)
        return reshape_op(matmul(places, transpose(theta, 1, 2)), shape=(size[0], *size[2:], rank))
    *moves, out = (reshape_op(column, shape=(batch, 1, rank)) for column in theta.unbind(2))
    for d, (n, move) in enumerate(zip(size[:1:-1], moves)):
        edge = _edge(n, align_corners)
        axis = linspace(-edge, edge, n, dtype=theta.dtype, device=theta.device)
        if d == 0:                              # x, whose lines then have width * rank elements, many at a time for what is added to them
            out = reshape_op(addcmul(out, reshape_op(axis, shape=(n, 1)), move), shape=(batch, *[1] * (rank - 1), width * rank))
        else:
            move = reshape_op(expand_op(move, shape=(batch, width, rank)), shape=(batch, *[1] * (rank - 1), width * rank))
            out = addcmul(out, reshape_op(axis, shape=(n, *[1] * d)), move)
    return reshape_op(out, shape=(size[0], *size[2:], rank))


@composed(samples=(case((2, 2, 3, 4), (2, 2, 3, 2)), case((1, 2, 3, 4), (1, 3, 2, 2), mode="nearest", align_corners=True),
                   case((1, 1, 3, 4), (1, 2, 2, 2), mode="bicubic", padding_mode="border"),
                   case((1, 2, 2, 3, 4), (1, 2, 1, 3, 3), padding_mode="reflection")),
          numpy=lambda x, grid, mode="bilinear", padding_mode="zeros", align_corners=None: np_grid_sample(
              x, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners)),
          rtol=1e-4, takes={"input": "f", "grid": "=input"}, function=False, method=False)
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:
    """Images at the places (x, y) or (x, y, z) of a grid, in [-1, 1] from edge to edge, or between the centres of the outer pixels with
    `align_corners`. Modes: "bilinear" (of three dimensions, too), "nearest", "bicubic" (of two). Outside are "zeros", or the place is
    moved to the "border", or mirrored there ("reflection").

    Shape: (N, C, H, W) with grid (N, H', W', 2) -> (N, C, H', W'); (N, C, D, H, W) with (N, D', H', W', 3) -> (N, C, D', H', W').
    Raises: ShapeError, ArgumentError, DTypeError; AutogradError for a third derivative.

    >>> volta.nn.functional.grid_sample(volta.tensor([[[[0.0, 1.0]]]]), volta.zeros(1, 1, 1, 2)).item()
    0.5
    """
    if mode not in MODES:
        raise ArgumentError(f"grid_sample: mode must be 'bilinear', 'nearest' or 'bicubic', got {mode!r}")
    if padding_mode not in PADDINGS:
        raise ArgumentError(f"grid_sample: padding_mode must be 'zeros', 'border' or 'reflection', got {padding_mode!r}")
    if align_corners is None:
        _warn_of_corners("grid_sample")
    shape, places = input._shape, grid._shape
    rank = len(shape) - 2
    if rank not in (2, 3) or len(places) != rank + 2 or places[0] != shape[0] or places[-1] != rank or 0 in shape[2:]:
        raise RankError(f"grid_sample: needs images (N, C, H, W) and a grid (N, H', W', 2), or (N, C, D, H, W) and (N, D', H', W', 3), "
                         f"got {input.shape} and {grid.shape}")
    if mode == "bicubic" and rank == 3:
        raise ArgumentError("grid_sample: mode 'bicubic' needs images of two dimensions")
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    if bare(input, grid):
        return run_kernel(grid_sample_op, input.device, (input, grid, None), options)
    if mode == "nearest":
        input, grid = tied(input), tied(grid)
    return grid_sample_op(input, grid, None, **options)
