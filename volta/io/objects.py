"""Objects of a program's own classes in files: which classes and operations a file may name, and how such an object is taken apart and
put together. No method of a class runs: an object is its class and its attributes.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Set
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from volta._kernels.core.record import Op
from volta.nn.module import Module
from volta.ops.table import named

OPERATIONS = "volta.operation"              # what stands for a module before the names of operations
_PLAIN = (argparse.Namespace, SimpleNamespace)


def name_of(value: Any) -> str | None:
    """How a file names a class or an operation: module and name; None for anything else, or what cannot be found by its name."""
    if isinstance(value, Op):
        return f"{OPERATIONS} {value.name}"
    if isinstance(value, type) and _found(value.__module__, value.__qualname__) is value:
        return f"{value.__module__} {value.__qualname__}"
    return None


def is_plain(kind: type) -> bool:
    """Whether an object of this class is its class and its attributes: no container, and without its own way to be copied."""
    return kind.__dictoffset__ != 0 and not own_ways(kind)


def own_ways(kind: type) -> list[str]:
    """The methods by which a class makes or copies its objects in its own way."""
    base = Module if issubclass(kind, Module) else object
    return [name for name in ("__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")
            if getattr(kind, name, None) is not getattr(base, name, None)]


def resolve(module: str, name: str, allowed: Set[type], program: bool) -> Any:
    """The class or operation that a file names; None where it may not. With `program` it may be any Module and any class of the program
    itself, that is of the script that runs or of a file in its folder; else one of the classes `allowed`."""
    if module == OPERATIONS:
        return named(name)
    found = _found(module, name)
    if not isinstance(found, type) or not is_plain(found):
        return None
    return found if found in allowed or program and (issubclass(found, (Module, *_PLAIN)) or _is_of_program(found)) else None


def _found(module, name):
    found = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if isinstance(found, (type, ModuleType)) else None
    return found


def _is_of_program(kind):
    """Whether a class was defined by the script that runs, or in a file in its folder."""
    script, source = (getattr(sys.modules.get(name), "__file__", None) for name in ("__main__", kind.__module__))
    return kind.__module__ == "__main__" or bool(script and source) and Path(script).resolve().parent in Path(source).resolve().parents
