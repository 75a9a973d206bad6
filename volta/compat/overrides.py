"""torch.overrides: which objects take functions over. Volta's functions call `__torch_function__` of none."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from volta.tensor import Tensor


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of these is an object of a class of its own that takes functions over."""
    return any(not isinstance(x, Tensor) and hasattr(type(x), "__torch_function__") for x in relevant_args)


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor, or takes functions over as one."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """None: functions wrap nothing."""
    return set()
