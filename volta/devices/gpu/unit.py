"""Vectors divided by their lengths on the GPU, and the derivative: one dispatch each, along any dimension. Few very long rows are composed
of reductions and elementwise kernels, which split them."""
from __future__ import annotations

import math

from volta.devices.gpu.common import FLOAT32, THREADS
from volta.devices.gpu.limits import reductions as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, vector_type, vectors
from volta.devices.gpu.reduce import column_lanes, row_lanes

LONG, FEW = 1 << 16, 64     # rows this long, when there are fewer workgroups than this, are split


def _plan(plan, x, dim: int, eps: float, bound: tuple, whole):
    """IN: bound, the operands g and size of the gradient; whole, the composed way."""
    count, inner, kept = x.shape[dim], math.prod(x.shape[dim + 1:]), x._size // x.shape[dim]
    rows = inner == 1
    width = vectors(count if rows else inner, x.offset, *[t.offset for t in bound])
    units, kept, inner = (count // width, kept, 1) if rows else (count, kept // width, inner // width)
    lanes = row_lanes(units) if rows else min(column_lanes(kept), 1 << max(units - 1, 0).bit_length(), THREADS)
    blocks = -(-kept // (THREADS // lanes))
    if count > LONG and blocks < FEW:
        return whole
    grad, out = bool(bound), plan.output(x.shape, FLOAT32)
    sizes = None if grad else plan.output((*x.shape[:dim], 1, *x.shape[dim + 1:]), FLOAT32)
    special = {} if rows and width == 4 else {"fold": "v", "size_of": "v"}
    if width == 1:
        special["limited"] = "max_nan(v, p.eps)"
    offsets = (At(1, width), At(0, width), At(2, 1 if rows else width)) if grad else (At(0, width), 0, 0)
    layout = (kept, inner, units if rows else units * inner, 1 if rows else inner, units)
    plan.step("unit/unit", ((1, 0, 2) if grad else (0, None, None)) + (out, sizes), (*layout, *offsets, float(eps)), blocks,
              V=vector_type(width), S="f32" if rows else vector_type(width), LANES=lanes, ADJACENT=rows, GRAD=grad, **special)
    return plan


def _unit(x, *, dim, eps):
    """(x divided by its length along dim, or by eps where that is more, the lengths)."""
    need_float32("unit", x)
    return _plan(Plan(x), x, dim, eps, (), cuts.composed_unit) if x._size else cuts.composed_unit


def _unit_grad(g, x, size, *, dim, eps):
    """The gradient of x."""
    need_float32("unit_grad", g, x, size)
    return _plan(Plan(g, x, size), x, dim, eps, (g, size), cuts.composed_unit_grad) if x._size else cuts.composed_unit_grad


KERNELS = {"unit": Kernel("unit", _unit, cut=lambda run, x, **params: cuts.composed_unit(x, **params)),
           "unit_grad": Kernel("unit_grad", _unit_grad, cut=lambda run, *operands, **params: cuts.composed_unit_grad(*operands, **params))}
