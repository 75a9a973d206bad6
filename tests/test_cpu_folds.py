"""Reductions on the CPU by every way through rows and columns, of lengths around those of vectors, beside NumPy's."""
import numpy as np
import pytest

import volta

_LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 257, 512, 513, 1030)


def _both(x):
    """The same elements row by row, and column by column."""
    return volta.tensor(x), volta.tensor(np.ascontiguousarray(x.T)).t()


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_extremes_and_sums_of_integers(dtype):
    random, limits = np.random.default_rng(0), np.iinfo(dtype)
    for n in _LENGTHS:
        x = random.integers(limits.min, limits.max, (5, n), dtype=dtype, endpoint=True)
        for given in _both(x):
            for dim in (0, 1):
                np.testing.assert_array_equal(given.amax(dim).numpy(), x.max(dim))
                np.testing.assert_array_equal(given.amin(dim).numpy(), x.min(dim))
                np.testing.assert_array_equal(given.sum(dim).numpy(), x.sum(dim, dtype=np.int64))
            assert given.amax().item() == x.max() and given.amin().item() == x.min()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_floats(dtype):
    random, near = np.random.default_rng(0), {"float32": 2e-7, "float64": 1e-12}[dtype]
    for n in _LENGTHS:
        x = (random.uniform(0.9, 1.1, (5, n)) * random.choice([-1.0, 1.0], (5, n))).astype(dtype)
        for given in _both(x):
            for dim in (0, 1):
                np.testing.assert_allclose(given.prod(dim).numpy(), x.prod(dim, dtype=np.float64), rtol=near)
        x[1, n // 2], x[2, n - 1], x[3, 0] = 0.0, np.nan, np.inf
        np.testing.assert_array_equal(np.isnan(volta.tensor(x).prod(1).numpy()), np.isnan(x.prod(1)))
        assert volta.tensor(x).prod(1)[1].item() == 0 and abs(volta.tensor(x).prod(1)[3].item()) == np.inf


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_rows_of_16_bits_are_those_of_float32_rounded_once(dtype):
    volta.manual_seed(0)
    dtype, threads = getattr(volta, dtype), volta.get_num_threads()
    try:
        for n in _LENGTHS:
            x = volta.randn(37, n).to(dtype)
            steps = volta.randn(37, 2 * n).to(dtype)[:, :n]
            for given in (x, x.t(), steps, steps[:, ::2] if n > 1 else steps):
                for name in ("sum", "mean", "amax", "amin"):
                    for dim in (0, 1):
                        for number in (1, 2):
                            volta.set_num_threads(number)
                            wide = getattr(given.float().contiguous(), name)(dim)
                            assert volta.equal(getattr(given, name)(dim), wide.to(dtype)), (name, n, dim)
    finally:
        volta.set_num_threads(threads)
