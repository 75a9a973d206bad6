"""Tensors whose memory several processes see, so that each reads what another has written: `share_memory_`.

The memory comes from multiprocessing's own heap, whose files go to processes that are started or sent to, and which takes it back when the
last tensor in it has gone. All other tensors are copied when they are sent. Knows memory and multiprocessing alone.
"""
from __future__ import annotations

from multiprocessing import heap
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from volta._kernels import core
from volta.errors import ArgumentError, DeviceError
from volta.nn.parameter import Buffer, Parameter
from volta.tensor import Tensor

__all__ = ["shared"]


class Block:
    """Shared memory, as what owns the bytes of a storage."""

    is_shared = True

    def __init__(self, memory: heap.BufferWrapper) -> None:
        self.memory = memory
        self.bytes = np.frombuffer(memory.create_memoryview(), np.uint8)


def shared(x: Tensor) -> Tensor:
    """The tensor in shared memory, into which all of the memory that it lies in is copied.

    Raises: ArgumentError for a view; DeviceError for a tensor that is on no CPU.
    """
    if x._base is not None:
        raise ArgumentError("share_memory_: a view lies in the memory of another tensor; share that before views of it are made")
    if x.device is not core.CPU:
        raise DeviceError(f"share_memory_: processes share host memory alone, the tensor is on {x.device}; share x.cpu()")
    block, old = Block(heap.BufferWrapper(max(x.storage.nbytes, 1))), memoryview(x.storage).cast("B")
    block.bytes[:old.nbytes] = old
    return _over(block, old.nbytes, x.shape, x._strides, x.offset, x.dtype)


def _over(block, nbytes, shape, strides, offset, dtype):
    storage = core.borrowed_storage(block, block.bytes.ctypes.data, nbytes)
    return core.tensor(storage, shape, strides, offset, dtype)


def _reduced(x: Tensor) -> Any:
    """What another process makes a tensor of: where it is shared, the same memory."""
    storage = x.storage
    block = (storage.root or storage).buffer
    if not isinstance(block, Block):
        return x.__reduce_ex__(5)
    return _attached, (type(x), x.requires_grad, block.memory, storage.nbytes, x.shape, x._strides, x.offset, x.dtype)


def _attached(kind, requires_grad, memory, *place):
    found = _over(Block(memory), *place)
    return found.requires_grad_(requires_grad) if kind is Tensor else kind(found, requires_grad)


for _kind in (Tensor, Parameter, Buffer):
    ForkingPickler.register(_kind, _reduced)
