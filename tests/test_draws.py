"""Draws by their moments, on every device, and what is refused."""
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import volta
from volta._kernels.core.call import run_kernel
from volta.errors import ArgumentError, AutogradError, DTypeError
from volta.ops.records.create import draw_into_op

COUNT = 100_000
DRAWS = {
    "bernoulli_": (lambda x: x.bernoulli_(0.3), 0.3, 0.21),
    "bernoulli": (lambda x: volta.bernoulli(x + 0.8), 0.8, 0.16),
    "exponential_": (lambda x: x.exponential_(2.0), 0.5, 0.25),
    "geometric_": (lambda x: x.geometric_(0.3), 1 / 0.3, 0.7 / 0.09),
    "log_normal_": (lambda x: x.log_normal_(0.1, 0.3), math.exp(0.145), (math.exp(0.09) - 1) * math.exp(0.29)),
    "random_": (lambda x: x.random_(3, 10), 6.0, 4.0),
    "normal": (lambda x: volta.normal(x + 2, 3.0), 2.0, 9.0),
}


@pytest.mark.parametrize("draw, chances", [
    (lambda x: volta.poisson(x + 3.5), [math.exp(-3.5) * 3.5 ** k / math.factorial(k) for k in range(12)]),
    (lambda x: volta.poisson(x + 14.5), [math.exp(-14.5) * 14.5 ** k / math.factorial(k) for k in range(40)]),
    (lambda x: volta.binomial(x + 20, x + 0.7), [math.comb(20, k) * 0.7 ** k * 0.3 ** (20 - k) for k in range(21)]),
    (lambda x: volta.binomial(x + 50, x + 0.4), [math.comb(50, k) * 0.4 ** k * 0.6 ** (50 - k) for k in range(51)])])
def test_counts_by_chi_square(draw, chances, device):
    """Means below 10, by inversion, and above, by rejection."""
    volta.manual_seed(5)
    found = np.bincount(draw(volta.zeros(COUNT, device=device)).numpy().astype(int), minlength=len(chances))[:len(chances)]
    expected = np.array(chances) * COUNT
    often = expected > 20
    square = ((found - expected)[often] ** 2 / expected[often]).sum()
    assert square < often.sum() + 4 * math.sqrt(2 * often.sum())


@pytest.mark.parametrize("mean", [1e3, 1e6])
def test_large_counts(mean, device):
    volta.manual_seed(5)
    count, prob = volta.full((COUNT,), 4 * mean, device=device), volta.tensor(0.25, device=device)
    for found, variance in ((volta.poisson(count / 4), mean), (volta.binomial(count, prob), 0.75 * mean)):
        found = found.numpy().astype(np.float64)
        assert abs(found.mean() - mean) < 5 * math.sqrt(variance / COUNT) and abs(found.var() / variance - 1) < 0.05


@pytest.mark.parametrize("name", DRAWS)
def test_moments(name, device):
    draw, mean, variance = DRAWS[name]
    volta.manual_seed(5)
    found = draw(volta.zeros(COUNT, device=device)).numpy().astype(np.float64)
    assert abs(found.mean() - mean) < 5 * math.sqrt(variance / COUNT) and abs(found.var() / variance - 1) < 0.05


@pytest.mark.parametrize("name", DRAWS)
def test_few_are_the_first_of_many(name, device):
    found = []
    for count in (10_000, 50):
        volta.manual_seed(5)
        found.append(DRAWS[name][0](volta.zeros(count, device=device)).numpy()[:50])
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("draw", [lambda x: x.geometric_(0.3), lambda x: x.cauchy_(1.0, 2.0), lambda x: x.log_normal_(0.1, 0.3),
                                  lambda x: x.random_(3, 10), lambda x: x.random_(), lambda x: x.bernoulli_(0.3)])
def test_float64_and_columns_are_drawn_as_lines_of_float32(draw):
    """From the same bits: float64 uses more of them."""
    found = []
    for x in (volta.zeros(700), volta.zeros(700, 2)[:, 1], volta.zeros(700, dtype=volta.float64)):
        volta.manual_seed(5)
        found.append(draw(x).numpy())
    assert (found[0] == found[1]).all()
    if found[0].max() < 1 << 20:
        assert np.isclose(found[0], found[2], rtol=1e-3, atol=1e-4).mean() > 0.99


def test_cauchy_has_its_quartiles(device):
    volta.manual_seed(5)
    found = volta.empty(COUNT, device=device).cauchy_(1.0, 2.0).numpy()
    for quantile, below in ((-1, 0.25), (1, 0.5), (3, 0.75)):
        assert abs((found < quantile).mean() - below) < 0.01


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement, device):
    volta.manual_seed(5)
    weights = np.array([1, 0, 3, 2, 0, 4], np.float32)
    found = volta.multinomial(volta.tensor(np.tile(weights, (20_000, 1)), device=device), 3, replacement).numpy()
    np.testing.assert_allclose(np.bincount(found[:, 0], minlength=6) / 20_000, weights / 10, atol=0.015)
    assert found.dtype == np.int64 and not np.isin(found, (1, 4)).any()
    assert replacement or all(len(set(row)) == 3 for row in found)


def test_integers_of_any_width():
    found = volta.randint(-(1 << 63), (1 << 63) - 1, (COUNT,)).numpy().astype(np.float64)
    assert abs(found.mean()) < 2 ** 63 / 100 and found.min() < -2.0 ** 62 and found.max() > 2.0 ** 62


def test_what_is_refused(device):
    x = volta.zeros(2, device=device)
    for name, args, text in (("exponential_", (0,), "lambd must be > 0"), ("geometric_", (1,), r"p must be within \(0, 1\)"),
                             ("cauchy_", (0, 0), "sigma must be > 0"), ("log_normal_", (0, 0), "std must be > 0"),
                             ("bernoulli_", (2,), "needs probabilities"), ("random_", (5, 5), "needs from < to")):
        with pytest.raises(ArgumentError, match=f"{name}: {text}"):
            getattr(x, name)(*args)
    with pytest.raises(DTypeError, match="exponential_: needs a floating point dtype"):
        volta.zeros(2, dtype=volta.int64, device=device).exponential_()
    with pytest.raises(AutogradError, match="cauchy_: a leaf tensor that requires grad"):
        volta.zeros(2, device=device, requires_grad=True).cauchy_()
    with pytest.raises(ArgumentError, match="multinomial: num_samples must be at least 1 and, without replacement, at most the 2 weights"):
        volta.multinomial(x + 1, 3)


@pytest.mark.parametrize("draw", [
    lambda x: x.clone().normal_(), lambda x: x.clone().uniform_(), lambda x: x.clone().bernoulli_(0.5), lambda x: x.clone().exponential_(),
    lambda x: x.clone().random_(0, 5), volta.bernoulli, volta.poisson, lambda x: volta.normal(x, 1.0), lambda x: volta.normal(0.0, x),
    lambda x: volta.normal(x.sum(), x)])
def test_draws_are_constant_functions_of_what_they_are_drawn_by_or_over(draw, device):
    x = volta.full((3,), 0.5, device=device, requires_grad=True)
    drawn = draw(x)
    g, = volta.autograd.grad(drawn.sum(), x)
    assert drawn.shape == (3,) and g.tolist() == [0.0] * 3
    with volta.no_grad():
        assert not draw(x).requires_grad


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_indices_of_triangles(name, device):
    found = getattr(volta, name)(3, 4, 1, device=device).numpy()
    np.testing.assert_array_equal(found, np.stack(getattr(np, name)(3, 1, 4)))


@pytest.mark.parametrize("again", [False, True])
def test_combinations_of_any_number(again):
    choose = itertools.combinations_with_replacement if again else itertools.combinations
    for size in (0, 1, 2, 5, 9):
        for count in range(1, 12 if size < 5 else 7):
            found = volta.combinations(volta.arange(size), count, again)
            assert found.shape[1] == count and found.tolist() == [list(row) for row in choose(range(size), count)]
    assert volta.combinations(volta.arange(40), 38).shape == (780, 38)          # no more on the way


def test_tensors_by_rule(device):
    np.testing.assert_allclose(volta.logspace(0, 2, 3, device=device).numpy(), [1, 10, 100], rtol=1e-6)
    assert volta.empty_strided((2, 3), (1, 2), device=device).stride() == (1, 2)
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert volta.range(1, 2, 0.5, device=device).tolist() == [1, 1.5, 2]
    with pytest.raises(ArgumentError, match="asarray: a tensor of this needs a copy"):
        volta.asarray([1, 2], device=device, copy=False)
    product = volta.cartesian_prod(volta.tensor([1, 2], device=device), volta.tensor([3, 4], device=device))
    assert product.tolist() == [[1, 3], [1, 4], [2, 3], [2, 4]]


@pytest.mark.parametrize("draw, most", [
    (lambda x: x.geometric_(0.3), 1), (lambda x: x.cauchy_(1.0, 2.0), 1), (lambda x: x.log_normal_(0.1, 0.3), 1),
    (lambda x: x.random_(3, 10), 1), (lambda x: x.random_(0, 16_777_219), 1), (lambda x: x.random_(), 1), (lambda x: x.uniform_(), 1),
    (lambda x: volta.bernoulli(x.fill_(0.3)), 3)])
@pytest.mark.parametrize("size", [(64,), (67,), (0,), (30, 3)])
def test_both_devices_draw_the_same_and_a_gpu_at_once(draw, most, size, gpu):
    """Also where the numbers begin or end within a vector; columns are drawn apart first."""
    found = []
    for device in ("cpu", gpu):
        whole = volta.full((100, *size[1:]), -5.0, device=device)
        x = whole[3:3 + size[0]] if len(size) == 1 else whole[3:3 + size[0], 1]
        volta.manual_seed(5)
        before = volta.gpu.stats().dispatches
        drawn = draw(x)
        assert volta.gpu.stats().dispatches - before <= (most if len(size) == 1 else most + 1)
        found.append((drawn.numpy().copy(), whole.numpy()))
    for one, other in zip(*found):
        np.testing.assert_allclose(other, one, rtol=1e-6)


def test_chances_in_columns_are_read_where_they_lie(device):
    x = volta.zeros(40, 2, device=device)
    x[:20] = 1.0
    run_kernel(draw_into_op, x.device, (x[:, 1],), {"kind": "chances", "a": 0.0, "b": 0.0, "seed": 3, "offset": 0})
    assert x.tolist() == [[1.0, 1.0]] * 20 + [[0.0, 0.0]] * 20
