"""Images as files, under the names of torchvision.io, by Pillow."""
from __future__ import annotations

import io
import os
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import uint8
from volta.errors import ArgumentError
from volta.ops.from_data import tensor
from volta.vision.transforms.functional import pil_to_tensor, to_pil_image

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["ImageReadMode", "decode_image", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png", "read_file", "read_image",
           "write_file", "write_jpeg", "write_png"]


class ImageReadMode(Enum):
    """The channels that an image is given: those of its file, or these."""
    UNCHANGED, GRAY, GRAY_ALPHA, RGB, RGB_ALPHA = range(5)


_MODES = {ImageReadMode.GRAY: "L", ImageReadMode.GRAY_ALPHA: "LA", ImageReadMode.RGB: "RGB", ImageReadMode.RGB_ALPHA: "RGBA"}


def read_file(path: str | os.PathLike[str]) -> Tensor:
    """The bytes of a file."""
    with open(path, "rb") as file:
        return tensor(np.frombuffer(file.read(), np.uint8))


def write_file(filename: str | os.PathLike[str], data: Tensor) -> None:
    """Write bytes to a file."""
    with open(filename, "wb") as file:
        file.write(data.numpy().tobytes())


def decode_image(input: Tensor | str | os.PathLike[str], mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
                 apply_exif_orientation: bool = False) -> Tensor:
    """The image (channels, height, width) of bytes or of a file: numbers from 0 to 255.

    Raises: ArgumentError for another mode.
    """
    from PIL import Image, ImageOps
    if not isinstance(mode, ImageReadMode) and mode.upper() not in ImageReadMode.__members__:
        raise ArgumentError(f"decode_image: mode must be one of {', '.join(ImageReadMode.__members__)}, got {mode!r}")
    mode = mode if isinstance(mode, ImageReadMode) else ImageReadMode[mode.upper()]
    with Image.open(input if isinstance(input, (str, os.PathLike)) else io.BytesIO(input.numpy().tobytes())) as file:
        image = ImageOps.exif_transpose(file) if apply_exif_orientation else file
        wanted = _MODES.get(mode, {"P": "RGBA" if "transparency" in image.info else "RGB", "1": "L"}.get(image.mode, image.mode))
        return pil_to_tensor(image if image.mode == wanted else image.convert(wanted))


read_image = decode_png = decode_jpeg = decode_image


def _encoded(name, input, **options):
    if input.dtype is not uint8 or input.ndim != 3 or input.shape[0] not in (1, 3):
        raise ArgumentError(f"{name}: needs a uint8 image of 1 or 3 channels, got {input.dtype} of shape {tuple(input.shape)}")
    file = io.BytesIO()
    to_pil_image(input).save(file, **options)
    return tensor(np.frombuffer(file.getvalue(), np.uint8))


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """The bytes of a PNG file of an image (1 or 3 channels, height, width) of uint8. Raises: ArgumentError for another."""
    return _encoded("encode_png", input, format="PNG", compress_level=compression_level)


def encode_jpeg(input: Tensor, quality: int = 75) -> Tensor:
    """The bytes of a JPEG file of an image (1 or 3 channels, height, width) of uint8. Raises: ArgumentError for another."""
    return _encoded("encode_jpeg", input, format="JPEG", quality=quality)


def write_png(input: Tensor, filename: str | os.PathLike[str], compression_level: int = 6) -> None:
    """Write an image as a PNG file."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: Tensor, filename: str | os.PathLike[str], quality: int = 75) -> None:
    """Write an image as a JPEG file."""
    write_file(filename, encode_jpeg(input, quality))
