"""What the operands of a function must be, checked before any kernel: until the records declare it (`takes=`), which replaces this file."""
from __future__ import annotations

from volta._kernels.core import DType, TensorBase
from volta.errors import DeviceError, DTypeError


def floating(op: str, **tensors: TensorBase | None) -> None:
    """Raise DTypeError unless all are floating point."""
    for name, x in tensors.items():
        if x is not None and not x.dtype.is_floating_point:
            raise DTypeError(f"{op}: {name} must be a floating point tensor, got {x.dtype}; convert it with .float()")


def numbers(op: str, **tensors: TensorBase | None) -> None:
    """Raise DTypeError for a bool tensor."""
    for name, x in tensors.items():
        if x is not None and x.dtype.code == 0:
            raise DTypeError(f"{op}: {name} must hold numbers, got {x.dtype}; convert it with .float()")


def same_dtype(op: str, *dtypes: DType, **tensors: TensorBase | None) -> None:
    """Raise DTypeError unless each has one of `dtypes`."""
    for name, x in tensors.items():
        if x is not None and x.dtype not in dtypes:
            raise DTypeError(f"{op}: {name} must be {' or '.join(map(str, dtypes))}, as the input is, got {x.dtype}; "
                             f"convert it with .to({dtypes[0]})")


def same_device(op: str, like: TensorBase, **tensors: TensorBase | None) -> None:
    """Raise DeviceError unless all lie where `like` does."""
    for name, x in tensors.items():
        if x is not None and x.device != like.device:
            raise DeviceError(f"{op}: {name} must be on {like.device}, as the input is, got {x.device}; "
                              f"move it with .to({str(like.device)!r})")
