"""Stochastic gradient descent."""
from __future__ import annotations

from volta.errors import ArgumentError
from volta.ops.records import update
from volta.optim.checks import at_least_zero, flag, number
from volta.optim.optimizer import Optimizer


class SGD(Optimizer):
    """Gradient descent with momentum, dampening, weight decay (L2) and Nesterov's form.

    Raises: ArgumentError for a negative or NaN hyperparameter, or nesterov without momentum or with dampening.
    Source: Sutskever et al. 2013, in PyTorch's form (the buffer holds gradients, not steps).
    """

    update = update.SGD
    rules = {"lr": at_least_zero, "momentum": at_least_zero, "dampening": number, "weight_decay": at_least_zero, "nesterov": flag,
             "maximize": flag}

    def __init__(self, params, lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
                 nesterov: bool = False, *, maximize: bool = False) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize})

    def _check_group(self, group):
        values = super()._check_group(group)
        if values["nesterov"] and (not values["momentum"] or values["dampening"]):
            raise ArgumentError(f"SGD: nesterov needs momentum > 0 and dampening 0, got momentum {group['momentum']} and dampening "
                                f"{group['dampening']}")
        return values

    def _states(self, values):
        return ("momentum_buffer",) if values["momentum"] else ()
