"""The memory under tensors, as far as it is shown: its size, and which tensors share it."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from volta._kernels import core
from volta._kernels.core import Device, TensorBase
from volta.dtypes import float16, uint8
from volta.errors import ArgumentError

__all__ = ["UntypedStorage"]


def width(x: TensorBase) -> int:
    """Bytes of an element where it lies."""
    return x.dtype.itemsize if not x.device.is_gpu or x.device.is_meta else 2 if x.dtype is float16 else 4


def _shared(array: np.ndarray) -> TensorBase:
    """Bytes as a tensor that shares their memory."""
    storage = core.borrowed_storage(array, array.__array_interface__["data"][0], array.size)
    return core.tensor(storage, array.shape, (1,), 0, uint8)


class UntypedStorage:
    """What `x.untyped_storage()` gives."""

    def __init__(self, tensor: TensorBase) -> None:
        self._storage, self._whole = tensor.storage, tensor if tensor._base is None else tensor._base

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a file, of which the first `nbytes` are read when they are asked for; writes do not reach it. Files of safetensors
        are read by it. Raises: ArgumentError for shared=True; OSError."""
        if shared:
            raise ArgumentError("UntypedStorage.from_file: writes do not reach the file, shared=True is not available; leave it out")
        return cls(_shared(np.memmap(filename, np.uint8, "c", shape=(nbytes,)) if nbytes else np.zeros(0, np.uint8)))

    def _bytes(self) -> np.ndarray:
        return np.frombuffer(memoryview(self._storage).cast("B"), np.uint8)[:self.nbytes()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """What `asarray` takes, its bytes."""
        return (np.array if copy else np.asarray)(self._bytes(), dtype)

    def __getitem__(self, index: int | slice) -> Any:
        """A byte, or the storage of some that lie side by side. Raises: IndexError; BufferError on a GPU."""
        found = self._bytes()[index]
        if not isinstance(index, slice):
            return int(found)
        if index.step not in (None, 1):
            raise ArgumentError(f"UntypedStorage: a slice must be of step 1, got {index.step}")
        return UntypedStorage(_shared(found))

    def untyped(self) -> UntypedStorage:
        """Itself."""
        return self

    @property
    def device(self) -> Device:
        """Where it is."""
        return self._storage.device

    def nbytes(self) -> int:
        """Its size. Units: bytes."""
        return self._storage.nbytes // width(self._whole) * self._whole.dtype.itemsize if self.device.is_gpu else self._storage.nbytes

    __len__ = size = nbytes

    @property
    def is_cuda(self) -> bool:
        """Whether it is on a GPU, under PyTorch's word."""
        return self.device.is_gpu

    def get_device(self) -> int | None:
        """The number of the GPU that it is on; None for the CPU."""
        return self.device.index if self.device.is_gpu else None

    def element_size(self) -> int:
        """1: it is counted in bytes."""
        return 1

    def is_pinned(self, device: object = "cuda") -> bool:
        """False: no memory is page-locked."""
        return False

    def is_shared(self) -> bool:
        """Whether other processes may see it."""
        return not self.device.is_gpu and getattr((self._storage.root or self._storage).buffer, "is_shared", False)

    def tolist(self) -> list[int]:
        """Its bytes. Raises: BufferError on a GPU."""
        return list(memoryview(self._storage).cast("B")[:self.nbytes()])

    def data_ptr(self) -> int:
        """The address of its first element on the CPU; of a GPU's memory a number that tells memories apart."""
        whole = self._whole
        return whole.data_ptr() - whole.offset * whole.dtype.itemsize if whole._size else 0

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()
