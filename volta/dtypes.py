"""Element types under their PyTorch names, and their NumPy counterparts."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from volta._kernels.core import DType as dtype
from volta._kernels.core import check_word, dtype_from_code, wider
from volta._kernels.core.call import result_type, set_default
from volta.errors import ArgumentError, DTypeError, TypeNameError

__all__ = ["as_dtype", "as_integer", "bfloat16", "bool_", "can_cast", "check_held", "double", "dtype", "finfo", "float16", "float32",
           "float64", "float_", "from_numpy_dtype", "get_default_dtype", "half", "held", "iinfo", "int16", "int32", "int64", "int8",
           "int_", "is_element", "long", "promote_types", "result_type", "set_default_dtype", "short", "to_numpy", "uint8"]

bool_, uint8, int32, int64, float16, float32, float64, bfloat16, int8, int16 = (dtype_from_code(code) for code in range(10))
half, float_, double, short, int_, long = float16, float32, float64, int16, int32, int64
ALL = (bool_, uint8, int8, int16, int32, int64, float16, float32, float64, bfloat16)
HALVES = (float16, bfloat16)            # stored as such, computed in float32

_TO_NUMPY = {d: np.dtype(d.name) for d in ALL if d is not bfloat16}
_FROM_NUMPY = {n: d for d, n in _TO_NUMPY.items()}
_WIDENED = {"uint16": int32, "uint32": int64, "uint64": int64}
_default = float32


def to_numpy(d: dtype) -> np.dtype:
    """NumPy's counterpart of a Volta dtype. Raises: DTypeError for bfloat16."""
    if d is bfloat16:
        raise DTypeError("numpy: NumPy has no bfloat16; convert the tensor with .float()")
    return _TO_NUMPY[d]


def from_numpy_dtype(d: np.dtype) -> dtype:
    """Volta's dtype for a NumPy one; unsigned integers that it has not widen, 64 bits to int64.

    Raises: DTypeError for one that Volta has no counterpart of (complex, strings, objects), also a ValueError for another byte order.
    """
    found = _FROM_NUMPY.get(d) or _WIDENED.get(d.name)
    if found is None:
        if not d.isnative:
            raise TypeNameError(f"tensor: NumPy dtype {d} has another byte order than this machine; convert the array with "
                                f".astype(array.dtype.newbyteorder('='))")
        raise DTypeError(f"tensor: NumPy dtype {d} has no counterpart; Volta has {', '.join(x.name for x in ALL)}")
    return found


def as_dtype(value: object) -> dtype:
    """A dtype from a Volta dtype, a NumPy dtype, a Python type or a name."""
    if isinstance(value, dtype):
        return value
    if value == "bfloat16":
        return bfloat16
    simple = {bool: bool_, int: int64, float: float64}.get(value) if isinstance(value, type) else None
    if simple is not None:
        return simple
    try:
        return from_numpy_dtype(np.dtype(value))
    except (TypeError, ValueError):
        raise DTypeError(f"dtype: {value!r} is no element type; use volta.float32, volta.int64, ...") from None


def get_default_dtype() -> dtype:
    """The dtype of tensors made from Python floats."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the dtype of tensors made from Python floats, and of what integers become beside these and in floating point functions.

    Raises: DTypeError for what is no floating point dtype.
    """
    global _default
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise DTypeError(f"set_default_dtype: needs a floating point dtype such as volta.float32, got {d!r}")
    _default = d
    set_default(d)


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The dtype that both convert to in arithmetic."""
    return dtype_from_code(wider(as_dtype(type1).code, as_dtype(type2).code))


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether results of `from_` can be stored in `to`: floats are no integers, and numbers no bool."""
    from_, to = as_dtype(from_), as_dtype(to)
    return to.is_floating_point or from_ is to or not from_.is_floating_point and to is not bool_


_BRAIN = SimpleNamespace(eps=2.0 ** -7, max=2.0 ** 127 * (2 - 2.0 ** -7), min=-(2.0 ** 127) * (2 - 2.0 ** -7), tiny=2.0 ** -126,
                         smallest_normal=2.0 ** -126, resolution=0.01, bits=16)


_LIMITS: dict[dtype, dict[str, Any]] = {}


class finfo:
    """Limits of a floating point dtype: eps, max, min, tiny, smallest_normal, resolution (Python floats), bits and dtype.

    Raises: DTypeError for another dtype.
    """

    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    bits: int
    dtype: str

    def __init__(self, type: dtype | type[float] | None = None) -> None:
        found = _default if type is None else float64 if type is float else type
        if getattr(found, "is_floating_point", False) is not True:         # of a tensor it is a method
            raise DTypeError(f"finfo: needs a floating point dtype, got {found!r}; use iinfo for integers")
        if found not in _LIMITS:
            limits = _BRAIN if found is bfloat16 else getattr(found, "limits", None) or np.finfo(to_numpy(found))
            names = ("eps", "max", "min", "tiny", "smallest_normal")
            _LIMITS[found] = {**{name: float(getattr(limits, name)) for name in names}, "bits": limits.bits, "dtype": found.name,
                              "resolution": float(f"{float(limits.resolution):.0e}")}
        self.__dict__.update(_LIMITS[found])

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:
    """Limits of an integer dtype: max, min, bits and dtype.

    Raises: DTypeError for another dtype.
    """

    def __init__(self, type: dtype | type[int]) -> None:
        type = int64 if type is int else type
        if getattr(type, "is_floating_point", True) or type is bool_:
            raise DTypeError(f"iinfo: needs an integer dtype, got {type!r}")
        limits = np.iinfo(to_numpy(type))
        self.max, self.min, self.bits, self.dtype = int(limits.max), int(limits.min), limits.bits, type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


_LARGEST = {float16: 65504.0, bfloat16: float.fromhex("0x1.fep127"), float32: float.fromhex("0x1.fffffep127")}


def check_held(op: str, value: int | float, wanted: dtype) -> None:
    """What PyTorch refuses to store: a finite number beyond the largest of a floating dtype. Callers first compare it with 65504, which
    every one holds, as that takes no call.

    Raises: ArgumentError.
    """
    if wanted in _LARGEST and _LARGEST[wanted] < abs(value) < float("inf"):
        raise ArgumentError(f"{op}: {value} does not fit into {wanted}; give an infinite one, or one within volta.finfo(dtype)")


def is_element(value: object, wanted: dtype) -> bool:
    """Whether a number is one of `wanted`, of 32 or 64 bits, that kernels may be given as it is; for others there is `check_held`."""
    if wanted.itemsize < 4:
        return False
    if wanted.is_floating_point:
        return type(value) in (int, float) and (-65504.0 <= value <= 65504.0 or not abs(value) < float("inf") or wanted not in _LARGEST
                                                or abs(value) <= _LARGEST[wanted])
    return type(value) is int and -1 << 31 <= value < 1 << 31


def held(op: str, value: int | float, wanted: dtype) -> int | float:
    """A factor as it is. Raises: ArgumentError for one that `wanted` does not hold."""
    if not wanted.is_floating_point:
        return as_integer(op, value, wanted)
    if not -65504.0 <= value <= 65504.0:
        check_held(op, value, wanted)
    return value


def as_integer(op: str, value: int | float, wanted: dtype | None = None) -> int:
    """A number as a tensor of integers takes it, without what lies behind the point.

    Raises: ArgumentError for NaN and infinity, for what the dtype `wanted` does not hold, and for a negative float where that is uint8, in
    which only integers wrap.
    """
    if wanted is uint8 and isinstance(value, float) and value < 0:
        raise ArgumentError(f"{op}: {value} does not fit into {wanted}; give an integer, which wraps, or convert with .float()")
    try:
        number = int(value)
    except (OverflowError, ValueError):
        raise ArgumentError(f"{op}: a tensor of integers cannot hold {value}; give an integer, or convert with .float()") from None
    if wanted is not None and wanted.category == 1 and not _fits(number, wanted):
        check_word(op, number)
        raise ArgumentError(f"{op}: {value} does not fit into {wanted}")
    return number


def _fits(number: int, wanted: dtype) -> bool:
    top = 255 if wanted is uint8 else (1 << 8 * wanted.itemsize - 1) - 1
    return -top - (wanted is not uint8) <= number <= top
