"""torch.jit without a compiler: what would be compiled runs as the Python that it is, and gives the same numbers.

`script` and `trace` return their argument. A traced module therefore still follows the branches that its inputs choose. Files of
TorchScript are programs, which Volta neither writes nor reads.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from volta.nn.module import Module

__all__ = ["Final", "ScriptModule", "annotate", "export", "freeze", "ignore", "is_scripting", "is_tracing", "optimize_for_inference",
           "script", "script_method", "trace", "unused"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class ScriptModule(Module):
    """The base of modules that a script declares as TorchScript. A module that was given to `script` or `trace` stays what it is."""


def script(obj: T, **options: Any) -> T:
    """The function, module or class itself; the options choose how PyTorch compiles it."""
    return obj


def trace(func: F, example_inputs: Any = None, **options: Any) -> F:
    """The function or module itself; the options choose what PyTorch records and checks."""
    return func


def freeze(mod: Module, **options: Any) -> Module:
    """The module itself."""
    return mod


optimize_for_inference = freeze


def export(fn: F) -> F:
    """The function itself: a mark for a compiler."""
    return fn


unused = script_method = _overload = _overload_method = export


def ignore(drop: Any = False, **options: Any) -> Any:
    """The function itself, also where options are given: a mark for a compiler."""
    return drop if callable(drop) else lambda function: function


def annotate(the_type: Any, the_value: T) -> T:
    """The value."""
    return the_value


def is_scripting() -> bool:
    """False: nothing is compiled."""
    return False


def is_tracing() -> bool:
    """False: nothing is traced."""
    return False
