"""Transforms that draw nothing, each a module that calls its function."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from volta.dtypes import float32
from volta.errors import ShapeError
from volta.nn.module import Module
from volta.random import default_generator, unit
from volta.vision.transforms import functional as T
from volta.vision.transforms.functional import InterpolationMode


class Transform(Module):
    """A transform: its arguments are its attributes, `forward` makes an image of an image."""

    def __repr__(self) -> str:
        shown = (f"{name}={value.value if isinstance(value, InterpolationMode) else value}" for name, value in vars(self).items()
                 if not name.startswith("_") and name != "training")
        return f"{type(self).__name__}({', '.join(shown)})"


class Several(Transform):
    """Transforms in a list."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        super().__init__()
        self.transforms = transforms

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n" + "".join(f"    {t}\n" for t in self.transforms) + ")"


class Compose(Several):
    """One transform after the other.

    >>> T = volta.vision.transforms
    >>> T.Compose([T.ToTensor(), T.Normalize(0.5, 0.5)])(volta.zeros(1, 2).numpy())
    tensor([[[-1., -1.]]])
    """

    def forward(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img


class Lambda(Transform):
    """A function of the user's."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        super().__init__()
        if not callable(lambd):
            raise TypeError(f"Lambda: Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def forward(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return "Lambda()"


class ToTensor(Transform):
    """An image as a tensor (channels, height, width), bytes as numbers from 0 to 1."""

    def forward(self, pic: Any) -> Any:
        return T.to_tensor(pic)


class PILToTensor(Transform):
    """Pillow's image as a tensor (channels, height, width) of its numbers."""

    def forward(self, pic: Any) -> Any:
        return T.pil_to_tensor(pic)


class ToPILImage(Transform):
    """A tensor or an array as an image of Pillow."""

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, pic: Any) -> Any:
        return T.to_pil_image(pic, self.mode)


class ConvertImageDtype(Transform):
    """`functional.convert_image_dtype`."""

    def __init__(self, dtype: Any = float32) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Any) -> Any:
        return T.convert_image_dtype(image, self.dtype)


class Normalize(Transform):
    """(image - mean) / std for each channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Any) -> Any:
        return T.normalize(tensor, self.mean, self.std, self.inplace)


class Resize(Transform):
    """`functional.resize`."""

    def __init__(self, size: int | Sequence[int], interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
                 max_size: int | None = None, antialias: bool | None = True) -> None:
        super().__init__()
        self.size, self.interpolation, self.max_size, self.antialias = size, T.as_mode(interpolation), max_size, antialias

    def forward(self, img: Any) -> Any:
        return T.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(Transform):
    """The middle of an image."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = T.pair(size)

    def forward(self, img: Any) -> Any:
        return T.center_crop(img, self.size)


class FiveCrop(CenterCrop):
    """The four corners and the middle of an image, a tuple."""

    def forward(self, img: Any) -> Any:
        return T.five_crop(img, self.size)


class TenCrop(Transform):
    """`FiveCrop` of an image and of the flipped image, a tuple."""

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__()
        self.size, self.vertical_flip = T.pair(size), vertical_flip

    def forward(self, img: Any) -> Any:
        return T.ten_crop(img, self.size, self.vertical_flip)


class Pad(Transform):
    """An image with a border."""

    def __init__(self, padding: int | Sequence[int], fill: float | Sequence[float] = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        T.borders(padding)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        return T.pad(img, self.padding, self.fill, self.padding_mode)


class LinearTransformation(Transform):
    """(image - mean_vector) @ transformation_matrix of the image as one row: whitening."""

    def __init__(self, transformation_matrix: Any, mean_vector: Any) -> None:
        super().__init__()
        if transformation_matrix.shape != (len(mean_vector),) * 2:
            raise ShapeError(f"LinearTransformation: transformation_matrix should be square, of the length of mean_vector; got "
                             f"{tuple(transformation_matrix.shape)} and {tuple(mean_vector.shape)}")
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor: Any) -> Any:
        if math.prod(tensor.shape[-3:]) != len(self.mean_vector):
            raise ShapeError(f"LinearTransformation: Input tensor and transformation matrix have incompatible shape. "
                             f"[{' x '.join(map(str, tensor.shape[-3:]))}] != {len(self.mean_vector)}")
        return ((tensor.reshape(-1, len(self.mean_vector)) - self.mean_vector) @ self.transformation_matrix).reshape(tensor.shape)


class Grayscale(Transform):
    """An image in grey, in 1 channel or 3."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return T.rgb_to_grayscale(img, self.num_output_channels)


class GaussianBlur(Transform):
    """An image smoothed by a Gaussian whose width is drawn between two bounds."""

    def __init__(self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size, self.sigma = T.pair(kernel_size), (sigma, sigma) if isinstance(sigma, (int, float)) else tuple(sigma)

    def forward(self, img: Any) -> Any:
        return T.gaussian_blur(img, self.kernel_size, uniform(*self.sigma))


def uniform(low: float = 0.0, high: float = 1.0) -> float:
    """A number drawn from the default generator, on [low, high)."""
    return low + (high - low) * unit(*default_generator.advance(1), 1, "float32").item()
