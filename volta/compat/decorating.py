"""torch.utils._contextlib: context managers of packages that are decorators, too, also of generators, whose own code runs inside."""
from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from volta.autograd import _generating

__all__ = ["context_decorator"]


def context_decorator(ctx: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, inside a context manager or what a function gives. Raises: AssertionError for what is both; RuntimeError for a class."""
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(f"context_decorator: {ctx} is callable and a context manager; give lambda: ctx() or lambda: ctx")
    if inspect.isclass(func):
        raise RuntimeError(f"context_decorator: decorate methods of {func.__name__}, since a class may mean its constructor or all of them")
    entered = ctx if callable(ctx) else lambda: ctx
    if inspect.isgeneratorfunction(func):
        return _generating(entered, func)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with entered():
            return func(*args, **kwargs)
    return wrapped


class _DecoratorContextManager:
    """A base class: instances decorate functions, which enter a new instance (`clone`) at each call."""

    def __call__(self, orig_func: Any) -> Any:
        if inspect.isclass(orig_func):
            warnings.warn(f"decorating classes is deprecated: decorate the __init__ of {orig_func.__name__}", FutureWarning, stacklevel=2)
            return context_decorator(self.clone, lambda *args, **kwargs: orig_func(*args, **kwargs))
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """A new one; classes whose constructors take arguments have their own."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One that decorates without parentheses, too."""

    def __new__(cls, orig_func: Any = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
