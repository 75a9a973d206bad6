"""Columns of windows on the GPU, a copy, and folding: one dispatch, in which each pixel adds up its windows, as in the gradients of
convolutions."""
from __future__ import annotations

from math import prod

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.copy import cat, contiguous, place
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


def _columns(x, *, kernel, stride, padding, dilation):
    """The windows of images x[N, C, H, W], padded by zeros, as columns [N, C * kh * kw, windows]: a copy."""
    if any(padding):
        shape = (*x.shape[:2], *[n + 2 * p for n, p in zip(x.shape[2:], padding)])
        x = place(x, shape=shape, starts=(0, 0, *padding), steps=(1,) * 4, value=0.0)
    windows = tuple([(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)])
    outer, along = x._strides[:2], x._strides[2:]
    inner = tuple([s * d for s, d in zip(along, dilation)]) + tuple([s * t for s, t in zip(along, stride)])
    found = contiguous(core.view(x, (*x.shape[:2], *kernel, *windows), outer + inner, x.offset))
    return core.reshaped(found, (x.shape[0], x.shape[1] * prod(kernel), prod(windows)))


def _cut(run, x, **params):
    """By images, else by channels."""
    if x.shape[0] > 1:
        return halves(run, (x,), params, (0,), 0)
    rows, taps = x.shape[1], prod(params["kernel"])
    half = rows // taps // 2 * taps
    if not half:
        refuse(x)
    return cat(run(part(x, 1, 0, half), **params), run(part(x, 1, half, rows), **params), dim=1)


KERNELS = {"fold": Kernel("fold", _fold, cut=_cut), "columns": _columns}
