"""softmax, log_softmax and logsumexp on the GPU, with derivatives, over any dim.

Rows up to 8,192 elements stay in registers; longer ones are read twice. Few very long rows are composed of reductions and
elementwise kernels, which split them. Must not know the graph.
"""
from __future__ import annotations

import math
from functools import partial

from volta._kernels import core
from volta.devices.gpu.common import STORED, THREADS
from volta.devices.gpu.limits import reductions as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, vector_type, vectors
from volta.devices.gpu.reduce import column_lanes, row_lanes

REGISTERS = 32              # float32 values of one buffer that a thread keeps
LONG, FEW = 1 << 16, 64     # rows this long, when there are fewer workgroups than this, are split


def _softmax(name: str, x, *, dim):
    return _plan(name, (x, x), dim, Plan(x))


def _logsumexp(x, *, dim):
    return _plan("logsumexp", (x, x), dim, Plan(x), x.shape[:dim] + x.shape[dim + 1:])


def _softmax_grad(name: str, g, out, *, dim):
    return _plan(name, (g, out), dim, Plan(g, out))


def _plan(name: str, operands: tuple, dim: int, plan: Plan, kept_shape: tuple | None = None):
    """IN: operands, the two that the shader takes; kept_shape, the result's where each row gives one number."""
    x = operands[0]
    shape = x.shape
    if not shape:
        return partial(_of_one, name)
    one = kept_shape is not None
    out = plan.output(kept_shape if one else shape, x.dtype)
    y = out - 1                 # the last operand
    if x._size == 0:
        return plan
    count, inner, kept = shape[dim], math.prod(shape[dim + 1:]), x._size // shape[dim]
    rows = inner == 1
    width = vectors(count if rows else inner, *[t.offset for t in operands])
    units, kept, inner = (count // width, kept, 1) if rows else (count, kept // width, inner // width)
    lanes = row_lanes(units) if rows else min(column_lanes(kept), 1 << max(units - 1, 0).bit_length(), THREADS)
    blocks = -(-kept // (THREADS // lanes))
    if count > LONG and blocks < FEW:
        return cuts.composed_logsumexp if one else partial(cuts.composed_softmax, name)
    stored, items = STORED[x.dtype.code], -(-units // lanes)
    fits = items * width <= REGISTERS
    overrides = {}
    if width == 1 or not rows:
        overrides = {"fold_sum": "v", "fold_max": "v"}
    if width == 1:
        overrides["log_each"] = "log_accurate(v)"
    if one:
        overrides |= {"put": "return;", "put_one": f"out[i] = O(v{'.x' if rows and width == 4 else ''});"}
    if one and rows:
        overrides["O"] = stored
    gradient = name.endswith("_grad")
    plan.step("softmax/softmax", (0, y if gradient else None, out),
              (kept, inner, units if rows else units * inner, 1 if rows else inner, units, At(0, width), At(y, width)), blocks,
              E=f"vec4<{stored}>" if width == 4 else stored, V=vector_type(width), LANES=lanes, ADJACENT=rows, FITS=fits,
              ITEMS=items if fits else 1, LOG=name.startswith("log"), ONE=one, GRAD=gradient, **overrides)
    return plan


def _of_one(name: str, *operands, dim):
    return core.reshaped(KERNELS[name](*[core.reshaped(x, (1,)) for x in operands], dim=0), ())


KERNELS = {name: Kernel(name, partial(make, name), cut=partial(cuts.softmax, name)) for name, make in (
    ("softmax", _softmax), ("log_softmax", _softmax), ("softmax_grad", _softmax_grad), ("log_softmax_grad", _softmax_grad))}
KERNELS["logsumexp"] = Kernel("logsumexp", _logsumexp, cut=cuts.logsumexp)
