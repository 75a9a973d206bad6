"""The CPU kernels that read and write at places named by indices, against NumPy."""
from __future__ import annotations

import numpy as np
import pytest
from test_cpu_families import CODES, KERNELS, strided, tensor, values

import volta
from volta._kernels import core
from volta._kernels.cpu import search
from volta.errors import DTypeError, IndexRangeError, ShapeError


@pytest.fixture
def rng():
    return np.random.default_rng(7)


INDEXED = [((5,), (3,), 0), ((4, 5), (4, 3), 1), ((4, 5), (3, 5), 0), ((3, 4, 5), (2, 6, 5), 1),
           ((3, 4, 5), (3, 4, 7), 2), ((3, 4), (0, 4), 0), ((200, 300), (200, 300), 1), ((300, 70), (400, 70), 0)]


@pytest.mark.parametrize("name", list(CODES))
@pytest.mark.parametrize("shape, places, dim", INDEXED)
def test_gather_and_select(shape, places, dim, name, rng):
    x = rng.integers(0, 2 if name == "bool" else 100, shape).astype(name)
    at, rows = rng.integers(0, shape[dim], places), rng.integers(0, shape[dim], 6)
    part = x[tuple(slice(0, n) if i != dim else slice(None) for i, n in enumerate(places))]
    for make in (tensor, strided):
        gathered = KERNELS["gather"](make(x), make(at), dim)
        selected = KERNELS["index_select"](make(x), make(rows), dim)
        np.testing.assert_array_equal(values(gathered), np.take_along_axis(part, at, dim))
        np.testing.assert_array_equal(values(selected), np.take(x, rows, dim))


@pytest.mark.parametrize("name", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("shape, places, dim", INDEXED)
def test_additions(shape, places, dim, name, rng):
    size = shape[dim] + 2
    g = rng.integers(-50, 50, places).astype(name)
    at, rows = rng.integers(0, size, places), rng.integers(0, size, places[dim])
    full = np.zeros([size if i == dim else n for i, n in enumerate(places)], name)
    by_row = full.copy()
    grid = list(np.indices(places))
    grid[dim] = at
    np.add.at(full, tuple(grid), g)
    np.add.at(by_row, (*[slice(None)] * dim, rows), g)
    for make in (tensor, strided):
        np.testing.assert_array_equal(values(KERNELS["scatter_add"](make(g), make(at), dim, size)), full)
        np.testing.assert_array_equal(values(KERNELS["index_add"](make(g), make(rows), dim, size)), by_row)


@pytest.mark.parametrize(
    "op, extra", [("gather", ()), ("scatter_add", (4,)), ("index_select", ()), ("index_add", (4,))])
@pytest.mark.parametrize("wrong", [4, -1, 1 << 62])
def test_indices_out_of_range(op, extra, wrong):
    at = np.array([0, wrong, 2, 1])
    at = np.tile(at[:, None], 5) if op in ("gather", "scatter_add") else at
    position = 5 if at.ndim == 2 else 1
    text = rf"{op}: index {wrong} is out of range for a dimension of size 4; it is at position {position}"
    with pytest.raises(IndexRangeError, match=text):
        KERNELS[op](tensor(np.zeros((4, 5), "f4")), tensor(at), 0, *extra)


@pytest.mark.parametrize("n", [255, 256, 257, 700])
@pytest.mark.parametrize("size", [3, 300, 900])
def test_long_lines(n, size):
    """Lines that are fetched and checked a part at a time, of every width of elements; the last index of all may be outside."""
    rng = np.random.default_rng(n + size)
    at = rng.integers(0, size, (5, n))
    for name in ("float32", "float64", "uint8"):
        x, g, start = (rng.integers(0, 9, shape).astype(name) for shape in ((5, size), (5, n), (5, size)))
        rows, summed, last = np.arange(5)[:, None], start.copy(), start.copy()
        np.add.at(summed, (rows, at), g)
        for k in range(n):
            last[rows[:, 0], at[:, k]] = g[:, k]
        for make in (tensor, strided):
            np.testing.assert_array_equal(values(KERNELS["gather"](make(x), make(at), 1)), np.take_along_axis(x, at, 1))
            np.testing.assert_array_equal(values(KERNELS["scatter_sum"](make(start), make(g), make(at), 1)), summed)
            np.testing.assert_array_equal(values(KERNELS["scatter_reduce"](make(start), make(g), make(at), 1, "last")), last)
    for wrong in (-1, size, 1 << 62):
        bad = at.copy()
        bad[-1, -1] = wrong
        for name, tensors in (("gather", (x, bad)), ("scatter_sum", (start, g, bad))):
            with pytest.raises(IndexRangeError, match=f"index {wrong} is out of range .* position {5 * n - 1}"):
                KERNELS[name](*map(tensor, tensors), 1)


@pytest.mark.parametrize("op, at", [("scatter_add", np.array([[0, 1], [0, 0], [2, 1]])), ("index_add", np.array([0, 0, 2]))])
def test_additions_of_small_types(op, at):
    """uint8 wraps, and a sum of booleans is true where a term is; float16 is summed in float32; int16 is for the wrapper of all kernels."""
    x = np.array([[200, 0], [100, 7], [0, 9]])
    where = (at, np.broadcast_to(np.arange(2), (3, 2))) if op == "scatter_add" else (at,)
    for kind in ("u1", "?"):
        want = np.zeros((4, 2), kind)
        np.add.at(want, where, x.astype(kind))
        found = KERNELS[op](tensor(x.astype(kind)), tensor(at.astype("i8")), 0, 4)
        np.testing.assert_array_equal(values(found), want)
    want = np.zeros((4, 2))
    np.add.at(want, where, x)
    np.testing.assert_array_equal(values(KERNELS[op](tensor(x.astype("f2")), tensor(at.astype("i8")), 0, 4)), want)
    with pytest.raises(DTypeError, match=f"{op}: the CPU kernel does not take int16"):
        KERNELS[op](volta.tensor(x.astype("i2")), tensor(at.astype("i8")), 0, 4)


@pytest.mark.parametrize("kind", ["float32", "int64", "bool"])
@pytest.mark.parametrize("width", [15, 16, 40])
def test_index_add_of_wide_slices(rng, kind, width):
    """Places that several entries name, that one does and that none does; -0 added to 0 is 0."""
    g, at = np.round(rng.standard_normal((60, width)) * 9).astype(kind), rng.integers(0, 50, 60)
    if kind == "float32":
        g[at == at[0]] = -0.0
    expected = np.zeros((50, width), kind)
    np.add.at(expected, at, g)
    out = values(KERNELS["index_add"](tensor(g), tensor(at), 0, 50))
    assert out.tobytes() == expected.tobytes()
    stacked = values(KERNELS["index_add"](tensor(np.stack([g, g])), tensor(at), 1, 50))
    assert (stacked == expected).all()


@pytest.mark.parametrize("factor", [2, 3])
def test_enlarging_by_repetition_and_back(rng, factor):
    x = rng.standard_normal((3, 1, 7, 10)).astype("f4")
    size, options = (1, 7 * factor, 10 * factor), ((1.0, 1 / factor, 1 / factor), "nearest", False)
    out = values(KERNELS["resample"](tensor(x), size, *options))
    assert (out == x.repeat(factor, 2).repeat(factor, 3)).all()
    g = rng.standard_normal(out.shape).astype("f4")
    back = values(KERNELS["resample_grad"](tensor(g), x.shape[1:], *options))
    np.testing.assert_allclose(back, g.astype("f8").reshape(3, 1, 7, factor, 10, factor).sum((3, 5)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["resample", "resample_grad"])
def test_sides_beyond_the_tables_of_resampling_are_refused(name):
    """Before anything of that size is made: of a tensor that repeats one element."""
    x = core.view(tensor(np.zeros(1, "f4")), (1, 1, 1, 1 << 31), (0, 0, 0, 0), 0)
    with pytest.raises(ShapeError, match=rf"{name}: a side may have at most 2\*\*31 - 1 elements, got \(1, 1, 2147483648\)"):
        KERNELS[name](x, (1, 1, 4), (1.0, 1.0, 2.0 ** 29), "nearest", False)


@pytest.mark.parametrize("name", ["float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("length", [1, 2, 31, 256, 1000])
def test_searches_of_many_values(length, name, rng):
    """Vectors of values, what is left over of them, equal elements, and values beside both ends."""
    line = np.sort(rng.integers(0, 250, length)).astype(name)
    wanted = rng.integers(0, 256, 333).astype(name)
    if name.startswith("float"):
        wanted[[3, 40]] = np.nan                # behind everything
    for side in ("left", "right"):
        found = values(search.KERNELS["searchsorted"](tensor(line), tensor(wanted), right=side == "right"))
        np.testing.assert_array_equal(found, np.searchsorted(line, wanted, side))


@pytest.mark.parametrize("name", list(CODES))
@pytest.mark.parametrize("count", [1, 7, 16, 25, 256, 257])
def test_selections_of_short_lines(count, name, rng):
    x = rng.integers(0, 2 if name == "bool" else 100, (37, 50)).astype(name)
    at = rng.integers(0, 50, count)
    np.testing.assert_array_equal(values(KERNELS["index_select"](tensor(x), tensor(at), 1)), x[:, at])


@pytest.mark.parametrize("name", list(CODES))
@pytest.mark.parametrize("columns", [1, 3, 4, 8, 9, 13, 16, 17, 33, 64, 70])
def test_copies_that_turn(columns, name, rng):
    """Of a few columns, of squares that are turned in registers, and what is left over beside them."""
    for rows in (5, 16, 61, 130):
        x = rng.integers(0, 2 if name == "bool" else 100, (3, rows, columns)).astype(name)
        turned = core.view(tensor(x), (3, columns, rows), (rows * columns, 1, columns), 0)
        np.testing.assert_array_equal(values(KERNELS["contiguous"](turned)), x.transpose(0, 2, 1))
