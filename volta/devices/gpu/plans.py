"""What the GPU kernel families share: `Kernel`, `Plan` and `At` (`volta/_kernels/gpu/{launch,plan}.pyx`), by which a family states
what it launches, and small helpers. What has a launch of its own (update) keeps its plans by `remember`.

Knows tensors and the runtime's context. Must not know any operation.
"""
from __future__ import annotations

from volta._kernels.gpu.launch import Kernel, configure, remember
from volta._kernels.gpu.plan import At, Plan
from volta.devices.gpu.common import FLOAT32, context, unsigned
from volta.devices.gpu.copy import contiguous, copy_into
from volta.errors import DTypeError

__all__ = ["At", "Kernel", "Plan", "need_float32", "remember", "unsigned", "vector_type", "vectors"]

configure(contiguous, copy_into, context)


def need_float32(op: str, *tensors) -> None:
    """Raises: DTypeError where one of the tensors (None is none) is not float32."""
    for t in tensors:
        if t is not None and t.dtype is not FLOAT32:
            raise DTypeError(f"{op}: the GPU kernel takes float32, got {t.dtype.name}; cast with x.to(volta.float32)")


def vectors(inner: int, *offsets: int) -> int:
    """Elements per V: 4 where the inner length and all offsets allow vec4, else 1."""
    return 4 if not inner % 4 and not any(offset % 4 for offset in offsets) else 1


def vector_type(width: int) -> str:
    """WGSL type of a V of `width` float32."""
    return "vec4<f32>" if width == 4 else "f32"
