"""Derivatives under `vmap`, functions that give nothing, and names that are loaded late."""
import subprocess
import sys
import warnings

import numpy as np
import pytest

import volta
from volta.errors import AutogradError


@pytest.mark.parametrize("function", [
    lambda x: volta.linalg.eigvalsh(x) ** 2, lambda x: volta.linalg.svdvals(x) ** 2, lambda x: volta.linalg.cond(x),
    lambda x: volta.norm(x, "nuc"), lambda x: volta.linalg.qr(x, mode="r")[1], lambda x: volta.ormqr(x, x[0], x),
    lambda x: volta.linalg.householder_product(x, x[0]), lambda x: volta.linalg.eigvalsh(x, UPLO="U"), lambda x: volta.block_diag(x, x)])
def test_derivatives_of_what_has_a_shorter_way_without_one(function, rng):
    """Whether a sample's derivative is wanted is its batch's to say."""
    made = rng.standard_normal((2, 3, 3))
    a = volta.tensor(made + np.swapaxes(made, 1, 2) + 4 * np.eye(3))
    for derivative in (volta.func.grad(lambda x: function(x).sum()), volta.func.jacfwd(function),
                       volta.func.hessian(lambda x: function(x).sum())):
        found = volta.vmap(derivative)(a)
        for x, each in zip(a, found):
            np.testing.assert_allclose(each.numpy(), derivative(x).numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["vmap", "func", "vjp"])
def test_what_is_loaded_late_may_be_asked_for_first(name):
    text = {"vmap": "volta.vmap(lambda x: x * 2)(volta.ones(2))", "func": "volta.func.grad(lambda x: x * x)(volta.ones(()))",
            "vjp": "volta.autograd.functional.vjp(lambda x: x * 2, volta.ones(1))"}[name]
    subprocess.run([sys.executable, "-c", f"import volta; {text}"], check=True)


@pytest.mark.parametrize("nothing", [(), [], {}])
def test_functions_that_give_no_tensor_have_no_derivative(nothing):
    x, func = volta.ones(2), volta.func
    for name, call in {"vjp": lambda f: func.vjp(f, x), "jvp": lambda f: func.jvp(f, (x,), (x,)), "jacrev": lambda f: func.jacrev(f)(x),
                       "jacfwd": lambda f: func.jacfwd(f)(x), "linearize": lambda f: func.linearize(f, x)}.items():
        with pytest.raises(RuntimeError, match=f"{name}: the function gives no tensor, so there is nothing to differentiate"):
            call(lambda x: nothing)


def test_norms_of_order_0_have_a_tangent_and_samples():
    x = volta.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
    value, tangent = volta.func.jvp(lambda x: volta.linalg.vector_norm(x, 0), (x,), (x,))
    assert value.item() == 3 and tangent.item() == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert volta.vmap(volta.func.grad(lambda x: x.norm(0) + x.sum()))(x).tolist() == [[1.0] * 3] * 2


def test_tensors_for_modules_that_are_not_there():
    model = volta.nn.Sequential(volta.nn.Linear(2, 2), volta.nn.ReLU())
    for name in ("zz", "0.zz", "1.q"):
        assert volta.func.functional_call(model, {name: volta.ones(2, 2)}, volta.ones(1, 2)).shape == (1, 2)
    for name in ("zz.q", "0.zz.q", "5.weight"):
        with pytest.raises(AttributeError, match=name.split(".")[-2]):
            volta.func.functional_call(model, {name: volta.ones(2, 2)}, volta.ones(1, 2))


def _scaled(x):
    x.mul_(3)
    return (x * x).sum()


def _through_a_view(x):
    x[:1].mul_(3)
    return (x * x).sum()


def _written(x):
    x[0] = 7.0
    return (x * x).sum()


@pytest.mark.parametrize("change", [_scaled, _through_a_view, _written])
@pytest.mark.parametrize("inner", ["grad", "jacrev", "hessian"])
def test_what_is_differentiated_for_is_not_changed_in_place(change, inner):
    """Also where it wants a gradient itself, which had been silently that of what it is afterwards."""
    derive = getattr(volta.func, inner)(change)
    for x in (volta.ones(2), volta.ones(2, requires_grad=True) * 2):
        with pytest.raises(AutogradError, match="in place|would be missing from its history"):
            derive(x)
    with pytest.raises(AutogradError, match="in place|would be missing from its history"):
        volta.func.jacrev(lambda x: derive(x * 1))(volta.ones(2))
    with pytest.raises(AutogradError, match="in place|would be missing from its history"):
        volta.func.vjp(change, volta.ones(2, requires_grad=True) * 2)


@pytest.mark.parametrize("change, factors", [(_scaled, (9, 9)), (_through_a_view, (9, 1)), (_written, (0, 1))])
def test_forward_derivatives_follow_changes_in_place(change, factors):
    """As in PyTorch, also of what wants a gradient, and nested."""
    for made in (lambda: volta.tensor([1.0, 2.0]), lambda: volta.tensor([1.0, 2.0], requires_grad=True) * 1):
        x = made()
        value, tangent = volta.func.jvp(change, (x,), (volta.tensor([1.0, 3.0]),))
        assert tangent.item() == 2 * factors[0] + 12 * factors[1] and value.item() == (x * x).sum().item()
        assert volta.func.jacfwd(change)(made()).tolist() == [2 * factors[0], 4 * factors[1]]
        assert volta.func.linearize(change, made())[1](volta.ones(2)).item() == 2 * factors[0] + 4 * factors[1]
    second = volta.func.jacfwd(lambda x: volta.func.jacfwd(change)(x))(volta.tensor([1.0, 2.0]))
    assert second.tolist() == [[2 * factors[0], 0], [0, 2 * factors[1]]]


def test_forward_derivatives_of_what_is_changed_after_use():
    """What is kept of the inputs is kept as it was."""
    x, t = volta.tensor([2.0, 3.0]), volta.tensor([1.0, 1.0])

    def swapped(x):
        x[0] = x[1] * x[0]
        return x
    for function, value, slope in ((lambda x: x.copy_(x * x), [4, 9], [4, 6]), (lambda x: x.copy_(x * x) * x, [16, 81], [32, 108]),
                                   (swapped, [6, 3], [5, 1]), (lambda x: x.mul_(x), [4, 9], [4, 6])):
        own = x.clone()
        found = volta.func.jvp(function, (own,), (t,))
        assert found[0].tolist() == value and found[1].tolist() == slope
        assert volta.func.linearize(function, x.clone())[1](t).tolist() == slope
    assert own.tolist() == [4, 9]                       # as in PyTorch, the argument itself
    inner = volta.func.jvp(lambda x: volta.func.jvp(volta.sin, (x.mul_(x),), (x * 2,))[1], (x.clone(),), (t,))[1]
    want = volta.func.jvp(lambda x: volta.func.jvp(volta.sin, (x * x,), (x * x * 2,))[1], (x,), (t,))[1]
    assert inner.tolist() == pytest.approx(want.tolist())


def test_what_stands_for_all_samples():
    seen = []

    def look(x):
        seen.extend(volta.func.debug_unwrap(x, recurse=recurse) for recurse in (True, False))
        return x
    x = volta.arange(6.0).reshape(2, 3)
    volta.vmap(volta.vmap(look))(x)
    assert seen[0].tolist() == x.tolist() and seen[1].ndim == 1 and volta.func.debug_unwrap(x) is x
