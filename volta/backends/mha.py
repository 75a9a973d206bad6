"""torch.backends.mha: one way computes attention, in training and in use, so the switch between two has no meaning."""
from __future__ import annotations

_fastpath = True


def get_fastpath_enabled() -> bool:
    """What was set."""
    return _fastpath


def set_fastpath_enabled(value: bool) -> None:
    """Keeps it."""
    global _fastpath
    _fastpath = bool(value)
