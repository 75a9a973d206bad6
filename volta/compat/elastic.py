"""torch.distributed.elastic.multiprocessing.errors: what scripts mark their main function with, for torchrun to tell what failed."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["record"]


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """The function itself: of one process, errors are seen where they are raised."""
    return fn
