"""Resampling on the GPU: one dispatch each way. A thread makes one place of PLANES planes, for which it finds weights once."""
from __future__ import annotations

from math import prod

import numpy as np

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.limits.cut import call, halves
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32

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


def _windowed(x, places, weights, *, dim):
    """Along dim, the sums of elements at places[:, j] times weights[:, j]: a gather, a product and a sum."""
    taps, length = places.shape
    picked = call("index_select", x, core.reshaped(contiguous(places), (taps * length,)), dim=dim)
    picked = core.reshaped(picked, (*x.shape[:dim], taps, length, *x.shape[dim + 1:]))
    weights = core.reshaped(contiguous(weights), (taps, length) + (1,) * (len(x.shape) - 1 - dim))
    return call("cast", call("sum", call("mul", picked, weights), dim=(dim,), keepdim=False), dtype=x.dtype)


def _windowed_bytes(x, places, weights, *, dim, bits):
    """The same of bytes by weights times 2**bits, rounded up from the half, from 0 to 255."""
    total = call("add", _windowed(call("cast", x, dtype=weights.dtype), places, weights, dim=dim), 1 << bits >> 1)
    return call("cast", call("minimum", call("maximum", call("bitwise_right_shift", total, bits), 0), 255), dtype=x.dtype)


KERNELS = {"resample": Kernel("resample", _resample, cut=_cut), "resample_grad": Kernel("resample_grad", _resample_grad, cut=_cut),
           "windowed": _windowed, "windowed_bytes": _windowed_bytes}
