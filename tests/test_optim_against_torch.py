"""Every optimizer beside PyTorch's: 25 steps from the same state, through a state dict in the middle, on each device."""
import inspect
from functools import partial

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError

torch = pytest.importorskip("torch", reason="compares with PyTorch")

CASES = [(name, options) for name, several in {
    "SGD": [{"momentum": 0.9, "foreach": False}], "Adam": [{"decoupled_weight_decay": True, "weight_decay": 0.1, "foreach": True}],
    "AdamW": [{"fused": False}], "RMSprop": [{"capturable": False}],
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "maximize": True}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}],
    "Adamax": [{}, {"lr": 0.1, "weight_decay": 0.1, "maximize": True}],
    "NAdam": [{}, {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1},
              {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}],
    "RAdam": [{}, {"lr": 0.1, "weight_decay": 0.1}, {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}],
    "ASGD": [{}, {"lr": 0.1, "lambd": 0.1, "t0": 3, "weight_decay": 0.1}, {"lr": 0.1, "maximize": True}],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.4, 1.5), "step_sizes": (0.01, 0.2)}, {"maximize": True}],
    "Adafactor": [{}, {"lr": 0.1, "weight_decay": 0.1, "d": 1.5, "maximize": True}, {"eps": (1e-6, 1e-2), "beta2_decay": -0.5}],
}.items() for options in several]


def parameters(arrays, device):
    return [torch.nn.Parameter(torch.tensor(a)) for a in arrays], [volta.nn.Parameter(volta.tensor(a, device=device)) for a in arrays]


def as_ours(state):
    """A state dict of PyTorch's with tensors of Volta's."""
    def turned(value):
        return value if not isinstance(value, torch.Tensor) else volta.tensor(value.numpy()) if value.ndim else value.item()
    return {**state, "state": {i: {k: turned(v) for k, v in each.items()} for i, each in state["state"].items()}}


@pytest.mark.parametrize("name, options", CASES, ids=lambda v: v if isinstance(v, str) else "-".join(v) or "defaults")
def test_trajectories_and_states(name, options, device):
    rng = np.random.default_rng(0)
    theirs, ours = parameters([rng.standard_normal(s).astype(np.float32) for s in ((3, 4), (5,), (2, 3, 2))], device)
    their_steps, our_steps = getattr(torch.optim, name)(theirs, **options), getattr(volta.optim, name)(ours, **options)
    assert set(their_steps.param_groups[0]) == set(our_steps.param_groups[0])
    for t in range(25):
        if t == 12:
            state = their_steps.state_dict()
            for i, each in our_steps.state_dict()["state"].items():
                assert set(each) == set(state["state"][i])
            our_steps = getattr(volta.optim, name)(ours, **options)
            our_steps.load_state_dict(as_ours(state))
        for p, q in zip(theirs, ours):
            g = rng.standard_normal(p.shape).astype(np.float32)
            p.grad, q.grad = torch.tensor(g), volta.tensor(g, device=device)
        their_steps.step()
        our_steps.step()
    for p, q in zip(theirs, ours):
        np.testing.assert_allclose(q.detach().cpu().numpy(), p.detach().numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("options", [{}, {"lr": 0.1, "nesterov": False, "momentum": 0.5}, {"adjust_lr_fn": "match_rms_adamw", "lr": 0.02}],
                         ids=["defaults", "plain", "match_rms_adamw"])
def test_muon(options, device):
    """PyTorch multiplies bfloat16 matrices there, float32 ones are multiplied here: hence the tolerance, of a part of the way gone."""
    rng = np.random.default_rng(0)
    theirs, ours = parameters([rng.standard_normal(s).astype(np.float32) for s in ((6, 4), (3, 5))], device)
    start = [p.detach().clone() for p in theirs]
    their_steps, our_steps = torch.optim.Muon(theirs, **options), volta.optim.Muon(ours, **options)
    for _ in range(10):
        for p, q in zip(theirs, ours):
            g = rng.standard_normal(p.shape).astype(np.float32)
            p.grad, q.grad = torch.tensor(g), volta.tensor(g, device=device)
        their_steps.step()
        our_steps.step()
    for p, q, s in zip(theirs, ours, start):
        assert np.abs(q.detach().cpu().numpy() - p.detach().numpy()).max() < 0.02 * (p.detach() - s).abs().max().item()
    with pytest.raises(ArgumentError, match="Muon: parameters must be matrices"):
        volta.optim.Muon([volta.nn.Parameter(volta.ones(3, device=device))])


@pytest.mark.parametrize("options", [{}, {"line_search_fn": "strong_wolfe"}, {"lr": 0.5, "history_size": 3, "max_iter": 7},
                                     {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 30}])
def test_lbfgs(options, device):
    losses = []
    for lib, place in ((torch, "cpu"), (volta, device)):
        a = lib.tensor(np.random.default_rng(1).standard_normal((20, 6)).astype(np.float32), device=place)
        y = lib.tensor(np.random.default_rng(2).standard_normal(20).astype(np.float32), device=place)
        w, b = lib.zeros(6, requires_grad=True, device=place), lib.zeros(1, requires_grad=True, device=place)
        optimizer = lib.optim.LBFGS([w, b], **options)

        def closure(lib=lib, a=a, y=y, w=w, b=b, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((lib.tanh(a @ w + b) - y) ** 2).mean() + 0.01 * (w ** 4).sum()
            loss.backward()
            return loss

        losses.append([optimizer.step(closure).item() for _ in range(4)] + [closure().item()])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    with pytest.raises(ArgumentError, match="LBFGS: step needs a closure"):
        optimizer.step()


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_goes_on_after_a_step_that_was_too_flat(search):
    found = []
    for lib in (volta, torch):
        x = lib.tensor([0.1, -0.2]).requires_grad_()
        optimizer = lib.optim.LBFGS([x], lr=0.5, max_iter=3, tolerance_change=0.5, tolerance_grad=0, line_search_fn=search)

        def loss(steepness, x=x, optimizer=optimizer):
            optimizer.zero_grad()
            value = ((x - 1) ** 2).sum() * steepness
            value.backward()
            return value

        for steepness in (1e-3, 1.0, 1.0):
            optimizer.step(partial(loss, steepness))
        found.append(x.detach().numpy())
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_hooks_of_steps_and_choices_of_implementation():
    p = volta.nn.Parameter(volta.ones(2))
    optimizer, log = volta.optim.SGD([p], lr=0.1), []
    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: log.append(("before", p.tolist())))
    optimizer.register_step_post_hook(lambda o, args, kwargs: log.append(("after", p.tolist())))
    p.grad = volta.ones(2)
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert [word for word, _ in log] == ["before", "after", "after"] and log[0][1] == [1.0, 1.0] != log[1][1]
    with pytest.raises(ArgumentError, match="differentiable=True is not supported"):
        volta.optim.Adam([p], differentiable=True)
    with pytest.raises(ArgumentError, match="foreach must be True or False, got 3"):
        volta.optim.Adam([p], foreach=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'fused'"):
        volta.optim.Adadelta([p], fused=True)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD"])
def test_a_schedule_may_lead_below_zero(name, device):
    found = []
    for p, lib in zip(parameters([np.arange(4, dtype=np.float32) - 1.5], device), (torch, volta)):
        optimizer = getattr(lib.optim, name)(p, lr=0.1)
        schedule = lib.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - 0.6 * step)
        for _ in range(5):
            p[0].grad = p[0].detach() * 0.5 + 1
            optimizer.step()
            schedule.step()
        assert schedule.get_last_lr()[0] < 0
        found.append(p[0].detach().cpu().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


def test_a_line_search_takes_what_evaluations_are_left():
    """Few may be: a step of `max_iter` 4 has five, and a search that wants more ends where it is."""
    for start, goal in ((0.1257, -0.1321), (0.3456, 0.8216), (0.1890, -0.5227), (-0.8019, -1.3216), (1.0064, 0.2912)):
        found = []
        for lib in (torch, volta):
            x = lib.tensor(start, dtype=lib.float64).requires_grad_()
            optimizer = lib.optim.LBFGS([x], lr=1e-3, max_iter=4, history_size=3, line_search_fn="strong_wolfe")

            def closure(lib=lib, x=x, goal=goal, optimizer=optimizer):
                optimizer.zero_grad()
                loss = (x - goal) ** 4 + x * x
                loss.backward()
                return loss
            for _ in range(2):
                optimizer.step(closure)
                found.append(x.item())
        assert found[2:] == pytest.approx(found[:2], rel=1e-9)


def test_lbfgs_goes_on_from_its_state(device):
    rng = np.random.default_rng(4)
    (theirs, _), (ours, other) = parameters([rng.standard_normal((4, 3)).astype(np.float32)] * 2, device)
    a = rng.standard_normal((6, 4)).astype(np.float32)
    their_steps, our_steps = torch.optim.LBFGS([theirs], max_iter=3), volta.optim.LBFGS([ours], max_iter=3)

    def stepped(lib, optimizer, w, m):
        def closure():
            optimizer.zero_grad()
            loss = (m @ w).exp().sum() + (w * w).sum()
            loss.backward()
            return loss
        return float(optimizer.step(closure))
    left, right = torch.tensor(a), volta.tensor(a, device=device)
    for _ in range(2):
        stepped(torch, their_steps, theirs, left), stepped(volta, our_steps, ours, right)
    with volta.no_grad():
        other.copy_(ours)
    state, second = our_steps.state_dict(), volta.optim.LBFGS([other], max_iter=3)
    second.load_state_dict(state)
    assert second.state[other]["old_dirs"] is not our_steps.state[ours]["old_dirs"]
    for _ in range(2):
        np.testing.assert_allclose(stepped(volta, second, other, right), stepped(torch, their_steps, theirs, left), rtol=1e-4)


def test_states_of_optimizers_of_users(device):
    class Own(volta.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1})

        @volta.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state.update(step=volta.tensor(0.0), root=volta.eye(2, device=p.device), past=[], count={"n": volta.zeros(1)})
                    state["step"] += 1
                    state["past"].append(p.grad.clone())

    p, q = (volta.nn.Parameter(volta.ones(3, device=device)) for _ in range(2))
    first, second = Own([p]), Own([q])
    p.grad = volta.ones(3, device=device)
    first.step()
    second.load_state_dict(first.state_dict())
    state = second.state[q]
    assert state["step"].item() == 1 and state["root"].shape == (2, 2) and state["past"][0].device == q.device
    assert state["count"]["n"].device == q.device
    first.step()
    assert state["step"].item() == 2 and len(state["past"]) == 1 and state["past"][0] is first.state[p]["past"][0]    # as in PyTorch


@pytest.mark.parametrize("name, options", [("NAdam", {}), ("ASGD", {"t0": 2, "lambd": 0.01}), ("Adam", {"amsgrad": True})])
def test_states_of_pytorch_are_gone_on_with(name, options):
    start, slopes = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), np.random.RandomState(0).randn(8, 2, 3).astype(np.float32)
    x, y = torch.nn.Parameter(torch.tensor(start)), volta.nn.Parameter(volta.tensor(start))
    theirs = getattr(torch.optim, name)([x], lr=0.1, **options)
    for slope in slopes[:4]:
        x.grad = torch.tensor(slope)
        theirs.step()
    y.data.copy_(volta.tensor(x.detach().numpy()))
    given = theirs.state_dict()
    given["state"] = {0: {key: volta.tensor(value.numpy()) for key, value in given["state"][0].items()}}
    ours = getattr(volta.optim, name)([y], lr=0.1, **options)
    ours.load_state_dict(given)
    for slope in slopes[4:]:
        x.grad, y.grad = torch.tensor(slope), volta.tensor(slope)
        theirs.step()
        ours.step()
    np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_optimizers_print_and_refuse_as_in_pytorch():
    def shown(lib):
        a, b = (lib.nn.Parameter(lib.ones(2)) for _ in range(2))
        optimizer = lib.optim.Adadelta([{"params": [("a", a)], "lr": 0.5}, {"params": [("b", b)]}], lr=0.25, rho=0.5, eps=0.125,
                                       weight_decay=0.5)
        return repr(optimizer)
    assert shown(volta) == shown(torch)
    for params in (None, [1.0], {"params": 1}):
        for lib in (torch, volta):
            with pytest.raises(TypeError):
                lib.optim.Adam(params)
    with pytest.raises(TypeError, match=r"Adam: params must be a list of tensors or of groups, got one; write \[tensor\]"):
        volta.optim.Adam(volta.nn.Parameter(volta.ones(2)))


@pytest.mark.parametrize("name", ["LambdaLR", "MultiplicativeLR"])
def test_schedules_of_functions_go_on_from_pytorch(name):
    def made(lib):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(2))], lr=0.1)
        return optimizer, getattr(lib.optim.lr_scheduler, name)(optimizer, lambda epoch: 0.9 ** epoch)

    (ours, schedule), (theirs, given) = made(volta), made(torch)
    for _ in range(3):
        theirs.step()
        given.step()
    schedule.load_state_dict(given.state_dict())
    ours.load_state_dict(theirs.state_dict())
    for optimizer, each in ((ours, schedule), (theirs, given)):
        optimizer.step()
        each.step()
    assert ours.param_groups[0]["lr"] == pytest.approx(theirs.param_groups[0]["lr"], rel=1e-12)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adagrad", "ASGD", "RMSprop", "Rprop", "Adadelta", "Adamax"])
def test_numbers_of_states_are_tensors_in_a_state_dict(name):
    """Which each library takes from the other, as they are."""
    theirs, ours = parameters([np.ones((2, 3), np.float32)], "cpu")
    one, other = getattr(torch.optim, name)(theirs), getattr(volta.optim, name)(ours)
    for _ in range(3):
        theirs[0].grad, ours[0].grad = torch.full((2, 3), 0.5), volta.full((2, 3), 0.5)
        one.step(), other.step()
    state, expected = other.state_dict()["state"][0], one.state_dict()["state"][0]
    assert state.keys() == expected.keys() and all(isinstance(v, volta.Tensor) for v in state.values())
    assert {k: tuple(v.shape) for k, v in state.items()} == {k: tuple(v.shape) for k, v in expected.items()}
    assert state["step"].dtype is volta.float32 and state["step"].item() == 3 and other.state[ours[0]]["step"] == 3
    turned = {k: torch.from_numpy(v.numpy().copy()) for k, v in state.items()}
    one.load_state_dict({**one.state_dict(), "state": {0: turned}})
    other.load_state_dict({**other.state_dict(), "state": {0: {k: volta.tensor(v.numpy()) for k, v in expected.items()}}})
    theirs[0].grad, ours[0].grad = torch.full((2, 3), 0.5), volta.full((2, 3), 0.5)
    one.step(), other.step()
    np.testing.assert_allclose(ours[0].detach().numpy(), theirs[0].detach().numpy(), rtol=1e-6)
    assert other.state_dict()["state"][0]["step"].item() == one.state_dict()["state"][0]["step"].item() == 4


def _turned(value, to):
    """A state dict of one library's as the other's."""
    if isinstance(value, dict):
        return {key: _turned(v, to) for key, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_turned(v, to) for v in value)
    return to.tensor(value.detach().cpu().numpy()) if isinstance(value, (torch.Tensor, volta.Tensor)) else value


@pytest.mark.parametrize("name, options", [*CASES, ("LBFGS", {"max_iter": 3}), ("LBFGS", {"line_search_fn": "strong_wolfe"})],
                         ids=lambda v: v if isinstance(v, str) else "-".join(v) or "defaults")
def test_state_dicts_are_exchanged_both_ways(name, options):
    """Each goes on from the other's state dict: groups with the same keys, in the same order, and states of the same shapes and dtypes."""
    shapes = ((3, 4), (5,), (2, 3, 2))
    slopes = np.random.RandomState(1)

    def made(lib, arrays):
        params = [lib.nn.Parameter(lib.tensor(a)) for a in arrays]
        groups = params if name == "LBFGS" else [{"params": params[:1], "lr": 0.03, "mine": "x"}, {"params": params[1:]}]
        return params, getattr(lib.optim, name)(groups, **options)

    def walk(pairs, steps):
        for _ in range(steps):
            given = [slopes.standard_normal(s).astype(np.float32) for s in shapes]
            for lib, (params, optimizer) in pairs.items():
                def closure(lib=lib, params=params, optimizer=optimizer):
                    optimizer.zero_grad()
                    loss = sum(((p * 1.5).sin() + p * p * 0.3).sum() for p in params)
                    loss.backward()
                    return loss
                for p, g in zip(params, given):
                    p.grad = lib.tensor(g)
                optimizer.step(*[closure] if name == "LBFGS" else [])

    start = [np.random.RandomState(0).standard_normal(s).astype(np.float32) for s in shapes]
    pairs = {lib: made(lib, start) for lib in (torch, volta)}
    states = [optimizer.state_dict() for _, optimizer in pairs.values()]
    assert list(states[0]["state"]) == list(states[1]["state"])                # Adagrad has its states from the beginning
    walk(pairs, 4)
    states = {lib: optimizer.state_dict() for lib, (_, optimizer) in pairs.items()}
    assert [list(group) for group in states[torch]["param_groups"]] == [list(group) for group in states[volta]["param_groups"]]
    if name == "LBFGS":
        left, right = (states[lib]["state"][0] for lib in (torch, volta))
        assert sorted(left) == sorted(right)
        for ours, theirs in zip(right["al"], left["al"], strict=True):
            assert ours is theirs is None or ours.item() == pytest.approx(theirs.item(), rel=1e-3, abs=1e-5)
    for left, right in zip(states[torch]["state"].values(), states[volta]["state"].values()) if name != "LBFGS" else ():
        assert {k: (tuple(v.shape), str(v.dtype)[6:]) for k, v in left.items()} == {
            k: (tuple(v.shape), str(v.dtype)[6:]) for k, v in right.items()}
    others = {lib: made(lib, [p.detach().numpy() for p in params]) for lib, (params, _) in pairs.items()}
    others[torch][1].load_state_dict(_turned(states[volta], torch))
    others[volta][1].load_state_dict(_turned(states[torch], volta))
    walk(others, 4)
    for p, q in zip(others[torch][0], others[volta][0]):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-3 if name == "LBFGS" else 2e-5, atol=2e-5)


@pytest.mark.parametrize("lib", [torch, volta], ids=["torch", "volta"])
def test_what_load_state_dict_copies(lib):
    """Hyperparameters, but no state that is where its parameter is."""
    p = lib.nn.Parameter(lib.ones(2))
    first, second = (lib.optim.SGD([p], lr=lib.tensor(0.1), momentum=0.9) for _ in range(2))
    p.grad = lib.ones(2)
    first.step()
    second.load_state_dict(first.state_dict())
    assert second.state[p]["momentum_buffer"] is first.state[p]["momentum_buffer"]
    assert second.param_groups[0]["lr"] is not first.param_groups[0]["lr"]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop",
                                  "Adafactor", "Muon", "LBFGS", "SparseAdam"])
def test_arguments_are_pytorchs(name):
    theirs, ours = (inspect.signature(getattr(lib.optim, name).__init__).parameters.values() for lib in (torch, volta))
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]


@pytest.mark.parametrize("name, options", [*CASES, ("RMSprop", {"centered": True, "momentum": 0.9}), ("Adam", {"amsgrad": True})], ids=str)
def test_states_are_in_order(name, options):
    keys = []
    for lib in (torch, volta):
        p = lib.nn.Parameter(lib.ones(2, 2))
        optimizer = getattr(lib.optim, name)([p], **options)
        (p * p).sum().backward()
        optimizer.step()
        keys.append(list(optimizer.state_dict()["state"][0]))
    assert keys[1] == keys[0]
