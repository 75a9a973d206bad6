"""Averages of a model's parameters over training, and the learning rate that goes with them."""
from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from volta.autograd import no_grad
from volta.dtypes import int64
from volta.errors import ArgumentError
from volta.nn.module import Module
from volta.nn.norm import _BatchNorm
from volta.ops.creation import zeros
from volta.optim.checks import at_least, integer, number, one_of
from volta.optim.optimizer import Optimizer
from volta.optim.schedule import LRScheduler, need_optimizer, per_group
from volta.tensor import Tensor

__all__ = ["AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn"]


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """The mean of all: a function (average, value, number averaged so far) -> the new average."""
    return lambda average, value, count: average + (value - average) / (count + 1)


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """The exponential moving average: a function (average, value, number averaged so far) -> the new average.

    Raises: ArgumentError for a decay outside [0, 1].
    """
    if not 0.0 <= decay <= 1.0:
        raise ArgumentError(f"get_ema_avg_fn: decay must be in [0, 1], got {decay}")
    return lambda average, value, count: average * decay + value * (1 - decay)


def _for_lists(function):
    def averaged(averages, values, count):
        for average, value in zip(averages, values):
            average.copy_(function(average, value, count))
    return averaged


def get_swa_multi_avg_fn() -> Callable[[list, list, Any], None]:
    """`get_swa_avg_fn` over lists, in place."""
    return _for_lists(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list, list, Any], None]:
    """`get_ema_avg_fn` over lists, in place."""
    function = get_ema_avg_fn(decay)

    def averaged(averages, values, count):
        for average, value in zip(averages, values):
            _approach(average, value, 1 - decay, function, count)
    return averaged


def _approach(average, value, weight, function, count):
    """Go by this weight from the average towards the value, in one kernel; integers become what the function gives."""
    if average.dtype.is_floating_point:
        average.lerp_(value, weight)
    else:
        average.copy_(function(average, value, count))


class AveragedModel(Module):
    """A copy of `model` whose parameters are averages of those it is updated with: the mean, unless `avg_fn` (of one tensor) or
    `multi_avg_fn` (of lists, in place) says otherwise. Buffers are averaged too with `use_buffers`, else copied.
    Source: Izmailov et al. 2018.

    Raises: ArgumentError where both functions are given.
    """

    def __init__(self, model: Module, device=None, avg_fn: Callable | None = None, multi_avg_fn: Callable | None = None,
                 use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", zeros((), dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _tensors(self, model):
        return [t.detach() for t in (*model.parameters(), *(model.buffers() if self.use_buffers else ()))]

    @no_grad
    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of `model` into the averages."""
        own, given = self._tensors(self.module), self._tensors(model)
        given = [value.to(average.device) for value, average in zip(given, own)]
        counts = {average.device: None for average in own}          # as tensors, which the user's functions are given
        if self.avg_fn is not None or self.multi_avg_fn is not None:
            counts = {device: self.n_averaged.to(device) for device in counts}
        if not self.n_averaged:
            for average, value in zip(own, given):
                average.copy_(value)
        elif self.avg_fn is None and self.multi_avg_fn is None:
            function, count = get_swa_avg_fn(), self.n_averaged.item()
            for average, value in zip(own, given):
                _approach(average, value, 1 / (count + 1), function, count)
        elif self.multi_avg_fn is not None:
            kinds: dict[tuple, tuple[list, list]] = {}
            for average, value in zip(own, given):
                lists = kinds.setdefault((average.device, average.dtype), ([], []))
                lists[0].append(average), lists[1].append(value)
            for (device, _), lists in kinds.items():
                self.multi_avg_fn(*lists, counts[device])
        else:
            for average, value in zip(own, given):
                average.copy_(self.avg_fn(average, value, counts[average.device]))
        if not self.use_buffers:
            for average, value in zip(self.module.buffers(), model.buffers()):
                average.copy_(value.to(average.device))
        self.n_averaged.add_(1)


@no_grad
def update_bn(loader: Iterable[Any], model: Module, device=None) -> None:
    """Make the running statistics of all batch normalisations of `model` anew, by one pass over `loader`: batches, or lists of which the
    first is the input."""
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not layers:
        return
    momenta, training = [m.momentum for m in layers], model.training
    for m in layers:
        m.reset_running_stats()
        m.momentum = None
    model.train()
    try:
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    finally:
        for m, momentum in zip(layers, momenta):
            m.momentum = momentum
        model.train(training)


class SWALR(LRScheduler):
    """From the learning rate in use to `swa_lr` in `anneal_epochs` epochs, along a cosine or a line; then it stays."""

    def __init__(self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10, anneal_strategy: str = "cos",
                 last_epoch: int = -1) -> None:
        rates = per_group("SWALR", "swa_lr", swa_lr, need_optimizer(self, optimizer), number)
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate
        self.anneal_epochs = at_least("SWALR", "anneal_epochs", integer("SWALR", "anneal_epochs", anneal_epochs), 0)
        self._anneal_strategy = one_of("SWALR", "anneal_strategy", anneal_strategy, ("cos", "linear"))
        super().__init__(optimizer, last_epoch)

    def _part(self, step):
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def _rates(self):
        step = max(1, self._step_count - 1) if self.anneal_epochs == 0 else self._step_count - 1
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group, lr in zip(self.optimizer.param_groups, self.rates()):
            target = number("SWALR", "swa_lr", group["swa_lr"])
            start = target if before == 1 else (lr - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
