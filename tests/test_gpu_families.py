"""The GPU kernels of convolution, pooling, batch norm, indexing, random numbers, updates and cross-entropy.

Each against NumPy in float64, or PyTorch where it is installed; geometry, views, sizes of 0 and 1, special values.
"""
from __future__ import annotations

import itertools
import math
import os
import time

import numpy as np
import pytest

from volta import gpu
from volta._kernels import core

pytestmark = pytest.mark.gpu
if not gpu.is_available() and os.environ.get("VOLTA_REQUIRE_GPU") != "1":
    pytest.skip(f"no usable GPU: {gpu.unavailable_reason()}", allow_module_level=True)

from volta.devices.gpu import conv as gpu_conv
from volta.devices.gpu import index as gpu_index
from volta.devices.gpu import loss as gpu_loss
from volta.devices.gpu import map as gpu_map
from volta.devices.gpu import norm as gpu_norm
from volta.devices.gpu import plans as gpu_plans
from volta.devices.gpu import pool as gpu_pool
from volta.devices.gpu import random as gpu_random
from volta.devices.gpu import sort as gpu_sort
from volta.devices.gpu import update as gpu_update
from volta.devices.gpu.generate import Expression
from volta.errors import ArgumentError, DTypeError
from volta.ops.records.update import UPDATES

DEVICE = core.Device("gpu", 0)
BOOL, UINT8, INT32, INT64, FLOAT16, FLOAT32 = (core.dtype_from_code(code) for code in range(6))
NUMPY = ("uint32", "uint32", "int32", "int32", "float16", "float32")        # what buffers hold, by DType.code
OF_NUMPY = {"float32": FLOAT32, "float16": FLOAT16, "int64": INT64, "int32": INT32, "uint8": UINT8, "bool": BOOL}


def forget_plans():
    """Those of additions, where what they are made by has changed."""
    for name in ("index_add", "scatter_add"):
        gpu_index.KERNELS[name].plans.clear()


def test_there_is_a_gpu():
    assert gpu.context(0).info.name


def send(array, lead: int = 0, order=None, tail: int = 8):
    """A GPU tensor of `array`: `lead` elements into its storage and `tail` before its end, in memory order `order` of the axes."""
    array = np.asarray(array)
    dtype = OF_NUMPY[array.dtype.name]
    order = tuple(order or range(array.ndim))
    moved = np.ascontiguousarray(array.transpose(order)).astype(NUMPY[dtype.code])
    flat = np.concatenate([np.full(lead, 77, moved.dtype), moved.ravel(), np.full(tail, 77, moved.dtype)])
    ctx = gpu.context(0)
    buffer = ctx.alloc(flat.nbytes + flat.nbytes % 4)
    ctx.upload(buffer, flat if flat.nbytes % 4 == 0 else np.append(flat, flat[:1]))
    strides = [0] * array.ndim
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(array.shape[axis], 1)
    return core.tensor(core.gpu_storage(buffer, flat.nbytes, DEVICE), array.shape, tuple(strides), lead, dtype)


def fetch(t):
    """The values of a GPU tensor with any strides."""
    kind = np.dtype(NUMPY[t.dtype.code])
    buffer = t.storage.buffer
    flat = np.empty(buffer.nbytes // kind.itemsize, kind)
    if flat.size:
        gpu.context(0).download(buffer, flat)
    view = np.lib.stride_tricks.as_strided(flat[t.offset:] if t._size else flat, t.shape, [s * kind.itemsize for s in t._strides])
    return view.astype({0: bool, 1: np.uint8, 3: np.int64}.get(t.dtype.code, kind))


def numbers(*shape, seed=0):
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def close(got, want, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(fetch(got) if isinstance(got, core.TensorBase) else got, want, rtol=rtol, atol=atol)


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
    ((3, 2, 8, 8), 3, (3, 3), (1, 1), (1, 1), (1, 1), 1),       # from here on, images are the product's batch
    ((3, 2, 16, 17), 5, (3, 3), (2, 2), (1, 0), (1, 1), 1),
    ((3, 3, 8, 8), 5, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((2, 2, 37, 30), 3, (2, 2), (1, 1), (0, 0), (1, 1), 1),
]


@pytest.fixture
def column_bytes(request, monkeypatch):
    """Bytes of a piece of a convolution's columns; the plans of other tests have others."""
    monkeypatch.setattr(gpu_conv, "column_bytes", request.param)
    for kernel in gpu_conv.KERNELS.values():
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


# ---------------------------------------------------------------- batch norm

def norm_reference(x, weight, bias, g, eps):
    """(out, mean, rstd, dx, dweight, dbias) in float64."""
    x, g = x.astype(np.float64), g.astype(np.float64)
    axes = (0, *range(2, x.ndim))
    channel = (-1, *[1] * (x.ndim - 2))
    mean = x.mean(axes)
    rstd = 1 / np.sqrt(x.var(axes) + eps)
    xhat = (x - mean.reshape(channel)) * rstd.reshape(channel)
    weight = np.ones(x.shape[1]) if weight is None else weight
    bias = np.zeros(x.shape[1]) if bias is None else bias
    out = xhat * weight.reshape(channel) + bias.reshape(channel)
    dbias, dweight = g.sum(axes), (g * xhat).sum(axes)
    count = x.size // x.shape[1]
    dx = (weight * rstd).reshape(channel) * (g - dbias.reshape(channel) / count - xhat * dweight.reshape(channel) / count)
    return out, mean, rstd, dx, dweight, dbias


@pytest.fixture(params=[4096, 0], ids=["whole", "parts"])
def channel_form(request, monkeypatch):
    """Both forms of the batch norm kernels, for all sizes."""
    monkeypatch.setattr(gpu_norm, "WHOLE", request.param)
    for kernel in gpu_norm.KERNELS.values():
        kernel.plans.clear()


@pytest.mark.parametrize("affine", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("shape", [(4, 3, 8, 8), (2, 5, 7, 3), (64, 10), (1, 2, 5), (2, 1, 1, 1), (16, 4, 40, 40), (3, 300, 2, 2),
                                   (300, 1, 64), (5, 2, 2, 3, 4)], ids=str)
def test_batch_norm(shape, affine, channel_form):
    x, g = numbers(*shape) * 3 + 1, numbers(*shape, seed=1)
    weight = numbers(shape[1]) if affine[0] else None
    bias = numbers(shape[1], seed=2) if affine[1] else None
    want = norm_reference(x, weight, bias, g, 1e-5)
    for lead, order in ((0, None), (3, None), (4, None), (1, (0, *range(2, x.ndim), 1))):
        xs, gs = send(x, lead, order), send(g, lead, order)
        ws = None if weight is None else send(weight, 2)
        out, mean, rstd = gpu_norm.KERNELS["batch_norm"](xs, ws, None if bias is None else send(bias, 1), 1e-5)
        for got, w in zip((out, mean, rstd), want):
            close(got, w, rtol=2e-5, atol=2e-5)
        got = gpu_norm.KERNELS["batch_norm_grad"](gs, xs, ws, send(want[1].astype(np.float32), 1), send(want[2].astype(np.float32), 2))
        for value, w in zip(got, want[3:]):
            close(value, w, rtol=1e-4, atol=1e-4 * max(1, math.sqrt(x.size / shape[1]) / 10))


@pytest.mark.parametrize("shape", [(16, 3, 32, 32), (2, 1, 300, 300), (256, 7)], ids=str)
@pytest.mark.parametrize("mean, deviation", [(50, 0.1), (1000, 1e-2), (-3e4, 5.0)])
def test_batch_norm_keeps_digits_far_from_zero(shape, mean, deviation, channel_form):
    x = (mean + deviation * np.random.default_rng(1).standard_normal(shape)).astype(np.float32)
    want = norm_reference(x, None, None, x, 1e-12)
    out, average, rstd = gpu_norm.KERNELS["batch_norm"](send(x), None, None, 1e-12)
    close(average, want[1], rtol=2e-7 * 4)
    # The mean itself has float32 precision: its rounding is what is left.
    slack = np.abs(mean) * 6e-8 / deviation
    close(rstd, want[2], rtol=1e-5 + 4 * slack ** 2)
    close(out, want[0], rtol=1e-5, atol=1e-5 + 4 * slack)


def test_batch_norm_outlier_first(channel_form):
    x = numbers(4, 2, 16, 16)
    x[0, 0, 0, 0] = 1e4
    want = norm_reference(x, None, None, x, 1e-5)
    out, mean, rstd = gpu_norm.KERNELS["batch_norm"](send(x), None, None, 1e-5)
    close(mean, want[1], rtol=1e-5)
    close(rstd, want[2], rtol=1e-5)


def test_batch_norm_nan_and_infinity_stay_in_their_channel(channel_form):
    for bad in (np.nan, np.inf):
        x = numbers(4, 3, 5, 5)
        x[2, 1, 3, 3] = bad
        out, mean, rstd = (fetch(t) for t in gpu_norm.KERNELS["batch_norm"](send(x), None, None, 1e-5))
        assert np.isnan(out[:, 1]).all() and np.isnan(rstd[1]) and not np.isfinite(mean[1])
        assert np.isfinite(out[:, [0, 2]]).all()


def test_batch_norm_empty():
    """Statistics of nothing are NaN; gradients of nothing are 0."""
    x = send(np.zeros((0, 3, 4), np.float32))
    out, mean, rstd = gpu_norm.KERNELS["batch_norm"](x, None, None, 1e-5)
    assert out.shape == (0, 3, 4) and np.isnan(fetch(mean)).all() and np.isnan(fetch(rstd)).all()
    dx, dweight, dbias = gpu_norm.KERNELS["batch_norm_grad"](out, x, None, mean, rstd)
    assert dx.shape == (0, 3, 4) and not fetch(dweight).any() and not fetch(dbias).any()


def test_batch_norm_update():
    mean, rstd = numbers(70), (1 / np.sqrt(np.abs(numbers(70, seed=1)) + 0.1)).astype(np.float32)
    running_mean, running_var = numbers(70, seed=2), np.abs(numbers(70, seed=3))
    m, v = send(running_mean, 1), send(running_var, 2)
    gpu_norm.KERNELS["batch_norm_update"](m, v, send(mean), send(rstd, 3), 0.1, 1e-5, 20)
    close(m, 0.9 * running_mean + 0.1 * mean)
    close(v, 0.9 * running_var + 0.1 * (1 / rstd.astype(np.float64) ** 2 - 1e-5) * 20 / 19)


# ---------------------------------------------------------------- indexing

@pytest.mark.parametrize("kind", ["float32", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("lead", [0, 1, 4])
def test_index(kind, lead):
    if kind == "float16" and not gpu.context(0).has_f16:
        pytest.skip("this adapter has no float16")
    generator = np.random.default_rng(5)
    x = (generator.integers(0, 2 if kind == "bool" else 100, (5, 6, 8))).astype(kind)
    for dim in range(3):
        size = x.shape[dim]
        index = generator.integers(0, size, 11)
        picked = np.take(x, index, dim)
        order = (2, 0, 1) if lead == 1 else None
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["index_select"](send(x, lead, order), send(index, lead), dim)), picked)
        full = generator.integers(0, size, tuple(7 if d == dim else n - 1 for d, n in enumerate(x.shape)))
        narrow = x[tuple(slice(None) if d == dim else slice(n - 1) for d, n in enumerate(x.shape))]
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["gather"](send(x, lead, order), send(full, lead), dim)),
                                      np.take_along_axis(narrow, full, dim))
        want = np.zeros(tuple(9 if d == dim else n for d, n in enumerate(x.shape)), x.dtype)
        rows = generator.integers(0, 9, size)
        at = [slice(None)] * 3
        at[dim] = rows
        np.add.at(want, tuple(at), x)
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["index_add"](send(x, lead, order), send(rows, lead), dim, 9)), want)
        each = generator.integers(0, 9, x.shape)
        want = np.zeros_like(want)
        places = list(np.indices(x.shape))
        places[dim] = each
        np.add.at(want, tuple(places), x)
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["scatter_add"](send(x, lead, order), send(each, lead), dim, 9)), want)


MANY = [((600, 8), 50, 0), ((1000, 3), 2000, 0), ((2, 300, 4), 7, 1), ((700, 1), 1, 0), ((3, 66_000), 70_000, 1),
        ((70_000,), 17_000_000, 0)]


@pytest.mark.parametrize("shape, size, dim", MANY[:-1])
def test_index_add_of_many_entries(shape, size, dim, monkeypatch):
    """The sorting form, also where only it differs from the plain one; both add in the order of the entries."""
    generator = np.random.default_rng(6)
    g = numbers(*shape)
    index = generator.integers(0, size, shape[dim])
    want = np.zeros(tuple(size if d == dim else n for d, n in enumerate(shape)), np.float32)
    np.add.at(want, (slice(None),) * dim + (index,), g)
    plain = fetch(gpu_index.KERNELS["index_add"](send(g), send(index), dim, size))
    monkeypatch.setattr(gpu_index, "FEW_READS", 0)
    forget_plans()
    for _ in range(2):
        sorting = fetch(gpu_index.KERNELS["index_add"](send(g), send(index), dim, size))
        np.testing.assert_array_equal(sorting, want)
        np.testing.assert_array_equal(sorting, plain)


@pytest.mark.parametrize("shape, size, dim", MANY)
def test_scatter_add_of_many_entries(shape, size, dim, monkeypatch):
    generator = np.random.default_rng(7)
    g = numbers(*shape)
    index = generator.integers(0, size, shape)
    want = np.zeros(tuple(size if d == dim else n for d, n in enumerate(shape)), np.float32)
    places = list(np.indices(shape))
    places[dim] = index
    np.add.at(want, tuple(places), g)
    monkeypatch.setattr(gpu_index, "FEW_READS", 0)
    forget_plans()
    for _ in range(2):
        np.testing.assert_array_equal(fetch(gpu_index.KERNELS["scatter_add"](send(g), send(index), dim, size)), want)


@pytest.mark.parametrize("kind", ["float32", "float16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape, size", [((9000, 4), 3), ((9000, 3), 3), ((2, 5000, 1), 2), ((4096, 1), 1)])
def test_rows_of_very_many_entries(shape, size, kind):
    """Parts of a row are summed on their own: the same bits each time, and as exact as other sums."""
    if kind == "float16" and not gpu.context(0).has_f16:
        pytest.skip("this adapter has no float16")
    generator = np.random.default_rng(8)
    g = (numbers(*shape) * 50).astype(kind)
    dim = len(shape) - 2
    index = np.minimum(generator.integers(0, 2 * size, shape[dim]), size - 1)
    full = np.broadcast_to(index[:, None], shape).copy()
    for op, at, places in (("index_add", index, (slice(None),) * dim + (index,)),
                           ("scatter_add", full, tuple(full if d == dim else p for d, p in enumerate(np.indices(shape))))):
        want = np.zeros(tuple(size if d == dim else n for d, n in enumerate(shape)), kind if kind in ("int32", "uint8", "bool") else "f8")
        np.add.at(want, places, g)
        runs = [fetch(gpu_index.KERNELS[op](send(g), send(at), dim, size)) for _ in range(2)]
        np.testing.assert_array_equal(*runs)
        np.testing.assert_allclose(runs[0], want, rtol=1e-3 if kind == "float16" else 1e-5, atol=0 if want.dtype.kind != "f" else 1e-3)


@pytest.mark.parametrize("count, below", [(1, 1), (255, 3), (256, 256), (257, 257), (5000, 65_536), (70_000, 1 << 20), (3000, 1 << 31)])
def test_sort(count, below):
    """Sorted, and stable."""
    keys = np.random.default_rng(count).integers(0, below, count).astype(np.int32)

    def make(t):
        plan = gpu_plans.Plan(t)
        for buffer in gpu_sort.add_sort(plan, 0, count, below):
            geometry = gpu_map.Geometry((count,), ((1,), (1,)), (0, 0))
            pipeline, params, groups = gpu_map.elementwise_step(plan.ctx, Expression(("x0",)), geometry, (INT32, INT32))
            plan.add(pipeline, (buffer, plan.output((count,), INT32)), params, groups)
        return plan
    found = [fetch(t) for t in gpu_plans.Kernel("sort", make)(send(keys, tail=0))]
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(found[0], keys[order])
    np.testing.assert_array_equal(found[1], order)


def test_many_entries_take_time_in_proportion(monkeypatch):
    """Eight times as many entries may not take 64 times as long, as they do where each looks at all others."""
    monkeypatch.setattr(gpu_index, "FEW_READS", 0)
    forget_plans()
    seconds = []
    for k in (1 << 14, 1 << 17):
        g, index = send(np.ones(k, np.float32)), send(np.arange(k) * 7919 % 1000)
        for _ in range(2):
            start = time.perf_counter()
            gpu_index.KERNELS["index_add"](g, index, 0, 1000)
            gpu.synchronize()
        seconds.append(time.perf_counter() - start)
    assert seconds[1] < 30 * seconds[0], seconds


def test_index_is_clamped():
    x = numbers(4, 3)
    np.testing.assert_array_equal(fetch(gpu_index.KERNELS["index_select"](send(x), send(np.array([-5, 9])), 0)), x[[0, 3]])
    got = fetch(gpu_index.KERNELS["gather"](send(x), send(np.array([[-5, 9, 1]])), 0))
    np.testing.assert_array_equal(got, [[x[0, 0], x[3, 1], x[1, 2]]])


def test_index_empty():
    x, none = numbers(4, 3), np.zeros(0, np.int64)
    assert gpu_index.KERNELS["index_select"](send(x), send(none), 0).shape == (0, 3)
    np.testing.assert_array_equal(fetch(gpu_index.KERNELS["index_add"](send(x[:0]), send(none), 0, 4)), np.zeros((4, 3)))


# ---------------------------------------------------------------- random numbers

def philox_reference(seed: int, offset: int, count: int):
    """The first `count` words of a draw."""
    words = []
    for block in range((count + 3) // 4):
        position = (offset + block) & (2**64 - 1)
        c = [position & 0xFFFFFFFF, position >> 32, 0, 0]
        k = [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
            k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
        words += c
    return np.array(words[:count], np.uint64)


SEEDS = [(0, 0), (1234, 5), (2**64 - 1, 2**32 - 2), (2**63 + 7, 2**64 - 2)]


def test_philox_known_answer():
    np.testing.assert_array_equal(philox_reference(0, 0, 4), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])
    got = fetch(gpu_random.KERNELS["randint"]((4,), -2**31, 2**31, 0, 0, INT64, DEVICE))
    np.testing.assert_array_equal(got + 2**31, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])


@pytest.mark.parametrize("count", [0, 1, 3, 4, 1001, 5000])
@pytest.mark.parametrize("seed, offset", SEEDS)
def test_random_draws(seed, offset, count):
    bits = philox_reference(seed, offset, count + 4)
    u = (bits >> 8).astype(np.float32) * np.float32(2**-24)
    shape = (count,)
    for low, high in ((0.0, 1.0), (-3.3, 7.1), (0.1, 0.1000001)):
        low32 = np.float32(low)
        want = low32 + (np.float32(high) - low32) * u[:count]
        np.testing.assert_array_equal(fetch(gpu_random.KERNELS["uniform"](shape, low, high, seed, offset, FLOAT32, DEVICE)), want)
    pairs = u[:(count + 3) // 4 * 4].reshape(-1, 2).astype(np.float64)
    r, t = np.sqrt(-2 * np.log1p(-pairs[:, 0])), 2 * np.pi * pairs[:, 1]
    z = np.stack([r * np.cos(t), r * np.sin(t)], 1).ravel()[:count]
    close(gpu_random.KERNELS["normal"](shape, 0.5, 2.0, seed, offset, FLOAT32, DEVICE), 0.5 + 2.0 * z, rtol=1e-6, atol=2e-6)
    for low, high, dtype in ((0, 10, INT64), (-5, 2**31 - 1, INT32), (-2**31, 2**31, INT64), (0, 2, BOOL), (0, 256, UINT8)):
        want = low + (bits[:count] * np.uint64(high - low) >> np.uint64(32)).astype(np.int64)
        np.testing.assert_array_equal(fetch(gpu_random.KERNELS["randint"](shape, low, high, seed, offset, dtype, DEVICE)), want)


@pytest.mark.parametrize("lead, order", [(0, None), (3, None), (4, (1, 0))])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout(p, lead, order):
    x = numbers(37, 11)
    x[3, 4] = np.inf
    keep = ((philox_reference(9, 3, x.size) >> 8).astype(np.float32) * np.float32(2**-24) >= np.float32(p)).reshape(x.shape)
    with np.errstate(invalid="ignore"):
        want = x * np.where(keep, np.float32(1 / (1 - p) if p < 1 else 0), np.float32(0))
    np.testing.assert_array_equal(fetch(gpu_random.KERNELS["dropout"](send(x, lead, order), p, 9, 3)), want)


def test_random_errors():
    with pytest.raises(ArgumentError, match="randint: the GPU holds integers in 32 bits"):
        gpu_random.KERNELS["randint"]((2,), 0, 2**40, 0, 0, INT64, DEVICE)
    with pytest.raises(DTypeError, match="uniform: the GPU kernel makes float32, got int64"):
        gpu_random.KERNELS["uniform"]((2,), 0, 1, 0, 0, INT64, DEVICE)


# ---------------------------------------------------------------- updates

def apply(name, *lists, **settings):
    """One update of lists of tensors, or of one parameter's tensors."""
    lists = [[x] if isinstance(x, core.TensorBase) else x for x in lists]
    update = UPDATES[name]
    flags = {key: settings.pop(key) for key in update.flags if key in settings}
    gpu_update.KERNELS[name](*lists, *[None] * (len(update.tensors) - len(lists)), **update.factors(**settings), **flags)


def apply_sgd(params, grads, buffers, *args):
    apply("sgd", params, grads, buffers, **dict(zip(("lr", "momentum", "dampening", "weight_decay", "nesterov", "first"), args)))


def apply_adam(params, grads, exp_avgs, exp_avg_sqs, *args):
    apply("adam", params, grads, exp_avgs, exp_avg_sqs,
          **dict(zip(("lr", "beta1", "beta2", "eps", "weight_decay", "decoupled", "step"), args)))


def sgd_reference(p, g, buffer, lr, momentum, dampening, weight_decay, nesterov, first):
    g = g + weight_decay * p
    if buffer is not None:
        buffer = g.copy() if first else momentum * buffer + (1 - dampening) * g
        g = g + momentum * buffer if nesterov else buffer
    return p - lr * g, buffer


def adam_reference(p, g, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, step):
    correction1, correction2 = 1 - beta1 ** step, 1 - beta2 ** step
    if decoupled:
        p = p * (1 - lr * weight_decay)
    else:
        g = g + weight_decay * p
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    return p - lr / correction1 * m / (np.sqrt(v / correction2) + eps), m, v


SIZES = [(8,), (3, 5), (1,), (1000,), (64, 36)]
LEADS = [(0, 0), (4, 8), (1, 2)]
SGD = [(0.1, 0.9, 0.0, 0.0, False, True), (0.1, 0.9, 0.3, 0.01, False, False), (0.05, 0.8, 0.0, 0.1, True, False),
       (0.05, 0.8, 0.0, 0.1, True, True)]
ADAM = [(1e-2, 0.9, 0.999, 1e-8, 0.0, False), (1e-2, 0.8, 0.99, 1e-6, 0.1, False), (3e-2, 0.9, 0.95, 1e-8, 0.1, True)]


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("leads", LEADS)
def test_sgd(shape, leads):
    p, g, buffer = (numbers(*shape, seed=s) for s in range(3))
    for args in SGD:
        wide = [a.astype(np.float64) for a in (p, g, buffer)]
        want, want_buffer = sgd_reference(*wide, *args)
        ps, bs = send(p, leads[0]), send(buffer, leads[1])
        apply_sgd(ps, send(g, leads[1]), bs, *args)
        close(ps, want)
        close(bs, want_buffer)
        ps = send(p, leads[0])
        apply_sgd(ps, send(g, leads[0]), None, *args)
        close(ps, sgd_reference(wide[0], wide[1], None, *args)[0])


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("leads", LEADS)
def test_adam(shape, leads):
    p, g, m = (numbers(*shape, seed=s) for s in range(3))
    v = np.abs(numbers(*shape, seed=3))
    for lr, beta1, beta2, eps, weight_decay, decoupled in ADAM:
        state = [a.astype(np.float64) for a in (p, m, v)]
        held = [send(p, leads[0]), send(m, leads[1]), send(v, leads[0])]
        for step in range(1, 4):
            args = (lr, beta1, beta2, eps, weight_decay, decoupled, step)
            state = list(adam_reference(state[0], g.astype(np.float64), *state[1:], *args))
            apply_adam(held[0], send(g, leads[1]), *held[1:], *args)
        for got, want in zip(held, state):
            close(got, want, rtol=2e-5, atol=2e-6)


def test_updates_leave_neighbours_alone():
    base = np.arange(32, dtype=np.float32)
    for size, lead in itertools.product((1, 5, 8), (0, 3, 4)):
        whole = send(base)
        part = core.view(whole, (size,), (1,), lead)
        apply_sgd(part, send(np.ones(size, np.float32)), None, 1.0, 0.0, 0.0, 0.0, False, False)
        want = base.copy()
        want[lead:lead + size] -= 1
        np.testing.assert_array_equal(fetch(whole), want)


def test_updates_of_strided_parameters():
    p, g, buffer = numbers(6, 5), numbers(6, 5, seed=1), numbers(6, 5, seed=2)
    ps, bs = send(p, 2, (1, 0)), send(buffer)
    apply_sgd(ps, send(g, 1, (1, 0)), bs, *SGD[1])
    want = sgd_reference(*[a.astype(np.float64) for a in (p, g, buffer)], *SGD[1])
    close(ps, want[0])
    close(bs, want[1])


@pytest.mark.parametrize("tail", [0, 8])
@pytest.mark.parametrize("count", [1, 2, 7, 10, 25])
def test_updates_of_many(count, tail):
    sizes = [(1 + 37 * i % 50 * (4 if i % 3 else 1),) for i in range(count)]
    leads = [3 if i == 5 else 0 for i in range(count)]
    p, g, m = ([numbers(*s, seed=10 * i + k) for i, s in enumerate(sizes)] for k in range(3))
    v = [np.abs(a) for a in m]
    ps, gs, ms, vs = ([send(a, lead, None, tail) for a, lead in zip(arrays, leads)] for arrays in (p, g, m, v))
    args = (*ADAM[2], 3)
    before = gpu.stats().dispatches
    apply_adam(ps, gs, ms, vs, *args)
    assert gpu.stats().dispatches - before <= (2 if tail == 0 else 3) + count / 7
    for i in range(count):
        want = adam_reference(*[a[i].astype(np.float64) for a in (p, g, m, v)], *args)
        for got, w in zip((ps[i], ms[i], vs[i]), want):
            close(got, w)
    ps, ms = ([send(a, lead, None, tail) for a, lead in zip(arrays, leads)] for arrays in (p, m))
    apply_sgd(ps, gs, ms, *SGD[1])
    for i in range(count):
        want = sgd_reference(*[a[i].astype(np.float64) for a in (p, g, m)], *SGD[1])
        close(ps[i], want[0])
        close(ms[i], want[1])


def test_plain_descent_of_many_is_one_dispatch():
    ps, gs = ([send(numbers(5 + i, seed=i + 20 * k), tail=0) for i in range(12)] for k in range(2))
    want = [fetch(p) - np.float32(0.1) * fetch(g) for p, g in zip(ps, gs)]
    before = gpu.stats().dispatches
    apply_sgd(ps, gs, None, 0.1, 0.0, 0.0, 0.0)
    assert gpu.stats().dispatches - before == 1
    for p, w in zip(ps, want):
        close(p, w)


@pytest.mark.parametrize("limit", [4, 8, 16, 1000])
def test_fewer_or_more_buffers_a_dispatch(limit):
    """A kernel takes as many parameters as the device has bindings for, and never more than its parameters have words for."""
    for variant in gpu_update.VARIANTS.values():
        count = variant.places(limit)
        assert count == 1 or count * len(variant.tensors) <= min(limit, gpu_update.MOST_BUFFERS)
        assert count == 1 or 2 * count - 1 + len(variant.factors) <= 32


def test_every_combination_of_every_update_compiles():
    ctx = gpu.context(0)
    for variant in gpu_update.VARIANTS.values():
        for count in {1, 2, variant.places(32)}:
            for lanes, dtype in itertools.product((1, 4), (FLOAT32, FLOAT16) if ctx.has_f16 else (FLOAT32,)):
                variant.pipeline(ctx, count, lanes, dtype)


@pytest.mark.parametrize("name", UPDATES)
def test_changing_scalars_compiles_and_uploads_nothing(name):
    """What a declaration lists as changing from step to step reaches the kernel as a parameter."""
    update = UPDATES[name]
    settings = {key: value for key, value in update.samples[-1][0].items() if key not in update.flags}
    lists = [[send(np.abs(numbers(16, seed=i)))] for i in range(len(update.tensors))]
    gpu_update.KERNELS[name](*lists, **update.factors(**settings))
    before = gpu.stats()
    for key in update.changing:
        changed = {"step": 7, "first": False}.get(key, 0.5)
        gpu_update.KERNELS[name](*lists, **update.factors(**{**settings, key: changed}))
    made = gpu.stats() - before
    assert made.dispatches == len(update.changing)
    assert (made.uploads, made.pipelines_created, made.buffers_created, made.bind_groups_created) == (0, 0, 0, 0)


def test_lists_of_several_dtypes_are_refused():
    wide, narrow = send(np.ones(8, np.float32)), send(np.ones(8, np.int32))
    for lists in (([wide, narrow], [wide, wide]), ([wide], [narrow])):
        with pytest.raises(DTypeError, match="sgd: a list must have one dtype, got float32 and int32"):
            apply_sgd(*lists, None, 0.1, 0.0, 0.0, 0.0)


# ---------------------------------------------------------------- cross-entropy

def cross_entropy_reference(x, target, ignore):
    x = x.astype(np.float64)
    top = x.max(1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = (top + np.log(np.exp(x - top).sum(1, keepdims=True)))[:, 0]
        loss = sums - x[np.arange(len(x)), np.where(target == ignore, 0, target)]
    return np.where(target == ignore, 0, loss), sums


@pytest.mark.parametrize("rows, classes", [(1, 1), (3, 2), (300, 10), (70, 65), (5, 1000), (2, 50257), (1000, 3)])
def test_cross_entropy(rows, classes):
    x = numbers(rows, classes) * 4
    target = np.random.default_rng(2).integers(0, classes, rows)
    target[rows // 2:rows // 2 + 1] = -100
    loss, sums = cross_entropy_reference(x, target, -100)
    g = numbers(rows)
    soft = np.exp(x - sums[:, None])
    grad = g[:, None] * np.where((target == -100)[:, None], 0, soft - (np.arange(classes) == target[:, None]))
    for lead, order in ((0, None), (3, (1, 0))):
        xs, ts = send(x, lead, order), send(target, lead)
        got_loss, got_sums = gpu_loss.KERNELS["cross_entropy"](xs, ts, -100)
        close(got_sums, sums, rtol=1e-5, atol=2e-6)
        close(got_loss, loss, rtol=1e-5, atol=1e-5)
        close(gpu_loss.KERNELS["cross_entropy_grad"](send(g, lead), xs, got_sums, ts, -100), grad, rtol=2e-5, atol=2e-6)


def test_cross_entropy_of_an_expanded_gradient():
    x, target = numbers(6, 4), np.array([0, 1, 2, 3, 0, 1])
    _, sums = gpu_loss.KERNELS["cross_entropy"](send(x), send(target), -100)
    one = core.view(send(np.array([0.25], np.float32)), (6,), (0,), 0)
    each = gpu_loss.KERNELS["cross_entropy_grad"](send(np.full(6, 0.25, np.float32)), send(x), sums, send(target), -100)
    np.testing.assert_array_equal(fetch(gpu_loss.KERNELS["cross_entropy_grad"](one, send(x), sums, send(target), -100)), fetch(each))


def test_cross_entropy_special_values():
    inf, nan = np.inf, np.nan
    x = np.array([[nan, 1, 2], [-inf, 0, 1], [-inf, -inf, -inf], [inf, 0, 0], [1e30, 0, -1e30], [0, 0, 0]], np.float32)
    target = np.array([1, 0, 0, 1, 0, 2])
    with np.errstate(invalid="ignore"):
        loss, sums = cross_entropy_reference(x, target, -100)
    got = gpu_loss.KERNELS["cross_entropy"](send(x), send(target), -100)
    np.testing.assert_allclose(fetch(got[1]), sums, rtol=1e-6)
    np.testing.assert_allclose(fetch(got[0]), loss, rtol=1e-6)
    grad = fetch(gpu_loss.KERNELS["cross_entropy_grad"](send(np.ones(6, np.float32)), send(x), got[1], send(target), -100))
    assert np.isnan(grad[[0, 2, 3]]).all() and np.isfinite(grad[[1, 4, 5]]).all()


def test_cross_entropy_empty_and_errors():
    loss, sums = gpu_loss.KERNELS["cross_entropy"](send(np.zeros((0, 5), np.float32)), send(np.zeros(0, np.int64)), -100)
    assert loss.shape == sums.shape == (0,)
    with pytest.raises(DTypeError, match="cross_entropy: the GPU kernel takes float32, got int32"):
        gpu_loss.KERNELS["cross_entropy"](send(np.zeros((2, 5), np.int32)), send(np.zeros(2, np.int64)), -100)


@pytest.mark.parametrize("bad", ["conv2d", "max_pool", "batch_norm", "dropout", "sgd"])
def test_other_types_are_refused(bad):
    x = send(np.zeros((2, 2, 4, 4), np.int32))
    calls = {"conv2d": lambda: gpu_conv.KERNELS["conv2d"](x, x, None, (1, 1), (0, 0), (1, 1), 1),
             "max_pool": lambda: gpu_pool.KERNELS["max_pool"](x, (2, 2), (2, 2), (2, 2), (0, 0), (1, 1)),
             "batch_norm": lambda: gpu_norm.KERNELS["batch_norm"](x, None, None, 1e-5),
             "dropout": lambda: gpu_random.KERNELS["dropout"](x, 0.5, 0, 0),
             "sgd": lambda: apply_sgd(x, x, None, 0.1, 0.0, 0.0, 0.0, False, False)}
    with pytest.raises(DTypeError, match=f"{bad}: the GPU kernel takes float32( and float16)?, got int32"):
        calls[bad]()
