"""Sums, means and maxima of the rows that bags of indices name, on the GPU: one dispatch, a thread for each element."""
from __future__ import annotations

from volta.devices.gpu.common import FLOAT32, INT64, THREADS, ceil_div
from volta.devices.gpu.copy import full
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32


def _bag_sum(weight, index, offsets, scales, *, bags, padding, mean):
    need_float32("bag_sum", weight, scales)
    (rows, width), entries = weight.shape, index._size
    if not entries or not width:
        return lambda weight, index, offsets, scales, **params: full((bags, width), 0.0, FLOAT32, weight.storage.device)
    listed, scaled = offsets is not None, scales is not None
    plan = Plan(weight, index, offsets, scales)
    out = plan.output((bags, width), FLOAT32)
    plan.step("bag/sum", (0, 1, 2 if listed else None, 3 if scaled else None, out),
              (bags * width, width, rows, entries, entries // max(bags, 1), offsets._size if listed else 0, padding, At(0), At(1),
               At(2) if listed else 0, At(3) if scaled else 0),
              ceil_div(bags * width, THREADS), LISTED=listed, SCALED=scaled, MEAN=mean)
    return plan


def _bag_max(weight, index, offsets, *, bags, padding):
    need_float32("bag_max", weight)
    (rows, width), entries = weight.shape, index._size
    if not entries or not width:
        return lambda weight, index, offsets, **params: (full((bags, width), 0.0, FLOAT32, weight.storage.device),
                                                         full((bags, width), -1, INT64, weight.storage.device))
    listed, plan = offsets is not None, Plan(weight, index, offsets)
    results = [plan.output((bags, width), dtype) for dtype in (FLOAT32, INT64)]
    plan.step("bag/max", (0, 1, 2 if listed else None, *results),
              (bags * width, width, rows, entries, entries // max(bags, 1), offsets._size if listed else 0, padding, At(0), At(1),
               At(2) if listed else 0), ceil_div(bags * width, THREADS), LISTED=listed)
    return plan


KERNELS = {"bag_max": Kernel("bag_max", _bag_max, cut=cuts.bag_max), "bag_sum": Kernel("bag_sum", _bag_sum, cut=cuts.bag_sum)}
