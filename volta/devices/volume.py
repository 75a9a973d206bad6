"""Convolution of volumes by a device's kernels for images: the slices that meet one output's slice are its channels. For devices, or
shapes, without kernels of their own. IN, everywhere: kernels, those of the device by name."""
from __future__ import annotations

from math import prod

from volta._kernels import core


def _columns(kernels: dict, x, kernel: int, stride: int, padding: int, dilation: int):
    """The slices that meet one output's slice as its channels: (N, C, D, H, W) -> (N * D', C * kernel, H, W), and D'."""
    if padding:
        shape = (*x.shape[:2], x.shape[2] + 2 * padding, *x.shape[3:])
        x = kernels["place"](x, shape=shape, starts=(0, 0, padding, 0, 0), steps=(1,) * 5, value=0.0)
    (n, channels, size, *plane), (of_n, of_c, of_d, *of_plane) = x.shape, x._strides
    depth = (size - dilation * (kernel - 1) - 1) // stride + 1
    windows = core.view(x, (n, depth, channels, kernel, *plane), (of_n, of_d * stride, of_c, of_d * dilation, *of_plane), x.offset)
    return core.reshaped(kernels["contiguous"](windows), (n * depth, channels * kernel, *plane)), depth


def _slices(kernels: dict, x):
    """(N, C, D, H, W) -> (N * D, C, H, W)"""
    n, c, depth, *plane = x.shape
    of_n, of_c, of_d, *of_plane = x._strides
    return core.reshaped(kernels["contiguous"](core.view(x, (n, depth, c, *plane), (of_n, of_d, of_c, *of_plane), x.offset)),
                         (n * depth, c, *plane))


def _flat(kernels: dict, weight):
    """(O, C, kd, kh, kw) -> (O, C * kd, kh, kw)"""
    flat = weight if weight._contiguous else kernels["contiguous"](weight)
    return core.reshaped(flat, (weight.shape[0], weight.shape[1] * weight.shape[2], *weight.shape[3:]))


def conv3d(kernels: dict, x, weight, bias, stride: tuple, padding: tuple, dilation: tuple, groups: int):
    """out[N, O, D', H', W'] of x[N, C, D, H, W] and weight[O, C / groups, kd, kh, kw]."""
    columns, depth = _columns(kernels, x, weight.shape[2], stride[0], padding[0], dilation[0])
    out = kernels["conv2d"](columns, _flat(kernels, weight), bias, stride=stride[1:], padding=padding[1:], dilation=dilation[1:],
                            groups=groups)
    (_, channels, *plane), size = out.shape, prod(out.shape[2:])
    return kernels["contiguous"](core.view(out, (x.shape[0], channels, depth, *plane),
                                           (depth * channels * size, size, channels * size, plane[1], 1), out.offset))


def spread_slices(kernels: dict, g, weight, size: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int):
    """What each slice of g gives to the `kernel` slices of x[N, C, *size] that it saw: (N * D', C * kernel, H, W)."""
    return kernels["conv2d_grad_input"](_slices(kernels, g), _flat(kernels, weight), height=size[1], width=size[2], stride=stride[1:],
                                        padding=padding[1:], dilation=dilation[1:], groups=groups)


def overlapped(kernels: dict, out, n: int, kernel: int, size: tuple, stride: tuple, padding: tuple, dilation: tuple):
    """The gradient of x[N, C, *size] from what `spread_slices` gives: slices are added where they belong."""
    depth, plane = out.shape[0] // max(n, 1), size[1:]
    channels, area, total = out.shape[1] // kernel, prod(plane), None
    shape = (n, channels, size[0] + 2 * padding[0], *plane)
    for k in range(kernel):
        part = core.view(out, (n, channels, depth, *plane),
                         (depth * channels * kernel * area, kernel * area, channels * kernel * area, plane[1], 1), out.offset + k * area)
        part = kernels["place"](part, shape=shape, starts=(0, 0, k * dilation[0], 0, 0), steps=(1, 1, stride[0], 1, 1), value=0.0)
        total = part if total is None else kernels["add"](total, part)
    return kernels["contiguous"](core.view(total, (n, channels, *size), total._strides, total.offset + padding[0] * area))


def conv3d_grad_weight(kernels: dict, g, x, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int):
    """The gradient of weight[O, C / groups, *kernel]."""
    columns, _ = _columns(kernels, x, kernel[0], stride[0], padding[0], dilation[0])
    out = kernels["conv2d_grad_weight"](_slices(kernels, g), columns, kernel=kernel[1:], stride=stride[1:], padding=padding[1:],
                                        dilation=dilation[1:], groups=groups)
    return core.reshaped(out, (g.shape[1], x.shape[1] // groups, *kernel))
