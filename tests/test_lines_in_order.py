"""What is read off lines in order: medians of lines of any length, booleans sorted and told apart."""
from __future__ import annotations

import numpy as np
import pytest

import volta


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [300, 1500, 5000, 40000, 100000])
def test_medians_of_long_lines(n, dtype):
    rng = np.random.default_rng(n)
    lines = [rng.standard_normal(n), np.sort(rng.standard_normal(n)), rng.integers(0, 3, n), np.zeros(n),
             np.where(rng.random(n) < 0.3, np.nan, rng.random(n)), np.where(np.arange(n) % 64 == 0, 1e9, rng.random(n))]
    for line in lines:
        x = line.astype(dtype)
        for name, order, place in (("median", np.sort(x), (n - 1) // 2), ("nanmedian", np.sort(x[x == x]), ((x == x).sum() - 1) // 2)):
            want = np.nan if name == "median" and np.isnan(x).any() else order[place]
            np.testing.assert_equal(getattr(volta, name)(volta.tensor(x)).numpy(), want)
        both = volta.tensor(np.stack([x, x[::-1]], 1))
        values, indices = volta.kthvalue(both, n // 3, 0)
        np.testing.assert_equal(values.numpy(), np.sort(x)[[n // 3 - 1] * 2])
        np.testing.assert_equal(np.take_along_axis(both.numpy(), indices.numpy()[None], 0)[0], values.numpy())


def test_booleans_in_order_and_what_differs_among_them():
    rng = np.random.default_rng(0)
    x = rng.random((5, 7, 70)) < 0.4
    for dim in range(3):
        for descending in (False, True):
            values, indices = volta.sort(volta.tensor(x), dim, descending)
            want = np.argsort(x != descending, dim, kind="stable")
            np.testing.assert_equal(indices.numpy(), want)
            np.testing.assert_equal(values.numpy(), np.take_along_axis(x, want, dim))
    for flags in (x, np.zeros((2, 3), bool), np.ones(4, bool), np.array(True)):
        found = volta.unique(volta.tensor(flags), return_inverse=True, return_counts=True)
        wanted = np.unique(flags, return_inverse=True, return_counts=True)
        for a, b, shape in zip(found, wanted, (None, flags.shape, None)):
            np.testing.assert_equal(a.numpy(), b.reshape(shape) if shape is not None else b)


@pytest.mark.parametrize("descending", [False, True])
def test_booleans_of_other_bits_in_order(descending):
    """What shares the memory of others, or is new, may hold any bytes: all but 0 are True."""
    held = np.arange(256, dtype=np.uint8).reshape(4, 64) % 7 * 41
    values, indices = volta.sort(volta.from_numpy(held.view(bool)), dim=1, descending=descending, stable=True)
    order = np.argsort((held != 0) ^ descending, axis=1, kind="stable")
    assert indices.tolist() == order.tolist()
    assert values.tolist() == np.take_along_axis(held != 0, order, 1).tolist()


@pytest.mark.parametrize("dtype, most", [("uint8", 255), ("int8", 127), ("int16", 32767), ("int32", 20), ("int32", 2**31 - 1),
                                         ("int64", 2**24 + 1), ("int64", 2**50), ("int64", 2**63 - 1)])
def test_integers_at_a_place(dtype, most):
    """Exactly, whichever floats stand for them, the first of equal ones first."""
    rng = np.random.default_rng(most % 1000)
    for shape in ((20, 64), (3, 2000), (9, 9, 20)):
        x = rng.integers(0 if dtype == "uint8" else -most, most, shape, endpoint=True).astype(dtype)
        x[..., 3] = most
        for dim in range(len(shape)):
            order = np.argsort(x, dim, kind="stable")
            for k in (1, shape[dim] // 2, shape[dim]):
                values, indices = volta.kthvalue(volta.tensor(x), k, dim)
                np.testing.assert_equal(indices.numpy(), order.take(k - 1, dim))
                np.testing.assert_equal(values.numpy(), np.take_along_axis(x, order, dim).take(k - 1, dim))
                assert values.dtype is getattr(volta, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("n", [255, 256, 300, 1100])
def test_the_first_few_of_lines(n, dtype):
    """What bounds them is found first, which many equal elements, the greatest key and NaN must not mislead."""
    rng = np.random.default_rng(n)
    lines = [rng.standard_normal(n) * 50, rng.integers(0, 3, n), np.zeros(n), np.arange(n), -np.arange(n),
             np.where(np.arange(n) % 32, 0, 9)]
    if dtype.startswith("float"):
        lines += [np.full(n, np.nan), np.where(rng.random(n) < 0.9, np.nan, rng.random(n)), np.where(np.arange(n) < 9, 1.0, np.nan),
                  np.where(rng.random(n) < 0.5, np.inf, -np.inf)]
    else:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        lines = [np.abs(x) % 100 for x in lines] + [np.full(n, most), np.full(n, least), np.where(np.arange(n) < 9, least, most)]
    x = np.stack([line.astype(dtype) for line in lines])
    for largest in (False, True):
        keys = np.where(x == x, np.unique(x, return_inverse=True)[1].reshape(x.shape), x.size) * (-1 if largest else 1)
        want = np.argsort(keys, 1, kind="stable")
        for k in (1, 3, 8, 16, 17):
            for dim, given in ((1, x), (0, x.T.copy())):
                values, indices = (found.numpy() for found in volta.topk(volta.tensor(given), k, dim, largest))
                indices, values = (indices, values) if dim else (indices.T, values.T)
                np.testing.assert_equal(indices, want[:, :k])
                np.testing.assert_equal(values, np.take_along_axis(x, want[:, :k], 1))
