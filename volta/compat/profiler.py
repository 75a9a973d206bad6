"""torch.profiler and torch.autograd.profiler: names of parts of a program, without effect since nothing is profiled (`refused.py`)."""
from __future__ import annotations

from contextlib import ContextDecorator


class record_function(ContextDecorator):
    """Names a part of a program for a profile: a context manager or decorator without effect."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def kineto_available() -> bool:
    """False: there are no profiles."""
    return False
