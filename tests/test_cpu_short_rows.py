"""CPU kernels with ways of their own for short rows, narrow matrices and repeated elements, at every size about their bounds."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

import volta
from volta._kernels.core import threads


@pytest.mark.parametrize("length", [*range(1, 70), 130])
def test_normalised_rows(length):
    x = np.random.default_rng(length).standard_normal((3, length)).astype("f4") * 2 + 5
    w, b = np.linspace(0.5, 2, length, dtype="f4"), np.linspace(-1, 1, length, dtype="f4")
    wide = x.astype("f8")
    away = wide - wide.mean(1, keepdims=True)
    want = away / np.sqrt((away * away).mean(1, keepdims=True) + 1e-5) * w + b
    F = volta.nn.functional
    np.testing.assert_allclose(F.layer_norm(volta.tensor(x), (length,), volta.tensor(w), volta.tensor(b)).numpy(), want, 1e-4, 2e-5)
    want = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(F.rms_norm(volta.tensor(x), (length,), volta.tensor(w), 1e-5).numpy(), want, 1e-5, 1e-6)


def test_normalised_rows_that_are_equal_or_not_finite():
    x = volta.tensor([[7.3] * 5, [1.0, 2.0, float("nan"), 0.0, 0.0], [1.0, float("inf"), 0.0, 0.0, 0.0]])
    out = volta.nn.functional.layer_norm(x, (5,)).numpy()
    assert (out[0] == 0).all() and np.isnan(out[1:]).all()


@pytest.mark.parametrize("shape", [(2, 1), (15, 255), (16, 256), (17, 257), (33, 600)])
def test_batch_norm_of_matrices(shape):
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal(shape).astype("f4") + 300, rng.standard_normal(shape).astype("f4")
    w = np.linspace(0.5, 2, shape[1], dtype="f4")

    def both(dtype):
        t = volta.tensor(x.astype(dtype), requires_grad=True)
        out = volta.nn.functional.batch_norm(t, None, None, volta.tensor(w.astype(dtype)), None, training=True)
        return out.detach().numpy(), volta.autograd.grad(out, t, volta.tensor(g.astype(dtype)))[0].numpy()
    for got, want in zip(both("f4"), both("f8")):
        np.testing.assert_allclose(got, want, 1e-3, 1e-3)


@pytest.mark.parametrize("times", [1, 2, 3, 5, 12, 13])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 33), (130, 65), (300, 257)])
def test_repeated_elements(shape, times):
    x = np.arange(shape[0] * shape[1], dtype="f4").reshape(shape)
    for view, line in ((volta.tensor(x), x), (volta.tensor(x)[:, ::-1], x[:, ::-1]), (volta.tensor(x.T.copy()).t(), x)):
        for dim in (0, 1):
            assert np.array_equal(volta.repeat_interleave(view, times, dim).numpy(), np.repeat(line, times, dim))


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 2), (0, 1, 2)])
def test_gradients_of_flips(dims):
    x, g = volta.ones(2, 3, 4, requires_grad=True), np.arange(24, dtype="f4").reshape(2, 3, 4)
    found = volta.autograd.grad(volta.flip(x, dims), x, volta.tensor(g))[0]
    assert np.array_equal(found.numpy(), np.flip(g, dims)) and found.is_contiguous()


@pytest.mark.parametrize("equation", ["ij,ij->i", "ij,ij->j", "ij,ij->", "ij,ij->ij", "ij,ij->ji", "ij,ij", "...i,...i->...", "ij,ji->i"])
def test_products_of_operands_with_the_same_letters(equation):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((5, 5)).astype("f4") for _ in range(2))
    np.testing.assert_allclose(volta.einsum(equation, volta.tensor(x), volta.tensor(y)).numpy(), np.einsum(equation, x, y), 1e-5, 1e-5)
    whole = volta.einsum(equation, volta.tensor([[1, 2], [3, 4]], dtype=volta.int32), volta.ones(2, 2, dtype=volta.int32))
    assert whole.dtype is volta.int32


@pytest.mark.parametrize("length", [1, 2, 3, 7, 16, 17])
@pytest.mark.parametrize("rows", [1, 8, 600])
def test_extremes_of_short_rows(rows, length):
    x = np.random.default_rng(0).integers(-3, 3, (rows, length)).astype("f4")
    x[::5, -1], x[3::7, 0] = np.nan, -np.inf
    for dtype in ("f4", "f8", "i8"):
        line = np.nan_to_num(x, neginf=-9).astype(dtype) if dtype == "i8" else x.astype(dtype)
        for name, find in (("max", np.argmax), ("min", np.argmin)):
            values, at = getattr(volta.tensor(line), name)(1)
            assert np.array_equal(at.numpy(), find(line, 1)), (name, dtype)
            assert np.array_equal(values.numpy(), np.take_along_axis(line, find(line, 1)[:, None], 1)[:, 0], equal_nan=dtype != "i8")


def test_medians_with_and_without_nan():
    x = np.random.default_rng(0).standard_normal((6, 9)).astype("f4")
    assert np.array_equal(volta.median(volta.tensor(x), 1).values.numpy(), np.sort(x, 1)[:, 4])
    x[2, 3] = np.nan
    found = volta.median(volta.tensor(x), 1)
    want = np.where(np.isnan(x).any(1), np.nan, np.sort(x, 1)[:, 4])
    assert np.array_equal(found.values.numpy(), want, equal_nan=True) and found.indices[2].item() == 3
    assert np.array_equal(volta.nanmedian(volta.tensor(x), 1).values.numpy(), np.array(
        [np.sort(r[~np.isnan(r)])[(np.sum(~np.isnan(r)) - 1) // 2] for r in x], "f4"))


def test_masks_of_the_whole():
    x = np.arange(12, dtype="f4").reshape(3, 4)
    mask = x % 3 == 0
    for view, line, m in ((volta.tensor(x), x, mask), (volta.tensor(x).t(), x.T, mask.T)):
        assert np.array_equal(view[volta.tensor(m.copy())].numpy(), line[m])
    t = volta.tensor(x, requires_grad=True)
    g = volta.autograd.grad(t[volta.tensor(mask)], t, volta.tensor([1.0, 2.0, 3.0, 4.0]))[0]
    want = np.zeros((3, 4), "f4")
    want[mask] = [1, 2, 3, 4]
    assert np.array_equal(g.numpy(), want)


@pytest.mark.parametrize("count", [1, 2, 4, 5])
@pytest.mark.parametrize("length", [700, 20001, 70000])
def test_integers_that_look_random(length, count):
    """Sorted by two digits, stably, whether few keys share these or most do, on any number of threads."""
    rng, before = np.random.default_rng(0), threads.get_num_threads()
    high = (np.arange(length) % 16 << 28) - 2**31
    lines = (rng.integers(-2**31, 2**31, length), high, high + (length - np.arange(length)) // 16,
             rng.integers(-2**31, 2**31, length) >> 20 << 20)
    threads.set_num_threads(count)
    try:
        for line in lines:
            for descending in (False, True):
                found = volta.sort(volta.tensor(line.astype("i4")), descending=descending, stable=True)
                order = np.argsort(-line if descending else line, kind="stable")
                assert np.array_equal(found.indices.numpy(), order) and np.array_equal(found.values.numpy(), line[order])
    finally:
        threads.set_num_threads(before)


@pytest.mark.parametrize("length", [33, 65, 127, 128, 1024, 1055, 1056, 2500])
@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16])
def test_gradient_of_softmax_of_16_bits(dtype, length):
    """A row behind the last one keeps what it has."""
    rng = np.random.default_rng(length)
    x = volta.tensor(rng.standard_normal((5, length)).astype("f4") * 3).to(dtype)
    g = volta.tensor(rng.standard_normal((5, length)).astype("f4")).to(dtype)
    leaf = x.clone().requires_grad_()
    y = volta.softmax(leaf, 1)
    got = volta.autograd.grad(y, leaf, g)[0]
    a, b = g.double().numpy(), y.detach().double().numpy()
    want = b * (a - (a * b).sum(1, keepdims=True))
    np.testing.assert_allclose(got.double().numpy(), want, 2.0**-8 if dtype is volta.bfloat16 else 2.0**-11, 1e-7)
    g[2, -1] = float("nan")
    assert volta.isnan(volta.autograd.grad(volta.softmax(leaf, 1), leaf, g)[0]).any(1).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("shape", [(3, 129), (260, 200), (5, 3, 300)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_rows_and_columns_beside_long_rows(shape, dtype):
    """Columns as they lie in their matrix, rows, and both in each place."""
    rng = np.random.default_rng(3)
    whole = [rng.uniform(0.5, 1.5, shape).astype(dtype) for _ in range(3)]
    parts = [lambda x: x, lambda x: x[..., :1], lambda x: x[..., :1, :], lambda x: x[..., 1:2]]
    for name, formula in (("lerp", lambda a, b, c: np.where(abs(c) < 0.5, a + c * (b - a), b + (c - 1) * (b - a))),
                          ("addcmul", lambda a, b, c: a + b * c), ("addcdiv", lambda a, b, c: a + b / c),
                          ("clamp", lambda a, b, c: np.minimum(np.maximum(a, b), c))):
        for kinds in itertools.product(parts, repeat=3):
            arrays = [part(x) for part, x in zip(kinds, whole)]
            got = getattr(volta, name)(*[part(volta.tensor(x)) for part, x in zip(kinds, whole)])
            want = formula(*[np.float32(a) if dtype == "f2" else a for a in arrays]).astype(dtype)
            np.testing.assert_array_equal(got.numpy(), want)


def test_columns_that_many_rows_repeat():
    """Of a matrix that lies transposed, and in place."""
    x = np.random.default_rng(0).standard_normal((600, 40)).astype("f4")
    t = volta.tensor(x)
    assert np.array_equal((t + t[:, :1]).numpy(), x + x[:, :1])
    assert np.array_equal((t.t() * t[:, 3]).numpy(), x.T * x[:, 3])
    turned = volta.tensor(x.T.copy()).t()
    assert np.array_equal((turned - turned[:, 2:3]).numpy(), x - x[:, 2:3])
    t.mul_(t[:, 1:2])
    assert np.array_equal(t.numpy(), x * x[:, 1:2])


@pytest.mark.parametrize("length", [255, 256, 287, 1024, 1055, 1056, 2500])
def test_normalised_rows_of_float16(length):
    """Far from 0, where a mean that is rounded early would show."""
    F = volta.nn.functional
    rng = np.random.default_rng(length)
    x = volta.tensor(rng.standard_normal((3, length)).astype("f4") + 5).half()
    w, b = volta.tensor(np.linspace(0.5, 2, length, dtype="f4")).half(), volta.tensor(np.linspace(-1, 1, length, dtype="f4")).half()
    wide, u, c = (t.double().numpy() for t in (x, w, b))
    away = wide - wide.mean(1, keepdims=True)
    want = away / np.sqrt((away * away).mean(1, keepdims=True) + 1e-5) * u + c
    np.testing.assert_allclose(F.layer_norm(x, (length,), w, b).double().numpy(), want, 2.0**-11, 1e-5)
    want = wide / np.sqrt((wide * wide).mean(1, keepdims=True) + 1e-5) * u
    np.testing.assert_allclose(F.rms_norm(x, (length,), w, 1e-5).double().numpy(), want, 2.0**-11, 1e-5)
    x[1, -1] = float("inf")
    assert volta.isnan(F.layer_norm(x, (length,), w, b)).all(1).tolist() == [False, True, False]


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (3, 7), (2, 5, 3), (2, 3, 5), (50, 4), (0, 3), (3, 0), (2, 130, 60)])
@pytest.mark.parametrize("dtype", ["float32", "bool", "int64"])
def test_triangles_at_every_diagonal(shape, dtype):
    x = np.random.default_rng(0).integers(1, 9, shape).astype(dtype)
    for diagonal in (*range(-shape[-2] - 2, shape[-1] + 3), -2**62, 2**62):
        near = min(max(diagonal, -1000), 1000)
        for name in ("tril", "triu"):
            found = getattr(volta, name)(volta.tensor(x), diagonal).numpy()
            np.testing.assert_array_equal(found, getattr(np, name)(x, near))


@pytest.mark.parametrize("shape", [(1, 5), (1001, 5), (40, 2, 3), (9, 128), (9, 129), (3, 700), (2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
def test_short_lines_are_rolled_at_once(shape, dtype):
    x = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    for dim in range(len(shape)):
        for shift in (-1, 0, 1, 2, shape[dim], shape[dim] - 1):
            np.testing.assert_array_equal(volta.roll(volta.tensor(x), shift, dim).numpy(), np.roll(x, shift, dim))


@pytest.mark.parametrize("columns", [*range(1, 100), 127, 130, 200])
def test_sums_of_columns_of_every_width(columns):
    rng = np.random.default_rng(columns)
    for dtype in ("float32", "float64"):
        x = rng.integers(-9, 9, (3, 37, columns)).astype(dtype)
        np.testing.assert_array_equal(volta.tensor(x).sum(1).numpy(), x.sum(1))
        np.testing.assert_array_equal(volta.tensor(x)[:, :, 1:].sum(1).numpy(), x[:, :, 1:].sum(1))
