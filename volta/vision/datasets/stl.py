"""STL-10: its binary files."""
from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from volta.data.files import download, read, write
from volta.errors import ArgumentError, DatasetError
from volta.vision.datasets.files import SplitImages


class STL10(SplitImages):
    """Colour images of 96 x 96 pixels in 10 classes, and unlabelled ones (class -1), from `root`/stl10_binary. `split` is one of
    `STL10.splits`, `folds` the number of one of 10 parts of the training images. `data` is an array (n, 3, 96, 96).

    Raises: DatasetError where files are missing or damaged; ArgumentError.
    """
    base_folder, class_names_file, folds_list_file = "stl10_binary", "class_names.txt", "fold_indices.txt"
    url, tgz_md5 = "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb"
    splits = ("train", "train+unlabeled", "unlabeled", "test")
    _files = ("train_X.bin", "train_y.bin", "unlabeled_X.bin", "test_X.bin", "test_y.bin", class_names_file, folds_list_file)

    def __init__(self, root: str | os.PathLike[str], split: str = "train", folds: int | None = None,
                 transform: Callable[[Any], Any] | None = None, target_transform: Callable[[Any], Any] | None = None,
                 download: bool = False) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        if split not in self.splits or folds is not None and folds not in range(10):
            raise ArgumentError(f"STL10: split must be one of {', '.join(self.splits)} and folds None or a number below 10, got {split!r} "
                                f"and {folds!r}")
        self.split, self.folds, self._folder = split, folds, Path(self.root, self.base_folder)
        if download:
            self.download()
        if not self._folder.is_dir():
            raise DatasetError(f"STL10: Dataset not found or corrupted. You can use download=True to download it; {self._folder} "
                               "is missing")
        parts = [self._part(name) for name in split.split("+")]
        self.data, self.labels = (np.concatenate(arrays) for arrays in zip(*parts))
        names = self._folder / self.class_names_file
        self.classes: list[str] = names.read_text(errors="replace").splitlines() if names.is_file() else []

    def _part(self, name):
        data = np.frombuffer(read(self._folder / f"{name}_X.bin"), np.uint8)
        if data.size % (3 * 96 * 96):
            raise DatasetError(f"{self._folder / name}_X.bin: {data.size} bytes are no whole number of images, {3 * 96 * 96} each; is it "
                               "cut short?")
        images = data.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2)
        if name == "unlabeled":
            return images, np.full(len(images), -1)
        labels = np.frombuffer(read(self._folder / f"{name}_y.bin"), np.uint8).astype(np.int64) - 1
        if len(labels) != len(images) or len(labels) and not 0 <= labels.min() <= labels.max() < 10:
            raise DatasetError(f"{self._folder / name}_y.bin: needs {len(images)} classes from 1 to 10")
        if name == "train" and self.folds is not None:
            chosen = self._fold(len(images))
            images, labels = images[chosen], labels[chosen]
        return images, labels

    def _fold(self, count):
        try:
            chosen = np.array(read(self._folder / self.folds_list_file).decode().splitlines()[self.folds].split(), np.int64)
            if chosen.size and not 0 <= chosen.min() <= chosen.max() < count:
                raise ValueError(f"numbers from {chosen.min()} to {chosen.max()} of {count} images")
            return chosen
        except (ValueError, IndexError) as error:
            raise DatasetError(f"{self._folder / self.folds_list_file}: no list of images for fold {self.folds}: {error}") from None

    def download(self) -> None:
        """Download and unpack the archive (2.6 GB), where a file is not there."""
        if all((self._folder / name).is_file() for name in self._files):
            return
        packed = Path(self.root, f"{self.base_folder}.tar.gz")
        download(self.url, packed, self.tgz_md5)
        with tarfile.open(packed) as archive:
            for name in self._files:
                source = archive.extractfile(f"{self.base_folder}/{name}")
                write(self._folder / name, lambda file, source=source: shutil.copyfileobj(source, file))
