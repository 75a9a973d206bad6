"""Resampling on the GPU: one dispatch each way. A thread makes one place of PLANES planes, for which it finds weights once."""
from __future__ import annotations

from math import prod

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.limits.cut import halves
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32

MODES = {"nearest": 0, "nearest-exact": 1, "linear": 2, "cubic": 3, "area": 4}
PLANES = 4


def _plan(name, file, x, size, scales, mode, align_corners, transposed):
    need_float32(name, x)
    planes, source, length = (x.shape[0], *((size, x.shape[1:]) if transposed else (x.shape[1:], size)))
    plan = Plan(x)
    out = plan.output((planes, *size), FLOAT32)
    blocks = ceil_div(prod(size), THREADS)
    plan.step(file, (0, out), (At(0), planes, *source, *length, blocks, *scales), blocks * ceil_div(planes, PLANES),
              MODE=MODES[mode], ALIGNED=align_corners)
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


KERNELS = {"resample": Kernel("resample", _resample, cut=_cut), "resample_grad": Kernel("resample_grad", _resample_grad, cut=_cut)}
