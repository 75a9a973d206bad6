"""SVHN: street numbers, in files of MATLAB, whose arrays are read without SciPy."""
from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from volta.data.files import download, read
from volta.errors import ArgumentError, DatasetError
from volta.vision.datasets.files import SplitImages

# Kinds of elements in a file of MATLAB 5: numbers, and what holds others.
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_ARRAYS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}      # by a matrix's class


def read_matlab(path: str | os.PathLike[str], digest: str | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of numbers in a file of MATLAB 5, by name. Raises: DatasetError for any other file, or one that is damaged."""
    data = read(path, digest)
    try:
        if len(data) < 128 or data[126:128] not in (b"IM", b"MI") or data[124 if data[126:128] == b"MI" else 125] != 1:
            raise ValueError("it does not begin as a file of MATLAB 5")
        order = "<" if data[126:128] == b"IM" else ">"
        found = {}
        for kind, body in _elements(memoryview(data)[128:], order):
            if kind == _COMPRESSED:
                (kind, body), = _elements(memoryview(zlib.decompress(body)), order)
            if kind == _MATRIX and (array := _array(body, order)) is not None:
                found.update([array])
        return found
    except (ValueError, struct.error, zlib.error, KeyError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: no file of MATLAB 5, or damaged: {error}") from None


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Kind and contents of each element. A short one has both sizes in its first word; others begin at multiples of 8 bytes."""
    place = 0
    while place < len(data):
        kind, size = struct.unpack_from(order + "II", data, place)
        if kind >> 16:
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
            place += 8
        else:
            start = place + 8
            place = start + size + (-size % 8 if kind != _COMPRESSED else 0)
        if start + size > len(data):
            raise ValueError(f"an element of {size} bytes goes beyond the end")
        yield kind, data[start:start + size]


def _array(body: memoryview, order: str) -> tuple[str, np.ndarray[Any, Any]] | None:
    """Name and values of a matrix; None where it holds no plain numbers."""
    elements = list(_elements(body, order))
    if len(elements) < 4:
        raise ValueError("a matrix lacks its parts")
    (_, flags), (_, sizes), (_, name), (kind, values), *others = elements
    dtype = _ARRAYS.get(struct.unpack_from(order + "I", flags)[0] & 0xFF)
    if dtype is None or others:
        return None
    shape = np.frombuffer(sizes, order + "i4").tolist()
    numbers = np.frombuffer(values, order + _NUMBERS[kind])
    if min(shape, default=-1) < 0 or math.prod(shape) != numbers.size:
        raise ValueError(f"{numbers.size} numbers do not fill an array of sizes {shape}")
    return bytes(name).decode("ascii"), numbers.astype(dtype).reshape(shape, order="F")


class SVHN(SplitImages):
    """Colour images of 32 x 32 pixels of digits, from `root`/train_32x32.mat and the like; `split` is "train", "test" or "extra". `data` is
    an array (n, 3, 32, 32), `labels` one of digits.

    Raises: DatasetError where a file is missing or damaged; ArgumentError.
    """
    split_list = {split: [f"http://ufldl.stanford.edu/housenumbers/{split}_32x32.mat", f"{split}_32x32.mat", md5] for split, md5 in (
        ("train", "e26dedcc434d2e4c54c9b2d4a06d8373"), ("test", "eb5a983be6a315427106f1b164d9cef3"),
        ("extra", "a93ce644f1a588dc4d68dda5feec44a7"))}

    def __init__(self, root: str | os.PathLike[str], split: str = "train", transform: Callable[[Any], Any] | None = None,
                 target_transform: Callable[[Any], Any] | None = None, download: bool = False) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        if split not in self.split_list:
            raise ArgumentError(f"SVHN: split must be one of {', '.join(self.split_list)}, got {split!r}")
        self.split = split
        self.url, self.filename, self.file_md5 = self.split_list[split]
        if download:
            self.download()
        path = Path(self.root, self.filename)
        if not path.is_file():
            raise DatasetError(f"SVHN: Dataset not found or corrupted. You can use download=True to download it; {path} is missing")
        arrays = read_matlab(path)
        images, labels = arrays.get("X"), arrays.get("y")
        if images is None or labels is None or images.dtype != np.uint8 or images.shape[:-1] != (32, 32, 3) or (
                labels.size != images.shape[-1]) or labels.size and not 0 <= labels.min() <= labels.max() <= 10:
            raise DatasetError(f"{path}: needs images X (32, 32, 3, n) of bytes, and as many labels y from 1 to 10")
        self.data = np.ascontiguousarray(images.transpose(3, 2, 0, 1))
        self.labels = labels.astype(np.int64).reshape(-1) % 10              # "10" is the digit 0

    def download(self) -> None:
        """Download the file, where it is not there."""
        download(self.url, Path(self.root, self.filename), self.file_md5)
