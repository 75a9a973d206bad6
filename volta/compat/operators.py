"""torch.ops: the operations that a program has declared by torch.library, in their namespaces."""
from __future__ import annotations

from typing import Any

from volta.compat.library import OPERATIONS


def __getattr__(name: str) -> Any:
    try:
        return OPERATIONS[name]
    except KeyError:
        raise AttributeError(f"torch.ops.{name} was not declared by torch.library.custom_op", name=name) from None
