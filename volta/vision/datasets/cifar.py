"""CIFAR-10 and CIFAR-100: their Python files, read without running anything in them, and their binary files."""
from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from volta.data.files import fetch, write
from volta.errors import DatasetError, StateDictError
from volta.io.torch_format import ARRAYS, BUILDERS, MALFORMED
from volta.io.unpickler import Unpickler
from volta.vision.datasets.files import VisionDataset, as_image


def read_pickle(path: Path) -> dict[str, Any]:
    """The dict of one of CIFAR's Python files, of which nothing is run. Raises: DatasetError for any other file."""
    try:
        entries = Unpickler(path.read_bytes(), ARRAYS, BUILDERS, _no_storage, lambda module, name: None).load()
        if not isinstance(entries, dict):
            raise ValueError(f"it holds {type(entries).__name__}, no dict")
        return entries
    except (StateDictError, *MALFORMED) as error:
        raise DatasetError(f"{path}: not one of CIFAR's files, or damaged: {error}") from None


def _no_storage(name):
    raise ValueError("it names a tensor of PyTorch")


class CIFAR10(VisionDataset):
    """Colour images of 32 x 32 pixels in 10 classes, from `root`/cifar-10-batches-py/, or cifar-10-batches-bin/. A sample is an image and
    a number; `data` is an array (n, 32, 32, 3).

    Raises: DatasetError where files are missing or damaged.
    """
    base_folder, binary_folder, names_file = "cifar-10-batches-py", "cifar-10-batches-bin", "batches.meta.txt"
    url, tgz_md5 = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"
    train_list, test_list = [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]
    meta, meta_key, labels_key, label_bytes = "batches.meta", "label_names", "labels", 1

    def __init__(self, root: str | os.PathLike[str], train: bool = True, transform: Callable[[Any], Any] | None = None,
                 target_transform: Callable[[Any], Any] | None = None, download: bool = False) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        names, folder, binary = self.train_list if train else self.test_list, Path(self.root, self.base_folder), False
        if not folder.is_dir() and Path(self.root, self.binary_folder).is_dir():
            folder, binary = Path(self.root, self.binary_folder), True
        if download and not binary:
            self._download(folder)
        try:
            parts = [self._binary(folder / f"{name}.bin") if binary else self._python(folder / name) for name in names]
            lines = self._names(folder, binary)
        except FileNotFoundError as error:
            raise DatasetError(f"{type(self).__name__}: Dataset not found or corrupted. You can use download=True to download it; "
                               f"{error.filename} is missing") from None
        self.classes: list[str] = [line.strip() for line in lines if line.strip()]
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.data = np.concatenate([pixels for pixels, _ in parts]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.targets: list[int] = [int(label) for _, labels in parts for label in labels]
        if self.targets and not 0 <= min(self.targets) <= max(self.targets) < len(self.classes):
            raise DatasetError(f"{type(self).__name__}: labels from {min(self.targets)} to {max(self.targets)} in {folder}, there are "
                               f"{len(self.classes)} classes")

    def _names(self, folder, binary):
        """The names of the classes."""
        if binary:
            return (folder / self.names_file).read_text(errors="replace").split("\n")
        names = read_pickle(folder / self.meta).get(self.meta_key)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DatasetError(f"{folder / self.meta}: needs {self.meta_key!r}, a list of names")
        return names

    def _python(self, path):
        entries = read_pickle(path)
        pixels, labels = entries.get("data"), entries.get(self.labels_key)
        if not isinstance(pixels, np.ndarray) or not isinstance(labels, list) or pixels.dtype != np.uint8 or (
                pixels.shape != (len(labels), 3072)) or not all(isinstance(label, int) for label in labels):
            raise DatasetError(f"{path}: needs 'data', bytes of shape (n, 3072), and {self.labels_key!r}, n numbers")
        return pixels, labels

    def _binary(self, path):
        data = np.frombuffer(path.read_bytes(), np.uint8)
        size = 3072 + self.label_bytes
        if data.size % size:
            raise DatasetError(f"{path}: {data.size} bytes are no whole number of images, {size} each; is it cut short?")
        rows = data.reshape(-1, size)
        return rows[:, self.label_bytes:], rows[:, self.label_bytes - 1].tolist()

    def _download(self, folder):
        """Download the files, where one is not there."""
        names = [*self.train_list, *self.test_list, self.meta]
        if all((folder / name).is_file() for name in names):
            return
        with tarfile.open(fileobj=io.BytesIO(fetch([self.url], self.tgz_md5))) as archive:
            for name in names:
                write(folder / name, archive.extractfile(f"{self.base_folder}/{name}").read())

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.changed(as_image(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class CIFAR100(CIFAR10):
    """Colour images of 32 x 32 pixels in 100 classes, from `root`/cifar-100-python/, or cifar-100-binary/."""
    base_folder, binary_folder, names_file = "cifar-100-python", "cifar-100-binary", "fine_label_names.txt"
    url, tgz_md5 = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"
    train_list, test_list = ["train"], ["test"]
    meta, meta_key, labels_key, label_bytes = "meta", "fine_label_names", "fine_labels", 2
