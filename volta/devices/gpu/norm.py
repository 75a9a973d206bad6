"""Batch normalisation on the GPU: one or two dispatches forward, as many backward, one for the running statistics.

A channel of x[N, C, inner] is split into parts that workgroups reduce on their own; the pass that follows merges the parts
again in each of its workgroups, so that no dispatch is needed in between. A channel that is small is done by one workgroup.
"""
from __future__ import annotations

import math
from collections.abc import Callable

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.copy import full
from volta.devices.gpu.elementwise import KERNELS as ELEMENTWISE
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, vector_type, vectors

FULL_GPU = 1024             # workgroups that keep a large GPU busy
SERIAL = 4                  # V's that a thread sums at least before a channel is split further
APPLY_SERIAL = 8            # V's that a thread of the last pass makes
COLUMNS = 8                 # channels that lie side by side, one access to memory of them
WHOLE = 4096                # V's of a channel up to which one workgroup is no slower than another dispatch


def _add_passes(plan: Plan, file: str, x, width: int, bound: Callable, values: tuple, **overrides) -> None:
    """Steps over the channels of x[N, C, ...]: one that does them whole, or one that leaves 16 bytes for each part and one that merges
    them and makes the outputs. IN: width, elements of a V; bound, from (parts, SUMS, APPLIES) to the buffers; values, the Params after
    `splits`."""
    channels, inner = x.shape[1], math.prod(x.shape[2:]) // width
    total, columns = x.shape[0] * inner, COLUMNS if inner == 1 and channels >= COLUMNS else 1
    lanes, strips = THREADS // columns, ceil_div(channels, columns)
    chunk = ceil_div(total, max(1, min(lanes, ceil_div(FULL_GPU, strips), total // (lanes * SERIAL))))
    splits = ceil_div(total, chunk)
    whole = total <= WHOLE // columns
    parts = None if whole else plan.scratch(16 * channels * splits)
    for length, sums, applies in [(total, True, True)] if whole else [(chunk, True, False), (lanes * APPLY_SERIAL, False, True)]:
        blocks = ceil_div(total, length)
        plan.step(file, bound(parts, sums, applies), (channels, inner, total, length, blocks, splits, *values), strips * blocks,
                  V=vector_type(width), WIDTH=width, SUMS=sums, APPLIES=applies, COLUMNS=columns, **overrides)


def _batch_norm(x, weight, bias, *, eps):
    """(out, mean[C], rstd[C]) of x[N, C, ...] with the batch's biased variance."""
    need_float32("batch_norm", x, weight, bias)
    if not x._size:
        return _of_nothing
    plan, width = Plan(x, weight, bias), vectors(math.prod(x.shape[2:]), x.offset)
    outputs = [plan.output(shape, FLOAT32) for shape in (x.shape, x.shape[1:2], x.shape[1:2])]
    given = 0, None if weight is None else 1, None if bias is None else 2
    _add_passes(plan, "norm/normalise", x, width, lambda parts, *_: (*given, parts, *outputs),
                (At(0, width), 0 if weight is None else At(1), 0 if bias is None else At(2), eps),
                HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None)
    return plan


def _of_nothing(x, weight, bias, eps):
    device, channels = x.storage.device, x.shape[1:2]
    return full(x.shape, 0.0, FLOAT32, device), full(channels, math.nan, FLOAT32, device), full(channels, math.nan, FLOAT32, device)


def _grad_of_nothing(g, x, weight, mean, rstd, eps=None):
    return tuple(full(shape, 0.0, FLOAT32, x.storage.device) for shape in (x.shape, x.shape[1:2], x.shape[1:2]))


def _batch_norm_grad(g, x, weight, mean, rstd):
    return _gradients(g, x, weight, mean, rstd)


def _batch_norm_given_grad(g, x, weight, mean, var, *, eps):
    return _gradients(g, x, weight, mean, var, eps)


def _gradients(g, x, weight, mean, rstd, eps=None):
    """(dx, dweight[C], dbias[C]). IN: eps, where the statistics are not x's, and rstd are variances."""
    need_float32("batch_norm_grad" if eps is None else "batch_norm_given_grad", g, x, weight, mean, rstd)
    if not x._size:
        return _grad_of_nothing
    plan, width = Plan(g, x, weight, mean, rstd), vectors(math.prod(x.shape[2:]), g.offset, x.offset)
    dx, dweight, dbias = [plan.output(shape, FLOAT32) for shape in (x.shape, x.shape[1:2], x.shape[1:2])]

    def bound(parts, sums, applies):
        return 0, 1, None if weight is None else 2, 3 if sums else parts, 4, dx, dweight if applies else parts, dbias
    _add_passes(plan, "norm/grad", x, width, bound,
                (At(0, width), At(1, width), 0 if weight is None else At(2), At(3), At(4), x.shape[1] / x._size, eps or 0.0),
                HAS_WEIGHT=weight is not None, GIVEN=eps is not None)
    return plan


def _numbers(momentum, eps, count):
    return momentum, 1.0 - momentum, eps, count / (count - 1) if count > 1 else math.nan


def _batch_norm_update(running_mean, running_var, mean, rstd, *, momentum, eps, count):
    """Move both running statistics, in place, by the batch's mean and unbiased variance."""
    need_float32("batch_norm_update", running_mean, running_var, mean, rstd)
    plan = Plan(running_mean, running_var, mean, rstd, tail=_numbers)
    plan.step("norm/update", (2, 3, 0, 1), (mean._size, At(2), At(3), At(0), At(1)), ceil_div(mean._size, 64))
    return plan


def _batch_norm_given(x, mean, var, weight, bias, *, eps):
    """Normalised by given statistics, an elementwise kernel of their channels."""
    columns = [v if v is None else core.view(v, x.shape, (0, v._strides[0], *[0] * (len(x.shape) - 2)), v.offset)
               for v in (mean, var, weight, bias)]
    return ELEMENTWISE["batch_norm_given"](x, *[float(i == 2) if v is None else v for i, v in enumerate(columns)], eps)


KERNELS = {
    "batch_norm_given": _batch_norm_given,
    "batch_norm": Kernel("batch_norm", _batch_norm, cut=cuts.batch_norm),
    "batch_norm_grad": Kernel("batch_norm_grad", _batch_norm_grad, cut=cuts.batch_norm_grad),
    "batch_norm_given_grad": Kernel("batch_norm_given_grad", _batch_norm_given_grad, cut=cuts.batch_norm_given_grad),
    "batch_norm_update": Kernel("batch_norm_update", _batch_norm_update, writes=(0, 1), varying=("momentum", "eps", "count"),
                                cut=cuts.updated((0, 1))),
}
