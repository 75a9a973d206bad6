"""What the GPU finds without sorting: medians and k-th elements of few long lines, by their digits; different whole numbers, by a table."""
from __future__ import annotations

import numpy as np
import pytest

import volta
from volta import gpu

pytestmark = pytest.mark.gpu


def _lines(kind, shape):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape).astype(np.float32)
    if kind == "with NaN":
        x.reshape(-1)[[5, 90, 7000]] = np.nan
    others = {"ties": np.round(x), "integers": rng.integers(-3, 4, shape), "equal": np.zeros_like(x), "float16": x.astype(np.float16)}
    return others.get(kind, x)


@pytest.mark.parametrize("kind", ["numbers", "ties", "with NaN", "integers", "equal", "float16"])
@pytest.mark.parametrize("shape, dim", [((70000,), 0), ((3, 40001), 1), ((20000, 2), 0)])
def test_medians_of_few_long_lines(kind, shape, dim):
    """Of equal elements the one that a stable sort puts there."""
    x, n = _lines(kind, shape), shape[dim]
    t, order = volta.tensor(x, device="gpu"), np.argsort(x, axis=dim, kind="stable")
    numbers = np.count_nonzero(x == x, axis=dim)
    places = {"median": np.where(numbers == n, (n - 1) // 2, numbers), "nanmedian": (numbers - 1) // 2}
    for name, place in places.items():
        found = getattr(volta, name)(t, dim)
        want = np.take_along_axis(order, np.expand_dims(place, dim), dim)
        np.testing.assert_array_equal(found.indices.numpy(), want.squeeze(dim))
        np.testing.assert_array_equal(found.values.numpy(), np.take_along_axis(x, want, dim).squeeze(dim))
    found = volta.kthvalue(t, 1234, dim)
    np.testing.assert_array_equal(found.indices.numpy(), np.take(order, 1233, dim))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool", "int16"])
@pytest.mark.parametrize("low, high, n", [(0, 1000, 5000), (-50, 70, 10), (-5000, 900, 100), (100000, 101000, 7000), (7, 8, 1)])
def test_unique_of_numbers_that_lie_close_together(low, high, n, dtype):
    x = np.random.default_rng(4).integers(low, high, n).astype(dtype)
    found = volta.unique(volta.tensor(x, device="gpu"))
    assert found.dtype is getattr(volta, dtype)
    assert found.tolist() == np.unique(x).tolist()


def test_unique_of_numbers_whose_range_is_not_known():
    x = np.random.default_rng(5).integers(-9, 9, 5000)
    t = volta.tensor(x, device="gpu") + 1
    assert volta.unique(t).tolist() == np.unique(x + 1).tolist()
    before = gpu.stats()
    assert volta.unique(volta.tensor([1 << 30, -5], device="gpu")).tolist() == [-5, 1 << 30]      # too far apart for a table
    assert (gpu.stats() - before).dispatches > 0


@pytest.mark.parametrize("kind", ["numbers", "ties", "with NaN", "integers", "float16"])
@pytest.mark.parametrize("shape", [(8193,), (65536,), (300001,), (3, 20000), (5, 66000)])
def test_sorts_of_long_lines(kind, shape):
    """By runs that are put together, and by their digits: stable both."""
    x = _lines(kind, shape)
    if kind == "with NaN":
        x.reshape(-1)[::55], x.reshape(-1)[::65] = -0.0, 0.0
    values, places = volta.sort(volta.tensor(x, device="gpu"), dim=-1)
    want = np.argsort(x, axis=-1, kind="stable")
    np.testing.assert_array_equal(places.numpy(), want)
    found, want_values = values.numpy(), np.take_along_axis(x, want, -1)
    np.testing.assert_array_equal(found, want_values)
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(want_values[want_values == 0]))
    found = volta.topk(volta.tensor(x, device="gpu"), shape[-1] // 2, largest=False)
    np.testing.assert_array_equal(found.indices.numpy(), want[..., :shape[-1] // 2])
