"""Variance and mean on the GPU, over neighbouring dimensions: one pass, and another over the parts where few lines have to fill the GPU."""
from __future__ import annotations

import math

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.limits.cut import call
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, vector_type
from volta.devices.gpu.reduce import column_lanes, groups, splits, summing_lanes, widen


def _var(x, *, dim, keepdim, correction):
    """(variance, mean) with the divisor count - correction."""
    need_float32("var", x)
    geometry = groups(x.shape, x._strides, dim)
    if geometry is None:
        return lambda x, **params: KERNELS["var"](call("contiguous", x), **params)
    shape = tuple(1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim)
    divisor = math.prod(x.shape[d] for d in dim) - correction
    scale = 1.0 / divisor if divisor > 0 else math.inf
    plan = Plan(x)
    outputs = plan.output(shape, FLOAT32), plan.output(shape, FLOAT32)
    left = _add_pass(plan, geometry, x.offset, scale, outputs)
    while left is not None:
        source, parts, kept = left
        left = _add_pass(plan, ((1, 0), (parts, kept), (kept, 1)) if kept > 1 else ((1, 0), (parts, 1), (1, 0)), 0, scale, outputs, source)
    return plan


def _add_pass(plan: Plan, geometry, offset: int, scale: float, outputs: tuple, source: int | None = None):
    """The pass over (outer, reduced, inner). Gives (buffer, parts, results of a part) where it leaves parts, None where it is the last.

    IN: source, the buffer of parts that an earlier pass left, None for the operand.
    """
    if source is None:
        rows, width, geometry = widen(geometry, offset)
    else:
        rows, width = geometry[1][1] == 1 and geometry[2][0] == 1, 1
    (outer, outer_stride), (count, stride), (inner, inner_stride) = geometry
    kept = outer * inner
    lanes = summing_lanes(count) if rows else min(column_lanes(kept), 1 << max(count - 1, 1).bit_length())
    blocks = ceil_div(kept, THREADS // lanes)
    several, part = splits(blocks, count, lanes)
    results = kept * (width if not rows else 1)
    target = outputs[0] if several == 1 else plan.scratch(16 * several * results)
    overrides = {} if several == 1 else {"O": "vec4<f32>", "leave": "return vec4<f32>(m, 0.0);"}
    if source is not None:
        overrides["value"] = "return x.x;"
    plan.step("moments/moments", (0 if source is None else source, target, outputs[1]),
              (kept, inner, *[s & 0xFFFF_FFFF for s in (outer_stride, inner_stride, stride)], At(0, width) if source is None else 0, count,
               part, scale), blocks * several, E="vec4<f32>" if source is not None else vector_type(width), V=vector_type(width),
              WIDTH=width, LANES=lanes, ADJACENT=rows, RAW=source is None, LAST=several == 1, **overrides)
    return None if several == 1 else (target, several, results)


def _cut(run, x, dim, keepdim, correction):
    """Composed of reductions and elementwise kernels. The mean of infinite elements is NaN, as in one pass."""
    n, mean = math.prod(x.shape[d] for d in dim), call("mean", x, dim, True)
    away = call("sub", x, mean)
    rest = call("mean", away, dim, True)
    mean = core.reshaped(call("where", call("isnan", rest), rest, mean),
                         tuple(1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim))
    return call("div", call("sum", call("mul", away, away), dim, keepdim), float(max(n - correction, 0))), mean


KERNELS = {"var": Kernel("var", _var, strided=(0,), cut=_cut)}
