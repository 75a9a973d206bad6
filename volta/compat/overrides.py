"""torch.overrides: which objects take functions over by `__torch_function__`, and modes that do."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from volta.ops.taking_over import asked, entered_modes, set_modes, takes_over
from volta.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether there is a mode, or one of these is an object of a class of its own that takes functions over."""
    return bool(entered_modes()) or any(map(takes_over, relevant_args))


def has_torch_function_unary(relevant_arg: Any) -> bool:
    """`has_torch_function` of one."""
    return has_torch_function((relevant_arg,))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """`has_torch_function` of these."""
    return has_torch_function(relevant_args)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """What a mode, or the first of the relevant arguments that takes a function over, makes of a call of it. Raises: TypeError where none
    does."""
    result = asked(public_api, args, kwargs, relevant_args)
    if result is NotImplemented:
        raise TypeError(f"no implementation found for '{public_api.__name__}' on types that implement "
                        "__torch_function__: []")
    return result


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
    """None: what gives a tensor that there is already is no function here."""
    return set()


class TorchFunctionMode:
    """While a program is inside, functions leave their calls to `__torch_function__` of this object, which classes define; it runs with the
    modes around this one alone in force."""

    def __torch_function__(self, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        set_modes([*entered_modes(), self])
        return self

    def __exit__(self, *error: object) -> None:
        set_modes(entered_modes()[:-1])


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        return func(*args, **kwargs or {})
