"""Matrix products of all layouts, in all the ways that their sizes lead to, beside NumPy's, and with any number of threads."""
import itertools

import numpy as np
import pytest

import volta

# batch, m, k, n: few rows, few columns, short and long k, columns interleaved in twos and threes, transposes in several strips.
SIZES = [(1, 1, 300, 70), (1, 70, 300, 1), (3, 40, 1, 2), (1, 150, 3, 3), (2, 3, 202, 2), (2, 7, 150, 2), (1, 2, 100, 9), (2, 300, 60, 2),
         (1, 300, 60, 3), (2, 130, 97, 12), (1, 140, 50, 4), (1, 601, 33, 5), (1, 97, 400, 35), (1, 260, 300, 40), (1, 700, 500, 130),
         (2, 12, 800, 30), (1, 36, 2100, 28), (3, 30, 57, 310), (1, 8, 300, 3600), (1, 40, 300, 3600), (2, 5, 8, 60), (1, 20, 16, 17),
         (3, 64, 64, 64), (1, 4, 200, 3100), (2, 3, 70, 112)]


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


def laid(rng, dtype, way, lead, rows, columns):
    """(array, tensor) of a batch of matrices that lie row by row, column by column, with gaps, or interleaved."""
    shape = {"n": (*lead, rows, columns), "t": (*lead, columns, rows), "s": (*lead, 2 * rows, 3 * columns),
             "b": (rows, *lead, columns)}[way]
    data = rng.integers(0, 250, shape).astype(dtype) if np.dtype(dtype).kind in "iu" else rng.standard_normal(shape).astype(dtype)
    x, rank = volta.from_numpy(data), len(lead)
    if way == "t":
        return data.swapaxes(-1, -2), x.transpose(-1, -2)
    if way == "s":
        return data[..., ::2, 1::3], x[..., ::2, 1::3]
    return (np.moveaxis(data, 0, -2), x.permute(*range(1, rank + 1), 0, rank + 1)) if way == "b" else (data, x)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "u1", "i1"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 3, 3), (2, 5, 1), (1, 4, 17), (16, 16, 16), (5, 33, 32), (33, 2, 9), (4, 300, 5),
                                   (130, 7, 3), (40, 300, 7)])
def test_batches_of_small_products_and_of_integers(dtype, sizes, restored_threads):
    rng = np.random.default_rng(sizes)
    m, k, n = sizes
    for ways in ("nn", "nt", "tn", "tt", "ss", "bb", "bt"):
        for left, right in (((), ()), ((7,), (7,)), ((3, 40), (1, 40)), ((40, 3), (40, 1)), ((2, 1, 3), (2, 2, 1))):
            a, x = laid(rng, dtype, ways[0], left, m, k)
            b, y = laid(rng, dtype, ways[1], right, k, n)
            volta.set_num_threads(1)
            one = volta.matmul(x, y).numpy()
            volta.set_num_threads(3)
            np.testing.assert_array_equal(volta.matmul(x, y).numpy(), one)
            if dtype[0] == "f":
                np.testing.assert_allclose(one, a.astype("f8") @ b.astype("f8"), 0, 1e-4 if dtype == "f4" else 1e-12)
            else:
                np.testing.assert_array_equal(one, a @ b)


@pytest.mark.parametrize("sizes", [(8, 8, 8), (9, 11, 17), (8, 33, 49), (13, 64, 16), (300, 20, 100), (70, 401, 95),
                                   (640, 30, 10), (12, 8, 300)])
@pytest.mark.parametrize("ways", ["nn", "nt", "tn", "tt", "ss", "bb", "bt"])
def test_products_of_bfloat16(sizes, ways, restored_threads):
    """Rows in eights, fours and ones, panels of one to three vectors, odd k; summed in float32, rounded once, for any number of threads."""
    rng = np.random.default_rng(sizes)
    m, k, n = sizes
    for left, right in (((), ()), ((7,), (7,)), ((3, 2), (1, 2)), ((2, 1), (1, 2))):
        a, b = (laid(rng, "f4", way, *size)[1].bfloat16() for way, size in zip(ways, ((left, m, k), (right, k, n))))
        x, y = (laid_again(t, way) for t, way in zip((a, b), ways))
        want = a.double().numpy() @ b.double().numpy()
        sizes_of_sums = abs(a.double().numpy()) @ abs(b.double().numpy())
        found = []
        for count in (1, 2, 3):
            volta.set_num_threads(count)
            found.append(volta.matmul(x, y))
        assert all(volta.equal(found[0], other) for other in found[1:])
        assert (abs(found[0].double().numpy() - want) <= abs(want) * 2.0**-8 + sizes_of_sums * 1e-6).all()
        if ways[0] != "b" and left == ():
            bias = volta.from_numpy(rng.standard_normal(n).astype("f4")).bfloat16()
            want = want + bias.double().numpy()
            out = volta.nn.functional.linear(x, y.mT, bias).double().numpy()
            assert (abs(out - want) <= abs(want) * 2.0**-8 + sizes_of_sums * 1e-6).all()


def laid_again(t, way):
    """t, laid as `laid` says, with NaN around it, which may have no part in results."""
    if way == "t":
        return t.mT.clone(memory_format=volta.contiguous_format).mT
    if way == "s":
        *lead, rows, columns = t.shape
        wide = volta.full((*lead, 2 * rows, 3 * columns), float("nan"), dtype=t.dtype)
        wide[..., ::2, 1::3] = t
        return wide[..., ::2, 1::3]
    if way == "b":
        return t.movedim(-2, 0).clone(memory_format=volta.contiguous_format).movedim(0, -2)
    *lead, rows, columns = t.shape
    wide = volta.full((*lead, rows + 1, columns + 2), float("nan"), dtype=t.dtype)
    wide[..., 1:, 1:-1] = t
    return wide[..., 1:, 1:-1]


def test_bfloat16_that_is_not_finite():
    x, y = volta.ones(9, 40, dtype=volta.bfloat16), volta.ones(40, 50, dtype=volta.bfloat16)
    x[0, 3], x[1, 4], x[2, 5], y[3, 7] = float("inf"), float("nan"), float("-inf"), 0
    x[3] = 3e38
    out = (x @ y).float()
    assert out[0, 0] == float("inf") and out[0, 7].isnan() and out[1].isnan().all() and out[2, 0] == float("-inf")
    assert out[3, 0] == float("inf") and (out[4:, :7] == 40).all()


def test_dimensions_in_lists_of_lists():
    x, y = volta.arange(24.0).reshape(2, 3, 4), volta.arange(12.0).reshape(4, 3)
    want = np.tensordot(x.numpy(), y.numpy(), ((1, 2), (1, 0)))
    for dims in (((1, 2), (1, 0)), [[1, 2], [1, 0]], ([1, -1], (np.int64(1), 0)), ((-2, 2), (1, 0))):
        np.testing.assert_array_equal(volta.tensordot(x, y, dims).numpy(), want)
    with pytest.raises(volta.errors.DTypeError, match="tensordot: dims must be an integer or sequences of integers"):
        volta.tensordot(x, y, ((1.5,), (0,)))
