"""L-BFGS, with the line search that meets the strong Wolfe conditions."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from volta import gpu
from volta._kernels.core import TensorBase
from volta.autograd import enable_grad, no_grad
from volta.errors import ArgumentError, CallError
from volta.ops.creation import zeros_like
from volta.ops.join import cat
from volta.optim.checks import at_least_zero, integer
from volta.optim.optimizer import Optimizer

__all__ = ["LBFGS"]


def _number(loss):
    return loss.item() if isinstance(loss, TensorBase) else float(loss)


class LBFGS(Optimizer):
    """Steps along the gradient turned by the curvature that the last `history_size` steps have shown. `step` needs a closure that clears
    the gradients, computes the loss, calls backward and returns the loss; it is called several times, and losses are read each time.

    Raises: ArgumentError for several parameter groups, for a bad hyperparameter, and where no closure is given.
    Source: Nocedal and Wright 2006, algorithms 7.4, 3.5 and 3.6.
    """

    rules = {"lr": at_least_zero, "tolerance_grad": at_least_zero, "tolerance_change": at_least_zero}
    shaped = ("d", "prev_flat_grad", "H_diag")

    def __init__(self, params: Iterable[Any], lr: float = 1, max_iter: int = 20, max_eval: int | None = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, {"lr": lr, "max_iter": max_iter, "max_eval": max_eval, "tolerance_grad": tolerance_grad,
                                  "tolerance_change": tolerance_change, "history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ArgumentError("LBFGS: takes one parameter group")
        self._params = self.param_groups[0]["params"]

    def _check_group(self, group):
        values = super()._check_group(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ArgumentError(f"LBFGS: line_search_fn must be None or 'strong_wolfe', got {group['line_search_fn']!r}")
        counts = {name: integer("LBFGS", name, group[name]) for name in ("max_iter", "max_eval", "history_size")}
        return {**values, **counts, "wolfe": group["line_search_fn"] is not None}

    def _flat_grad(self):
        return cat([(zeros_like(p) if p.grad is None else p.grad.to_dense()).reshape(-1) for p in self._params])

    def _move(self, size, direction):
        start = 0
        for p in self._params:
            p.add_(direction[start:start + p.numel()].reshape(p.shape), alpha=size)
            start += p.numel()

    def _evaluate(self, closure, origin, size, direction):
        """The loss and gradient at a distance from `origin`, where the parameters are put back."""
        self._move(size, direction)
        with enable_grad():
            loss = _number(closure())
        gradient = self._flat_grad()
        for p, value in zip(self._params, origin):
            p.copy_(value)
        return loss, gradient

    @no_grad
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """At most `max_iter` steps; gives the loss where they began."""
        if not callable(closure):
            raise CallError(f"LBFGS: step needs a closure that computes the loss and calls backward, got {closure!r}")
        values, state = self._check_group(self.param_groups[0]), self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            first = closure()
        loss, evaluations = _number(first), 1
        state["func_evals"] += 1
        gradient = self._flat_grad()
        if gradient.abs().max().item() <= values["tolerance_grad"]:
            return first
        done = 0
        while done < values["max_iter"]:
            done += 1
            state["n_iter"] += 1
            direction = self._direction(state, gradient, values["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
            size = min(1.0, 1.0 / gradient.abs().sum().item()) * values["lr"] if state["n_iter"] == 1 else values["lr"]
            state["d"], state["t"] = direction, size
            slope = gradient.dot(direction).item()
            if slope > -values["tolerance_change"]:
                break
            used = 0
            if values["wolfe"]:
                origin = [p.clone() for p in self._params]
                loss, gradient, size, used = _strong_wolfe(
                    lambda t, d, origin=origin: self._evaluate(closure, origin, t, d), size, direction, loss, gradient, slope,
                    values["max_eval"] - evaluations)
                self._move(size, direction)
            else:
                self._move(size, direction)
                if done != values["max_iter"]:
                    with enable_grad():
                        loss = _number(closure())
                    gradient, used = self._flat_grad(), 1
            evaluations += used
            state["func_evals"] += used
            state["t"] = size
            if evaluations >= values["max_eval"] or gradient.abs().max().item() <= values["tolerance_grad"]:
                break
            moved = (direction * size).abs().max().item()
            if moved <= values["tolerance_change"] or abs(loss - state["prev_loss"]) < values["tolerance_change"]:
                break
        gpu.end_step()
        return first

    @staticmethod
    def _direction(state, gradient, history):
        """Minus the gradient, times the approximate inverse of the Hessian that the history gives."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -gradient
        y, s = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        ys = y.dot(s).item()
        if ys > 1e-10:
            if len(dirs) == history:
                for kept in (dirs, steps, ro):
                    kept.pop(0)
            dirs.append(y)
            steps.append(s)
            ro.append(1.0 / ys)
            state["H_diag"] = ys / y.dot(y).item()
        q, parts = -gradient, state.setdefault("al", [None] * history)
        for i in reversed(range(len(dirs))):
            parts[i] = steps[i].dot(q) * ro[i]
            q = q - parts[i] * dirs[i]
        direction = q * state["H_diag"]
        for y, s, r, part in zip(dirs, steps, ro, parts):
            direction = direction + s * (part - y.dot(direction) * r)
        return direction


def _cubic(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimum of the cubic through two points with these values and slopes, within the bounds; the middle where there is none."""
    low, high = bounds if bounds is not None else (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return (low + high) / 2
    d2 = square ** 0.5
    if x1 <= x2:
        best = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        best = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(best, low), high)


def _strong_wolfe(evaluate, t, d, f, g, slope, most, c1=1e-4, c2=0.9, tolerance=1e-9):
    """A step that lowers the loss enough and flattens the slope, in `most` rounds: (loss, gradient, size, evaluations)."""
    length = d.abs().max().item()
    f_new, g_new = evaluate(t, d)
    used, slope_new = 1, g_new.dot(d).item()
    before = (0.0, f, g, slope)                    # size, loss, gradient, slope
    count, bracket = 0, None
    while count < most:
        now = (t, f_new, g_new, slope_new)
        if f_new > f + c1 * t * slope or count > 1 and f_new >= before[1]:
            bracket = [before, now]
            break
        if abs(slope_new) <= -c2 * slope:
            return f_new, g_new, t, used
        if slope_new >= 0:
            bracket = [before, now]
            break
        least, t = t + 0.01 * (t - before[0]), _cubic(before[0], before[1], before[3], t, f_new, slope_new,
                                                      (t + 0.01 * (t - before[0]), t * 10))
        t = max(t, least)
        before = now
        f_new, g_new = evaluate(t, d)
        used, slope_new, count = used + 1, g_new.dot(d).item(), count + 1
    if bracket is None:
        bracket = [(0.0, f, g, slope), (t, f_new, g_new, slope_new)]
    stuck, low, high = False, *((0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0))
    while count < most and abs(bracket[1][0] - bracket[0][0]) * length >= tolerance:
        sizes = bracket[0][0], bracket[1][0]
        t = _cubic(bracket[0][0], bracket[0][1], bracket[0][3], bracket[1][0], bracket[1][1], bracket[1][3])
        margin = 0.1 * (max(sizes) - min(sizes))
        if min(max(sizes) - t, t - min(sizes)) < margin:
            if stuck or t >= max(sizes) or t <= min(sizes):
                t = max(sizes) - margin if abs(t - max(sizes)) < abs(t - min(sizes)) else min(sizes) + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        f_new, g_new = evaluate(t, d)
        used, slope_new, count = used + 1, g_new.dot(d).item(), count + 1
        now = (t, f_new, g_new, slope_new)
        if f_new > f + c1 * t * slope or f_new >= bracket[low][1]:
            bracket[high] = now
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            if abs(slope_new) <= -c2 * slope:
                bracket[low] = now
                break
            if slope_new * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
    size, loss, gradient, _ = bracket[low]
    return loss, gradient, size, used
