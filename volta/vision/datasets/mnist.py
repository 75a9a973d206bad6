"""MNIST and the datasets in its format, IDX files."""
from __future__ import annotations

import gzip
import io
import lzma
import os
import string
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from volta.data.files import fetch, write
from volta.errors import ArgumentError, DatasetError
from volta.ops.from_data import tensor
from volta.vision.datasets.files import VisionDataset, as_image

_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray[Any, Any]:
    """The array of an IDX file, which may be packed (.gz, .xz). Raises: DatasetError for a damaged or cut file, or another format."""
    data = _unpacked(path, Path(path).read_bytes())
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES or not 1 <= data[3] <= 8 or len(data) < 4 + 4 * data[3]:
        raise DatasetError(f"{path}: not an IDX file, it begins with {data[:4]!r}")
    shape, dtype = np.frombuffer(data, ">u4", data[3], 4).tolist(), np.dtype(_TYPES[data[2]])
    expected = 4 + 4 * data[3] + dtype.itemsize * int(np.prod(shape, dtype=object))
    if len(data) != expected:
        raise DatasetError(f"{path}: an IDX file of shape {tuple(shape)} has {expected} bytes, this one {len(data)}; is it cut short?")
    return np.frombuffer(data, dtype, offset=4 + 4 * data[3]).reshape(shape).astype(dtype.newbyteorder("="))


def _unpacked(name, data):
    """The bytes of a file that is packed as its name says."""
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(Path(name).suffix, bytes)
    try:
        return unpack(data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DatasetError(f"{name}: not a whole {Path(name).suffix[1:]} file: {error}") from None


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

    _label_kind: tuple[int, type] = (1, np.uint8)        # rank and dtype
    _part = slice(None)

    def __init__(self, root: str | os.PathLike[str], train: bool = True, transform: Callable[[Any], Any] | None = None,
                 target_transform: Callable[[Any], Any] | None = None, download: bool = False) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        images, labels = (read_idx(self._find(name)) for name in self._names())
        if (images.ndim, images.dtype, labels.ndim, labels.dtype) != (3, np.uint8, *self._label_kind) or len(labels) != len(images):
            raise DatasetError(f"{type(self).__name__}: needs bytes of shape (n, height, width) and labels of n, {self.raw_folder} has "
                               f"{images.dtype} {images.shape} and {labels.dtype} {labels.shape}")
        numbers = labels.reshape(len(labels), -1)[:, :1]
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self.classes):
            raise DatasetError(f"{type(self).__name__}: labels from {numbers.min()} to {numbers.max()} in {self.raw_folder}, there are "
                               f"{len(self.classes)} classes")
        self.data, self.targets = (tensor(array[self._part], device="cpu") for array in (images, labels.astype(np.int64)))

    @property
    def raw_folder(self) -> str:
        """Where the files are."""
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class."""
        return {name: i for i, name in enumerate(self.classes)}

    def _names(self):
        """The files of the images and of the labels."""
        return [name for name, _ in (self.resources[:2] if self.train else self.resources[2:])]

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
                write(path.with_suffix(""), _unpacked(name, data))

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


class EMNIST(MNIST):
    """Letters and digits in the format of MNIST, from `root`/EMNIST/raw/; each image lies on its side, as in the files. `split` is one of
    `EMNIST.splits`.

    Raises: ArgumentError for another split.
    """
    url, md5 = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e"
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    _all = sorted(string.digits + string.ascii_letters)
    _merged = [c for c in _all if c not in "cijklmopsuvwxyz"]               # capitals and small letters that look alike are one class
    classes_split_dict = {"byclass": _all, "bymerge": _merged, "balanced": _merged, "letters": ["N/A", *string.ascii_lowercase],
                          "digits": list(string.digits), "mnist": list(string.digits)}

    def __init__(self, root: str | os.PathLike[str], split: str, **kwargs: Any) -> None:
        if split not in self.splits:
            raise ArgumentError(f"EMNIST: Unknown value {split!r} for argument split. Valid values are {', '.join(self.splits)}")
        self.split, self.classes = split, self.classes_split_dict[split]
        super().__init__(root, **kwargs)

    def _names(self):
        prefix = f"emnist-{self.split}-{'train' if self.train else 'test'}"
        return [f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz"]

    def download(self) -> None:
        """Download the files of all splits, where one of this split is not there."""
        if all(Path(self.raw_folder, name).is_file() or Path(self.raw_folder, name).with_suffix("").is_file() for name in self._names()):
            return
        with zipfile.ZipFile(io.BytesIO(fetch([self.url], self.md5))) as archive:
            for name in archive.namelist():
                if name.endswith(".gz"):
                    write(Path(self.raw_folder, Path(name).name), archive.read(name))


class QMNIST(MNIST):
    """MNIST with its whole test set of 60,000 and what is known of each digit, from `root`/QMNIST/raw/. `what` is "train", "test",
    "test10k" (those of MNIST), "test50k" (the others) or "nist"; with `compat=False` a target is a tensor of 8 numbers, the class first.

    Raises: ArgumentError for another `what`.
    """
    mirrors = ["https://raw.githubusercontent.com/facebookresearch/qmnist/master/"]
    subsets = {"train": "train", "test": "test", "test10k": "test", "test50k": "test", "nist": "nist"}
    files = {"train": [("qmnist-train-images-idx3-ubyte.gz", "ed72d4157d28c017586c42bc6afe6370"),
                       ("qmnist-train-labels-idx2-int.gz", "0058f8dd561b90ffdd0f734c6a30e5e4")],
             "test": [("qmnist-test-images-idx3-ubyte.gz", "1394631089c404de565df7b7aeaf9412"),
                      ("qmnist-test-labels-idx2-int.gz", "5b5b05890a5e13444e108efe57b788aa")],
             "nist": [("xnist-images-idx3-ubyte.xz", "7f124b3b8ab81486c9d8c2749c17f834"),
                      ("xnist-labels-idx2-int.xz", "5ed0e788978e45d4a8bd4b7caec3d79d")]}
    _label_kind = (2, np.int32)

    def __init__(self, root: str | os.PathLike[str], what: str | None = None, compat: bool = True, train: bool = True,
                 **kwargs: Any) -> None:
        self.what, self.compat = ("train" if train else "test") if what is None else what, compat
        if self.what not in self.subsets:
            raise ArgumentError(f"QMNIST: Unknown value {what!r} for argument what. Valid values are {', '.join(self.subsets)}")
        self.resources = self.files[self.subsets[self.what]]
        self._part = {"test10k": slice(10_000), "test50k": slice(10_000, None)}.get(self.what, slice(None))
        super().__init__(root, train, **kwargs)

    def _names(self):
        return [name for name, _ in self.resources]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        target = self.targets[index]
        return self.changed(as_image(self.data[index].numpy()), int(target[0]) if self.compat else target)

    def extra_repr(self) -> str:
        return f"Split: {self.what}"
