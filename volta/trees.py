"""Nested tuples, lists and dicts: their leaves, and others in the places of these."""
from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

# How instances of a program's own classes come apart, into children and what else is needed, and together again: what pytrees register.
NODES: dict[type, tuple[Callable[[Any], tuple[Any, Any]], Callable[[Any, Any], Any]]] = {}


def flatten(tree: Any, is_leaf: Callable[[Any], bool] = lambda tree: False) -> tuple[list, Callable[[list], Any]]:
    """The leaves of nested tuples, lists, dicts and `NODES`, and a function that puts others in their places. What `is_leaf` says is a leaf
    is not gone into."""
    if type(tree) in NODES and not is_leaf(tree):
        apart, together = NODES[type(tree)]
        children, context = apart(tree)
        keys, build = None, lambda values: together(values, context)
    elif isinstance(tree, dict) and not is_leaf(tree):
        keys, children, build = list(tree), list(tree.values()), _dict_like(tree)
    elif isinstance(tree, (tuple, list)) and not is_leaf(tree):
        kind, children, keys = type(tree), list(tree), None
        build = (lambda values: kind(*values)) if hasattr(tree, "_fields") else kind
    else:
        return [tree], lambda leaves: leaves[0]
    parts = [flatten(child, is_leaf) for child in children]

    def unflatten(leaves):
        values, start = [], 0
        for found, make in parts:
            values.append(make(leaves[start:start + len(found)]))
            start += len(found)
        return build(values if keys is None else zip(keys, values))
    return [leaf for found, _ in parts for leaf in found], unflatten


def _dict_like(tree):
    """What makes a dict of the same kind of pairs."""
    if isinstance(tree, defaultdict):
        return lambda pairs: defaultdict(tree.default_factory, pairs)
    return OrderedDict if isinstance(tree, OrderedDict) else dict
