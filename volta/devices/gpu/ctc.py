"""Connectionist temporal classification on the GPU: one dispatch forward, a workgroup for each sequence; two backward."""
from __future__ import annotations

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32


def _sizes(x, labels, blank):
    return *x.shape, labels.shape[1], blank


def _states(x, labels):
    return x.shape[1], x.shape[0], 2 * labels.shape[1] + 1


def _ctc(x, labels, inputs, lengths, *, blank):
    """(loss[N], alphas[N, T, 2 S + 1])"""
    need_float32("ctc", x)
    plan = Plan(x, labels, inputs, lengths)
    loss, alphas = plan.output((x.shape[1],), FLOAT32), plan.output(_states(x, labels), FLOAT32)
    plan.step("ctc/ctc", (0, 1, 2, 3, loss, alphas), (*_sizes(x, labels, blank), At(0), At(1), At(2), At(3)), x.shape[1])
    return plan


def _ctc_grad(g, x, labels, inputs, lengths, loss, alphas, *, blank):
    """The gradient of x."""
    need_float32("ctc_grad", g, x, loss, alphas)
    plan = Plan(g, x, labels, inputs, lengths, loss, alphas)
    out, betas = plan.output(x.shape, FLOAT32), plan.scratch(4 * alphas._size)
    plan.step("ctc/ctc_ends", (1, 2, 3, 4, betas), (*_sizes(x, labels, blank), At(1), At(2), At(3), At(4)), x.shape[1])
    plan.step("ctc/ctc_grad", (0, 1, 2, 3, 4, 5, 6, betas, out), (*_sizes(x, labels, blank), *map(At, range(7))),
              ceil_div(x._size, THREADS))
    return plan


KERNELS = {"ctc": Kernel("ctc", _ctc, cut=cuts.ctc), "ctc_grad": Kernel("ctc_grad", _ctc_grad, cut=cuts.ctc_grad)}
