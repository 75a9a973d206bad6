"""How near the CPU's activations and losses come to float64, and what they make of special values."""
from __future__ import annotations

import numpy as np
import pytest
from test_cpu_kernels import KERNELS, SPECIAL, copy, upload


@pytest.mark.parametrize("name", ["expm1", "selu", "logsigmoid", "logistic_loss"])
def test_value_does_not_depend_on_the_place(name):
    """Vectors, and what is left over of them."""
    rng = np.random.default_rng(1)
    kernel = KERNELS[name]
    arrays = [rng.standard_normal(101).astype("f4") * 4 for _ in range(kernel.arity)]
    whole = copy.download(kernel(*[upload(a) for a in arrays]))
    for start, stop in ((0, 1), (3, 40), (50, 99)):
        part = copy.download(kernel(*[upload(np.ascontiguousarray(a[start:stop])) for a in arrays]))
        assert np.array_equal(part, whole[start:stop])


@pytest.mark.parametrize("name, numbers, function", [
    ("selu", (), lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    ("logsigmoid", (), lambda x: np.minimum(x, 0) - np.log1p(np.exp(-abs(x)))),
    ("elu", (1.5, 1.0), lambda x, a, b: np.where(x > 0, x, a * np.expm1(b * x))),
    ("elu", (-0.5, 3.0), lambda x, a, b: np.where(x > 0, x, a * np.expm1(b * x))),
    ("softplus", (1.0, 20.0), lambda x, b, most: np.where(x * b > most, x, np.logaddexp(0, x * b) / b)),
    ("softplus", (0.25, 3.0), lambda x, b, most: np.where(x * b > most, x, np.logaddexp(0, x * b) / b)),
])
def test_special_values_and_accuracy_beside_numbers(name, numbers, function):
    rng = np.random.default_rng(6)
    anything = rng.integers(0, 2**32, 20000, "u4").view("f4")
    x = np.concatenate([SPECIAL, anything, rng.standard_normal(20000).astype("f4") * 5, np.float32([-70, -90, -0.01, 19.99, 20.01])])
    with np.errstate(all="ignore"):
        exact = function(x.astype("f8"), *numbers)
        want = exact.astype("f4")
    got = copy.download(KERNELS[name](upload(x), *numbers))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(np.signbit(got[exact == 0]), np.signbit(want[exact == 0]))
    np.testing.assert_array_max_ulp(np.nan_to_num(got), np.nan_to_num(want), maxulp=4)


def test_logistic_loss_of_special_values():
    x, target = (grid.ravel() for grid in np.meshgrid(np.append(SPECIAL, np.float32([-5, -20, 30])), np.float32([0, 1, 0.25, 2, -1])))
    a, b = x.astype("f8"), target.astype("f8")
    with np.errstate(all="ignore"):
        want = a * ((a > 0) - b) + np.log1p(np.exp(-abs(a)))
    got = copy.download(KERNELS["logistic_loss"](upload(x), upload(target)))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, want.astype("f4"), rtol=3e-7, atol=1e-7)
