"""float64 functions of the CPU that are polynomials, beside the same in extended precision."""
import numpy as np
import pytest

import volta

rng = np.random.default_rng(5)
NUMBERS = np.concatenate([rng.uniform(-745, 709.7, 20000), rng.standard_normal(20000) * 3, rng.standard_normal(9000) * 1e-3,
                          rng.uniform(-1e-12, 1e-12, 1000), rng.uniform(-745, -700, 1003)])
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 710.5, 709.78, -745.1, -745.2, -750.0])
EXACT = {"exp": np.exp, "expm1": np.expm1, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x))}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="there is no wider number")
@pytest.mark.parametrize("name, most", (("exp", 1.0), ("expm1", 2.0), ("tanh", 2.5), ("sigmoid", 2.5)))
def test_units_in_the_last_place(name, most):
    exact = EXACT[name](NUMBERS.astype(np.longdouble))
    found = getattr(volta, name)(volta.tensor(NUMBERS)).numpy()
    assert (np.abs(found.astype(np.longdouble) - exact) / np.spacing(np.abs(exact).astype(float))).max() < most


@pytest.mark.parametrize("name", ("exp", "expm1", "tanh"))
def test_special_values(name):
    with np.errstate(over="ignore", under="ignore"):
        exact = EXACT[name](SPECIAL)
    found = getattr(volta, name)(volta.tensor(SPECIAL)).numpy()
    np.testing.assert_array_equal(found, exact)
    assert (np.signbit(found) == np.signbit(exact))[~np.isnan(exact)].all()


@pytest.mark.parametrize("name", tuple(EXACT))
def test_is_the_same_wherever_it_lies(name):
    function, x = getattr(volta, name), volta.tensor(NUMBERS[:50])
    whole = function(x).numpy()
    for start in range(50):
        assert function(x[start:]).numpy().tobytes() == whole[start:].tobytes()
