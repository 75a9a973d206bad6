"""MNIST and the datasets in its format, IDX files."""
from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from volta.errors import DatasetError
from volta.ops.from_data import tensor
from volta.vision.datasets.files import VisionDataset, as_image, fetch, write

_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray[Any, Any]:
    """The array of an IDX file, which may be packed by gzip (.gz). Raises: DatasetError for a damaged or cut file, or another format."""
    data = Path(path).read_bytes()
    try:
        data = gzip.decompress(data) if str(path).endswith(".gz") else data
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path}: not a whole gzip file: {error}") from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES or not 1 <= data[3] <= 8 or len(data) < 4 + 4 * data[3]:
        raise DatasetError(f"{path}: not an IDX file, it begins with {data[:4]!r}")
    shape, dtype = np.frombuffer(data, ">u4", data[3], 4).tolist(), np.dtype(_TYPES[data[2]])
    expected = 4 + 4 * data[3] + dtype.itemsize * int(np.prod(shape, dtype=object))
    if len(data) != expected:
        raise DatasetError(f"{path}: an IDX file of shape {tuple(shape)} has {expected} bytes, this one {len(data)}; is it cut short?")
    return np.frombuffer(data, dtype, offset=4 + 4 * data[3]).reshape(shape).astype(dtype.newbyteorder("="))


class MNIST(VisionDataset):
    """Handwritten digits, 28 x 28 grey pixels, from `root`/MNIST/raw/ (IDX files, .gz or not). A sample is an image and a number.

    Raises: DatasetError where files are missing or damaged.
    """
    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"]
    resources = [("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                 ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
                 ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
                 ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c")]
    classes = ["0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine"]

    def __init__(self, root: str | os.PathLike[str], train: bool = True, transform: Callable[[Any], Any] | None = None,
                 target_transform: Callable[[Any], Any] | None = None, download: bool = False) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        images, labels = (read_idx(self._find(name)) for name, _ in (self.resources[:2] if train else self.resources[2:]))
        if images.ndim != 3 or images.dtype != np.uint8 or labels.shape != images.shape[:1] or labels.dtype != np.uint8:
            raise DatasetError(f"{type(self).__name__}: needs bytes of shapes (n, height, width) and (n,), {self.raw_folder} has "
                               f"{images.dtype} {images.shape} and {labels.dtype} {labels.shape}")
        if len(labels) and labels.max() >= len(self.classes):
            raise DatasetError(f"{type(self).__name__}: label {labels.max()} in {self.raw_folder}, there are {len(self.classes)} classes")
        self.data, self.targets = tensor(images, device="cpu"), tensor(labels.astype(np.int64), device="cpu")

    @property
    def raw_folder(self) -> str:
        """Where the files are."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class."""
        return {name: i for i, name in enumerate(self.classes)}

    def _find(self, name):
        packed = Path(self.raw_folder, name)
        found = next((path for path in (packed.with_suffix(""), packed) if path.is_file()), None)
        if found is None:
            raise DatasetError(f"{type(self).__name__}: Dataset not found. You can use download=True to download it; {packed} is missing")
        return found

    def download(self) -> None:
        """Download the files that are not there."""
        for name, md5 in self.resources:
            path = Path(self.raw_folder, name)
            if not path.is_file() and not path.with_suffix("").is_file():
                data = fetch([mirror + name for mirror in self.mirrors], md5)
                write(path.with_suffix(""), gzip.decompress(data))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.changed(as_image(self.data[index].numpy()), int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train else 'Test'}"


class FashionMNIST(MNIST):
    """Clothes in the format of MNIST, from `root`/FashionMNIST/raw/."""
    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = [("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                 ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
                 ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
                 ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310")]
    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


class KMNIST(MNIST):
    """Japanese characters in the format of MNIST, from `root`/KMNIST/raw/."""
    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = [("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
                 ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
                 ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
                 ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134")]
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
