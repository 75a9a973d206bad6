"""Max-pooling on the GPU: one dispatch each way."""
from __future__ import annotations

from volta.devices.gpu.common import FLOAT32, INT64, THREADS, ceil_div
from volta.devices.gpu.limits import images as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, unsigned

SEGMENT = 2048              # pixels that a workgroup of the gradient holds


def _max_pool2d(x, *, kernel, stride, padding, dilation, size=None):
    """(out, index): the largest of each window and its place in height * width; `size` is the output's, if the last windows reach
    beyond the padding."""
    need_float32("max_pool2d", x)
    images, channels, height, width = x.shape
    sizes = size or [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip((height, width), kernel, stride, padding, dilation)]
    shape = (images, channels, *sizes)
    count = images * channels * sizes[0] * sizes[1]
    plan = Plan(x)
    out, index = plan.output(shape, FLOAT32), plan.output(shape, INT64)
    plan.step("pool/max", (0, out, index), (count, channels, height, width, *sizes, At(0), *unsigned(x._strides), *stride, *padding,
                                            *dilation), ceil_div(count, THREADS), KERNEL_HEIGHT=kernel[0], KERNEL_WIDTH=kernel[1])
    return plan


def _max_pool2d_grad(g, index, *, height, width, kernel=None, stride=None, padding=None, dilation=None):
    """The gradient of max_pool2d's input.

    The window's geometry may be left out; given, planes of more than SEGMENT pixels take less reading.
    """
    need_float32("max_pool2d_grad", g)
    images, channels, out_height, out_width = g.shape
    planes, plane = images * channels, height * width
    if plane <= SEGMENT:
        segments, together = 1, SEGMENT // max(plane, 1)
        segment = together * plane
        groups = ceil_div(planes, together)
    else:
        segments, together, segment = ceil_div(plane, SEGMENT), 1, SEGMENT
        groups = planes * segments
    window = (0, 0, 0) if kernel is None else (stride[0], padding[0], (kernel[0] - 1) * dilation[0])
    plan = Plan(g, index)
    out = plan.output((images, channels, height, width), FLOAT32)
    plan.step("pool/max_grad", (0, 1, out), (segment, segments, together, planes, plane, out_height * out_width, width, out_width,
                                             out_height, *window, At(0), At(1)), groups, SEGMENT=SEGMENT)
    return plan


KERNELS = {
    "max_pool2d": Kernel("max_pool2d", _max_pool2d, strided=(0,), cut=cuts.max_pool2d),
    "max_pool2d_grad": Kernel("max_pool2d_grad", _max_pool2d_grad, cut=cuts.max_pool2d_grad),
}
