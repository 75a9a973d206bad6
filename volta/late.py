"""Modules of PyTorch's names as attributes of the packages here: `volta.nn.modules.batchnorm`, which `import torch` alone gives there.

They are imported when they are first named; which ones there are, `volta.compat.deep` knows, asked by the import. Knows nothing else.
"""
from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

__all__ = ["modules_of"]


def modules_of(package: str) -> Callable[[str], ModuleType]:
    """The `__getattr__` of a package whose modules need no import. It raises AttributeError where there is no such module."""
    missing: set[str] = set()               # what was asked for in vain, as `hasattr` does: an import takes 40 us to fail

    def find(name: str) -> ModuleType:
        if (not name.startswith("_") or name == "_utils") and name not in missing:
            try:
                return importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if not (error.name or "").startswith("volta."):         # an optional package that a module here stands on
                    raise
                missing.add(name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return find
