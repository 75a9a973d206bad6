"""Learning rates over time. A scheduler multiplies the rates in use, so that several can work on one optimizer, as in PyTorch."""
from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from volta.errors import ArgumentError
from volta.optim.checks import at_least, flag, function, integer, metric, number, one_of, positive, sequence, within
from volta.optim.optimizer import Optimizer
from volta.optim.schedule import (
    EPOCH_IS_DEPRECATED,
    LRScheduler,
    held,
    need_optimizer,
    need_state,
    per_group,
    set_momentum,
    set_value,
    turns_beta,
)

__all__ = ["ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
           "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau",
           "SequentialLR", "StepLR"]

_LRScheduler = LRScheduler              # its name in older programs, which derive their own from it


class LambdaLR(LRScheduler):
    """The first learning rate times `lr_lambda(epoch)`; one function, or one per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable | list[Callable], last_epoch: int = -1) -> None:
        self.lr_lambdas = per_group(type(self).__name__, "lr_lambda", lr_lambda, need_optimizer(self, optimizer), function)
        super().__init__(optimizer, last_epoch)

    def _rates(self):
        return [base * share for base, share in zip(self.base_lrs, self._shares())]

    def _shares(self):
        return [number(type(self).__name__, "the result of lr_lambda", call(self.last_epoch)) for call in self.lr_lambdas]


class MultiplicativeLR(LambdaLR):
    """The learning rate in use times `lr_lambda(epoch)`, from the second epoch on."""

    def _rates(self):
        rates = self.rates()
        if self._is_initial:
            return rates
        return [lr * share for lr, share in zip(rates, self._shares())]


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` epochs: at the epochs that `step_size`, which may be a fraction, divides."""

    _advances = True

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        found = positive("StepLR", "step_size", step_size)
        self.step_size, self.gamma = step_size if type(step_size) is int else found, number("StepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def scale(self, index, epoch):
        return self.gamma ** (epoch // self.step_size)

    def _advanced(self, index, lr):
        return lr if not self.last_epoch or self.last_epoch % self.step_size else lr * self.gamma


def _reached(milestones, epoch):
    """How many of the milestones."""
    return sum(m <= epoch for m in milestones)


class MultiStepLR(LRScheduler):
    """Times `gamma` at each epoch of `milestones`."""

    _advances = True

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        epochs = sequence("MultiStepLR", "milestones", milestones, "epochs")
        self.milestones = Counter([number("MultiStepLR", "milestones", m) for m in epochs])
        self.gamma = number("MultiStepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def scale(self, index, epoch):
        return self.gamma ** sum(count for m, count in Counter(self.milestones).items() if m <= epoch)

    def _advanced(self, index, lr):
        return lr * self.gamma ** self.milestones[self.last_epoch] if self.last_epoch in self.milestones else lr


class ConstantLR(LRScheduler):
    """Times `factor` for the first `total_iters` epochs."""

    _advances = True

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        self.factor = within("ConstantLR", "factor", factor)
        self.total_iters = number("ConstantLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def scale(self, index, epoch):
        return self.factor if epoch < self.total_iters else 1.0

    def _advanced(self, index, lr):
        return lr * self.factor if self.last_epoch == 0 else super()._advanced(index, lr)


class ExponentialLR(LRScheduler):
    """Times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = number("ExponentialLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def scale(self, index, epoch):
        return self.gamma ** epoch

    def _advanced(self, index, lr):
        return lr if self._is_initial else lr * self.gamma


class LinearLR(LRScheduler):
    """From start_factor to end_factor of the first learning rate in `total_iters` epochs: a warm-up."""

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
                 last_epoch: int = -1) -> None:
        self.start_factor = within("LinearLR", "start_factor", positive("LinearLR", "start_factor", start_factor))
        self.end_factor = within("LinearLR", "end_factor", end_factor)
        self.total_iters = at_least("LinearLR", "total_iters", total_iters, 0)
        super().__init__(optimizer, last_epoch)

    def scale(self, index, epoch):
        share = min(epoch, self.total_iters) / self.total_iters if self.total_iters else 0.0
        return self.start_factor + (self.end_factor - self.start_factor) * share

    def _advanced(self, index, lr):
        if self.last_epoch == 0:
            return lr * self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return lr
        span = self.end_factor - self.start_factor
        return lr * (1.0 + span / (self.total_iters * self.start_factor + (self.last_epoch - 1) * span))


class PolynomialLR(LRScheduler):
    """Down to 0 in `total_iters` epochs, as (1 - epoch / total_iters) ** power."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = at_least("PolynomialLR", "total_iters", total_iters, 0), number("PolynomialLR", "power", power)
        super().__init__(optimizer, last_epoch)

    def scale(self, index, epoch):
        return (1.0 - min(epoch, self.total_iters) / self.total_iters) ** self.power if self.total_iters else 1.0

    def _advanced(self, index, lr):
        if self._is_initial or self.last_epoch > self.total_iters:
            return lr
        now, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return lr * (now / before) ** self.power


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate to `eta_min` in `T_max` epochs. Source: Loshchilov and Hutter 2017, eq. 5."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = at_least("CosineAnnealingLR", "T_max", T_max, 1), number("CosineAnnealingLR", "eta_min", eta_min)
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch):
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2

    def _rates(self):
        rates = self.rates()
        if self._is_initial:
            return rates
        if (self.last_epoch - 1) % (2 * self.T_max) == self.T_max:          # up again from the bottom, where the share is 0
            return [lr + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2 for lr, base in zip(rates, self.base_lrs)]
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (lr - self.eta_min) + self.eta_min for lr in rates]

    def closed_lr(self):
        return [self.eta_min + (base - self.eta_min) * self._share(self.last_epoch) for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines to `eta_min`, the first of `T_0` epochs and each `T_mult` times as long as the one before. `step` takes parts of an
    epoch too. Source: Loshchilov and Hutter 2017, eq. 5."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        name = type(self).__name__
        self.T_0, self.T_mult = (at_least(name, key, integer(name, key, value), 1) for key, value in (("T_0", T_0), ("T_mult", T_mult)))
        self.T_i, self.eta_min, self.T_cur = T_0, number(name, "eta_min", eta_min), last_epoch
        super().__init__(optimizer, last_epoch)

    def _rates(self):
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        else:
            self.T_cur, self.T_i = at_least(type(self).__name__, "epoch", epoch, 0), self.T_0
            while self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        self.last_epoch = math.floor(epoch)
        self._set(self._within(self.get_lr))


def _against(rate):
    """The name of the momentum beside a learning rate of one cycle."""
    return "base_momentum" if rate == "max_lr" else "max_momentum"


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to `max_lr` in `pct_start` of the steps, then down to 1 / final_div_factor of the start; momentum (or
    Adam's first beta) goes the other way. Call `step()` after each batch. Source: Smith and Topin 2019."""

    def __init__(self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None, epochs: int | None = None,
                 steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos", cycle_momentum: bool = True,
                 base_momentum: float | list[float] = 0.85, max_momentum: float | list[float] = 0.95, div_factor: float = 25.0,
                 final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1) -> None:
        need_optimizer(self, optimizer)
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ArgumentError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        if total_steps is None:
            total_steps = integer("OneCycleLR", "epochs", epochs) * integer("OneCycleLR", "steps_per_epoch", steps_per_epoch)
        self.total_steps = at_least("OneCycleLR", "total_steps", integer("OneCycleLR", "total_steps", total_steps), 1)
        pct_start = within("OneCycleLR", "pct_start", pct_start)
        self._anneal_func_type = one_of("OneCycleLR", "anneal_strategy", anneal_strategy, ("cos", "linear"))
        self.cycle_momentum = flag("OneCycleLR", "cycle_momentum", cycle_momentum)
        div_factor, final_div_factor = (positive("OneCycleLR", key, value) for key, value in
                                        (("div_factor", div_factor), ("final_div_factor", final_div_factor)))
        if self.cycle_momentum:
            self.use_beta1 = turns_beta(self, optimizer)
        up, end = float(pct_start * self.total_steps) - 1, self.total_steps - 1
        ways = [(up, "initial_lr", "max_lr"), (end, "max_lr", "min_lr")]
        if flag("OneCycleLR", "three_phase", three_phase):
            ways = [(up, "initial_lr", "max_lr"), (2 * up, "max_lr", "initial_lr"), (end, "initial_lr", "min_lr")]
        self._schedule_phases = [{"end_step": stop, "start_lr": first, "end_lr": last, "start_momentum": _against(first),
                                  "end_momentum": _against(last)} for stop, first, last in ways]
        if last_epoch == -1:
            limits = zip(*[per_group("OneCycleLR", key, value, optimizer, number) for key, value in
                           (("max_lr", max_lr), ("max_momentum", max_momentum), ("base_momentum", base_momentum))])
            for group, (top, most, least) in zip(optimizer.param_groups, limits):
                group.update(initial_lr=top / div_factor, max_lr=top, min_lr=top / div_factor / final_div_factor)
                if cycle_momentum:
                    group.update(max_momentum=most, base_momentum=least)
        super().__init__(optimizer, last_epoch)

    def _between(self, start, end, share):
        if self._anneal_func_type == "linear":
            return start + (end - start) * share
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))

    def _rates(self):
        step = self.last_epoch
        if step > self.total_steps:
            raise ArgumentError(f"OneCycleLR: step {step} is behind the {self.total_steps} steps of the cycle")
        phases = self._schedule_phases
        place = next((i for i, phase in enumerate(phases) if step <= phase["end_step"]), len(phases) - 1)
        phase, start = phases[place], phases[place - 1]["end_step"] if place else 0.0
        share = (step - start) / (phase["end_step"] - start) if phase["end_step"] != start else 1.0

        def present(group, what):
            return self._between(group[phase["start_" + what]], group[phase["end_" + what]], share)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                set_momentum(group, present(group, "momentum"), self.use_beta1)
        return [present(group, "lr") for group in self.optimizer.param_groups]


class CyclicLR(LRScheduler):
    """From `base_lr` up to `max_lr` in `step_size_up` steps and down again, over and over; momentum (or Adam's first beta) goes the other
    way. The height of cycle c is that of the first ("triangular"), times 2 ** (1 - c) ("triangular2"), times gamma ** step ("exp_range"),
    or times `scale_fn` of the cycle or of the step ("iterations"). Call `step()` after each batch. Source: Smith 2017."""

    def __init__(self, optimizer: Optimizer, base_lr: float | list[float], max_lr: float | list[float], step_size_up: int = 2000,
                 step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0, scale_fn: Callable | None = None,
                 scale_mode: str = "cycle", cycle_momentum: bool = True, base_momentum: float | list[float] = 0.8,
                 max_momentum: float | list[float] = 0.9, last_epoch: int = -1) -> None:
        need_optimizer(self, optimizer)
        up, down = (at_least("CyclicLR", key, integer("CyclicLR", key, value), 1) for key, value in (
            ("step_size_up", step_size_up), ("step_size_down", step_size_up if step_size_down is None else step_size_down)))
        self.total_size = float(up + down)
        self.step_ratio = up / self.total_size
        self.mode = one_of("CyclicLR", "mode", mode, ("triangular", "triangular2", "exp_range"))
        self.scale_mode = one_of("CyclicLR", "scale_mode", scale_mode, ("cycle", "iterations"))
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.gamma, self.cycle_momentum = number("CyclicLR", "gamma", gamma), flag("CyclicLR", "cycle_momentum", cycle_momentum)
        self.lr_lambdas = None if scale_fn is None else function("CyclicLR", "scale_fn", scale_fn)
        lows, self.max_lrs, least, most = (
            per_group("CyclicLR", key, value, optimizer, number) for key, value in (
                ("base_lr", base_lr), ("max_lr", max_lr), ("base_momentum", base_momentum), ("max_momentum", max_momentum)))
        if self.cycle_momentum:
            self.use_beta1, self.base_momentums, self.max_momentums = turns_beta(self, optimizer), least, most
        if last_epoch == -1:
            for i, group in enumerate(optimizer.param_groups):
                set_value(group, "lr", lows[i])
                if self.cycle_momentum:
                    group.update(base_momentum=least[i], max_momentum=most[i])
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_scale_fn_custom": None if self.lr_lambdas is None else held(self.lr_lambdas)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        if vars(self).pop("_scale_fn_custom", None) and self.lr_lambdas is not None:
            self.lr_lambdas.__dict__.update(state_dict["_scale_fn_custom"])

    def scale_fn(self, x: float) -> float:
        """The height of a cycle by its number, or in the mode "exp_range" and with scale_mode="iterations" by the step."""
        if self.lr_lambdas is not None:
            return self.lr_lambdas(x)
        return {"triangular": 1.0, "triangular2": 0.5 ** (x - 1), "exp_range": self.gamma ** x}[self.mode]

    def _height(self, cycle):
        return self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)

    def _rates(self):
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        share = (place / self.step_ratio if place <= self.step_ratio else (place - 1) / (self.step_ratio - 1)) * self._height(cycle)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                set_momentum(group, high - (high - low) * share, self.use_beta1)
        return [low + (high - low) * share for low, high in zip(self.base_lrs, self.max_lrs)]


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when the metric given to `step` has not become better for more than `patience` epochs. The metric may be a tensor,
    which is read."""

    def __init__(self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
                 threshold_mode: str = "rel", cooldown: int = 0, min_lr: float | list[float] = 0, eps: float = 1e-8) -> None:
        name = "ReduceLROnPlateau"
        self.optimizer = need_optimizer(self, optimizer)
        self.mode = one_of(name, "mode", mode, ("min", "max"))
        self.threshold_mode = one_of(name, "threshold_mode", threshold_mode, ("rel", "abs"))
        self.factor, self.threshold, self.eps, self.patience, self.cooldown = (number(name, key, value) for key, value in (
            ("factor", factor), ("threshold", threshold), ("eps", eps), ("patience", patience), ("cooldown", cooldown)))
        if self.factor >= 1.0:
            raise ArgumentError(f"ReduceLROnPlateau: factor must be less than 1, got {factor}")
        self.min_lrs, self.default_min_lr = per_group(name, "min_lr", min_lr, optimizer, number), None
        if not isinstance(min_lr, (list, tuple)):
            self.default_min_lr = self.min_lrs[0]
        self.best = self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = self.num_bad_epochs = self.cooldown_counter = 0
        self._set(self.get_lr())

    def get_lr(self):
        return self.rates()

    def _is_better(self, value):
        change = -self.threshold if self.mode == "min" else self.threshold
        bound = self.best + change if self.threshold_mode == "abs" else self.best * (1.0 + change)
        return value < bound if self.mode == "min" else value > bound

    @property
    def in_cooldown(self) -> bool:
        """Whether the rate was lowered less than `cooldown` epochs ago."""
        return self.cooldown_counter > 0

    def step(self, metrics: float, epoch: int | None = None) -> None:
        """Go on by one epoch, whose metric is given."""
        value = metric("ReduceLROnPlateau", "metrics", metrics)
        if epoch is not None:
            warnings.warn(EPOCH_IS_DEPRECATED, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else number("ReduceLROnPlateau", "epoch", epoch)
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown_counter - 1, 0
        rates = self.get_lr()
        if self.num_bad_epochs > self.patience:
            if len(rates) != len(self.min_lrs):
                if self.default_min_lr is None:
                    raise ArgumentError(f"ReduceLROnPlateau: {len(self.min_lrs)} values of min_lr for {len(rates)} parameter groups")
                self.min_lrs = [self.default_min_lr] * len(rates)
            lower = [max(lr * self.factor, low) for lr, low in zip(rates, self.min_lrs)]
            rates = [low if lr - low > self.eps else lr for lr, low in zip(rates, lower)]
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._set(rates)


class _Several(LRScheduler):
    """Schedulers of one optimizer, held by another."""

    def _take(self, schedulers, optimizer):
        name = type(self).__name__
        schedulers = sequence(name, "schedulers", schedulers, "schedulers")
        if not schedulers:
            raise ArgumentError(f"{name}: needs at least one scheduler")
        for scheduler in schedulers:
            if not isinstance(scheduler, LRScheduler):
                raise ArgumentError(f"{name}: schedulers must be a list of schedulers, got {type(scheduler).__name__} in it")
        self.optimizer, self._schedulers = need_optimizer(self, schedulers[0].optimizer if optimizer is None else optimizer), schedulers
        for scheduler in schedulers:
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ArgumentError(f"{name}: ReduceLROnPlateau cannot be part of it, since its step() needs a metric")
            if scheduler.optimizer is not self.optimizer:
                raise ArgumentError(f"{name}: all schedulers must belong to one optimizer; {type(scheduler).__name__} has another")

    def get_lr(self):
        raise NotImplementedError(f"{type(self).__name__}: its schedulers have learning rates; get_last_lr() gives those in use")

    def state_dict(self) -> dict[str, Any]:
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "_schedulers")}
        return {**state, "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        need_state(self, state_dict, "_schedulers")
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})


class SequentialLR(_Several):
    """One scheduler after another: the next takes over, from its own epoch 0, at each epoch of `milestones`."""

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1) -> None:
        self._take(schedulers, need_optimizer(self, optimizer))
        milestones = [integer("SequentialLR", "milestones", m) for m in sequence("SequentialLR", "milestones", milestones, "epochs")]
        if len(milestones) != len(self._schedulers) - 1:
            raise ArgumentError(f"SequentialLR: {len(self._schedulers)} schedulers need {len(self._schedulers) - 1} milestones, got "
                                f"{len(milestones)}")
        self._milestones, self.last_epoch = milestones, integer("SequentialLR", "last_epoch", last_epoch) + 1
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        _undo(self._schedulers)
        first = self._schedulers[_reached(self._milestones, 0)]
        first._step_first()
        self._set(first.rates())

    def step(self) -> None:
        self.last_epoch += 1
        place = _reached(self._milestones, self.last_epoch)
        scheduler = self._schedulers[place]
        if not place or self._milestones[place - 1] != self.last_epoch:
            scheduler.step()
        elif isinstance(scheduler, _Several):
            raise NotImplementedError(f"SequentialLR: a {type(scheduler).__name__} has no epoch 0 to take over from at a milestone")
        else:
            scheduler._go(0)
        self._set(scheduler.rates())


def _undo(schedulers):
    """Take back the step that each scheduler made when it was created."""
    for scheduler in schedulers:
        if isinstance(scheduler, _Several):
            _undo(scheduler._schedulers)
        else:
            scheduler.last_epoch -= 1


class ChainedScheduler(_Several):
    """Several schedulers at once, each working on what the ones before it set."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(schedulers, optimizer)
        self._set(self.rates())

    def step(self) -> None:
        for scheduler in self._schedulers:
            scheduler.step()
        self._set(self.rates())
