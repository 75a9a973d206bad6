"""torch.compiler, and the settings of its inner modules, where nothing is compiled: functions stay what they are."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

config = SimpleNamespace()              # what scripts set is kept, and without effect


def disable(fn: F | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself: marks and options for a compiler have no meaning here."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: F) -> F:
    """The function itself."""
    return fn


assume_constant_result = allow_in_graph


class TransformGetItemToIndex(nullcontext[None]):
    """A context for subscripts by tensors under `vmap`, which need none here."""


def disable_cache_limit() -> nullcontext[None]:
    """A context in which as much may be compiled as a function needs."""
    return nullcontext()


def is_compiling() -> bool:
    """False: nothing is compiled."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Does nothing: memory is found at each call."""


mark_dynamic = mark_static = maybe_mark_dynamic = lambda t, *dims, **bounds: None            # sizes are those that tensors have


def reset() -> None:
    """Forgets nothing."""


cudagraph_mark_step_begin = reset
