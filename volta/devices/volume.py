"""Convolution of volumes by a device's kernel for images: the slices that meet one output's slice are its channels. For devices, or shapes,
without a kernel of their own."""
from __future__ import annotations

from math import prod

from volta._kernels import core


def conv3d(kernels: dict, x, weight, bias, stride: tuple, padding: tuple, dilation: tuple, groups: int):
    """out[N, O, D', H', W'] of x[N, C, D, H, W] and weight[O, C / groups, kd, kh, kw]. IN: kernels, those of the device by name."""
    if padding[0]:
        shape = (*x.shape[:2], x.shape[2] + 2 * padding[0], *x.shape[3:])
        x = kernels["place"](x, shape=shape, starts=(0, 0, padding[0], 0, 0), steps=(1,) * 5, value=0.0)
    (n, channels, size, *plane), kernel, out_channels = x.shape, weight.shape[2], weight.shape[0]
    depth = (size - dilation[0] * (kernel - 1) - 1) // stride[0] + 1
    of_n, of_c, of_d, *of_plane = x._strides
    windows = core.view(x, (n, depth, channels, kernel, *plane), (of_n, of_d * stride[0], of_c, of_d * dilation[0], *of_plane), x.offset)
    columns = core.reshaped(kernels["contiguous"](windows), (n * depth, channels * kernel, *plane))
    flat = weight if weight._contiguous else kernels["contiguous"](weight)
    out = kernels["conv2d"](columns, core.reshaped(flat, (out_channels, weight.shape[1] * kernel, *weight.shape[3:])), bias,
                            stride=stride[1:], padding=padding[1:], dilation=dilation[1:], groups=groups)
    plane = out.shape[2:]
    size = prod(plane)
    return kernels["contiguous"](core.view(out, (n, out_channels, depth, *plane),
                                           (depth * out_channels * size, size, out_channels * size, plane[1], 1), out.offset))
