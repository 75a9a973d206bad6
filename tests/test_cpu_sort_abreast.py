"""Short lines, which the CPU sorts several at once by a network, and medians of integers, against NumPy."""
import numpy as np
import pytest

import volta
from volta._kernels.core.call import run_kernel
from volta.ops.records.sort import middle_op, order, sort_op

DTYPES = ["float32", "float64", "int64", "int32", "uint8"]


def lines(dtype, shape, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 9, shape)
    if dtype.startswith("float"):
        x = x - 4.0
        x = np.where(x == 3, np.nan, np.where(x == 2, -0.0, x))
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, dim", [((9, 64), 1), ((64, 7), 0), ((4, 33), 1), ((3, 5, 6), 1), ((130, 2), 1), ((17, 128), 1),
                                        ((9, 1), 1), ((3, 700), 1), ((600, 2), 0)])
@pytest.mark.parametrize("descending", [False, True])
def test_stable_orders(dtype, shape, dim, descending):
    x = lines(dtype, shape)
    for count in (None, 1, shape[dim] // 2):
        values, indices = run_kernel(sort_op, volta.device("cpu"), (volta.tensor(x),),
                                     {"dim": dim, "descending": descending, "count": count})
        expected = np.take(order(x, dim, descending), np.arange(shape[dim] if count is None else count), dim)
        np.testing.assert_array_equal(indices.numpy(), expected)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, dim))


def test_wide_integers_are_no_near_ones():
    x = np.random.default_rng(1).integers(-(1 << 62), 1 << 62, (8, 40))
    x[:, 5] = x[:, 9]
    np.testing.assert_array_equal(volta.sort(volta.tensor(x), 1, stable=True).indices.numpy(), np.argsort(x, 1, kind="stable"))
    for high in (1 << 8, 1 << 15, 1 << 17, 1 << 31):         # keys of one to four bytes
        line = np.random.default_rng(high).integers(-high, high, 5000)
        for dtype in ("int64", "int32"):
            for some in (line, line[:600]):
                y = np.clip(some, -(1 << 31), (1 << 31) - 1).astype(dtype)
                found = volta.sort(volta.tensor(y), stable=True)
                np.testing.assert_array_equal(found.indices.numpy(), np.argsort(y, kind="stable"))
                np.testing.assert_array_equal(volta.topk(volta.tensor(y), 70)[0].numpy(), np.sort(y)[::-1][:70])


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int16", "int8"])
@pytest.mark.parametrize("shape, dim", [((5, 33), 1), ((40, 6), 0), ((700,), 0), ((2, 3000), 1)])
def test_medians_of_integers(dtype, shape, dim):
    x = np.random.default_rng(2).integers(0, 100, shape).astype(dtype)
    for place in (None, 0, shape[dim] - 1):
        values, indices = middle_op(volta.tensor(x), dim=dim, place=place)
        expected = np.take(order(x, dim), [(shape[dim] - 1) // 2 if place is None else place], dim)
        np.testing.assert_array_equal(indices.numpy(), expected)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, dim))
    assert volta.median(volta.tensor(x)).item() == np.sort(x, None)[(x.size - 1) // 2]


def test_medians_at_the_ends_of_integers():
    for dtype in (np.int64, np.int32):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = np.array([[high, low, 0, high, high], [low, low, 1, high, low]] * 4, dtype)
        found = volta.median(volta.tensor(x), 1)
        assert found.values.tolist() == [high, low] * 4 and found.indices.tolist() == [0, 4] * 4
        assert volta.nanmedian(volta.tensor(x)).item() == np.sort(x, None)[19]


@pytest.mark.parametrize("n", [17, 64, 65, 300, 513, 1000, 5000])
def test_wide_keys_that_share_their_upper_bits(n):
    random = np.random.default_rng(n)
    near = random.permutation(n) * 1e-15 + 1.0                  # some of which differ in the last bits alone
    far = near.copy()
    far[n // 2] = 1e300                                         # beside which all others look alike
    few = random.integers(0, 3, n).astype(np.float64)
    none = np.where(random.random(n) < 0.2, np.nan, random.standard_normal(n))
    close = random.integers(0, n, n)
    wide = random.integers(-2**63, 2**63 - 1, n)
    for x in (near, far, few, none, close, wide, np.full(n, -0.0)):
        order = np.argsort(x, kind="stable")
        found = volta.sort(volta.tensor(x), stable=True)
        np.testing.assert_array_equal(found.indices.numpy(), order)
        np.testing.assert_array_equal(found.values.numpy(), x[order])


@pytest.mark.parametrize("dtype", ("float32", "float64", "int64", "int32", "uint8"))
def test_the_first_few(dtype):
    """They are those that a stable order begins with, of lines along either dimension; a NaN is the greatest."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 31, 32, 33, 64, 65, 100, 513, 3000):
        for high in (4, 200):
            x = rng.integers(0, high, (7, n)).astype(dtype)
            if dtype[0] == "f":
                x[3, n // 2] = np.nan
            y = volta.tensor(x)
            for largest in (True, False):
                ordered, places = volta.sort(y, 1, descending=largest, stable=True)
                for k in {0, 1, *(min(n, k) for k in (5, 64, 65, 100, n))}:
                    values, indices = volta.topk(y, k, 1, largest)
                    np.testing.assert_array_equal(values.numpy(), ordered.numpy()[:, :k])
                    np.testing.assert_array_equal(indices.numpy(), places.numpy()[:, :k])
                    np.testing.assert_array_equal(volta.topk(y.t(), k, 0, largest)[1].numpy(), indices.numpy().T)
