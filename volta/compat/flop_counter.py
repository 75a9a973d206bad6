"""torch.utils.flop_counter: a counter can be made and asked, but not switched on."""
from __future__ import annotations

from typing import Any

from volta.errors import UnsupportedError


class FlopCounterMode:
    """Counts nothing. Raises: UnsupportedError when entered."""

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None) -> None:
        self.depth, self.display = depth, display

    def __enter__(self) -> FlopCounterMode:
        raise UnsupportedError("FlopCounterMode: Volta does not count the operations of a model")

    def __exit__(self, *error: object) -> None:
        pass

    def get_total_flops(self) -> int:
        """0: nothing was counted."""
        return 0

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Nothing was counted."""
        return {}
