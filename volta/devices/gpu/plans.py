"""What the GPU kernel families share: `Kernel`, `Plan` and `At` (`volta/_kernels/gpu/launch.pyx`), by which a family states what it
launches, and small helpers. `Plans`, `dense`, `floats`, `packer` and `spare` serve what launches by hand.

Knows tensors and the runtime's context. Must not know any operation.
"""
from __future__ import annotations

import struct

from volta import gpu
from volta._kernels import core
from volta._kernels.gpu.launch import At, Kernel, Plan, configure
from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div, context
from volta.devices.gpu.copy import contiguous, copy_into, fill_into
from volta.errors import DTypeError

__all__ = ["THREADS", "At", "Kernel", "Plan", "Plans", "ceil_div", "dense", "floats", "need_float32", "packer", "spare", "unsigned",
           "vector_type", "vectors", "zeros"]

configure(contiguous, copy_into, context)
_spare: dict = {}


class Plans(dict):
    """Plans by everything that they depend on; starts anew where ever new shapes have filled it."""

    limit = 4096

    def __setitem__(self, key, plan) -> None:
        if len(self) >= self.limit:
            self.clear()
        super().__setitem__(key, plan)


def dense(t):
    """`t`, or a row-major copy where its strides are others."""
    return t if t._contiguous else contiguous(t)


def need_float32(op: str, *tensors) -> None:
    """Raises: DTypeError where one of the tensors (None is none) is not float32."""
    for t in tensors:
        if t is not None and t.dtype is not FLOAT32:
            raise DTypeError(f"{op}: the GPU kernel takes float32, got {t.dtype.name}; cast with x.to(volta.float32)")


def floats(device, shape: tuple, nbytes: int):
    """New contiguous float32 tensor, contents undefined; the caller knows its bytes."""
    return core.tensor(core.gpu_storage(context(device).alloc(nbytes), nbytes, device), shape, None, 0, FLOAT32)


def zeros(device, shape: tuple):
    """New float32 tensor of zeros."""
    count = 1
    for length in shape:
        count *= length
    out = floats(device, shape, 4 * count)
    if count:
        fill_into(out, 0.0)
    return out


def packer(pipeline):
    """`struct` packer of a pipeline's Params, padding included."""
    return struct.Struct(pipeline.params_format).pack


def unsigned(strides: tuple) -> list:
    """Strides as unsigned parameters: a negative one wraps, and so does the index that the shader adds up with it."""
    return [s & 0xFFFF_FFFF for s in strides]


def spare(ctx, i: int = 0):
    """A small buffer to bind where a kernel's variant does not look; one per `i`, since a buffer may be written only once."""
    key = (ctx, i)
    buffer = _spare.get(key)
    if buffer is None:
        with gpu.lasting():
            buffer = _spare[key] = ctx.alloc(256)
    return buffer


def vectors(inner: int, *offsets: int) -> int:
    """Elements per V: 4 where the inner length and all offsets allow vec4, else 1."""
    return 4 if not inner % 4 and not any(offset % 4 for offset in offsets) else 1


def vector_type(lanes: int) -> str:
    """WGSL type of a V of `lanes` float32."""
    return "vec4<f32>" if lanes == 4 else "f32"
