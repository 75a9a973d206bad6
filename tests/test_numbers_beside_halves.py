"""Python numbers beside float16 and bfloat16, compared with PyTorch on the CPU."""
import math

import numpy as np
import pytest

import volta
from volta.ops.table import RECORDS

torch = pytest.importorskip("torch")
EXACT = "add sub eq ne lt le gt ge remainder fmod".split()
STEP = {"float16": 2.0 ** -10, "bfloat16": 2.0 ** -7}


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("number", [0.1, -0.3333, 7.3, 1e-3, 1e-7, 2049, 3, math.inf, math.nan])
@pytest.mark.parametrize("name", [*EXACT, "pow", "xlogy", "mul", "div"])
def test_numbers_are_rounded_first(name, number, dtype):
    """So that `x == 0.1` holds where x is what 0.1 becomes; factors and divisors are taken as they are."""
    def results(lib):
        x = lib.tensor([number, 0.1, -0.3333, 7.3, 1.0, 2050.0, 0.0], dtype=getattr(lib, dtype))
        found = [getattr(lib, name)(x, number), getattr(x.clone(), f"{name}_")(number)]
        if name == "sub":
            found += [number - x, lib.rsub(x, number)]
        if name in ("remainder", "pow"):
            found.append(getattr(lib, name)(number, x))
        return [y.double().tolist() for y in found]
    allowed = {} if name in EXACT else {"rtol": STEP[dtype], "atol": 1e-7}
    np.testing.assert_allclose(results(volta), results(torch), **(allowed or {"rtol": 0, "atol": 0}))


@pytest.mark.parametrize("dtype", STEP)
def test_the_rounded_number_is_what_the_derivative_is_of(dtype):
    x = volta.tensor([3.0], dtype=getattr(volta, dtype), requires_grad=True)
    exponent = volta.tensor(7.3, dtype=x.dtype).item()
    (x ** 7.3).sum().backward()
    assert abs(x.grad.item() / (exponent * 3 ** (exponent - 1)) - 1) < 2 * STEP[dtype]


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("name", ["special.xlog1py", "xlogy", "pow"])
def test_results_are_those_of_a_tensor_of_the_rounded_number(name, dtype):
    f = RECORDS[name.rpartition(".")[2]]
    x = volta.linspace(0.6, 3.7, 400).to(getattr(volta, dtype))
    number = volta.tensor(1.70013, dtype=x.dtype)
    assert volta.equal(f(x, 1.70013), f(x, number)) and volta.equal(f(1.70013, x), f(number, x))


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_factors_in_tensors_are_taken_as_they_are(kind, dtype, each):
    def check(name, number, options):
        def results(lib):
            x, y = lib.arange(-50, 50, dtype=lib.float32).to(getattr(lib, dtype)), lib.tensor([number]).to(getattr(lib, kind))[0]
            found = [getattr(lib, name)(x, y, **options), getattr(x.clone(), f"{name}_")(y, **options)]
            want = x.clone().requires_grad_()
            getattr(lib, name)(want, y, **options).sum().backward()
            return [z.double().tolist() for z in (*found, want.grad)]
        np.testing.assert_array_equal(results(volta), results(torch))
    each(check, ["mul", "div"], [0.1, -0.3, 1e-7, 7.3, 1 / 3, 0.0], [{}])
    each(check, ["div"], [0.1, -0.3, 7.3], [{"rounding_mode": "floor"}, {"rounding_mode": "trunc"}])
    x = volta.ones(3, dtype=volta.float16)
    y = volta.tensor(0.1, requires_grad=True)           # a number that a gradient flows to stays a tensor
    (x * y).sum().backward()
    assert y.grad.item() == 3 and (x * volta.tensor(2)).dtype is volta.float16


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("alpha", [0.3, -1e-3, 7.3])
def test_multiples_that_are_added_are_of_the_rounded_number(dtype, alpha):
    """Also where a gradient is wanted, and in place: as optimizers add them. (PyTorch rounds the rest of a line, which is too short for a
    vector, differently.)"""
    rng = np.random.default_rng(0)
    x, y = (volta.tensor(rng.standard_normal(4096).astype(np.float32)).to(getattr(volta, dtype)) for _ in range(2))
    near = volta.tensor(alpha).to(x.dtype).float()
    expected = {name: getattr(x.double(), name)(y.double() * near.double()).to(x.dtype) for name in ("add", "sub")}
    for name, want in expected.items():
        for found in (getattr(volta, name)(x, y, alpha=alpha), getattr(x.clone(), f"{name}_")(y, alpha=alpha),
                      getattr(x.clone().requires_grad_(), name)(y, alpha=alpha)):
            assert (found.detach().double() != want.double()).sum().item() < 20
        a, b = (torch.tensor(t.float().numpy()).to(getattr(torch, dtype)) for t in (x, y))
        assert (getattr(a, name)(b, alpha=alpha).float().numpy() != want.float().numpy()).sum() < 20
    assert volta.add(x.requires_grad_(), y, alpha=alpha).grad_fn.name() == "AddBackward0"


@pytest.mark.parametrize("dtype", STEP)
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_wider_tensors_without_dimensions_are_rounded_first(name, dtype, place):
    def results(lib):
        rng = np.random.default_rng(0)
        given = [lib.tensor(rng.uniform(0.5, 2.0, 400).astype(np.float32)).to(getattr(lib, dtype)) for _ in range(2)]
        given.insert(place, lib.tensor(0.37137))
        return getattr(lib, name)(*given, value=0.3).double().tolist()
    assert np.equal(results(volta), results(torch)).mean() > 0.99


@pytest.mark.parametrize("dtype", STEP)
def test_exponents_without_dimensions_are_not_rounded(dtype):
    def results(lib):
        x = lib.tensor(np.random.default_rng(0).uniform(0.5, 2.0, 400).astype(np.float32)).to(getattr(lib, dtype))
        return lib.ldexp(x, lib.tensor(0.37137)).double().tolist()
    assert results(volta) == results(torch)
