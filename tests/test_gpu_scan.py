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
