"""Datasets: what a DataLoader draws from. Knows nothing of loading."""
from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from volta._kernels import core
from volta.errors import ArgumentError, AssertedError, AssertedShapeError, CallError, IndexRangeError
from volta.ops.creation import randperm

if TYPE_CHECKING:
    from volta.random import Generator
    from volta.tensor import Tensor

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Map-style data: subclasses define `__getitem__(index)`, which gives one sample, and `__len__`; `__getitems__(indices)`, which gives
    a list of samples, where that is faster. `a + b` has the samples of both."""

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__}: define __getitem__(self, index)")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Data that come as a stream: subclasses define `__iter__`. With several workers each has an iterator of its own, which asks
    `get_worker_info` for its part."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__}: define __iter__(self)")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Arrays or tensors of equal first size; sample i is the tuple of their rows i.

    Raises: ShapeError where the first sizes differ; ArgumentError for anything without rows.
    """

    def __init__(self, *tensors: Tensor | np.ndarray[Any, Any]) -> None:
        if not tensors:
            raise ArgumentError("TensorDataset: give at least one tensor or array")
        for t in tensors:
            if not isinstance(t, (core.TensorBase, np.ndarray)) or not t.shape:
                raise ArgumentError(f"TensorDataset: needs tensors or arrays of 1 dimension or more, got {_describe(t)}")
        if len({t.shape[0] for t in tensors}) > 1:
            raise AssertedShapeError(f"TensorDataset: the first sizes differ: {', '.join(str(tuple(t.shape)) for t in tensors)}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        if isinstance(index, (int, np.integer)) and not -len(self) <= index < len(self):
            raise IndexRangeError(f"TensorDataset: index {index} is out of range for {len(self)} samples")
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


def _samples(dataset, indices):
    """Samples of a dataset, at once where it gives several at once."""
    several = getattr(dataset, "__getitems__", None)
    return several(indices) if callable(several) else [dataset[i] for i in indices]


class StackDataset(Dataset[Any]):
    """Datasets of equal length side by side: sample i is the tuple of their samples i, or a dict where they are given by name.

    Raises: ArgumentError for datasets of different length, for none, and for some with and some without a name.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ArgumentError("StackDataset: give datasets either by position or by name" if args else
                                "StackDataset: At least one dataset should be passed")
        self.datasets: tuple[Any, ...] | dict[str, Any] = args or kwargs
        lengths = [len(d) for d in (args or kwargs.values())]
        if len(set(lengths)) > 1:
            raise ArgumentError(f"StackDataset: Size mismatch between datasets, their lengths are {lengths}")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples at these places, which datasets that give several at once are asked for at once."""
        named = isinstance(self.datasets, dict)
        parts = [_samples(dataset, indices) for dataset in (self.datasets.values() if named else self.datasets)]
        if any(len(part) != len(indices) for part in parts):
            raise ArgumentError(f"StackDataset: {len(indices)} samples were asked for, the datasets gave {[len(part) for part in parts]}")
        return [dict(zip(self.datasets, sample)) if named else sample for sample in zip(*parts)]

    def __len__(self) -> int:
        return len(next(iter(self.datasets.values())) if isinstance(self.datasets, dict) else self.datasets[0])


class ConcatDataset(Dataset[Any]):
    """Datasets one after the other.

    Raises: ArgumentError for none, and for one that is a stream.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertedError("ConcatDataset: ConcatDataset does not support IterableDataset; use ChainDataset" if self.datasets else
                                "ConcatDataset: datasets should not be an empty iterable")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """How many samples some datasets have up to the end of each."""
        return list(itertools.accumulate(len(d) for d in sequence))

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            error = ArgumentError if index < 0 else IndexRangeError            # as in PyTorch
            raise error(f"ConcatDataset: index {index} is out of range for {len(self)} samples")
        index %= len(self)
        number = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[number][index - (self.cumulative_sizes[number - 1] if number else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other. Raises: ArgumentError, when it comes to it, for a dataset that is none."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _streams(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertedError(f"ChainDataset: ChainDataset only supports IterableDataset, got {type(dataset).__name__}")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._streams())

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


class Subset(Dataset[T]):
    """The samples of another dataset at `indices`."""

    def __init__(self, dataset: Dataset[T], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> T:
        return self.dataset[[self.indices[i] for i in index] if isinstance(index, list) else self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[T]:
        """The samples at these places, which a dataset that gives several at once is asked for at once."""
        return _samples(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None) -> list[Subset[Any]]:
    """Subsets of these lengths, or fractions of the whole, without common samples, in an order drawn from the generator.

    Raises: ArgumentError where the lengths do not add up.

    >>> [len(part) for part in volta.data.random_split(range(10), [0.5, 0.25, 0.25])]
    [6, 2, 2]
    """
    count = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        if any(not 0 <= part <= 1 for part in lengths):
            raise ArgumentError(f"random_split: each fraction must be between 0 and 1, got {list(lengths)}")
        whole = [math.floor(count * part) for part in lengths]
        rest = count - sum(whole)
        lengths = [n + rest // len(whole) + (i < rest % len(whole)) for i, n in enumerate(whole)]
        if 0 in lengths:
            warnings.warn(f"random_split: Length of split at index {lengths.index(0)} is 0. This might result in an empty dataset.",
                          stacklevel=2)
    if any(not isinstance(n, (int, np.integer)) or n < 0 for n in lengths):
        raise CallError(f"random_split: lengths must be integers >= 0, or fractions that add up to 1, got {list(lengths)}")
    if sum(lengths) != count:
        raise ArgumentError("random_split: Sum of input lengths does not equal the length of the input dataset! "
                            f"They are {list(lengths)} and {count}")
    order = iter(randperm(count, generator=generator, device="cpu").tolist())
    return [Subset(dataset, list(itertools.islice(order, n))) for n in lengths]


def _describe(value):
    return f"shape {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__
