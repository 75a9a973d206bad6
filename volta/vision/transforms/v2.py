"""torchvision's second set of transforms, for images: those of the first, and what it adds. Boxes, masks and videos are not taken."""
from __future__ import annotations

from typing import Any

import numpy as np

from volta._kernels import core
from volta.dtypes import as_dtype, float32, int64
from volta.errors import ArgumentError, ShapeError
from volta.nn import functional as F
from volta.ops.creation import randn, randperm
from volta.vision import transforms as first
from volta.vision.transforms import *  # noqa: F403 (as its __all__ says)
from volta.vision.transforms import functional as T
from volta.vision.transforms.kinds import is_pil, to_channels_first
from volta.vision.transforms.plain import Transform
from volta.vision.transforms.randomly import integer

__all__ = [*first.__all__, "CutMix", "GaussianNoise", "Identity", "MixUp", "RGB", "RandomChannelPermutation", "ToDtype", "ToImage",
           "ToPureTensor", "Transform"]


class Identity(Transform):
    """The image as it is."""

    def forward(self, img: Any) -> Any:
        return img


class ToPureTensor(Identity):
    """The image as it is: Volta's images are plain tensors."""


class ToImage(Transform):
    """Pillow's images and arrays as tensors (channels, height, width) with their numbers unchanged."""

    def forward(self, img: Any) -> Any:
        return img if isinstance(img, core.TensorBase) else T.pil_to_tensor(img) if is_pil(img) else to_channels_first(np.asarray(img))


class ToDtype(Transform):
    """An image with another dtype; with `scale`, its numbers between 0 and the largest of the dtype."""

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        if isinstance(dtype, dict):
            raise ArgumentError("ToDtype: a dict of kinds is not taken, images alone are; give one dtype")
        self.dtype, self.scale = as_dtype(dtype), scale

    def forward(self, img: Any) -> Any:
        return T.convert_image_dtype(img, self.dtype) if self.scale else img.to(self.dtype)


class RGB(Transform):
    """An image in three channels."""

    def forward(self, img: Any) -> Any:
        return img.convert("RGB") if is_pil(img) else T.rgb_to_grayscale(img, 3) if T.get_image_num_channels(img) == 1 else img


class GaussianNoise(Transform):
    """A floating-point image with noise; `clip` keeps it from 0 to 1."""

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        super().__init__()
        self.mean, self.sigma, self.clip = mean, sigma, clip

    def forward(self, img: Any) -> Any:
        if not isinstance(img, core.TensorBase) or not img.dtype.is_floating_point:
            raise ArgumentError("GaussianNoise: needs a floating-point tensor; apply ToDtype(volta.float32, scale=True) before")
        noisy = img + (randn(*img.shape, dtype=img.dtype, device=img.device) * self.sigma + self.mean)
        return noisy.clamp(0, 1) if self.clip else noisy


class RandomChannelPermutation(Transform):
    """A tensor's channels in a drawn order."""

    def forward(self, img: Any) -> Any:
        return img[..., randperm(img.shape[-3], device="cpu").tolist(), :, :]


class _Mixing(Transform):
    """Batches mixed with themselves: images (n, channels, height, width), labels (n) or (n, classes); labels become shares of classes.

    Raises: ShapeError for other batches; ArgumentError for labels without `num_classes`.
    """

    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        super().__init__()
        if alpha <= 0:
            raise ArgumentError(f"{type(self).__name__}: alpha must be positive, got {alpha}")
        self.alpha, self.num_classes = float(alpha), num_classes

    def forward(self, images: Any, labels: Any) -> tuple[Any, Any]:
        if images.ndim != 4 or labels.ndim not in (1, 2) or len(labels) != len(images):
            raise ShapeError(f"{type(self).__name__}: needs images (n, channels, height, width) and labels (n) or (n, classes), got "
                             f"{tuple(images.shape)} and {tuple(labels.shape)}")
        if labels.ndim == 1 and self.num_classes is None:
            raise ArgumentError(f"{type(self).__name__}: num_classes must be passed if the labels are index-based")
        shares = labels if labels.ndim == 2 else F.one_hot(labels.to(int64), self.num_classes)
        shares = shares if shares.dtype.is_floating_point else shares.to(float32)
        kept = float(np.random.Generator(np.random.Philox(integer(0, 1 << 31))).beta(self.alpha, self.alpha))
        images, kept = self._mixed(images, images.roll(1, 0), kept)
        return images, shares * kept + shares.roll(1, 0) * (1 - kept)

    def _mixed(self, images, others, kept):
        raise NotImplementedError


class MixUp(_Mixing):
    """Each image of a batch blended with the one before."""

    def _mixed(self, images, others, kept):
        return images * kept + others * (1 - kept), kept


class CutMix(_Mixing):
    """Each image of a batch with a rectangle of the one before."""

    def _mixed(self, images, others, kept):
        height, width = images.shape[-2:]
        y, x, half = integer(0, height), integer(0, width), 0.5 * (1 - kept) ** 0.5
        rows, columns = (slice(max(at - int(half * n), 0), min(at + int(half * n), n)) for at, n in ((y, height), (x, width)))
        mixed = images.clone()
        mixed[..., rows, columns] = others[..., rows, columns]
        return mixed, 1 - (rows.stop - rows.start) * (columns.stop - columns.start) / (height * width)
