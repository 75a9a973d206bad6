"""The order in which torch.einsum multiplies more than two operands: from the left, at any setting."""
from __future__ import annotations

from volta.errors import ArgumentError

enabled = False
strategy = None


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[bool, str | None]:
    """What was set, which stays. Raises: ArgumentError where it is to be used."""
    if _enabled or _strategy:
        raise ArgumentError("opt_einsum: einsum multiplies from the left; give it the operands in another order")
    return enabled, strategy


def is_available() -> bool:
    """Whether the package opt_einsum is used: it is not."""
    return False
