"""Optimizers on each device against NumPy's formulas; schedules; state dicts; errors that change nothing."""
import copy
import math

import numpy as np
import pytest
from arrays import host

import volta
from volta import nn, optim
from volta.errors import ArgumentError, ShapeError, StateDictError
from volta.testing import assert_close


def numpy_sgd(x, grads, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
    buffer = None
    for g in grads:
        g = (-g if maximize else g) + weight_decay * x
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        x = x - lr * g
    return x


def numpy_adam(x, grads, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, maximize=False, decoupled=False, amsgrad=False):
    m = v = top = np.zeros_like(x)
    for t, g in enumerate(grads, 1):
        g = -g if maximize else g
        if decoupled:
            x = x * (1 - lr * weight_decay)
        else:
            g = g + weight_decay * x
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        top = np.maximum(top, v) if amsgrad else v
        x = x - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(top / (1 - betas[1] ** t)) + eps)
    return x


def numpy_adamw(x, grads, weight_decay=1e-2, **options):
    return numpy_adam(x, grads, weight_decay=weight_decay, decoupled=True, **options)


def numpy_rmsprop(x, grads, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, maximize=False):
    square = mean = buffer = np.zeros_like(x)
    for g in grads:
        g = (-g if maximize else g) + weight_decay * x
        square, mean = alpha * square + (1 - alpha) * g ** 2, alpha * mean + (1 - alpha) * g
        buffer = momentum * buffer + g / (np.sqrt(square - centered * mean ** 2) + eps)
        x = x - lr * buffer
    return x


CASES = [(optim.SGD, numpy_sgd, o) for o in (
    {"lr": 0.1}, {"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.1, "momentum": 0.9},
    {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1},
    {"lr": 0.1, "momentum": 0.9, "nesterov": True}, {"lr": 0.1, "momentum": 0.5, "maximize": True}, {})]
CASES += [(optim.Adam, numpy_adam, o) for o in (
    {}, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}, {"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.1, "maximize": True},
    {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.5), "weight_decay": 0.1})]
CASES += [(optim.AdamW, numpy_adamw, o) for o in ({}, {"lr": 0.1, "weight_decay": 0.3},
                                                  {"lr": 0.1, "amsgrad": True, "betas": (0.5, 0.5), "maximize": True})]

CASES += [(optim.RMSprop, numpy_rmsprop, o) for o in (
    {}, {"lr": 0.1, "alpha": 0.5, "eps": 1e-3, "weight_decay": 0.1}, {"lr": 0.1, "momentum": 0.9, "maximize": True},
    {"lr": 0.1, "alpha": 0.5, "eps": 1e-3, "momentum": 0.5, "centered": True, "weight_decay": 0.1})]


@pytest.mark.parametrize("make, formula, options", CASES,
                         ids=lambda v: str(v) if isinstance(v, dict) else getattr(v, "__name__", ""))
def test_steps(device, rng, make, formula, options):
    shapes = [(3, 4), (5,), (), (2, 1, 3), (8, 8), (1000,), (7, 3), (2,), (4,), (16,)]
    params = [nn.Parameter(volta.tensor(rng.standard_normal(s).astype(np.float32), device=device)) for s in shapes]
    grads = [[rng.standard_normal(s).astype(np.float32) for _ in range(4)] for s in shapes]
    start, versions = [host(p) for p in params], [p._version for p in params]
    optimizer = make(params, **options)
    for step in range(4):
        for p, g in zip(params, grads):
            p.grad = volta.tensor(g[step], device=device)
        optimizer.step()
    for p, x, g, version in zip(params, start, grads, versions):
        assert_close(host(p), formula(x, [v.astype(np.float64) for v in g], **options), 1e-4, 1e-5)
        assert p._version > version and p.is_leaf and p.requires_grad
        for value in optimizer.state[p].values():
            assert value.ndim == 0 or (value.device is p.device and value.shape == p.shape)


@pytest.mark.parametrize("name", [getattr(optim, n) for n in optim.algorithms.__all__])
def test_versions_count_what_a_step_writes(device, name):
    """The parameter and each of its states, not the gradient; a second step as the first."""
    p = nn.Parameter(volta.ones(3, device=device))
    optimizer = name([p], lr=0.1)
    for _ in range(2):
        p.grad = volta.ones(3, device=device)
        before = [t._version for t in (p, p.grad, *optimizer.state[p].values()) if isinstance(t, volta.Tensor)]
        optimizer.step()
        after = [t._version for t in (p, p.grad, *optimizer.state[p].values()) if isinstance(t, volta.Tensor)]
        assert after[:2] == [before[0] + 1, before[1]]
        assert all(b == a + 1 for a, b in zip(before[2:], after[2:]))


def test_results_do_not_depend_on_the_number_of_threads(rng):
    """The elements of all parameters are shared out among the threads together."""
    starts = [rng.standard_normal(n).astype(np.float32) for n in (150_001, 7, 0, 70_000, 130_003)]
    found, threads = [], volta.get_num_threads()
    try:
        for count in (1, 2, 3, 5):
            volta.set_num_threads(count)
            params = [nn.Parameter(volta.tensor(a)) for a in starts]
            optimizer = optim.Adam(params, lr=0.1, weight_decay=0.1, amsgrad=True)
            for p in params:
                p.grad = p.detach() * 0.5
            optimizer.step()
            found.append(np.concatenate([p.detach().numpy() for p in params]))
    finally:
        volta.set_num_threads(threads)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_parameters_without_gradients_wait(device):
    a, b = (nn.Parameter(volta.ones(2, device=device)) for _ in range(2))
    optimizer = optim.Adam([a, b], lr=0.1)
    a.grad = volta.ones(2, device=device)
    optimizer.step()
    assert host(b).tolist() == [1, 1] and b not in optimizer.state
    a.grad = b.grad = volta.ones(2, device=device)
    optimizer.step()
    assert optimizer.state[a]["step"] == 2 and optimizer.state[b]["step"] == 1
    assert_close(host(b), np.array([0.9, 0.9]), 1e-5, 0)


def test_groups():
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = optim.SGD([{"params": a.parameters(), "lr": 0.5}, {"params": b.parameters()}], lr=0.1)
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.1]
    optimizer.add_param_group({"params": nn.Parameter(volta.ones(1)), "momentum": 0.9})
    assert len(optimizer.param_groups[2]["params"]) == 1
    assert "Parameter Group 1\n    dampening: 0\n    differentiable: False" in repr(optimizer) and "lr: 0.1" in repr(optimizer)


def test_zero_grad_and_closure():
    p = nn.Parameter(volta.ones(2))
    optimizer = optim.SGD([p], lr=0.5)

    @volta.no_grad()
    def run():
        def closure():
            optimizer.zero_grad()
            loss = (p * p).sum()
            loss.backward()
            return loss
        return optimizer.step(closure)
    assert run().item() == 2 and host(p).tolist() == [0, 0]
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert p.grad is None


def test_training_step_saves_nothing_stale(device):
    """A backward through values saved before the step must notice it."""
    p = nn.Parameter(volta.ones(2, device=device))
    loss = (p * p).sum()
    loss.backward(retain_graph=True)
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(volta.errors.AutogradError, match="changed in place"):
        loss.backward()


@pytest.mark.parametrize("call, text", [
    (lambda p: optim.SGD(p, lr=-1.0), "SGD: lr must be a finite number >= 0, got -1.0"),
    (lambda p: optim.SGD(p, lr=float("nan")), "SGD: lr must be a finite number >= 0, got nan"),
    (lambda p: optim.SGD(p, momentum=-0.1), "SGD: momentum must be a finite number >= 0, got -0.1"),
    (lambda p: optim.SGD(p, nesterov=True), "SGD: nesterov needs momentum > 0 and dampening 0, got momentum 0 and dampening 0"),
    (lambda p: optim.SGD(p, dampening=float("nan")), "SGD: dampening must be a number, got nan"),
    (lambda p: optim.Adam(p, lr="fast"), "Adam: lr must be a finite number >= 0, got 'fast'"),
    (lambda p: optim.Adam(p, betas=(0.9, 1.0)), "Adam: betas must be two numbers in [0, 1), got (0.9, 1.0)"),
    (lambda p: optim.Adam(p, betas=(float("nan"), 0.9)), "Adam: betas must be two numbers in [0, 1), got (nan, 0.9)"),
    (lambda p: optim.AdamW(p, eps=-1e-8), "AdamW: eps must be a finite number >= 0, got -1e-08"),
    (lambda p: optim.Adam([]), "Adam: params is empty; pass model.parameters()"),
    (lambda p: optim.Adam(p[0]), "Adam: params must be a list of tensors or of groups, got one"),
    (lambda p: optim.Adam([1.0]), "Adam: params must be tensors, got float"),
    (lambda p: optim.Adam([{"params": p[0]}, {"params": p[0]}]), "Adam: a parameter of shape (2,) is in another group, too"),
    (lambda p: optim.Adam([p[0] * 2]), "Adam: a tensor of shape (2,) was made by mul; only leaves can be optimized"),
    (lambda p: optim.Adam([{"lr": 1}]), "Adam: a parameter group must be a dict with 'params'"),
])
def test_errors(call, text):
    with pytest.raises(ArgumentError) as error:
        call([nn.Parameter(volta.ones(2))])
    assert text in str(error.value)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_nan_learning_rate_later_changes_nothing(device, make):
    a, b = (nn.Parameter(volta.ones(2, device=device)) for _ in range(2))
    optimizer = make([{"params": [a]}, {"params": [b]}], lr=0.1)
    a.grad = b.grad = volta.ones(2, device=device)
    optimizer.param_groups[1]["lr"] = float("nan")
    with pytest.raises(ArgumentError, match="lr must be a finite number >= 0, got nan"):
        optimizer.step()
    assert host(a).tolist() == [1, 1] and not optimizer.state


def test_gradient_or_state_that_does_not_fit():
    a, b = nn.Parameter(volta.ones(2)), nn.Parameter(volta.ones(1))
    optimizer = optim.Adam([a, b])
    a.grad, b.grad = volta.ones(2), volta.ones(1)
    b.data = volta.ones(3)
    with pytest.raises(ShapeError, match=r"a parameter is volta.float32 \(3,\) on cpu, its gradient volta.float32 \(1,\) on cpu"):
        optimizer.step()
    assert host(a).tolist() == [1, 1]
    b.grad = volta.ones(3)
    optimizer.step()
    model = nn.Module()
    model.a = a
    model.double()
    with pytest.raises(ShapeError, match="its exp_avg volta.float32"):
        optimizer.step()


# ---------------------------------------------------------------- state dicts
@pytest.mark.parametrize("make", [lambda p: optim.SGD(p, lr=0.1, momentum=0.9), lambda p: optim.AdamW(p, lr=0.1)])
def test_state_dict_continues_exactly(device, make):
    def advance(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            (model(x) ** 2).sum().backward()
            optimizer.step()
    x = volta.randn(4, 3, device=device)
    model, other = nn.Linear(3, 2, device=device), nn.Linear(3, 2, device=device)
    optimizer, second = make(model.parameters()), make(other.parameters())
    advance(model, optimizer, 3)
    state = optimizer.state_dict()
    assert set(state) == {"state", "param_groups"} and set(state["state"]) == {0, 1}
    assert state["param_groups"][0]["params"] == [0, 1]
    other.load_state_dict(model.state_dict())
    second.load_state_dict(copy.deepcopy(state))            # else both would write into one state, as in PyTorch
    assert next(iter(second.state.values())).keys() == next(iter(optimizer.state.values())).keys()
    advance(model, optimizer, 2)
    advance(other, second, 2)
    np.testing.assert_array_equal(host(other.weight), host(model.weight))


def test_amsgrad_can_be_switched_on(device):
    p = nn.Parameter(volta.ones(3, device=device))
    optimizer = optim.Adam([p], lr=0.1)
    for amsgrad in (False, True, True):
        optimizer.param_groups[0]["amsgrad"] = amsgrad
        p.grad = volta.ones(3, device=device)
        optimizer.step()
    assert set(optimizer.state[p]) == {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"} and optimizer.state[p]["step"] == 3
    assert host(optimizer.state[p]["max_exp_avg_sq"]).tolist() == host(optimizer.state[p]["exp_avg_sq"]).tolist()


def test_load_state_dict_errors_change_nothing():
    p = nn.Parameter(volta.ones(2))
    optimizer = optim.Adam([p], lr=0.1)
    p.grad = volta.ones(2)
    optimizer.step()
    good = optimizer.state_dict()
    group = good["param_groups"][0]
    for bad, text in [
            ({"state": {}}, "Adam: load_state_dict needs a dict with 'state' and 'param_groups', got the keys ['state']"),
            ({**good, "param_groups": [{**group, "params": [0, 1]}]},
             "the state dict has groups of [2] parameters, this optimizer has [1]"),
            ({**good, "param_groups": [{**group, "eps": -1.0}]}, "Adam: eps must be a finite number >= 0, got -1.0"),
            ({**good, "state": {0: {"exp_avg": volta.ones(3)}}},
             "Adam: exp_avg of parameter 0 has shape (3,), the parameter has (2,)")]:
        with pytest.raises((StateDictError, ArgumentError)) as error:
            optimizer.load_state_dict(bad)
        assert text in str(error.value)
        assert optimizer.param_groups[0]["lr"] == 0.1 and optimizer.state[p]["step"] == 1


# ---------------------------------------------------------------- learning rates that are tensors
@pytest.mark.parametrize("kind", [getattr(optim, name) for name in optim.algorithms.__all__])
def test_a_tensor_as_learning_rate(device, kind, rng):
    """It counts as its value, and a change of it in place is seen by the next step."""
    held = volta.tensor(0.1)
    start, slope = rng.standard_normal(5).astype(np.float32), rng.standard_normal(5).astype(np.float32)
    found = []
    for lr in (held, held.item()):
        p = nn.Parameter(volta.tensor(start, device=device))
        optimizer = kind([p], lr=lr)
        p.grad = volta.tensor(slope, device=device)
        optimizer.step()
        if lr is held:
            held.mul_(0.5)
        else:
            optimizer.param_groups[0]["lr"] = held.item()
        optimizer.step()
        found.append(host(p))
    np.testing.assert_array_equal(*found)
    other = kind([p], lr=1.0)
    other.load_state_dict({**optimizer.state_dict(), "param_groups": [{**optimizer.state_dict()["param_groups"][0], "lr": held}]})
    assert other.param_groups[0]["lr"] is not held and other.param_groups[0]["lr"].item() == held.item()
    with pytest.raises(ArgumentError, match=f"{kind.__name__}: lr must be a finite number >= 0, got"):
        kind([p], lr=volta.tensor([0.1, 0.2]))


# ---------------------------------------------------------------- against PyTorch
TORCH = [("SGD", o) for o in (
    {"lr": 0.1}, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}, {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1})]
TORCH += [(kind, o) for kind in ("Adam", "AdamW") for o in (
    {"lr": 0.01}, {"lr": 0.1, "betas": (0.5, 0.7), "weight_decay": 0.1, "maximize": True},
    {"lr": 0.1, "betas": (0.5, 0.6), "amsgrad": True, "weight_decay": 0.1})]

TORCH += [("RMSprop", o) for o in (
    {"lr": 0.1}, {"lr": 0.1, "alpha": 0.5, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}, {"lr": 0.1, "momentum": 0.9},
    {"lr": 0.1, "alpha": 0.5, "eps": 1e-3, "momentum": 0.5, "centered": True, "weight_decay": 0.1})]


@pytest.mark.parametrize("kind, options", TORCH, ids=str)
def test_as_in_pytorch(device, rng, kind, options):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
    for dtype in ("float32",) if device == "gpu" else ("float32", "float64"):
        compare_with_torch(torch, device, rng, kind, options, dtype)


def compare_with_torch(torch, device, rng, kind, options, dtype):
    """Parameters and states of several steps, infinite and NaN elements among them, the state dict's keys too."""
    start = [rng.standard_normal(s).astype(dtype) for s in ((3, 4), (5,), (), (1000,), (7, 3))]
    start[1][0], start[1][1], start[3][7] = np.inf, np.nan, -np.inf
    ours = [nn.Parameter(volta.tensor(a, device=device)) for a in start]
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in start]
    mine, other = getattr(optim, kind)(ours, **options), getattr(torch.optim, kind)(theirs, **options)
    for _ in range(5):
        for p, q in zip(ours, theirs):
            slope = rng.standard_normal(p.shape).astype(dtype)
            p.grad, q.grad = volta.tensor(slope, device=device), torch.tensor(slope)
        mine.step()
        other.step()
    rtol = 1e-5 if dtype == "float32" else 1e-12
    for p, q in zip(ours, theirs):
        assert_close(host(p), q.detach().numpy().astype(np.float64), rtol, rtol, equal_nan=True)
        assert set(mine.state[p]) == {key for key, value in other.state[q].items() if value is not None}
        for key, value in mine.state[p].items():
            if key != "step":
                assert_close(host(value), other.state[q][key].numpy().astype(np.float64), rtol, rtol, equal_nan=True)


# ---------------------------------------------------------------- schedules
def rates(make, steps=6, lr=1.0):
    optimizer = optim.SGD([nn.Parameter(volta.ones(1))], lr=lr)
    schedule = make(optimizer)
    out = []
    for _ in range(steps):
        out.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    return out


def test_schedules():
    s = optim.lr_scheduler
    assert rates(lambda o: s.StepLR(o, 2, 0.5)) == [1, 1, 0.5, 0.5, 0.25, 0.25]
    assert rates(lambda o: s.LambdaLR(o, lambda e: 1 / (e + 1)), 3) == [1, 0.5, 1 / 3]
    assert rates(lambda o: s.ExponentialLR(o, 0.5), 3) == [1, 0.5, 0.25]
    assert rates(lambda o: s.LinearLR(o, 0.25, total_iters=3), 5) == pytest.approx([0.25, 0.5, 0.75, 1, 1])
    cosine = [0.2 + 0.4 * (1 + math.cos(math.pi * i / 4)) for i in range(5)]
    assert rates(lambda o: s.CosineAnnealingLR(o, 4, 0.2), 5) == pytest.approx(cosine)
    with pytest.raises(ArgumentError, match="StepLR: step_size must be a number above 0, got 0"):
        rates(lambda o: s.StepLR(o, 0))
    with pytest.raises(ArgumentError, match="StepLR: needs an optimizer, got int"):
        s.StepLR(3, 1)


def test_schedule_state():
    def make():
        optimizer = optim.SGD([nn.Parameter(volta.ones(1))], lr=1.0)
        return optimizer, optim.lr_scheduler.StepLR(optimizer, 2, 0.1)
    (_, first), (optimizer, second) = make(), make()
    for _ in range(3):
        first.step()
    second.load_state_dict(first.state_dict())
    assert second.get_last_lr() == first.get_last_lr() == [0.1] and optimizer.param_groups[0]["initial_lr"] == 1.0


# ---------------------------------------------------------------- the step as the GPU sees it
def test_a_step_copies_nothing_and_is_few_dispatches(gpu):
    model = nn.Sequential(*[nn.Linear(8, 8, device=gpu) for _ in range(6)])
    optimizer, x = optim.Adam(model.parameters()), volta.randn(4, 8, device=gpu)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).sum().backward()
        with volta.gpu.forbid_transfers():
            before = volta.gpu.stats()
            optimizer.step()
            dispatches = (volta.gpu.stats() - before).dispatches
    assert dispatches <= 12


def test_a_state_of_a_wrong_type():
    optimizer = volta.optim.Adam([volta.nn.Parameter(volta.ones(2))])
    groups = optimizer.state_dict()["param_groups"]
    for state in ({"state": 5, "param_groups": groups}, {"state": {}, "param_groups": 5}):
        with pytest.raises(volta.errors.StateDictError, match="Adam: 'state' must be a dict and 'param_groups' a list"):
            optimizer.load_state_dict(state)
