"""The optimizers: hyperparameters, their checks and defaults. What a step computes is declared in `ops/records/update.py`."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from volta.errors import ArgumentError
from volta.ops.records import update
from volta.optim.checks import at_least_zero, below_one, flag, number
from volta.optim.optimizer import Optimizer

__all__ = ["Adam", "AdamW", "RMSprop", "SGD"]


class SGD(Optimizer):
    """Gradient descent with momentum, dampening, weight decay (L2) and Nesterov's form.

    Raises: ArgumentError for a negative or NaN hyperparameter, or nesterov without momentum or with dampening.
    Source: Sutskever et al. 2013, in PyTorch's form (the buffer holds gradients, not steps).
    """

    update = update.SGD
    rules = {"lr": at_least_zero, "momentum": at_least_zero, "dampening": number, "weight_decay": at_least_zero, "nesterov": flag,
             "maximize": flag}

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
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


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square; weight decay is added to the gradient (L2). With amsgrad the
    largest mean square so far takes the place of the present one.

    Raises: ArgumentError for a negative or NaN hyperparameter, or betas outside [0, 1).
    Source: Kingma and Ba 2015, algorithm 1; Reddi et al. 2018, algorithm 2.
    """

    update = update.ADAM
    rules = {"lr": at_least_zero, "betas": below_one, "eps": at_least_zero, "weight_decay": at_least_zero, "amsgrad": flag,
             "maximize": flag}
    counts_steps = True
    decoupled = False

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                                  "maximize": maximize})

    def _states(self, values):
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if values["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _settings(self, values):
        beta1, beta2 = values["betas"]
        return {"lr": values["lr"], "beta1": beta1, "beta2": beta2, "eps": values["eps"], "weight_decay": values["weight_decay"],
                "decoupled": self.decoupled, "maximize": values["maximize"]}


class AdamW(Adam):
    """Adam with weight decay applied to the parameter itself. Source: Loshchilov and Hutter 2019, algorithm 2."""

    decoupled = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """Steps scaled by a running mean of the gradient's square; where centered, of its variance.

    Raises: ArgumentError for a negative or NaN hyperparameter.
    Source: Tieleman and Hinton 2012, lecture 6.5; centered: Graves 2013, equations 38 to 45.
    """

    update = update.RMSPROP
    rules = {**dict.fromkeys(("lr", "alpha", "eps", "weight_decay", "momentum"), at_least_zero), "centered": flag, "maximize": flag}
    counts_steps = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0,
                 momentum: float = 0.0, centered: bool = False, *, maximize: bool = False) -> None:
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum,
                                  "centered": centered, "maximize": maximize})

    def _states(self, values):
        return ("square_avg", *["grad_avg"] * values["centered"], *["momentum_buffer"] * bool(values["momentum"]))

    def _settings(self, values):
        return {name: value for name, value in values.items() if name != "centered"}
