"""Convolution on the GPU in which each channel is its own group, without columns: windows are read where they lie.

Knows plans; conv.py, whose kernels these are, knows which convolutions come here. Must not know derivatives.
"""
from __future__ import annotations

from math import prod

from volta.devices.gpu.common import FLOAT32, THREADS, ceil_div
from volta.devices.gpu.plans import At, Plan

MOST_TAPS = 64              # of a kernel: a thread keeps a sum of each
MOST_SEEN = 64              # elements of a row that the neighbours of a thread see
NEIGHBOURS = 4              # outputs of a thread
GROUPS = 528                # workgroups that keep a large GPU busy
SERIAL = 8                  # positions of a thread, at least


def takes(channels: int, weight_shape: tuple, groups: int, stride: tuple, dilation: tuple) -> bool:
    """Whether these kernels do it."""
    kernel = weight_shape[2:]
    span = (NEIGHBOURS - 1) * stride[1] + (kernel[1] - 1) * dilation[1] + 1
    return groups == channels > 1 and 0 < prod(kernel) <= MOST_TAPS and span <= MOST_SEEN and weight_shape[0] > 0


def _constants(kernel: tuple, stride: tuple, dilation: tuple) -> dict:
    return {f"{name}_{axis}": n for name, pair in (("STRIDE", stride), ("DILATION", dilation)) for axis, n in zip("YX", pair)} | {
        "KH": kernel[0], "KW": kernel[1]}


def add_forward(plan: Plan, x, weight, bias, out, out_shape: tuple, stride: tuple, padding: tuple, dilation: tuple) -> Plan:
    """A step for out[N, O, oh, ow]: operands x, weight and bias, None for none."""
    words = ceil_div(out_shape[3], NEIGHBOURS)
    count = prod(out_shape[:3]) * words
    plan.step("conv/depthwise", (0, 1, None if bias is None else 2, out),
              (count, out_shape[1], out_shape[1] // x.shape[1], words, *x.shape[2:], *out_shape[2:], *padding, At(0), At(1),
               0 if bias is None else At(2)), ceil_div(count, THREADS), HAS_BIAS=bias is not None, EACH=NEIGHBOURS,
              **_constants(weight.shape[2:], stride, dilation))
    return plan


def add_grad_input(plan: Plan, g, weight, x_shape: tuple, out, stride: tuple, padding: tuple, dilation: tuple) -> Plan:
    """A step for the gradient of x: operands g and weight."""
    kernel, apart = weight.shape[2:], stride != (1, 1)
    each = 1 if apart else NEIGHBOURS
    words = ceil_div(x_shape[3], each)
    count = prod(x_shape[:3]) * words
    shift = padding if apart else tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding))
    plan.step("conv/depthwise", (0, 1, None, out),
              (count, x_shape[1], g.shape[1] // x_shape[1], words, *g.shape[2:], *x_shape[2:], *shift, At(0), At(1), 0),
              ceil_div(count, THREADS), BACK=True, APART=apart, EACH=each, **_constants(kernel, stride, dilation))
    return plan


def add_grad_weight(plan: Plan, g, x, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> Plan:
    """Steps for the gradient of the weight: operands g and x."""
    channels, length = g.shape[1], prod(g.shape[2:])
    out, total = plan.output((channels, 1, *kernel), FLOAT32), g.shape[0] * length
    chunk = ceil_div(total, max(1, min(ceil_div(GROUPS, channels), total // (THREADS * SERIAL))))
    parts = ceil_div(total, chunk)
    sums = out if parts == 1 else plan.scratch(4 * parts * channels * prod(kernel))
    values = (channels, channels // x.shape[1], total, chunk, parts, *x.shape[2:], g.shape[3], length, *padding, At(0), At(1))
    constants = _constants(kernel, stride, dilation)
    plan.step("conv/depthwise_weight", (0, 1, sums, None), values, channels * parts, entry="main", **constants)
    if parts > 1:
        plan.step("conv/depthwise_weight", (0, 1, sums, out), values, ceil_div(channels * prod(kernel), THREADS), entry="merge",
                  **constants)
    return plan
