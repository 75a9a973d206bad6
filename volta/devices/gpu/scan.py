"""Scans on the GPU: a workgroup for each line."""
from __future__ import annotations

from math import prod

from volta.devices.gpu.common import FLOAT32
from volta.devices.gpu.limits.cut import call, halves, join, narrow, part, refuse
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32


def _cumsum(x, *, dim):
    """Running sums along `dim`."""
    need_float32("cumsum", x)
    length, inner = (x.shape[dim], prod(x.shape[dim + 1:])) if x.shape else (1, 1)
    lines = x._size // length if length else 0
    plan = Plan(x)
    plan.step("scan/cumsum", (0, plan.output(x.shape, FLOAT32)), (lines, length, inner, At(0)), lines)
    return plan


def _cut(run, x, *, dim):
    """By another dimension; one line alone in halves, the second of which goes on from the first."""
    other = next((d for d, n in enumerate(x.shape) if d != dim and n > 1), None)
    if other is not None:
        return halves(run, (x,), {"dim": dim}, (other,), other)
    length = x.shape[dim]
    if length < 2:
        refuse(x)
    first, second = (run(part(x, dim, a, b), dim=dim) for a, b in ((0, length // 2), (length // 2, length)))
    return join(first, call("add", second, narrow(first, dim, length // 2 - 1, length // 2)), dim)


KERNELS = {"cumsum": Kernel("cumsum", _cumsum, cut=_cut)}
