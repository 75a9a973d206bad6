"""What an image is: a tensor (..., channels, height, width), a NumPy array (height, width[, channels]), or an image of Pillow."""
from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from volta._kernels import core
from volta.errors import ArgumentError, ShapeError
from volta.ops.from_data import as_tensor

if TYPE_CHECKING:
    from volta.tensor import Tensor


class InterpolationMode(enum.Enum):
    """How pixels between pixels are found; the last three for Pillow's images only."""
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PILLOWS_NUMBERS = dict(enumerate(("NEAREST", "LANCZOS", "BILINEAR", "BICUBIC", "BOX", "HAMMING")))


def as_mode(interpolation: InterpolationMode | int) -> InterpolationMode:
    """The mode, which may be Pillow's number for it. Raises: TypeError."""
    if isinstance(interpolation, int) and interpolation in _PILLOWS_NUMBERS:
        return InterpolationMode[_PILLOWS_NUMBERS[interpolation]]
    if not isinstance(interpolation, InterpolationMode):
        raise TypeError("Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant, got "
                        f"{interpolation!r}")
    return interpolation


def is_pil(img: object) -> bool:
    """Whether it is an image of Pillow. Pillow need not be there to say no."""
    return any(kind.__module__ == "PIL.Image" for kind in type(img).__mro__)


def to_channels_first(array: np.ndarray[Any, Any]) -> Tensor:
    """The tensor (channels, height, width) of an array, a copy. Raises: ShapeError."""
    if array.ndim not in (2, 3):
        raise ShapeError(f"an image that is an array should be 2/3 dimensional. Got {array.ndim} dimensions.")
    return as_tensor(np.array(np.moveaxis(array.reshape(*array.shape[:2], -1), 2, 0), order="C"), device="cpu")


def to_channels_last(t: Tensor, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array of a tensor (channels, height, width), with the dtype of `like`, and without channels where it has none."""
    array = np.moveaxis(t.numpy(), 0, 2).astype(like.dtype)
    return array[..., 0] if like.ndim == 2 and array.shape[2] == 1 else np.ascontiguousarray(array)


def images(name: str, pil: Callable[..., Any] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function of tensors that takes all kinds of images: `pil` is that for Pillow's, else these pass through arrays."""
    def decorate(function):
        @functools.wraps(function)
        def image_function(img, *args, **kwargs):
            if isinstance(img, core.TensorBase):
                if img.ndim < 2:
                    raise TypeError(f"{name}: Tensor is not a torch image: it needs 2 dimensions or more, got {img.ndim}")
                return function(img, *args, **kwargs)
            if is_pil(img):
                return pil(img, *args, **kwargs)
            if isinstance(img, np.ndarray):
                return to_channels_last(function(to_channels_first(img), *args, **kwargs), img)
            raise TypeError(f"{name}: img should be PIL Image, ndarray or Tensor. Got {type(img)}")
        return image_function
    return decorate


def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width of an image."""
    if is_pil(img):
        return [len(img.getbands()), img.height, img.width]
    if isinstance(img, np.ndarray):
        return [img.shape[2] if img.ndim == 3 else 1, *img.shape[:2]]
    if not isinstance(img, core.TensorBase):
        raise TypeError(f"get_dimensions: Unexpected type {type(img)}")
    return [img.shape[-3] if img.ndim > 2 else 1, *img.shape[-2:]]


def get_image_size(img: Any) -> list[int]:
    """Width and height of an image."""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    """Channels of an image."""
    return get_dimensions(img)[0]


def borders(padding: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a padding given as one number, two or four. Raises: ArgumentError."""
    if not isinstance(padding, (int, tuple, list)):
        raise TypeError(f"pad: Got inappropriate padding arg {padding!r}")
    sides = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(sides) not in (1, 2, 4):
        raise ArgumentError(f"pad: Padding must be an int or a 1, 2, or 4 element tuple, not a {len(sides)} element tuple")
    return sides * (4 // len(sides))


def pair(size: int | Sequence[int]) -> tuple[int, int]:
    """Two numbers, of one or two. Raises: ArgumentError."""
    both = (size, size) if isinstance(size, int) else tuple(size) * 2 if len(size) == 1 else tuple(size)
    if len(both) != 2:
        raise ArgumentError(f"Please provide only two dimensions (h, w) for size, got {size}")
    return both
