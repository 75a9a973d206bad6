"""Derivatives of elementwise records on a GPU: each input's takes one dispatch, is that of the CPU, and can be derived again."""
from __future__ import annotations

import numpy as np
import pytest

import volta
from volta.ops.table import RECORDS

pytestmark = pytest.mark.usefixtures("gpu")
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.5, 1e-30, np.inf, -np.inf, np.nan, 5.0, 0.3], np.float32)
NOT_OF_TENSORS = {"cast", "chain"}
LONGER = {"heaviside": 3}                                       # by steps that compare and convert
NAMES = [name for name, op in sorted(RECORDS.items()) if op.pointwise and isinstance(op.vjp, tuple) and name not in NOT_OF_TENSORS]


def _derived(name, device, arrays, create_graph):
    """(dispatches and gradients by each input) of a record that takes tensors; None where it has no gradient."""
    inputs = [volta.tensor(x, device=device).requires_grad_() for x in arrays]
    out = RECORDS[name](*inputs)
    if not out.requires_grad:
        return None
    seed, found = (out.detach() * 0 + 1).nan_to_num(1.0), []
    for x in inputs:
        try:
            volta.autograd.grad(out, x, seed, allow_unused=True, retain_graph=True)             # which compiles what it needs
        except volta.errors.AutogradError:                      # none by this input
            continue
        start = volta.gpu.stats().dispatches
        grad, = volta.autograd.grad(out, x, seed, allow_unused=True, retain_graph=True, create_graph=create_graph)
        found.append((volta.gpu.stats().dispatches - start, None if grad is None else grad.detach().cpu().numpy()))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_elementwise_records_take_one_dispatch(name):
    arrays = [np.full((3, 2), 0.4, np.float32)] * len(RECORDS[name].inputs)
    try:
        RECORDS[name](*map(volta.tensor, arrays))
    except volta.errors.DTypeError:                             # of bool or integers
        return
    for create_graph in (False, True):
        for taken, _ in _derived(name, "gpu", arrays, create_graph) or ():
            assert taken <= LONGER.get(name, 1), (taken, create_graph)


@pytest.mark.parametrize("name", ["div", "pow", "atan2", "hypot", "maximum", "fmin", "clamp", "log1p", "sin", "logaddexp", "digamma", "erf",
                                  "copysign", "remainder", "xlogy", "asin", "acosh", "tan", "lerp", "mulacc"])
def test_derivatives_at_special_values_are_those_of_the_cpu(name):
    pairs = [x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL, indexing="ij")]
    arrays = [pairs[i % 2] for i in range(len(RECORDS[name].inputs))]
    for (_, expected), (_, got) in zip(_derived(name, "cpu", arrays, False), _derived(name, "gpu", arrays, False)):
        if expected is not None:
            assert np.allclose(got, expected, 1e-4, 1e-5, equal_nan=True), np.argwhere(~np.isclose(got, expected, 1e-4, 1e-5, True)).ravel()


def test_a_derivative_that_is_constant_has_no_graph():
    for device in ("cpu", "gpu"):
        x = volta.tensor([1.0, -2.0], device=device).requires_grad_()
        grad, = volta.autograd.grad(volta.maximum(x, volta.zeros(2, device=device)).sum(), x, create_graph=True)
        assert not grad.requires_grad, device


def test_derivatives_lie_as_those_that_are_not_fused_do():
    for call in (lambda a, b: a / b, volta.maximum, volta.fmin, lambda a, b: volta.clamp(a, b, b + 1)):
        strides = []
        for device in ("cpu", "gpu"):
            a, b = [volta.full((4, 3), value, device=device).requires_grad_() for value in (1.0, 2.0)]
            seed = volta.ones(3, 4, device=device)
            strides.append([g.stride() for g in volta.autograd.grad(call(a.t(), b.t()), (a, b), seed)])
        assert strides[0] == strides[1]


def test_derivatives_by_numbers_and_of_float16_are_as_before():
    for device in ("cpu", "gpu"):
        x = volta.tensor([-0.0, 4.0], device=device).requires_grad_()
        assert volta.autograd.grad((x ** 0.5).sum(), x)[0].tolist() == [float("-inf"), 0.25]     # by way of the square root
    half = [volta.tensor([2.0, 4.0], device=device, dtype=volta.float16).requires_grad_() for device in ("cpu", "gpu")]
    grads = [volta.autograd.grad((1 / x).sum(), x)[0] for x in half]
    assert grads[1].dtype is volta.float16 and grads[0].tolist() == grads[1].tolist()


def test_infinite_gradients_have_no_part_where_hardswish_is_flat():
    for device in ("cpu", "gpu"):
        x = volta.tensor([-9.0, -3.0, 4.0], device=device).requires_grad_()
        for value in (float("inf"), float("nan")):
            grad, = volta.autograd.grad(volta.nn.functional.hardswish(x), x, volta.full((3,), value, device=device))
            assert grad[:2].tolist() == [0.0, 0.0] and not grad[2].isfinite(), device
