"""torch.return_types: the classes of what functions give that give several tensors, by the names of these functions."""
from __future__ import annotations

import re
from typing import Any

import volta
from volta.results import Result, named

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    path = name.replace("linalg_", "linalg.", 1)
    found: Any = volta
    for part in path.split("."):
        found = getattr(found, part, None)
    function: Any = getattr(found, "function", None)
    for kind in re.findall(r"\w+", getattr(function, "__annotations__", {}).get("return", "")):
        cls = function.__globals__.get(kind)
        if isinstance(cls, type) and issubclass(cls, Result):
            return named(cls, path)
    raise AttributeError(name)
