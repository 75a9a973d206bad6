"""Lines that CPU kernels read in vectors: their sums have one order on all instruction sets, and what a vector does not fill is
computed as the rest of the line is."""
import numpy as np
import pytest

import volta
from volta._kernels.cpu import elementwise

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


OPERATIONS = {1: "relu sqrt root rsqrt reciprocal floor ceil round trunc hardsigmoid hardswish softsign",
              2: "add sub mul div maximum minimum clamp_min clamp_max squared_difference leaky_relu relu_grad sigmoid_grad tanh_grad "
                 "sqrt_grad reciprocal_grad hardswish_grad",
              3: "mulacc lerp hardtanh clamp leaky_relu_grad squared_difference_grad",
              4: "add_product add_quotient hardtanh_grad clamp_grad"}


def halves(n, seed, dtype):
    """Numbers of 16 bits, special ones among them, at other places for each seed."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n) * rng.choice([1e-6, 1, 3, 1e4], n)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1e-7, 65504, -3, 3, 0.5]
    x = np.where(rng.random(n) < 0.3, rng.choice(special, n), x)
    return volta.tensor(x.astype(np.float32)).to(dtype)


def same(got, want, case=""):
    """Equal numbers, zeros with their signs."""
    np.testing.assert_array_equal(got.float().numpy(), want.float().numpy(), case)
    signs = [np.signbit(x.float().numpy()) & (x == 0).numpy() for x in (got, want)]
    np.testing.assert_array_equal(*signs, case)


@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16])
@pytest.mark.parametrize("arity, names", OPERATIONS.items())
def test_halves_are_computed_in_float32_and_rounded_once(arity, names, dtype):
    """Whole lines and what is left of them, beside numbers and repeated elements, apart and in place: as the loops of float32 have it."""
    for name in names.split():
        kernel = elementwise.KERNELS[name]
        for n in (1, 3, 31, 32, 33, 95, 20000):
            x = [halves(n, k, dtype) for k in range(arity)]
            for given in range(2 ** arity - 1):
                some = [x[k].float()[n // 2:n // 2 + 1] if given >> k & 1 else x[k].float() for k in range(arity)]
                want = kernel(*some).to(dtype)
                repeated = [x[k][n // 2:n // 2 + 1] if given >> k & 1 else x[k] for k in range(arity)]
                numbers = [x[k][n // 2].item() if given >> k & 1 else x[k] for k in range(arity)]
                apart = [volta.stack([t, t], 1)[:, 0] if len(t) == n else t for t in repeated]
                for got in (kernel(*repeated), kernel(*numbers), kernel(*apart)):
                    same(got, want, f"{name} {given} {n}")
                if given % 2 == 0:
                    kernel.into(repeated[0], *repeated)
                    same(repeated[0], want, f"{name} {given} {n}")
                    x[0] = halves(n, 0, dtype)


@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16])
def test_numbers_beside_halves_keep_their_bits(dtype):
    """In lines of any length, and rows too short for one."""
    for shape in ((5,), (64,), (7, 3), (40, 130)):
        x = halves(int(np.prod(shape)), 1, dtype).reshape(shape)
        same(x * 0.1, (x.float() * 0.1).to(dtype))
        row = halves(shape[-1], 2, dtype)
        same(x - row, (x.float() - row.float()).to(dtype))
        column = halves(shape[0], 3, dtype).reshape(-1, *[1] * (len(shape) - 1))
        same(x / column, (x.float() / column.float()).to(dtype))


@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16])
def test_sums_of_halves_are_those_of_float32(dtype):
    """Of rows of whole blocks, columns in groups of 64, and of what is left of both; NaN and infinity are not lost."""
    half_step = 2.0 ** -11 if dtype is volta.float16 else 2.0 ** -8
    for rows, columns in ((1, 1024), (3, 1031), (40, 64), (37, 200), (5, 63), (2100, 130), (2, 5000)):
        x = (volta.randn(rows, columns, generator=volta.Generator().manual_seed(rows)) * 0.1 + 0.02).to(dtype)
        for dim in (0, 1, (0, 1)):
            for each in (x, x[:, ::2]):
                want, got = volta.sum(each.double(), dim).numpy(), volta.sum(each, dim).double().numpy()
                np.testing.assert_allclose(got, want, rtol=1.01 * half_step, atol=1e-3)
        assert volta.equal(volta.sum(x, 1), volta.sum(x.float(), 1).to(dtype))
        x[rows // 2, columns // 3], x[0, 0] = float("inf"), float("nan")
        assert volta.sum(x, 0).isnan().sum().item() == 1 and volta.sum(x, 1).isnan()[0].item()
        assert volta.sum(x, 0)[columns // 3].isinf().item()
