"""The GPU kernels of batch norm, random numbers and cross-entropy.

Each against NumPy in float64, or PyTorch where it is installed; geometry, views, sizes of 0 and 1, special values.
"""
from __future__ import annotations

import math

import numpy as np
import pytest
from gpu_arrays import BOOL, DEVICE, FLOAT32, INT32, INT64, UINT8, close, fetch, numbers, send
from test_gpu_update import apply_sgd

from volta import gpu
from volta._kernels import core
from volta.devices.gpu import conv as gpu_conv
from volta.devices.gpu import loss as gpu_loss
from volta.devices.gpu import norm as gpu_norm
from volta.devices.gpu import pool as gpu_pool
from volta.devices.gpu import random as gpu_random
from volta.errors import ArgumentError, DTypeError

pytestmark = pytest.mark.gpu


def test_there_is_a_gpu():
    assert gpu.context(0).info.name


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
    for name in ("batch_norm", "batch_norm_grad"):
        gpu_norm.KERNELS[name].plans.clear()


@pytest.mark.parametrize("affine", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("shape", [(4, 3, 8, 8), (2, 5, 7, 3), (64, 10), (700, 19), (1, 2, 5), (2, 1, 1, 1), (16, 4, 40, 40),
                                   (3, 300, 2, 2), (300, 1, 64), (5, 2, 2, 3, 4)], ids=str)
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


# ---------------------------------------------------------------- cross-entropy

def cross_entropy_reference(x, target):
    """(loss, softmax)"""
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        below = x - x.max(1, keepdims=True)
        sums = np.exp(below).sum(1, keepdims=True)
    loss = np.log(sums[:, 0]) - below[np.arange(len(x)), np.where(target == -100, 0, target)]
    return np.where(target == -100, 0, loss), np.exp(below) / sums


def cross_entropy(x, target):
    """(loss, softmax), of which the loss is also that of the kernel without softmax."""
    loss, softmax = gpu_loss.KERNELS["cross_entropy_softmax"](x, target, -100)
    np.testing.assert_array_equal(fetch(gpu_loss.KERNELS["cross_entropy"](x, target, -100)), fetch(loss))
    return loss, softmax


@pytest.mark.parametrize("rows, classes", [(1, 1), (3, 2), (300, 10), (70, 65), (5, 1000), (2, 50257), (1000, 3)])
def test_cross_entropy(rows, classes):
    x = numbers(rows, classes) * 4
    target = np.random.default_rng(2).integers(0, classes, rows)
    target[rows // 2:rows // 2 + 1] = -100
    loss, softmax = cross_entropy_reference(x, target)
    g = numbers(rows)
    grad = g[:, None] * np.where((target == -100)[:, None], 0, softmax - (np.arange(classes) == target[:, None]))
    for lead, order in ((0, None), (3, (1, 0))):
        ts = send(target, lead)
        got_loss, got_softmax = cross_entropy(send(x, lead, order), ts)
        close(got_softmax, softmax, rtol=1e-5, atol=2e-6)
        close(got_loss, loss, rtol=1e-5, atol=1e-5)
        moved = send(fetch(got_softmax), lead, order)
        close(gpu_loss.KERNELS["cross_entropy_grad"](send(g, lead), moved, ts, -100), grad, rtol=2e-5, atol=2e-6)


def test_cross_entropy_of_an_expanded_gradient():
    softmax, target = send(numbers(6, 4)), send(np.array([0, 1, 2, 3, 0, 1]))
    one = core.view(send(np.array([0.25], np.float32)), (6,), (0,), 0)
    each = gpu_loss.KERNELS["cross_entropy_grad"](send(np.full(6, 0.25, np.float32)), softmax, target, -100)
    np.testing.assert_array_equal(fetch(gpu_loss.KERNELS["cross_entropy_grad"](one, softmax, target, -100)), fetch(each))


def test_cross_entropy_special_values():
    inf, nan = np.inf, np.nan
    x = np.array([[nan, 1, 2], [-inf, 0, 1], [-inf, -inf, -inf], [inf, 0, 0], [1e30, 0, -1e30], [0, 0, 0]], np.float32)
    target = np.array([1, 0, 0, 1, 0, 2])
    for got, expected in zip(cross_entropy(send(x), send(target)), cross_entropy_reference(x, target)):
        np.testing.assert_allclose(fetch(got), expected, rtol=1e-6)


def test_cross_entropy_empty_and_errors():
    loss, softmax = cross_entropy(send(np.zeros((0, 5), np.float32)), send(np.zeros(0, np.int64)))
    assert loss.shape == (0,) and softmax.shape == (0, 5)
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
