"""torch.utils.data._utils.pin_memory: batches in memory that a GPU reads directly, which any host memory is."""
from __future__ import annotations

from typing import Any

from volta.data.collate import mapped

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """The batch with what each of its leaves says that it is in such memory; others stay."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    return mapped(lambda leaf: leaf.pin_memory() if hasattr(leaf, "pin_memory") else leaf, data)
