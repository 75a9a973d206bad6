"""torch.compiler: what scripts ask of it where nothing has to be compiled."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any


def is_compiling() -> bool:
    """Whether a compiler looks at the call: never."""
    return False


is_dynamo_compiling = is_compiling


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, **reasons: Any) -> Any:
    """The function itself, which nothing compiles."""
    return (lambda function: function) if fn is None else fn


def reset() -> None:
    """Forgets what was compiled: nothing."""
