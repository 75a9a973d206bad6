"""Records of 2-D convolution and max pooling. Layouts are PyTorch's: N, C, H, W and O, C/groups, kh, kw."""
from __future__ import annotations

import numpy as np

from volta.ops.records.index import gather_op
from volta.ops.records.reduce import sum_op
from volta.ops.records.view import reshape_op
from volta.ops.table import Labels, case, register

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


def np_max_pool2d(x: np.ndarray, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, size: tuple | None = None) -> tuple:
    """Values and their places in H * W in NumPy, for the tests."""
    n, c, h, w = x.shape
    oh, ow = size or ((s + 2 * p - d * (k - 1) - 1) // t + 1 for s, k, p, d, t in zip((h, w), kernel, padding, dilation, stride))
    reach = [(o - 1) * t + d * (k - 1) + 1 - s - p for o, t, d, k, s, p in zip((oh, ow), stride, dilation, kernel, (h, w), padding)]
    widths = ((0, 0), (0, 0), (padding[0], max(reach[0], 0)), (padding[1], max(reach[1], 0)))
    values = np.pad(x.astype(np.float64), widths, constant_values=-np.inf)
    places = np.pad(np.broadcast_to(np.arange(h * w).reshape(h, w), x.shape), widths, constant_values=-1)
    windows = [window for _, _, window in _np_windows((n, c, oh, ow), kernel, stride, dilation)]
    stacked, where = np.stack([values[v] for v in windows]), np.stack([places[v] for v in windows])
    best = np.argmax(np.where(where < 0, -np.inf, stacked), axis=0)[None]
    return np.take_along_axis(stacked, best, 0)[0], np.take_along_axis(where, best, 0)[0]


def _np_max_pool2d_grad(g, index, height, width, **window):
    out = np.zeros(g.shape[:2] + (height * width,))
    np.add.at(out, (*np.indices(g.shape)[:2], index), g)
    return out.reshape(g.shape[:2] + (height, width))


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


def _pool_grad_vjp(gg, index):
    n, c, h, w = gg.shape
    flat = reshape_op(gg, shape=(n, c, h * w))
    at = reshape_op(index, shape=(n, c, index.shape[2] * index.shape[3]))
    return reshape_op(gather_op(flat, at, dim=2), shape=index.shape)


max_pool2d_op = register(
    "max_pool2d", ("x",), names=("input",), family="pool", takes="f", outputs=("out", "index"), numpy=np_max_pool2d,
    vjp=(lambda g, index, x_shape, kernel, stride, padding, dilation: max_pool2d_grad(
            g, index, height=x_shape[2], width=x_shape[3], kernel=kernel, stride=stride, padding=padding, dilation=dilation),),
    cases=(case((2, 3, 6, 8), kernel=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1)),
           case((1, 2, 7, 5), kernel=(3, 2), stride=(2, 1), padding=(1, 1), dilation=(1, 2)),
           case((2, 3, 7, 5), kernel=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1), size=(4, 3)),
           case((1, 2, 6, 9), kernel=(3, 3), stride=(2, 4), padding=(1, 0), dilation=(1, 1), size=(4, 3))))
max_pool2d_grad = register(
    "max_pool2d_grad", ("g", "index"), family="pool", takes={"g": "f", "index": "int64"}, vjp=(_pool_grad_vjp, None),
    numpy=_np_max_pool2d_grad,
    cases=(case((2, 3, 3, 4), Labels((2, 3, 3, 4), 48), height=6, width=8),))
