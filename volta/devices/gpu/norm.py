"""Batch normalisation on the GPU: one or two dispatches forward, as many backward, one for the running statistics.

A channel of x[N, C, inner] is split into parts that workgroups reduce on their own; the pass that follows merges the parts
again in each of its workgroups, so that no dispatch is needed in between. A channel that is small is done by one workgroup.
"""
from __future__ import annotations

import math

from volta.devices.gpu.common import FLOAT32, context
from volta.devices.gpu.copy import copy_into, fill_into
from volta.devices.gpu.plans import (
    THREADS,
    Plans,
    ceil_div,
    dense,
    floats,
    need_float32,
    packer,
    spare,
    vector_type,
    vectors,
    zeros,
)

MAX_SPLITS = 256            # one thread each when parts are merged
FULL_GPU = 1024             # workgroups that keep a large GPU busy
SERIAL = 4                  # V's that a thread sums at least before a channel is split further
APPLY_SERIAL = 8            # V's that a thread of the last pass makes
WHOLE = 4096                # V's of a channel up to which one workgroup is no slower than another dispatch

_plans = Plans()


class Plan:
    """Both passes of one shape: pipelines, packers, fixed parameters, grids."""

    __slots__ = ("ctx", "stats", "pack_stats", "stats_head", "stats_groups", "apply", "pack_apply", "apply_head",
                 "apply_groups", "lanes", "channels", "part_bytes", "nbytes", "whole", "per_value", "bytes_of_channels")

    def __init__(self, grad: bool, device, shape: tuple, lanes: int, **overrides) -> None:
        inner = _inner(shape)
        channels = shape[1]
        total = shape[0] * inner // lanes
        splits = max(1, min(MAX_SPLITS, ceil_div(FULL_GPU, channels), total // (THREADS * SERIAL)))
        chunk = ceil_div(total, splits)
        splits = ceil_div(total, chunk)
        self.whole = total <= WHOLE
        block = total if self.whole else THREADS * APPLY_SERIAL
        blocks = ceil_div(total, block)
        part = "norm/grad_" if grad else "norm/"
        self.ctx = ctx = context(device)
        self.lanes = lanes
        self.channels = channels
        if not self.whole:
            self.stats = ctx.pipeline(part + "stats", V=vector_type(lanes), LANES=lanes)
            self.pack_stats = packer(self.stats)
        self.stats_head = (channels, inner // lanes, total, chunk, splits)
        self.stats_groups = channels * splits
        self.apply = ctx.pipeline(part + "apply", V=vector_type(lanes), LANES=lanes, WHOLE=self.whole, **overrides)
        self.pack_apply = packer(self.apply)
        self.apply_head = (channels, inner // lanes, total, block, blocks, splits)
        self.apply_groups = channels * blocks
        self.part_bytes = channels * splits * (8 if grad else 16)
        self.nbytes = 4 * shape[0] * channels * inner
        self.per_value = 1.0 / (total * lanes)
        self.bytes_of_channels = 4 * channels


def _inner(shape: tuple) -> int:
    inner = 1
    for length in shape[2:]:
        inner *= length
    return inner


def batch_norm(x, weight, bias, eps):
    """(out, mean[C], rstd[C]) of x[N, C, ...] with the batch's biased variance."""
    x = dense(x)
    if x.dtype is not FLOAT32:
        need_float32("batch_norm", x)
    storage = x.storage
    device, shape = storage.device, x.shape
    if not x._size:
        mean, rstd = zeros(device, shape[1:2]), zeros(device, shape[1:2])
        fill_into(mean, math.nan)
        fill_into(rstd, math.nan)
        return floats(device, shape, 0), mean, rstd
    key = (device, shape, x.offset & 3, weight is None, bias is None)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = Plan(False, device, shape, vectors(_inner(shape), x.offset), HAS_WEIGHT=weight is not None,
                                  HAS_BIAS=bias is not None)
    ctx = plan.ctx
    channels = (plan.channels,)
    out = floats(device, shape, plan.nbytes)
    mean = floats(device, channels, plan.bytes_of_channels)
    rstd = floats(device, channels, plan.bytes_of_channels)
    parts = spare(ctx) if plan.whole else ctx.alloc(plan.part_bytes)
    buffer = storage.buffer
    offset = x.offset // plan.lanes
    weight = x if weight is None else dense(weight)
    bias = x if bias is None else dense(bias)
    if not plan.whole:
        ctx.launch(plan.stats, (buffer, parts), plan.pack_stats(*plan.stats_head, offset), plan.stats_groups)
    ctx.launch(plan.apply, (buffer, parts, weight.storage.buffer, bias.storage.buffer, out.storage.buffer,
                            mean.storage.buffer, rstd.storage.buffer),
               plan.pack_apply(*plan.apply_head, offset, weight.offset, bias.offset, eps), plan.apply_groups)
    return out, mean, rstd


def batch_norm_grad(g, x, weight, mean, rstd):
    """(dx, dweight[C], dbias[C])."""
    g, x = dense(g), dense(x)
    if x.dtype is not FLOAT32:
        need_float32("batch_norm_grad", x)
    storage = x.storage
    device, shape = storage.device, x.shape
    if not x._size:
        return floats(device, shape, 0), zeros(device, shape[1:2]), zeros(device, shape[1:2])
    key = ("grad", device, shape, x.offset & 3, g.offset & 3, weight is None)
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = Plan(True, device, shape, vectors(_inner(shape), x.offset, g.offset),
                                  HAS_WEIGHT=weight is not None)
    ctx = plan.ctx
    channels = (plan.channels,)
    dx = floats(device, shape, plan.nbytes)
    dweight = floats(device, channels, plan.bytes_of_channels)
    dbias = floats(device, channels, plan.bytes_of_channels)
    parts = spare(ctx) if plan.whole else ctx.alloc(plan.part_bytes)
    lanes = plan.lanes
    offsets = (g.offset // lanes, x.offset // lanes)
    weight = x if weight is None else dense(weight)
    mean, rstd = dense(mean), dense(rstd)
    g_buffer, buffer, mean_buffer, rstd_buffer = g.storage.buffer, storage.buffer, mean.storage.buffer, rstd.storage.buffer
    if not plan.whole:
        ctx.launch(plan.stats, (g_buffer, buffer, mean_buffer, rstd_buffer, parts),
                   plan.pack_stats(*plan.stats_head, *offsets, mean.offset, rstd.offset), plan.stats_groups)
    ctx.launch(plan.apply, (g_buffer, buffer, parts, weight.storage.buffer, mean_buffer, rstd_buffer, dx.storage.buffer,
                            dweight.storage.buffer, dbias.storage.buffer),
               plan.pack_apply(*plan.apply_head, *offsets, weight.offset, mean.offset, rstd.offset, plan.per_value),
               plan.apply_groups)
    return dx, dweight, dbias


def batch_norm_update(running_mean, running_var, mean, rstd, momentum, eps, count):
    """Move both running statistics, in place, by the batch's mean and unbiased variance."""
    for t in (running_mean, running_var, mean, rstd):
        if t.dtype is not FLOAT32:
            need_float32("batch_norm_update", t)
    if not (running_mean._contiguous and running_var._contiguous):
        copies = dense(running_mean), dense(running_var)
        batch_norm_update(*copies, mean, rstd, momentum, eps, count)
        for t, copy in zip((running_mean, running_var), copies):
            if copy is not t:
                copy_into(t, copy)
        return
    mean, rstd = dense(mean), dense(rstd)
    device = mean.storage.device
    plan = _plans.get(device)
    if plan is None:
        pipeline = context(device).pipeline("norm/update")
        plan = _plans[device] = (context(device), pipeline, packer(pipeline))
    ctx, pipeline, pack = plan
    channels = mean._size
    ctx.launch(pipeline, (mean.storage.buffer, rstd.storage.buffer, running_mean.storage.buffer, running_var.storage.buffer),
               pack(channels, mean.offset, rstd.offset, running_mean.offset, running_var.offset, momentum, 1.0 - momentum,
                    eps, count / (count - 1) if count > 1 else float("nan")), ceil_div(channels, 64))


KERNELS = {"batch_norm": batch_norm, "batch_norm_grad": batch_norm_grad, "batch_norm_update": batch_norm_update}
