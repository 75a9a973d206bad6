"""Images whose channels lie together are worked on as they lie: results lie so without a copy, and are what row-major images give."""
from __future__ import annotations

import math

import numpy as np
import pytest
from test_call import Tape
from volta._kernels.core.order import by_pixels

import volta
import volta.nn.functional as F
from volta._kernels.cpu import conv, row_norm

CASES = {  # images, channels, outputs, kernel, size, stride, padding, dilation, groups
    "tiles": (3, 32, 40, (3, 3), (12, 13), 1, 1, 1, 1),
    "tiles, few of them": (4, 130, 200, (3, 3), (5, 6), 1, 1, 1, 1),
    "blocks of a large kernel": (2, 24, 33, (7, 5), (15, 18), 1, (3, 2), 1, 1),
    "strides": (2, 17, 24, (3, 3), (11, 9), 2, 1, 1, 1),
    "dilation": (2, 24, 50, (3, 3), (14, 15), 1, 2, 2, 1),
    "three channels": (2, 3, 32, (3, 3), (20, 19), 1, 1, 1, 1),
    "few outputs": (2, 64, 3, (3, 3), (12, 12), 1, 1, 1, 1),
    "one element some steps apart": (2, 20, 24, (1, 1), (9, 8), 2, 0, 1, 1),
    "mostly outside": (9, 20, 33, (7, 7), (4, 5), 1, 3, 1, 1),
    "groups": (2, 36, 48, (3, 3), (13, 9), 1, 1, 1, 3),
    "a volume": (2, 8, 24, (3, 3, 3), (5, 6, 7), 1, 1, 1, 1),
    "few places": (1, 64, 64, (3, 3), (4, 4), 1, 1, 1, 1),
    "weights as they lie, groups": (2, 96, 54, (3, 5), (4, 3), (1, 2), (1, 2), 1, 2),
    "depthwise": (2, 40, 40, (3, 3), (9, 14), 1, 1, 1, 40),
    "depthwise, no whole vectors": (2, 21, 21, (5, 3), (8, 19), 1, (2, 1), 1, 21),
    "depthwise, strides": (3, 24, 24, (3, 5), (11, 12), (2, 3), 1, 1, 24),
    "depthwise, dilation, volumes": (2, 18, 18, (3, 2, 3), (6, 5, 9), 1, 1, 2, 18),
    "depthwise, wide kernels": (2, 35, 35, (7, 7), (7, 17), 1, 3, 1, 35),
    "depthwise, wide kernels of volumes": (1, 16, 16, (2, 3, 5), (4, 6, 10), (2, 1, 1), (1, 2, 4), (1, 2, 1), 16),
    "depthwise, padding wider than what is seen": (2, 16, 16, (3, 3), (3, 4), 1, 2, 1, 16),
}


def last(x):
    return x.to(memory_format=volta.channels_last if x.ndim == 4 else volta.channels_last_3d)


def results(case, dtype, laid, weights=last):
    n, c, o, kernel, size, stride, padding, dilation, groups = CASES[case]
    rng = np.random.default_rng(0)
    x, w, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((n, c, *size), (o, c // groups, *kernel), (o,)))
    x, w = laid(volta.tensor(x)).requires_grad_(), weights(volta.tensor(w)).requires_grad_()
    out = getattr(F, f"conv{len(kernel)}d")(x, w, volta.tensor(bias), stride, padding, dilation, groups)
    g = laid(volta.tensor(rng.standard_normal(tuple(out.shape)).astype(dtype)))
    return [out.detach(), *volta.autograd.grad(out, [x, w], g)]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("case", CASES)
def test_convolutions(case, dtype):
    want, threads, found = results(case, dtype, lambda x: x, lambda w: w), volta.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            volta.set_num_threads(count)
            found.append(results(case, dtype, last))
    finally:
        volta.set_num_threads(threads)
    found.append(results(case, dtype, last, lambda w: w))
    assert all(by_pixels(x) for x in found[0])
    for got in found:
        for a, b in zip(got, want):
            assert abs(a - b).max() <= (5e-6 if dtype == "f4" else 1e-14) * abs(b).max() * (3 if dtype == "f8" else 1)
    for other in found[1:3]:
        assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(found[0], other)), "results depend on the number of threads"


@pytest.mark.parametrize("case", [case for case in CASES if case != "few places"])
def test_kernels_give_what_lies_so(case):
    n, c, o, kernel, size, *window, groups = CASES[case]
    stride, padding, dilation = (v if isinstance(v, tuple) else (v,) * len(kernel) for v in window)
    x, w = last(volta.ones(n, c, *size)), last(volta.ones(o, c // groups, *kernel))
    name, options = f"conv{len(kernel)}d", {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out = conv.KERNELS[name](x, w, None, **options)
    assert by_pixels(out)
    sizes = {"size": size} if len(size) == 3 else dict(zip(("height", "width"), size))
    assert by_pixels(conv.KERNELS[name + "_grad_input"](out, w, **sizes, **options))


@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_meets_the_padding(value, groups):
    x, w = volta.ones(2, 16, 5, 6), volta.ones(16, 16 // groups, 3, 3)
    w[3, 0, 0, 1] = value
    for a, b in zip(*([F.conv2d(i, j, padding=1, groups=groups)] for i, j in ((x, w), (last(x), last(w))))):
        assert np.array_equal(a.isnan().numpy(), b.isnan().numpy()) and np.array_equal(a.isinf().numpy(), b.isinf().numpy())
    x[1, 3, 2, 2] = value
    a, b = (F.conv2d(i, volta.ones(16, 16 // groups, 3, 3), padding=1, groups=groups) for i in (x, last(x)))
    assert np.array_equal(a.numpy(), b.numpy(), equal_nan=True)


@pytest.mark.parametrize("channels", [3, 8, 19])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("size", [(14, 12), (5, 3), (7, 18)])
def test_interpolate(mode, size, channels, device):
    rng = np.random.default_rng(0)
    x = volta.tensor(rng.standard_normal((2, channels, 7, 6), dtype=np.float32), device=device)
    g = volta.tensor(rng.standard_normal((2, channels, *size), dtype=np.float32), device=device)
    found = []
    for lay in (lambda x: x, last):
        t = lay(x).requires_grad_()
        with Tape() as tape:
            out = F.interpolate(t, size, mode=mode)
        found.append((out.detach(), *volta.autograd.grad(out, t, lay(g))))
    assert channels < 8 or "contiguous" not in tape.calls, "it was copied"
    assert all(by_pixels(x) for x in found[1][:1 if channels < 8 else 2])
    for a, b in zip(*found):
        np.testing.assert_allclose(a.cpu().numpy(), b.cpu().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [8, 21, 70])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "trilinear"])
@pytest.mark.parametrize("size", [(8, 10, 12), (2, 7, 3), (4, 5, 17), (9, 2, 6), (4, 15, 19)])
def test_interpolate_volumes(mode, size, channels, device):
    rng = np.random.default_rng(0)
    x = volta.tensor(rng.standard_normal((2, channels, 4, 5, 6), dtype=np.float32), device=device)
    g = volta.tensor(rng.standard_normal((2, channels, *size), dtype=np.float32), device=device)
    found, threads = [], volta.get_num_threads()
    try:
        for lay, count in ((lambda x: x, 1), (last, 1), (last, 3)):
            volta.set_num_threads(count)
            t = lay(x).requires_grad_()
            with Tape() as tape:
                out = F.interpolate(t, size, mode=mode)
            found.append((out.detach(), *volta.autograd.grad(out, t, lay(g))))
    finally:
        volta.set_num_threads(threads)
    assert "contiguous" not in tape.calls, "it was copied"
    assert all(by_pixels(x) for x in found[1])
    for a, b, c in zip(*(tuple(x.cpu().numpy() for x in each) for each in found)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        assert np.array_equal(b, c), "results depend on the number of threads"


@pytest.mark.parametrize("shape, size", [((2, 16, 33, 40), (66, 80)), ((1, 300, 30, 9), (71, 20)), ((2, 9, 40, 30), (17, 90)),
                                         ((70, 19, 1, 1), (13, 11))])
def test_lines_of_the_same_sources_are_copied(shape, size):
    """Also where a thread begins or ends in the middle of a line."""
    x = volta.tensor(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))
    want, threads = F.interpolate(x, size), volta.get_num_threads()
    try:
        for count in (1, 3, 7):
            volta.set_num_threads(count)
            assert np.array_equal(F.interpolate(last(x), size).numpy(), want.numpy())
    finally:
        volta.set_num_threads(threads)


@pytest.mark.parametrize("shape, groups", [((2, 24, 9, 7), 3), ((1, 8, 150, 5), 8), ((3, 800, 2, 3), 2), ((2, 16, 3, 4, 5), 4),
                                           ((2, 6, 5, 4), 2)])
def test_group_norm_as_images_lie(shape, groups, rng):
    """Few and many channels, several blocks of pixels, a mean far from 0; the results lie as the images do and are those of row-major ones,
    for any number of threads."""
    x, g = (volta.tensor(rng.standard_normal(shape).astype("f4") + far) for far in (50, 0))
    weight, bias = (volta.tensor(rng.standard_normal(shape[1]).astype("f4")) for _ in range(2))
    length, geometry = x.numel() // (shape[0] * groups), (groups, math.prod(shape[2:]), True)

    def results(x, g, arrived):
        out, *statistics = row_norm.KERNELS["row_norm"](x, weight, bias, length, *geometry, 1e-5)
        return out, *statistics, *row_norm.KERNELS["row_norm_grad"](g, x, weight, *statistics, arrived, length, *geometry, True)

    found, plain = results(last(x), last(g), g), results(x, g, g)
    for i, (y, true) in enumerate(zip(found, plain)):
        np.testing.assert_allclose(y.numpy(), true.numpy(), rtol=2e-4, atol=2e-4, err_msg=str(i))
    if shape[1] >= 8:                           # fewer channels are copied
        assert by_pixels(found[0]) and by_pixels(found[3])
    for mixed in (results(last(x), g, last(g)), results(x, last(g), g)):
        np.testing.assert_allclose(mixed[3].numpy(), plain[3].numpy(), rtol=2e-4, atol=2e-4)
    before = volta.get_num_threads()
    try:
        for count in (1, 2, 3):
            volta.set_num_threads(count)
            again = results(last(x), last(g), g)
            assert all(volta.equal(y, z) for y, z in zip(found, again)), "results depend on the number of threads"
    finally:
        volta.set_num_threads(before)
