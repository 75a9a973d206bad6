"""What takes one step where few elements lie on the host gives what the steps give: elements put and filled by a mask, histograms,
different elements, samples by weights, views of any strides, sums of short rows, counted numbers."""
from __future__ import annotations

import math

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, AutogradError, ShapeError

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "uint8", "bool"]


def made(shape, dtype, seed=0):
    x = np.random.default_rng(seed).integers(0, 100, shape)
    return (x % 2 if dtype == "bool" else x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_put_by_a_mask(dtype):
    rng = np.random.default_rng(0)
    for n in (0, 1, 7, 8, 9, 63, 1000):
        for share in (0, 0.1, 0.5, 1):
            mask, x, source = rng.random(n) < share, made(n, dtype), made(n + 3, dtype, 1)
            want = x.copy()
            want[mask] = source[:mask.sum()]
            t, m = volta.tensor(x), volta.tensor(mask)
            for given in (source, source[:mask.sum()]):         # as many as are needed, too
                assert volta.masked_scatter(t, m, volta.tensor(given)).tolist() == want.tolist()
            assert t.tolist() == x.tolist()
            wide = volta.tensor(np.stack([x, x], 1))
            assert wide[:, 1].masked_scatter_(m, volta.tensor(source)).tolist() == want.tolist()
            assert wide[:, 0].tolist() == x.tolist()
            assert t.masked_scatter_(m, volta.tensor(source)) is t and t.tolist() == want.tolist()


def test_too_few_elements_are_refused_before_any_is_written():
    x, mask = volta.zeros(4), volta.tensor([True, False, True, True])
    for call in (x.masked_scatter_, x.masked_scatter):
        with pytest.raises(ShapeError, match="masked_scatter_?: the mask holds 3 times, but source has 2 elements"):
            call(mask, volta.ones(2))
    assert x.tolist() == [0, 0, 0, 0]
    assert x.masked_scatter_(mask, x + 1) is x and x.tolist() == [1, 0, 1, 1]
    assert x.masked_scatter_(mask, x).tolist() == [1, 0, 0, 1]                # from itself


def test_what_is_put_by_a_mask_counts_as_a_change():
    w = volta.ones(3, requires_grad=True)
    x = volta.ones(3)
    y = (w * x).sum()
    x.masked_scatter_(volta.tensor([True, False, False]), volta.zeros(1))
    with pytest.raises(AutogradError, match="changed in place"):
        y.backward()
    with pytest.raises(AutogradError, match="masked_scatter_"):
        volta.ones(1).expand(3).masked_scatter_(volta.tensor([True, False, False]), volta.zeros(1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_filled_in_by_a_mask(dtype):
    x, mask = made((5, 7), dtype), made((5, 7), "bool", 3)
    number = 1 if dtype == "bool" else 42
    want = np.where(mask, np.asarray(number, dtype), x)
    ways = [volta.tensor(x).masked_fill_(volta.tensor(mask), number), volta.tensor(x).masked_fill(volta.tensor(mask), number)]
    for way in (volta.tensor(x), volta.tensor(x.T.copy()).t(), volta.tensor(np.stack([x, x], 2))[..., 1]):
        way[volta.tensor(mask)] = number
        ways.append(way)
    row = volta.tensor(x)
    row[volta.tensor(mask)] = volta.tensor(number, dtype=row.dtype)
    for way in (*ways, row):
        assert way.tolist() == want.tolist() and str(way.dtype) == "volta." + dtype


def test_numbers_that_integers_do_not_hold():
    mask, index = volta.tensor([True, False]), volta.tensor([1])
    for dtype, number in ((volta.int64, 1 << 63), (volta.int32, 1 << 31), (volta.uint8, 256), (volta.int8, -129)):
        with pytest.raises(ArgumentError):
            volta.zeros(2, dtype=dtype).masked_fill_(mask, number)
    assert volta.zeros(2, dtype=volta.int64).masked_fill_(mask, (1 << 62) + 1).tolist() == [(1 << 62) + 1, 0]
    x = volta.zeros(2)
    for call in (lambda: x.masked_fill_(mask, 1e300), lambda: x.scatter_(0, index, 1e300), lambda: x.__setitem__(index, 1e300),
                 lambda: x.__setitem__(mask, 1e300)):
        with pytest.raises(ArgumentError):
            call()
    assert x.tolist() == [0, 0]
    x = volta.zeros(2, dtype=volta.int64)
    x[mask] = (1 << 62) + 1
    assert x.tolist() == [(1 << 62) + 1, 0]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_one_number_scattered(dtype):
    x, index = made((4, 6), dtype), np.random.default_rng(0).integers(0, 6, (3, 5))
    want = x.copy()
    np.put_along_axis(want[:3], index, 7, 1)
    t, i = volta.tensor(x), volta.tensor(index)
    assert t.scatter(1, i, 7).tolist() == t.scatter_(1, i, 7).tolist() == want.tolist()
    assert volta.tensor(x).scatter_(1, i, value=7).tolist() == want.tolist()
    with pytest.raises(ArgumentError, match="either src or value"):
        t.scatter_(1, i, 7, value=8)


def test_strided_views():
    x = volta.arange(12.0)
    for size, stride, offset in (((3, 4), (4, 1), 0), ((2, 5), (0, 1), 7), ((12,), (1,), 0), ((2, 2), (11, 0), 0), ((), (), 11),
                                 ((0, 3), (1, 1), 2)):
        want = np.lib.stride_tricks.as_strided(x.numpy()[offset:], size, [4 * s for s in stride])
        for form in (tuple, list):
            assert x.as_strided(form(size), form(stride), offset).tolist() == want.tolist()
    for size, stride, offset in (((3, 4), (4, 2), 0), ((13,), (1,), 0), ((1,), (1,), 12), ((2,), (-1,), 3), ((1 << 40, 1 << 40), (1, 1), 0),
                                 ((2,), (1 << 62,), 0), ((2, 2), (1,), 0), ((1,), (1,), -1), ((-1,), (1,), 0)):
        for form in (tuple, list):
            with pytest.raises((ArgumentError, ShapeError)):
                x.as_strided(form(size), form(stride), offset)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_different_elements_with_what_is_asked_for(dtype):
    for n in (1, 2, 100, 3000):
        x = made((n, 2), dtype)
        values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
        t = volta.tensor(x)
        got = t.unique(return_inverse=True, return_counts=True)
        assert [y.tolist() for y in got] == [values.tolist(), inverse.reshape(x.shape).tolist(), counts.tolist()]
        assert t.unique().tolist() == values.tolist()
        assert [y.tolist() for y in t.unique(return_counts=True)] == [values.tolist(), counts.tolist()]
        assert [y.tolist() for y in t.unique(return_inverse=True)] == [values.tolist(), inverse.reshape(x.shape).tolist()]


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_runs_and_their_lengths(dtype):
    for n in (1, 2, 50, 1000):
        x = np.repeat(made(n, dtype), np.random.default_rng(1).integers(1, 4, n))
        starts = np.flatnonzero(np.r_[True, x[1:] != x[:-1]])
        counts, inverse = np.diff(np.r_[starts, len(x)]), np.cumsum(np.r_[False, x[1:] != x[:-1]])
        got = volta.tensor(x).unique_consecutive(return_inverse=True, return_counts=True)
        assert [y.tolist() for y in got] == [x[starts].tolist(), inverse.tolist(), counts.tolist()]
        assert [y.tolist() for y in volta.tensor(x).unique_consecutive(return_counts=True)] == [x[starts].tolist(), counts.tolist()]


def test_different_elements_that_are_not_numbers_or_zeros():
    x = [math.nan, 0.0, -0.0, 1.0, math.nan, math.inf]
    for given in (volta.tensor(x), volta.tensor(x, requires_grad=True)):          # by both ways
        values, inverse, counts = given.unique(return_inverse=True, return_counts=True)
        assert str(values.tolist()) == "[0.0, 1.0, inf, nan, nan]" and counts.tolist() == [2, 1, 1, 1, 1]
        assert inverse.tolist()[1:4] == [0, 0, 1] and sorted(inverse.tolist()) == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 100, 5000])
def test_histograms(n, dtype):
    x = volta.tensor(np.random.default_rng(0).integers(-40, 40, n).astype(dtype) / 8)
    ones = volta.ones_like(x)
    edges = volta.tensor(np.array([-3.0, -1.0, -1.0, 0.5, 2.0], dtype))
    for bins in (1, 3, 10, 100):
        for range in (None, (-2.0, 2.0), (0.0, 0.1), (1.0, 1.0), (1.0, 1.0 + 1e-12)):
            for density in (False, True):
                got, want = (x.histogram(bins, range=range, density=density, weight=w) for w in (None, ones))        # with weights by steps
                np.testing.assert_array_equal(got.hist.numpy(), want.hist.numpy())
                assert got.bin_edges.tolist() == want.bin_edges.tolist() and got.hist.dtype is got.bin_edges.dtype is x.dtype
    got, want = (x.histogram(edges, weight=w) for w in (None, ones))
    assert got.hist.tolist() == want.hist.tolist() and got.bin_edges.tolist() == edges.tolist()
    got.bin_edges.zero_()
    assert edges.tolist() == [-3.0, -1.0, -1.0, 0.5, 2.0]


def test_histograms_of_what_is_not_finite():
    x = volta.tensor([math.nan, math.inf, -math.inf, 0.5, 1.0])
    assert x.histogram(2, range=(0.0, 1.0)).hist.tolist() == [0, 2]
    for given in (x, x[:1], x[1:]):
        with pytest.raises(ArgumentError, match="not all finite"):
            given.histogram(2)
    with pytest.raises(ArgumentError, match="bins must be at least 1"):
        volta.ones(3).histogram(0)
    with pytest.raises(ArgumentError, match="range must be two numbers in order"):
        volta.ones(3).histogram(2, range=(1.0, 0.0))


def test_samples_by_weights_are_those_of_rows():
    for n in (1, 5, 1000):
        weights = volta.tensor(np.random.default_rng(0).random(n), dtype=volta.float32)
        drawn = []
        for given in (weights, weights[None]):
            volta.manual_seed(5)
            drawn.append(volta.multinomial(given, 300, True).reshape(-1).tolist())
        assert drawn[0] == drawn[1] and 0 <= min(drawn[0]) and max(drawn[0]) < n
    for wrong in ([0.0, 0.0], [-1.0, 2.0], [math.inf, 1.0], [math.nan, 1.0]):
        with pytest.raises(ArgumentError, match="multinomial: needs"):
            volta.multinomial(volta.tensor(wrong), 3, True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool", "float16"])
def test_sums_over_short_rows_of_several_dimensions(dtype):
    for shape in ((64, 256, 16), (3, 5, 1), (7, 33, 49), (2, 3, 4, 5), (40, 9, 300), (1, 500, 8), (4, 5000, 2), (2, 3000, 3)):
        x = made(shape, dtype)
        t, dims = volta.tensor(x), tuple(d for d in range(len(shape)) if d != 1)
        found = []
        for threads in (1, 2):
            before = volta.get_num_threads()
            volta.set_num_threads(threads)
            found.append([f(t, dims).tolist() for f in (volta.sum, volta.amax, volta.any)])
            volta.set_num_threads(before)
        assert found[0] == found[1]
        wide = x.astype("f8" if dtype.startswith("float") else "i8").sum(dims)
        np.testing.assert_allclose(found[0][0], wide.astype(dtype) if dtype == "float16" else wide, rtol=1e-6)
        assert volta.zeros(3, 2, 0).sum((0, 2)).tolist() == [0, 0]
        assert found[0][1] == x.max(dims).tolist() and found[0][2] == x.any(dims).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_counted_numbers(dtype):
    for n in (1, 511, 512, 513, 1030, 5000):
        i = np.arange(n, dtype="f8")
        assert volta.arange(n, dtype=getattr(volta, dtype)).tolist() == i.astype(dtype).tolist()
        got = volta.arange(0.1, 0.1 + 0.3 * (n - 0.5), 0.3, dtype=getattr(volta, dtype))
        assert got.tolist() == (0.1 + i * 0.3).astype(dtype).tolist()
        line = volta.linspace(-1.0, 3.0, n, dtype=getattr(volta, dtype)).numpy()
        np.testing.assert_allclose(line, np.linspace(-1.0, 3.0, n), rtol=1e-6, atol=1e-6)
        assert line[0] == -1.0 and (n == 1 or line[-1] == 3.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8"])
def test_signs(dtype):
    x = np.arange(-30, 31).astype(dtype) if dtype != "uint8" else np.arange(61).astype(dtype)
    assert volta.tensor(x).sign().tolist() == np.sign(x).tolist()
    if dtype.startswith("float"):
        rare = volta.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, -1e-310], dtype=getattr(volta, dtype)).sign().tolist()
        assert rare[:5] == [0, 1, -1, 0, 0] and (dtype == "float32" or rare[5:] == [1, -1])


def test_lists_of_truth_values():
    for given in ([True, False], [[True], [False]], [True]):
        assert volta.tensor(given).dtype is volta.bool and volta.tensor(given).tolist() == given
    assert volta.tensor([True, 2]).tolist() == [1, 2] and volta.tensor([1.5, True]).tolist() == [1.5, 1.0]
