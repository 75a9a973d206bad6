"""Decorators of `autograd.Function` for mixed precision: backward as forward was, inputs of one dtype."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from volta._kernels.core import TensorBase
from volta.amp.mode import autocast, is_autocast_enabled
from volta.dtypes import dtype as DType
from volta.dtypes import float64

__all__ = ["custom_bwd", "custom_fwd"]


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DType | None = None) -> Callable[..., Any]:
    """Of a Function's forward. With `cast_inputs`, under autocast its floating tensors on such a device are converted, and autocast is off
    in it."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args, **kwargs):
        enabled = is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_converted(args, device_type, cast_inputs), **_converted(kwargs, device_type, cast_inputs))
    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Of a Function's backward: it runs under autocast if forward, with `custom_fwd`, did."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args, **kwargs):
        with autocast(device_type, enabled=args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)
    return backward


def _converted(value, device_type, dtype):
    if isinstance(value, TensorBase):
        wanted = value.is_floating_point() and value.dtype is not float64 and value.device.is_gpu == (device_type != "cpu")
        return value.to(dtype) if wanted else value
    if isinstance(value, dict):
        return {name: _converted(v, device_type, dtype) for name, v in value.items()}
    return type(value)(_converted(v, device_type, dtype) for v in value) if isinstance(value, (list, tuple)) else value
