"""Lines that CPU kernels read in vectors: their sums have one order on all instruction sets, and what a vector does not fill is
computed as the rest of the line is."""
import numpy as np
import pytest

import volta

LENGTHS = [*range(1, 81), 188, 257, 1000, 1023, 1024, 1031, 2100]


def in_lanes(x):
    """The sum of a line in 64 lanes over 1,024 elements, which are added in halves, the last four in double."""
    total = 0.0
    for start in range(0, len(x), 1024):
        block = x[start:start + 1024]
        i = len(block) // 64 * 64
        lanes = np.zeros((4, 16), np.float32)
        for some in block[:i].reshape(-1, 4, 16):
            lanes += some
        lanes = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
        for at in range(i, len(block), 16):
            lanes[:len(block) - at] += block[at:at + 16]
        lanes = lanes[:8] + lanes[8:]
        lanes = lanes[:4] + lanes[4:]
        total += float(lanes[0] + lanes[2]) + float(lanes[1] + lanes[3])
    return np.float32(total)


def test_sums_of_rows_have_one_order():
    """Whatever the width of the vectors."""
    for n in LENGTHS:
        x = (np.random.default_rng(n).standard_normal((3, n)) * 10.0 ** np.arange(n).clip(0, 6)).astype(np.float32)
        assert volta.sum(volta.tensor(x), 1).numpy().tolist() == [in_lanes(row) for row in x], n


def test_sums_of_columns_have_one_order():
    """16 rows one after the other, then in double, whatever the columns."""
    for n in (*range(1, 81), 100, 257):
        x = np.random.default_rng(n).standard_normal((40, n)).astype(np.float32)
        want = np.zeros(n)
        for start in range(0, 40, 16):
            few = x[start].copy()
            for row in x[start + 1:start + 16]:
                few += row
            want += few
        assert np.array_equal(volta.sum(volta.tensor(x), 0).numpy(), want.astype(np.float32)), n


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_extremes_are_found_anywhere(name, dtype):
    """Also where they are infinite, or NaN, which wins; along rows and columns, beside what is not theirs."""
    for n in (*range(1, 41), 70):
        x = np.random.default_rng(n).standard_normal((n, n)).astype(dtype)
        for value in (np.nan, 1e3 if name == "amax" else -1e3, np.inf, -np.inf):
            np.fill_diagonal(x, value)
            wide = np.full((n, n + 3), np.nan, dtype)
            wide[:, 1:n + 1] = x
            for dim in (0, 1):
                got = getattr(volta, name)(volta.tensor(wide)[:, 1:n + 1], dim).numpy()
                assert np.array_equal(got, getattr(np, name)(x, dim), equal_nan=True), (n, value, dim)


def test_softmax_is_the_same_in_the_rest_of_a_line():
    """Equal elements have equal results, each of which is as exact as elsewhere; -infinity gives 0, NaN and infinity NaN, of
    whose logarithms only the former is NaN."""
    for n in LENGTHS:
        x = np.full((2, n), -1.375, np.float32)
        x[:, n // 2] = 2.25
        x[1] = np.random.default_rng(n).uniform(-30, 30, n)
        exact = np.exp(x - x.max(1, keepdims=True), dtype=np.float64)
        for dim, t in ((1, volta.tensor(x)), (0, volta.tensor(np.ascontiguousarray(x.T)))):
            got = volta.softmax(t, dim).numpy() if dim else volta.softmax(t, dim).numpy().T
            assert len(set(np.delete(got[0], n // 2).tolist())) <= 1, n
            added = 0 if dim else n * 6e-8          # columns are summed one after the other
            np.testing.assert_allclose(got, exact / exact.sum(1, keepdims=True), rtol=6e-7 + added)
            got = volta.logsumexp(t, dim).numpy()
            np.testing.assert_allclose(got, x.max(1) + np.log(exact.sum(1)), rtol=3e-7, atol=3e-7 + added)
    for n in range(2, 40):
        x = np.zeros((3, n), np.float32)
        x[0, n - 1], x[1, n - 1], x[2, n - 1] = -np.inf, np.inf, np.nan
        assert np.array_equal(volta.logsumexp(volta.tensor(x[1:]), 1).numpy(), [np.inf, np.nan], equal_nan=True), n
        got = volta.softmax(volta.tensor(x), 1).numpy()
        assert got[0, n - 1] == 0 and np.allclose(got[0, :-1], 1 / (n - 1)) and np.isnan(got[1, n - 1]) and np.isnan(got[2]).all(), n


def test_log_softmax_gradient_of_columns():
    """Of any number of neighbouring columns, also past a block of them."""
    for n in (1, 5, 8, 13, 100, 131):
        x, g = np.random.default_rng(n).standard_normal((2, 9, n)).astype(np.float32)
        t = volta.tensor(x, requires_grad=True)
        volta.log_softmax(t, 0).backward(volta.tensor(g))
        p = np.exp(x.astype(np.float64))
        np.testing.assert_allclose(t.grad.numpy(), g - p / p.sum(0) * g.sum(0, dtype=np.float64), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("n", [31, 32, 47, 48, 63, 1000, 5000])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans_of_long_lines_are_of_one_after_the_other(name, n):
    """In double: results differ from those by no more than rounding, also where products leave the range of doubles, or come back."""
    of = getattr(np, name)
    rng = np.random.default_rng(n)
    lines = [rng.standard_normal(n), 10.0 ** rng.uniform(-12, 12, n), 10.0 ** rng.choice([-38, 38], n), rng.uniform(0.9, 1.1, n),
             np.where(np.arange(n) < n // 2, 1e-30, 1e30), np.where(np.arange(n) < n // 2, 1e30, 1e-30)]
    for value in (0.0, -0.0, np.inf, -np.inf, np.nan):
        for at in {0, 3, 17, n - 1}:
            lines.append(rng.uniform(0.5, 1.5, n))
            lines[-1][at] = value
    lines.append(lines[0].copy())
    lines[-1][[5, 20]] = np.inf, 0
    x = np.array(lines).astype(np.float32)
    with np.errstate(all="ignore"):
        want = of(x.astype(np.float64), 1).astype(np.float32)
    got = getattr(volta, name)(volta.tensor(x), 1).numpy()
    assert np.array_equal(np.isnan(got), np.isnan(want))
    got, want = got[~np.isnan(want)], want[~np.isnan(want)]
    assert np.array_equal(np.signbit(got), np.signbit(want)) or name == "cumsum"
    if name == "cumprod":
        np.testing.assert_array_max_ulp(got, want, maxulp=1)
    else:
        np.testing.assert_allclose(got, want, rtol=2e-7, atol=1e-9)
