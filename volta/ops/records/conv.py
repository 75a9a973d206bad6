"""Records of the convolution of images and of volumes. Layouts are PyTorch's: N, C, H, W and O, C/groups, kh, kw."""
from __future__ import annotations

from itertools import product

import numpy as np

from volta.ops.records.reduce import sum_op
from volta.ops.table import case, register

_DEFAULT = dict(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)


def _np_windows(size, kernel, stride, dilation):
    """Per kernel element its place and the slices of the padded input that meet it, for an output of `size`."""
    for tap in product(*map(range, kernel)):
        yield tap, (Ellipsis, *[slice(i * d, i * d + (n - 1) * s + 1, s) for i, n, s, d in zip(tap, size, stride, dilation)])


def _np_grouped(x, groups):
    return x.reshape(x.shape[0], groups, -1, *x.shape[2:])


def _np_padded(x, padding):
    return np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))


def np_conv(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, stride: tuple, padding: tuple, dilation: tuple,
            groups: int) -> np.ndarray:
    """The definition in NumPy, in any number of dimensions, for the tests."""
    kernel, x = weight.shape[2:], _np_padded(x, padding)
    size = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(x.shape[2:], kernel, dilation, stride)]
    out = np.zeros((x.shape[0], weight.shape[0], *size))
    for tap, window in _np_windows(size, kernel, stride, dilation):
        w = weight[(..., *tap)].reshape(groups, -1, weight.shape[1])
        out += np.einsum("ngc...,goc->ngo...", _np_grouped(x[window], groups), w).reshape(out.shape)
    return out if bias is None else out + bias.reshape(-1, *[1] * len(kernel))


def np_conv_transpose(g: np.ndarray, weight: np.ndarray, size: tuple, stride: tuple, padding: tuple, dilation: tuple,
                      groups: int) -> np.ndarray:
    """The gradient of np_conv's input, which had this `size`."""
    out = np.zeros((g.shape[0], weight.shape[1] * groups, *[n + 2 * p for n, p in zip(size, padding)]))
    for tap, window in _np_windows(g.shape[2:], weight.shape[2:], stride, dilation):
        w = weight[(..., *tap)].reshape(groups, -1, weight.shape[1])
        out[window] += np.einsum("ngo...,goc->ngc...", _np_grouped(g, groups), w).reshape(out[window].shape)
    return out[(..., *[slice(p, p + n) for n, p in zip(size, padding)])]


def _np_conv_grad_weight(g, x, kernel, stride, padding, dilation, groups):
    x = _np_padded(x, padding)
    dw = np.zeros((g.shape[1], x.shape[1] // groups) + tuple(kernel))
    for tap, window in _np_windows(g.shape[2:], kernel, stride, dilation):
        gs, xs = (_np_grouped(v, groups).reshape(len(v), groups, v.shape[1] // groups, -1) for v in (g, x[window]))
        dw[(..., *tap)] = np.einsum("ngop,ngcp->goc", gs, xs).reshape(dw.shape[:2])
    return dw


def _geometry(**changes):
    return {**_DEFAULT, **changes}


def _conv2d_bias(g):
    return sum_op(g, dim=(0, 2, 3), keepdim=False)


conv2d_op = register(
    "conv2d", ("x", "weight", "bias"), names=("input", "weight", "bias"), family="conv", pixels=("x", "weight"), rtol=1e-4, numpy=np_conv,
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
    "conv2d_grad_input", ("g", "weight"), family="conv", pixels=("g", "weight"), takes="f", rtol=1e-4,
    numpy=lambda g, weight, height, width, **geometry: np_conv_transpose(g, weight, (height, width), **geometry),
    vjp=(lambda gg, weight, stride, padding, dilation, groups: conv2d_op(
            gg, weight, None, stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda gg, g, weight_shape, stride, padding, dilation, groups: conv2d_grad_weight(
            g, gg, kernel=weight_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups)),
    cases=(case((2, 4, 6, 5), (4, 3, 3, 3), height=6, width=5, **_geometry(padding=(1, 1))),
           case((2, 6, 4, 5), (6, 2, 3, 2), height=7, width=6, **_geometry(stride=(2, 1), padding=(1, 0), groups=2))))
conv2d_grad_weight = register(
    "conv2d_grad_weight", ("g", "x"), family="conv", pixels=("g", "x"), takes="f", rtol=1e-4, numpy=_np_conv_grad_weight,
    vjp=(lambda gg, x, stride, padding, dilation, groups: conv2d_op(
            x, gg, None, stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda gg, g, x_shape, stride, padding, dilation, groups: conv2d_grad_input(
            g, gg, height=x_shape[2], width=x_shape[3], stride=stride, padding=padding, dilation=dilation, groups=groups)),
    cases=(case((2, 4, 6, 5), (2, 3, 6, 5), kernel=(3, 3), **_geometry(padding=(1, 1))),
           case((2, 6, 4, 5), (2, 4, 7, 6), kernel=(3, 2), **_geometry(stride=(2, 1), padding=(1, 0), groups=2))))


# ---------------------------------------------------------------- volumes
_VOLUME = dict(stride=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1), groups=1)
conv3d_op = register(
    "conv3d", ("x", "weight", "bias"), names=("input", "weight", "bias"), family="conv", pixels=("x", "weight"), rtol=1e-4, numpy=np_conv,
    takes={"x": "f", "weight": "=x", "bias": "=x?"},
    vjp=(lambda g, x_shape, weight, stride, padding, dilation, groups: conv3d_grad_input(
            g, weight, size=x_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda g, x, weight_shape, stride, padding, dilation, groups: conv3d_grad_weight(
            g, x, kernel=weight_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda g: sum_op(g, dim=(0, 2, 3, 4), keepdim=False)),
    cases=(case((2, 2, 4, 5, 4), (3, 2, 3, 3, 3), (3,), **{**_VOLUME, "padding": (1, 1, 1)}),
           case((1, 4, 5, 4, 5), (4, 2, 2, 2, 3), None, **{**_VOLUME, "stride": (2, 1, 2), "padding": (1, 0, 2), "dilation": (2, 1, 1),
                                                           "groups": 2}),
           case((2, 2, 8, 16, 16), (4, 2, 3, 3, 3), (4,), **{**_VOLUME, "padding": (1, 1, 1)}),
           case((1, 3, 6, 16, 9), (2, 3, 1, 1, 2), None, **{**_VOLUME, "stride": (1, 1, 2)})))
conv3d_grad_input = register(
    "conv3d_grad_input", ("g", "weight"), family="conv", pixels=("g", "weight"), takes="f", rtol=1e-4,
    numpy=lambda g, weight, size, **geometry: np_conv_transpose(g, weight, size, **geometry),
    vjp=(lambda gg, weight, stride, padding, dilation, groups: conv3d_op(
            gg, weight, None, stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda gg, g, weight_shape, stride, padding, dilation, groups: conv3d_grad_weight(
            g, gg, kernel=weight_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups)),
    cases=(case((2, 3, 4, 5, 4), (3, 2, 3, 3, 3), size=(4, 5, 4), **{**_VOLUME, "padding": (1, 1, 1)}),
           case((2, 4, 8, 16, 16), (4, 2, 3, 3, 3), size=(8, 16, 16), **{**_VOLUME, "padding": (1, 1, 1)}),
           case((1, 4, 2, 3, 3), (4, 2, 2, 2, 3), size=(4, 6, 5),
                **{**_VOLUME, "stride": (2, 2, 1), "padding": (1, 0, 0), "dilation": (2, 1, 1), "groups": 2})))
conv3d_grad_weight = register(
    "conv3d_grad_weight", ("g", "x"), family="conv", pixels=("g", "x"), takes="f", rtol=1e-4, numpy=_np_conv_grad_weight,
    vjp=(lambda gg, x, stride, padding, dilation, groups: conv3d_op(
            x, gg, None, stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda gg, g, x_shape, stride, padding, dilation, groups: conv3d_grad_input(
            g, gg, size=x_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups)),
    cases=(case((2, 3, 4, 5, 4), (2, 2, 4, 5, 4), kernel=(3, 3, 3), **{**_VOLUME, "padding": (1, 1, 1)}),
           case((2, 4, 8, 16, 16), (2, 2, 8, 16, 16), kernel=(3, 3, 3), **{**_VOLUME, "padding": (1, 1, 1)}),
           case((1, 4, 2, 3, 3), (1, 4, 4, 6, 5), kernel=(2, 2, 3),
                **{**_VOLUME, "stride": (2, 2, 1), "padding": (1, 0, 0), "dilation": (2, 1, 1), "groups": 2})))
