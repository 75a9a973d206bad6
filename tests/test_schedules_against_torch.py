"""Learning-rate schedules beside PyTorch's: nested, resumed, with their states exchanged, led by metrics."""
import copy
import warnings

import pytest

import volta

torch = pytest.importorskip("torch", reason="compares with PyTorch")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

MADE = {
    "lambda": lambda s, o: s.LambdaLR(o, [lambda e: 0.9 ** e, lambda e: 1.1 ** e]),
    "product": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.8),
    "step": lambda s, o: s.StepLR(o, 2, 0.5), "steps": lambda s, o: s.MultiStepLR(o, [0, 2, 2, 5], 0.7),
    "constant": lambda s, o: s.ConstantLR(o, 0.4, 3), "constant for none": lambda s, o: s.ConstantLR(o, 0.4, 0),
    "exponential": lambda s, o: s.ExponentialLR(o, 0.6), "linear": lambda s, o: s.LinearLR(o, 0.2, 0.9, 4),
    "polynomial": lambda s, o: s.PolynomialLR(o, 4, 1.5), "cosine": lambda s, o: s.CosineAnnealingLR(o, 3, 0.05),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2, 0.01),
    "cycle": lambda s, o: s.CyclicLR(o, 0.05, [0.5, 0.6], 2, 3, mode="triangular2"),
    "cycle of steps": lambda s, o: s.CyclicLR(o, 0.05, 0.5, 2, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "one cycle": lambda s, o: s.OneCycleLR(o, [0.5, 0.6], total_steps=40, three_phase=True),
    "averaging": lambda s, o: (torch if s is torch.optim.lr_scheduler else volta).optim.swa_utils.SWALR(o, 0.05, 3),
}
NESTED = {
    "a cycle behind others": lambda s, o: s.ChainedScheduler([MADE["cosine"](s, o), MADE["cycle"](s, o)]),
    "one after another": lambda s, o: s.SequentialLR(
        o, [MADE[k](s, o) for k in ("exponential", "restarts", "polynomial", "one cycle")], [0, 3, 6]),
    "chains first": lambda s, o: s.SequentialLR(o, [s.ChainedScheduler([MADE["restarts"](s, o), MADE["exponential"](s, o),
                                                                      MADE["product"](s, o)]), MADE["cosine"](s, o)], [4]),
    "sequences in a chain": lambda s, o: s.ChainedScheduler([NESTED["one after another"](s, o), MADE["averaging"](s, o)]),
}
EVERY = {**MADE, **NESTED}


def optimizer_of(lib, rate=0.3):
    rates = [lib.tensor(r, dtype=lib.float64) if rate is None else r for r in (0.3, 0.2)]
    return lib.optim.SGD([{"params": [lib.nn.Parameter(lib.ones(2))], "lr": r} for r in rates], momentum=0.9)


def schedules(lib):
    return lib.optim.lr_scheduler


def walked(optimizer, schedule, steps=9):
    rates = []
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        assert [float(r) for r in schedule.get_last_lr()] == [float(group["lr"]) for group in optimizer.param_groups]
        rates += [float(group[key]) for group in optimizer.param_groups for key in ("lr", "momentum")]
    return rates


def plain(state):
    """A state without the tensors in it, and without the order of its keys."""
    if isinstance(state, dict):
        return {key: plain(value) for key, value in state.items()}
    return [plain(v) for v in state] if isinstance(state, (list, tuple)) else float(state) if hasattr(state, "item") else state


@pytest.mark.parametrize("rate", [0.3, None], ids=["number", "tensor"])
@pytest.mark.parametrize("kind", EVERY)
def test_rates_and_states(kind, rate):
    found = []
    for lib in (torch, volta):
        optimizer = optimizer_of(lib, rate)
        schedule = EVERY[kind](schedules(lib), optimizer)
        groups = [{k: plain(v) for k, v in g.items() if k in ("initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum", "swa_lr")}
                  for g in optimizer.param_groups]
        assert all(isinstance(g["initial_lr"], type(g["lr"])) for g in optimizer.param_groups) or "cycle" in kind or kind in NESTED
        found.append((groups, walked(optimizer, schedule), plain(schedule.state_dict())))
    (groups, rates, state), (our_groups, our_rates, our_state) = found
    assert our_rates == pytest.approx(rates, rel=1e-9) and our_groups == [pytest.approx(g, rel=1e-12) for g in groups]
    assert our_state.keys() == state.keys()


@pytest.mark.parametrize("kind", EVERY)
def test_states_are_exchanged(kind):
    """Each library goes on from the other's state, and their optimizers too."""
    states = []
    for lib in (torch, volta):
        optimizer = optimizer_of(lib)
        schedule = EVERY[kind](schedules(lib), optimizer)
        walked(optimizer, schedule, 3)
        states.append((copy.deepcopy(schedule.state_dict()), {"state": {}, "param_groups": optimizer.state_dict()["param_groups"]}))
    rates = []
    for lib, (state, groups) in zip((torch, volta), reversed(states)):
        optimizer = optimizer_of(lib)
        schedule = EVERY[kind](schedules(lib), optimizer)
        before = [group["lr"] for group in optimizer.param_groups]
        schedule.load_state_dict(state)
        assert [group["lr"] for group in optimizer.param_groups] == before          # which are the optimizer's
        optimizer.load_state_dict(groups)
        rates.append(walked(optimizer, schedule))
    assert rates[1] == pytest.approx(rates[0], rel=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in MADE if kind != "averaging"])
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_going_on_from_an_epoch(kind, steps):
    rates = []
    for lib in (torch, volta):
        optimizer = optimizer_of(lib)
        schedule = EVERY[kind](schedules(lib), optimizer)
        walked(optimizer, schedule, steps)
        second = optimizer_of(lib)
        second.load_state_dict(optimizer.state_dict())

        class From:
            def __getattr__(self, name, lib=lib, last=schedule.last_epoch):
                return lambda *args, **kwargs: getattr(schedules(lib), name)(*args, last_epoch=last, **kwargs)
        rates.append(walked(second, EVERY[kind](From(), second)))
    assert rates[1] == pytest.approx(rates[0], rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"mode": "max", "threshold_mode": "abs", "threshold": 0.5}, {"threshold": 1.0},
                                     {"min_lr": [0.05, 0.25], "factor": 0.5, "cooldown": 1}, {"eps": 0.1, "factor": 0.5}])
def test_plateaus(options):
    found = []
    for lib in (torch, volta):
        optimizer, seen = optimizer_of(lib), []
        schedule = schedules(lib).ReduceLROnPlateau(optimizer, patience=1, **options)
        for i, value in enumerate([1.0, 2.0, 0.5, float("nan"), 0.5, 0.5, 0.5, -1.0, -1.0, float("inf"), 3.0, 3.0]):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                schedule.step(lib.tensor(value) if i % 3 else value, *[20] if i == 6 else [])
            seen.append((schedule.get_last_lr(), [str(w.message)[:40] for w in told]))
        optimizer.add_param_group({"params": [lib.nn.Parameter(lib.ones(1))]})
        try:
            for _ in range(5):
                schedule.step(9.0 if schedule.mode == "min" else -9.0)
            seen.append([group["lr"] for group in optimizer.param_groups])
        except RuntimeError:
            seen.append("refused")
        found.append([*seen, {k: v for k, v in schedule.state_dict().items() if v == v}])
    assert str(found[1]) == str([*found[0][:-1], {k: found[0][-1].get(k) for k in found[1][-1]}])
    assert found[1][-1].keys() == found[0][-1].keys()


def test_a_sequence_cannot_take_over_at_a_milestone():
    for lib in (torch, volta):
        optimizer = optimizer_of(lib)
        s = schedules(lib)
        schedule = s.SequentialLR(optimizer, [s.StepLR(optimizer, 1), s.ChainedScheduler([s.StepLR(optimizer, 1)])], [1])
        with pytest.raises(NotImplementedError):
            schedule.step()


def test_what_is_led_below_zero_is_loaded():
    rates = []
    for lib in (torch, volta):
        first, second = optimizer_of(lib, None), optimizer_of(lib)
        for group in first.param_groups:
            group["lr"].fill_(-0.25)
            group["momentum"] = -0.5
        first.param_groups[0]["params"][0].grad = lib.ones(2)
        first.step()
        second.load_state_dict(first.state_dict())
        rates.append([(float(g["lr"]), g["momentum"]) for g in second.param_groups] + first.param_groups[0]["params"][0].tolist())
    assert rates[0] == rates[1]


@pytest.mark.parametrize("name", EVERY)
def test_rates_are_equal_to_the_last_bit(name):
    found, expected = [], []
    for lib, rates in ((volta, found), (torch, expected)):
        optimizer = optimizer_of(lib)
        rates += walked(optimizer, EVERY[name](schedules(lib), optimizer), 30)
    assert found == expected
