"""Bytes of a file as tensors: the element types of files that Volta reads, and what they become. Knows no format."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from volta._kernels import core
from volta.device import Device
from volta.dtypes import bfloat16, from_numpy_dtype
from volta.errors import DTypeError, NumberError, StateDictError
from volta.ops.from_data import from_numpy, tensor

if TYPE_CHECKING:
    from volta.tensor import Tensor

NAMES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "uint16", "uint32", "uint64")


BRAIN = np.dtype([("bfloat16", "<u2")])          # elements of bfloat16, which NumPy has not


def to_host(data: Any, name: str, *, big_endian: bool = False) -> np.ndarray[Any, Any]:
    """The array of one dimension that `data`, a buffer, holds, without a copy where its bytes can stay as they are.

    Of any byte other than 0 a bool is true.
    """
    if name == "bfloat16":
        return to_host(data, "uint16", big_endian=big_endian).view(BRAIN)
    kind = np.dtype("uint8" if name == "bool" else name)
    array = np.frombuffer(data, kind.newbyteorder(">" if big_endian else "<"))
    if name == "bool":
        return array != 0
    return array if array.dtype.isnative else array.astype(kind)


def placed(array: np.ndarray[Any, Any], device: Device, *, shared: bool = False) -> Tensor:
    """The array as a tensor on `device`; on the CPU it shares the array's memory if that is `shared` for good and can be written to.
    bfloat16 becomes float32 on a GPU.

    Raises: StateDictError for values or a dtype that the device cannot hold.
    """
    if array.dtype == BRAIN:
        kept = array if shared and array.flags.aligned and array.flags.writeable else array.copy()
        storage = core.borrowed_storage(kept, kept.__array_interface__["data"][0], kept.nbytes)
        words = core.tensor(storage, kept.shape, None, 0, bfloat16)
        return words.float().to(device) if device.is_gpu else words
    try:
        if not device.is_gpu and from_numpy_dtype(array.dtype).name == array.dtype.name and array.flags.aligned and (
                shared or array.flags.owndata):
            return from_numpy(array)
        return tensor(array, device=device)
    except (DTypeError, NumberError) as error:
        raise StateDictError(f"has a dtype or a value that Volta lacks: {error}") from None


def to_array(t: Tensor) -> np.ndarray[Any, Any]:
    """The elements of a tensor on the host, as an array that shares their memory if they are there."""
    t = t.detach().cpu()
    if t.dtype is not bfloat16:
        return t.numpy()
    return np.ndarray(t.shape, BRAIN, t.storage, 2 * t.offset, tuple(2 * s for s in t._strides)) if t._size else np.empty(t.shape, BRAIN)
