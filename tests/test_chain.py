"""Functions of elementwise records that a GPU computes at once: values, layouts, derivatives of any order, vmap and jvp."""
from __future__ import annotations

import math

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.ops.records.chain import apply, chain_of, fused
from volta.ops.records.math import clamp_min, log, relu, where_op

pytestmark = pytest.mark.usefixtures("gpu")


def _formula(x, y, limit, *, far):
    return where_op((y > 1) & (x < far), log(y) * x, clamp_min(x - y, limit))


def _steps(x):
    return where_op(x > 0, 1.0, math.inf)


def _same(x):
    return x


def _pair(*shapes, device="gpu"):
    rng = np.random.default_rng(0)
    return [volta.tensor(rng.uniform(0.2, 3, shape).astype(np.float32), device=device).requires_grad_() for shape in shapes]


def test_derivatives_of_higher_orders_are_one_dispatch_for_each_input():
    found = []
    for device in ("cpu", "gpu"):
        x, y = _pair((3, 4), (3, 4), device=device)
        start = volta.gpu.stats().dispatches
        results = [fused(_formula, x, y, 0.3, flags={"far": math.inf})]
        for inputs in ((x, y), (x, y), (y,)):
            results += volta.autograd.grad(results[-1], inputs, volta.ones_like(results[-1]).detach(), create_graph=True)
        found.append([t.detach().cpu().numpy() for t in results])
    assert volta.gpu.stats().dispatches - start <= 1 + 2 + 3 + 3 + 5            # with the seeds, and sums of two gradients
    for a, b in zip(*found):
        assert np.allclose(a, b, 1e-5, 1e-6)


@pytest.mark.parametrize("shapes", [((3, 4), (4,)), ((3, 1), (1, 4)), ((), (5,)), ((0, 3), (3,))])
def test_gradients_have_the_shapes_of_what_is_broadcast(shapes):
    found = []
    for device in ("cpu", "gpu"):
        x, y = _pair(*shapes, device=device)
        out = fused(_formula, x, y, 0.3, flags={"far": 2.0})
        found.append([t.detach().cpu().numpy() for t in (out, *volta.autograd.grad(out.sum(), (x, y)))])
    for a, b in zip(*found):
        assert a.shape == b.shape and np.allclose(a, b, 1e-5, 1e-6)


def test_results_lie_as_the_inputs_do():
    x, y = _pair((4, 3), (4, 3))
    for view in (lambda t: t.t(), lambda t: t[::2], lambda t: t.reshape(2, 2, 3).permute(2, 0, 1)):
        out, plain = fused(_formula, view(x), view(y), 0.3, flags={"far": 2.0}), _formula(view(x), view(y), 0.3, far=2.0)
        assert out.stride() == plain.stride() and np.allclose(out.detach().numpy(), plain.detach().numpy(), 1e-6)


def test_what_a_function_of_steps_and_an_unchanged_tensor_give():
    x = volta.tensor([1.0, -1.0, math.nan, -0.0], device="gpu").requires_grad_()
    steps, same = fused(_steps, x), fused(_same, x)
    assert steps.tolist() == [1.0, math.inf, math.inf, math.inf]
    assert np.array_equal(same.detach().numpy(), x.detach().numpy(), equal_nan=True) and math.copysign(1, same[3].item()) == -1
    g, = volta.autograd.grad(same, x, volta.ones_like(x), create_graph=True)
    assert g.tolist() == [1.0] * 4
    with pytest.raises(volta.errors.AutogradError, match="was not used to compute the outputs"):
        volta.autograd.grad(steps.sum(), x)


def test_more_tensors_than_the_record_has_places_for():
    tensors = _pair(*[(3,)] * 7)
    chain = chain_of(_all, 7, 0)
    assert np.allclose(apply(chain, tuple(tensors), ()).detach().numpy(), sum(t.detach().numpy() for t in tensors))


def _all(*tensors):
    first, *rest = tensors
    for x in rest:
        first = relu(first + x)
    return first


def test_losses_under_vmap_forward_derivatives_and_half_precision():
    rng = np.random.default_rng(0)
    x, t = (rng.uniform(0.2, 2, (5, 4)).astype(np.float32) for _ in range(2))
    for function in (lambda a, b: F.poisson_nll_loss(a, b, full=True), lambda a, b: F.soft_margin_loss(a, b),
                     lambda a, b: F.gaussian_nll_loss(a, b, 0.5), lambda a, b: F.binary_cross_entropy_with_logits(a, b, pos_weight=b)):
        found = []
        for device in ("cpu", "gpu"):
            a, b = (volta.tensor(v, device=device) for v in (x, t))
            mapped = volta.func.vmap(function)(a, b)
            _, along = volta.func.jvp(function, (a, b), (b, a))
            second = volta.func.grad(lambda a, b, f=function: volta.func.grad(f)(a, b).square().sum())(a, b)
            half = function(a.half(), b.half())
            found.append([v.detach().float().cpu().numpy() for v in (mapped, along, second, half)])
        for k, (a, b) in enumerate(zip(*found)):
            assert np.allclose(a, b, 1e-2 if k == 3 else 1e-5, 1e-5), k
