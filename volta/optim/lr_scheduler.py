"""Learning rates over time. Each scheduler is one function of the epoch, so that resuming needs only the epoch."""
from __future__ import annotations

import math
from collections.abc import Callable

from volta.errors import ArgumentError
from volta.optim.optimizer import Optimizer


class LRScheduler:
    """Base: `factor(group index, epoch)` times the first learning rate. Call `step()` after each epoch (or each batch)."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"{type(self).__name__}: needs an optimizer, got {type(optimizer).__name__}")
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.step()

    def factor(self, index: int, epoch: int) -> float:
        """What the first learning rate of group `index` is multiplied with."""
        raise NotImplementedError(f"{type(self).__name__}: define factor(self, index, epoch)")

    def get_lr(self) -> list[float]:
        """The learning rates of the present epoch."""
        return [base * self.factor(i, self.last_epoch) for i, base in enumerate(self.base_lrs)]

    def get_last_lr(self) -> list[float]:
        """The learning rates in use."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self) -> None:
        """Go on by one epoch."""
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr

    def state_dict(self) -> dict:
        """Everything but the optimizer and functions."""
        return {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}

    def load_state_dict(self, state_dict: dict) -> None:
        """Continue from what `state_dict` gave."""
        self.__dict__.update(state_dict)
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            group["lr"] = lr


class LambdaLR(LRScheduler):
    """The first learning rate times `lr_lambda(epoch)`; one function, or one per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable | list[Callable], last_epoch: int = -1) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ArgumentError(f"LambdaLR: {len(self.lr_lambdas)} functions for {count} parameter groups")
        super().__init__(optimizer, last_epoch)

    def factor(self, index, epoch):
        return self.lr_lambdas[index](epoch)


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ArgumentError(f"StepLR: step_size must be at least 1, got {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, index, epoch):
        return self.gamma ** (epoch // self.step_size)


class ExponentialLR(LRScheduler):
    """Times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, index, epoch):
        return self.gamma ** epoch


class LinearLR(LRScheduler):
    """From start_factor to end_factor of the first learning rate in `total_iters` epochs: a warm-up."""

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
                 last_epoch: int = -1) -> None:
        if total_iters < 1 or not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ArgumentError(f"LinearLR: needs total_iters >= 1, start_factor in (0, 1] and end_factor in [0, 1], got "
                                f"{total_iters}, {start_factor} and {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, index, epoch):
        return self.start_factor + (self.end_factor - self.start_factor) * min(epoch, self.total_iters) / self.total_iters


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate to `eta_min` in `T_max` epochs. Source: Loshchilov and Hutter 2017, eq. 5."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ArgumentError(f"CosineAnnealingLR: T_max must be at least 1, got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]
