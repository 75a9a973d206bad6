"""PyTorch's legacy constructors by element type: `FloatTensor(2, 3)`, `cuda.LongTensor([1, 2])`, and the names of types."""
from __future__ import annotations

from typing import Any

import numpy as np

from volta._kernels.core import TensorBase
from volta.device import set_default_device
from volta.dtypes import as_dtype, bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, set_default_dtype, uint8
from volta.errors import ArgumentError, DTypeError, TypeNameError, warn_once
from volta.ops.creation import empty
from volta.ops.from_data import as_tensor, tensor
from volta.shapes import Size
from volta.subclasses import as_tensors

__all__ = ["BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor",
           "ShortTensor", "set_default_tensor_type"]


def legacy_tensor(name: str, arguments: tuple, dtype: Any, device: Any = "cpu") -> Any:
    """What `Tensor(...)` and its typed kin make: an empty tensor of nothing, undefined contents of sizes, else a tensor of the data.

    Raises: DTypeError for a tensor of another dtype; ArgumentError for anything else.
    """
    if len(arguments) == 1 and type(arguments[0]) is Size:
        arguments = tuple(arguments[0])
    elif len(arguments) == 1 and isinstance(arguments[0], TensorBase):
        if arguments[0].dtype is not dtype and name != "Tensor":        # which takes a tensor over as it is
            raise DTypeError(f"{name}: needs a tensor of {dtype}, got one of {arguments[0].dtype}; write x.to({dtype})")
        with as_tensors():
            return arguments[0][...]                    # with its graph, as in PyTorch
    elif len(arguments) == 1 and isinstance(arguments[0], (float, str, np.floating)):
        raise DTypeError(f"{name}: the data must be a sequence, got {type(arguments[0]).__name__}; write tensor() of a number")
    elif len(arguments) == 1 and isinstance(arguments[0], np.ndarray):
        return as_tensor(arguments[0], dtype=dtype, device=device)          # over the array's memory where it can be
    elif len(arguments) == 1 and not hasattr(arguments[0], "__index__"):
        return tensor(arguments[0], dtype=dtype, device=device)
    if not all(hasattr(n, "__index__") and not isinstance(n, bool) for n in arguments):
        raise ArgumentError(f"{name}: needs sizes as int, or one sequence, array or tensor, got {arguments!r}")
    return empty(*arguments, dtype=dtype, device=device) if arguments else empty(0, dtype=dtype, device=device)


class Typed(type):
    """The class of the typed constructors: each makes tensors of one dtype, which count as its instances, on the CPU or on a GPU."""

    def __new__(mcs, name: str, dtype: Any, place: str) -> Typed:
        return super().__new__(mcs, name, (), {"__doc__": f"Legacy constructor of tensors of {dtype}: from data, or of given sizes."})

    def __init__(cls, name: str, dtype: Any, place: str) -> None:
        cls.dtype, cls.place = dtype, place
        cls.__module__ = "volta.typed" if place == "cpu" else "volta.cuda"

    def __call__(cls, *arguments: Any) -> Any:
        return legacy_tensor(cls.__name__, arguments, cls.dtype, cls.place)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TensorBase) and instance.dtype is cls.dtype and instance.device.is_gpu == (cls.place != "cpu")


TYPES = {"BFloat16Tensor": bfloat16, "HalfTensor": float16, "FloatTensor": float32, "DoubleTensor": float64, "ByteTensor": uint8,
         "CharTensor": int8, "ShortTensor": int16, "IntTensor": int32, "LongTensor": int64, "BoolTensor": bool_}
BFloat16Tensor, HalfTensor, FloatTensor, DoubleTensor, ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor, BoolTensor = (
    Typed(n, d, "cpu") for n, d in TYPES.items())
_NAMES = {dtype: name for name, dtype in TYPES.items()}


def type_name(t: TensorBase) -> str:
    """PyTorch's name of a tensor's type: "torch.FloatTensor", on a GPU "torch.cuda.FloatTensor"."""
    return f"torch.{'cuda.' if t.device.is_gpu else ''}{_NAMES[t.dtype]}"


def type_of(dtype: Any) -> tuple[Any, str | None]:
    """The dtype that `Tensor.type` is asked for, and the device if that is said too: a dtype, a typed constructor or a type's name.

    Raises: DTypeError for an unknown one.
    """
    if isinstance(dtype, Typed):
        return dtype.dtype, dtype.place
    if isinstance(dtype, str) and dtype.endswith("Tensor"):
        package, _, name = dtype.rpartition(".")
        if name not in TYPES or package not in ("torch", "torch.cuda"):
            raise DTypeError(f"type: there is no type {dtype!r} here; use one such as 'torch.FloatTensor', or a dtype")
        return TYPES[name], "gpu" if package == "torch.cuda" else "cpu"
    try:
        return as_dtype(dtype), None
    except DTypeError as error:
        raise TypeNameError(*error.args) from None


def set_default_tensor_type(t: Any) -> None:
    """Let new tensors of floating point be of this type: a typed constructor or its name, such as "torch.cuda.FloatTensor".

    Raises: DTypeError for another type.
    """
    dtype, place = type_of(t)
    if place is None or not dtype.is_floating_point:
        raise DTypeError(f"set_default_tensor_type: needs a floating point type such as 'torch.FloatTensor', got {t!r}")
    warn_once("set_default_tensor_type is deprecated; write set_default_dtype and set_default_device")
    set_default_dtype(dtype)
    set_default_device(place)
