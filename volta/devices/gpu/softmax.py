"""softmax and log_softmax on the GPU, with their derivatives, over any dim.

Rows up to 8,192 elements stay in registers; longer ones are read twice. Few very long rows are composed of reductions and
elementwise kernels, which split them. Must not know the graph.
"""
from __future__ import annotations

import math
from functools import partial

from volta._kernels import core
from volta.devices.gpu.common import STORED, THREADS
from volta.devices.gpu.limits import reductions as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, vectors
from volta.devices.gpu.reduce import column_lanes, row_lanes

REGISTERS = 32              # float32 values of one buffer that a thread keeps
LONG, FEW = 1 << 16, 64     # rows this long, when there are fewer workgroups than this, are split


def _softmax(name: str, x, *, dim):
    return _plan(name, (x,), dim)


def _softmax_grad(name: str, g, out, *, dim):
    return _plan(name, (g, out), dim)


def _plan(name: str, operands: tuple, dim: int):
    x = operands[0]
    shape = x.shape
    if not shape:
        return partial(_of_one, name)
    plan = Plan(*operands)
    out = plan.output(shape, x.dtype)
    if x._size == 0:
        return plan
    count, inner, kept = shape[dim], math.prod(shape[dim + 1:]), x._size // shape[dim]
    rows = inner == 1
    width = vectors(count if rows else inner, *[t.offset for t in operands])
    units, kept, inner = (count // width, kept, 1) if rows else (count, kept // width, inner // width)
    lanes = row_lanes(units) if rows else min(column_lanes(kept), 1 << max(units - 1, 0).bit_length(), THREADS)
    blocks = -(-kept // (THREADS // lanes))
    if count > LONG and blocks < FEW:
        return partial(cuts.composed_softmax, name)
    outer_stride = units if rows else units * inner
    plan.step("softmax/grad" if name.endswith("_grad") else "softmax/softmax", (*range(len(operands)), out),
              (kept, inner, outer_stride, 1 if rows else inner, units, *[At(i, width) for i in range(len(operands))]), blocks,
              **_overrides(name, x.dtype, width, rows, lanes, -(-units // lanes)))
    return plan


def _overrides(name: str, dtype, width: int, rows: bool, lanes: int, items: int) -> dict:
    stored = STORED[dtype.code]
    gradient, fits = name.endswith("_grad"), items * width <= REGISTERS
    overrides = {"E": f"vec4<{stored}>" if width == 4 else stored, "V": "vec4<f32>" if width == 4 else "f32", "LANES": lanes,
                 "ADJACENT": rows, "ITEMS": items if fits else 1, "FITS": fits, "LOG": name.startswith("log_")}
    if width == 1 or not rows:
        overrides["fold_sum"] = "fn fold_sum(v: V) -> V { return v; }"
        if not gradient:
            overrides["fold_max"] = "fn fold_max(v: V) -> V { return v; }"
    if width == 1 and not gradient:
        overrides["log_each"] = "fn log_each(v: V) -> V { return log_accurate(v); }"
    return overrides


def _of_one(name: str, *operands, dim):
    return core.reshaped(KERNELS[name](*[core.reshaped(x, (1,)) for x in operands], dim=0), ())


KERNELS = {name: Kernel(name, partial(make, name), cut=partial(cuts.softmax, name)) for name, make in (
    ("softmax", _softmax), ("log_softmax", _softmax), ("softmax_grad", _softmax_grad), ("log_softmax_grad", _softmax_grad))}
