"""Learning-rate schedules against their formulas: alone, combined, resumed, and their errors."""
import inspect
import itertools
import math
import warnings

import pytest

import volta
from volta import nn, optim
from volta.errors import ArgumentError, StateDictError

s = optim.lr_scheduler


def make_optimizer(lr=1.0, kind=optim.SGD, **options):
    return kind([nn.Parameter(volta.ones(1))], lr=lr, **options)


def rates(make, steps, lr=1.0, read=lambda o: o.param_groups[0]["lr"], **options):
    optimizer = make_optimizer(lr, **options)
    schedule, out = make(optimizer), []
    for _ in range(steps):
        out.append(read(optimizer))
        if read(optimizer) == optimizer.param_groups[0]["lr"]:
            assert schedule.get_last_lr() == [optimizer.param_groups[0]["lr"]]
        optimizer.step()
        schedule.step()
    return out


def cosine(share):
    return (1 + math.cos(math.pi * share)) / 2


@pytest.mark.parametrize("make, expected", [
    (lambda o: s.MultiStepLR(o, [3, 1, 3], 0.5), [1, 0.5, 0.5, 0.125, 0.125]),
    (lambda o: s.ConstantLR(o, 0.5, 2), [0.5, 0.5, 1, 1]),
    (lambda o: s.ConstantLR(o, 0, 2), [0, 0, 1, 1]),
    (lambda o: s.LinearLR(o, 0.5, 0.0, 2), [0.5, 0.25, 0, 0]),
    (lambda o: s.PolynomialLR(o, 4, 2.0), [1, 9 / 16, 4 / 16, 1 / 16, 0, 0]),
    (lambda o: s.MultiplicativeLR(o, lambda e: 1 / e), [1, 1, 1 / 2, 1 / 6]),
    (lambda o: s.CosineAnnealingLR(o, 2, 0.2), [1, 0.6, 0.2, 0.6, 1, 0.6]),
    (lambda o: s.CosineAnnealingWarmRestarts(o, 2, 2), [1, 0.5, 1, cosine(1 / 4), 0.5, cosine(3 / 4), 1, cosine(1 / 8)]),
    (lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.25, total_iters=3), s.ExponentialLR(o, 0.5)], [3]), [0.25, 0.5, 0.75, 1, 0.5, 0.25]),
    (lambda o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 9), s.CosineAnnealingLR(o, 2)], milestones=[2]), [0.1, 0.1, 1, 0.5, 0, 0.5]),
    (lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.5)]), [0.5, 0.25, 0.25, 0.125]),
    (lambda o: s.OneCycleLR(o, 1.0, total_steps=5, pct_start=0.4, div_factor=10, final_div_factor=10, anneal_strategy="linear"),
     [0.1, 1, 0.67, 0.34, 0.01]),
    (lambda o: s.OneCycleLR(o, 2.0, epochs=2, steps_per_epoch=3, pct_start=0.5, div_factor=4, final_div_factor=5),
     [0.5, 1.25, 2, *(0.1 + 1.9 * cosine(k / 3) for k in (1, 2, 3))]),
    (lambda o: s.OneCycleLR(o, 1.0, total_steps=5, pct_start=0.4, div_factor=10, final_div_factor=10, three_phase=True,
                            anneal_strategy="linear"), [0.1, 1, 0.1, 0.055, 0.01])])
def test_rates(make, expected):
    assert rates(make, len(expected)) == pytest.approx(expected, abs=1e-12)


def test_one_cycle_turns_momentum():
    def make(o):
        return s.OneCycleLR(o, 1.0, total_steps=5, pct_start=0.4, anneal_strategy="linear")
    expected = [0.95, 0.85, 0.85 + 0.1 / 3, 0.85 + 0.2 / 3, 0.95]
    assert rates(make, 5, read=lambda o: o.param_groups[0]["momentum"], momentum=0.5) == pytest.approx(expected)
    assert rates(make, 5, read=lambda o: o.param_groups[0]["betas"][0], kind=optim.Adam) == pytest.approx(expected)
    fixed = make_optimizer(momentum=0.5)
    s.OneCycleLR(fixed, 1.0, total_steps=5, cycle_momentum=False)
    assert fixed.param_groups[0]["momentum"] == 0.5


@pytest.mark.parametrize("options, metrics, expected", [
    ({"patience": 1}, [3, 3, 3, 3, 2, 2, 2], [1, 1, 1, 0.1, 0.1, 0.1, 0.1, 0.01]),
    ({"mode": "max", "patience": 0, "factor": 0.5, "min_lr": 0.3}, [1, 1, 2, 0, 0], [1, 1, 0.5, 0.5, 0.3, 0.3]),
    ({"patience": 0, "cooldown": 2, "factor": 0.5}, [1, 1, 1, 1, 1], [1, 1, 0.5, 0.5, 0.5, 0.25]),
    ({"patience": 0, "threshold": 0.5, "threshold_mode": "abs", "factor": 0.5}, [3, 2.6, 2.4], [1, 1, 0.5, 0.5]),
    ({"patience": 0, "factor": 0.5}, [float("nan"), 1, 1], [1, 0.5, 0.5, 0.25])])
def test_reduce_on_plateau(options, metrics, expected):
    optimizer = make_optimizer()
    schedule, out = s.ReduceLROnPlateau(optimizer, **options), [1]
    for metric in metrics:
        schedule.step(volta.tensor(metric))
        out.append(schedule.get_last_lr()[0])
    assert out == pytest.approx(expected)


def test_two_schedules_multiply_and_the_users_rate_stays():
    optimizer = make_optimizer()
    schedules = [s.LinearLR(optimizer, 0.5, total_iters=2), s.ExponentialLR(optimizer, 0.5)]
    out = []
    for epoch in range(4):
        out.append(optimizer.param_groups[0]["lr"])
        for schedule in schedules:
            schedule.step()
        if epoch == 2:
            optimizer.param_groups[0]["lr"] = 8.0
    assert out == pytest.approx([0.5, 0.375, 0.25, 8.0])


@pytest.mark.parametrize("make", [
    lambda o: s.OneCycleLR(o, 1.0, total_steps=9), lambda o: s.ReduceLROnPlateau(o, patience=0),
    lambda o: s.SequentialLR(o, [s.LinearLR(o), s.CosineAnnealingLR(o, 5)], [2]), lambda o: s.CosineAnnealingWarmRestarts(o, 2, 2),
    lambda o: s.ChainedScheduler([s.StepLR(o, 2), s.LinearLR(o)])])
def test_state_dicts_go_on_where_they_stopped(make):
    def step(schedule):
        schedule.step(*[1.0] if isinstance(schedule, s.ReduceLROnPlateau) else [])
    first, second = make(make_optimizer(momentum=0.9)), make(make_optimizer(momentum=0.9))
    for _ in range(3):
        step(first)
    rate = second.optimizer.param_groups[0]["lr"]
    second.load_state_dict(first.state_dict())
    assert second.optimizer.param_groups[0]["lr"] == rate           # which is part of the optimizer's state, as in PyTorch
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    for _ in range(4):
        assert second.get_last_lr() == first.get_last_lr() == [second.optimizer.param_groups[0]["lr"]]
        step(first)
        step(second)


def test_going_on_from_an_epoch():
    optimizer = make_optimizer()
    first = s.ExponentialLR(optimizer, 0.5)
    first.step()
    second = s.ExponentialLR(optimizer, 0.5, last_epoch=1)
    assert second.get_last_lr() == [0.5] and second.base_lrs == [1.0]
    second.step()
    assert second.get_last_lr() == [0.25]
    first.step(5)
    assert optimizer.param_groups[0]["lr"] == 1 / 32


def test_a_schedule_of_ones_own():
    class Halves(s.LRScheduler):
        def get_lr(self):
            return [base / (1 + self.last_epoch) for base in self.base_lrs]
    assert rates(Halves, 3) == [1, 0.5, 1 / 3]


@pytest.mark.parametrize("make, text", [
    (lambda o: s.ExponentialLR(o, 0.5, last_epoch=2), "ExponentialLR: to go on from last_epoch=2, group 0 .* needs its 'initial_lr'"),
    (lambda o: s.OneCycleLR(o, 1.0), "OneCycleLR: give total_steps, or epochs and steps_per_epoch"),
    (lambda o: s.OneCycleLR(o, 1.0, 5, anneal_strategy="sine"), "OneCycleLR: anneal_strategy must be 'cos' or 'linear', got 'sine'"),
    (lambda o: s.OneCycleLR(o, [1.0, 2.0], 5), "OneCycleLR: 2 values of max_lr for 1 parameter groups"),
    (lambda o: s.ReduceLROnPlateau(o, factor=1.0), "ReduceLROnPlateau: factor must be less than 1, got 1.0"),
    (lambda o: s.SequentialLR(o, [s.StepLR(o, 1)], [2]), "SequentialLR: 1 schedulers need 0 milestones, got 1"),
    (lambda o: s.SequentialLR(o, [], []), "SequentialLR: needs at least one scheduler"),
    (lambda o: s.ChainedScheduler([s.ReduceLROnPlateau(o)]), "ChainedScheduler: ReduceLROnPlateau cannot be part of it"),
    (lambda o: s.SequentialLR(o, [s.StepLR(make_optimizer(), 1)], []), "SequentialLR: all schedulers must belong to one optimizer"),
    (lambda o: s.ConstantLR(o, 2.0), r"ConstantLR: factor must be in \[0, 1\], got 2.0"),
    (lambda o: s.PolynomialLR(o, -1), "PolynomialLR: total_iters must be at least 0, got -1"),
    (lambda o: s.CosineAnnealingWarmRestarts(o, 0), "CosineAnnealingWarmRestarts: T_0 must be at least 1, got 0"),
    (lambda o: run_over(o), "OneCycleLR: step 3 is behind the 2 steps")])
def test_errors(make, text):
    with pytest.raises(ArgumentError, match=text):
        make(make_optimizer(momentum=0.9))


def run_over(optimizer):
    schedule = s.OneCycleLR(optimizer, 1.0, 2)
    for _ in range(3):
        schedule.step()


# ---------------------------------------------------------------- wrong types
class Foreign:
    """What no argument takes."""

    def __repr__(self):
        return "Foreign()"


def plain_steps(o):
    return [s.StepLR(o, 1), s.StepLR(o, 1)]


WRONG = [Foreign(), "text", None, [Foreign()], {"a": 1}, 1j]
NONE_IS_FINE = {"step_size_down", "scale_fn", "epoch", "total_steps", "epochs", "steps_per_epoch", "closure"}
SCHEDULES = {           # arguments that work, by name, from an optimizer
    s.LambdaLR: lambda o: {"optimizer": o, "lr_lambda": lambda e: 1.0, "last_epoch": -1},
    s.MultiplicativeLR: lambda o: {"optimizer": o, "lr_lambda": lambda e: 1.0, "last_epoch": -1},
    s.StepLR: lambda o: {"optimizer": o, "step_size": 2, "gamma": 0.1, "last_epoch": -1},
    s.MultiStepLR: lambda o: {"optimizer": o, "milestones": [2], "gamma": 0.1, "last_epoch": -1},
    s.ConstantLR: lambda o: {"optimizer": o, "factor": 0.5, "total_iters": 5, "last_epoch": -1},
    s.ExponentialLR: lambda o: {"optimizer": o, "gamma": 0.5, "last_epoch": -1},
    s.LinearLR: lambda o: {"optimizer": o, "start_factor": 0.5, "end_factor": 1.0, "total_iters": 5, "last_epoch": -1},
    s.PolynomialLR: lambda o: {"optimizer": o, "total_iters": 5, "power": 1.0, "last_epoch": -1},
    s.CosineAnnealingLR: lambda o: {"optimizer": o, "T_max": 5, "eta_min": 0.0, "last_epoch": -1},
    s.CosineAnnealingWarmRestarts: lambda o: {"optimizer": o, "T_0": 5, "T_mult": 1, "eta_min": 0.0, "last_epoch": -1},
    s.OneCycleLR: lambda o: {
        "optimizer": o, "max_lr": 0.1, "total_steps": 9, "pct_start": 0.3, "anneal_strategy": "cos", "cycle_momentum": True,
        "base_momentum": 0.85, "max_momentum": 0.95, "div_factor": 25.0, "final_div_factor": 1e4, "three_phase": False, "last_epoch": -1},
    s.CyclicLR: lambda o: {
        "optimizer": o, "base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3, "step_size_down": 2, "mode": "triangular", "gamma": 0.9,
        "scale_fn": lambda x: 1.0, "scale_mode": "cycle", "cycle_momentum": True, "base_momentum": 0.8, "max_momentum": 0.9,
        "last_epoch": -1},
    s.ReduceLROnPlateau: lambda o: {
        "optimizer": o, "mode": "min", "factor": 0.1, "patience": 10, "threshold": 1e-4, "threshold_mode": "rel", "cooldown": 0,
        "min_lr": 0, "eps": 1e-8},
    s.SequentialLR: lambda o: {"optimizer": o, "schedulers": plain_steps(o), "milestones": [3], "last_epoch": -1},
    s.ChainedScheduler: lambda o: {"schedulers": plain_steps(o)}}


def refused(owner, name, call, wrong):
    """The call raises, as Volta's error, with the class and the argument named."""
    with pytest.raises(ArgumentError) as error:
        call()
    assert str(error.value).startswith(f"{owner}: "), f"{name}={wrong!r}: {error.value}"
    assert name in str(error.value) or name == "optimizer" and "needs an optimizer" in str(error.value), f"{name}={wrong!r}: {error.value}"


@pytest.mark.parametrize("kind", SCHEDULES, ids=lambda kind: kind.__name__)
def test_wrong_types_of_every_argument_of_every_schedule(kind):
    for name in SCHEDULES[kind](make_optimizer(momentum=0.9)):
        for wrong in WRONG:
            if wrong is None and name in NONE_IS_FINE:
                continue
            arguments = {**SCHEDULES[kind](make_optimizer(momentum=0.9)), name: wrong}
            refused(kind.__name__, name, lambda a=arguments: kind(**a), wrong)


def test_every_schedule_is_among_them():
    kinds = {value for value in vars(s).values() if isinstance(value, type) and issubclass(value, s.LRScheduler)}
    assert {kind for kind in kinds if not kind.__name__.startswith("_")} - {s.LRScheduler} == set(SCHEDULES)


@pytest.mark.parametrize("kind", SCHEDULES, ids=lambda kind: kind.__name__)
def test_wrong_types_in_steps_and_states(kind):
    schedule = kind(**SCHEDULES[kind](make_optimizer(momentum=0.9)))
    argument = "metrics" if kind is s.ReduceLROnPlateau else "epoch"
    for wrong in WRONG:
        if kind not in (s.SequentialLR, s.ChainedScheduler) and not (wrong is None and argument == "epoch"):
            refused(kind.__name__, argument, lambda w=wrong: schedule.step(w), wrong)
        with pytest.raises(StateDictError, match=f"{kind.__name__}: load_state_dict needs what state_dict"):
            schedule.load_state_dict(wrong)


def test_a_function_that_gives_no_number():
    with pytest.raises(ArgumentError, match="LambdaLR: the result of lr_lambda must be a number, got None"):
        s.LambdaLR(make_optimizer(), lambda epoch: None)


@pytest.mark.parametrize("kind", [getattr(optim, name) for name in optim.algorithms.__all__])
def test_wrong_types_of_every_argument_of_every_optimizer(kind):
    choices = ["foreach", "capturable", "differentiable"]        # among PyTorch's implementations: no step differs by them
    names = [name for name, p in inspect.signature(kind).parameters.items() if name not in ("params", *choices, "fused")
             and p.kind is not p.VAR_KEYWORD]
    for name, wrong in itertools.product(choices[::2], WRONG):
        if wrong is not None or name != "foreach":
            refused(kind.__name__, name, lambda n=name, w=wrong: kind([nn.Parameter(volta.ones(1))], **{n: w}), wrong)
    assert "lr" in names and "maximize" in names
    for name in names:
        for wrong in WRONG:
            refused(kind.__name__, name, lambda n=name, w=wrong: kind([nn.Parameter(volta.ones(1))], **{n: w}), wrong)
            optimizer = make_optimizer(kind=kind)
            optimizer.param_groups[0][name] = wrong                 # as users set them between steps
            refused(kind.__name__, name, optimizer.step, wrong)
    for wrong in [*WRONG, 3]:
        refused(kind.__name__, "param", lambda w=wrong: kind(w), wrong)
        if wrong is not None:
            refused(kind.__name__, "closure", lambda w=wrong: make_optimizer(kind=kind).step(w), wrong)
        refused(kind.__name__, "param", lambda w=wrong: make_optimizer(kind=kind).add_param_group(w), wrong)
        refused(kind.__name__, "params", lambda w=wrong: make_optimizer(kind=kind).add_param_group({"params": w}), wrong)
        with pytest.raises(StateDictError, match=f"{kind.__name__}: "):
            make_optimizer(kind=kind).load_state_dict(wrong)
        with pytest.raises(StateDictError, match=f"{kind.__name__}: "):
            make_optimizer(kind=kind).load_state_dict({"state": {}, "param_groups": [wrong]})
    groups = make_optimizer(kind=kind).state_dict()["param_groups"]
    for bad in (Foreign(), "text", 3, {"step": Foreign()}, {"step": "x"}):
        with pytest.raises(StateDictError, match=f"{kind.__name__}: the st"):
            make_optimizer(kind=kind).load_state_dict({"state": {0: bad}, "param_groups": groups})


# ---------------------------------------------------------------- learning rates that are tensors
@pytest.mark.parametrize("make", [
    lambda o: s.StepLR(o, 2, 0.5), lambda o: s.LambdaLR(o, lambda e: 1 / (e + 1)), lambda o: s.CosineAnnealingLR(o, 4, 0.2),
    lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.25, total_iters=3), s.ExponentialLR(o, 0.5)], [3]),
    lambda o: s.OneCycleLR(o, 1.0, total_steps=9), lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.5)])])
def test_schedules_keep_a_tensor_as_learning_rate(make):
    """As in PyTorch, the tensor that the user gave follows the schedule, and what get_last_lr gives does not follow it."""
    held = volta.tensor(1.0)
    first, second = make_optimizer(held, momentum=0.9), make_optimizer(1.0, momentum=0.9)
    one, other = make(first), make(second)
    for _ in range(6):
        assert first.param_groups[0]["lr"] is held
        assert held.item() == pytest.approx(second.param_groups[0]["lr"], rel=1e-6)
        (last,) = one.get_last_lr()
        one.step()
        other.step()
        assert isinstance(last, volta.Tensor) and last is not held


def test_plateau_with_a_tensor_as_learning_rate():
    held = volta.tensor(1.0)
    schedule = s.ReduceLROnPlateau(make_optimizer(held), patience=0, factor=0.5)
    for _ in range(2):
        schedule.step(1.0)
    assert held.item() == 0.5


def test_cycles_note_their_momenta_in_the_groups():
    optimizer = volta.optim.SGD([volta.nn.Parameter(volta.ones(2))], lr=0.1, momentum=0.9)
    volta.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, base_momentum=0.75, max_momentum=0.95)
    group, = optimizer.param_groups
    assert (group["base_momentum"], group["max_momentum"], group["momentum"]) == (0.75, 0.95, 0.95)


def warned(call, *parts):
    """Whether a call gives just these warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert [w.category for w in found] == [UserWarning] * len(parts), [str(w.message) for w in found]
    for each, part in zip(found, parts):
        assert part in str(each.message)


def test_a_schedule_ahead_of_its_optimizer_is_noticed_once():
    optimizer = make_optimizer()
    optimizer.step()                                    # before there was a schedule, it does not count
    schedule = s.StepLR(optimizer, 1)
    warned(schedule.step, "Detected call of `lr_scheduler.step()` before `optimizer.step()`")
    warned(schedule.step)
    optimizer = make_optimizer()
    schedule, other = s.StepLR(optimizer, 1), s.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    warned(lambda: (schedule.step(), other.step()))
    warned(lambda: schedule.step(3), "The epoch parameter in `scheduler.step()`")
    several = s.SequentialLR(optimizer, [s.ConstantLR(optimizer), s.StepLR(optimizer, 1)], [2])
    warned(lambda: [several.step() for _ in range(3)])


def test_a_replaced_step_is_noticed():
    optimizer = make_optimizer()
    schedule = s.StepLR(optimizer, 1)
    optimizer.step = lambda: None
    warned(schedule.step, "`optimizer.step()` has been overridden after learning rate scheduler initialization")


def test_get_lr_outside_a_step_warns():
    optimizer = make_optimizer()
    schedules = [s.StepLR(optimizer, 1), s.CosineAnnealingWarmRestarts(optimizer, 2), optim.swa_utils.SWALR(optimizer, 0.1)]
    for schedule in schedules:
        warned(schedule.get_lr, "To get the last learning rate computed by the scheduler")
        optimizer.step()
        warned(schedule.step)
    assert schedules[1].state_dict()["_get_lr_called_within_step"] is False


def rates_at(optimizer, schedule, *epochs):
    found = [optimizer.param_groups[0]["lr"]]
    for epoch in epochs:
        optimizer.step()
        schedule.step(epoch)
        found.append(optimizer.param_groups[0]["lr"])
    return found


@pytest.mark.parametrize("make, epochs, shares", [
    (lambda o: s.LinearLR(o, 0.5, total_iters=0), (None, None), (0.5, 0.5, 0.5)),
    (lambda o: s.PolynomialLR(o, 0), (None, None), (1.0, 1.0, 1.0)),
    (lambda o: s.MultiplicativeLR(o, lambda epoch: 0.5), (0, 1), (1.0, 0.5, 0.25))])
def test_edges_of_schedules_as_in_pytorch(make, epochs, shares):
    optimizer = make_optimizer()
    first = optimizer.param_groups[0]["lr"]
    assert rates_at(optimizer, make(optimizer), *epochs) == pytest.approx([first * share for share in shares])


def test_a_group_that_comes_later_goes_down_too():
    """By the factor 0, of which no ratio can be formed."""
    optimizer = make_optimizer()
    schedule = s.ExponentialLR(optimizer, 0.0)
    rates_at(optimizer, schedule, None)
    optimizer.add_param_group({"params": [volta.ones(1, requires_grad=True)], "lr": 1.0})
    rates_at(optimizer, schedule, None)
    assert [group["lr"] for group in optimizer.param_groups] == [0.0] * len(optimizer.param_groups)


def test_restarts_that_go_on_behind_the_first():
    """The epoch within a cycle is what is left of it, as in PyTorch."""
    optimizer = make_optimizer()
    for group in optimizer.param_groups:
        group["initial_lr"] = 1.0
    schedule = s.CosineAnnealingWarmRestarts(optimizer, 2, 2, last_epoch=4)
    assert (schedule.T_cur, schedule.T_i) == (1, 4)
