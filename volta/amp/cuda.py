"""torch.cuda.amp: mixed precision with the GPU as the device that is meant."""
from __future__ import annotations

import functools
import warnings

from volta.amp import function, mode, scaler
from volta.dtypes import float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(mode.autocast):
    """`amp.autocast` on GPUs."""

    def __init__(self, enabled: bool = True, dtype=float16, cache_enabled: bool = True) -> None:
        warnings.warn("cuda.amp.autocast is deprecated; write amp.autocast('cuda')", FutureWarning, stacklevel=2)
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(scaler.GradScaler):
    """`amp.GradScaler` on GPUs."""

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
                 enabled: bool = True) -> None:
        warnings.warn("cuda.amp.GradScaler is deprecated; write amp.GradScaler('cuda')", FutureWarning, stacklevel=2)
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


custom_fwd = functools.partial(function.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(function.custom_bwd, device_type="cuda")
