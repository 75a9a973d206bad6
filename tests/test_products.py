"""Matrix products of all layouts, in all the ways that their sizes lead to, beside NumPy's, and with any number of threads."""
import itertools

import numpy as np
import pytest

import volta

# batch, m, k, n: few rows, few columns, short and long k, columns interleaved in twos and threes, transposes in several strips.
SIZES = [(1, 1, 300, 70), (1, 70, 300, 1), (3, 40, 1, 2), (1, 150, 3, 3), (2, 3, 202, 2), (2, 7, 150, 2), (1, 2, 100, 9), (2, 300, 60, 2),
         (1, 300, 60, 3), (2, 130, 97, 12), (1, 140, 50, 4), (1, 601, 33, 5), (1, 97, 400, 35), (1, 260, 300, 40), (1, 700, 500, 130),
         (2, 12, 800, 30), (1, 36, 2100, 28), (3, 30, 57, 310), (1, 8, 300, 3600), (1, 40, 300, 3600), (2, 5, 8, 60), (1, 20, 16, 17)]


@pytest.fixture
def restored_threads():
    before = volta.get_num_threads()
    yield
    volta.set_num_threads(before)


@pytest.mark.parametrize("dtype, scale", [("float32", 1e-6), ("float64", 1e-15)])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_products(layout, dtype, scale, rng, restored_threads):
    for (b, m, k, n), biased in itertools.product(SIZES, (False, True)):
        if biased and (b > 1 or layout[1] == "n"):
            continue
        x = rng.standard_normal((b, m, k) if layout[0] == "n" else (b, k, m)).astype(dtype)
        y = rng.standard_normal((b, k, n) if layout[1] == "n" else (b, n, k)).astype(dtype)
        bias = rng.standard_normal(n).astype(dtype)
        left, right = volta.from_numpy(x), volta.from_numpy(y)
        if layout[0] == "t":
            x, left = x.swapaxes(1, 2), left.mT
        if layout[1] == "t":
            y, right = y.swapaxes(1, 2), right.mT
        found = []
        for count in (1, 2, 3, 16):
            volta.set_num_threads(count)
            if biased:
                found.append(volta.nn.functional.linear(left[0], right[0].mT, volta.from_numpy(bias)).numpy())
            else:
                found.append((left @ right).numpy())
        expected = x.astype("float64") @ y.astype("float64") + (bias if biased else 0)
        # Errors of sums grow with the root of their length; factors are about 1.
        assert abs(found[0] - expected).max() < 8 * scale * np.sqrt(k + 1), (b, m, k, n, biased)
        assert all(np.array_equal(found[0], other) for other in found[1:]), (b, m, k, n, biased)
