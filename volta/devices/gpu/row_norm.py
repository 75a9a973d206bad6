"""Normalisation of rows on the GPU: one dispatch forward; backward one for the rows, which adds up by columns what it can, and one or two
for the rest of the sums.

Rows up to 8,192 elements stay in registers, longer ones are read twice. Few very long rows are composed of reductions and elementwise
kernels, which split them, and so are sums by columns of long rows.
"""
from __future__ import annotations

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, vector_type, vectors
from volta.devices.gpu.reduce import row_lanes

REGISTERS = 32              # float32 values of one buffer that a thread keeps
LONG, FEW = 1 << 16, 64     # rows this long, when there are fewer than this, are split
WORKERS = 264 * 256         # threads of the gradient at most: enough to fill a GPU, and few parts to add up


class _Rows:
    """How a kernel sees its rows: lengths in V's of `width` elements; weights each of their own element, or of a run."""

    def __init__(self, x, length: int, groups: int, inner: int, centred: bool, *operands) -> None:
        each = [t.offset for t in operands if t is not None]
        self.width = width = vectors(length if inner == 1 else inner, x.offset, *each)
        self.rows, self.count, self.run = x._size // length, length // width, max(inner // width, 1)
        self.lanes = row_lanes(self.count, 2)
        items = ceil_div(self.count, self.lanes)
        self.fits = items * width <= REGISTERS
        self.threads = max(self.lanes, 64)          # small workgroups: few rows wait for each other
        self.at_a_time = self.threads // self.lanes
        self.head = (self.rows, self.count, groups, length // inner // (width if inner == 1 else 1), self.run)
        self.overrides = {"V": vector_type(width), "W": vector_type(width if inner == 1 else 1), "WIDTH": width, "THREADS": self.threads,
                          "LANES": self.lanes, "ITEMS": items if self.fits else 1, "FITS": self.fits, "PER_RUN": inner > 1,
                          "CENTRED": centred}

    def at(self, operand: int, t, inner: int = 1):
        """Where an operand that need not be there begins: in V's, a weight or bias in its W's."""
        return 0 if t is None else At(operand, self.width if inner == 1 else 1)


def _row_norm(x, weight, bias, *, length, groups, inner, centred, eps):
    """(out, mean, rstd) of rows of `length` elements."""
    need_float32("row_norm", x, weight, bias)
    s = _Rows(x, length, groups, inner, centred, *(() if inner > 1 else (weight, bias)))
    if length > LONG and s.rows < FEW:
        return cuts.row_norm
    plan = Plan(x, weight, bias)
    outputs = plan.output(x.shape, FLOAT32), plan.output((s.rows,), FLOAT32), plan.output((s.rows,), FLOAT32)
    plan.step("row_norm/forward", (0, None if weight is None else 1, None if bias is None else 2, *outputs),
              (*s.head, At(0, s.width), s.at(1, weight, inner), s.at(2, bias, inner), eps), ceil_div(s.rows, s.at_a_time),
              HAS_WEIGHT=weight is not None, HAS_BIAS=bias is not None, **s.overrides)
    return plan


def _row_norm_grad(g, x, weight, mean, rstd, arrived, *, length, groups, inner, centred, sums):
    """(dx, dweight, dbias), the last two as vectors, which are empty without `sums`."""
    need_float32("row_norm_grad", g, x, weight, mean, rstd, arrived)
    s = _Rows(x, length, groups, inner, centred, g, arrived, None if inner > 1 else weight)
    if (length > LONG and s.rows < FEW) or (sums and inner == 1 and (groups > 1 or not s.fits)):
        return cuts.row_norm_grad
    plan = Plan(g, x, weight, mean, rstd, arrived)
    columns, fused = groups * length // inner if sums else 0, sums and inner == 1
    dx, dweight, dbias = plan.output(x.shape, FLOAT32), plan.output((columns,), FLOAT32), plan.output((columns,), FLOAT32)
    blocks = ceil_div(s.rows, s.at_a_time)
    parts, turns = s.rows // groups, 1
    if fused:
        turns = ceil_div(blocks, WORKERS // s.threads)
        parts = blocks = ceil_div(blocks, turns)
    left = plan.scratch(8 * parts * columns or 8) if sums else None
    plan.step("row_norm/grad", (0, 1, None if weight is None else 2, 3, 4, None if arrived is None else 5, dx, left if fused else None),
              (*s.head, blocks, turns, At(0, s.width), At(1, s.width), s.at(2, weight, inner), At(3), At(4), s.at(5, arrived)), blocks,
              SUMS=fused, HAS_WEIGHT=weight is not None, ARRIVED=arrived is not None, **s.overrides)
    if not sums:
        return plan
    if inner > 1:
        runs, lanes = parts * columns, row_lanes(s.run)
        plan.step("row_norm/runs", (0, 1, 3, 4, left), (runs, s.run, length // inner, At(0, s.width), At(1, s.width), At(3), At(4)),
                  ceil_div(runs, THREADS // lanes), V=vector_type(s.width), WIDTH=s.width, LANES=lanes)
    plan.step("row_norm/sums", (left, dweight, dbias), (columns, parts), ceil_div(columns, 8))
    return plan


KERNELS = {"row_norm": Kernel("row_norm", _row_norm, cut=cuts.beyond(cuts.row_norm)),
           "row_norm_grad": Kernel("row_norm_grad", _row_norm_grad, cut=cuts.beyond(cuts.row_norm_grad))}
