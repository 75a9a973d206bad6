"""Optimizers whose step is composed of operations on whole tensors: Muon and Adafactor."""
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from volta import gpu
from volta.autograd import no_grad
from volta.dtypes import HALVES
from volta.errors import ArgumentError
from volta.ops.creation import zeros, zeros_like
from volta.ops.linalg import matmul
from volta.ops.records.chain import fused
from volta.optim.checks import at_least_zero, flag, implementation, integer, number, positive, several
from volta.optim.optimizer import Optimizer
from volta.optim.state import Count, count, put
from volta.tensor import Tensor

__all__ = ["Adafactor", "Muon"]


class _Composed(Optimizer):
    """A step of operations for each parameter, after all hyperparameters have been checked."""

    @no_grad
    def _step(self):
        work = [(self._check_group(group), group["params"]) for group in self.param_groups]
        if any(p.grad is not None and p.grad.is_sparse for _, params in work for p in params):
            self._sparse_step(None)
        for values, params in work:
            for p in params:
                if p.grad is not None:
                    self._update(p, p.grad, self.state[p], values)
        gpu.end_step()


class Muon(_Composed):
    """Momentum whose matrix is made orthogonal by Newton and Schulz's iteration; for matrices, with decoupled weight decay.

    `adjust_lr_fn`: "original" scales the step by sqrt(max(1, rows / columns)), "match_rms_adamw" by 0.2 * sqrt(max(rows, columns)).

    Raises: ArgumentError for a hyperparameter that makes no sense, and a parameter that is no matrix. Source: Jordan et al. 2024.
    """

    rules = {"lr": at_least_zero, "weight_decay": at_least_zero, "momentum": at_least_zero, "nesterov": flag, "eps": at_least_zero}

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
                 ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps: int = 5,
                 adjust_lr_fn: str | None = None) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn})
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ArgumentError(f"Muon: parameters must be matrices, got one of shape {p.shape}; use AdamW for others")

    def _check_group(self, group):
        values = super()._check_group(group)
        adjust = group["adjust_lr_fn"]
        if adjust not in (None, "original", "match_rms_adamw"):
            raise ArgumentError(f"Muon: adjust_lr_fn must be None, 'original' or 'match_rms_adamw', got {adjust!r}")
        coefficients = several("Muon", "ns_coefficients", group["ns_coefficients"], 3, number)
        steps = integer("Muon", "ns_steps", group["ns_steps"])
        if steps >= 100:
            raise ArgumentError(f"Muon: ns_steps must be less than 100, which is more than enough, got {steps}")
        return {**values, "coefficients": coefficients, "steps": steps, "adjust": adjust}

    def _update(self, p, g, state, values):
        if "momentum_buffer" not in state:
            with gpu.lasting():
                state["momentum_buffer"] = zeros_like(p)
        buffer = state["momentum_buffer"]
        buffer.lerp_(g, 1 - values["momentum"])
        direction = g.lerp(buffer, values["momentum"]) if values["nesterov"] else buffer
        rows, columns = p.shape
        if values["adjust"] == "match_rms_adamw":
            lr = values["lr"] * 0.2 * math.sqrt(max(rows, columns))
        else:
            lr = values["lr"] * math.sqrt(max(1, rows / columns))
        p.mul_(1 - values["lr"] * values["weight_decay"])
        p.add_(_orthogonal(direction, values["coefficients"], values["steps"], values["eps"]), alpha=-lr)


def _orthogonal(g: Tensor, coefficients: list[float], steps: int, eps: float) -> Tensor:
    """Nearly the orthogonal factor of a matrix: a polynomial that takes its singular values near 1, `steps` times."""
    a, b, c = coefficients
    turned = g.shape[0] > g.shape[1]
    x = g.t() if turned else g
    x = fused(_at_most_one, x, x.norm(), eps)
    for _ in range(steps):
        square = matmul(x, x.t())
        x = fused(_plus, x, matmul(fused(_weighted, square, matmul(square, square), b, c), x), a)
    return x.t() if turned else x


def _weighted(x, y, a, b):
    return a * x + b * y


def _plus(x, y, a):
    return a * x + y


def _at_most_one(x, norm, eps):
    return x / norm.clamp(min=eps)


def _norm(x):
    return x.norm().float() if x.dtype in HALVES else x.norm()


class Adafactor(_Composed):
    """Adam without momentum, whose mean square of a matrix is kept as one of its rows and one of its columns.

    Raises: ArgumentError for a hyperparameter that makes no sense. Source: Shazeer and Stern 2018.
    """

    shaped = ("row_var", "col_var")
    rules = {"lr": at_least_zero, "d": positive, "weight_decay": at_least_zero, "maximize": flag}

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
                 d: float = 1.0, weight_decay: float = 0.0, *, foreach: bool | None = None, maximize: bool = False) -> None:
        implementation("Adafactor", foreach=foreach)
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
                                  "foreach": foreach, "maximize": maximize})

    def _check_group(self, group):
        values = super()._check_group(group)
        decay = number("Adafactor", "beta2_decay", group["beta2_decay"])
        if decay > 0 or values["d"] < 1:
            raise ArgumentError(f"Adafactor: beta2_decay must be at most 0 and d at least 1, got {decay} and {values['d']}")
        small, least = several("Adafactor", "eps", group["eps"], 2, lambda *given: given[2] and at_least_zero(*given))
        return {**values, "beta2_decay": decay, "small": small, "least": least or 0.0}

    def _update(self, p, g, state, values):
        g = -g if values["maximize"] else g
        if not state:
            state["step"] = Count(0)
            with gpu.lasting():
                if p.ndim > 1:
                    state["row_var"] = zeros((*p.shape[:-1], 1), dtype=p.dtype, device=p.device)
                    state["col_var"] = zeros((*p.shape[:-2], 1, p.shape[-1]), dtype=p.dtype, device=p.device)
                else:
                    state["variance"] = zeros_like(p)
        step = count(state) + 1
        put(state, "step", Count(step))
        small = 2.0 ** (-52 if p.dtype.itemsize == 8 else -23) if values["small"] is None else values["small"]
        kept = step ** values["beta2_decay"]
        root, size = math.sqrt(max(p.numel(), 1)), _norm(p)
        p.mul_(1 - values["lr"] * values["weight_decay"])
        if p.ndim > 1:
            row, column, square = state["row_var"], state["col_var"], g * g
            row.lerp_(square.mean(-1, keepdim=True), kept)
            column.lerp_(square.mean(-2, keepdim=True), kept)
            change = fused(_over_factors, g, row, column, row.mean(-2, keepdim=True), small, small * small)
        else:
            state["variance"].lerp_(g * g, kept)
            change = fused(_over_root, g, state["variance"], small * small)
        factor = min(values["lr"], 1 / math.sqrt(step))
        p.sub_(fused(_limited, change, size, _norm(change), root, values["least"], factor, root * values["d"]))


def _over_root(g, variance, least):
    return g / variance.clamp(min=least).sqrt()


def _over_factors(g, row, column, mean, small, least):
    return _over_root(g, row * column / mean.clamp(min=small), least)


def _limited(change, size, length, root, least, factor, most):
    """A change in proportion to the parameter's size, and no longer than `most`. The sizes are of float32, also those of halves."""
    return (size / root).clamp(min=least) * factor / (length / most).clamp(min=1.0) * change
