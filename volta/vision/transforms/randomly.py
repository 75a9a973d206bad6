"""Transforms that draw, from Volta's default generator, on the CPU: the same on every machine."""
from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from volta._kernels import core
from volta.errors import ArgumentError
from volta.ops.creation import rand, randint, randn, randperm
from volta.ops.from_data import tensor
from volta.ops.join import cat
from volta.vision.transforms import functional as T
from volta.vision.transforms.functional import InterpolationMode
from volta.vision.transforms.plain import Compose, Several, Transform, uniform


def integer(low: int, high: int) -> int:
    return randint(low, high, (1,), device="cpu").item()


class _Sometimes(Transform):
    """A transform that is applied with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return self.apply_to(img) if uniform() < self.p else img

    def apply_to(self, img: Any) -> Any:
        raise NotImplementedError


class RandomHorizontalFlip(_Sometimes):
    """Left and right exchanged, with probability p."""
    apply_to = staticmethod(T.hflip)


class RandomVerticalFlip(_Sometimes):
    """Upside down, with probability p."""
    apply_to = staticmethod(T.vflip)


class RandomGrayscale(_Sometimes):
    """In grey, with probability p, in as many channels as before."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def apply_to(self, img: Any) -> Any:
        return T.rgb_to_grayscale(img, T.get_image_num_channels(img))


class RandomInvert(_Sometimes):
    """The negative, with probability p."""
    apply_to = staticmethod(T.invert)


class RandomAutocontrast(_Sometimes):
    """Stretched from black to white, with probability p."""
    apply_to = staticmethod(T.autocontrast)


class RandomEqualize(_Sometimes):
    """Equalised, with probability p."""
    apply_to = staticmethod(T.equalize)


class RandomPosterize(_Sometimes):
    """With only the upper bits of each byte, with probability p."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def apply_to(self, img: Any) -> Any:
        return T.posterize(img, self.bits)


class RandomSolarize(_Sometimes):
    """With numbers from a threshold on inverted, with probability p."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def apply_to(self, img: Any) -> Any:
        return T.solarize(img, self.threshold)


class RandomAdjustSharpness(_Sometimes):
    """Sharper by a factor, with probability p."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def apply_to(self, img: Any) -> Any:
        return T.adjust_sharpness(img, self.sharpness_factor)


class RandomPerspective(_Sometimes):
    """In a drawn perspective, with probability p: each corner moves by up to `distortion_scale` of half the image."""

    def __init__(self, distortion_scale: float = 0.5, p: float = 0.5, interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
                 fill: float | Sequence[float] = 0) -> None:
        super().__init__(p)
        self.distortion_scale, self.interpolation, self.fill = distortion_scale, T.as_mode(interpolation), fill

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """Corners before and after."""
        sizes = (width, height)
        least = [int(distortion_scale * (n // 2)) for n in sizes]
        corners = [(0, 0), (1, 0), (1, 1), (0, 1)]
        ends = [[integer(n - m - 1, n) if far else integer(0, m + 1) for far, n, m in zip(corner, sizes, least)] for corner in corners]
        return [[far * (n - 1) for far, n in zip(corner, sizes)] for corner in corners], ends

    def apply_to(self, img: Any) -> Any:
        _, height, width = T.get_dimensions(img)
        return T.perspective(img, *self.get_params(width, height, self.distortion_scale), self.interpolation, self.fill)


class ElasticTransform(Transform):
    """Pixels displaced by smooth noise: by up to `alpha` pixels, as smooth as `sigma`."""

    def __init__(self, alpha: float | Sequence[float] = 50.0, sigma: float | Sequence[float] = 5.0,
                 interpolation: InterpolationMode | int = InterpolationMode.BILINEAR, fill: float | Sequence[float] = 0) -> None:
        super().__init__()
        self.alpha, self.sigma = ([float(v)] * 2 if isinstance(v, (int, float)) else list(v) for v in (alpha, sigma))
        if len(self.alpha) != 2 or len(self.sigma) != 2:
            raise ArgumentError(f"ElasticTransform: alpha and sigma should be numbers or two of them, got {alpha} and {sigma}")
        self.interpolation, self.fill = T.as_mode(interpolation), [float(v) for v in (fill if isinstance(fill, (list, tuple)) else [fill])]

    @staticmethod
    def get_params(alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> Any:
        """A displacement of each pixel."""
        moves = []
        for amount, smooth, length in zip(alpha, sigma, size[::-1]):
            noise = rand(1, 1, *size, device="cpu") * 2 - 1
            moves.append((T.gaussian_blur(noise, int(8 * smooth + 1) | 1, [smooth, smooth]) if smooth > 0 else noise) * amount / length)
        return cat(moves, 1).permute(0, 2, 3, 1)

    def forward(self, tensor: Any) -> Any:
        return T.elastic_transform(tensor, self.get_params(self.alpha, self.sigma, T.get_dimensions(tensor)[1:]), self.interpolation,
                                   self.fill)


class RandomApply(Several):
    """Transforms one after the other, with probability p all of them."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5) -> None:
        super().__init__(transforms)
        self.p = p

    def forward(self, img: Any) -> Any:
        return Compose(self.transforms)(img) if uniform() <= self.p else img


class RandomOrder(Several):
    """Transforms in an order that is drawn."""

    def forward(self, img: Any) -> Any:
        return Compose([self.transforms[i] for i in randperm(len(self.transforms), device="cpu").tolist()])(img)


class RandomChoice(Several):
    """One of some transforms, by the weights p."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None) -> None:
        super().__init__(transforms)
        if p is not None and len(p) != len(transforms):
            raise ArgumentError(f"RandomChoice: p needs a weight for each of {len(transforms)} transforms, got {len(p)}")
        self.p = p

    def forward(self, img: Any) -> Any:
        weights = [1.0] * len(self.transforms) if self.p is None else self.p
        bounds = list(itertools.accumulate(weights))
        return self.transforms[min(bisect.bisect_right(bounds, uniform(0, bounds[-1])), len(bounds) - 1)](img)


class RandomCrop(Transform):
    """A rectangle of this size anywhere in the image, which gets a border before.

    Raises: ArgumentError for an image that is smaller, unless `pad_if_needed`.
    """

    def __init__(self, size: int | Sequence[int], padding: int | Sequence[int] | None = None, pad_if_needed: bool = False,
                 fill: float | Sequence[float] = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        self.size, self.padding, self.pad_if_needed = T.pair(size), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a rectangle."""
        _, height, width = T.get_dimensions(img)
        h, w = output_size
        if h > height or w > width:
            raise ArgumentError(f"RandomCrop: Required crop size {(h, w)} is larger than input image size {(height, width)}")
        if (h, w) == (height, width):
            return 0, 0, h, w
        return integer(0, height - h + 1), integer(0, width - w + 1), h, w

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = T.pad(img, self.padding, self.fill, self.padding_mode)
        for axis in (1, 0) if self.pad_if_needed else ():
            lacking = self.size[axis] - T.get_dimensions(img)[1 + axis]
            if lacking > 0:
                img = T.pad(img, (lacking, 0) if axis else (0, lacking), self.fill, self.padding_mode)
        return T.crop(img, *self.get_params(img, self.size))


def _rectangle(height: int, width: int, scale: Sequence[float], ratio: Sequence[float]) -> tuple[float, float]:
    """Height and width of a rectangle with a drawn part of an area and a drawn ratio of its sides (not rounded)."""
    area = height * width * uniform(*scale)
    sides = math.exp(uniform(*(math.log(r) for r in ratio)))
    return math.sqrt(area / sides), math.sqrt(area * sides)


class RandomResizedCrop(Transform):
    """A rectangle with a drawn part of the area and a drawn ratio of its sides, resized."""

    def __init__(self, size: int | Sequence[int], scale: Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (3 / 4, 4 / 3),
                 interpolation: InterpolationMode | int = InterpolationMode.BILINEAR, antialias: bool | None = True) -> None:
        super().__init__()
        _check_bounds("RandomResizedCrop", scale, ratio)
        self.size, self.scale, self.ratio = T.pair(size), tuple(scale), tuple(ratio)
        self.interpolation, self.antialias = T.as_mode(interpolation), antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a rectangle."""
        _, height, width = T.get_dimensions(img)
        for _ in range(10):
            h, w = (round(n) for n in _rectangle(height, width, scale, ratio))
            if 0 < h <= height and 0 < w <= width:
                return integer(0, height - h + 1), integer(0, width - w + 1), h, w
        h = round(width / min(ratio)) if width / height < min(ratio) else height
        w = round(height * max(ratio)) if width / height > max(ratio) else width
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        return T.resized_crop(img, *self.get_params(img, self.scale, self.ratio), self.size, self.interpolation, self.antialias)


class RandomErasing(_Sometimes):
    """A rectangle of a tensor overwritten, with probability p, by a number, one for each channel, or "random" ones."""

    def __init__(self, p: float = 0.5, scale: Sequence[float] = (0.02, 0.33), ratio: Sequence[float] = (0.3, 3.3),
                 value: float | str | Sequence[float] = 0, inplace: bool = False) -> None:
        super().__init__(p)
        _check_bounds("RandomErasing", scale, ratio)
        if not 0 <= p <= 1 or isinstance(value, str) and value != "random":
            raise ArgumentError(f"RandomErasing: p should be between 0 and 1 and value numbers or 'random', got {p} and {value!r}")
        self.scale, self.ratio, self.value, self.inplace = scale, ratio, value, inplace

    def apply_to(self, img: Any) -> Any:
        if not isinstance(img, core.TensorBase):
            raise TypeError(f"RandomErasing: img should be Tensor Image. Got {type(img)}")
        channels, height, width = img.shape[-3:]
        values = [self.value] if isinstance(self.value, (int, float)) else self.value
        if not isinstance(values, str) and len(values) not in (1, channels):
            raise ArgumentError(f"RandomErasing: value should be a single one or one for each of {channels} channels, got {values}")
        for _ in range(10):
            w, h = (round(n) for n in _rectangle(height, width, self.scale, self.ratio))
            if h < height and w < width:
                fill = (randn(channels, h, w, device=img.device) if isinstance(values, str) else
                        tensor(values, device=img.device)[:, None, None])
                return T.erase(img, integer(0, height - h + 1), integer(0, width - w + 1), h, w, fill.to(img.dtype), self.inplace)
        return img


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed in a drawn order by drawn factors: 1 - v to 1 + v (hue: -v to v), or bounds."""

    def __init__(self, brightness: float | Sequence[float] = 0, contrast: float | Sequence[float] = 0,
                 saturation: float | Sequence[float] = 0, hue: float | Sequence[float] = 0) -> None:
        super().__init__()
        self.brightness, self.contrast, self.saturation = (
            _factors(name, value, 1, (0, math.inf)) for name, value in (("brightness", brightness), ("contrast", contrast),
                                                                       ("saturation", saturation)))
        self.hue = _factors("hue", hue, 0, (-0.5, 0.5))

    def forward(self, img: Any) -> Any:
        steps = [(T.adjust_brightness, self.brightness), (T.adjust_contrast, self.contrast), (T.adjust_saturation, self.saturation),
                 (T.adjust_hue, self.hue)]
        factors = [None if bounds is None else uniform(*bounds) for _, bounds in steps]
        for i in randperm(4, device="cpu").tolist():
            img = img if factors[i] is None else steps[i][0](img, factors[i])
        return img


class RandomRotation(Transform):
    """Turned by an angle between two bounds, or up to one number of degrees in both directions."""

    def __init__(self, degrees: float | Sequence[float], interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
                 expand: bool = False, center: Sequence[int] | None = None, fill: float | Sequence[float] = 0) -> None:
        super().__init__()
        self.degrees, self.interpolation = _angles("degrees", degrees), T.as_mode(interpolation)
        self.expand, self.center, self.fill = expand, center, fill

    def forward(self, img: Any) -> Any:
        return T.rotate(img, uniform(*self.degrees), self.interpolation, self.expand, self.center, self.fill)


class RandomAffine(Transform):
    """Turned, moved by up to parts of its size, scaled and sheared, all drawn."""

    def __init__(self, degrees: float | Sequence[float], translate: Sequence[float] | None = None, scale: Sequence[float] | None = None,
                 shear: float | Sequence[float] | None = None, interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
                 fill: float | Sequence[float] = 0, center: Sequence[int] | None = None) -> None:
        super().__init__()
        if any(not 0 <= t <= 1 for t in translate or ()) or any(s <= 0 for s in scale or ()):
            raise ArgumentError("RandomAffine: translation values should be between 0 and 1 and scale values positive, got "
                                f"{translate} and {scale}")
        self.degrees, self.translate, self.scale = _angles("degrees", degrees), translate, scale
        self.shear = None if shear is None else _angles("shear", shear)
        self.interpolation, self.fill, self.center = T.as_mode(interpolation), fill, center

    def forward(self, img: Any) -> Any:
        _, height, width = T.get_dimensions(img)
        angle = uniform(*self.degrees)
        moved = [round(uniform(-part * n, part * n)) for part, n in zip(self.translate or (0, 0), (width, height))]
        scale = uniform(*self.scale) if self.scale else 1.0
        shear = [uniform(*(self.shear or ())[i:i + 2]) if len(self.shear or ()) > i else 0.0 for i in (0, 2)]
        return T.affine(img, angle, moved, scale, shear, self.interpolation, self.fill, self.center)


def _angles(name, degrees):
    """Bounds of angles."""
    if isinstance(degrees, (int, float)):
        if degrees < 0:
            raise ArgumentError(f"If {name} is a single number, it must be positive, got {degrees}")
        return (-float(degrees), float(degrees))
    if len(degrees) not in ((2, 4) if name == "shear" else (2,)):
        raise ArgumentError(f"{name} should be a number or a sequence of length 2, got {degrees}")
    return tuple(float(d) for d in degrees)


def _factors(name, value, middle, bound):
    """Bounds of a factor; None where nothing would change."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ArgumentError(f"ColorJitter: If {name} is a single number, it must be non negative, got {value}")
        value = (max(middle - value, bound[0]) if middle else -value, middle + value)
    low, high = (float(v) for v in value)
    if not bound[0] <= low <= high <= bound[1]:
        raise ArgumentError(f"ColorJitter: {name} values should be between {bound}, but got {(low, high)}")
    return None if low == high == middle else (low, high)


def _check_bounds(name, scale, ratio):
    if scale[0] > scale[1] or ratio[0] > ratio[1] or scale[0] < 0 or ratio[0] <= 0:
        raise ArgumentError(f"{name}: Scale and ratio should be of kind (min, max) and positive, got {scale} and {ratio}")
