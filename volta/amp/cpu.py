"""torch.cpu.amp: mixed precision with the CPU as the device that is meant."""
from __future__ import annotations

import warnings

from volta.amp import mode, scaler
from volta.late import modules_of as _modules_of

__all__ = ["GradScaler", "autocast"]


class autocast(mode.autocast):
    """`amp.autocast` on the CPU."""

    def __init__(self, enabled: bool = True, dtype=None, cache_enabled: bool = True) -> None:
        warnings.warn("cpu.amp.autocast is deprecated; write amp.autocast('cpu')", FutureWarning, stacklevel=2)
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(scaler.GradScaler):
    """`amp.GradScaler` on the CPU."""

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
                 enabled: bool = True) -> None:
        warnings.warn("cpu.amp.GradScaler is deprecated; write amp.GradScaler('cpu')", FutureWarning, stacklevel=2)
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__getattr__ = _modules_of(__name__)
