"""Bytes of a file as tensors: the element types of files that Volta reads, and what they become. Knows no format."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from volta.device import Device
from volta.dtypes import from_numpy_dtype
from volta.errors import DTypeError, StateDictError
from volta.ops.from_data import from_numpy, tensor

if TYPE_CHECKING:
    from volta.tensor import Tensor

NAMES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "uint16", "uint32", "uint64")


def to_host(data: Any, name: str, *, big_endian: bool = False) -> np.ndarray[Any, Any]:
    """The array of one dimension that `data`, a buffer, holds, without a copy where its bytes can stay as they are.

    bfloat16 becomes float32, of any byte other than 0 a bool is true.
    """
    kind = np.dtype({"bfloat16": "uint16", "bool": "uint8"}.get(name, name))
    array = np.frombuffer(data, kind.newbyteorder(">" if big_endian else "<"))
    if name == "bool":
        return array != 0
    if name == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array if array.dtype.isnative else array.astype(kind)


def placed(array: np.ndarray[Any, Any], device: Device, *, shared: bool = False) -> Tensor:
    """The array as a tensor on `device`; on the CPU it shares the array's memory if that is `shared` for good and can be written to.

    Raises: StateDictError for values or a dtype that the device cannot hold.
    """
    try:
        if not device.is_gpu and from_numpy_dtype(array.dtype).name == array.dtype.name and array.flags.aligned and (
                shared or array.flags.owndata):
            return from_numpy(array)
        return tensor(array, device=device)
    except DTypeError as error:
        raise StateDictError(f"has a dtype or a value that Volta lacks: {error}") from None
