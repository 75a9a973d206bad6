"""The gradient of sampled images on the GPU: of few images together, and of many by themselves, whose keys then have fewer digits."""
from __future__ import annotations

import numpy as np
import pytest
from gpu_arrays import numbers

import volta
import volta.nn.functional as F

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("shape, places, mode", [
    *(((2, 3, 30, 33), (20, 21), mode) for mode in ("nearest", "bilinear", "bicubic")),
    *(((12, 2, 80, 80), (40, 35), mode) for mode in ("nearest", "bilinear", "bicubic")),
    *(((11, 1, 20, 20, 18), (11, 12, 12), mode) for mode in ("nearest", "bilinear"))])
def test_gradient_of_images(shape, places, mode, padding):
    grid = np.random.default_rng(0).random((shape[0], *places, len(places))).astype(np.float32) * 2.6 - 1.3
    g, found = numbers(*shape[:2], *places, seed=1), []
    for device in ("cpu", "gpu"):
        x = volta.tensor(numbers(*shape), device=device, requires_grad=True)
        out = F.grid_sample(x, volta.tensor(grid, device=device), mode=mode, padding_mode=padding, align_corners=False)
        (out * volta.tensor(g, device=device)).sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-4)
