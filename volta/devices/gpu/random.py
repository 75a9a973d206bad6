"""Random numbers on the GPU: Philox draws and dropout, one dispatch each; seed and offset are parameters.

The bits and their use are fixed by volta/random.py.
"""
from __future__ import annotations

import struct

from volta.devices.gpu.common import BYTES, COMPUTED, FLOAT32, context, new
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.plans import THREADS, Plans, ceil_div, floats, need_float32, packer, spare
from volta.errors import ArgumentError, DTypeError

UNIFORM, NORMAL, RANDINT, DROPOUT = range(4)
WORD = 0xFFFF_FFFF

_plans = Plans()
_as_float = struct.Struct("<f")


def _round(value: float) -> float:
    """The nearest float32; infinite beyond its range."""
    try:
        return _as_float.unpack(_as_float.pack(value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _bits(value: float) -> int:
    """A float32's bits, which is how the kernel's `low` and `span` travel."""
    return int.from_bytes(_as_float.pack(_round(value)), "little")


def _plan(kind: int, device, dtype):
    ctx = context(device)
    element = COMPUTED[dtype.code]
    if kind != RANDINT and dtype is not FLOAT32:
        name = ("uniform", "normal", "randint", "dropout")[kind]
        raise DTypeError(f"{name}: the GPU kernel makes float32, got {dtype.name}; draw float32 and cast")
    if element is None or BYTES[dtype.code] != 4:
        raise DTypeError(f"randint: the GPU kernel makes integers or float32, got {dtype.name}; draw int64 and cast")
    pipeline = ctx.pipeline("random/random", KIND=kind, T=element)
    plan = _plans[kind, device, dtype] = (ctx, pipeline, packer(pipeline))
    return plan


def _draw(kind: int, shape: tuple, low: int, span: int, seed: int, offset: int, dtype, device):
    plan = _plans.get((kind, device, dtype)) or _plan(kind, device, dtype)
    ctx, pipeline, pack = plan
    out = new(device, shape, dtype)
    quads = (out._size + 3) >> 2
    if quads:
        ctx.launch(pipeline, (spare(ctx), out.storage.buffer),
                   pack(quads, 0, seed & WORD, seed >> 32 & WORD, offset & WORD, offset >> 32 & WORD, low, span, 0),
                   ceil_div(quads, THREADS))
    return out


def uniform(shape, low, high, seed, offset, dtype, device):
    """Uniform numbers in [low, high)."""
    span = _round(_round(high) - _round(low))
    return _draw(UNIFORM, shape, _bits(low), _bits(span), seed, offset, dtype, device)


def normal(shape, mean, std, seed, offset, dtype, device):
    """Normal numbers."""
    return _draw(NORMAL, shape, _bits(mean), _bits(std), seed, offset, dtype, device)


def randint(shape, low, high, seed, offset, dtype, device):
    """Integers in [low, high).

    Raises: ArgumentError where they do not fit the 32 bits that the GPU holds integers in.
    """
    if low < -2**31 or high > 2**31:
        raise ArgumentError(f"randint: the GPU holds integers in 32 bits, got low {low} and high {high}; "
                            "use a range within -2**31 .. 2**31, or draw on the CPU")
    return _draw(RANDINT, shape, low & WORD, high - low & WORD, seed, offset, dtype, device)


def dropout(x, p, seed, offset):
    """x * mask / (1 - p), where the mask is u >= p."""
    device = x.storage.device
    plan = _plans.get((DROPOUT, device, x.dtype))
    if plan is None:
        need_float32("dropout", x)
        plan = _plan(DROPOUT, device, x.dtype)
    if x.offset & 3 or not x._contiguous:
        x = contiguous(x)
    ctx, pipeline, pack = plan
    size = x._size
    out = floats(device, x.shape, 4 * size)
    if size:
        quads = (size + 3) >> 2
        scale = 1.0 / (1.0 - p) if p < 1 else 0.0
        ctx.launch(pipeline, (x.storage.buffer, out.storage.buffer),
                   pack(quads, x.offset >> 2, seed & WORD, seed >> 32 & WORD, offset & WORD, offset >> 32 & WORD,
                        _bits(p), _bits(scale), 0), (quads + 255) >> 8)
    return out


KERNELS = {"uniform": uniform, "normal": normal, "randint": randint, "dropout": dropout}
