"""Augmentations of which a policy or chance chooses kind and strength. Images of bytes, or of Pillow."""
from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from volta.dtypes import float32
from volta.errors import ArgumentError
from volta.vision.transforms import functional as T
from volta.vision.transforms.functional import InterpolationMode
from volta.vision.transforms.kinds import is_pil, to_channels_first, to_channels_last
from volta.vision.transforms.plain import Transform, uniform
from volta.vision.transforms.randomly import integer

Fill = float | Sequence[float] | None


class AutoAugmentPolicy(enum.Enum):
    """For which dataset AutoAugment's policy was found."""
    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


# Pairs of steps: a name, the probability of the step, and its strength from 0 to 9.
# Source: Cubuk et al., "AutoAugment: Learning Augmentation Strategies from Data", CVPR 2019, tables 7 to 9.
_POLICIES = {
    AutoAugmentPolicy.IMAGENET: (
        "Posterize:0.4:8 Rotate:0.6:9, Solarize:0.6:5 AutoContrast:0.6:0, Equalize:0.8:0 Equalize:0.6:0, "
        "Posterize:0.6:7 Posterize:0.6:6, Equalize:0.4:0 Solarize:0.2:4, Equalize:0.4:0 Rotate:0.8:8, "
        "Solarize:0.6:3 Equalize:0.6:0, Posterize:0.8:5 Equalize:1.0:0, Rotate:0.2:3 Solarize:0.6:8, "
        "Equalize:0.6:0 Posterize:0.4:6, Rotate:0.8:8 Color:0.4:0, Rotate:0.4:9 Equalize:0.6:0, Equalize:0.0:0 Equalize:0.8:0, "
        "Invert:0.6:0 Equalize:1.0:0, Color:0.6:4 Contrast:1.0:8, Rotate:0.8:8 Color:1.0:2, Color:0.8:8 Solarize:0.8:7, "
        "Sharpness:0.4:7 Invert:0.6:0, ShearX:0.6:5 Equalize:1.0:0, Color:0.4:0 Equalize:0.6:0, Equalize:0.4:0 Solarize:0.2:4, "
        "Solarize:0.6:5 AutoContrast:0.6:0, Invert:0.6:0 Equalize:1.0:0, Color:0.6:4 Contrast:1.0:8, "
        "Equalize:0.8:0 Equalize:0.6:0"),
    AutoAugmentPolicy.CIFAR10: (
        "Invert:0.1:0 Contrast:0.2:6, Rotate:0.7:2 TranslateX:0.3:9, Sharpness:0.8:1 Sharpness:0.9:3, "
        "ShearY:0.5:8 TranslateY:0.7:9, AutoContrast:0.5:0 Equalize:0.9:0, ShearY:0.2:7 Posterize:0.3:7, "
        "Color:0.4:3 Brightness:0.6:7, Sharpness:0.3:9 Brightness:0.7:9, Equalize:0.6:0 Equalize:0.5:0, "
        "Contrast:0.6:7 Sharpness:0.6:5, Color:0.7:7 TranslateX:0.5:8, Equalize:0.3:0 AutoContrast:0.4:0, "
        "TranslateY:0.4:3 Sharpness:0.2:6, Brightness:0.9:6 Color:0.2:8, Solarize:0.5:2 Invert:0.0:0, "
        "Equalize:0.2:0 AutoContrast:0.6:0, Equalize:0.2:0 Equalize:0.6:0, Color:0.9:9 Equalize:0.6:0, "
        "AutoContrast:0.8:0 Solarize:0.2:8, Brightness:0.1:3 Color:0.7:0, Solarize:0.4:5 AutoContrast:0.9:0, "
        "TranslateY:0.9:9 TranslateY:0.7:9, AutoContrast:0.9:0 Solarize:0.8:3, Equalize:0.8:0 Invert:0.1:0, "
        "TranslateY:0.7:9 AutoContrast:0.9:0"),
    AutoAugmentPolicy.SVHN: (
        "ShearX:0.9:4 Invert:0.2:0, ShearY:0.9:8 Invert:0.7:0, Equalize:0.6:0 Solarize:0.6:6, Invert:0.9:0 Equalize:0.6:0, "
        "Equalize:0.6:0 Rotate:0.9:3, ShearX:0.9:4 AutoContrast:0.8:0, ShearY:0.9:8 Invert:0.4:0, ShearY:0.9:5 Solarize:0.2:6, "
        "Invert:0.9:0 AutoContrast:0.8:0, Equalize:0.6:0 Rotate:0.9:3, ShearX:0.9:4 Solarize:0.3:3, ShearY:0.8:8 Invert:0.7:0, "
        "Equalize:0.9:0 TranslateY:0.6:6, Invert:0.9:0 Equalize:0.6:0, Contrast:0.3:3 Rotate:0.8:4, "
        "Invert:0.8:0 TranslateY:0.0:2, ShearY:0.7:6 Solarize:0.4:8, Invert:0.6:0 Rotate:0.8:4, ShearY:0.3:7 TranslateX:0.9:3, "
        "ShearX:0.1:6 Invert:0.6:0, Solarize:0.7:2 TranslateY:0.6:7, ShearY:0.8:4 Invert:0.8:0, ShearX:0.7:9 TranslateY:0.8:3, "
        "ShearY:0.8:5 AutoContrast:0.7:0, ShearX:0.7:2 Invert:0.1:0"),
}


def _sheared(x: float, y: float) -> Callable[..., Any]:
    return lambda img, v, **options: T.affine(img, 0.0, [0, 0], 1.0, [math.degrees(math.atan(v * n)) for n in (x, y)], center=[0, 0],
                                              **options)


def _moved(x: int, y: int) -> Callable[..., Any]:
    return lambda img, v, **options: T.affine(img, 0.0, [int(v) * x, int(v) * y], 1.0, [0.0, 0.0], **options)


_MOVES: dict[str, Callable[..., Any]] = {"ShearX": _sheared(1, 0), "ShearY": _sheared(0, 1), "TranslateX": _moved(1, 0),
                                         "TranslateY": _moved(0, 1), "Rotate": T.rotate}
_STEPS: dict[str, Callable[[Any, float], Any]] = {
    "Identity": lambda img, v: img, "Brightness": lambda img, v: T.adjust_brightness(img, 1 + v),
    "Color": lambda img, v: T.adjust_saturation(img, 1 + v), "Contrast": lambda img, v: T.adjust_contrast(img, 1 + v),
    "Sharpness": lambda img, v: T.adjust_sharpness(img, 1 + v), "Posterize": lambda img, v: T.posterize(img, int(v)),
    "Solarize": lambda img, v: T.solarize(img, v), "AutoContrast": lambda img, v: T.autocontrast(img),
    "Equalize": lambda img, v: T.equalize(img), "Invert": lambda img, v: T.invert(img)}
_SIGNED = {*_MOVES, "Brightness", "Color", "Contrast", "Sharpness"}


def _strengths(bins: int, shear: float, across: float, down: float, turn: float, tone: float, bits: int = 8,
               fewest: int = 4) -> dict[str, Any]:
    """The strengths of each step, from none to the most; None for steps that have none."""
    ends = {"Identity": None, "ShearX": shear, "ShearY": shear, "TranslateX": across, "TranslateY": down, "Rotate": turn,
            "Brightness": tone, "Color": tone, "Contrast": tone, "Sharpness": tone}
    return {**{name: end if end is None else np.linspace(0, end, bins) for name, end in ends.items()},
            "Posterize": bits - (np.arange(bins) / ((bins - 1) / fewest)).round(), "Solarize": np.linspace(255, 0, bins),
            "AutoContrast": None, "Equalize": None}


class _Policy(Transform):
    """Draws steps and takes them."""
    interpolation: InterpolationMode
    fill: Fill

    def _step(self, img: Any, name: str, strength: float, negative: Callable[[], Any]) -> Any:
        strength = -strength if name in _SIGNED and negative() else strength
        return _STEPS[name](img, strength) if name in _STEPS else _MOVES[name](img, strength, interpolation=self.interpolation,
                                                                               fill=self.fill)

    def _drawn(self, img: Any, space: dict[str, Any], chosen: Callable[[int], int]) -> Any:
        """The image after a drawn step, with the strength of the number that `chosen` gives."""
        name = list(space)[integer(0, len(space))]
        strengths = space[name]
        return self._step(img, name, 0.0 if strengths is None else float(strengths[chosen(len(strengths))]), lambda: integer(0, 2))


class AutoAugment(_Policy):
    """A drawn pair of steps out of 25 that were found for a dataset."""

    def __init__(self, policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
                 interpolation: InterpolationMode = InterpolationMode.NEAREST, fill: Fill = None) -> None:
        super().__init__()
        if policy not in _POLICIES:
            raise ArgumentError(f"AutoAugment: The provided policy {policy} is not recognized.")
        self.policy, self.interpolation, self.fill = policy, interpolation, fill

    def forward(self, img: Any) -> Any:
        _, height, width = T.get_dimensions(img)
        space = {**_strengths(10, 0.3, 150 / 331 * width, 150 / 331 * height, 30, 0.9), "Invert": None}
        pairs = _POLICIES[self.policy].split(", ")
        for step in pairs[integer(0, len(pairs))].split():
            name, probability, number = step.split(":")
            if uniform() <= float(probability):
                img = self._step(img, name, 0.0 if space[name] is None else float(space[name][int(number)]), lambda: integer(0, 2) == 0)
        return img


class RandAugment(_Policy):
    """`num_ops` drawn steps, all of the same strength."""

    def __init__(self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31,
                 interpolation: InterpolationMode = InterpolationMode.NEAREST, fill: Fill = None) -> None:
        super().__init__()
        if not 0 <= magnitude < num_magnitude_bins:
            raise ArgumentError(f"RandAugment: magnitude must be from 0 to num_magnitude_bins - 1, got {magnitude} of {num_magnitude_bins}")
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins
        self.interpolation, self.fill = interpolation, fill

    def forward(self, img: Any) -> Any:
        _, height, width = T.get_dimensions(img)
        space = _strengths(self.num_magnitude_bins, 0.3, 150 / 331 * width, 150 / 331 * height, 30, 0.9)
        for _ in range(self.num_ops):
            img = self._drawn(img, space, lambda count: self.magnitude)
        return img


class TrivialAugmentWide(_Policy):
    """One drawn step of drawn strength."""

    def __init__(self, num_magnitude_bins: int = 31, interpolation: InterpolationMode = InterpolationMode.NEAREST,
                 fill: Fill = None) -> None:
        super().__init__()
        self.num_magnitude_bins, self.interpolation, self.fill = num_magnitude_bins, interpolation, fill

    def forward(self, img: Any) -> Any:
        return self._drawn(img, _strengths(self.num_magnitude_bins, 0.99, 32, 32, 135, 0.99, fewest=6), lambda count: integer(0, count))


class AugMix(_Policy):
    """The image mixed with `mixture_width` of itself, each after a chain of drawn steps."""

    def __init__(self, severity: int = 3, mixture_width: int = 3, chain_depth: int = -1, alpha: float = 1.0, all_ops: bool = True,
                 interpolation: InterpolationMode = InterpolationMode.BILINEAR, fill: Fill = None) -> None:
        super().__init__()
        if not 1 <= severity <= 10:
            raise ArgumentError(f"AugMix: The severity must be between [1, 10]. Got {severity} instead.")
        self.severity, self.mixture_width, self.chain_depth, self.alpha, self.all_ops = severity, mixture_width, chain_depth, alpha, all_ops
        self.interpolation, self.fill = interpolation, fill

    def forward(self, orig_img: Any) -> Any:
        if not hasattr(orig_img, "detach"):
            mixed = self(T.pil_to_tensor(orig_img) if is_pil(orig_img) else to_channels_first(orig_img))
            return T.to_pil_image(mixed) if is_pil(orig_img) else to_channels_last(mixed, orig_img)
        height, width = orig_img.shape[-2:]
        space = _strengths(10, 0.3, width / 3, height / 3, 30, 0.9, bits=4)
        for name in ["Identity", *([] if self.all_ops else ["Brightness", "Color", "Contrast", "Sharpness"])]:
            del space[name]
        rng = np.random.Generator(np.random.Philox(integer(0, 1 << 31)))
        kept, changed = rng.dirichlet([self.alpha] * 2)
        mix = kept * orig_img.to(float32)
        for weight in changed * rng.dirichlet([self.alpha] * self.mixture_width):
            img = orig_img
            for _ in range(self.chain_depth if self.chain_depth > 0 else integer(1, 4)):
                img = self._drawn(img, space, lambda count: integer(0, self.severity))
            mix = mix + weight * img.to(float32)
        return mix.to(orig_img.dtype)
