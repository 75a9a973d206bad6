"""GradScaler: losses are scaled up before backward, gradients down before the step, which is left out where they are not finite."""
from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from volta._kernels.core import TensorBase
from volta.autograd import no_grad
from volta.dtypes import float16
from volta.errors import ArgumentError
from volta.nn.utils import get_total_norm
from volta.nn.utils.parameters import change_gradients
from volta.ops.records.update import SCALE_GRADS

__all__ = ["GradScaler"]


class GradScaler:
    """Keeps a factor that brings gradients into float16's range: it grows by `growth_factor` after `growth_interval` steps, and falls by
    `backoff_factor` after one whose gradients were not finite. Whether they are is read once for each optimizer and step.

    Raises: ArgumentError unless growth_factor > 1 and backoff_factor < 1.

    Example:
        >>> scaler, p = volta.amp.GradScaler("cpu", init_scale=4.0), volta.ones(1, requires_grad=True)
        >>> optimizer = volta.optim.SGD([p], lr=0.5)
        >>> scaler.scale(p * 2).backward(volta.ones(1))
        >>> p.grad, scaler.step(optimizer), scaler.update(), p.detach()
        (tensor([2.]), None, None, tensor([0.]))
    """

    def __init__(self, device: str = "cuda", init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:
        if enabled and not (growth_factor > 1.0 and backoff_factor < 1.0):
            raise ArgumentError(f"GradScaler: needs growth_factor > 1 and backoff_factor < 1, got {growth_factor} and {backoff_factor}")
        self._enabled, self._scale = enabled, float(init_scale)
        self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
        self._growth_tracker = 0
        self._found: dict[int, bool] = {}               # by optimizer: whether a gradient is not finite
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each of several, times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, TensorBase):
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            return type(outputs)(map(self.scale, outputs)) if isinstance(outputs, (list, tuple)) else map(self.scale, outputs)
        raise ArgumentError(f"GradScaler.scale: needs a tensor or several, got {type(outputs).__name__}")

    @no_grad
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the factor: before clipping, say. `step` does it otherwise.

        Raises: ArgumentError for a second time before `update`, and for gradients in float16.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise ArgumentError("GradScaler.unscale_: is called after step; call update first")
        if id(optimizer) in self._found:
            raise ArgumentError("GradScaler.unscale_: has been called for this optimizer since the last update")
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradients = [g._values() if g.is_sparse else g for g in gradients]
        if any(g.dtype is float16 for g in gradients):
            raise ArgumentError("GradScaler.unscale_: gradients are float16; keep the parameters in float32 and use autocast")
        change_gradients(SCALE_GRADS, gradients, {"factor": 1.0 / self._scale})
        largest = [g for g in gradients if g.numel()]
        self._found[id(optimizer)] = bool(largest) and not math.isfinite(get_total_norm(largest, math.inf).item())

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(*args)` on unscaled gradients; None, and no step, where one is NaN or infinite.

        Raises: ArgumentError for a closure, and for a second step before `update`.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise ArgumentError("GradScaler.step: closures are not supported under scaling")
        if id(optimizer) in self._stepped:
            raise ArgumentError("GradScaler.step: has been called for this optimizer since the last update")
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return None if self._found[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | TensorBase | None = None) -> None:
        """The factor for the next step, by what was found, or `new_scale`.

        Raises: ArgumentError where no gradients have been looked at.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._found:
            raise ArgumentError("GradScaler.update: call step, or unscale_, first")
        elif any(self._found.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._growth_tracker = 0
                if self._scale * self._growth_factor < 3.4e38:
                    self._scale *= self._growth_factor
        self._found, self._stepped = {}, set()

    def get_scale(self) -> float:
        """The factor; 1 where the scaler is not enabled."""
        return self._scale if self._enabled else 1.0

    def _get_growth_tracker(self) -> int:
        """How many steps have been taken since the factor changed."""
        return self._growth_tracker if self._enabled else 0

    def is_enabled(self) -> bool:
        """Whether it scales at all."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """By what the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """By what the factor grows from now on."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By what the factor falls."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """By what the factor falls from now on."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many steps the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """After how many steps the factor grows from now on."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; empty where the scaler is not enabled."""
        return {"scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker} if self._enabled else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave. Raises: ArgumentError for an empty one."""
        if not self._enabled:
            return
        if not state_dict:
            raise ArgumentError("GradScaler.load_state_dict: the state is empty: it is that of a scaler that was not enabled")
        self._scale, self._growth_tracker = float(state_dict["scale"]), state_dict["_growth_tracker"]
        for name in ("growth_factor", "backoff_factor", "growth_interval"):
            setattr(self, f"_{name}", state_dict[name])
