"""Which of PyTorch's ops Volta has, and its function for each: by name, or the samples' own function with Volta for `torch`."""
from __future__ import annotations

import contextlib
import functools
import importlib
import types

import torch
from torch.testing._internal.common_methods_invocations import op_db

import volta
import volta.nn
from volta.compat.modules import place

ABSENT = object()


class Mirror:
    """A module under PyTorch's name, served by Volta, beside the real one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        below = f"{self._name}.{name}"
        try:
            value = getattr(importlib.import_module(place(self._name)), name)
        except (KeyError, ModuleNotFoundError, AttributeError):
            value = ABSENT
        if value is ABSENT or isinstance(value, types.ModuleType):
            try:
                importlib.import_module(place(below))
            except (KeyError, ModuleNotFoundError):
                raise AttributeError(below) from None
            return Mirror(below)
        return value


TORCH = Mirror("torch")


def _seeded(op: object, *args: object, **kwargs: object) -> object:
    volta.manual_seed(42)
    return op(*args, **kwargs)


_OWN = {"wrapper_set_seed": _seeded, "freeze_rng_state": contextlib.nullcontext}


def ours(value: object) -> object:
    """What `value` of PyTorch is here: a module's view, a function found by name, or one compiled from the same code."""
    if isinstance(value, types.ModuleType):
        return Mirror(value.__name__) if value.__name__.partition(".")[0] == "torch" else value
    if isinstance(value, types.FunctionType) and (value.__module__ or "").startswith("torch.testing"):
        if value.__name__ in _OWN:
            return _OWN[value.__name__]
        names = set(_names(value.__code__))
        scope = {name: ours(each) for name, each in value.__globals__.items() if name in names or name == "__builtins__"}
        cells = tuple(types.CellType(ours(cell.cell_contents)) for cell in value.__closure__ or ())
        made = types.FunctionType(value.__code__, scope, value.__name__, value.__defaults__, cells)
        made.__kwdefaults__ = value.__kwdefaults__
        return made
    if value is torch.Tensor:
        return volta.Tensor
    found = _path(value)
    return value if found is ABSENT else found


def _names(code: types.CodeType) -> list[str]:
    return [*code.co_names, *(name for each in code.co_consts if isinstance(each, types.CodeType) for name in _names(each))]


def _path(value: object) -> object:
    """The counterpart of a function of torch that is held by itself."""
    kind, name = type(value).__name__, getattr(value, "__name__", None)
    if kind in ("method_descriptor", "wrapper_descriptor", "getset_descriptor"):
        return getattr(volta.Tensor, name, ABSENT)
    module = getattr(value, "__module__", None) or ""
    return find(f"{module.removeprefix('torch.')}.{name}") if name and module.startswith("torch.") else ABSENT


def find(name: str) -> object:
    """The function here that PyTorch calls torch.`name`, or the method; ABSENT where there is none."""
    value = TORCH
    try:
        for part in name.removeprefix("torch.").split("."):
            value = getattr(value, part)
    except AttributeError:
        return getattr(volta.Tensor, name, ABSENT)
    return ABSENT if isinstance(value, Mirror) else value


def function(info: object) -> object:
    """Volta's function for an entry of op_db; ABSENT where it has none."""
    op = info.op
    if info.name == "max_pool2d_with_indices_backward":         # of torch.ops
        return ABSENT
    if isinstance(op, types.FunctionType) and op.__module__.startswith("torch.testing"):
        names = [name for name in _names(op.__code__) if name != "wrapper_set_seed"]
        inner = torch.nn.functional if "functional" in names else None
        for name in names:
            if hasattr(torch.Tensor, name) and not hasattr(volta.Tensor, name) and not hasattr(volta, name) and not (
                    inner and hasattr(inner, name)):
                return ABSENT
        return ours(op)
    if info.name.startswith("torch.ops.") or info.name.startswith("jiterator"):
        return ABSENT
    by_name = find(info.name)
    return by_name if by_name is not ABSENT else _path(op)


def entries(wanted: list[str] | None) -> list[tuple[str, object, object]]:
    """(name, entry of op_db, Volta's function) of what Volta has."""
    found = []
    for info in op_db:
        name = info.name + (f"/{info.variant_test_name}" if info.variant_test_name else "")
        if (wanted is None or info.name in wanted or name in wanted) and (op := function(info)) is not ABSENT:
            found.append((name, info, op))
    return found


def form(info: object, kind: str) -> tuple[object, object]:
    """(PyTorch's, Volta's) method, inplace or operator form of an entry; (None, None) where PyTorch has none."""
    theirs = getattr(info, f"{kind}_variant")
    if theirs is None:
        return None, None
    if kind.endswith("operator"):
        return theirs, theirs
    if isinstance(theirs, types.FunctionType) and theirs.__module__.startswith("torch.testing"):
        return theirs, ours(theirs)
    if isinstance(theirs, functools.partial):
        inner = _path(theirs.func)
        return theirs, ABSENT if inner is ABSENT else functools.partial(inner, *theirs.args, **theirs.keywords)
    return theirs, getattr(volta.Tensor, theirs.__name__, ABSENT)
