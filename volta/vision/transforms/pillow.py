"""Transforms of Pillow's images by Pillow. Called with such images only, so Pillow is there."""
from __future__ import annotations

from typing import Any

import numpy as np

from volta.errors import ArgumentError
from volta.vision.transforms.kinds import borders


def fill_of(fill, img) -> Any:
    """What Pillow takes as colour of an image. Raises: ArgumentError for another number of channels."""
    channels, fill = len(img.getbands()), 0 if fill is None else fill
    colours = list(fill) if isinstance(fill, (list, tuple)) else [fill]
    if len(colours) not in (1, channels):
        raise ArgumentError(f"the number of elements in 'fill' does not match the number of channels of the image ({len(colours)} != "
                            f"{channels})")
    colours = [c if img.mode == "F" else int(c) for c in (colours * channels if len(colours) == 1 else colours)]
    return colours[0] if channels == 1 else tuple(colours)


def hflip(img):
    from PIL import ImageOps
    return ImageOps.mirror(img)


def vflip(img):
    from PIL import ImageOps
    return ImageOps.flip(img)


def crop(img, top, left, height, width):
    return img.crop((left, top, left + width, top + height))


def pad(img, padding, fill=0, padding_mode="constant"):
    from PIL import Image, ImageOps
    left, top, right, bottom = borders(padding)
    if padding_mode == "constant":
        return ImageOps.expand(img, (left, top, right, bottom), fill=fill_of(fill, img))
    pixels = np.asarray(img)
    padded = Image.fromarray(np.pad(pixels, ((top, bottom), (left, right), (0, 0))[:pixels.ndim], padding_mode))
    if img.mode == "P":
        padded.putpalette(img.getpalette())
    return padded


def resize(img, size, interpolation, antialias=True):
    from PIL import Image
    return img.resize(size[::-1], Image.Resampling[interpolation.name.replace("NEAREST_EXACT", "NEAREST")])


def rotate(img, angle, interpolation, expand=False, center=None, fill=None):
    from PIL import Image
    return img.rotate(angle, Image.Resampling[interpolation.name], expand, center, fillcolor=fill_of(fill, img))


def affine(img, matrix, interpolation, fill=None):
    from PIL import Image
    return img.transform(img.size, Image.Transform.AFFINE, matrix, Image.Resampling[interpolation.name], fillcolor=fill_of(fill, img))


def perspective(img, numbers, interpolation, fill=None):
    from PIL import Image
    return img.transform(img.size, Image.Transform.PERSPECTIVE, list(numbers), Image.Resampling[interpolation.name],
                         fillcolor=fill_of(fill, img))


def through_arrays(function):
    """A function of arrays for Pillow's images."""
    def changed(img, *args, **options):
        from PIL import Image
        return Image.fromarray(function(np.asarray(img), *args, **options), img.mode)
    return changed


def _operation(name):
    def operation(img, *args):
        from PIL import ImageOps
        return getattr(ImageOps, name)(img, *args)
    return operation


invert, posterize, solarize, autocontrast, equalize = (_operation(name) for name in (
    "invert", "posterize", "solarize", "autocontrast", "equalize"))


def adjust_gamma(img, gamma, gain=1):
    table = [int((255 + 1 - 1e-3) * gain * pow(value / 255.0, gamma)) for value in range(256)] * 3
    return img.convert("RGB").point(table).convert(img.mode)


def _enhance(name):
    def enhance(img, factor):
        from PIL import ImageEnhance
        return getattr(ImageEnhance, name)(img).enhance(factor)
    return enhance


adjust_brightness, adjust_contrast, adjust_saturation, adjust_sharpness = (
    _enhance(name) for name in ("Brightness", "Contrast", "Color", "Sharpness"))


def adjust_hue(img, hue_factor):
    from PIL import Image
    if img.mode in ("L", "1", "I", "F"):
        return img
    h, s, v = img.convert("HSV").split()
    turned = np.array(h, np.uint8) + np.int32(hue_factor * 255).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert(img.mode)


def rgb_to_grayscale(img, num_output_channels=1):
    from PIL import Image
    if num_output_channels not in (1, 3):
        raise ArgumentError(f"rgb_to_grayscale: num_output_channels should be either 1 or 3, got {num_output_channels}")
    grey = img.convert("L")
    return Image.merge("RGB", (grey,) * 3) if num_output_channels == 3 else grey
