"""Scans on a GPU whose lines are scanned in parts: what the parts come to has to be combined in their order."""
from __future__ import annotations

import numpy as np
import pytest

import volta
from volta.ops.records.scan import recurrence_op

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("shape, dim", [((257, 63), 0), ((1025, 8), 0), ((2, 1100, 33), 1), ((20000,), 0), ((3, 9000), 1), ((2500, 99), 0)])
def test_recurrence_in_parts(gpu, shape, dim):
    generator = np.random.default_rng(2)
    a, b = generator.uniform(0.7, 1.02, shape).astype("f4"), generator.uniform(-1, 1, shape).astype("f4")
    want = np.moveaxis(b, dim, 0).astype("f8")
    for i, factor in enumerate(np.moveaxis(a, dim, 0)[1:], 1):
        want[i] += factor * want[i - 1]
    got = recurrence_op(volta.tensor(a, device=gpu), volta.tensor(b, device=gpu), dim=dim).numpy()
    np.testing.assert_allclose(np.moveaxis(got, dim, 0), want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("name, low, high", [("cumprod", 0.98, 1.02), ("logcumsumexp", -3.0, 3.0)])
@pytest.mark.parametrize("shape, dim", [((257, 63), 0), ((1025, 8), 0), ((3, 9000), 1)])
def test_gradients_of_long_scans(gpu, name, low, high, shape, dim):
    generator = np.random.default_rng(3)
    x, g = generator.uniform(low, high, shape), generator.uniform(-1, 1, shape)
    found = []
    for device, dtype in ((gpu, "f4"), ("cpu", "f8")):
        y = volta.tensor(x.astype(dtype), device=device, requires_grad=True)
        getattr(volta, name)(y, dim).backward(volta.tensor(g.astype(dtype), device=device))
        found.append(y.grad.numpy())
    np.testing.assert_allclose(*found, rtol=2e-4, atol=2e-5 * np.abs(found[1]).max())


SHAPES = [((262140,), 0), ((262144,), 0), ((40000, 3), 0), ((3, 70001), 1), ((2, 131072), 1), ((5000, 8), 0), ((7, 5003, 2), 1)]


@pytest.mark.parametrize("shape, dim", SHAPES)
@pytest.mark.parametrize("name", ["prod", "cumprod"])
def test_long_products_of_numbers_near_1_are_as_exact_as_short_ones(gpu, name, shape, dim, rng):
    x = (1 + rng.uniform(-1e-4, 1e-4, shape)).astype(np.float32)
    expected = getattr(np, name)(x.astype(np.float64), axis=dim)
    on_gpu, on_cpu = (getattr(volta.tensor(x, device=device), name)(dim) for device in ("gpu", "cpu"))
    assert on_gpu.device.type == "gpu"
    np.testing.assert_allclose(on_gpu.cpu().numpy(), expected, rtol=1.3e-7)
    np.testing.assert_allclose(on_gpu.cpu().numpy(), on_cpu.numpy(), rtol=1.3e-7)


@pytest.mark.parametrize("values", [[1e-30, 1e-9], [1e30, 1e9], [np.inf, 2.0], [np.nan, 2.0], [-np.inf, 0.0], [-0.0, 3.0], [2e-38, 1.5],
                                    [3e38, 1.0]])
@pytest.mark.parametrize("count", [2, 5000])
def test_products_at_the_ends_of_the_range(gpu, values, count):
    x = np.ones(count, np.float32)
    x[::count - 1] = values
    with np.errstate(all="ignore"):
        expected = np.cumprod(x)
    for result in (volta.tensor(x, device="gpu").cumprod(0)[-1:], volta.tensor(x, device="gpu").prod().reshape(1)):
        np.testing.assert_allclose(result.cpu().numpy(), expected[-1:], rtol=2e-7, atol=1.2e-38)
        assert np.isnan(expected[-1]) or np.signbit(result.cpu().numpy()[0]) == np.signbit(expected[-1])


@pytest.mark.parametrize("value, place", [(10.0, 0), (-10.0, 0), (10.0, 500), (1e30, 0), (np.inf, 0), (1e-30, 0)])
@pytest.mark.parametrize("shape, dim", [((300,), 0), ((3000, 2), 0), ((2, 40000), 1), ((1 << 16,), 0)])
def test_a_running_product_of_0_stays_0_before_factors_that_overflow_by_themselves(gpu, value, place, shape, dim):
    x = np.full(shape, value, np.float32)
    np.moveaxis(x, dim, 0)[min(place, shape[dim] - 1)] = 0
    with np.errstate(all="ignore"):
        want = np.cumprod(x, dim)
    got = volta.tensor(x, device=gpu).cumprod(dim).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert np.array_equal(np.signbit(got), np.signbit(want)) or np.isnan(want).any()
