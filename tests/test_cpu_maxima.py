"""Maxima of windows that need no gradient: by vectors of windows, the last of which may overlap, by rows of a window, one by one."""
from __future__ import annotations

import numpy as np
import pytest

import volta
import volta.nn.functional as F


def largest(x, kernel, stride, padding):
    """Over the last dimension; a NaN wins, of zeros the first one's sign stays, padding never wins."""
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(padding, padding)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, -1)[..., ::stride, :]
    top = windows[..., 0].copy()
    for k in range(1, kernel):
        v = windows[..., k]
        top = np.where((v > top) | np.isnan(v), v, top)
    return top


SHAPES = [(3, 1, 1), (5, 1, 2), (2, 1, 0), (4, 4, 0), (4, 4, 1), (3, 2, 1), (9, 1, 4), (7, 3, 2)]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kernel, stride, padding", SHAPES)
def test_lines(kernel, stride, padding, dtype):
    rng = np.random.default_rng(0)
    for size in (9, 10, 15, 16, 17, 35, 41, 64, 67, 300):
        x = rng.standard_normal((2, 3, size)).astype(dtype)
        x[0, 0, rng.integers(0, size, 3)] = np.nan, np.inf, -np.inf
        x[1, 1] = np.where(rng.integers(0, 2, size), 0.0, -0.0)
        x[1, 2] = -np.inf
        got, want = F.max_pool1d(volta.tensor(x), kernel, stride, padding).numpy(), largest(x, kernel, stride, padding)
        assert np.array_equal(got, want, equal_nan=True) and np.array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("size", [(3, 8), (5, 9), (20, 33)])
def test_images(size):
    x = np.random.default_rng(0).standard_normal((2, 5, *size), dtype=np.float32)
    x[1, 2, 1, 3] = np.nan
    rows = largest(np.swapaxes(largest(x, 3, 1, 1), 2, 3), 3, 1, 1)
    assert np.array_equal(F.max_pool2d(volta.tensor(x), 3, 1, 1).numpy(), np.swapaxes(rows, 2, 3), equal_nan=True)
