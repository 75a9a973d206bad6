"""torch.overrides: which objects take functions over. Those that are no tensors do, by `__torch_function__`; classes of tensors do not."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from volta.ops.taking_over import ask, overriding, takes_over
from volta.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of these is an object of a class of its own that takes functions over."""
    return any(map(takes_over, relevant_args))


def has_torch_function_unary(relevant_arg: Any) -> bool:
    """Whether this takes functions over."""
    return takes_over(relevant_arg)


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """Whether one of these takes functions over."""
    return any(map(takes_over, relevant_args))


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """What the first of the relevant arguments that takes a function over makes of a call of it. Raises: TypeError where none does."""
    return ask(public_api, overriding(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[F], F]:
    """A decorator: the function is left to what takes over among the arguments that `dispatcher` names."""
    def decorate(func: F) -> F:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = list(dispatcher(*args, **kwargs))
            return handle_torch_function(wrapped, relevant, *args, **kwargs) if has_torch_function(relevant) else func(*args, **kwargs)
        return wrapped                                              # type: ignore[return-value]  # of the same parameters
    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a tensor, or takes functions over as one."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """None: functions wrap nothing."""
    return set()
