"""torch.ops: the operations that a program has declared by torch.library, in their namespaces; and in `aten` those of Volta."""
from __future__ import annotations

import functools
from typing import Any

import volta
from volta.compat.library import OPERATIONS
from volta.errors import UnsupportedError


class _Operator:
    """An operation by its name, or one of its overloads, which are the same function here: a key of tables, and callable."""

    def __init__(self, name: str) -> None:
        self._name = name

    @functools.cache                # noqa: B019 each name has one object, for ever
    def __getattr__(self, name: str) -> _Operator:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Operator(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._name.split(".")[1]
        found = getattr(volta, name, None) or getattr(volta.Tensor, name, None)
        if found is None:
            raise UnsupportedError(f"torch.ops.{self._name} does not exist in Volta")
        return found(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<operation {self._name}>"


aten = _Operator("aten")


def __getattr__(name: str) -> Any:
    try:
        return OPERATIONS[name]
    except KeyError:
        raise AttributeError(f"torch.ops.{name} was not declared by torch.library.custom_op", name=name) from None
