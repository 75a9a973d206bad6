"""Records of 2-D convolution. Layouts are PyTorch's: N, C, H, W and O, C/groups, kh, kw."""
from __future__ import annotations

import numpy as np

from volta.ops.records.reduce import sum_op
from volta.ops.table import case, register

_DEFAULT = dict(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)


def np_conv2d(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, stride: tuple, padding: tuple, dilation: tuple,
              groups: int) -> np.ndarray:
    """The definition in NumPy, for the tests."""
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    n, c, h, w = x.shape
    o, cg, kh, kw = weight.shape
    oh, ow = ((s - d * (k - 1) - 1) // t + 1 for s, k, d, t in zip((h, w), (kh, kw), dilation, stride))
    out = np.zeros((n, o, oh, ow))
    for i, j, window in _np_windows(out.shape, (kh, kw), stride, dilation):
        patch = x[window].reshape(n, groups, cg, oh, ow)
        out += np.einsum("ngchw,goc->ngohw", patch, weight[:, :, i, j].reshape(groups, o // groups, cg)).reshape(out.shape)
    return out if bias is None else out + bias[:, None, None]


def _np_windows(g_shape, kernel, stride, dilation):
    """Per kernel element (i, j), the slices of the padded input that meet it."""
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            a, b = i * dilation[0], j * dilation[1]
            yield i, j, (Ellipsis, slice(a, a + (g_shape[2] - 1) * stride[0] + 1, stride[0]),
                         slice(b, b + (g_shape[3] - 1) * stride[1] + 1, stride[1]))


def _np_conv2d_grad_input(g, weight, height, width, stride, padding, dilation, groups):
    n, o, oh, ow = g.shape
    cg, kernel = weight.shape[1], weight.shape[2:]
    dx = np.zeros((n, cg * groups, height + 2 * padding[0], width + 2 * padding[1]))
    for i, j, window in _np_windows(g.shape, kernel, stride, dilation):
        w = weight[:, :, i, j].reshape(groups, o // groups, cg)
        dx[window] += np.einsum("ngohw,goc->ngchw", g.reshape(n, groups, -1, oh, ow), w).reshape(n, -1, oh, ow)
    return dx[:, :, padding[0]:padding[0] + height, padding[1]:padding[1] + width]


def _np_conv2d_grad_weight(g, x, kernel, stride, padding, dilation, groups):
    n, o, oh, ow = g.shape
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    dw = np.zeros((o, x.shape[1] // groups) + tuple(kernel))
    for i, j, window in _np_windows(g.shape, kernel, stride, dilation):
        patch = x[window].reshape(n, groups, -1, oh, ow)
        dw[:, :, i, j] = np.einsum("ngohw,ngchw->goc", g.reshape(n, groups, -1, oh, ow), patch).reshape(o, -1)
    return dw


def _geometry(**changes):
    return {**_DEFAULT, **changes}


def _conv2d_bias(g):
    return sum_op(g, dim=(0, 2, 3), keepdim=False)


conv2d_op = register(
    "conv2d", ("x", "weight", "bias"), names=("input", "weight", "bias"), family="conv", rtol=1e-4, numpy=np_conv2d,
    takes={"x": "f", "weight": "=x", "bias": "=x?"},
    vjp=(lambda g, x_shape, weight, stride, padding, dilation, groups: conv2d_grad_input(
            g, weight, height=x_shape[2], width=x_shape[3], stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda g, x, weight_shape, stride, padding, dilation, groups: conv2d_grad_weight(
            g, x, kernel=weight_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups),
         _conv2d_bias),
    cases=(case((2, 3, 6, 5), (4, 3, 3, 3), (4,), **_geometry(padding=(1, 1))),
           case((2, 4, 7, 6), (6, 2, 3, 2), None, **_geometry(stride=(2, 1), padding=(1, 0), groups=2)),
           case((1, 2, 8, 8), (3, 2, 3, 3), (3,), **_geometry(stride=(1, 2), padding=(2, 2), dilation=(2, 2))),
           case((2, 3, 4, 4), (5, 3, 1, 1), (5,), **_DEFAULT)))
conv2d_grad_input = register(
    "conv2d_grad_input", ("g", "weight"), family="conv", takes="f", rtol=1e-4, numpy=_np_conv2d_grad_input,
    vjp=(lambda gg, weight, stride, padding, dilation, groups: conv2d_op(
            gg, weight, None, stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda gg, g, weight_shape, stride, padding, dilation, groups: conv2d_grad_weight(
            g, gg, kernel=weight_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups)),
    cases=(case((2, 4, 6, 5), (4, 3, 3, 3), height=6, width=5, **_geometry(padding=(1, 1))),
           case((2, 6, 4, 5), (6, 2, 3, 2), height=7, width=6, **_geometry(stride=(2, 1), padding=(1, 0), groups=2))))
conv2d_grad_weight = register(
    "conv2d_grad_weight", ("g", "x"), family="conv", takes="f", rtol=1e-4, numpy=_np_conv2d_grad_weight,
    vjp=(lambda gg, x, stride, padding, dilation, groups: conv2d_op(
            x, gg, None, stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda gg, g, x_shape, stride, padding, dilation, groups: conv2d_grad_input(
            g, gg, height=x_shape[2], width=x_shape[3], stride=stride, padding=padding, dilation=dilation, groups=groups)),
    cases=(case((2, 4, 6, 5), (2, 3, 6, 5), kernel=(3, 3), **_geometry(padding=(1, 1))),
           case((2, 6, 4, 5), (2, 4, 7, 6), kernel=(3, 2), **_geometry(stride=(2, 1), padding=(1, 0), groups=2))))
