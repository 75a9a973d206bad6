"""Random numbers on the GPU: Philox draws and dropout, one dispatch each; seed and offset are parameters.

The bits and their use are fixed by volta/random.py.
"""
from __future__ import annotations

import math

from volta.devices.gpu.common import BYTES, COMPUTED, FLOAT32, INT32, THREADS, ceil_div, check_dtype, context, pack_float, round_float
from volta.devices.gpu.copy import contiguous, copy_into, empty
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.limits.cut import call
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32
from volta.errors import ArgumentError, DTypeError

KINDS = {"uniform": 0, "normal": 1, "randint": 2, "integers": 2, "dropout": 3, "bernoulli": 4, "exponential": 5, "geometric": 6,
         "cauchy": 7, "log_normal": 8, "chances": 9}
WORD = 0xFFFF_FFFF


def _bits(value: float) -> int:
    """A float32's bits, which is how the kernel's `low` and `span` travel."""
    return int.from_bytes(pack_float(value), "little")


def _draw(name: str, shape, dtype, device, tail) -> Plan:
    """The plan of one dispatch whose seed, offset and two numbers come with each call."""
    dtype = check_dtype(context(device), dtype)
    element = COMPUTED[dtype.code]
    if name != "randint" and dtype is not FLOAT32:
        raise DTypeError(f"{name}: the GPU kernel makes float32, got {dtype.name}; draw float32 and cast")
    if element is None or BYTES[dtype.code] != 4:
        raise DTypeError(f"randint: the GPU kernel makes integers or float32, got {dtype.name}; draw int64 and cast")
    plan = Plan(device=device, tail=tail)
    out, count = plan.output(shape, dtype), math.prod(shape)
    plan.step("random/random", (None, out), (count, 0), ceil_div(count, 4 * THREADS), KIND=KINDS[name], T=element)
    return plan


def _words(seed: int, offset: int, low: int, span: int) -> tuple:
    return seed & WORD, seed >> 32 & WORD, offset & WORD, offset >> 32 & WORD, low, span, 0


def _uniform(*, shape, low, high, seed, offset, dtype, device):
    """Uniform numbers in [low, high)."""
    def tail(low, high, seed, offset, **_):
        return _words(seed, offset, _bits(low), _bits(round_float(high) - round_float(low)))
    return _draw("uniform", shape, dtype, device, tail)


def _normal(*, shape, mean, std, seed, offset, dtype, device):
    """Normal numbers."""
    def tail(mean, std, seed, offset, **_):
        return _words(seed, offset, _bits(mean), _bits(std))
    return _draw("normal", shape, dtype, device, tail)


def _randint(*, shape, low, high, seed, offset, dtype, device):
    """Integers in [low, high).

    Raises: ArgumentError, at the call, where they do not fit the 32 bits that the GPU holds integers in.
    """
    def tail(low, high, seed, offset, **_):
        if low < -2**31 or high > 2**31:
            raise ArgumentError(f"randint: the GPU holds integers in 32 bits, got low {low} and high {high}; "
                                "use a range within -2**31 .. 2**31, or draw on the CPU")
        return _words(seed, offset, low & WORD, high - low & WORD)
    return _draw("randint", shape, dtype, device, tail)


def _shuffled(shape, low, high, seed, offset, dtype, device):
    """Lines of the integers of [low, high), each in the order of its words."""
    keys = KERNELS["randint"](shape, -2**31, 2**31, seed, offset, INT32, device)
    order = call("sort", keys, dim=len(shape) - 1)[1]
    order = call("add", order, low) if low else order
    return order if order.dtype is dtype else call("cast", order, dtype=dtype)


def _dropout(x, *, p, seed, offset):
    """x * mask / (1 - p), where the mask is u >= p."""
    def tail(p, seed, offset):
        return _words(seed, offset, _bits(p), _bits(1.0 / (1.0 - p) if p < 1 else 0.0))
    need_float32("dropout", x)
    if x.offset & 3:
        return lambda x, **params: KERNELS["dropout"](contiguous(x), **params)
    plan = Plan(x, tail=tail)
    plan.step("random/random", (0, plan.output(x.shape, x.dtype)), (x._size, At(0, 4)), ceil_div(x._size, 4 * THREADS),
              KIND=KINDS["dropout"], T="f32")
    return plan


def _draw_into(out, *, kind, a, b, seed, offset):
    """Numbers of two parameters in place: see `draw_into` in the contract."""
    def tail(a, b, seed, offset, **_):
        if kind == "integers":
            return _words(seed, offset, int(a) & WORD, int(b) & WORD)
        return _words(seed, offset, _bits(a), _bits(round_float(b) - round_float(a) if kind == "uniform" else b))
    need_float32(kind, out)
    if not out._contiguous:
        return _drawn_apart
    plan = Plan(out, tail=tail)
    whole = not (out.offset | out._size) & 3
    texts = {} if whole else {"V": "T", **_SINGLY}
    if out._size:
        plan.step("random/random", (None, 0), (out._size, At(0, 4 if whole else 1)), ceil_div(out._size, 4 * THREADS), KIND=KINDS[kind],
                  T="f32", **texts)
    return plan


def _drawn_apart(out, **params):
    numbers = contiguous(out) if params["kind"] == "chances" else empty(out.shape, out.dtype, out.storage.device)
    KERNELS["draw_into"](numbers, **params)
    copy_into(out, numbers)


# How four elements are read and written one by one; those after the last are not.
_SINGLY = {
    "own": "let at = p.x_offset + 4u * i; let last = p.x_offset + p.count - 1u; "
           "return vec4<f32>(out[at], out[min(at + 1u, last)], out[min(at + 2u, last)], out[min(at + 3u, last)]);",
    "store": "let at = p.x_offset + 4u * i; let rest = p.count - 4u * i; out[at] = v.x; "
             "if (rest > 1u) { out[at + 1u] = v.y; } if (rest > 2u) { out[at + 2u] = v.z; } if (rest > 3u) { out[at + 3u] = v.w; }"}
_PLACE = ("seed", "offset")
KERNELS = {
    "uniform": Kernel("uniform", _uniform, varying=("low", "high", *_PLACE), cut=cuts.drawn),
    "normal": Kernel("normal", _normal, varying=("mean", "std", *_PLACE), cut=cuts.drawn),
    "randint": Kernel("randint", _randint, varying=("low", "high", *_PLACE), cut=cuts.drawn),
    "draw_into": Kernel("draw_into", _draw_into, strided=(0,), writes=(0,), varying=("a", "b", *_PLACE), cut=cuts.drawn_into),
    "shuffled": _shuffled,
    "dropout": Kernel("dropout", _dropout, varying=("p", *_PLACE), cut=cuts.dropout)}
