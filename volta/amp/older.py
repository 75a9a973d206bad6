"""The names of autocast that PyTorch had for each device, deprecated there: CPUs and GPUs of their own."""
from __future__ import annotations

import warnings

from volta.amp.mode import get_autocast_dtype, is_autocast_enabled, set_autocast_dtype, set_autocast_enabled
from volta.dtypes import dtype as DType

__all__ = ["get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "is_autocast_cpu_enabled", "set_autocast_cpu_dtype",
           "set_autocast_cpu_enabled", "set_autocast_gpu_dtype"]


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated; write {new}", DeprecationWarning, stacklevel=3)


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on in this thread for CPUs."""
    _deprecated("is_autocast_cpu_enabled", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast for CPUs, as `set_autocast_enabled`."""
    _deprecated("set_autocast_cpu_enabled", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """The dtype of products under autocast on CPUs."""
    _deprecated("get_autocast_cpu_dtype", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Set the dtype of products under autocast on CPUs, as `set_autocast_dtype`."""
    _deprecated("set_autocast_cpu_dtype", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> DType:
    """The dtype of products under autocast on GPUs."""
    _deprecated("get_autocast_gpu_dtype", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """Set the dtype of products under autocast on GPUs, as `set_autocast_dtype`."""
    _deprecated("set_autocast_gpu_dtype", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)
