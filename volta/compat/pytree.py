"""torch.utils._pytree: nested tuples, lists and dicts as lists of their leaves, and back."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from volta.trees import flatten

__all__ = ["TreeSpec", "tree_all", "tree_any", "tree_flatten", "tree_iter", "tree_leaves", "tree_map", "tree_map_", "tree_map_only",
           "tree_structure", "tree_unflatten"]

IsLeaf = Callable[[Any], bool] | None


class TreeSpec:
    """The form of a tree. Specs of trees of the same form are equal."""

    def __init__(self, count: int, build: Callable[[list[Any]], Any]) -> None:
        self.num_leaves, self._build, self._form = count, build, build([None] * count)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves. Raises: ValueError for another number of them."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that holds "
                             f"{self.num_leaves} items")
        return self._build(leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and repr(self._form) == repr(other._form)

    def __hash__(self) -> int:
        return hash(repr(self._form))

    def __repr__(self) -> str:
        return f"TreeSpec({self._form!r})"


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its form. What `is_leaf` says is a leaf is not gone into."""
    leaves, build = flatten(tree, is_leaf or (lambda tree: False))
    return leaves, TreeSpec(len(leaves), build)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a form with these leaves."""
    return treespec.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves of a tree, one after another."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The form of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree of what `func` makes of each leaf, and of those in the same places of other trees."""
    leaves, form = tree_flatten(tree, is_leaf)
    return form.unflatten(func(*each) for each in zip(leaves, *(tree_leaves(rest, is_leaf) for rest in rests), strict=True))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call `func` for each leaf; gives the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any, is_leaf: IsLeaf = None) -> Any:
    """`tree_map` over leaves of these types, or for which a predicate is true; others stay."""
    chosen = type_or_types_or_pred
    fits = (lambda x: isinstance(x, chosen)) if isinstance(chosen, (type, tuple)) else chosen
    return tree_map(lambda x: func(x) if fits(x) else x, tree, is_leaf=is_leaf)


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` is true of a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` is true of all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))
