"""Wrong arguments of functions that differentiate, which PyTorch refuses too."""
import pytest

import volta
from volta import func
from volta.autograd import functional

ONES = volta.ones(3)


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
def test_outputs_and_vectors_are_tensors(name):
    with pytest.raises(TypeError, match=f"{name}: outputs of the function must be a tensor or a tuple of tensors, got int"):
        getattr(functional, name)(lambda x: 3, ONES, *[ONES] * (name not in ("jacobian", "hessian")))
    if name not in ("jacobian", "hessian"):
        with pytest.raises(TypeError, match=f"{name}: v must be a tensor or a tuple of tensors, got int"):
            getattr(functional, name)(lambda x: x.sum(), ONES, 3)


@pytest.mark.parametrize("name, argument", [("jacobian", "strategy"), ("hessian", "outer_jacobian_strategy")])
def test_strategies(name, argument):
    with pytest.raises(AssertionError, match=f"{name}: {argument} must be 'reverse-mode' or 'forward-mode', got 'none'"):
        getattr(functional, name)(lambda x: x.sum(), ONES, **{argument: "none"})
    with pytest.raises(RuntimeError, match=f"{name}: strict=True and vectorize=True do not go together"):
        getattr(functional, name)(lambda x: x.sum(), ONES, strict=True, vectorize=True)


def test_backward_to_what_wants_no_gradient():
    x, y = volta.ones(3, requires_grad=True), volta.ones(3)
    with pytest.raises(RuntimeError, match=r"backward: an input of shape \(3,\) does not require grad"):
        (x * 2).sum().backward(inputs=[x, y])
    assert x.grad is None


@pytest.mark.parametrize("transform", [func.grad, func.jacrev, func.jacfwd, func.grad_and_value])
def test_argnums(transform):
    def total(a, b):
        return (a * b).sum()
    with pytest.raises(RuntimeError, match=r"argnums must name different arguments, got \(0, -2\)"):
        transform(total, argnums=(0, -2))(ONES, ONES)
    for wrong in ("a", [0], (0, "a")):
        with pytest.raises(RuntimeError, match="argnums must be an integer or a tuple of them"):
            transform(total, argnums=wrong)(ONES, ONES)


@pytest.mark.parametrize("transform", [func.grad, func.jacrev, func.jacfwd])
def test_what_is_given_beside(transform):
    for given, words in [(lambda x: x.sum(), "got Tensor"), (lambda x: (x.sum(), 1, 2), "got tuple of 3")]:
        with pytest.raises(RuntimeError, match=f"with has_aux=True the function gives a tuple .*{words}"):
            transform(given, has_aux=True)(ONES)
