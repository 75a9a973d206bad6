"""What every layer stands on. This package's own names are those of `base`: element types, devices, storages, tensor views."""
from volta._kernels.core.base import (
    CPU,
    Device,
    DType,
    Storage,
    TensorBase,
    alias,
    assign,
    borrowed_storage,
    checked_size,
    default_device,
    dtype_from_code,
    empty,
    empty_host_cache,
    gpu_storage,
    host_memory_stats,
    host_sees,
    memory_size,
    read_scalar,
    reshaped,
    set_default_device,
    set_tensor_type,
    strides_of,
    tensor,
    view,
    watch_reads,
)

__all__ = [
    "CPU", "DType", "Device", "Storage", "TensorBase", "alias", "assign", "borrowed_storage", "checked_size", "default_device",
    "dtype_from_code", "empty", "empty_host_cache", "gpu_storage", "host_memory_stats", "host_sees", "memory_size", "read_scalar",
    "reshaped", "set_default_device", "set_tensor_type", "strides_of", "tensor", "view", "watch_reads",
]
