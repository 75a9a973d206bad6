"""torch.cpu: the CPU under the names that other devices have."""
from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """Its name."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Does nothing: what the CPU computes is done when a call returns."""
