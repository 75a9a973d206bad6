"""Images of noise, for trying programs out."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from volta.errors import IndexRangeError
from volta.ops.creation import randint, randn
from volta.random import Generator
from volta.vision.datasets.files import VisionDataset, as_image


class FakeData(VisionDataset):
    """Noise of `image_size` (channels, height, width) with a class; both depend on the index alone."""

    def __init__(self, size: int = 1000, image_size: tuple[int, int, int] = (3, 224, 224), num_classes: int = 10,
                 transform: Callable[[Any], Any] | None = None, target_transform: Callable[[Any], Any] | None = None,
                 random_offset: int = 0) -> None:
        super().__init__(transform=transform, target_transform=target_transform)
        self.size, self.image_size, self.num_classes, self.random_offset = size, image_size, num_classes, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= self.size:
            raise IndexRangeError(f"FakeData: index {index} is out of range for {self.size} images")
        generator = Generator(index + self.random_offset)
        noise = randn(*self.image_size, generator=generator, device="cpu").numpy()
        pixels = np.ascontiguousarray(np.moveaxis((noise * 255).astype(np.int64).astype(np.uint8), 0, 2))
        target = randint(0, self.num_classes, (1,), generator=generator, device="cpu").item()
        return self.changed(as_image(pixels[..., 0] if pixels.shape[2] == 1 else pixels), target)

    def __len__(self) -> int:
        return self.size
