"""What moves, joins, broadcasts and scans short lines, which go many at once: every length about the bounds, counts of lines that are no
multiples of a block, and all layouts and sizes of elements; exact."""
from __future__ import annotations

import numpy as np
import pytest

import volta

LENGTHS = [*range(1, 18), 20, 23, 31, 32, 33, 47, 64, 65, 100, 257]
COUNTS = [1, 2, 15, 17, 37, 700]
DTYPES = ["float32", "float64", "int16", "uint8"]


def numbers(shape, dtype="float32", seed=0):
    x = np.random.default_rng(seed).integers(-100, 100, shape)
    return (x + 100 if dtype == "uint8" else x).astype(dtype)


def layouts(shape, dtype="float32"):
    """(name, tensor, array) of this shape of rank 2, lying in memory in different ways."""
    n, k = shape
    wide, deep, tall = numbers((n, k + 3), dtype), numbers((n, 2 * k), dtype), numbers((k, n), dtype)
    row, column, blocks = numbers((k,), dtype), numbers((n, 1), dtype), numbers((n, 2, k), dtype)
    yield "packed", volta.tensor(deep[:, :k].copy()), deep[:, :k]
    yield "slice", volta.tensor(wide)[:, 1:k + 1], wide[:, 1:k + 1]
    yield "every other", volta.tensor(deep)[:, ::2], deep[:, ::2]
    yield "turned", volta.tensor(wide)[:, ::-1][:, :k], wide[:, ::-1][:, :k]
    yield "turned rows", volta.tensor(wide)[::-1, 2:k + 2], wide[::-1, 2:k + 2]
    yield "transposed", volta.tensor(tall).t(), tall.T
    yield "row", volta.tensor(row).expand(n, k), np.broadcast_to(row, shape)
    yield "column", volta.tensor(column).expand(n, k), np.broadcast_to(column, shape)
    yield "part of blocks", volta.tensor(blocks)[:, 1], blocks[:, 1]


def same(got, want):
    got = got.numpy()
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_copies(length, dtype):
    for count in COUNTS:
        for name, x, want in layouts((count, length), dtype):
            same(x.contiguous() if name != "packed" else x.clone(), want)
            same(x.double(), want.astype("f8"))
            same(x.bool(), want.astype("bool"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_writes_touch_nothing_beside_them(length, dtype):
    for count in COUNTS:
        for _, x, source in layouts((count, length), dtype):
            want = np.full((count, length + 5), 7, dtype)
            out = volta.tensor(want)
            want[:, 2:-3] = source
            out[:, 2:-3].copy_(x)
            same(out, want)
            want[:, 1:-4] = 3
            out[:, 1:-4].fill_(3)
            same(out, want)
            want[::2, 5:] = source[::-1][::2]
            out[::2, 5:] = x[::-1][::2]
            same(out, want)


@pytest.mark.parametrize("length", LENGTHS)
def test_permuted_blocks(length):
    for outer, a, b in ((1, 1, 3), (3, 2, 17), (40, 3, 5), (2, 64, 3), (700, 1, 2), (9, 8, 12)):
        x = numbers((outer, a, b, length))
        for order in ((0, 2, 1, 3), (1, 0, 2, 3), (2, 1, 0, 3), (0, 3, 1, 2), (3, 2, 1, 0), (0, 1, 3, 2)):
            same(volta.tensor(x).permute(order).contiguous(), np.ascontiguousarray(x.transpose(order)))
            same(volta.tensor(x)[..., 1:].permute(order).contiguous(), np.ascontiguousarray(x[..., 1:].transpose(order)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_joins(length, dtype):
    for count in COUNTS:
        for _, x, array in layouts((count, length), dtype):
            other = numbers((count, 3), dtype, 1)
            same(volta.cat([x, volta.tensor(other), x], 1), np.concatenate([array, other, array], 1))
            same(volta.stack([x, x], 1), np.stack([array, array], 1))
            same(volta.stack([x, x, x], -1), np.stack([array] * 3, -1))
            same(volta.nn.functional.pad(x, (2, 1)), np.pad(array, ((0, 0), (2, 1))))
            same(x.repeat(2, 3), np.tile(array, (2, 3)))
            same(volta.flip(x, (1,)), array[:, ::-1])
            same(volta.roll(x, 1, 1), np.roll(array, 1, 1))


@pytest.mark.parametrize("length", LENGTHS)
def test_broadcasting_short_rows(length):
    for count in COUNTS:
        others = [numbers(shape, seed=2) for shape in ((length,), (count, 1), (1, 1), (count, length))]
        for _, x, array in layouts((count, length)):
            for other in others:
                y = volta.tensor(other)
                same(x + y, array + other)
                same(y - x, other - array)
                same(volta.where(x > y, x, y), np.where(array > other, array, other))
                same(volta.addcmul(x, y, x, value=2.0), array + 2 * (other * array))
            same(x.double() * volta.tensor(others[1]).double(), array.astype("f8") * others[1])


@pytest.mark.parametrize("length", LENGTHS)
def test_broadcasting_short_planes(length):
    for count, rows in ((1, 3), (2, 2), (37, 3), (700, 5), (3, 300), (60, 40)):
        x = numbers((count, rows, length))
        for shape in ((rows, 1), (rows, length), (count, 1, length), (count, 1, 1), (1, 1, length), (count, rows, 1), (1, rows, 1)):
            y = numbers(shape, seed=1)
            same(volta.tensor(x) * volta.tensor(y), x * y)
            same(volta.tensor(y) - volta.tensor(x)[..., ::-1], y - x[..., ::-1])
        column, row = numbers((count, rows, 1), seed=3), numbers((length,), seed=4)
        same(volta.tensor(column) + volta.tensor(row), column + row)
        same(volta.tensor(column).int() // volta.tensor(row.astype("i4") | 1), column.astype("i4") // (row.astype("i4") | 1))


@pytest.mark.parametrize("length", LENGTHS)
def test_writing_results_into_parts(length):
    for count in COUNTS:
        want, row = numbers((count, length + 3)), numbers((length,), seed=1)
        out = volta.tensor(want)
        part, line = out[:, 1:length + 1], want[:, 1:length + 1]
        part.add_(volta.tensor(row))
        line += row
        part[:, ::-1].mul_(part[:, ::-1])
        line *= line
        part.sub_(out[:, :1].clone())
        line -= want[:, :1].copy()
        same(out, want)


@pytest.mark.parametrize("length", LENGTHS)
def test_slices_at_places_of_short_lines(length):
    rng = np.random.default_rng(length)
    for count in COUNTS:
        for entries in (1, 3, length, 33):
            index = rng.integers(0, length, entries)
            source, start = numbers((count, entries), seed=1), numbers((count, length), seed=2)
            want = start.copy()
            np.add.at(want, (slice(None), index), source)
            same(volta.tensor(start).index_add(1, volta.tensor(index), volta.tensor(source)), want)
            for _, x, array in layouts((count, length)):
                same(volta.index_select(x, 1, volta.tensor(index)), array[:, index])
                places = rng.integers(0, length, (count, entries))
                same(volta.gather(x, 1, volta.tensor(places)), np.take_along_axis(array, places, 1))
            blocks = numbers((count, length, 2))
            same(volta.index_select(volta.tensor(blocks), 1, volta.tensor(index)), blocks[:, index])
            x = volta.tensor(start, requires_grad=True)
            x[:, volta.tensor(index)].backward(volta.tensor(source))
            want = np.zeros_like(start)
            np.add.at(want, (slice(None), index), source)
            same(x.grad, want)


@pytest.mark.parametrize("length", LENGTHS)
def test_scans_of_short_lines(length):
    special = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 3e38, 1], "f4")
    for count in COUNTS:
        for x in (numbers((count, length)) / np.float32(8), np.resize(special, (count, length)).astype("f4")):
            with np.errstate(all="ignore"):
                sums, products = np.cumsum(x.astype("f8"), 1), np.cumprod(x.astype("f8"), 1)
                np.testing.assert_allclose(volta.cumsum(volta.tensor(x), 1).numpy(), sums.astype("f4"), 1e-6, 1e-6)
                if length < 8:
                    np.testing.assert_array_equal(volta.cumprod(volta.tensor(x), 1).numpy(), products.astype("f4"))
        x = numbers((count, length), "int64")
        same(volta.cumsum(volta.tensor(x), 1), np.cumsum(x, 1))
