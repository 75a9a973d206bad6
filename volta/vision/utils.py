"""Grids of images and image files. PNG is written here; other formats need Pillow."""
from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from volta._kernels import core
from volta.autograd import no_grad
from volta.dtypes import uint8
from volta.errors import ArgumentError
from volta.nn import functional as F
from volta.ops.creation import full
from volta.ops.join import cat, stack

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["make_grid", "save_image"]


@no_grad()
def make_grid(tensor: Tensor | Sequence[Tensor], nrow: int = 8, padding: int = 2, normalize: bool = False,
              value_range: tuple[float, float] | None = None, scale_each: bool = False, pad_value: float = 0.0) -> Tensor:
    """Images (n, channels, height, width), or a list of them, side by side in rows of `nrow`; grey ones get 3 channels.

    `normalize` brings `value_range`, or the least and largest number (`scale_each`: of each image), to 0 and 1.

    >>> volta.vision.utils.make_grid(volta.ones(3, 1, 4, 4), nrow=2).shape
    volta.Size([3, 14, 14])
    """
    if not isinstance(tensor, core.TensorBase):
        if not isinstance(tensor, (list, tuple)) or not all(isinstance(t, core.TensorBase) for t in tensor):
            raise TypeError(f"make_grid: tensor or list of tensors expected, got {type(tensor)}")
        tensor = stack(list(tensor))
    if not 2 <= tensor.ndim <= 4:
        raise ArgumentError(f"make_grid: needs images of 2 to 4 dimensions, got {tuple(tensor.shape)}")
    images = tensor.reshape((1,) * (4 - tensor.ndim) + tuple(tensor.shape))
    if images.shape[1] == 1:
        images = cat([images] * 3, 1)
    if normalize:
        axes = (1, 2, 3) if scale_each else (0, 1, 2, 3)
        low, high = value_range or (images.amin(axes, keepdim=True), images.amax(axes, keepdim=True))
        spread = max(high - low, 1e-5) if value_range else (high - low).clamp(min=1e-5)
        images = (images.clamp(low, high) - low) / spread
    count, channels, height, width = images.shape
    if count == 1:
        return images[0]
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    tiles = F.pad(images, (padding, 0, padding, 0), value=pad_value)
    if rows * columns > count:
        rest = full((rows * columns - count, *tiles.shape[1:]), pad_value, dtype=images.dtype, device=images.device)
        tiles = cat([tiles, rest])
    grid = tiles.reshape(rows, columns, channels, height + padding, width + padding).permute(2, 0, 3, 1, 4)
    return F.pad(grid.reshape(channels, rows * (height + padding), columns * (width + padding)), (0, padding, 0, padding), value=pad_value)


@no_grad()
def save_image(tensor: Tensor | Sequence[Tensor], fp: str | os.PathLike[str] | Any, format: str | None = None, **kwargs: Any) -> None:
    """Write images, numbers from 0 to 1, as one picture (`make_grid`, which the other arguments are for) to a path or a file.

    Raises: ModuleNotFoundError for another format than PNG without Pillow.
    """
    grid = make_grid(tensor, **kwargs)
    pixels = (grid * 255 + 0.5).clamp(0, 255).permute(1, 2, 0).to(device="cpu", dtype=uint8).numpy()
    suffix = format or os.path.splitext(os.fspath(fp) if isinstance(fp, (str, os.PathLike)) else getattr(fp, "name", ""))[1].lstrip(".")
    if suffix.lower() == "png":
        data = png(pixels)
        if hasattr(fp, "write"):
            fp.write(data)
        else:
            with open(fp, "wb") as file:
                file.write(data)
    else:
        from PIL import Image
        Image.fromarray(pixels).save(fp, format=format)


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """The PNG file of bytes (height, width, channels): 1 grey, 2 with opacity, 3 red, green and blue, 4 with opacity."""
    height, width, channels = pixels.shape
    if channels > 4 or not pixels.size:
        raise ArgumentError(f"save_image: needs 1 to 4 channels and an area, got {pixels.shape}")

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1)        # each begins with its filter: none
    header = struct.pack(">IIBBBBB", width, height, 8, (0, 4, 2, 6)[channels - 1], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)) + chunk(b"IEND", b"")
