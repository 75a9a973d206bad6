"""One step of a graph: what is called, with which arguments, and who uses the result."""
from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import volta.nn.functional as F
from volta._kernels.core.size import package_name
from volta.errors import ArgumentError
from volta.ops.table import FUNCTIONS, PLACES

if TYPE_CHECKING:
    from volta.fx.graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Argument = Any                              # a Node, a plain value, or a tuple, list, dict or slice of such
Target = Callable[..., Any] | str
OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


def _assert(condition: Any, message: str) -> Any:
    """Raises: AssertionError with the message unless the condition holds. While a graph is made, a step of it."""
    if hasattr(condition, "__volta_function__"):
        return condition.__volta_function__(_assert, (condition, message), {})
    if not condition:
        raise AssertionError(message)


_impure: set[Any] = {_assert, setattr}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Keep calls of `fn`, though nothing may use what they give."""
    _impure.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """An argument in which every part that is no tuple, list, dict or slice is what `fn` makes of it."""
    if isinstance(a, tuple):
        parts = [map_aggregate(each, fn) for each in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(each, fn) for each in a]
    if isinstance(a, dict):
        return type(a)((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(each, fn) for each in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """An argument in which every node is what `fn` makes of it."""
    return map_aggregate(a, lambda each: fn(each) if isinstance(each, Node) else each)


class Node:
    """A step of a graph. `op` says of which kind `target` is: "placeholder" (an input's name), "get_attr", "call_module" (dotted names),
    "call_function" (a function), "call_method" (a name) or "output". `users` are the nodes that have it among their arguments; `meta` is
    for what programs find out about it."""

    def __init__(self, graph: Graph, name: str, op: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument],
                 return_type: Any = None) -> None:
        if op not in OPS:
            raise ArgumentError(f"Node: op must be one of {', '.join(OPS)}, got {op!r}")
        if callable(target) != (op == "call_function"):
            raise ArgumentError(f"Node: the target of {op} must be {'a function' if op == 'call_function' else 'a name'}, got {target!r}")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self.stack_trace: str | None = None
        self._prev = self._next = self
        self._inputs: dict[Node, None] = {}
        self._args, self._kwargs = (), {}
        self._take(tuple(args), dict(kwargs))

    def _take(self, args, kwargs):
        """Have these arguments, and be a user of the nodes in them."""
        for node in self._inputs:
            node.users.pop(self, None)
        self._inputs = {}
        for arg in (args, kwargs):
            map_arg(arg, self._inputs.setdefault)
        for node in self._inputs:
            node.users[self] = None
        self._args, self._kwargs = args, kwargs

    @property
    def args(self) -> tuple[Argument, ...]:
        """Arguments by position. To change them, assign them anew."""
        return self._args

    @args.setter
    def args(self, values: Iterable[Argument]) -> None:
        self._take(tuple(values), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Arguments by name. To change them, assign them anew."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, values: dict[str, Argument]) -> None:
        self._take(self._args, dict(values))

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes in the arguments, each once."""
        return list(self._inputs)

    @property
    def next(self) -> Node:
        """The step after this one."""
        return self._next

    @property
    def prev(self) -> Node:
        """The step before this one."""
        return self._prev

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace the argument at a position."""
        self.args = (*self._args[:idx], arg, *self._args[idx + 1:])

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Put an argument in front of a position."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace the argument of a name."""
        self.kwargs = {**self._kwargs, key: arg}

    def prepend(self, x: Node) -> None:
        """Move `x` in front of this step. Raises: ArgumentError for a node of another graph."""
        if x.graph is not self.graph:
            raise ArgumentError("Node: attempting to move a Node into a different Graph")
        if x is not self:
            x._leave()
            x._prev, x._next = self._prev, self
            self._prev._next = self._prev = x

    def append(self, x: Node) -> None:
        """Move `x` behind this step."""
        if self._next is not x:
            self._next.prepend(x)

    def _leave(self):
        self._prev._next, self._next._prev = self._next, self._prev

    def replace_all_uses_with(self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
                              propagate_meta: bool = False) -> list[Node]:
        """Let every user, of those for which `delete_user_cb` is true, use another node; gives the users."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if user is not replace_with and delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use `new_input` wherever `old_input` is an argument."""
        def other(node):
            return new_input if node is old_input else node
        self._take(map_arg(self._args, other), map_arg(self._kwargs, other))

    def is_impure(self) -> bool:
        """Whether it must stay though nothing uses it."""
        return self.op in ("placeholder", "output") or self.op == "call_function" and self.target in _impure

    def format_node(self) -> str:
        """A line that says all of it."""
        type_text = f" : {self.type.__name__ if isinstance(self.type, type) else self.type}" if self.type is not None else ""
        if self.op == "placeholder":
            default = f"(default={self._args[0]})" if self._args else ""
            return f"%{self.name}{type_text} : [num_users={len(self.users)}] = placeholder[target={self.target}]{default}"
        if self.op == "output":
            return f"return {self._args[0]}"
        call = "" if self.op == "get_attr" else f"(args = {_shown(self._args)}, kwargs = {_shown(self._kwargs)})"
        return f"%{self.name}{type_text} : [num_users={len(self.users)}] = {self.op}[target={qualified(self.target)}]{call}"

    def __repr__(self) -> str:
        return self.name


def _shown(a: Argument) -> str:
    """An argument in a line of `format_node`."""
    if isinstance(a, (list, tuple)) and not hasattr(a, "_fields"):
        inner = ", ".join(map(_shown, a))
        return f"[{inner}]" if isinstance(a, list) else f"({inner}{',' if len(a) == 1 else ''})"
    if isinstance(a, dict):
        return "{" + ", ".join(f"{key}: {_shown(value)}" for key, value in a.items()) + "}"
    return f"%{a.name}" if isinstance(a, Node) else str(a)


def public_name(target: Target) -> str | None:
    """The name under which a function of Volta, or of Python's operator, is public; None for any other."""
    name = getattr(target, "__name__", "")
    everywhere = FUNCTIONS if name in PLACES and PLACES[name].function else {}
    package = package_name()
    for prefix, names in ((package, everywhere), (f"{package}.nn.functional", vars(F)), ("operator", vars(operator))):
        if names.get(name) is target:
            return f"{prefix}.{name}"
    return None


def qualified(target: Target) -> str:
    """The name of what is called, with its module."""
    if isinstance(target, str):
        return target
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None) or repr(target)
    return public_name(target) or (f"{module}.{name}" if module else name)
