"""Nested tuples, lists and dicts: their leaves, and others in the places of these."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any


def flatten(tree: Any) -> tuple[list, Callable[[list], Any]]:
    """The leaves of nested tuples, lists and dicts, and a function that puts others in their places."""
    if isinstance(tree, dict):
        keys, children, build = list(tree), list(tree.values()), lambda values: dict(zip(keys, values))
    elif isinstance(tree, (tuple, list)):
        kind, children = type(tree), list(tree)
        build = (lambda values: kind(*values)) if hasattr(tree, "_fields") else kind
    else:
        return [tree], lambda leaves: leaves[0]
    parts = [flatten(child) for child in children]

    def unflatten(leaves):
        values, start = [], 0
        for found, make in parts:
            values.append(make(leaves[start:start + len(found)]))
            start += len(found)
        return build(values)
    return [leaf for found, _ in parts for leaf in found], unflatten
