"""Functions of images: tensors, NumPy arrays and images of Pillow (see `kinds`). A tensor stays where it is; an array is given as one."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from volta._kernels import core
from volta.dtypes import as_dtype, float32, get_default_dtype, iinfo, uint8
from volta.errors import ArgumentError, ShapeError
from volta.nn import functional as F
from volta.ops.copy import clone
from volta.ops.from_data import as_tensor, tensor
from volta.vision.transforms import colour, pillow, tones, warp
from volta.vision.transforms.kinds import (
    InterpolationMode,
    as_mode,
    borders,
    get_dimensions,
    get_image_num_channels,
    get_image_size,
    images,
    is_pil,
    pair,
    to_channels_first,
)

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation",
           "adjust_sharpness", "affine", "autocontrast", "center_crop", "convert_image_dtype", "crop", "elastic_transform", "equalize",
           "erase", "five_crop", "gaussian_blur", "get_dimensions", "get_image_num_channels", "get_image_size", "hflip", "invert",
           "normalize", "pad", "perspective", "pil_to_tensor", "posterize", "resize", "resized_crop", "rgb_to_grayscale", "rotate",
           "solarize", "ten_crop", "to_grayscale", "to_pil_image", "to_tensor", "vflip"]

adjust_brightness, adjust_contrast, adjust_saturation = colour.adjust_brightness, colour.adjust_contrast, colour.adjust_saturation
adjust_hue, rgb_to_grayscale, to_grayscale = colour.adjust_hue, colour.rgb_to_grayscale, colour.rgb_to_grayscale
adjust_gamma, adjust_sharpness, autocontrast, equalize = tones.adjust_gamma, tones.adjust_sharpness, tones.autocontrast, tones.equalize
invert, posterize, solarize = tones.invert, tones.posterize, tones.solarize
affine, elastic_transform, perspective, rotate = warp.affine, warp.elastic_transform, warp.perspective, warp.rotate


# ------------------------------------------------------------ kinds of images
def pil_to_tensor(pic: Any) -> Tensor:
    """Pillow's image as a tensor (channels, height, width) with its numbers unchanged."""
    if not is_pil(pic):
        raise TypeError(f"pil_to_tensor: pic should be PIL Image. Got {type(pic)}")
    return to_channels_first(np.asarray(pic))


def to_tensor(pic: Any) -> Tensor:
    """An image as a tensor (channels, height, width); bytes become numbers from 0 to 1.

    >>> volta.vision.transforms.functional.to_tensor(np.full((1, 2), 255, np.uint8))
    tensor([[[1., 1.]]])
    """
    if not is_pil(pic) and not isinstance(pic, np.ndarray):
        raise TypeError(f"to_tensor: pic should be PIL Image or ndarray. Got {type(pic)}")
    img = to_channels_first(pic if isinstance(pic, np.ndarray) else np.asarray(pic, np.uint8) * np.uint8(255) if pic.mode == "1" else
                            np.asarray(pic))
    return img.to(get_default_dtype()) / 255 if img.dtype is uint8 else img


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor or an array as an image of Pillow; floating-point numbers from 0 to 1 become bytes.

    Raises: ArgumentError for more than 4 channels and for a mode that does not fit; TypeError.
    """
    from PIL import Image
    if not isinstance(pic, (core.TensorBase, np.ndarray)):
        raise TypeError(f"to_pil_image: pic should be Tensor or ndarray. Got {type(pic)}.")
    if pic.ndim not in (2, 3):
        raise ShapeError(f"to_pil_image: pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
    if isinstance(pic, core.TensorBase):
        pic = (pic if pic.ndim == 2 else pic.permute(1, 2, 0)).detach().cpu().numpy()
    pixels = pic.reshape(*pic.shape[:2], -1)
    if pixels.shape[2] > 4:
        raise ArgumentError(f"to_pil_image: pic should not have > 4 channels. Got {pixels.shape[2]} channels.")
    if pixels.dtype.kind == "f" and mode != "F":
        pixels = (pixels * 255).astype(np.int64).astype(np.uint8)           # numbers outside of 0 to 1 wrap on every machine
    found = {np.uint8: "L", np.int16: "I;16", np.int32: "I", np.float32: "F"}.get(pixels.dtype.type)
    modes = {1: [found], 2: ["LA"], 3: ["RGB", "YCbCr", "HSV"], 4: ["RGBA", "CMYK", "RGBX"]}[pixels.shape[2]]
    if mode is not None and mode not in modes:
        raise ArgumentError(f"to_pil_image: mode {mode!r} does not fit {pixels.shape[2]} channels of {pixels.dtype}; possible: {modes}")
    if modes[0] is None or pixels.shape[2] > 1 and pixels.dtype != np.uint8:
        raise TypeError(f"to_pil_image: Input type {pixels.dtype} is not supported")
    pixels = np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    return Image.frombuffer(mode or modes[0], pixels.shape[1::-1], pixels.tobytes(), "raw", mode or modes[0], 0, 1)


def convert_image_dtype(image: Tensor, dtype: Any = float32) -> Tensor:
    """The image with another dtype, its numbers between 0 and the largest of a dtype (1 of a floating one).

    >>> volta.vision.transforms.functional.convert_image_dtype(volta.tensor([255], dtype=volta.uint8))
    tensor([1.])
    """
    dtype = as_dtype(dtype)
    if image.dtype is dtype or image.dtype.is_floating_point and dtype.is_floating_point:
        return image.to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / iinfo(image.dtype).max
    largest = iinfo(dtype).max
    if image.dtype.is_floating_point:
        return (image * (largest + 1 - 1e-3)).to(dtype)
    given = iinfo(image.dtype).max
    return (image // ((given + 1) // (largest + 1))).to(dtype) if given > largest else image.to(dtype) * ((largest + 1) // (given + 1))


# ------------------------------------------------------------ numbers
def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """(tensor - mean) / std for each channel. Raises: TypeError for other images than floating-point tensors; ArgumentError."""
    if not isinstance(tensor, core.TensorBase) or not tensor.dtype.is_floating_point:
        raise TypeError("normalize: img should be Tensor Image of floating point. Got "
                        f"{tensor.dtype if isinstance(tensor, core.TensorBase) else type(tensor)}")
    if tensor.ndim < 3:
        raise ShapeError(f"normalize: Expected tensor to be a tensor image of size (..., C, H, W). Got {tuple(tensor.shape)}")
    middle, spread = (np.asarray(v, np.float64).reshape(-1, 1, 1) for v in (mean, std))
    if not spread.all():
        raise ArgumentError(f"normalize: std evaluated to zero, leading to division by zero; it is {std}")
    middle, spread = (as_tensor(v, dtype=tensor.dtype, device=tensor.device) for v in (middle, spread))
    return tensor.sub_(middle).div_(spread) if inplace else (tensor - middle) / spread


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """The image with the numbers `v` in a rectangle of height h and width w whose upper left corner is (i, j)."""
    if not isinstance(img, core.TensorBase):
        raise TypeError(f"erase: img should be Tensor Image. Got {type(img)}")
    img = img if inplace else clone(img)
    img[..., i:i + h, j:j + w] = v
    return img


# ------------------------------------------------------------ places
@images("hflip", pillow.hflip)
def hflip(img: Any) -> Any:
    """The image with left and right exchanged."""
    return img.flip(-1)


@images("vflip", pillow.vflip)
def vflip(img: Any) -> Any:
    """The image upside down."""
    return img.flip(-2)


@images("pad", pillow.pad)
def pad(img: Any, padding: int | Sequence[int], fill: float | Sequence[float] = 0, padding_mode: str = "constant") -> Any:
    """The image with a border: one width, two (left and right, top and bottom) or four (left, top, right, bottom).

    Raises: ArgumentError for another mode than constant, edge, reflect or symmetric.
    """
    left, top, right, bottom = borders(padding)
    height, width = img.shape[-2:]
    if padding_mode == "constant":
        if isinstance(fill, (tuple, list)) and len(set(fill)) > 1:
            raise TypeError("pad: Got inappropriate fill arg: one number for tensors and arrays")
        value = fill[0] if isinstance(fill, (tuple, list)) else fill or 0
        return F.pad(img, (left, right, top, bottom), value=value)
    if padding_mode not in ("edge", "reflect", "symmetric"):
        raise ArgumentError(f"pad: Padding mode should be either constant, edge, reflect or symmetric, got {padding_mode!r}")
    rows, columns = (as_tensor(np.pad(np.arange(n), sides, padding_mode), device=img.device)
                     for n, sides in ((height, (top, bottom)), (width, (left, right))))
    return img[..., rows, :][..., columns]


@images("crop", pillow.crop)
def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A rectangle of the image; what lies outside of the image is 0."""
    h, w = img.shape[-2:]
    inside = img[..., max(top, 0):max(min(top + height, h), 0), max(left, 0):max(min(left + width, w), 0)]
    outside = (max(-left, 0), max(left + width - max(w, left), 0), max(-top, 0), max(top + height - max(h, top), 0))
    return F.pad(inside, outside) if any(outside) else inside


def center_crop(img: Any, output_size: int | Sequence[int]) -> Any:
    """The middle of the image, with a border of 0 where it is smaller."""
    wanted = pair(output_size)
    _, height, width = get_dimensions(img)
    more = [max(n - m, 0) for n, m in zip(wanted, (height, width))]
    if any(more):
        img = pad(img, [more[1] // 2, more[0] // 2, (more[1] + 1) // 2, (more[0] + 1) // 2])
        _, height, width = get_dimensions(img)
    return crop(img, round((height - wanted[0]) / 2), round((width - wanted[1]) / 2), *wanted)


def five_crop(img: Any, size: int | Sequence[int]) -> tuple[Any, ...]:
    """The four corners (upper left and right, lower left and right) and the middle. Raises: ArgumentError for a larger size."""
    h, w = pair(size)
    _, height, width = get_dimensions(img)
    if h > height or w > width:
        raise ArgumentError(f"five_crop: Requested crop size {(h, w)} is bigger than input size {(height, width)}")
    return (*(crop(img, top, left, h, w) for top in (0, height - h) for left in (0, width - w)), center_crop(img, (h, w)))


def ten_crop(img: Any, size: int | Sequence[int], vertical_flip: bool = False) -> tuple[Any, ...]:
    """`five_crop` of the image and of the flipped image."""
    return five_crop(img, size) + five_crop((vflip if vertical_flip else hflip)(img), size)


def resize(img: Any, size: int | Sequence[int], interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
           max_size: int | None = None, antialias: bool | None = True) -> Any:
    """The image with another height and width; one number is the length of its shorter side, `max_size` then the longest of the other.

    Raises: ArgumentError for sizes that exclude one another.
    """
    _, height, width = get_dimensions(img)
    wanted = [size] if isinstance(size, int) else list(size)
    if len(wanted) not in (1, 2) or max_size is not None and (len(wanted) == 2 or max_size <= wanted[0]):
        raise ArgumentError(f"resize: size must be one number or two, and max_size larger than one number; got {size}, {max_size}")
    if len(wanted) == 1:
        short, long = wanted[0], int(wanted[0] * max(height, width) / min(height, width))
        if max_size is not None and long > max_size:
            short, long = int(max_size * short / long), max_size
        wanted = [long, short] if width <= height else [short, long]
    return img if [height, width] == wanted else _resized(img, tuple(wanted), as_mode(interpolation), antialias)


def resized_crop(img: Any, top: int, left: int, height: int, width: int, size: int | Sequence[int],
                 interpolation: InterpolationMode | int = InterpolationMode.BILINEAR, antialias: bool | None = True) -> Any:
    """`crop`, then `resize`."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


@images("resize", pillow.resize)
def _resized(img, size, mode, antialias):
    if mode.value not in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        raise ArgumentError(f"resize: This interpolation mode is unsupported with Tensor input: {mode.value}")
    whole = img if img.dtype.is_floating_point else img.to(float32)
    smooth = mode.value in ("bilinear", "bicubic")
    batch = whole.reshape(-1, 1, *img.shape[-2:])
    out = F.interpolate(batch, size, mode=mode.value, align_corners=False if smooth else None, antialias=bool(smooth and antialias))
    out = out.reshape(*img.shape[:-2], *size)
    return out if img.dtype is out.dtype else out.round().clamp(0, iinfo(img.dtype).max).to(img.dtype)


def gaussian_blur(img: Any, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None) -> Any:
    """The image smoothed by a Gaussian of `kernel_size` (width, height; odd) pixels. Raises: ArgumentError."""
    sizes = pair(kernel_size)
    sigmas = [0.3 * ((n - 1) * 0.5 - 1) + 0.8 for n in sizes] if sigma is None else [sigma] * 2 if isinstance(sigma, (int, float)) else (
        list(sigma) * (2 // len(sigma)))
    if any(n % 2 == 0 or n < 1 for n in sizes) or any(s <= 0 for s in sigmas):
        raise ArgumentError(f"gaussian_blur: kernel_size should have odd and positive integers and sigma be positive, got {kernel_size}, "
                            f"{sigma}")
    return to_pil_image(_blurred(pil_to_tensor(img), sizes, sigmas), img.mode) if is_pil(img) else _blurred(img, sizes, sigmas)


@images("gaussian_blur")
def _blurred(img, sizes, sigmas):
    columns, rows = (np.exp(-0.5 * (np.arange(n) - (n - 1) / 2) ** 2 / s ** 2) for n, s in zip(sizes, sigmas))
    kernel = np.outer(rows / rows.sum(), columns / columns.sum())
    whole = (img if img.dtype.is_floating_point else img.to(float32)).reshape(-1, 1, *img.shape[-2:])
    padded = F.pad(whole, (sizes[0] // 2, sizes[0] // 2, sizes[1] // 2, sizes[1] // 2), mode="reflect")
    out = F.conv2d(padded, tensor(kernel[None, None], dtype=whole.dtype, device=img.device)).reshape(img.shape)
    return out if img.dtype is out.dtype else out.round().to(img.dtype)
