"""Settings of a library of kernels for NVIDIA's GPUs, without effect here."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True
benchmark_limit = 10


def is_available() -> bool:
    """Whether the library is used: never."""
    return False


def version() -> None:
    """There is no version of what is not used."""


@contextmanager
def flags(enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False, allow_tf32: bool = True,
          **options: Any) -> Iterator[None]:
    """Other settings in a `with` block."""
    wanted = {"enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit, "deterministic": deterministic,
              "allow_tf32": allow_tf32}
    before = {name: globals()[name] for name in wanted}
    globals().update(wanted)
    try:
        yield
    finally:
        globals().update(before)
