"""Element types under their PyTorch names, and their NumPy counterparts."""
from __future__ import annotations

import numpy as np

from volta._kernels.core import DType as dtype
from volta._kernels.core import dtype_from_code
from volta._kernels.graph import result_type
from volta.errors import ArgumentError, DTypeError

bool_, uint8, int32, int64, float16, float32, float64 = (dtype_from_code(code) for code in range(7))
half, float_, double, int_, long = float16, float32, float64, int32, int64
ALL = (bool_, uint8, int32, int64, float16, float32, float64)

_TO_NUMPY = {d: np.dtype(d.name) for d in ALL}
_FROM_NUMPY = {n: d for d, n in _TO_NUMPY.items()}
_WIDENED = {"int8": int32, "int16": int32, "uint16": int32, "uint32": int64}
_default = float32


def to_numpy(d: dtype) -> np.dtype:
    """NumPy's counterpart of a Volta dtype."""
    return _TO_NUMPY[d]


def from_numpy_dtype(d: np.dtype) -> dtype:
    """Volta's dtype for a NumPy one; small integers widen.

    Raises: DTypeError for one that Volta has no counterpart of (complex, strings, objects).
    """
    found = _FROM_NUMPY.get(d) or _WIDENED.get(d.name) or (int64 if d == np.uint64 else None)
    if found is None:
        raise DTypeError(f"tensor: NumPy dtype {d} has no counterpart; Volta has {', '.join(x.name for x in ALL)}")
    return found


def as_dtype(value: object) -> dtype:
    """A dtype from a Volta dtype, a NumPy dtype, a Python type or a name."""
    if isinstance(value, dtype):
        return value
    simple = {bool: bool_, int: int64, float: _default}.get(value) if isinstance(value, type) else None
    if simple is not None:
        return simple
    try:
        return from_numpy_dtype(np.dtype(value))
    except TypeError:
        raise DTypeError(f"dtype: {value!r} is no element type; use volta.float32, volta.int64, ...") from None


def get_default_dtype() -> dtype:
    """The dtype of tensors made from Python floats."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the dtype of tensors made from Python floats (float32 or float64)."""
    global _default
    if d not in (float32, float64):
        raise ArgumentError(f"set_default_dtype: needs volta.float32 or volta.float64, got {d!r}")
    _default = d


def promote_types(a: dtype, b: dtype) -> dtype:
    """The dtype that both convert to in arithmetic."""
    a, b = as_dtype(a), as_dtype(b)
    return a if a.code >= b.code else b


__all__ = ["dtype", "result_type", "promote_types", "get_default_dtype", "set_default_dtype", "as_dtype", "to_numpy"]
