"""Text as characters: an alphabet, and windows of a text for models that predict the next character."""
from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from volta.data.dataset import Dataset
from volta.data.files import read
from volta.errors import ArgumentError, DatasetError, IndexRangeError
from volta.ops.from_data import as_tensor

if TYPE_CHECKING:
    from volta.tensor import Tensor


class Alphabet:
    """The characters of a text, in order, and their numbers.

    >>> alphabet = volta.data.Alphabet("hello")
    >>> alphabet.characters, alphabet.encode("hole").tolist(), alphabet.decode([1, 0])
    ('ehlo', [1, 3, 2, 0], 'he')
    """

    def __init__(self, text: str | Iterable[str]) -> None:
        self.characters = "".join(sorted(set("".join(text))))
        self._points = _points(self.characters)

    def __len__(self) -> int:
        return len(self.characters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alphabet) and other.characters == self.characters

    __hash__ = None  # type: ignore[assignment]  (equal by value, and no key of dicts)

    def encode(self, text: str) -> Tensor:
        """The numbers of characters, int64. Raises: ArgumentError for one outside the alphabet."""
        points = _points(text)
        numbers = np.searchsorted(self._points, points)
        wrong = self._points[np.minimum(numbers, max(len(self) - 1, 0))] != points if len(self) else np.ones(len(points), bool)
        if wrong.any():
            place = int(wrong.argmax())
            raise ArgumentError(f"encode: {text[place]!r}, character {place} of the text, is not in the alphabet of {len(self)} characters")
        return as_tensor(numbers.astype(np.int64), device="cpu")

    def decode(self, numbers: Tensor | Sequence[int]) -> str:
        """The text of numbers. Raises: ArgumentError for shapes other than a row; IndexRangeError for a number outside the alphabet."""
        values = np.asarray(numbers.detach().cpu().numpy() if hasattr(numbers, "detach") else numbers)
        if values.ndim != 1 or values.size and values.dtype.kind not in "iu":
            raise ArgumentError(f"decode: needs a row of integers, got {values.dtype} of shape {values.shape}")
        if values.size and not 0 <= values.min() <= values.max() < len(self):
            raise IndexRangeError(f"decode: numbers from {values.min()} to {values.max()}, the alphabet has {len(self)} characters")
        return self._points[values.astype(np.intp)].tobytes().decode("utf-32-le", "surrogatepass")


class CharacterDataset(Dataset[Any]):
    """Windows of `length` characters of a text, one every `stride`: a sample is a window and the window one character later, int64.

    `alphabet` is that of the text, or another's, for a text to be tested on.

    Raises: ArgumentError for a text without a window, or with a character outside the alphabet.
    """

    def __init__(self, text: str, length: int, alphabet: Alphabet | None = None, stride: int = 1) -> None:
        if length < 1 or stride < 1 or len(text) <= length:
            raise ArgumentError(f"CharacterDataset: length and stride must be positive and the text longer than length, got {length}, "
                                f"{stride} and {len(text)} characters")
        self.alphabet, self.length, self.stride = alphabet or Alphabet(text), length, stride
        self.data = self.alphabet.encode(text)

    @classmethod
    def of_file(cls, path: str | os.PathLike[str], length: int, alphabet: Alphabet | None = None, stride: int = 1, *,
                encoding: str = "utf-8", digest: str | None = None) -> CharacterDataset:
        """Of the text in a file, which must have the hash `digest` where one is given. Raises: DatasetError for bytes that are no text."""
        try:
            text = read(path, digest).decode(encoding)
        except UnicodeError as error:
            raise DatasetError(f"{path}: no text in {encoding}: {error}") from None
        return cls(text, length, alphabet, stride)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexRangeError(f"CharacterDataset: index {index} is out of range for {len(self)} windows")
        start = index % len(self) * self.stride
        return self.data[start:start + self.length], self.data[start + 1:start + self.length + 1]

    def __len__(self) -> int:
        return (self.data.shape[0] - self.length - 1) // self.stride + 1


def _points(text):
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
