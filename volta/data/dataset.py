"""Datasets: what a DataLoader draws from."""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from volta._kernels import core
from volta.errors import ArgumentError, IndexRangeError, ShapeError

if TYPE_CHECKING:
    from volta.tensor import Tensor


class Dataset:
    """Map-style data: subclasses define `__len__` and `__getitem__(index)`, which gives one sample (an array, a number, a tensor,
    or a tuple, list or dict of these)."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__}: define __getitem__(self, index)")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}: define __len__(self)")


class TensorDataset(Dataset):
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
            raise ShapeError(f"TensorDataset: the first sizes differ: {', '.join(str(tuple(t.shape)) for t in tensors)}")
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if hasattr(index, "__index__") and not -len(self) <= index < len(self):
            raise IndexRangeError(f"TensorDataset: index {index} is out of range for {len(self)} samples")
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class Subset(Dataset):
    """The samples of another dataset at `indices`."""

    def __init__(self, dataset: Dataset, indices: Iterable[int]) -> None:
        self.dataset, self.indices = dataset, [int(i) for i in indices]

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def _describe(value):
    return f"shape {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__
