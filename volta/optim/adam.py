"""Adam and AdamW."""
from __future__ import annotations

from volta.ops.records import update
from volta.optim.checks import at_least_zero, below_one, flag
from volta.optim.optimizer import Optimizer


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

    def __init__(self, params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
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

    def __init__(self, params, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
