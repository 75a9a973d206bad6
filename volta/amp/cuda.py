"""torch.cuda.amp: mixed precision with the GPU as the device that is meant."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from volta.amp import function, mode, scaler
from volta.dtypes import float16

if TYPE_CHECKING:
    from volta.types import DTypeLike

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


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: DTypeLike = None) -> Callable:
    """`amp.custom_fwd` of GPUs."""
    warnings.warn("cuda.amp.custom_fwd is deprecated; write amp.custom_fwd(device_type='cuda')", FutureWarning, stacklevel=2)
    return function.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Callable:
    """`amp.custom_bwd` of GPUs."""
    warnings.warn("cuda.amp.custom_bwd is deprecated; write amp.custom_bwd(device_type='cuda')", FutureWarning, stacklevel=2)
    return function.custom_bwd(bwd, device_type="cuda")
