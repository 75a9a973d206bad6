"""The optimizers: hyperparameters, their checks and defaults. What a step computes is declared in `ops/records/update.py`."""
from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from volta._kernels.core import TensorBase
from volta.errors import ArgumentError, DTypeError
from volta.ops.records import update
from volta.optim.checks import at_least_zero, below_one, flag, implementation, number, positive, several, within
from volta.optim.optimizer import Optimizer
from volta.optim.rows import descend, descend_by_squares
from volta.optim.state import Kept, as_stored

__all__ = ["ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]


class SGD(Optimizer):
    """Gradient descent with momentum, dampening, weight decay (L2) and Nesterov's form.

    Raises: ArgumentError for a negative or NaN hyperparameter, or nesterov without momentum or with dampening.
    Source: Sutskever et al. 2013, in PyTorch's form (the buffer holds gradients, not steps).
    """

    update = update.SGD
    rules = {"lr": at_least_zero, "momentum": at_least_zero, "dampening": number, "weight_decay": at_least_zero, "nesterov": flag,
             "maximize": flag}

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
                 nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        implementation("SGD", foreach=foreach, differentiable=differentiable, fused=fused)
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
                                  "fused": fused})

    def _check_group(self, group):
        values = super()._check_group(group)
        if values["nesterov"] and (not values["momentum"] or values["dampening"]):
            raise ArgumentError(f"SGD: nesterov needs momentum > 0 and dampening 0, got momentum {group['momentum']} and dampening "
                                f"{group['dampening']}")
        return values

    def _states(self, values):
        return ("momentum_buffer",) if values["momentum"] else ()

    def _sparse_step(self, values):
        return _without_decay("SGD", descend, values)


def _check_tensors(name, lr, betas, by_lists):
    """Raise for hyperparameters that are tensors where PyTorch takes numbers."""
    given = [isinstance(x, TensorBase) for x in (lr, *betas)] if isinstance(betas, (tuple, list)) else [False]
    if any(given) and by_lists:
        raise ArgumentError(f"{name}: lr and betas may be tensors with foreach=True only where capturable is True, too")
    if len(given) == 3 and given[1] != given[2]:
        raise ArgumentError(f"{name}: betas must be two numbers or two tensors, got {betas}")


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square; weight decay is added to the gradient (L2). With amsgrad the
    largest mean square so far takes the place of the present one.

    Raises: ArgumentError for a negative or NaN hyperparameter, or betas outside [0, 1).
    Source: Kingma and Ba 2015, algorithm 1; Reddi et al. 2018, algorithm 2.
    """

    update = update.ADAM
    rules = {"lr": at_least_zero, "betas": below_one, "eps": at_least_zero, "weight_decay": at_least_zero, "amsgrad": flag,
             "maximize": flag, "decoupled_weight_decay": flag}
    counts_steps = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 decoupled_weight_decay: bool = False) -> None:
        implementation(type(self).__name__, foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused)
        _check_tensors(type(self).__name__, lr, betas, foreach and not capturable)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                                  "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
                                  "fused": fused, "decoupled_weight_decay": decoupled_weight_decay})

    def _states(self, values):
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if values["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _settings(self, values):
        beta1, beta2 = values["betas"]
        return {"lr": values["lr"], "beta1": beta1, "beta2": beta2, "eps": values["eps"], "weight_decay": values["weight_decay"],
                "decoupled": values["decoupled_weight_decay"], "maximize": values["maximize"]}


class AdamW(Adam):
    """Adam with weight decay applied to the parameter itself. Source: Loshchilov and Hutter 2019, algorithm 2."""

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
                         differentiable=differentiable, fused=fused, decoupled_weight_decay=True)


class RMSprop(Optimizer):
    """Steps scaled by a running mean of the gradient's square; where centered, of its variance.

    Raises: ArgumentError for a negative or NaN hyperparameter.
    Source: Tieleman and Hinton 2012, lecture 6.5; centered: Graves 2013, equations 38 to 45.
    """

    update = update.RMSPROP
    leading = ("square_avg", "momentum_buffer")
    rules = {**dict.fromkeys(("lr", "alpha", "eps", "weight_decay", "momentum"), at_least_zero), "centered": flag, "maximize": flag}
    counts_steps = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        implementation("RMSprop", capturable=capturable, foreach=foreach, differentiable=differentiable)
        super().__init__(params, {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                                  "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
                                  "differentiable": differentiable})

    def _states(self, values):
        return ("square_avg", *["grad_avg"] * values["centered"], *["momentum_buffer"] * bool(values["momentum"]))

    def _settings(self, values):
        return {name: value for name, value in values.items() if name != "centered"}


class Adagrad(Optimizer):
    """Steps scaled by the sum of the gradient's squares.

    Raises: ArgumentError for a negative or NaN hyperparameter. Source: Duchi et al. 2011.
    """

    update = update.ADAGRAD
    rules = {**dict.fromkeys(("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"), at_least_zero), "maximize": flag}
    counts_steps = True
    starts = {"sum": "initial_accumulator_value"}

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, fused: bool | None = None) -> None:
        implementation("Adagrad", foreach=foreach, differentiable=differentiable, fused=fused)
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
                                  "differentiable": differentiable, "fused": fused})
        for group in self.param_groups:
            for p in group["params"]:
                self._begin([p, None, None], ("sum",), group)

    def _settings(self, values):
        return {name: value for name, value in values.items() if name != "initial_accumulator_value"}

    def _sparse_step(self, values):
        return _without_decay("Adagrad", descend_by_squares, values)


class Adadelta(Optimizer):
    """Steps scaled by the ratio of the running means of the squares of steps and of gradients.

    Raises: ArgumentError for a negative or NaN hyperparameter, or rho outside [0, 1]. Source: Zeiler 2012.
    """

    update = update.ADADELTA
    rules = {"lr": at_least_zero, "rho": within, "eps": at_least_zero, "weight_decay": at_least_zero, "maximize": flag}
    counts_steps = True

    def __init__(self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
                 foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False,
                 differentiable: bool = False) -> None:
        implementation("Adadelta", foreach=foreach, capturable=capturable, differentiable=differentiable)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                                  "capturable": capturable, "foreach": foreach, "differentiable": differentiable})


class Adamax(Optimizer):
    """Adam with the largest recent gradient in the place of the mean square.

    Raises: ArgumentError for a negative or NaN hyperparameter, or betas outside [0, 1).
    Source: Kingma and Ba 2015, algorithm 2.
    """

    update = update.ADAMAX
    rules = {"lr": at_least_zero, "betas": below_one, "eps": at_least_zero, "weight_decay": at_least_zero, "maximize": flag}
    counts_steps = True

    def __init__(self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False,
                 capturable: bool = False) -> None:
        implementation("Adamax", foreach=foreach, differentiable=differentiable, capturable=capturable)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _settings(self, values):
        return _with_betas(values)


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, which grows with the steps by `momentum_decay`.

    Raises: ArgumentError for a negative or NaN hyperparameter, or betas outside [0, 1). Source: Dozat 2016.
    """

    update = update.NADAM
    rules = {"lr": at_least_zero, "betas": below_one, "eps": at_least_zero, "weight_decay": at_least_zero, "momentum_decay": at_least_zero,
             "decoupled_weight_decay": flag, "maximize": flag}
    counts_steps = True
    carried, numbers = "mu_product", ("mu_product",)

    def __init__(self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None:
        implementation("NAdam", foreach=foreach, capturable=capturable, differentiable=differentiable)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
                                  "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
                                  "capturable": capturable, "differentiable": differentiable})

    def _settings(self, values):
        return _with_betas(values)

    def _advance(self, settings, batch):
        momentum = settings["beta1"] * (1.0 - 0.5 * 0.96 ** (batch.step * settings["momentum_decay"]))
        settings["mu_product"] = as_stored((1.0 if batch.carried is None else float(batch.carried)) * as_stored(momentum))
        batch.put("mu_product", Kept(settings["mu_product"]))


class RAdam(Optimizer):
    """Adam whose scaling begins when enough squares have been averaged.

    Raises: ArgumentError for a negative or NaN hyperparameter, or betas outside [0, 1). Source: Liu et al. 2020, algorithm 2.
    """

    update = update.RADAM
    rules = {"lr": at_least_zero, "betas": below_one, "eps": at_least_zero, "weight_decay": at_least_zero, "decoupled_weight_decay": flag,
             "maximize": flag}
    counts_steps = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False) -> None:
        implementation("RAdam", foreach=foreach, capturable=capturable, differentiable=differentiable)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
                                  "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
                                  "differentiable": differentiable})

    def _settings(self, values):
        return _with_betas(values)


class ASGD(Optimizer):
    """Gradient descent with steps that shrink, and the mean of the parameters in the state "ax".

    Raises: ArgumentError for a negative or NaN hyperparameter. Source: Polyak and Juditsky 1992.
    """

    update = update.ASGD
    rules = {"lr": at_least_zero, "lambd": number, "alpha": number, "t0": number, "weight_decay": at_least_zero, "maximize": flag}
    counts_steps = True
    carried, numbers, starts = "eta", ("eta", "mu"), {"eta": "lr"}

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
                 weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
                 capturable: bool = False) -> None:
        implementation("ASGD", foreach=foreach, differentiable=differentiable, capturable=capturable)
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
                                  "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _advance(self, settings, batch):
        state = batch.states[0]
        settings["eta"], settings["mu"] = float(dict.get(state, "eta")), float(dict.get(state, "mu"))
        batch.put("eta", Kept(as_stored(settings["lr"] / (1 + settings["lambd"] * settings["lr"] * batch.step) ** settings["alpha"])))
        batch.put("mu", Kept(as_stored(1 / max(1, batch.step - settings["t0"]))))


class Rprop(Optimizer):
    """Steps of a size of its own for each element, which grows while the gradient keeps its sign and shrinks where it turns.

    Raises: ArgumentError for a negative or NaN hyperparameter, or etas that are not 0 < first < 1 < second.
    Source: Riedmiller and Braun 1993.
    """

    update = update.RPROP
    rules = {"lr": at_least_zero, "maximize": flag}
    counts_steps = True
    starts = {"step_size": "lr"}

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        implementation("Rprop", capturable=capturable, foreach=foreach, differentiable=differentiable)
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
                                  "differentiable": differentiable, "capturable": capturable})

    def _check_group(self, group):
        values = super()._check_group(group)
        less, more = several("Rprop", "etas", group["etas"], 2, positive)
        if not less < 1.0 < more:
            raise ArgumentError(f"Rprop: etas must be 0 < first < 1 < second, got {group['etas']}")
        least, most = several("Rprop", "step_sizes", group["step_sizes"], 2, at_least_zero)
        return {**values, "etaminus": less, "etaplus": more, "least": least, "most": most}


def _without_decay(name, step, values):
    if values["weight_decay"]:
        raise DTypeError(f"{name}: weight_decay is that of all rows, a sparse gradient that of some; use weight_decay=0")
    return functools.partial(step, values=values)


def _with_betas(values):
    """The settings of an update that takes each beta by its name, and says whether weight decay is decoupled."""
    settings = {name: value for name, value in values.items() if name not in ("betas", "decoupled_weight_decay")}
    settings["beta1"], settings["beta2"] = values["betas"]
    if "decoupled_weight_decay" in values:
        settings["decoupled"] = values["decoupled_weight_decay"]
    return settings
