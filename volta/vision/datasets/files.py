"""What all readers share: images of arrays, and the base of image datasets."""
from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from volta.data.dataset import Dataset
from volta.errors import ArgumentError


class VisionDataset(Dataset[Any]):
    """Images with targets. `transform` changes an image, `target_transform` a target, `transforms` both at once."""

    def __init__(self, root: str | os.PathLike[str] | None = None, transforms: Callable[..., Any] | None = None,
                 transform: Callable[[Any], Any] | None = None, target_transform: Callable[[Any], Any] | None = None) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ArgumentError(f"{type(self).__name__}: Only transforms or transform/target_transform can be passed as argument")
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.transforms, self.transform, self.target_transform = transforms, transform, target_transform

    def changed(self, image: Any, target: Any) -> tuple[Any, Any]:
        """A sample after the transforms."""
        if self.transforms is not None:
            return self.transforms(image, target)
        return (image if self.transform is None else self.transform(image),
                target if self.target_transform is None else self.target_transform(target))

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}: define __len__(self)")

    def extra_repr(self) -> str:
        """Further lines of the repr."""
        return ""

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}", *([] if self.root is None else [f"Root location: {self.root}"]),
                 *self.extra_repr().splitlines(), *([] if self.transform is None else [f"Transform: {self.transform}"])]
        return "\n    ".join([f"Dataset {type(self).__name__}", *lines])


@functools.cache
def _from_array() -> Callable[[np.ndarray[Any, Any]], Any] | None:
    try:
        from PIL import Image
    except ImportError:
        return None
    return Image.fromarray


def as_image(pixels: np.ndarray[Any, Any]) -> Any:
    """An image of Pillow where Pillow is installed, else the array."""
    make = _from_array()
    return pixels if make is None else make(pixels)


class SplitImages(VisionDataset):
    """A `split` of a dataset whose colour images are in memory: `data`, an array (n, 3, height, width), and `labels`, one of n classes."""
    split: str
    data: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.changed(as_image(np.ascontiguousarray(self.data[index].transpose(1, 2, 0))), int(self.labels[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {self.split}"
