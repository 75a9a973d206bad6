"""The GPU kernels of convolution and pooling.

Each against NumPy in float64, or PyTorch where it is installed; geometry, views, sizes of 0 and 1, special values.
"""
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from gpu_arrays import INT64, close, fetch, numbers, send

from volta.devices.gpu import conv as gpu_conv
from volta.devices.gpu import pool as gpu_pool
from volta.devices.gpu.plans import Kernel

pytestmark = pytest.mark.gpu


# ---------------------------------------------------------------- convolution

def window_sizes(size, kernel, stride, padding, dilation):
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, kernel, stride, padding, dilation))


def taps(x, kernel, stride, padding, dilation, fill=0.0):
    """((ky, kx), windows of x at that tap, as a writable view of the padded input), and the padded input."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2), constant_values=fill)
    height, width = window_sizes(x.shape[2:], kernel, stride, padding, dilation)
    views = []
    for ky, kx in itertools.product(range(kernel[0]), range(kernel[1])):
        top, left = ky * dilation[0], kx * dilation[1]
        views.append(((ky, kx), padded[:, :, top:top + (height - 1) * stride[0] + 1:stride[0],
                                       left:left + (width - 1) * stride[1] + 1:stride[1]]))
    return views, padded


def conv_reference(x, weight, bias, g, stride, padding, dilation, groups):
    """(out, grad_input, grad_weight) in float64."""
    x, weight, g = x.astype(np.float64), weight.astype(np.float64), g.astype(np.float64)
    n, c, h, w = x.shape
    o = weight.shape[0]
    kernel = weight.shape[2:]
    views, _ = taps(x, kernel, stride, padding, dilation)
    grads, padded = taps(np.zeros_like(x), kernel, stride, padding, dilation)
    out, grad_weight = np.zeros(g.shape), np.zeros(weight.shape)
    for ((ky, kx), view), (_, grad) in zip(views, grads):
        split = view.reshape(n, groups, c // groups, *view.shape[2:])
        tap = weight[:, :, ky, kx].reshape(groups, o // groups, c // groups)
        slope = g.reshape(n, groups, o // groups, *g.shape[2:])
        out += np.einsum("ngchw,goc->ngohw", split, tap).reshape(g.shape)
        grad_weight[:, :, ky, kx] = np.einsum("ngchw,ngohw->goc", split, slope).reshape(o, c // groups)
        grad += np.einsum("ngohw,goc->ngchw", slope, tap).reshape(view.shape)
    if bias is not None:
        out += bias[:, None, None]
    return out, padded[:, :, padding[0]:padding[0] + h, padding[1]:padding[1] + w], grad_weight


CONVOLUTIONS = [  # x, outputs, kernel, stride, padding, dilation, groups
    ((2, 3, 8, 8), 4, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((3, 4, 7, 5), 6, (3, 2), (2, 1), (1, 0), (1, 1), 2),
    ((1, 2, 9, 11), 3, (3, 3), (2, 3), (2, 1), (2, 2), 1),
    ((2, 6, 5, 6), 6, (3, 3), (1, 1), (1, 1), (1, 1), 6),
    ((5, 3, 4, 4), 5, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 5, 6, 6), 7, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((1, 1, 1, 1), 1, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 2, 3, 3), 2, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    ((2, 4, 6, 7), 8, (2, 5), (3, 2), (1, 3), (3, 1), 4),
    ((11, 3, 40, 45), 3, (3, 3), (1, 1), (1, 1), (1, 1), 3),    # channels by themselves, whose weights' gradients come in parts
    ((2, 3, 12, 13), 6, (7, 7), (1, 1), (8, 3), (1, 1), 3),
    ((5, 2, 9, 10), 2, (3, 2), (1, 1), (1, 0), (2, 3), 2),
    ((3, 2, 8, 8), 3, (3, 3), (1, 1), (1, 1), (1, 1), 1),       # from here on, images are the product's batch
    ((3, 2, 16, 17), 5, (3, 3), (2, 2), (1, 0), (1, 1), 1),
    ((3, 3, 8, 8), 5, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 2, 37, 30), 3, (2, 2), (1, 1), (0, 0), (1, 1), 1),
    ((7, 9, 1, 250), 120, (1, 3), (1, 1), (0, 1), (1, 1), 1),   # lines without columns: one way, or the other, or both
    ((7, 120, 1, 249), 9, (1, 2), (1, 1), (0, 0), (1, 1), 1),
    ((5, 64, 1, 381), 192, (1, 5), (1, 1), (0, 3), (1, 1), 1),
    ((13, 110, 1, 128), 118, (1, 4), (1, 1), (0, 0), (1, 1), 1),
]


@pytest.fixture
def column_bytes(request, monkeypatch):
    """Bytes of a piece of a convolution's columns; the plans of other tests have others."""
    monkeypatch.setattr(gpu_conv, "column_bytes", request.param)
    for kernel in gpu_conv.KERNELS.values():
        if isinstance(kernel, Kernel):              # the others are made of these
            kernel.plans.clear()


@pytest.mark.parametrize("column_bytes", [256 << 20, 10000, 4000, 200], indirect=True)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_conv2d(case, column_bytes):
    shape, outputs, kernel, *geometry = case
    stride, padding, dilation, groups = geometry
    x = numbers(*shape)
    weight = numbers(outputs, shape[1] // groups, *kernel)
    bias = numbers(outputs)
    g = numbers(shape[0], outputs, *window_sizes(shape[2:], kernel, stride, padding, dilation), seed=1)
    out, grad_input, grad_weight = conv_reference(x, weight, bias, g, *geometry)
    tolerance = {"rtol": 1e-4, "atol": 1e-5 * math.sqrt(x.size)}
    close(gpu_conv.KERNELS["conv2d"](send(x), send(weight), send(bias), *geometry), out, **tolerance)
    close(gpu_conv.KERNELS["conv2d_grad_input"](send(g), send(weight), *shape[2:], *geometry), grad_input, **tolerance)
    close(gpu_conv.KERNELS["conv2d_grad_weight"](send(g), send(x), kernel, *geometry), grad_weight, **tolerance)


@pytest.mark.parametrize("column_bytes", [256 << 20, 700], indirect=True)
def test_conv2d_views(column_bytes):
    geometry = ((1, 2), (1, 0), (1, 1), 2)
    x, weight, bias, g = numbers(3, 4, 6, 5), numbers(6, 2, 3, 2), numbers(6), numbers(3, 6, 6, 2)
    out, grad_input, grad_weight = conv_reference(x, weight, None, g, *geometry)
    last = (0, 2, 3, 1)
    xs, ws, gs = send(x, 3, last), send(weight, 5, last), send(g, 1, last)
    close(gpu_conv.KERNELS["conv2d"](xs, ws, None, *geometry), out, rtol=1e-4, atol=1e-4)
    close(gpu_conv.KERNELS["conv2d"](xs, ws, send(bias, 2), *geometry), out + bias[:, None, None], rtol=1e-4, atol=1e-4)
    close(gpu_conv.KERNELS["conv2d_grad_input"](gs, ws, 6, 5, *geometry), grad_input, rtol=1e-4, atol=1e-4)
    close(gpu_conv.KERNELS["conv2d_grad_weight"](gs, xs, (3, 2), *geometry), grad_weight, rtol=1e-4, atol=1e-4)


def test_conv2d_empty_batch():
    geometry = ((1, 1), (1, 1), (1, 1), 1)
    x, weight, g = np.zeros((0, 3, 4, 4), np.float32), numbers(2, 3, 3, 3), np.zeros((0, 2, 4, 4), np.float32)
    assert gpu_conv.KERNELS["conv2d"](send(x), send(weight), None, *geometry).shape == (0, 2, 4, 4)
    assert gpu_conv.KERNELS["conv2d_grad_input"](send(g), send(weight), 4, 4, *geometry).shape == (0, 3, 4, 4)
    close(gpu_conv.KERNELS["conv2d_grad_weight"](send(g), send(x), (3, 3), *geometry), np.zeros(weight.shape))


def test_conv2d_pixels_that_no_window_covers_get_zero():
    geometry = ((3, 3), (0, 0), (1, 1), 1)
    grad = fetch(gpu_conv.KERNELS["conv2d_grad_input"](send(np.ones((1, 1, 2, 2), np.float32)), send(np.ones((1, 1, 1, 1), np.float32)),
                                            6, 6, *geometry))
    want = np.zeros((1, 1, 6, 6))
    want[..., ::3, ::3] = 1
    np.testing.assert_array_equal(grad, want)


def test_conv2d_nan_stays_in_its_windows():
    x = np.ones((1, 1, 5, 5), np.float32)
    x[0, 0, 0, 0] = np.nan
    out = fetch(gpu_conv.KERNELS["conv2d"](send(x), send(np.ones((1, 1, 3, 3), np.float32)), None, (1, 1), (0, 0), (1, 1), 1))
    np.testing.assert_array_equal(np.isnan(out)[0, 0], [[1, 0, 0], [0, 0, 0], [0, 0, 0]])


# ---------------------------------------------------------------- pooling

POOLS = [  # x, kernel, stride, padding, dilation
    ((2, 3, 6, 8), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((1, 2, 7, 5), (3, 2), (2, 1), (1, 1), (1, 2)),
    ((3, 5, 9, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 1, 8, 7), (2, 3), (3, 2), (0, 1), (2, 2)),
    ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 2, 50, 61), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((1, 2, 70, 70), (5, 5), (1, 1), (2, 2), (1, 1)),
    ((40, 7, 4, 4), (2, 2), (2, 2), (0, 0), (1, 1)),
]


def pool_reference(x, kernel, stride, padding, dilation):
    """(out, index); the first of equal ones counts, and the last NaN."""
    views, _ = taps(x, kernel, stride, padding, dilation, -np.inf)
    places = np.broadcast_to(np.arange(x.shape[2] * x.shape[3]).reshape(1, 1, *x.shape[2:]), x.shape).astype(np.float64)
    indices, _ = taps(places, kernel, stride, padding, dilation, -1)
    out = np.zeros(views[0][1].shape, np.float32)
    index = np.full(out.shape, -1)
    for (_, value), (_, place) in zip(views, indices):
        better = (place >= 0) & ((index < 0) | np.isnan(value) | (value > out))
        out = np.where(better, value, out)
        index = np.where(better, place, index).astype(np.int64)
    return out, index


def pool_grad_reference(g, index, height, width):
    n, c = g.shape[:2]
    out = np.zeros((n * c, height * width))
    rows = np.repeat(np.arange(n * c), g.shape[2] * g.shape[3])
    np.add.at(out, (rows, index.ravel()), g.ravel().astype(np.float64))
    return out.reshape(n, c, height, width)


@pytest.mark.parametrize("kind", ["normal", "ties", "nan"])
@pytest.mark.parametrize("case", POOLS, ids=str)
def test_max_pool(case, kind):
    shape, *geometry = case
    x = numbers(*shape)
    if kind == "ties":
        x = np.round(x)
    if kind == "nan":
        x[numbers(*shape, seed=3) > 1] = np.nan
        x[numbers(*shape, seed=4) > 1] = -np.inf
        x[numbers(*shape, seed=5) > 1.5] = np.inf
    want, want_index = pool_reference(x, *geometry)
    for t in (send(x), send(x, 3, (0, 2, 3, 1))):
        out, index = gpu_pool.KERNELS["max_pool"](t, want.shape[2:], *geometry)
        np.testing.assert_array_equal(fetch(out), want)
        np.testing.assert_array_equal(fetch(index), want_index)
        assert index.dtype is INT64
    g = numbers(*want.shape, seed=1)
    grad = pool_grad_reference(g, want_index, *shape[2:])
    first = gpu_pool.KERNELS["max_pool_grad"](send(g), index, shape[2:], *geometry)
    close(first, grad)
    for t in (send(g, 1), send(g, 2, (1, 0, 3, 2))):
        again = gpu_pool.KERNELS["max_pool_grad"](t, send(want_index, 1), shape[2:], *geometry)
        np.testing.assert_array_equal(fetch(again), fetch(first))


def test_max_pool_window_of_minus_infinity():
    x = np.full((1, 1, 2, 2), -np.inf, np.float32)
    out, index = gpu_pool.KERNELS["max_pool"](send(x), (1, 1), (2, 2), (2, 2), (0, 0), (1, 1))
    assert fetch(out).item() == -np.inf and fetch(index).item() == 0


def test_max_pool_empty_batch():
    x = np.zeros((0, 3, 4, 4), np.float32)
    geometry = ((2, 2), (2, 2), (0, 0), (1, 1))
    out, index = gpu_pool.KERNELS["max_pool"](send(x), (2, 2), *geometry)
    assert out.shape == index.shape == (0, 3, 2, 2)
    assert gpu_pool.KERNELS["max_pool_grad"](out, index, (4, 4), *geometry).shape == x.shape
