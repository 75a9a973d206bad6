"""Resampling and sums of windows on the GPU: one dispatch each way. A thread makes one place of PLANES planes, for which it finds weights
once."""
from __future__ import annotations

from math import prod

import numpy as np

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, STORED, THREADS, ceil_div
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.limits.cut import call, halves
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32
from volta.errors import IndexRangeError

MODES = {"nearest": 0, "nearest-exact": 1, "linear": 2, "cubic": 3, "area": 4, "linear16": 2, "cubic16": 3}
PLANES = 4
# Of the modes whose weights are rounded: those of each element, by powers of the distance.
WEIGHTS = {"linear16": ((1, -1), (0, 1)),
           "cubic16": ((0, -0.75, 1.5, -0.75), (1, 0, -2.25, 1.25), (0, 0.75, 1.5, -1.25), (0, 0, -0.75, 0.75))}


def _unit(size: int, length: int, scale: float, mode: str, align_corners: bool) -> float:
    """The power of two by which the weights of a dimension are multiplied before they are rounded: the largest then has 15 bits."""
    o = np.arange(length)
    place = scale * o if align_corners else scale * (o + 0.5) - 0.5
    place = np.maximum(place, 0) if mode == "linear16" else place
    first = np.floor(place)
    t = place - first
    weights = np.stack(np.broadcast_arrays(*[sum(c * t ** power for power, c in enumerate(w)) for w in WEIGHTS[mode]]), 1)
    taps = np.clip(first[:, None] + np.arange(weights.shape[1]) - (mode == "cubic16"), 0, size - 1)
    largest = max(1.0 if size == length and scale == 1 else 0.0,
                  float((weights[:, None] * (taps[:, None] == taps[..., None])).sum(-1).max()))
    return 2.0 ** next(bits for bits in range(22) if int(0.5 + largest * (2 << bits)) >= 1 << 15)


def _plan(name, file, x, size, scales, mode, align_corners, transposed):
    need_float32(name, x)
    planes, source, length = (x.shape[0], *((size, x.shape[1:]) if transposed else (x.shape[1:], size)))
    plan = Plan(x)
    out = plan.output((planes, *size), FLOAT32)
    blocks = ceil_div(prod(size), THREADS)
    more, units = {} if transposed else {"ROUNDED": mode in WEIGHTS}, () if transposed else (1.0,) * 3
    if mode in WEIGHTS:
        units = tuple([_unit(*each, mode, align_corners) for each in zip(source, length, scales)])
    plan.step(file, (0, out), (At(0), planes, *source, *length, blocks, *scales, *units), blocks * ceil_div(planes, PLANES),
              MODE=MODES[mode], ALIGNED=align_corners, **more)
    return plan


def _resample(x, *, size, scales, mode, align_corners):
    """x[P, D, H, W] at another size."""
    return _plan("resample", "resample/forward", x, size, scales, mode, align_corners, False)


def _resample_grad(g, *, size, scales, mode, align_corners):
    """The gradient of resample's x, which had this size."""
    return _plan("resample_grad", "resample/grad", g, size, scales, mode, align_corners, True)


def _cut(run, x, **params):
    """Planes by themselves."""
    return halves(run, (x,), params, (0,), 0)


def _windows(name, file, x, places, weights, dim, size, **variant):
    """Plan of a sum of windows, or of its transpose, with this size along dim."""
    outer, inner, (taps, length) = prod(x.shape[:dim]), prod(x.shape[dim + 1:]), places.shape
    plan = Plan(x, places, weights)
    out = plan.output((*x.shape[:dim], size, *x.shape[dim + 1:]), x.dtype)
    n, count = size if name == "windowed_grad" else x.shape[dim], size * inner
    if count and outer:
        if not n:
            raise IndexRangeError(f"{name}: a place is out of range for a dimension of size 0")
        bits, blocks = variant.pop("bits", None), ceil_div(count, THREADS)
        plan.step(file, (0, 1, 2, out), (At(0), At(1), At(2), outer, n, inner, length, taps, blocks, *(() if bits is None else (bits,))),
                  blocks * ceil_div(outer, PLANES), **variant)
    return plan


def _windowed(x, places, weights, *, dim):
    """Along dim, element j is the sum over k of weights[k, j] times the element at places[k, j]."""
    stored = STORED[x.dtype.code]
    return _windows("windowed", "resample/windows", x, places, weights, dim, places.shape[1], bits=0, T=stored, S=stored)


def _windowed_bytes(x, places, weights, *, dim, bits):
    """The same of bytes by weights times 2**bits, rounded up from the half, from 0 to 255."""
    return _windows("windowed_bytes", "resample/windows", x, places, weights, dim, places.shape[1], bits=bits, T="u32", S="i32",
                    start="i32(1u << p.bits >> 1u)", result="u32(clamp(total >> p.bits, 0, 255))")


def _windowed_grad(g, places, weights, *, size, dim):
    """The gradient of windowed's x, which had this size along dim."""
    return _windows("windowed_grad", "resample/windows_grad", g, places, weights, dim, size, T=STORED[g.dtype.code])


def _composed(run, x, places, weights, *, dim):
    """A gather, a product and a sum, which take large tensors in windows."""
    taps, length = places.shape
    picked = call("index_select", x, core.reshaped(contiguous(places), (taps * length,)), dim=dim)
    picked = core.reshaped(picked, (*x.shape[:dim], taps, length, *x.shape[dim + 1:]))
    return call("cast", call("sum", call("mul", picked, _beside(weights, x, dim)), dim=(dim,), keepdim=False), dtype=x.dtype)


def _composed_bytes(run, x, places, weights, *, dim, bits):
    total = call("add", _composed(run, call("cast", x, dtype=weights.dtype), places, weights, dim=dim), 1 << bits >> 1)
    return call("cast", call("minimum", call("maximum", call("bitwise_right_shift", total, bits), 0), 255), dtype=x.dtype)


def _composed_grad(run, g, places, weights, *, size, dim):
    taps, length = places.shape
    each = call("mul", core.reshaped(contiguous(g), (*g.shape[:dim], 1, *g.shape[dim:])), _beside(weights, g, dim))
    each = core.reshaped(each, (*g.shape[:dim], taps * length, *g.shape[dim + 1:]))
    return call("index_add", each, core.reshaped(contiguous(places), (taps * length,)), dim=dim, size=size)


def _beside(weights, x, dim):
    """Weights [taps, length] with dimensions for those of x behind dim."""
    return core.reshaped(contiguous(weights), weights.shape + (1,) * (len(x.shape) - 1 - dim))


KERNELS = {"resample": Kernel("resample", _resample, cut=_cut), "resample_grad": Kernel("resample_grad", _resample_grad, cut=_cut),
           "windowed": Kernel("windowed", _windowed, cut=_composed),
           "windowed_bytes": Kernel("windowed_bytes", _windowed_bytes, cut=_composed_bytes),
           "windowed_grad": Kernel("windowed_grad", _windowed_grad, cut=_composed_grad)}
