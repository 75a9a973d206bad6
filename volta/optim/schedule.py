"""The base of the learning-rate schedules: what `step`, resuming and state dicts do for all of them."""
from __future__ import annotations

import types
import warnings
from typing import Any

from volta._kernels import core
from volta.errors import ArgumentError, CallError, MissingError, StateDictError
from volta.optim.checks import integer, number
from volta.optim.optimizer import Optimizer

_ORDER = ("Detected call of `lr_scheduler.step()` before `optimizer.step()`. They should be called in the opposite order: "
          "`optimizer.step()` before `lr_scheduler.step()`. Failure to do this skips the first value of the learning rate schedule.")
_OVERRIDDEN = ("Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. Please, make sure to call "
               "`optimizer.step()` before `lr_scheduler.step()`.")
EPOCH_IS_DEPRECATED = ("The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
                       "`scheduler.step()` to step the scheduler. If epoch is different from None, the closed form is used instead of the "
                       "new chainable form, where available.")

_LAST = "To get the last learning rate computed by the scheduler, please use `get_last_lr()`."


class LRScheduler:
    """Base. A subclass gives `scale(group index, epoch)`, the share of the first learning rate, or its own `get_lr()`. Call `step()`
    after each epoch (or each batch), behind `optimizer.step()`. A learning rate that is a tensor is changed in place."""

    _get_lr_called_within_step = False
    _is_initial = False                     # in the step before the first
    _advances = False                       # whether going on from an epoch takes the step to the next one, as it does for some in PyTorch

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        name = type(self).__name__
        self.optimizer, self.last_epoch = need_optimizer(self, optimizer), integer(name, "last_epoch", last_epoch)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                number(name, "lr", group["lr"])
                group.setdefault("initial_lr", group["lr"].clone() if isinstance(group["lr"], core.TensorBase) else group["lr"])
            elif "initial_lr" not in group:
                raise MissingError(f"{name}: to go on from last_epoch={last_epoch}, group {i} of the optimizer needs its "
                                    f"'initial_lr'; load the optimizer's state first")
        self.base_lrs = [number(name, "initial_lr", group["initial_lr"]) for group in optimizer.param_groups]
        if optimizer._opt_called is None:
            optimizer._opt_called, optimizer._step_given = False, vars(optimizer).get("step")
        self._step_first()

    def _step_first(self):
        """The step before the first; a schedule that goes on from an epoch finds the rate of that epoch in the optimizer."""
        self._step_count, self._is_initial = 0, True
        self.step()
        self._is_initial = False

    def scale(self, index: int, epoch: int) -> float:
        """What the first learning rate of group `index` is multiplied with in an epoch."""
        raise NotImplementedError(f"{type(self).__name__}: define scale(self, index, epoch) or get_lr(self)")

    def rates(self) -> list[float]:
        """The learning rates in use, as numbers."""
        return [number(type(self).__name__, "lr", group["lr"]) for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """The learning rates of the present epoch, from those in use: what `step` asks for. Elsewhere, where it would go one step further,
        a warning names `get_last_lr`."""
        if not self._get_lr_called_within_step:
            warnings.warn(_LAST, UserWarning, stacklevel=2)
        return self._rates()

    def _rates(self):
        return [self._advanced(i, lr) for i, lr in enumerate(self.rates())]

    def _advanced(self, index, lr):
        if self.last_epoch == 0:
            return lr * self.scale(index, 0)
        before, now = self.scale(index, self.last_epoch - 1), self.scale(index, self.last_epoch)
        if before == now or self._is_initial and not self._advances:
            return lr
        return lr * (now / before) if before else self.base_lrs[index] * now

    def closed_lr(self) -> list[float]:
        """The learning rates of the present epoch, from the first ones; get_lr() where there is no such form."""
        if (type(self).get_lr, type(self)._rates) != (LRScheduler.get_lr, LRScheduler._rates):
            return self.get_lr()
        return [base * self.scale(i, self.last_epoch) for i, base in enumerate(self.base_lrs)]

    def get_last_lr(self) -> list[float]:
        """The learning rates that the last step set: numbers, or copies where they are tensors."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch, or to the one given."""
        if epoch is not None:
            number(type(self).__name__, "epoch", epoch)
            warnings.warn(EPOCH_IS_DEPRECATED, UserWarning, stacklevel=2)
        if self._step_count == 1:
            if vars(self.optimizer).get("step") is not self.optimizer._step_given:
                warnings.warn(_OVERRIDDEN, UserWarning, stacklevel=2)
            elif not self.optimizer._opt_called:
                warnings.warn(_ORDER, UserWarning, stacklevel=2)
        self._step_count += 1
        self._go(epoch)

    def _go(self, epoch):
        """To an epoch, or by one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(self._within(self.get_lr if epoch is None else self.closed_lr))

    def _within(self, find):
        """What `find` gives as a part of `step`."""
        self._get_lr_called_within_step = True
        try:
            return find()
        finally:
            self._get_lr_called_within_step = False

    def _set(self, rates):
        for group, lr in zip(self.optimizer.param_groups, rates):
            set_value(group, "lr", lr)
        self._last_lr = [group["lr"].clone() if isinstance(group["lr"], core.TensorBase) else group["lr"]
                         for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions. Of callable objects, what they hold."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        functions = self.__dict__.get("lr_lambdas")
        return {**state, "lr_lambdas": [held(each) for each in functions]} if isinstance(functions, list) else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave; the learning rates in use are the optimizer's, whose state is loaded by itself.

        Raises: StateDictError where it is not a dict that a schedule gave, or of another number of groups; ArgumentError for a learning
        rate that is none. Nothing has changed then.
        """
        need_state(self, state_dict, "_last_lr")
        rates = [number(type(self).__name__, "lr", lr) for lr in state_dict["_last_lr"]]
        if len(rates) != len(self._last_lr):
            raise StateDictError(f"{type(self).__name__}: load_state_dict got {len(rates)} learning rates for {len(self._last_lr)} groups")
        self.__dict__.update({key: value for key, value in state_dict.items() if key not in ("optimizer", "lr_lambdas")})
        functions = self.__dict__.get("lr_lambdas")
        for each, kept in zip(functions, state_dict.get("lr_lambdas") or ()) if isinstance(functions, list) else ():
            if kept is not None:
                each.__dict__.update(kept)


def held(call: Any) -> dict[str, Any] | None:
    """What a state says of a function: None, but what a callable object holds."""
    return None if isinstance(call, types.FunctionType) or not hasattr(call, "__dict__") else dict(call.__dict__)


def set_value(group: dict, key: str, value: float) -> None:
    """Set a hyperparameter of a group; a tensor stays the one it is, so that the user's own follows."""
    held = group[key]
    if isinstance(held, core.TensorBase):
        held.detach().fill_(float(value))
    else:
        group[key] = value


def turns_beta(scheduler: object, optimizer: Optimizer) -> bool:
    """Whether a schedule of momentum changes the first of an optimizer's betas.

    Raises: ArgumentError where the optimizer has neither momentum nor betas.
    """
    if not {"momentum", "betas"} & set(optimizer.defaults):
        raise ArgumentError(f"{type(scheduler).__name__}: the optimizer has no momentum and no betas; use cycle_momentum=False")
    return "betas" in optimizer.defaults


def set_momentum(group: dict, value: float, beta: bool) -> None:
    """Set a group's momentum, or where `beta` the first of its betas."""
    if beta:
        group["betas"] = (value, *group["betas"][1:])
    else:
        set_value(group, "momentum", value)


def need_optimizer(scheduler: object, optimizer: object) -> Optimizer:
    """`optimizer`, if it is one.

    Raises: ArgumentError naming the scheduler.
    """
    if not isinstance(optimizer, Optimizer):
        raise CallError(f"{type(scheduler).__name__}: needs an optimizer, got {type(optimizer).__name__}")
    return optimizer


def need_state(scheduler: object, state_dict: object, key: str) -> None:
    """Raise StateDictError unless `state_dict` is a dict that holds a list under `key`."""
    if not isinstance(state_dict, dict) or not isinstance(state_dict.get(key), list):
        raise StateDictError(f"{type(scheduler).__name__}: load_state_dict needs what state_dict() gave, a dict with {key!r}, got "
                             f"{type(state_dict).__name__}")


def per_group(name: str, what: str, value: object, optimizer: Optimizer, check=None) -> list:
    """A list with one entry per parameter group, from one value for all or a list; each passes `check(name, what, entry)`.

    Raises: ArgumentError where a list has another length.
    """
    count = len(optimizer.param_groups)
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ArgumentError(f"{name}: {len(values)} values of {what} for {count} parameter groups")
    return values if check is None else [check(name, what, v) for v in values]
