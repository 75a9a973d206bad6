"""Vectors divided by their lengths on the GPU, and the derivative: one dispatch each, along any dimension. Few very long rows are composed
of reductions and elementwise kernels, which split them. Cosines of rows likewise."""
from __future__ import annotations

import math

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
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


def _cosine(a, b, *, eps):
    """(cosines of the rows of a and b, the squares of their lengths with eps added)."""
    need_float32("cosine", a, b)
    if not a._size or a.shape[-1] > LONG:
        return cuts.composed_cosine
    plan = Plan(a, b)
    outputs = [plan.output(a.shape[:-1], FLOAT32) for _ in range(3)]
    width, rows = vectors(a.shape[-1], a.offset, b.offset), a._size // a.shape[-1]
    lanes = row_lanes(a.shape[-1] // width)
    plan.step("unit/cosine", (0, 1, None, None, None, None, *outputs),
              (rows, a.shape[-1] // width, At(0, width), At(1, width), 0, 0, 0, 0, float(eps)), ceil_div(rows, THREADS // lanes),
              V=vector_type(width), LANES=lanes, **({"fold": "v"} if width == 1 else {}))
    return plan


def _cosine_grad(g, a, b, cosine, aa, bb, *, eps):
    """The gradient of a."""
    need_float32("cosine_grad", g, a, b, cosine, aa, bb)
    if not a._size:
        return cuts.composed_cosine_grad
    plan = Plan(g, a, b, cosine, aa, bb)
    out, width = plan.output(a.shape, FLOAT32), vectors(a.shape[-1], a.offset, b.offset)
    plan.step("unit/cosine", (1, 2, 0, 3, 4, 5, out, None, None),
              (a._size // a.shape[-1], a.shape[-1] // width, At(1, width), At(2, width), At(0), At(3), At(4), At(5), float(eps)),
              ceil_div(a._size // width, THREADS), V=vector_type(width), O=vector_type(width), GRAD=True, number="O()", vector="v",
              **({"fold": "v"} if width == 1 else {}))
    return plan


KERNELS = {"unit": Kernel("unit", _unit, cut=lambda run, x, **params: cuts.composed_unit(x, **params)),
           "unit_grad": Kernel("unit_grad", _unit_grad, cut=lambda run, *operands, **params: cuts.composed_unit_grad(*operands, **params)),
           "cosine": Kernel("cosine", _cosine, cut=lambda run, a, b, **params: cuts.composed_cosine(a, b, **params)),
           "cosine_grad": Kernel("cosine_grad", _cosine_grad, cut=lambda run, *operands, **params: cuts.composed_cosine_grad(
               *operands, **params))}
