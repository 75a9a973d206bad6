"""Optimizer updates, each one declaration: the states of a parameter, the factors that follow from the hyperparameters, the formula.

Clipping and scaling of gradients are declared likewise: `param` is then a gradient, and `total` a scalar of all, as a tensor without
dimensions.

From a declaration come the CPU loop (`_kernels/cpu/update.pyx.in`), the GPU kernel (`devices/gpu/update.py`), and the record with its
reference and samples (`ops/update.py`). The build reads this file before anything is compiled: it imports the standard library only.

A formula is Python: assignments of `+ - * /`, of functions and of what it assigned before, one element at a time. It reads `param`,
`grad`, states and factors, and leaves the new `param` and states under their names. `if` may ask for a flag, or whether an optional
state `is not None`: each combination has a kernel of its own. An expression is C and WGSL as it stands, so a number in it is a factor.
Functions: sqrt, abs, sign, maximum (NaN where either is), clamped(factor, x), which is x limited to +-factor, and scaled(factor, x),
which is 0 for a factor of 0, whatever x is.
Another function takes a line in each of the three modules above, or none where C and WGSL have it already.
"""
from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property
from itertools import product
from types import SimpleNamespace


class Update(SimpleNamespace):
    """One update. Kernels take lists of tensors: params, grads, and each state's (None for an optional one that is not in use); the
    scalars; and by keyword the factors and flags."""

    name: str
    factors: Callable[..., dict[str, float]]    # the formula's factors, from hyperparameters as Python floats; computed once a call
    formula: str
    reads: tuple[str, ...] = ("grad",)          # tensors of an element that stay as they are
    scalars: tuple[str, ...] = ()               # tensors of one element, which all parameters share
    states: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()              # states that some settings do without, after the others
    squares: tuple[str, ...] = ()               # those of the states that are no less than 0
    flags: tuple[str, ...] = ()
    changing: tuple[str, ...] = ("lr",)         # hyperparameters that may be others at each step; the rest are constants of a run
    samples: tuple[tuple[dict, tuple[str, ...]], ...] = ()      # (hyperparameters and flags, the optional states in use)

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """All that an element of the parameter has, in the order of a kernel's lists."""
        return "param", *self.reads, *self.states, *self.optional

    @cached_property
    def factor_names(self) -> tuple[str, ...]:
        """In the order in which kernels hold them."""
        settings = {name: value for name, value in self.samples[0][0].items() if name not in self.flags}
        return tuple(self.factors(**settings))

    def variants(self) -> list[tuple[tuple[str, ...], frozenset]]:
        """(tensors, options) of every combination of optional states and flags; options are the names of those in use."""
        names = self.optional + self.flags
        chosen = [frozenset(n for n, used in zip(names, row) if used) for row in product((False, True), repeat=len(names))]
        return [(tuple(t for t in self.tensors if t not in self.optional or t in options), options) for options in chosen]

    def statements(self, options: frozenset) -> list[tuple[str, str]]:
        """The formula of a combination as (name, expression) in order, without conditions."""
        known = {name: name in options or None for name in self.optional} | {name: name in options for name in self.flags}
        return [(node.targets[0].id, ast.unparse(node.value)) for node in _resolved(ast.parse(self.formula).body, known)]

    def names(self, options: frozenset) -> list[str]:
        """All names that a combination assigns, each once."""
        return list(dict.fromkeys(name for name, _ in self.statements(options)))


def _holds(test: ast.expr, known: dict) -> bool:
    return bool(eval(compile(ast.Expression(test), "formula", "eval"), {}, known))


def _resolved(body: list, known: dict) -> list:
    """The assignments that run, with conditional expressions replaced by the branch that is taken."""
    class Chosen(ast.NodeTransformer):
        def visit_IfExp(self, node):
            return self.visit(node.body if _holds(node.test, known) else node.orelse)

    lines: list = []
    for node in body:
        if isinstance(node, ast.If):
            lines += _resolved(node.body if _holds(node.test, known) else node.orelse, known)
        else:
            lines.append(Chosen().visit(node))
    return lines


def _sgd_factors(*, lr, momentum, dampening, weight_decay, maximize=False, first=False):
    """The first step fills the buffer, whatever it holds, with the gradient itself, not dampened."""
    return {"sign": -1.0 if maximize else 1.0, "weight_decay": weight_decay, "momentum": momentum, "lr": lr,
            "buffer_factor": 0.0 if first else momentum, "one_minus_dampening": 1.0 if first else 1.0 - dampening}


SGD = Update(
    name="sgd", optional=("momentum_buffer",), flags=("nesterov",), factors=_sgd_factors, changing=("lr", "momentum", "first"), formula="""
slope = sign * grad + scaled(weight_decay, param)
if momentum_buffer is not None:
    momentum_buffer = scaled(buffer_factor, momentum_buffer) + one_minus_dampening * slope
    slope = slope + momentum * momentum_buffer if nesterov else momentum_buffer
param = param - lr * slope
""", samples=(
        ({"lr": 0.1, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0}, ()),
        ({"lr": 0.1, "momentum": 0.0, "dampening": 0.0, "weight_decay": 0.3, "maximize": True}, ()),
        ({"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.0}, ("momentum_buffer",)),
        ({"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.1, "nesterov": True}, ("momentum_buffer",)),
        ({"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.0, "first": True}, ("momentum_buffer",))))


def _adam_factors(*, lr, beta1, beta2, eps, weight_decay, step, decoupled=False, maximize=False):
    """Corrections are 1 - beta ** step, as torch.optim.Adam and AdamW apply them."""
    return {"sign": -1.0 if maximize else 1.0, "weight_decay": 0.0 if decoupled else weight_decay,
            "decay_factor": 1.0 - lr * weight_decay if decoupled else 1.0, "one_minus_beta1": 1.0 - beta1, "beta2": beta2,
            "one_minus_beta2": 1.0 - beta2, "sqrt_correction2": (1.0 - beta2 ** step) ** 0.5, "eps": eps,
            "step_size": lr / (1.0 - beta1 ** step)}


_ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0, "step": 2}

ADAM = Update(
    name="adam", states=("exp_avg", "exp_avg_sq"), optional=("max_exp_avg_sq",), squares=("exp_avg_sq", "max_exp_avg_sq"),
    factors=_adam_factors, changing=("lr", "beta1", "step"), formula="""
slope = sign * grad + scaled(weight_decay, param)
exp_avg = exp_avg + one_minus_beta1 * (slope - exp_avg)
exp_avg_sq = beta2 * exp_avg_sq + one_minus_beta2 * slope * slope
if max_exp_avg_sq is not None:
    max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)
square = exp_avg_sq if max_exp_avg_sq is None else max_exp_avg_sq
param = decay_factor * param - step_size * exp_avg / (sqrt(square) / sqrt_correction2 + eps)
""", samples=tuple(
        ({**_ADAM, **changes}, states) for changes, states in (
            ({}, ()), ({"weight_decay": 0.3, "maximize": True}, ()), ({"weight_decay": 0.3, "decoupled": True}, ()),
            ({"weight_decay": 0.3, "decoupled": True}, ("max_exp_avg_sq",)))))


def _rmsprop_factors(*, lr, alpha, eps, weight_decay, momentum, maximize=False):
    return {"sign": -1.0 if maximize else 1.0, "weight_decay": weight_decay, "alpha": alpha, "one_minus_alpha": 1.0 - alpha, "eps": eps,
            "momentum": momentum, "lr": lr}


_RMSPROP = {"lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0}

RMSPROP = Update(
    name="rmsprop", states=("square_avg",), optional=("grad_avg", "momentum_buffer"), squares=("square_avg",), factors=_rmsprop_factors,
    changing=("lr", "momentum"), formula="""
slope = sign * grad + scaled(weight_decay, param)
square_avg = alpha * square_avg + one_minus_alpha * slope * slope
variance = square_avg
if grad_avg is not None:
    grad_avg = grad_avg + one_minus_alpha * (slope - grad_avg)
    variance = square_avg - grad_avg * grad_avg
slope = slope / (sqrt(variance) + eps)
if momentum_buffer is not None:
    momentum_buffer = momentum * momentum_buffer + slope
    slope = momentum_buffer
param = param - lr * slope
""", samples=tuple(
        ({**_RMSPROP, **changes}, states) for changes, states in (
            ({}, ()), ({"weight_decay": 0.3, "maximize": True}, ("grad_avg",)), ({"momentum": 0.9}, ("momentum_buffer",)),
            ({"momentum": 0.5, "weight_decay": 0.3}, ("grad_avg", "momentum_buffer")))))



def _adagrad_factors(*, lr, lr_decay, weight_decay, eps, step, maximize=False):
    return {"sign": -1.0 if maximize else 1.0, "weight_decay": weight_decay, "eps": eps, "step_size": lr / (1.0 + (step - 1) * lr_decay)}


_ADAGRAD = {"lr": 0.1, "lr_decay": 0.0, "weight_decay": 0.0, "eps": 1e-8, "step": 3}

ADAGRAD = Update(
    name="adagrad", states=("sum",), squares=("sum",), factors=_adagrad_factors, changing=("lr", "step"), formula="""
slope = sign * grad + scaled(weight_decay, param)
sum = sum + slope * slope
param = param - step_size * slope / (sqrt(sum) + eps)
""", samples=((_ADAGRAD, ()), ({**_ADAGRAD, "lr_decay": 0.1, "weight_decay": 0.3, "maximize": True}, ())))


def _adadelta_factors(*, lr, rho, eps, weight_decay, maximize=False):
    return {"sign": -1.0 if maximize else 1.0, "weight_decay": weight_decay, "rho": rho, "one_minus_rho": 1.0 - rho, "eps": eps, "lr": lr}


_ADADELTA = {"lr": 1.0, "rho": 0.9, "eps": 1e-3, "weight_decay": 0.0}

ADADELTA = Update(
    name="adadelta", states=("square_avg", "acc_delta"), squares=("square_avg", "acc_delta"), factors=_adadelta_factors, formula="""
slope = sign * grad + scaled(weight_decay, param)
square_avg = rho * square_avg + one_minus_rho * slope * slope
delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * slope
acc_delta = rho * acc_delta + one_minus_rho * delta * delta
param = param - lr * delta
""", samples=((_ADADELTA, ()), ({**_ADADELTA, "lr": 0.3, "weight_decay": 0.3, "maximize": True}, ())))


def _adamax_factors(*, lr, beta1, beta2, eps, weight_decay, step, maximize=False):
    return {"sign": -1.0 if maximize else 1.0, "weight_decay": weight_decay, "one_minus_beta1": 1.0 - beta1, "beta2": beta2, "eps": eps,
            "step_size": lr / (1.0 - beta1 ** step)}


_ADAMAX = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0, "step": 2}

ADAMAX = Update(
    name="adamax", states=("exp_avg", "exp_inf"), squares=("exp_inf",), factors=_adamax_factors,
    changing=("lr", "beta1", "step"), formula="""
slope = sign * grad + scaled(weight_decay, param)
exp_avg = exp_avg + one_minus_beta1 * (slope - exp_avg)
exp_inf = maximum(beta2 * exp_inf, abs(slope) + eps)
param = param - step_size * exp_avg / exp_inf
""", samples=((_ADAMAX, ()), ({**_ADAMAX, "weight_decay": 0.3, "maximize": True}, ())))


def _nadam_factors(*, lr, beta1, beta2, eps, weight_decay, momentum_decay, step, mu_product, decoupled=False, maximize=False):
    """`mu_product` is the product of the momenta of all steps, this one's included."""
    mu, following = (beta1 * (1.0 - 0.5 * 0.96 ** (t * momentum_decay)) for t in (step, step + 1))
    return {"sign": -1.0 if maximize else 1.0, "weight_decay": 0.0 if decoupled else weight_decay,
            "decay_factor": 1.0 - lr * weight_decay if decoupled else 1.0, "one_minus_beta1": 1.0 - beta1, "beta2": beta2,
            "one_minus_beta2": 1.0 - beta2, "sqrt_correction2": (1.0 - beta2 ** step) ** 0.5, "eps": eps,
            "slope_size": lr * (1.0 - mu) / (1.0 - mu_product), "mean_size": lr * following / (1.0 - mu_product * following)}


_NADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0, "momentum_decay": 0.004, "step": 2, "mu_product": 0.25}

NADAM = Update(
    name="nadam", states=("exp_avg", "exp_avg_sq"), squares=("exp_avg_sq",), factors=_nadam_factors,
    changing=("lr", "beta1", "step", "mu_product"), formula="""
slope = sign * grad + scaled(weight_decay, param)
exp_avg = exp_avg + one_minus_beta1 * (slope - exp_avg)
exp_avg_sq = beta2 * exp_avg_sq + one_minus_beta2 * slope * slope
root = sqrt(exp_avg_sq) / sqrt_correction2 + eps
param = decay_factor * param - slope_size * slope / root - mean_size * exp_avg / root
""", samples=((_NADAM, ()), ({**_NADAM, "weight_decay": 0.3, "maximize": True}, ()),
              ({**_NADAM, "weight_decay": 0.3, "decoupled": True}, ())))


def _radam_factors(*, lr, beta1, beta2, eps, weight_decay, step, decoupled=False, maximize=False):
    """While too few squares are averaged, the step is that of momentum alone; then it is rectified. Liu et al. 2020, algorithm 2."""
    correction1, correction2, most = 1.0 - beta1 ** step, 1.0 - beta2 ** step, 2.0 / (1.0 - beta2) - 1.0
    length = most - 2.0 * step * beta2 ** step / correction2
    rectified = length > 5.0
    rect = ((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) ** 0.5 if rectified else 0.0
    return {"sign": -1.0 if maximize else 1.0, "weight_decay": 0.0 if decoupled else weight_decay,
            "decay_factor": 1.0 - lr * weight_decay if decoupled else 1.0, "one_minus_beta1": 1.0 - beta1, "beta2": beta2,
            "one_minus_beta2": 1.0 - beta2, "eps": eps, "plain_size": 0.0 if rectified else lr / correction1,
            "scaled_size": lr / correction1 * rect * correction2 ** 0.5}


_RADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.0, "step": 2}

RADAM = Update(
    name="radam", states=("exp_avg", "exp_avg_sq"), squares=("exp_avg_sq",), factors=_radam_factors, changing=("lr", "beta1", "step"),
    formula="""
slope = sign * grad + scaled(weight_decay, param)
exp_avg = exp_avg + one_minus_beta1 * (slope - exp_avg)
exp_avg_sq = beta2 * exp_avg_sq + one_minus_beta2 * slope * slope
param = decay_factor * param - plain_size * exp_avg - scaled(scaled_size, exp_avg / (sqrt(exp_avg_sq) + eps))
""", samples=((_RADAM, ()), ({**_RADAM, "step": 20}, ()), ({**_RADAM, "step": 20, "weight_decay": 0.3, "maximize": True}, ()),
              ({**_RADAM, "weight_decay": 0.3, "decoupled": True}, ())))


def _asgd_factors(*, lr, lambd, weight_decay, eta, mu, alpha=0.0, t0=0.0, maximize=False):
    """`eta` is the step's size, `mu` the part of it that the average takes."""
    return {"sign": -1.0 if maximize else 1.0, "weight_decay": weight_decay, "kept": 1.0 - lambd * eta, "eta": eta, "mu": mu}


_ASGD = {"lr": 0.1, "lambd": 1e-2, "weight_decay": 0.0, "eta": 0.1, "mu": 1.0}

ASGD = Update(
    name="asgd", states=("ax",), factors=_asgd_factors, changing=("lr", "eta", "mu"), formula="""
slope = sign * grad + scaled(weight_decay, param)
param = kept * param - eta * slope
ax = ax + mu * (param - ax)
""", samples=((_ASGD, ()), ({**_ASGD, "weight_decay": 0.3, "mu": 0.25, "maximize": True}, ())))


def _rprop_factors(*, etaminus, etaplus, least, most, lr=0.0, maximize=False):
    """The slope's sign turned where `turn` is -1; then the step shrinks and this one is left out."""
    return {"sign_of_grad": -1.0 if maximize else 1.0, "one": 1.0, "half": 0.5, "zero": 0.0, "less": etaminus - 1.0,
            "more": etaplus - 1.0, "least": least, "most": most}


_RPROP = {"etaminus": 0.5, "etaplus": 1.2, "least": 1e-6, "most": 5.0}

RPROP = Update(
    name="rprop", states=("prev", "step_size"), squares=("step_size",), factors=_rprop_factors, changing=(), formula="""
slope = sign_of_grad * grad
turn = sign(slope * prev)
turned = half * (abs(turn) - turn)
step_size = step_size * (one + more * half * (abs(turn) + turn) + less * turned)
none = scaled(zero, slope)
step_size = maximum(none + least, -maximum(none - most, -step_size))
slope = slope * (one - turned)
param = param - sign(slope) * step_size
prev = slope
""", samples=((_RPROP, ()), ({**_RPROP, "most": 6.0, "maximize": True}, ())))


def _clip_norm_factors(*, max_norm):
    """The eps is PyTorch's."""
    return {"max_norm": max_norm, "eps": 1e-6, "zero": 0.0, "one": 1.0}


CLIP_NORM = Update(
    name="clip_norm", reads=(), scalars=("total",), factors=_clip_norm_factors, changing=("max_norm",), formula="""
none = scaled(zero, param)
ratio = none + max_norm / (total + eps)
param = param * -maximum(-ratio, none - one)
""", samples=(({"max_norm": 0.3}, ()), ({"max_norm": 30.0}, ())))


def _clip_value_factors(*, limit):
    return {"limit": limit}


CLIP_VALUE = Update(
    name="clip_value", reads=(), factors=_clip_value_factors, changing=("limit",), formula="""
param = clamped(limit, param)
""", samples=(({"limit": 0.3}, ()),))

SCALE_GRADS = Update(name="scale_grads", reads=(), factors=lambda *, factor: {"factor": factor}, changing=("factor",),
                     formula="param = factor * param", samples=(({"factor": 0.3}, ()),))

UPDATES = {update.name: update for update in (SGD, ADAM, RMSPROP, ADAGRAD, ADADELTA, ADAMAX, NADAM, RADAM, ASGD, RPROP, CLIP_NORM,
                                              CLIP_VALUE, SCALE_GRADS)}
