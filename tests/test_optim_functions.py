"""Steps as functions of lists of tensors, as torch.optim.adam.adam, beside PyTorch's."""
import importlib
import inspect

import numpy as np
import pytest

import volta
from volta.compat import modules, steps
from volta.errors import ArgumentError, DTypeError, ShapeError

torch = pytest.importorskip("torch", reason="compares with PyTorch")
DECAY, BETAS = {"weight_decay": 0.1, "maximize": False}, {"beta1": 0.9, "beta2": 0.99, "eps": 1e-6}
# How many lists of states, beside steps, and which settings, some with lists that are not in use.
CASES = {
    "adam": ("adam", [1, 1, 0], {"lr": 0.1, "amsgrad": False, **BETAS, **DECAY}),
    "adam, amsgrad": ("adam", [1, 1, 1], {"lr": 0.1, "amsgrad": True, **BETAS, **DECAY, "maximize": True}),
    "adam, decoupled": ("adam", [1, 1, 0], {"lr": 0.1, "amsgrad": False, "decoupled_weight_decay": True, **BETAS, **DECAY}),
    "adamw": ("adamw", [1, 1, 0], {"lr": 0.1, "amsgrad": False, **BETAS, **DECAY}),
    "rmsprop": ("rmsprop", [1, 0, 0], {"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "momentum": 0, "centered": False, **DECAY}),
    "rmsprop, all": ("rmsprop", [1, 1, 1], {"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "momentum": 0.8, "centered": True, **DECAY}),
    "adagrad": ("adagrad", [1], {"lr": 0.1, "lr_decay": 0.1, "eps": 1e-6, **DECAY}),
    "adadelta": ("adadelta", [1, 1], {"lr": 0.5, "rho": 0.9, "eps": 1e-6, **DECAY}),
    "adamax": ("adamax", [1, 1], {"lr": 0.1, **BETAS, **DECAY}),
    "radam": ("radam", [1, 1], {"lr": 0.1, **BETAS, **DECAY}),
}


def theirs(name):
    return getattr(importlib.import_module(f"torch.optim.{name}"), name)


def arrays(rng):
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((3, 2), (), (5,))]


@pytest.mark.parametrize("case", CASES)
def test_steps_as_pytorchs(case, rng):
    name, used, settings = CASES[case]
    params, grads = arrays(rng), [arrays(rng) for _ in range(7)]
    results = []
    for library, function in ((volta, getattr(steps, name)), (torch, theirs(name))):
        mine = [library.tensor(p.copy()) for p in params]
        states = [[library.zeros_like(p) for p in mine] if one else [] for one in used]
        counts = [library.tensor(float(start)) for start in (0, 0, 3)]
        for each in grads:
            assert function(mine, [library.tensor(g) for g in each], *states, counts, **settings) is None
        results.append([t.numpy() for t in (*mine, *sum(states, []), *counts)])
    for ours, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("momentum, nesterov, dampening", [(0, False, 0), (0.9, False, 0.2), (0.9, True, 0)])
def test_sgd_makes_buffers(momentum, nesterov, dampening, rng):
    params, grads, results = arrays(rng), [arrays(rng) for _ in range(3)], []
    for library, function in ((volta, steps.sgd), (torch, theirs("sgd"))):
        mine, buffers = [library.tensor(p.copy()) for p in params], [None, None, library.ones(5)]
        for each in grads:
            function(mine, [library.tensor(g) for g in each], buffers, momentum=momentum, nesterov=nesterov, dampening=dampening, lr=0.1,
                     **DECAY)
        results.append([t.numpy() for t in (*mine, *buffers) if t is not None])
    for ours, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", steps.__all__)
def test_arguments_are_pytorchs(name):
    ours, wanted = (inspect.signature(f).parameters for f in (getattr(steps, name), theirs(name)))
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [(p.name, p.kind, p.default) for p in wanted.values()]


def test_a_rate_that_is_a_tensor():
    p = volta.ones(2, requires_grad=True)
    with volta.no_grad():
        steps.adagrad([p], [volta.ones(2)], [volta.zeros(2)], [volta.tensor(0.)], lr=volta.tensor(0.5), lr_decay=0, eps=0, **DECAY)
    np.testing.assert_allclose(p.tolist(), [0.5, 0.5])


def test_what_is_refused_changes_nothing():
    def call(p=None, g=None, state=None, count=None, **more):
        steps.adamax([p], [g], [state], [volta.zeros(2)], [count], lr=0.1, **BETAS, **DECAY, **more)
    p, count = volta.ones(2), volta.tensor(0.)
    with pytest.raises(ShapeError, match="its gradient or state volta.float32 .3,. on cpu; they must be alike"):
        call(p, volta.ones(3), volta.zeros(2), count)
    with pytest.raises(DTypeError, match="needs dense tensors, got NoneType"):
        call(p, volta.ones(2), None, count)
    with pytest.raises(ArgumentError, match="differentiable is not available"):
        call(p, volta.ones(2), volta.zeros(2), count, differentiable=True)
    with pytest.raises(ArgumentError, match="state_steps must be tensors of one element"):
        call(p, volta.ones(2), volta.zeros(2), 1)
    with pytest.raises(ArgumentError, match="needs lists of one length"):
        steps.sgd([p], [], [], lr=0.1, momentum=0, dampening=0, nesterov=False, **DECAY)
    assert p.tolist() == [1, 1] and count.item() == 0


def test_modules_of_optimizers_hold_them():
    view = modules.View("torch.optim.adam", volta.optim)
    assert view.adam is steps.adam and view.Adam is volta.optim.Adam
    with pytest.raises(AttributeError, match="torch.optim.asgd.asgd does not exist in Volta"):
        modules.View("torch.optim.asgd", volta.optim).asgd      # noqa: B018
    assert modules.place("torch.optim._functional") == "volta.compat.steps"
