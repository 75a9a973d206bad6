"""torch.cuda.nvtx: names of parts of a program for NVIDIA's profilers, which see nothing of it here; without effect but for the depth."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_depth = 0


def mark(msg: str) -> None:
    """Names a moment."""


def range_push(msg: str) -> int:
    """Begins a part; gives how many it is in."""
    global _depth
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """Ends the part begun last; gives how many it was in."""
    global _depth
    _depth -= 1
    return _depth


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Names what runs in a `with` block or function."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
