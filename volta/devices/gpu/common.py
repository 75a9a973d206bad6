"""What every GPU kernel needs: element types, new tensors, parameter packing, collapsed shapes, windows of large buffers.

Knows tensors and the runtime's context. Must not know any operation.
"""
from __future__ import annotations

import struct
from functools import lru_cache
from math import isfinite

import volta.gpu
from volta._kernels import core
from volta.device import beyond_gpu
from volta.devices.gpu.matmul import ceil_div  # noqa: F401  (defined there since that module stands alone)
from volta.dtypes import check_held
from volta.errors import ArgumentError, DTypeError

BOOL, UINT8, INT32, INT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16, INT8, INT16 = (core.dtype_from_code(code) for code in range(10))

# By DType.code. Device types: what a buffer holds. Compute types: what the arithmetic is done in.
STORED = ("u32", "u32", "i32", "i32", "f16", "f32", None, None, "i32", "i32")
COMPUTED = ("u32", "u32", "i32", "i32", "f32", "f32", None, None, "i32", "i32")
BYTES = (4, 4, 4, 4, 2, 4, None, None, 4, 4)
RANGES = {UINT8: (-255, 255), INT8: (-1 << 7, (1 << 7) - 1), INT16: (-1 << 15, (1 << 15) - 1)}        # of numbers; others have 32 bits

THREADS = 256
MAX_RANK = 8
WINDOW_ALIGNMENT = 256      # of binding offsets, in bytes; no adapter asks for more

FLOAT = struct.Struct("<f")
_contexts: dict = {}


def context(device):
    """The runtime context of a GPU device."""
    ctx = _contexts.get(device)
    if ctx is None:
        ctx = _contexts[device] = volta.gpu.context(device.index)
    return ctx


def max_binding(ctx) -> int:
    """Bytes of a buffer that one launch can see."""
    return ctx.limits["max-storage-buffer-binding-size"] & ~15


def check_dtype(ctx, dtype):
    """The dtype, or float32 in place of one that the GPU lacks, under `set_gpu_gaps("warn")`. Raises: DTypeError where it lacks it."""
    if dtype is FLOAT64 or dtype is FLOAT16 and not ctx.has_f16:
        which = "the" if dtype is FLOAT64 else "this"
        beyond_gpu(DTypeError(f"{dtype.name} is not available on {which} GPU; use float32"), "Took float32.")
        return FLOAT32
    return dtype


def new(device, shape: tuple, dtype):
    """Contiguous GPU tensor, contents undefined."""
    ctx = context(device)
    if dtype.is_floating_point:
        dtype = check_dtype(ctx, dtype)
    nbytes = BYTES[dtype.code]
    for length in shape:
        nbytes *= length
    if nbytes >> 60:
        core.checked_size(shape)
    return core.tensor(core.gpu_storage(ctx.alloc(nbytes or 4), nbytes, device), shape, None, 0, dtype)


def unsigned(strides: tuple) -> list:
    """Strides as unsigned parameters: a negative one wraps, and so does the index that the shader adds up with it."""
    return [s & 0xFFFF_FFFF for s in strides]


def pack(*words) -> bytes:
    """Parameters as 32-bit words: ints (negative or unsigned) and floats (float32)."""
    return b"".join(struct.pack("<f", w) if type(w) is float else (w & 0xFFFF_FFFF).to_bytes(4, "little") for w in words)


def pack_float(value: float) -> bytes:
    """One float32 word; a magnitude beyond float32 becomes infinite."""
    try:
        return FLOAT.pack(value)
    except OverflowError:
        return FLOAT.pack(float("inf") if value > 0 else float("-inf"))


def round_float(value: float) -> float:
    """The nearest float32; infinite beyond its range."""
    return FLOAT.unpack(pack_float(value))[0]


def pack_number(value, dtype, op: str = "number", infinite: bool = True) -> bytes:
    """A Python number as one word of the compute type of `dtype`; a float beyond float32 is `infinite` there, or refused for `op`."""
    code = dtype.code
    if dtype.is_floating_point:
        if not infinite:
            check_held(op, value, FLOAT32)
        return pack_float(value)
    if code == 0:
        return b"\1\0\0\0" if value else b"\0\0\0\0"
    number = int(value) if isinstance(value, int) or isfinite(value) else 1 << 32
    low, high = RANGES.get(dtype, (-1 << 31, (1 << 31) - 1))
    if not low <= number <= high or code == 1 and isinstance(value, float) and value < 0:
        why = ", which a GPU holds in 32 bits" if dtype is INT64 else ""
        raise ArgumentError(f"{op}: {value} does not fit into {dtype}{why}")
    return (number & (0xFF if code == 1 else 0xFFFF_FFFF)).to_bytes(4, "little")


def pack_operand(value, dtype) -> bytes:
    """A number beside tensors of this dtype; integers wrap, as in PyTorch, but for int64's."""
    if isinstance(value, int) and not -1 << 31 <= value < 1 << 31:
        core.check_word("number", value)
        if dtype is not INT64 and dtype.category == 1:
            value = (value + (1 << 31)) % (1 << 32) - (1 << 31)
    return (value & 0xFF).to_bytes(4, "little") if dtype.code == 1 and isinstance(value, int) else pack_number(value, dtype)


@lru_cache(maxsize=4096)
def collapse(shape: tuple, strides: tuple) -> tuple:
    """Merge neighbouring dims that every operand walks in one step.

    IN: strides, one tuple per operand. Gives (sizes, strides), outermost first; size-1 dims are gone, rank >= 1.
    """
    sizes: list = []
    merged: list = [[] for _ in strides]
    for d, length in enumerate(shape):
        if length == 1:
            continue
        if sizes and all(m[-1] == s[d] * length for m, s in zip(merged, strides)):
            sizes[-1] *= length
            for m, s in zip(merged, strides):
                m[-1] = s[d]
        else:
            sizes.append(length)
            for m, s in zip(merged, strides):
                m.append(s[d])
    if not sizes:
        return (1,), tuple((1,) for _ in strides)
    return tuple(sizes), tuple(tuple(m) for m in merged)


def row_major(sizes: tuple) -> tuple:
    """Strides of contiguous elements."""
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def extent(sizes: tuple, strides: tuple) -> tuple:
    """(lowest, highest) element offset that a geometry touches."""
    low = sum((n - 1) * s for n, s in zip(sizes, strides) if s < 0)
    high = sum((n - 1) * s for n, s in zip(sizes, strides) if s > 0)
    return low, high


def broadcast_strides(t, shape: tuple) -> tuple:
    """Strides of `t` read as `shape`: 0 where it is broadcast."""
    own, strides = t.shape, t._strides
    if own == shape:
        return strides
    lead = len(shape) - len(own)
    return (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(own, strides))


def broadcast_shape(shapes) -> tuple:
    """The common shape; the front end has checked that there is one."""
    rank = max(map(len, shapes))
    out = [1] * rank
    for shape in shapes:
        for d, n in enumerate(shape, rank - len(shape)):
            if n != 1:
                out[d] = n
    return tuple(out)
