"""Folding on the GPU: one dispatch, in which each pixel adds up its windows, as in the gradients of convolutions."""
from __future__ import annotations

from math import prod

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.copy import cat
from volta.devices.gpu.limits.cut import halves, part, refuse
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32


def _fold(x, *, size, kernel, stride, padding, dilation):
    """Images [N, C, *size] from the columns x[N, C * kh * kw, windows] of their windows."""
    need_float32("fold", x)
    plan, (images, rows, length) = Plan(x), x.shape
    channels = rows // prod(kernel)
    out, windows = plan.output((images, channels, *size), FLOAT32), [
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, kernel, stride, padding, dilation)]
    pixels = images * channels * prod(size)
    if pixels:
        plan.step("conv/col2im", (0, out), (
            pixels, 0, channels, *size, *windows, *kernel, *stride, *padding, *dilation, 0, images * length, length, At(0)),
            ceil_div(pixels, THREADS), STRIDED=stride != (1, 1), BY_IMAGE=True)
    return plan


def _cut(run, x, **params):
    """By images, else by channels."""
    if x.shape[0] > 1:
        return halves(run, (x,), params, (0,), 0)
    rows, taps = x.shape[1], prod(params["kernel"])
    half = rows // taps // 2 * taps
    if not half:
        refuse(x)
    return cat(run(part(x, 1, 0, half), **params), run(part(x, 1, half, rows), **params), dim=1)


KERNELS = {"fold": Kernel("fold", _fold, cut=_cut)}
