"""A record with several differentiable outputs: gradients from all, one or none of them, higher orders, hooks, outputs kept for the
derivative.
"""
import gc
import weakref

import numpy as np
import pytest

import volta
from volta._kernels import core
from volta._kernels.core.record import Primitive
from volta.errors import AutogradError
from volta.testing import assert_close, gradcheck, gradgradcheck

CALLS = []


def _kernel(x, y):
    with volta.no_grad():
        return x * y, (x * 2).exp(), (x > y).long()


def _vjp(g_product, g_power, x, y, power, needs):
    CALLS.append((g_product is not None, g_power is not None))
    dx = 0.0 if g_product is None else g_product * y
    dx = dx if g_power is None else dx + g_power * power * 2
    dy = None if g_product is None else g_product * x
    return tuple(d if need else None for d, need in zip((dx, dy), needs))


pair = Primitive("pair", ("x", "y"), outputs=("product", "power", "larger"), differentiable=("product", "power"), takes="f", vjp=_vjp)
pair.cpu = pair.gpu = _kernel
pair.cpu_own = pair.gpu_own = core.STORED


@pytest.fixture
def leaves(device):
    CALLS.clear()
    return [volta.tensor(v, device=device, requires_grad=True) for v in ([0.5, -1.0], [2.0, 3.0])]


def test_which_outputs_have_a_graph(leaves):
    product, power, larger = pair(*leaves)
    assert product.requires_grad and power.requires_grad and not larger.requires_grad
    assert product.grad_fn is not None and larger.dtype is volta.int64


@pytest.mark.parametrize("used", ["product", "power", "both"])
def test_gradients_of_what_is_used(leaves, used):
    x, y = leaves
    product, power, _ = pair(x, y)
    (product.sum() if used == "product" else power.sum() if used == "power" else (product + power).sum()).backward()
    assert CALLS == [(used != "power", used != "product")]              # one call for both, None for what was not used
    slope = 2 * np.exp(2 * np.float32([0.5, -1.0]))
    assert_close(x.grad, (np.float32([2, 3]) if used != "power" else 0) + (slope if used != "product" else 0))
    if used == "power":
        assert y.grad is None
    else:
        assert_close(y.grad, [0.5, -1.0])


def test_against_finite_differences():
    x, y = (volta.tensor(v, dtype=volta.float64, requires_grad=True) for v in ([0.5, -1.0], [2.0, 3.0]))
    for function in (lambda x, y: pair(x, y)[0], lambda x, y: pair(x, y)[1], lambda x, y: pair(x, y)[0] * pair(x, y)[1],
                     lambda x, y: pair(*pair(x * 0.1, y * 0.1)[:2])[1]):
        assert gradcheck(function, [x, y])
        assert gradgradcheck(function, [x, y])


def test_second_order_through_an_output_that_was_kept(leaves):
    x, y = leaves
    _, power, _ = pair(x, y)
    first, = volta.autograd.grad(power.sum(), [x], create_graph=True)
    second, = volta.autograd.grad(first.sum(), [x])
    assert_close(second, 4 * np.exp(2 * np.float32([0.5, -1.0])))


def test_hooks_and_kept_gradients(leaves):
    product, power, _ = pair(*leaves)
    seen = []
    product.register_hook(lambda g: seen.append(g.tolist()))
    power.register_hook(lambda g: g * 0)
    product.retain_grad()
    power.retain_grad()
    (product * 3 + power).sum().backward()
    assert seen == [[3, 3]] and product.grad.tolist() == [3, 3] and power.grad.tolist() == [0, 0]
    assert leaves[0].grad.tolist() == [6, 9]


def test_a_kept_output_that_was_changed(leaves):
    _, power, _ = pair(*leaves)
    out = power.sum()
    with volta.no_grad():
        power.mul_(2)
    with pytest.raises(AutogradError, match="pair"):
        out.backward()


def test_an_output_that_is_not_kept_may_change(leaves):
    product, _, _ = pair(*leaves)
    out = product.sum()
    with volta.no_grad():
        product.mul_(2)
    out.backward()
    assert leaves[0].grad.tolist() == [2, 3]


def test_outputs_do_not_keep_themselves_alive(leaves):
    outputs = pair(*leaves)
    alive = [weakref.ref(o) for o in outputs]
    gc.disable()
    try:
        del outputs
        assert [a() for a in alive] == [None, None, None]
    finally:
        gc.enable()
