"""Connectionist temporal classification on the GPU: one dispatch forward, a workgroup for each sequence; two backward."""
from __future__ import annotations

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32

MOST_SHARED = 16384         # bytes of workgroup memory for two rows of states


def _sizes(x, labels, blank):
    return *x.shape, labels.shape[1], blank


def _states(x, labels):
    return x.shape[1], x.shape[0], 2 * labels.shape[1] + 1


def _rows(plan: Plan, width: int) -> dict:
    """Overrides of the kernels whose workgroups go from step to step of `width` states."""
    threads = min(max(1 << (width - 1).bit_length(), 32), THREADS)
    each = ceil_div(width, threads)
    shared = 8 * (threads * each + 2) <= min(plan.ctx.limits["max-compute-workgroup-storage-size"], MOST_SHARED)
    return {"THREADS": threads, "EACH": each, "SHARED": shared}


def _ctc(x, labels, inputs, lengths, *, blank):
    """(loss[N], alphas[N, T, 2 S + 1])"""
    need_float32("ctc", x)
    plan = Plan(x, labels, inputs, lengths)
    loss, alphas = plan.output((x.shape[1],), FLOAT32), plan.output(_states(x, labels), FLOAT32)
    plan.step("ctc/ctc", (0, 1, 2, 3, loss, alphas), (*_sizes(x, labels, blank), At(0), At(1), At(2), At(3)), x.shape[1],
              **_rows(plan, 2 * labels.shape[1] + 1))
    return plan


def _ctc_grad(g, x, labels, inputs, lengths, loss, alphas, *, blank):
    """The gradient of x."""
    need_float32("ctc_grad", g, x, loss, alphas)
    plan = Plan(g, x, labels, inputs, lengths, loss, alphas)
    out, betas, links = plan.output(x.shape, FLOAT32), plan.scratch(4 * alphas._size), plan.scratch(4 * labels._size or 4)
    plan.step("ctc/ctc_ends", (1, 2, 3, 4, betas, links), (*_sizes(x, labels, blank), At(1), At(2), At(3), At(4)), x.shape[1],
              **_rows(plan, 2 * labels.shape[1] + 1))
    plan.step("ctc/ctc_grad", (0, 1, 2, 3, 4, 5, 6, betas, links, out), (*_sizes(x, labels, blank), *map(At, range(7))),
              x.shape[0] * x.shape[1])
    return plan


KERNELS = {"ctc": Kernel("ctc", _ctc, cut=cuts.ctc), "ctc_grad": Kernel("ctc_grad", _ctc_grad, cut=cuts.ctc_grad)}
