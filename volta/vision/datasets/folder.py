"""Images in folders, one for each class."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from volta.errors import ArgumentError
from volta.vision.datasets.files import VisionDataset

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def find_classes(directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
    """The folders in a folder, sorted, and the number of each. Raises: FileNotFoundError where there is none."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: i for i, name in enumerate(classes)}


def make_dataset(directory: str | os.PathLike[str], class_to_idx: dict[str, int] | None = None,
                 extensions: str | tuple[str, ...] | None = None, is_valid_file: Callable[[str], bool] | None = None,
                 allow_empty: bool = False) -> list[tuple[str, int]]:
    """Path and class of every file with one of the extensions, or that is valid. Raises: ArgumentError; FileNotFoundError for classes
    without files, unless `allow_empty`."""
    if (extensions is None) == (is_valid_file is None):
        raise ArgumentError("make_dataset: Both extensions and is_valid_file cannot be None or not None at the same time")
    directory = os.path.expanduser(directory)
    classes = find_classes(directory)[1] if class_to_idx is None else class_to_idx
    samples, empty = [], []
    for name, number in sorted(classes.items()):
        paths = [os.path.join(folder, file) for folder, _, files in sorted(os.walk(os.path.join(directory, name), followlinks=True))
                 for file in sorted(files)]
        valid = [path for path in paths if (path.lower().endswith(extensions) if is_valid_file is None else is_valid_file(path))]
        samples += [(path, number) for path in valid]
        empty += [] if valid else [name]
    if empty and not allow_empty:
        raise FileNotFoundError(f"Found no valid file for the classes {', '.join(empty)}. Supported extensions are: {extensions}")
    return samples


class DatasetFolder(VisionDataset):
    """Files in `root`/class/..., read by `loader`. A sample is what it gives and the number of the class."""

    def __init__(self, root: str | os.PathLike[str], loader: Callable[[str], Any], extensions: tuple[str, ...] | None = None,
                 transform: Callable[[Any], Any] | None = None, target_transform: Callable[[Any], Any] | None = None,
                 is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = make_dataset(self.root, self.class_to_idx, extensions, is_valid_file, allow_empty)
        self.targets = [target for _, target in self.samples]

    def find_classes(self, directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
        """The classes and the number of each; a subclass may choose others."""
        return find_classes(directory)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self.changed(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


def pil_loader(path: str | os.PathLike[str]) -> Any:
    """An image file as an image of Pillow in red, green and blue."""
    from PIL import Image
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


default_loader = pil_loader             # its name in programs


class ImageFolder(DatasetFolder):
    """Image files in `root`/class/..., read by Pillow, or by another `loader`."""

    def __init__(self, root: str | os.PathLike[str], transform: Callable[[Any], Any] | None = None,
                 target_transform: Callable[[Any], Any] | None = None, loader: Callable[[str], Any] = pil_loader,
                 is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False) -> None:
        super().__init__(root, loader, IMG_EXTENSIONS if is_valid_file is None else None, transform, target_transform, is_valid_file,
                         allow_empty)
        self.imgs = self.samples
