"""Ways that a CPU takes for many elements give what the others give: searches of short lines in vectors, counts, cross entropy across
classes, operands that are laid out or turned first, products, places in order."""
from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("right", [False, True])
def test_many_values_are_found_where_each_is(dtype, right):
    rng, kind = np.random.default_rng(0), getattr(volta, dtype)
    for length in (1, 2, 7, 31, 64, 128, 129, 257, 400):
        values = rng.integers(-30, 30, 50).astype(np.float64)
        lines = [np.sort(rng.integers(-25, 25, length)).astype(np.float64), rng.integers(-25, 25, length).astype(np.float64)]
        if dtype.startswith("float"):
            values[[3, 20, 49]] = math.nan, math.inf, -math.inf
            lines.append(np.r_[lines[0], math.nan])
        for line in lines:                                  # in order, in none, with a NaN behind
            line, x = volta.tensor(line, dtype=kind), volta.tensor(values, dtype=kind)
            found = volta.searchsorted(line, x, right=right).tolist()
            assert found == [volta.searchsorted(line, x[i:i + 1], right=right).item() for i in range(50)]


def test_counts_of_integers_and_of_copies():
    rng = np.random.default_rng(0)
    for dtype in ("int64", "int32", "uint8"):
        for n, most in ((5, 3), (1003, 90), (5000, 200)):
            x = rng.integers(0, most, n)
            assert volta.bincount(volta.tensor(x, dtype=getattr(volta, dtype))).tolist() == np.bincount(x).tolist()
    counts, x = rng.integers(0, 4, 300), rng.standard_normal((300, 2))
    np.testing.assert_array_equal(volta.tensor(x).repeat_interleave(volta.tensor(counts), 0).numpy(), np.repeat(x, counts, 0))
    y = volta.tensor(rng.integers(0, 9, (20, 10)))
    values, inverse, counts = volta.unique(y, return_inverse=True, return_counts=True)
    assert inverse.shape == y.shape and volta.equal(values[inverse], y)
    assert counts.tolist() == np.unique(y.numpy(), return_counts=True)[1].tolist()


def test_cross_entropy_across_classes_is_that_of_rows():
    rng = np.random.default_rng(0)
    x, labels = volta.tensor(rng.standard_normal((2, 5, 4, 6)), requires_grad=True), volta.tensor(rng.integers(0, 5, (2, 4, 6)))
    weight = volta.tensor(rng.random(5) + 0.1)
    for options in ({}, {"ignore_index": 3}, {"weight": weight}, {"label_smoothing": 0.3}, {"label_smoothing": 0.3, "weight": weight},
                    {"label_smoothing": 0.3, "ignore_index": 1, "weight": weight}):
        for reduction in ("mean", "sum", "none"):
            loss = partial(volta.nn.functional.cross_entropy, reduction=reduction, **options)
            across, rows = loss(x, labels), loss(x.permute(0, 2, 3, 1).reshape(48, 5), labels.reshape(48))
            np.testing.assert_allclose(across.detach().numpy().reshape(-1), rows.detach().numpy().reshape(-1), rtol=1e-12)
            a, b = (volta.autograd.grad(y.sum(), x)[0].numpy() for y in (across, rows))
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14)
    for reduction in ("median", ""):
        with pytest.raises(ArgumentError, match="reduction must be"):
            volta.nn.functional.cross_entropy(x, labels, reduction=reduction)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [3, 13, 64, 77, 127, 141, 300])
def test_what_rows_repeat_gives_what_its_copies_give(dtype, length):
    rng, kind = np.random.default_rng(length), getattr(volta, dtype)
    x = volta.tensor(rng.standard_normal((4, 5, length)), dtype=kind)
    for shape in ((length,), (5, 1), (4, 1, 1), (5, length), (4, 5, 1)):
        y = volta.tensor(rng.uniform(-1, 1, shape), dtype=kind)
        whole = y.expand(4, 5, length).contiguous()
        for f in (volta.div, volta.maximum, volta.clamp_max, lambda a, b: volta.div(b, a), lambda a, b: volta.addcdiv(a, a, b),
                  lambda a, b: volta.addcmul(a, b, a), lambda a, b: volta.lerp(a, a + 1, b), lambda a, b: volta.lerp(a, b, 0.3),
                  lambda a, b: volta.lerp(b, a, 0.7)):
            np.testing.assert_array_equal(f(x, y).numpy(), f(x, whole).numpy())
        np.testing.assert_array_equal(volta.div(x, y).numpy(), x.numpy() / y.numpy())


@pytest.mark.parametrize("shape", [(40, 33, 50), (60, 33, 70), (64, 64), (300, 400)])
def test_operands_of_another_order_give_what_their_copies_give(shape, rng):
    dims = (len(shape) - 1, *range(len(shape) - 1))
    x = volta.tensor(rng.standard_normal(shape).astype("f4")).permute(*dims)
    y = volta.tensor(rng.standard_normal(x.shape).astype("f4"))
    np.testing.assert_array_equal((x + y).numpy(), x.numpy() + y.numpy())
    np.testing.assert_array_equal((x < y).numpy(), x.numpy() < y.numpy())


@pytest.mark.parametrize("size", [1023, 1024, 5000])
def test_products_of_long_lines_stay_within_the_range_of_double(size, rng):
    x = rng.uniform(0.9, 1.1, size).astype("f4") * rng.choice([-1, 1], size).astype("f4")
    np.testing.assert_allclose(volta.tensor(x).prod().item(), np.prod(x.astype("f8")), rtol=1e-5)
    for at, values in ((0, (1e30, 1e30, 1e-30, 1e-30)), (500, (1e-44, 1e38, 1e6)), (32, (1e-40, 1e-40, 1e38, 1e38, 1e4))):
        y = x.copy()
        y[at:at + 32 * len(values):32] = values             # which one lane multiplies
        y[at + 1:at + 1 + len(values)] = values
        np.testing.assert_allclose(volta.tensor(y).prod().item(), np.prod(y.astype("f8")), rtol=1e-5)
    for values, found in (((0.0,), 0), ((math.nan,), math.nan), ((math.inf, 0.0), math.nan), ((math.inf,), math.inf)):
        y = abs(x)
        y[size // 2:size // 2 + len(values)] = values
        np.testing.assert_equal(volta.tensor(y).prod().item(), found)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8"])
@pytest.mark.parametrize("length", [63, 64, 200, 257, 333, 511, 513])
def test_places_in_order_of_lines_that_are_not_sorted_whole(dtype, length, rng):
    kind = getattr(volta, dtype)
    x = rng.integers(0, 100, (length, 3)).astype(dtype)
    order = np.argsort(x, 0, kind="stable")
    for place in (1, 2, length // 3, length):
        values, indices = volta.kthvalue(volta.tensor(x, dtype=kind), place, 0)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, order, 0)[place - 1])
        np.testing.assert_array_equal(indices.numpy(), order[place - 1])
    if dtype.startswith("float"):
        x[5, 1] = math.nan
        values, indices = volta.median(volta.tensor(x, dtype=kind), 0)
        np.testing.assert_equal(values.numpy(), np.where(np.isnan(x).any(0), math.nan, np.sort(x, 0)[(length - 1) // 2]))
        assert indices[1].item() == 5
        np.testing.assert_array_equal(volta.kthvalue(volta.tensor(x, dtype=kind), length, 0)[0].numpy(), np.sort(x, 0)[-1])
