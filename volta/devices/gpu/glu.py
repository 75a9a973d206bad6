"""The gated linear unit and its gradient on the GPU: one dispatch each."""
from __future__ import annotations

import math

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.copy import cat
from volta.devices.gpu.limits.cut import call, narrow
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, vector_type, vectors


def _glu(x, *, dim):
    need_float32("glu", x)
    plan = Plan(x)
    out = plan.output(x.shape[:dim] + (x.shape[dim] // 2,) + x.shape[dim + 1:], FLOAT32)
    return _step(plan, (0, None, out), x, None, dim)


def _glu_grad(g, x, *, dim):
    need_float32("glu_grad", g, x)
    plan = Plan(g, x)
    return _step(plan, (1, 0, plan.output(x.shape, FLOAT32)), x, g, dim)


def _step(plan, bound, x, g, dim):
    """The plan with its one step. IN: bound, what the shader's bindings are."""
    half = math.prod(x.shape[dim:]) // 2
    width = vectors(half, x.offset, 0 if g is None else g.offset)
    count = x._size // 2 // width
    if count:
        plan.step("glu/glu", bound, (count, half // width, At(bound[0], width), 0 if g is None else At(0, width)), ceil_div(count, THREADS),
                  V=vector_type(width), GRAD=g is not None, **({} if width == 4 else {"sigmoid_of": "sigmoid_accurate(v)"}))
    return plan


def _composed(run, *operands, dim):
    """The same, of elementwise kernels, which bind parts of large tensors."""
    *g, x = operands
    half = x.shape[dim] // 2
    first, gate = narrow(x, dim, 0, half), call("sigmoid", narrow(x, dim, half, 2 * half))
    if not g:
        return call("mul", first, gate)
    return cat(call("mul", g[0], gate), call("sigmoid_grad", call("mul", g[0], first), gate), dim=dim)


KERNELS = {"glu": Kernel("glu", _glu, cut=_composed), "glu_grad": Kernel("glu_grad", _glu_grad, cut=_composed)}
