"""Convolutions whose sizes lead to ways of their own on a CPU, against sums of products by taps: windows that lie mostly outside the input,
windows of one element some steps apart, lines that would lie in few places of a cache."""
from __future__ import annotations

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta._kernels.core import threads

CASES = {  # images, channels, outputs, kernel, size, stride, padding, dilation, groups
    "a pixel of several images": (9, 20, 33, (7, 7), (4, 5), 1, 3, 1, 1),
    "rows of few images": (2, 20, 33, (7, 7), (4, 5), 1, 3, 1, 1),
    "a volume": (8, 6, 50, (5, 5, 3), (4, 3, 4), 1, (4, 4, 2), 2, 1),
    "one volume, groups": (1, 24, 48, (3, 5, 7), (3, 3, 5), 1, (1, 2, 3), 1, 2),
    "strides": (12, 9, 20, (5, 7), (6, 5), (2, 3), (2, 3), 1, 1),
    "few outputs": (10, 40, 3, (7, 7), (5, 5), 1, 3, 1, 1),
    "more channels than a sum has": (5, 330, 17, (3, 5), (2, 3), 1, (1, 2), 1, 1),
    "the whole input but for a border": (8, 30, 40, (6, 6), (8, 8), 1, 0, 1, 1),
    "taps between phases": (9, 8, 24, (7, 7), (9, 8), 3, 0, 1, 1),
    "one element": (3, 20, 30, (1, 1), (7, 8), 3, 0, 1, 1),
    "one element of volumes, groups": (2, 8, 12, (1, 1, 1), (4, 5, 6), (2, 1, 3), 0, 1, 2),
    "channels a multiple of 4 KiB apart": (2, 24, 12, (5,), (1020,), 1, 2, 1, 1),
    "the same by strides": (2, 24, 12, (7,), (3066,), 3, 3, 1, 1),
    "strides of 4, no padding": (2, 9, 20, (4, 4), (13, 64), 4, 0, 1, 1),
    "the same with elements left over": (2, 5, 20, (3, 6), (11, 71), (2, 4), 0, 1, 1),
    "groups, rows of two vectors": (3, 16, 16, (3, 3), (9, 30), 1, 1, 1, 2),
    "more padding than a vector": (2, 8, 10, (3, 40), (7, 25), 1, (1, 20), 1, 1),
    "rows whose ends no window sees": (2, 8, 9, (3, 2), (8, 35), 1, (2, 0), (1, 3), 1),
    "images with such channels": (1, 9, 12, (3, 3), (6, 254), 1, 1, 1, 1),
    "neighbours of each channel": (2, 21, 21, (3, 5), (6, 19), (2, 1), (1, 2), 1, 21),
    "several outputs of neighbours": (1, 16, 32, (7, 7), (9, 7), 1, (3, 4), (2, 1), 16),
    "rows of which some tiles see no tap": (1, 24, 20, (3, 3), (13, 29), 1, 12, 12, 1),
    "such rows of several images": (3, 32, 20, (3, 3), (7, 11), 1, 6, 6, 1),
    "planes": (3, 12, 33, (1, 1), (9, 8), 1, 0, 1, 1),
    "planes of one volume": (1, 21, 30, (1, 1, 1), (3, 4, 5), 1, 0, 1, 1),
    "small planes of many channels": (9, 150, 230, (1, 1), (3, 5), 1, 0, 1, 1),
    "volumes of few slices": (2, 3, 16, (7, 7, 7), (8, 12, 32), 1, 3, 1, 1),
    "the same by strides, pixel by pixel": (2, 3, 32, (3, 7, 7), (5, 21, 26), (1, 2, 2), (1, 3, 3), 1, 1),
    "volumes of many channels": (2, 16, 24, (3, 3, 3), (4, 9, 28), 1, 1, 1, 1),
    "volumes whose rows are short": (3, 4, 12, (3, 5, 3), (4, 6, 5), 1, (1, 2, 1), 1, 2),
    "images below a border of more than a window": (2, 6, 20, (5, 3), (9, 30), 1, (7, 1), 1, 1),
    "windows of one column some steps apart": (3, 10, 6, (7, 3, 1), (12, 12, 15), (2, 1, 3), (2, 0, 4), 1, 2),
}


def spread(value, dims):
    return value if isinstance(value, tuple) else (value,) * dims


def seen_by_tap(tap, places, stride, dilation):
    return (..., *(slice(k * d, k * d + (m - 1) * s + 1, s) for k, d, m, s in zip(tap, dilation, places, stride)))


def by_taps(x, w, g, stride, padding, dilation, groups):
    """(output, gradient of the input) in float64; `g` makes the incoming gradient of an output's shape."""
    x, w = x.astype("f8"), w.astype("f8").reshape(groups, -1, *w.shape[1:])
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    places = tuple((n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(padded.shape[2:], w.shape[3:], dilation, stride))
    out = np.zeros((len(x), groups, w.shape[1], *places))
    for tap in np.ndindex(w.shape[3:]):
        seen = padded[seen_by_tap(tap, places, stride, dilation)].reshape(len(x), groups, -1, *places)
        out += np.einsum("ngc...,goc->ngo...", seen, w[(..., *tap)])
    g, grad = g(out.reshape(len(x), -1, *places).shape), np.zeros_like(padded)
    for tap in np.ndindex(w.shape[3:]):
        part = np.einsum("ngo...,goc->ngc...", g.reshape(out.shape), w[(..., *tap)])
        grad[seen_by_tap(tap, places, stride, dilation)] += part.reshape(len(x), -1, *places)
    return out.reshape(g.shape), g, grad[(..., *(slice(p, p + n) for p, n in zip(padding, x.shape[2:])))]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("case", CASES)
def test_ways_of_small_images(case, dtype):
    n, c, o, kernel, size, *window, groups = CASES[case]
    window = [spread(value, len(kernel)) for value in window]
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((n, c, *size)), rng.standard_normal((o, c // groups, *kernel))
    x, w, bias = x.astype(dtype), w.astype(dtype), rng.standard_normal(o).astype(dtype)
    want, g, want_grad = by_taps(x, w, lambda shape: rng.standard_normal(shape).astype(dtype), *window, groups)
    scale, results = 3e-6 if dtype == "f4" else 1e-14, []
    threads = volta.get_num_threads()
    try:
        for count in (1, 2, 5):
            volta.set_num_threads(count)
            t = volta.tensor(x, requires_grad=True)
            out = getattr(F, f"conv{len(kernel)}d")(t, volta.tensor(w), volta.tensor(bias), *window, groups)
            grad, = volta.autograd.grad(out, t, volta.tensor(g))
            results.append((out.detach().numpy(), grad.numpy()))
    finally:
        volta.set_num_threads(threads)
    got, got_grad = results[0]
    assert abs(got - bias.reshape(-1, *[1] * len(kernel)) - want).max() <= scale * abs(want).max()
    assert abs(got_grad - want_grad).max() <= scale * abs(want_grad).max()
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other)), "results depend on the number of threads"


@pytest.mark.parametrize("sizes", [((2, 3, 6, 9, 32), (16, 3, 7, 7, 7), 3), ((2, 16, 4, 9, 28), (24, 16, 3, 3, 3), 1)], ids=str)
def test_what_is_left_out_of_sums(sizes):
    """What windows do not see changes nothing but beside weights that are not finite, whatever the threads."""
    x_shape, w_shape, padding = sizes
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("f") for s in (x_shape, w_shape))
    bytes_found = set()
    threads.assume_processors(5)
    before = volta.get_num_threads()
    try:
        for count in (1, 2, 3, 5):
            volta.set_num_threads(count)
            bytes_found.add(F.conv3d(volta.tensor(x), volta.tensor(w), padding=padding).numpy().tobytes())
    finally:
        threads.assume_processors(0)
        volta.set_num_threads(before)
    assert len(bytes_found) == 1
    w[0, 0, 0, 0, 0] = np.inf
    out = F.conv3d(volta.tensor(np.abs(x)), volta.tensor(w), padding=padding)
    assert out[:, 0, 0].isnan().all() and out[:, 0, -1, -1, -1].isinf().all() and out[:, 1:].isfinite().all()
