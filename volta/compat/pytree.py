"""torch.utils._pytree: nested tuples, lists and dicts as lists of their leaves, and back."""
from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from volta.results import Result
from volta.trees import NODES

__all__ = ["Context", "LeafSpec", "MappingKey", "PyTree", "SequenceKey", "TreeSpec", "is_structseq_instance", "register_constant",
           "register_dataclass", "register_pytree_node", "tree_all", "tree_any", "tree_flatten", "tree_is_leaf", "tree_iter",
           "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_structure", "tree_unflatten"]

Context: TypeAlias = Any
PyTree: TypeAlias = Any
IsLeaf = Callable[[Any], bool] | None
namedtuple: Any = object()              # stands for the types of all named tuples


class NodeDef(NamedTuple):
    """How trees of one type come apart, into children and what else is needed (the context), and together again."""
    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


def _pairs(kind: Any) -> NodeDef:
    return NodeDef(kind, lambda tree: (list(tree.values()), list(tree)),
                   lambda values, keys: kind(zip(keys, values, strict=True)))


SUPPORTED_NODES: dict[Any, NodeDef] = {
    **{kind: NodeDef(kind, lambda tree: (list(tree), None), lambda values, _, kind=kind: kind(values)) for kind in (tuple, list)},
    namedtuple: NodeDef(namedtuple, lambda tree: (list(tree), type(tree)), lambda values, kind: kind(*values)),
    deque: NodeDef(deque, lambda tree: (list(tree), tree.maxlen), lambda values, length: deque(values, maxlen=length)),
    dict: _pairs(dict), OrderedDict: _pairs(OrderedDict),
    defaultdict: NodeDef(defaultdict, lambda tree: (list(tree.values()), (tree.default_factory, list(tree))),
                         lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)))}


class MappingKey(NamedTuple):
    """Where a child is in a dict."""
    key: Any


class SequenceKey(NamedTuple):
    """Where a child is in a list or tuple."""
    idx: int


def _list_flatten_with_keys(tree: list[Any]) -> tuple[list[tuple[SequenceKey, Any]], None]:
    return [(SequenceKey(i), child) for i, child in enumerate(tree)], None


def _dict_flatten_with_keys(tree: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    return [(MappingKey(key), child) for key, child in tree.items()], list(tree)


_, _dict_flatten, _dict_unflatten = SUPPORTED_NODES[dict]
_, _list_flatten, _list_unflatten = SUPPORTED_NODES[list]


def register_pytree_node(cls: type, flatten_fn: Callable[[Any], tuple[list[Any], Any]],
                         unflatten_fn: Callable[[Iterable[Any], Any], Any], **names: Any) -> None:
    """Make instances of a class trees. `names` say how PyTorch stores them. Raises: ValueError where the class is one already."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn)
    NODES[cls] = flatten_fn, unflatten_fn


_register_pytree_node = register_pytree_node


def register_dataclass(cls: type, *, field_names: Sequence[str] | None = None, drop_field_names: Sequence[str] | None = None,
                       serialized_type_name: str | None = None) -> None:
    """Make instances of a dataclass trees of their fields, all that its constructor takes but for what is dropped. Raises: ValueError."""
    names = list(field_names) if field_names is not None else [
        field.name for field in dataclasses.fields(cls) if field.init and field.name not in (drop_field_names or ())]
    register_pytree_node(cls, lambda tree: ([getattr(tree, name) for name in names], names),
                         lambda values, keys: cls(**dict(zip(keys, values, strict=True))))


def register_constant(cls: type) -> None:
    """Make instances of a class trees without leaves: they are part of the structure. Raises: ValueError."""
    register_pytree_node(cls, lambda tree: ([], tree), lambda values, tree: tree)


def _get_node_type(tree: Any) -> Any:
    return namedtuple if isinstance(tree, tuple) and type(tree) is not tuple and hasattr(tree, "_fields") else type(tree)


def is_structseq_instance(obj: Any) -> bool:
    """Whether an op gave the tuple, one of several tensors."""
    return isinstance(obj, Result)


class TreeSpec:
    """The form of a tree: its type, what it has beside its children, and their forms. Specs of trees of the same form are equal."""

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_leaves = sum(child.num_leaves for child in children_specs)
        self.num_children = len(children_specs)

    def is_leaf(self) -> bool:
        """Whether the tree is a leaf."""
        return False

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves. Raises: ValueError for another number of them."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that holds "
                             f"{self.num_leaves} items")
        return self._build(iter(leaves))

    def _build(self, leaves: Iterator[Any]) -> Any:
        return SUPPORTED_NODES[self.type].unflatten_fn([child._build(leaves) for child in self.children_specs], self.context)

    def _key(self) -> Any:
        return self.type, self.context, self.children_specs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __repr__(self) -> str:
        name = "namedtuple" if self.type is namedtuple else getattr(self.type, "__name__", self.type)
        return f"TreeSpec({name}, {self.context}, {self.children_specs})"


class LeafSpec(TreeSpec):
    """The form of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.num_leaves = 1

    def is_leaf(self) -> bool:
        """Whether the tree is a leaf."""
        return True

    def _build(self, leaves: Iterator[Any]) -> Any:
        return next(iter(leaves))

    def __repr__(self) -> str:
        return "*"


def tree_is_leaf(tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether a tree is a leaf: of no type that has children, or what `is_leaf` says is one."""
    return _get_node_type(tree) not in SUPPORTED_NODES or is_leaf is not None and is_leaf(tree)


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its form. What `is_leaf` says is a leaf is not gone into."""
    if tree_is_leaf(tree, is_leaf):
        return [tree], LeafSpec()
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    parts = [tree_flatten(child, is_leaf) for child in children]
    return [leaf for leaves, _ in parts for leaf in leaves], TreeSpec(kind, context, [form for _, form in parts])


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


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[Any] | None:
    """The leaves of a tree, each as often as the other tree has leaves in its place; None where that one does not go as deep."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if kind != treespec.type or len(children) != treespec.num_children or context != treespec.context:
        return None
    parts = [_broadcast_to_and_flatten(child, form, is_leaf) for child, form in zip(children, treespec.children_specs, strict=True)]
    return None if None in parts else [leaf for part in parts for leaf in part or ()]
