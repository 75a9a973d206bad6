"""The memory under tensors, as far as it is shown: its size, and which tensors share it."""
from __future__ import annotations

from volta._kernels.core import Device, TensorBase

__all__ = ["UntypedStorage"]


class UntypedStorage:
    """What `x.untyped_storage()` gives."""

    def __init__(self, tensor: TensorBase) -> None:
        self._storage, self._whole = tensor.storage, tensor if tensor._base is None else tensor._base

    @property
    def device(self) -> Device:
        """Where it is."""
        return self._storage.device

    def nbytes(self) -> int:
        """Its size. Units: bytes."""
        whole = self._whole
        elements = whole.offset + sum((n - 1) * step for n, step in zip(whole.shape, whole._strides)) + 1 if whole._size else 0
        return elements * whole.dtype.itemsize

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
        """False: no other process sees it."""
        return False

    def tolist(self) -> list[int]:
        """Its bytes. Raises: BufferError on a GPU."""
        return list(memoryview(self._storage).cast("B")[:self.nbytes()])

    def data_ptr(self) -> int:
        """The address of its first element on the CPU; of a GPU's memory a number that tells memories apart."""
        whole = self._whole
        return whole.data_ptr() - whole.offset * whole.dtype.itemsize if whole._size else 0

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()
