"""Window functions against NumPy's, which are symmetric."""
import numpy as np
import pytest

import volta
from volta.errors import DTypeError, ShapeError

WINDOWS = {"bartlett_window": np.bartlett, "blackman_window": np.blackman, "hamming_window": np.hamming, "hann_window": np.hanning,
           "kaiser_window": lambda n: np.kaiser(n, 12.0)}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 8, 1001])
def test_values(name, length, device):
    make, reference = getattr(volta, name), WINDOWS[name]
    for dtype, tolerance in ((volta.float32, 2e-6), (volta.float16, 1e-3)) + ((volta.float64, 1e-13),) * (device == "cpu"):
        symmetric, periodic = make(length, False, dtype=dtype, device=device), make(length, dtype=dtype, device=device)
        assert symmetric.dtype is periodic.dtype is dtype and symmetric.device == volta.device(device)
        np.testing.assert_allclose(symmetric.numpy(), reference(length), rtol=tolerance, atol=tolerance)
        expected = reference(length + 1)[:-1] if length > 1 else np.ones(length)             # as in PyTorch
        np.testing.assert_allclose(periodic.numpy(), expected, rtol=tolerance, atol=tolerance)


def test_shapes_of_windows(device):
    found = volta.hamming_window(5, False, 0.6, 0.3, device=device)
    np.testing.assert_allclose(found.numpy(), 0.6 - 0.3 * np.cos(np.linspace(0, 2 * np.pi, 5)), rtol=1e-6, atol=1e-6)
    found = volta.kaiser_window(5, periodic=False, beta=3.0, device=device, requires_grad=True)
    np.testing.assert_allclose(found.detach().numpy(), np.kaiser(5, 3.0), rtol=1e-6)
    assert found.requires_grad


def test_what_is_refused():
    for make, error, text in ((lambda: volta.hann_window(-1), ShapeError, "must not be negative"),
                              (lambda: volta.hann_window(2.5), DTypeError, "window_length must be an integer"),
                              (lambda: volta.hann_window(3, dtype=volta.int64), DTypeError, "needs a floating point dtype")):
        with pytest.raises(error, match=text):
            make()
