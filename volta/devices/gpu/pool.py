"""Max-pooling on the GPU: one dispatch each way."""
from __future__ import annotations

from volta._kernels import core
from volta.devices.gpu.common import INT64, context
from volta.devices.gpu.plans import THREADS, Plans, ceil_div, dense, floats, need_float32, packer, unsigned

SEGMENT = 2048              # pixels that a workgroup of the gradient holds

_plans = Plans()


def _forward_plan(key: tuple, x, kernel, stride, padding, dilation, size):
    need_float32("max_pool2d", x)
    images, channels, height, width = x.shape
    sizes = size or [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip((height, width), kernel, stride, padding, dilation)]
    shape = (images, channels, *sizes)
    count = images * channels * sizes[0] * sizes[1]
    ctx = context(x.device)
    pipeline = ctx.pipeline("pool/max", KERNEL_HEIGHT=kernel[0], KERNEL_WIDTH=kernel[1])
    params = packer(pipeline)(count, channels, height, width, *sizes, x.offset, *unsigned(x._strides), *stride, *padding, *dilation)
    plan = _plans[key] = (ctx, pipeline, params, ceil_div(count, THREADS), shape, 4 * count)
    return plan


def max_pool2d(x, kernel, stride, padding, dilation, size=None):
    """(out, index): the largest of each window and its place in height * width; `size` is the output's, if the last windows reach
    beyond the padding."""
    storage = x.storage
    device = storage.device
    key = (device, x.dtype, x.shape, x._strides, x.offset, kernel, stride, padding, dilation, size)
    plan = _plans.get(key) or _forward_plan(key, x, kernel, stride, padding, dilation, size)
    ctx, pipeline, params, groups, shape, nbytes = plan
    out = floats(device, shape, nbytes)
    index = core.tensor(core.gpu_storage(ctx.alloc(nbytes), nbytes, device), shape, None, 0, INT64)
    ctx.launch(pipeline, (storage.buffer, out.storage.buffer, index.storage.buffer), params, groups)
    return out, index


def _grad_plan(key: tuple, g, index, height: int, width: int, kernel, stride, padding, dilation):
    need_float32("max_pool2d_grad", g)
    images, channels, out_height, out_width = g.shape
    planes, plane = images * channels, height * width
    ctx = context(g.device)
    pipeline = ctx.pipeline("pool/max_grad", SEGMENT=SEGMENT)
    if plane <= SEGMENT:
        segments, together = 1, SEGMENT // max(plane, 1)
        segment = together * plane
        groups = ceil_div(planes, together)
    else:
        segments, together, segment = ceil_div(plane, SEGMENT), 1, SEGMENT
        groups = planes * segments
    window = (0, 0, 0) if kernel is None else (stride[0], padding[0], (kernel[0] - 1) * dilation[0])
    params = packer(pipeline)(segment, segments, together, planes, plane, out_height * out_width, width, out_width, out_height,
                              *window, g.offset, index.offset)
    plan = _plans[key] = (ctx, pipeline, params, groups, (images, channels, height, width), 4 * planes * plane)
    return plan


def max_pool2d_grad(g, index, height, width, kernel=None, stride=None, padding=None, dilation=None):
    """The gradient of max_pool2d's input.

    The window's geometry may be left out, as base.py does; given, planes of more than SEGMENT pixels take less reading.
    """
    g, index = dense(g), dense(index)
    storage = g.storage
    device = storage.device
    key = (device, g.dtype, g.shape, g.offset, index.offset, height, width, kernel, stride, padding, dilation)
    plan = _plans.get(key) or _grad_plan(key, g, index, height, width, kernel, stride, padding, dilation)
    ctx, pipeline, params, groups, shape, nbytes = plan
    out = floats(device, shape, nbytes)
    ctx.launch(pipeline, (storage.buffer, index.storage.buffer, out.storage.buffer), params, groups)
    return out


KERNELS = {"max_pool2d": max_pool2d, "max_pool2d_grad": max_pool2d_grad}
