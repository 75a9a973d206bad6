"""Clipping of gradients: norms of many tensors together, in few dispatches on a GPU, against PyTorch in float64."""
from __future__ import annotations

import math

import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import ArgumentError, DTypeError

torch = pytest.importorskip("torch")

SHAPES = ((64, 32), (64,), (), (1001,), (10, 12, 3), (3,))
ORDERS = (2.0, 1.0, math.inf, -math.inf, 3.0, 0.5, -1.0, 0.0)


def parameters(grads, device, dtype=volta.float32):
    """Parameters with these gradients, and PyTorch's in float64."""
    ours, theirs = [], []
    for g in grads:
        ours.append(nn.Parameter(volta.zeros(g.shape, device=device, dtype=dtype)))
        ours[-1].grad = volta.tensor(g, device=device, dtype=dtype)
        theirs.append(torch.nn.Parameter(torch.zeros(g.shape, dtype=torch.float64)))
        theirs[-1].grad = torch.tensor(ours[-1].grad.double().numpy() if device == "cpu" else ours[-1].grad.cpu().double().numpy())
    return ours, theirs


def normal(shapes=SHAPES, seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.standard_normal(shape), np.float32) for shape in shapes]


def alike(ours, theirs, rtol=1e-5):
    for p, q in zip(ours, theirs):
        np.testing.assert_allclose(p.grad.float().numpy(), q.grad.numpy(), rtol=rtol, atol=1e-7)


def dispatches(function):
    before = volta.gpu.stats()
    function()
    made = volta.gpu.stats() - before
    assert made.downloads == 0
    return made.dispatches


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_norms_against_torch(order, device):
    ours, theirs = parameters(normal(), device)
    found = [nn.utils.get_total_norm([p.grad for p in ours], order).numpy().tobytes() for _ in range(3)]
    assert found[0] == found[1] == found[2]
    total, want = nn.utils.clip_grad_norm_(ours, 1.0, order, foreach=True), torch.nn.utils.clip_grad_norm_(theirs, 1.0, order)
    assert total.item() == pytest.approx(want.item(), rel=1e-5) and total.shape == () and total.dtype is volta.float32
    alike(ours, theirs)


def test_dispatches_of_clipping(gpu):
    ours, theirs = parameters(normal(), gpu)
    for order in ORDERS[:-1]:
        assert dispatches(lambda order=order: nn.utils.get_total_norm([p.grad for p in ours], order)) == 2
    assert dispatches(lambda: nn.utils.clip_grad_norm_(ours, 1.0)) == 3
    assert dispatches(lambda: nn.utils.clip_grad_value_(ours, 0.1)) == 1
    assert dispatches(lambda: nn.utils.clip_grads_with_norm_(ours, 0.5, volta.tensor(2.0, device=gpu))) == 1


def test_dispatches_of_scaled_gradients(gpu):
    """Unscaling and the look for infinity: one, and two for the largest of all."""
    ours, _ = parameters(normal(), gpu)
    before = [p.grad.numpy() for p in ours]
    scaler = volta.amp.GradScaler(gpu, init_scale=8.0)
    start = volta.gpu.stats().dispatches
    scaler.unscale_(volta.optim.SGD(ours, lr=0.1))
    assert volta.gpu.stats().dispatches - start <= 3
    for p, g in zip(ours, before):
        np.testing.assert_array_equal(p.grad.numpy(), g / 8)


def test_parts_of_large_and_many_tensors(device):
    ours, theirs = parameters(normal(((70001,), (40000,), *[(7,)] * 40), 1), device)
    for order in (2.0, math.inf):
        total, want = nn.utils.clip_grad_norm_(ours, 3.0, order), torch.nn.utils.clip_grad_norm_(theirs, 3.0, order)
        assert total.item() == pytest.approx(want.item(), rel=1e-5)
        alike(ours, theirs)


def test_gradients_that_are_views(device):
    """Parts of one buffer, lines that are not whole vectors, columns, and images pixel by pixel."""
    flat, images = volta.arange(1.0, 121.0, device=device), volta.ones(2, 3, 4, 5, device=device).to(memory_format=volta.channels_last)
    grads = [flat[1:14], flat[16:20], flat[20:50].reshape(5, 6).t(), flat[50:110].reshape(3, 20)[:, :7], images, flat[:1]]
    ours = [nn.Parameter(volta.zeros(g.shape, device=device)) for g in grads]
    theirs = [torch.nn.Parameter(torch.zeros(*g.shape, dtype=torch.float64)) for g in grads]
    for p, q, g in zip(ours, theirs, grads):
        p.grad, q.grad = g, torch.tensor(g.numpy().astype(np.float64))
    total, want = nn.utils.clip_grad_norm_(ours, 1.0), torch.nn.utils.clip_grad_norm_(theirs, 1.0)
    assert total.item() == pytest.approx(want.item(), rel=1e-5)
    alike(ours, theirs)
    assert flat[14:16].tolist() == [15.0, 16.0] and flat[57:70].tolist() == [float(i) for i in range(58, 71)]


def test_what_is_listed_twice_is_changed_twice(device):
    ours, theirs = parameters(normal(((5,), (3,))), device)
    for lists, module in ((ours, nn), (theirs, torch.nn)):
        module.utils.clip_grad_norm_([*lists, lists[0]], 0.5)
    alike(ours, theirs)


@pytest.mark.parametrize("special", [math.nan, math.inf])
def test_norms_that_are_not_finite(special, device):
    for order in (2.0, 1.0, math.inf, 3.0):
        ours, theirs = parameters([np.float32([1.0, special, 0.0]), np.float32([2.0, 3.0])], device)
        with pytest.raises(ArgumentError, match=f"The total norm of order {order} for gradients from `parameters` is non-finite"):
            nn.utils.clip_grad_norm_(ours, 1.0, order, error_if_nonfinite=True)
        total, want = nn.utils.clip_grad_norm_(ours, 1.0, order), torch.nn.utils.clip_grad_norm_(theirs, 1.0, order)
        np.testing.assert_equal(total.item(), want.item())
        alike(ours, theirs)
        nn.utils.clip_grad_value_(ours, 0.5)
        torch.nn.utils.clip_grad_value_(theirs, 0.5)
        alike(ours, theirs)


def test_norms_of_several_dtypes(device):
    if device == "gpu" and not volta.gpu.context(0).has_f16:
        return
    grads = normal(((40,), (9,)))
    halves, wide = parameters(grads, device, volta.float16)
    both, both_wide = parameters(grads, device)
    assert nn.utils.get_total_norm([p.grad for p in halves]).dtype is volta.float16
    total, want = nn.utils.clip_grad_norm_(halves + both, 1.0), torch.nn.utils.clip_grad_norm_(wide + both_wide, 1.0)
    assert total.dtype is volta.float32 and total.item() == pytest.approx(want.item(), rel=1e-3)
    alike(halves, wide, 2e-3)
    alike(both, both_wide, 1e-3)


def test_no_elements_and_no_parameters(device):
    empty, some = volta.zeros(0, device=device), volta.tensor([3.0, 4.0], device=device)
    assert nn.utils.get_total_norm([empty, some]).item() == 5.0 and nn.utils.get_total_norm([empty]).item() == 0.0
    for order in (math.inf, -1.0):
        with pytest.raises((ArgumentError, IndexError)):
            nn.utils.get_total_norm([empty, some], order)
    with pytest.raises(DTypeError, match="get_total_norm: needs floating point tensors, got volta.int64"):
        nn.utils.get_total_norm([volta.tensor([1, 2], device=device)])
    with pytest.warns(UserWarning, match="`parameters` is an empty generator, no gradient clipping will occur."):
        assert nn.utils.clip_grad_norm_((p for p in ()), 1.0).item() == 0.0


@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (2, 2)])
def test_a_given_norm_has_no_dimensions(shape, device):
    p = nn.Parameter(volta.ones(2, device=device))
    p.grad = volta.full((2,), 4.0, device=device)
    with pytest.raises(ValueError, match="without dimensions"):
        nn.utils.clip_grads_with_norm_([p], 1.0, volta.ones(shape, device=device))
    assert p.grad.tolist() == [4.0, 4.0]
    nn.utils.clip_grads_with_norm_([p], 1.0, volta.tensor(2, device=device))
    np.testing.assert_allclose(p.grad.numpy(), 2.0, rtol=1e-6)


def test_gradients_that_repeat_elements_are_refused(device):
    p = nn.Parameter(volta.ones(2, 2, device=device))
    p.grad = volta.ones(1, device=device).expand(2, 2)
    for clip in (nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_):
        with pytest.raises(RuntimeError):
            clip([p], 0.5)
    assert p.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
