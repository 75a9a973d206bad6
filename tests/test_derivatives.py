"""torch.autograd.functional beside PyTorch's: values, graphs, what `strict` and shapes refuse."""
import numpy as np
import pytest

import volta
from volta.autograd import functional
from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from volta.trees import flatten

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")

VALUES = ([0.5, 1.0, -2.0], [1.5, 2.0, 0.25])


def _inputs(lib):
    return tuple(lib.tensor(v) for v in VALUES)


def _several(lib):
    return lambda x, y: (x * y.exp(), (x * x).sum() * y[:2])


def _number(lib):
    return lambda x, y: (x.pow(3) * y).sum() + (y * y).prod()


CALLS = {
    "jacobian": lambda m, lib: m.jacobian(_several(lib), _inputs(lib)),
    "jacobian of one": lambda m, lib: m.jacobian(lambda x: x.pow(3), _inputs(lib)[0]),
    "jacobian, vectorized": lambda m, lib: m.jacobian(_several(lib), _inputs(lib), vectorize=True),
    "jacobian, forward": lambda m, lib: m.jacobian(_several(lib), _inputs(lib), vectorize=True, strategy="forward-mode"),
    "jacobian, strict": lambda m, lib: m.jacobian(_several(lib), _inputs(lib), strict=True),
    "hessian": lambda m, lib: m.hessian(_number(lib), _inputs(lib)),
    "hessian, forward": lambda m, lib: m.hessian(_number(lib), _inputs(lib), vectorize=True, outer_jacobian_strategy="forward-mode"),
    "hessian, strict": lambda m, lib: m.hessian(_number(lib), _inputs(lib), strict=True),
    "hessian of one element": lambda m, lib: m.hessian(lambda x: x.pow(3).sum().reshape(1, 1), _inputs(lib)[0]),
    "vjp": lambda m, lib: m.vjp(_several(lib), _inputs(lib), (lib.arange(3.0), lib.ones(2))),
    "vjp of a number": lambda m, lib: m.vjp(_number(lib), _inputs(lib), strict=True),
    "jvp": lambda m, lib: m.jvp(_several(lib), _inputs(lib), (lib.arange(3.0), lib.ones(3)), strict=True),
    "jvp of a number": lambda m, lib: m.jvp(lambda x: x * lib.ones(3), lib.tensor([2.0])),
    "hvp": lambda m, lib: m.hvp(_number(lib), _inputs(lib), (lib.arange(3.0), lib.ones(3)), strict=True),
    "vhp": lambda m, lib: m.vhp(_number(lib), _inputs(lib), (lib.arange(3.0), lib.ones(3)), strict=True),
    "vhp of one": lambda m, lib: m.vhp(lambda x: x.pow(3).sum().reshape(1), _inputs(lib)[0], lib.ones(3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_values(name):
    ours, theirs = flatten(CALLS[name](functional, volta))[0], flatten(CALLS[name](torch.autograd.functional, torch))[0]
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape and not a.requires_grad
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_functions_are_called_once():
    calls = []

    def number(x):
        calls.append(1)
        return x.pow(3).sum()
    functional.hvp(number, volta.ones(2), volta.ones(2))
    assert len(calls) == 1


def test_results_may_keep_their_graph():
    def run(lib, module):
        w = lib.tensor(2.0, requires_grad=True)
        x = _inputs(lib)[0]
        found = [module.jacobian(lambda v: v.pow(2) * w * w, x, create_graph=True).sum(),
                 module.hvp(lambda v: v.pow(3).sum() * w * w, x, lib.ones(3), create_graph=True)[1].sum()]
        return [lib.autograd.grad(f, w)[0].item() for f in found]
    np.testing.assert_allclose(run(volta, functional), run(torch, torch.autograd.functional), rtol=1e-5)


CUT = {name: (lambda m, lib, name=name: getattr(m, name)(lambda x: (x * x).detach().sum(), lib.ones(3), strict=True))
       for name in ("jacobian", "hessian", "vjp")} | {
    name: (lambda m, lib, name=name: getattr(m, name)(lambda x: (x * x).detach().sum(), lib.ones(3), lib.ones(3), strict=True))
    for name in ("jvp", "hvp", "vhp")}
INDEPENDENT = {
    "is independent of input 1": lambda m, lib: m.jacobian(lambda x, y: x * 2, _inputs(lib), strict=True),
    "independent": lambda m, lib: m.hessian(lambda x, y: (x * x).sum() + (y * y).sum(), _inputs(lib), strict=True),
    "for input 0 is independent of the input, which strict=True refuses with create_graph=True":
        lambda m, lib: m.jvp(lambda x: x * 2, lib.ones(3), lib.ones(3), strict=True, create_graph=True),
    "for input 0 is independent of the input, which strict=True refuses$":
        lambda m, lib: m.vhp(lambda x: (x * 2).sum(), lib.ones(3), lib.ones(3), strict=True),
}


@pytest.mark.parametrize("call, text", [(call, f"{name}: output 0 does not require grad") for name, call in CUT.items()] + [
    (call, text) for text, call in INDEPENDENT.items()])
def test_strict_refuses_zeros(call, text):
    with pytest.raises(AutogradError, match=text):
        call(functional, volta)
    with pytest.raises(RuntimeError):
        call(torch.autograd.functional, torch)


@pytest.mark.parametrize("call, error, text", [
    (lambda: functional.vjp(lambda x: x * 2, volta.ones(3)), ArgumentError, "vjp: v may be left out only where the output is one tensor"),
    (lambda: functional.jvp(lambda x: x * 2, volta.ones(3)), ArgumentError, "jvp: v may be left out only where the input is one tensor"),
    (lambda: functional.hvp(lambda x: x.sum(), volta.ones(3)), ArgumentError, "hvp: v may be left out"),
    (lambda: functional.jvp(lambda x: x, volta.ones(3), volta.ones(2)), ShapeError, r"jvp: v must have the shapes of the inputs, .*\(2,\)"),
    (lambda: functional.vjp(lambda x: x, volta.ones(3), volta.ones(2)), ShapeError, "vjp: v must have the shapes of the outputs"),
    (lambda: functional.hessian(lambda x: x * 2, volta.ones(3)), ShapeError, "hessian: the function must give one tensor with a single"),
    (lambda: functional.jacobian(lambda x: x, 3.0), DTypeError, "jacobian: inputs must be a tensor or a tuple of tensors, got float"),
    (lambda: functional.jacobian(lambda x: x, volta.ones(2), strategy="x"), ArgumentError, "jacobian: strategy must be"),
    (lambda: functional.hessian(lambda x: x.sum(), volta.ones(2), outer_jacobian_strategy="x"), ArgumentError, "hessian: outer_jacobian"),
    (lambda: functional.jacobian(lambda x: x, volta.ones(2), strict=True, strategy="forward-mode"), ArgumentError, "strict=True goes with"),
])
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
