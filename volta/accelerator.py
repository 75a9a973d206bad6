"""The GPU under the names of torch.accelerator, which do not say whose it is."""
from __future__ import annotations

from volta import gpu
from volta._kernels.core import Device
from volta.cuda import current_device as current_device_index
from volta.cuda import device as device_index
from volta.cuda import (
    device_count,
    empty_cache,
    is_available,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    reset_peak_memory_stats,
    synchronize,
)
from volta.cuda import set_device as set_device_index
from volta.device import as_device

__all__ = ["current_accelerator", "current_device_index", "device_count", "device_index", "empty_cache", "is_available",
           "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "reset_peak_memory_stats",
           "set_device_index", "synchronize"]


def current_accelerator(check_available: bool = False) -> Device | None:
    """The GPU that "gpu" means; None where none is usable."""
    return as_device("gpu") if gpu.is_available() else None
