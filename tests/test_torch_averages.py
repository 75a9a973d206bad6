"""Averages of volumes' windows against PyTorch."""
import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch", reason="compares with PyTorch")


@pytest.mark.parametrize("kernel, stride, padding, options", [(3, 2, 0, {}), (3, 2, 1, {}), (2, 1, 1, {"count_include_pad": False}),
                                                              (4, 4, 0, {}), ((1, 3, 3), 1, (0, 1, 1), {}), ((3, 1, 2), (2, 1, 3), 0, {}),
                                                              (3, 2, 1, {"divisor_override": 7}), (3, 2, 1, {"ceil_mode": True})])
@pytest.mark.parametrize("width", [7, 16, 1030])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_averages_of_volumes(kernel, stride, padding, options, width, dtype, rng):
    """Lines of windows by sums of columns, and those too long for that."""
    x = rng.standard_normal((2, 3, 6, 7, width)).astype(dtype)
    wanted = torch.nn.functional.avg_pool3d(torch.tensor(x), kernel, stride, padding, **options).numpy()
    found = volta.nn.functional.avg_pool3d(volta.tensor(x), kernel, stride, padding, **options).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6 if dtype == np.float32 else 1e-14)
