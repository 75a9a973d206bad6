"""Brightness, contrast, saturation, hue and grey of images."""
from __future__ import annotations

from typing import Any

from volta.dtypes import float32, iinfo
from volta.errors import ArgumentError
from volta.ops.join import cat, stack
from volta.ops.math import where
from volta.vision.transforms import pillow
from volta.vision.transforms.kinds import images


@images("rgb_to_grayscale", pillow.rgb_to_grayscale)
def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The image in grey, in 1 channel or 3 equal ones. Raises: TypeError for another number of channels than 1 or 3; ArgumentError."""
    check_channels(img)
    if num_output_channels not in (1, 3):
        raise ArgumentError(f"rgb_to_grayscale: num_output_channels should be either 1 or 3, got {num_output_channels}")
    if img.shape[-3] == 3:
        red, green, blue = img.to(float32 if not img.dtype.is_floating_point else img.dtype).unbind(-3)
        img = (0.2989 * red + 0.587 * green + 0.114 * blue).to(img.dtype).unsqueeze(-3)
    return img if num_output_channels == 1 or img.shape[-3] == 3 else cat([img] * 3, -3)


@images("adjust_brightness", pillow.adjust_brightness)
def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """The image brighter by a factor: 0 is black, 1 the image."""
    return blend("brightness_factor", img, 0, brightness_factor)


@images("adjust_contrast", pillow.adjust_contrast)
def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """The image with its contrast multiplied by a factor: 0 is plain grey, 1 the image."""
    grey = rgb_to_grayscale(img)
    mean = (grey if img.dtype.is_floating_point else grey.to(float32)).mean((-3, -2, -1), keepdim=True)
    return blend("contrast_factor", img, mean, contrast_factor)


@images("adjust_saturation", pillow.adjust_saturation)
def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """The image with its colours stronger by a factor: 0 is grey, 1 the image."""
    return img if img.ndim > 2 and img.shape[-3] == 1 else blend("saturation_factor", img, rgb_to_grayscale(img), saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """The image with its hues turned by a part of the circle, from -0.5 to 0.5. Raises: ArgumentError."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ArgumentError(f"adjust_hue: hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    return _turned(img, hue_factor)


@images("adjust_hue", pillow.adjust_hue)
def _turned(img, hue_factor):
    check_channels(img)
    if img.shape[-3] == 1:
        return img
    scale = 1 if img.dtype.is_floating_point else iinfo(img.dtype).max
    whole = img if scale == 1 else img.to(float32) / scale
    red, green, blue = whole.unbind(-3)
    high, low = whole.amax(-3), whole.amin(-3)
    spread = high - low
    divisor = spread + (spread == 0)
    saturation = spread / (high + (spread == 0) * (1 - high))
    hue = where(high == red, (green - blue) / divisor,
                where(high == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor)) / 6
    hue = (hue + 1 + hue_factor) % 1
    # a channel is as high as the circle is near its colour
    channels = []
    for place in (5, 3, 1):
        k = (place + hue * 6) % 6
        channels.append(high - high * saturation * k.minimum(4 - k).clamp(0, 1))
    out = stack(channels, -3)
    return out if scale == 1 else (out * (scale + 1 - 1e-3)).to(img.dtype)


def check_channels(img: Any) -> None:
    """Raise TypeError for an image tensor of other than 1 or 3 channels."""
    if img.ndim < 3 or img.shape[-3] not in (1, 3):
        raise TypeError("Input image tensor permitted channel values are [1, 3], but found "
                        f"{img.shape[-3] if img.ndim > 2 else f'{img.ndim} dimensions'}")


def blend(name: str, img: Any, other: Any, factor: float) -> Any:
    """`factor` parts of the image and the rest of the other, within what the dtype's images hold."""
    check_channels(img)
    if factor < 0:
        raise ArgumentError(f"{name} ({factor}) is not non-negative.")
    whole = img.dtype.is_floating_point
    mixed = factor * (img if whole else img.to(float32)) + (1.0 - factor) * other
    return mixed.clamp(0, 1 if whole else iinfo(img.dtype).max).to(img.dtype)
