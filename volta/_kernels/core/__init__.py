"""What every layer stands on. This package's own names are those of `base`: element types, devices, storages, tensor views."""
from volta._kernels.core.base import (
    CPU,
    STORED,
    Device,
    DType,
    Storage,
    TensorBase,
    alias,
    apart,
    array_storage,
    assign,
    borrowed_storage,
    checked_size,
    default_device,
    detached,
    dtype_from_code,
    empty,
    gpu_storage,
    host_sees,
    plain_sizes,
    reshaped,
    same_memory,
    set_default_device,
    set_tensor_type,
    stands_in,
    strides_of,
    tensor,
    view,
    watch_reads,
    wider,
)
from volta._kernels.core.memory import empty_host_cache, host_memory_stats, memory_size
from volta._kernels.core.values import read_scalar, same_values, to_list, triangle_places, true_places

__all__ = [
    "CPU", "DType", "Device", "STORED", "Storage", "TensorBase", "alias", "apart", "array_storage", "assign", "borrowed_storage",
    "checked_size", "default_device", "detached", "dtype_from_code", "empty", "empty_host_cache", "gpu_storage", "host_memory_stats",
    "host_sees", "memory_size", "plain_sizes", "read_scalar", "reshaped", "same_memory", "same_values", "set_default_device",
    "set_tensor_type", "stands_in", "strides_of", "tensor", "to_list", "triangle_places", "true_places", "view", "watch_reads", "wider",
]
