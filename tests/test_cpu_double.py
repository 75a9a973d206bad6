"""float64 functions of the CPU that are polynomials, beside the same in extended precision."""
import math

import numpy as np
import pytest

import volta

rng = np.random.default_rng(5)
NUMBERS = np.concatenate([rng.uniform(-745, 709.7, 20000), rng.standard_normal(20000) * 3, rng.standard_normal(9000) * 1e-3,
                          rng.uniform(-1e-12, 1e-12, 1000), rng.uniform(-745, -700, 1003)])
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 710.5, 709.78, -745.1, -745.2, -750.0])
ANGLES = np.concatenate([rng.uniform(-10, 10, 20000), rng.uniform(-2e6, 2e6, 20000), np.pi / 2 * rng.integers(-700000, 700000, 9000)])
POSITIVE = np.concatenate([np.exp(rng.uniform(-744, 709, 20000)), rng.uniform(0.5, 2, 20000), 1 + rng.standard_normal(9000) * 1e-6])
POWERS = np.concatenate([rng.uniform(-1074, 1023.9, 20000), np.arange(-1074.0, 1024)])


def _bessel(x, order):
    """The modified function of the first kind, by its series."""
    term = total = (np.abs(x) / 2) ** order
    for k in range(1, 120):
        term = term * (x / 2) ** 2 / (k * (k + order))
        total = total + term
    return np.copysign(total, x) if order else total


EXACT = {"exp": np.exp, "expm1": np.expm1, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "exp2": np.exp2, "log": np.log,
         "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "erf": np.vectorize(math.erf, otypes=[float]),
         "i0": lambda x: _bessel(x, 0), "i1": lambda x: _bessel(x, 1)}
PLACES = {"exp2": POWERS, "log": POSITIVE, "log1p": POSITIVE[POSITIVE > 1e-15] - 1, "sin": ANGLES, "cos": ANGLES, "tan": ANGLES,
          "erf": NUMBERS[20000:], "i0": ANGLES[:20000] * 3, "i1": ANGLES[:20000] * 3}
FUNCTIONS = {name: getattr(volta, name, None) or getattr(volta.special, name) for name in EXACT}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="there is no wider number")
@pytest.mark.parametrize("name, most", (
    ("exp", 1.0), ("expm1", 2.0), ("tanh", 2.5), ("sigmoid", 2.5), ("exp2", 1.5), ("log", 1.0), ("log1p", 1.5), ("sin", 1.0), ("cos", 1.0),
    ("tan", 2.5), ("erf", 3.0), ("i0", 20.0), ("i1", 20.0)))         # those of Bessel have the square's rounding, times |x|
def test_units_in_the_last_place(name, most):
    x = PLACES.get(name, NUMBERS)
    exact = EXACT[name](x.astype(np.longdouble))
    found = FUNCTIONS[name](volta.tensor(x)).numpy()
    assert (np.abs(found.astype(np.longdouble) - exact) / np.spacing(np.abs(exact).astype(float))).max() < most


@pytest.mark.parametrize("name", ("exp", "expm1", "tanh", "exp2", "log", "log1p", "sin", "cos", "tan", "erf"))
def test_special_values(name):
    with np.errstate(all="ignore"):
        exact = EXACT[name](SPECIAL)
    found = getattr(volta, name)(volta.tensor(SPECIAL)).numpy()
    np.testing.assert_array_max_ulp(np.nan_to_num(found), np.nan_to_num(exact), maxulp=1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    assert (np.signbit(found) == np.signbit(exact))[~np.isnan(exact)].all()


@pytest.mark.parametrize("name", tuple(EXACT))
def test_is_the_same_wherever_it_lies(name):
    function, x = FUNCTIONS[name], volta.tensor(PLACES.get(name, NUMBERS)[:50])
    whole = function(x).numpy()
    for start in range(50):
        assert function(x[start:]).numpy().tobytes() == whole[start:].tobytes()
