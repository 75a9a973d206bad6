"""Batches on their way between processes: arrays lie in shared memory, out of the pickle; nothing copies them on arrival.

A block is named by its task. The worker makes it, the caller takes its name away as soon as it has it, so that it goes with the last
array in it; of a worker that died, the caller looks for the block by its name.
"""
from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from volta._kernels import core
from volta.errors import DeviceError
from volta.ops.from_data import from_numpy

_ALIGNMENT = 64
_SMALL = 2048               # bytes up to which a message carries all: a pipe takes them at once


class _Pickler(pickle.Pickler):
    """Gives the memory of arrays and tensors to its `buffer_callback`."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, core.TensorBase):
            if value.device.is_gpu:
                raise DeviceError(f"DataLoader: workers touch host memory only, a batch has a tensor on {value.device}; "
                                  "give host data and DataLoader(device=...), or use num_workers=0")
            return _tensor, (np.ascontiguousarray(value.detach().numpy()).reshape(value.shape), value.requires_grad)
        if type(value) is np.ndarray and not value.flags.forc and value.dtype.kind != "O":
            return np.ascontiguousarray(value).__reduce_ex__(5)
        return NotImplemented


def _tensor(array, requires_grad):
    return from_numpy(array).requires_grad_(requires_grad)


def pack(value: Any, name: str) -> tuple[tuple[list[int], bytes | None], SharedMemory | None]:
    """What to send of a value, and the block of this name that has the rest."""
    buffers: list[pickle.PickleBuffer] = []
    body = io.BytesIO()
    _Pickler(body, 5, buffer_callback=buffers.append).dump(value)
    parts = [body.getbuffer(), *(buffer.raw() for buffer in buffers)]
    lengths = [part.nbytes for part in parts]
    *starts, total = _starts(lengths)
    block = SharedMemory(name, create=True, size=total) if total > _SMALL else None
    memory = bytearray(total) if block is None else block.buf
    for start, part in zip(starts, parts):
        memory[start:start + part.nbytes] = part
    return (lengths, bytes(memory) if block is None else None), block


def unpack(message: tuple[list[int], bytes | None], name: str) -> Any:
    """The value of a message. Its arrays may be written to; their block, which loses its name here, goes with the last of them."""
    lengths, small = message
    memory = np.asarray(_Block(name)) if small is None else np.frombuffer(bytearray(small), np.uint8)
    body, *buffers = (memory[start:start + length] for start, length in zip(_starts(lengths), lengths))
    return pickle.loads(body, buffers=buffers)


def drop(name: str) -> None:
    """Remove a block that nobody will unpack, where there is one."""
    with suppress(FileNotFoundError):
        _Block(name)


def _starts(lengths: Sequence[int]) -> list[int]:
    """Where parts of these lengths begin, and the end of the last."""
    return list(itertools.accumulate((-(-length // _ALIGNMENT) * _ALIGNMENT for length in lengths), initial=0))


class _Block:
    """Shared memory as an array's base: it is given back when the last array on it goes."""

    def __init__(self, name: str) -> None:
        self._memory = SharedMemory(name)
        self._memory.unlink()
        address = np.frombuffer(self._memory.buf, np.uint8).ctypes.data
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (self._memory.size,), "data": (address, False)}
