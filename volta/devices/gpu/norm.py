"""Batch normalisation on the GPU: one or two dispatches forward, as many backward, one for the running statistics.

A channel of x[N, C, inner] is split into parts that workgroups reduce on their own; the pass that follows merges the parts
again in each of its workgroups, so that no dispatch is needed in between. A channel that is small is done by one workgroup.
"""
from __future__ import annotations

import math

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.copy import full
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, vector_type, vectors

MAX_SPLITS = 256            # one thread each when parts are merged
FULL_GPU = 1024             # workgroups that keep a large GPU busy
SERIAL = 4                  # V's that a thread sums at least before a channel is split further
APPLY_SERIAL = 8            # V's that a thread of the last pass makes
WHOLE = 4096                # V's of a channel up to which one workgroup is no slower than another dispatch


class _Sizes:
    """How both passes over x[N, C, ...] share the work; lengths count V's of `width` elements."""

    def __init__(self, x, *others) -> None:
        inner = math.prod(x.shape[2:])
        self.width = vectors(inner, x.offset, *[t.offset for t in others])
        self.channels = x.shape[1]
        self.total = x.shape[0] * inner // self.width
        splits = max(1, min(MAX_SPLITS, ceil_div(FULL_GPU, self.channels), self.total // (THREADS * SERIAL)))
        self.chunk = ceil_div(self.total, splits)
        self.splits = ceil_div(self.total, self.chunk)
        self.whole = self.total <= WHOLE
        self.block = self.total if self.whole else THREADS * APPLY_SERIAL
        self.blocks = ceil_div(self.total, self.block)
        self.head = (self.channels, inner // self.width, self.total)
        self.overrides = {"V": vector_type(self.width), "WIDTH": self.width}


def _batch_norm(x, weight, bias, *, eps):
    """(out, mean[C], rstd[C]) of x[N, C, ...] with the batch's biased variance."""
    need_float32("batch_norm", x, weight, bias)
    if not x._size:
        return _of_nothing
    s = _Sizes(x)
    plan = Plan(x, weight, bias)
    out, mean, rstd = plan.output(x.shape, FLOAT32), plan.output(x.shape[1:2], FLOAT32), plan.output(x.shape[1:2], FLOAT32)
    parts = 0
    if not s.whole:
        parts = plan.scratch(16 * s.channels * s.splits)
        plan.step("norm/stats", (0, parts), (*s.head, s.chunk, s.splits, At(0, s.width)), s.channels * s.splits, **s.overrides)
    plan.step("norm/apply", (0, parts, 0 if weight is None else 1, 0 if bias is None else 2, out, mean, rstd),
              (*s.head, s.block, s.blocks, s.splits, At(0, s.width), 0 if weight is None else At(1), 0 if bias is None else At(2), eps),
              s.channels * s.blocks, WHOLE=s.whole, HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None, **s.overrides)
    return plan


def _of_nothing(x, weight, bias, eps):
    device, channels = x.storage.device, x.shape[1:2]
    return full(x.shape, 0.0, FLOAT32, device), full(channels, math.nan, FLOAT32, device), full(channels, math.nan, FLOAT32, device)


def _grad_of_nothing(g, x, weight, mean, rstd):
    return tuple(full(shape, 0.0, FLOAT32, x.storage.device) for shape in (x.shape, x.shape[1:2], x.shape[1:2]))


def _batch_norm_grad(g, x, weight, mean, rstd):
    """(dx, dweight[C], dbias[C])."""
    need_float32("batch_norm_grad", g, x, weight, mean, rstd)
    if not x._size:
        return _grad_of_nothing
    s = _Sizes(x, g)
    plan = Plan(g, x, weight, mean, rstd)
    dx, dweight, dbias = plan.output(x.shape, FLOAT32), plan.output(x.shape[1:2], FLOAT32), plan.output(x.shape[1:2], FLOAT32)
    starts = At(0, s.width), At(1, s.width)
    parts = 1
    if not s.whole:
        parts = plan.scratch(8 * s.channels * s.splits)
        plan.step("norm/grad_stats", (0, 1, 3, 4, parts), (*s.head, s.chunk, s.splits, *starts, At(3), At(4)), s.channels * s.splits,
                  **s.overrides)
    plan.step("norm/grad_apply", (0, 1, parts, 1 if weight is None else 2, 3, 4, dx, dweight, dbias),
              (*s.head, s.block, s.blocks, s.splits, *starts, 0 if weight is None else At(2), At(3), At(4), 1.0 / (s.total * s.width)),
              s.channels * s.blocks, WHOLE=s.whole, HAS_WEIGHT=weight is not None, **s.overrides)
    return plan


def _numbers(momentum, eps, count):
    return momentum, 1.0 - momentum, eps, count / (count - 1) if count > 1 else math.nan


def _batch_norm_update(running_mean, running_var, mean, rstd, *, momentum, eps, count):
    """Move both running statistics, in place, by the batch's mean and unbiased variance."""
    need_float32("batch_norm_update", running_mean, running_var, mean, rstd)
    plan = Plan(running_mean, running_var, mean, rstd, tail=_numbers)
    plan.step("norm/update", (2, 3, 0, 1), (mean._size, At(2), At(3), At(0), At(1)), ceil_div(mean._size, 64))
    return plan


KERNELS = {
    "batch_norm": Kernel("batch_norm", _batch_norm, cut=cuts.batch_norm),
    "batch_norm_grad": Kernel("batch_norm_grad", _batch_norm_grad, cut=cuts.batch_norm_grad),
    "batch_norm_update": Kernel("batch_norm_update", _batch_norm_update, writes=(0, 1), varying=("momentum", "eps", "count"),
                                cut=cuts.updated((0, 1))),
}
