"""The CPU's kernels that take rows of float16 and bfloat16 themselves, beside those of the same rows in float32: softmax and normalisation
of rows with their gradients, and products; and elementwise loops whose vectors are their own: erf of float64, powers, selects."""
import math

import numpy as np
import pytest

import volta
from volta.devices import cpu

cpu.load()
KERNELS = cpu.KERNELS
HALVES = (volta.float16, volta.bfloat16)
# Shapes with their dimension: short rows, rows of several tasks and of more than one, few and many columns, one column, one element.
LINES = [((5, 3), 1), ((300, 17), 1), ((40, 700), 1), ((3, 5000), 1), ((2, 9, 1), 1), ((3, 7, 40), 1), ((2, 600, 150), 1),
         ((4, 300, 33), 1), ((1, 1), 0)]


def rows(shape, dtype, seed=0, scale=1.0):
    return volta.tensor((np.random.default_rng(seed).standard_normal(shape) * scale).astype("float32")).to(dtype)


def equal(found, expected):
    assert found.dtype is expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found.float().numpy(), expected.float().numpy())


@pytest.fixture(params=(1, 2))
def threads(request):
    before = volta.get_num_threads()
    volta.set_num_threads(request.param)
    yield request.param
    volta.set_num_threads(before)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape, dim", LINES)
@pytest.mark.parametrize("name", ("softmax", "log_softmax"))
def test_softmax(name, shape, dim, dtype, threads):
    """Element for element what float32 gives, rounded once, on any number of threads, of any strides."""
    x, g = rows(shape, dtype, 1, 3), rows(shape, dtype, 2)
    y = KERNELS[name](x, dim)
    equal(y, KERNELS[name](x.float(), dim).to(dtype))
    equal(KERNELS[name + "_grad"](g, y, dim), KERNELS[name + "_grad"](g.float(), y.float(), dim).to(dtype))
    turned = x.transpose(0, -1).contiguous().transpose(0, -1)
    equal(KERNELS[name](turned, dim), y)


# (shape, length of a row, rows whose weights differ, elements that share one)
NORMS = [((70, 8), 8, 1, 1), ((33, 300), 300, 1, 1), ((3, 9000), 9000, 1, 1), ((6, 64), 16, 4, 1), ((4, 6, 5, 2), 30, 2, 10),
         ((2, 3, 4000), 12000, 1, 4000)]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("shape, length, groups, inner", NORMS)
def test_normalised_rows(shape, length, groups, inner, dtype, threads):
    """Forward as in float32, element for element; of the gradients, sums over rows are flushed at other places."""
    n = groups * length // inner
    x, g, arrived = rows(shape, dtype), rows(shape, dtype, 1), rows(shape, dtype, 4)
    weight, bias = rows((n,), dtype, 2), rows((n,), dtype, 3)
    wide = [t.float() for t in (g, x, weight)]
    sizes = {"length": length, "groups": groups, "inner": inner, "centred": True}
    out, mean, rstd = KERNELS["row_norm"](x, weight, bias, eps=1e-5, **sizes)
    true, true_mean, true_rstd = KERNELS["row_norm"](wide[1], wide[2], bias.float(), eps=1e-5, **sizes)
    equal(out, true.to(dtype))
    equal(mean, true_mean)
    equal(rstd, true_rstd)
    for more in (None, arrived):
        found = KERNELS["row_norm_grad"](g, x, weight, mean, rstd, more, sums=True, **sizes)
        true = KERNELS["row_norm_grad"](*wide, mean, rstd, None if more is None else more.float(), sums=True, **sizes)
        equal(found[0], true[0].to(dtype))
        for a, b in zip(found[1:], true[1:]):
            assert a.dtype is dtype
            np.testing.assert_allclose(a.float().numpy(), b.numpy(), rtol=volta.finfo(dtype).eps, atol=1e-4)


@pytest.mark.parametrize("dtype", HALVES)
def test_layer_norm_without_a_graph_and_with_one(dtype):
    """Gradients of 16 bits come from the kernel that takes them; those that are differentiated again from float32: they agree."""
    found = []
    for again in (False, True):
        x, weight = rows((6, 40), dtype).requires_grad_(), rows((40,), dtype, 1).requires_grad_()
        y = volta.nn.functional.layer_norm(x, (40,), weight)
        found.append(volta.autograd.grad(y, (x, weight), rows((6, 40), dtype, 2), create_graph=again))
        assert [t.dtype for t in found[-1]] == [dtype, dtype] and found[-1][0].requires_grad is again
    for a, b in zip(*found):
        np.testing.assert_allclose(a.float().numpy(), b.detach().float().numpy(), rtol=2 * volta.finfo(dtype).eps, atol=1e-6)


@pytest.mark.parametrize("dtype", (*HALVES, volta.float32, volta.float64))
@pytest.mark.parametrize("shape, dim", [((5000,), 0), ((70, 100), 1), ((70, 100), 0), ((33, 31), 0), ((9, 300), 1), ((3, 2, 77), 1)])
def test_products(shape, dim, dtype, threads):
    x = volta.tensor(1 + 0.01 * np.random.default_rng(0).standard_normal(shape)).to(dtype)
    true = x.double().numpy().prod(axis=dim)
    found = x.prod(dim)
    assert found.dtype is dtype
    np.testing.assert_allclose(found.double().numpy(), true, rtol=0.51 * volta.finfo(dtype).eps if dtype is not volta.float64 else 1e-14)


@pytest.mark.parametrize("dtype, most", ((volta.float32, 2), (volta.float64, 2)))
@pytest.mark.parametrize("power", (3, -2))
def test_powers(power, dtype, most):
    x = np.random.default_rng(0).uniform(-9, 9, 3000)
    x = volta.tensor(np.r_[x, 0.0, -0.0, np.inf, -np.inf, np.nan]).to(dtype)
    with np.errstate(all="ignore"):
        true = (x.numpy().astype(np.longdouble) ** power).astype(x.numpy().dtype)
    np.testing.assert_array_max_ulp((x ** power).numpy()[:3000], true[:3000], maxulp=most)
    np.testing.assert_array_equal((x ** power).numpy()[3000:], true[3000:])
    np.testing.assert_array_equal((x[:7] ** power).numpy(), (x ** power).numpy()[:7])


def test_erf_of_doubles():
    """Within two units, by the C library's, also across the ends of what each polynomial serves and of vectors."""
    middles = (np.arange(17) + 0.5) * 25 / 64
    x = np.r_[np.linspace(-7, 7, 4001), middles, np.nextafter(middles, 9), np.nextafter(middles, 0), 1e-300, 5e-324, 1e-9, 6.0, 30.0]
    true = np.array([math.erf(v) for v in x])
    np.testing.assert_array_max_ulp(volta.erf(volta.tensor(x)).numpy(), true, maxulp=2)
    for n in range(1, 9):
        np.testing.assert_array_equal(volta.erf(volta.tensor(x[:n].copy())).numpy(), volta.erf(volta.tensor(x)).numpy()[:n])
    ends = volta.erf(volta.tensor([np.inf, -np.inf, np.nan, -0.0, 0.0], dtype=volta.float64)).numpy()
    np.testing.assert_array_equal(ends, [1, -1, np.nan, 0, 0])
    np.testing.assert_array_equal(np.signbit(ends[3:]), [True, False])


@pytest.mark.parametrize("dtype", (*HALVES, volta.float32, volta.float64))
def test_selects(dtype):
    """Of special values, in vectors and behind them."""
    x = volta.tensor([math.nan, math.inf, -math.inf, 0.5, -0.5, 2.0, -2.0, -0.0, 0.0] * 5).to(dtype)
    largest, tile = volta.finfo(dtype).max, lambda *values: np.array(values * 5)
    np.testing.assert_array_equal(volta.nan_to_num(x, 7.0).double().numpy(), tile(7, largest, -largest, 0.5, -0.5, 2, -2, 0, 0))
    np.testing.assert_array_equal(volta.nn.functional.hardtanh(x).double().numpy(), tile(math.nan, 1, -1, 0.5, -0.5, 1, -1, 0, 0))
    np.testing.assert_array_equal(volta.nn.functional.softshrink(x, 0.75).double().numpy(),
                                  tile(math.nan, math.inf, -math.inf, 0, 0, 1.25, -1.25, 0, 0))
    assert np.signbit(volta.nn.functional.hardtanh(x, 0.0, 1.0).float().numpy()).tolist() == [False] * 7 + [True, False] + (
        [False] * 7 + [True, False]) * 4


@pytest.mark.parametrize("dtype", HALVES)
def test_rows_that_end_within_a_vector(dtype):
    """The last elements of rows, out of place, in place and into an operand: as float32, rounded once."""
    for n in (1, 2, 31, 32, 33, 64, 65, 100, 513):
        room, other, factor = rows((5, n + 3), dtype), rows((5, n), dtype, 1), rows((5, 1), dtype, 2)
        x = room[:, 1:-2]
        for f in (lambda x, y, c: x + y, lambda x, y, c: x * c, lambda x, y, c: c - x, lambda x, y, c: volta.maximum(x, y),
                  lambda x, y, c: volta.relu(x), lambda x, y, c: volta.addcmul(x, y, c), lambda x, y, c: volta.lerp(x, y, 0.25)):
            equal(f(x, other, factor), f(x.float(), other.float(), factor.float()).to(dtype))
        for f in (lambda x, y, c: x.mul_(c), lambda x, y, c: x.sub_(y), lambda x, y, c: volta.add(x, y, out=x),
                  lambda x, y, c: volta.mul(c, x, out=x), lambda x, y, c: x.relu_()):
            held = room.clone()
            wide = held.float()
            f(held[:, 1:-2], other, factor)
            f(wide[:, 1:-2], other.float(), factor.float())
            equal(held, wide.to(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_at_places(dtype):
    """The gradient of a selection, and what is added in place: sums in float32, rounded once, of few places among many, of most of them, of
    long slices, and of none; and of single elements."""
    rng = np.random.default_rng(0)
    for outer, n, inner, size in ((1, 5, 16, 30), (3, 4, 33, 100), (1, 0, 20, 4), (2, 50, 16, 30), (1, 5, 3, 30), (1, 1, 64, 3),
                                  (0, 3, 16, 20), (2, 40, 700, 9), (1, 3000, 1, 100000), (1, 2000, 1, 1)):
        g, index = rows((outer, n, inner), dtype), volta.tensor(rng.integers(0, size, n), dtype=volta.int64)
        equal(KERNELS["index_add"](g, index, 1, size), KERNELS["index_add"](g.float(), index, 1, size).to(dtype))
        x = rows((outer, size, inner), dtype, 1)
        want = KERNELS["index_sum"](x.float(), g.float(), index, 1).to(dtype)
        equal(KERNELS["index_sum"](x, g, index, 1), want)
        turned = x.transpose(0, 2).contiguous().clone().transpose(0, 2)
        for held in (x, turned):
            KERNELS["index_add_into"](held, g, index, 1)
            equal(held, want)
        each = volta.tensor(rng.integers(0, size, (outer, n, inner)), dtype=volta.int64)
        equal(KERNELS["scatter_add"](g, each, 1, size), KERNELS["scatter_add"](g.float(), each, 1, size).to(dtype))
        want = KERNELS["scatter_sum"](x.float(), g.float(), each, 1).to(dtype)
        equal(KERNELS["scatter_sum"](x, g, each, 1), want)
        KERNELS["scatter_add_into"](x, g, each, 1)
        equal(x, want)
    assert KERNELS["index_add"](volta.tensor(2.0, dtype=dtype), volta.tensor([0]), 0, 1).tolist() == 2
    with pytest.raises(volta.errors.IndexRangeError, match="index_add: index 30 is out of range for a dimension of size 30"):
        KERNELS["index_add"](rows((1, 2, 16), dtype), volta.tensor([3, 30]), 1, 30)
