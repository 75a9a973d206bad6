"""torch.jit without a compiler: what would be compiled runs as the Python that it is, and gives the same numbers.

`script` and `trace` return their argument. A traced module therefore still follows the branches that its inputs choose. Files of
TorchScript are programs, which Volta neither writes nor reads.
"""
from __future__ import annotations

import builtins
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from volta.nn.module import Module

__all__ = ["Attribute", "Final", "ScriptFunction", "ScriptModule", "TracerWarning", "annotate", "export", "freeze", "ignore", "interface",
           "is_scripting", "is_tracing", "isinstance", "optimize_for_inference", "script", "script_if_tracing", "script_method", "trace",
           "trace_module", "unused"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class ScriptModule(Module):
    """The base of modules that a script declares as TorchScript. A module that was given to `script` or `trace` stays what it is."""


class ScriptFunction:
    """The type of compiled functions, of which there are none."""


class TracerWarning(Warning):
    """What PyTorch warns of while it traces; nothing warns of it here."""


def Attribute(value: T, type: Any) -> T:
    """The value: its type is for a compiler."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, or one of several, also of one with arguments: `dict[str, Tensor]`, of which every element is looked
    at."""
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, each) for each in target_type)
    origin, arguments = get_origin(target_type), get_args(target_type)
    if origin in (Union, UnionType):
        return isinstance(obj, arguments)
    if origin is None:
        return target_type is Any or obj is target_type or builtins.isinstance(obj, target_type or NoneType)
    if not builtins.isinstance(obj, origin):
        return False
    if builtins.isinstance(obj, dict):
        return all(isinstance(key, arguments[0]) and isinstance(value, arguments[1]) for key, value in obj.items())
    if builtins.isinstance(obj, tuple) and arguments[-1:] != (...,):
        return len(obj) == len(arguments) and all(map(isinstance, obj, arguments))
    return all(isinstance(each, arguments[0]) for each in obj)


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


unused = script_method = script_if_tracing = interface = _overload = _overload_method = export


def trace_module(mod: Module, inputs: Any = None, **options: Any) -> Module:
    """The module itself."""
    return mod


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
