"""float64 functions of the CPU that are polynomials, beside the same in extended precision."""
import math

import numpy as np
import pytest

import volta
from volta._kernels.cpu import elementwise

rng = np.random.default_rng(5)
NUMBERS = np.concatenate([rng.uniform(-745, 709.7, 20000), rng.standard_normal(20000) * 3, rng.standard_normal(9000) * 1e-3,
                          rng.uniform(-1e-12, 1e-12, 1000), rng.uniform(-745, -700, 1003)])
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 710.5, 709.78, -745.1, -745.2, -750.0])
ANGLES = np.concatenate([rng.uniform(-10, 10, 20000), rng.uniform(-2e6, 2e6, 20000), np.pi / 2 * rng.integers(-700000, 700000, 9000)])
POSITIVE = np.concatenate([np.exp(rng.uniform(-744, 709, 20000)), rng.uniform(0.5, 2, 20000), 1 + rng.standard_normal(9000) * 1e-6])
UNITS = np.r_[rng.uniform(-1, 1, 20000), 1 - 10 ** rng.uniform(-15, -1, 9000), NUMBERS[40000:50000], 1.0, -1.0]
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
         "i0": lambda x: _bessel(x, 0), "i1": lambda x: _bessel(x, 1), "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt,
         "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atanh": np.arctanh, "erfc": np.vectorize(math.erfc, otypes=[float])}
PLACES = {"exp2": POWERS, "log": POSITIVE, "log1p": POSITIVE[POSITIVE > 1e-15] - 1, "sin": ANGLES, "cos": ANGLES, "tan": ANGLES,
          "log2": np.r_[POSITIVE, 2.0 ** np.arange(-1000, 1000)], "log10": np.r_[POSITIVE, 10.0 ** np.arange(-300, 300)], "sqrt": POSITIVE,
          "asin": UNITS, "acos": UNITS, "atanh": UNITS[np.abs(UNITS) < 1], "atan": np.r_[ANGLES[:20000], 1 / ANGLES],
          "erfc": ANGLES[:20000] * 2, "erf": NUMBERS[20000:], "i0": ANGLES[:20000] * 3, "i1": ANGLES[:20000] * 3}
FUNCTIONS = {name: getattr(volta, name, None) or getattr(volta.special, name) for name in EXACT}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="there is no wider number")
@pytest.mark.parametrize("name, most", (
    ("exp", 1.0), ("expm1", 2.0), ("tanh", 2.5), ("sigmoid", 2.5), ("exp2", 1.5), ("log", 1.0), ("log1p", 1.5), ("sin", 1.0), ("cos", 1.0),
    ("tan", 2.5), ("erf", 3.0), ("log2", 1.5), ("log10", 1.5), ("sqrt", 0.501), ("asin", 1.5), ("acos", 1.5), ("atan", 1.5), ("atanh", 3.0),
    ("erfc", 6.0), ("i0", 20.0), ("i1", 20.0)))         # those of Bessel have the square's rounding, times |x|
def test_units_in_the_last_place(name, most):
    x = PLACES.get(name, NUMBERS)
    exact = EXACT[name](x.astype(np.longdouble))
    found = FUNCTIONS[name](volta.tensor(x)).numpy()
    assert (np.abs(found.astype(np.longdouble) - exact) / np.spacing(np.abs(exact).astype(float))).max() < most


@pytest.mark.parametrize("name", ("exp", "expm1", "tanh", "exp2", "log", "log1p", "sin", "cos", "tan", "erf", "log2", "log10",
                                  "sqrt", "asin", "acos", "atan", "atanh", "erfc"))
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


def test_logarithms_of_powers_are_exact():
    n = np.arange(-300.0, 300)
    np.testing.assert_array_equal(volta.log10(volta.tensor([float(f"1e{int(i)}") for i in n], dtype=volta.float64)).numpy(), n)
    n = np.arange(-1074.0, 1024)
    np.testing.assert_array_equal(volta.log2(volta.tensor(2.0 ** n)).numpy(), n)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="there is no wider number")
def test_powers_and_roots_of_squares():
    x, y = np.exp(rng.uniform(-700, 700, 20000)), rng.standard_normal(20000)
    exact = np.exp(np.log(x.astype(np.longdouble)) * y)
    near = (exact < 1.7e308) & (exact > 1e-300)
    found = volta.pow(volta.tensor(x), volta.tensor(y)).numpy()
    error = np.abs(found.astype(np.longdouble) - exact)[near] / np.spacing(exact[near].astype(float))
    assert error.max() < 2                              # the exact ones are rounded, too
    exact = np.hypot(x.astype(np.longdouble), x[::-1] * y)
    found = volta.hypot(volta.tensor(x), volta.tensor(x[::-1] * y)).numpy()
    assert (np.abs(found - exact) / np.spacing(exact.astype(float))).max() < 1.5


def test_powers_of_special_numbers():
    some = [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 2.5, np.inf, -np.inf, np.nan, 1e300, 5e-324, 2.0 ** 53, 2.0 ** 53 - 1, -1e18]
    x, y = (a.reshape(-1) for a in np.meshgrid(some, some))
    with np.errstate(all="ignore"):
        exact = np.power(x, y)
    found = volta.pow(volta.tensor(x), volta.tensor(y)).numpy()
    np.testing.assert_array_max_ulp(np.nan_to_num(found), np.nan_to_num(exact), maxulp=1)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(exact)], np.signbit(exact)[~np.isnan(exact)])


def test_remainders_are_exact():
    a = np.r_[rng.standard_normal(9000) * 100, rng.integers(-50, 50, 9000), rng.integers(-50, 50, 9000) * 0.1, SPECIAL,
              np.exp(rng.uniform(-40, 40, 9000))]
    b = np.r_[rng.standard_normal(9000), rng.integers(-9, 9, 9000), rng.integers(1, 9, 9000) * 0.1, SPECIAL[::-1],
              np.exp(rng.uniform(-40, 40, 9000))]
    with np.errstate(all="ignore"):
        for name, exact in (("fmod", np.fmod(a, b)), ("remainder", np.fmod(a, b) + np.where(
                (np.fmod(a, b) != 0) & ((np.fmod(a, b) < 0) != (b < 0)), b, 0))):
            np.testing.assert_array_equal(getattr(volta, name)(volta.tensor(a), volta.tensor(b)).numpy(), exact)


def test_inverses_of_the_error_function():
    x = UNITS[np.abs(UNITS) < 1]
    back = volta.erf(volta.erfinv(volta.tensor(x))).numpy()
    np.testing.assert_allclose(back, x, rtol=4e-16, atol=3e-16)
    p = np.r_[rng.uniform(0, 1, 9000), 10 ** rng.uniform(-300, -1, 9000)]
    np.testing.assert_allclose(volta.special.ndtr(volta.special.ndtri(volta.tensor(p))).numpy(), p, rtol=4e-13)
    special = [0.0, -0.0, 1.0, -1.0, 1.5, np.nan]
    np.testing.assert_array_equal(volta.erfinv(volta.tensor(special, dtype=volta.float64)).numpy(),
                                  [0, -0.0, np.inf, -np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(volta.special.ndtri(volta.tensor(special, dtype=volta.float64)).numpy(),
                                  [-np.inf, -np.inf, np.inf, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("beta, most", [(-1.0, 3e38), (1.0, 20.0), (0.25, 3.0)])
def test_softplus_grad(beta, most):
    """Of special values, and the same wherever an element lies."""
    rng = np.random.default_rng(2)
    x = np.concatenate([[0.0, -0.0, np.inf, -np.inf, np.nan, 745.0, -745.0, 1e300, -1e300, 5e-324], rng.standard_normal(993) * 8])
    g = np.concatenate([np.ones(10), rng.standard_normal(993)])
    with np.errstate(all="ignore"):
        z = x * beta
        want = np.where(z > most, g, g * np.where(z < 0, np.exp(-abs(z)), 1) / (1 + np.exp(-abs(z))))
    kernel = elementwise.KERNELS["softplus_grad"]
    got = kernel(volta.tensor(g), volta.tensor(x), beta, most).numpy()
    assert np.array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_max_ulp(np.nan_to_num(got), np.nan_to_num(want), maxulp=4)
    for start, stop in ((1, 2), (3, 12), (500, 1003)):
        part = kernel(volta.tensor(g[start:stop].copy()), volta.tensor(x[start:stop].copy()), beta, most).numpy()
        assert np.array_equal(part, got[start:stop], equal_nan=True)
