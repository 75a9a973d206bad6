"""Stand-ins for values while a graph is made: whatever is done with one becomes a node."""
from __future__ import annotations

import dis
import enum
import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from volta._kernels import core
from volta._kernels.core.call import Observer
from volta._kernels.core.record import Op
from volta.fx.node import Argument, Node, Target, map_aggregate

if TYPE_CHECKING:
    from volta.fx.graph import Graph

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TraceError", "TracerBase"]

_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_", "or_", "xor", "eq", "ne",
              "lt", "le", "gt", "ge", "neg", "pos", "invert", "getitem")
_REFLECTED = _OPERATORS[:13]


class TraceError(ValueError):
    """What was traced asked for the value of an input."""


class Proxy:
    """Stands for what a node will give. Attributes, methods, operators and functions of it are nodes; its truth, its length and its
    elements are not known: asking for them raises TraceError."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.node, self.tracer = node, GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __volta_function__(self, op: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Proxy:
        return self.tracer.create_proxy("call_function", op, args, options)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Proxy:
        """What functions ask where nothing is traced: the graph goes on."""
        found = first_proxy(args, kwargs or {})
        return found.tracer.create_proxy("call_function", func, args, kwargs or {})      # type: ignore[union-attr]  # one was asked

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Iterator[Proxy]:
        caller = sys._getframe(1)
        step = next(i for i in dis.get_instructions(caller.f_code) if i.offset == caller.f_lasti)
        if step.opname == "UNPACK_SEQUENCE":                        # a, b = proxy
            return (self[i] for i in range(step.argval))
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """What `**proxy` asks for."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be recorded, call "
                         "volta.fx.wrap('len') at module scope")

    def _unknown(self, *_: Any) -> Any:
        raise TraceError(f"{self!r}: the value of a symbolically traced variable is not known")

    __index__ = __int__ = __float__ = __complex__ = __contains__ = __setitem__ = _unknown


class Attribute(Proxy):
    """An attribute, which becomes a node when it is used; called, it is a method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer, self._node = root, attr, root.tracer, None

    @property
    def node(self) -> Node:             # type: ignore[override]  (a value in other stand-ins)
        """The node of the attribute itself."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class TracerBase:
    """What makes nodes of what is done with proxies, in its `graph`."""

    graph: Any = None

    def proxy(self, node: Node) -> Proxy:
        """The stand-in for a node."""
        return Proxy(node, self)

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of a proxy. Raises: TraceError."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The elements of a proxy. Raises: TraceError."""
        raise TraceError("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
                         "**kwargs function argument")

    def keys(self, obj: Proxy) -> Any:
        """The keys of a proxy."""
        return obj.tracer.create_proxy("call_method", "keys", (obj,), {})

    def create_node(self, kind: str, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Argument], name: str | None = None,
                    type_expr: Any = None) -> Node:
        """Add a node to the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def create_proxy(self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None,
                     type_expr: Any = None, proxy_factory_fn: Callable[[Node], Proxy] | None = None) -> Proxy:
        """Add a node whose arguments may be proxies, and give the stand-in for it."""
        node = self.create_node(kind, target, self.create_arg(tuple(args)), self.create_arg(dict(kwargs)), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Argument:
        """An argument of a node. Raises: NotImplementedError for what cannot be part of a graph."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple):
            parts = [self.create_arg(each) for each in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self.create_arg(each) for each in a]
        if isinstance(a, dict):
            return type(a)((key, self.create_arg(value)) for key, value in a.items())
        if isinstance(a, slice):
            return slice(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if isinstance(a, range):
            return range(*(self.create_arg(each) for each in (a.start, a.stop, a.step)))
        if a is None or a is ... or callable(a) or isinstance(
                a, (Node, bool, int, float, str, bytes, enum.Enum, core.DType, core.Device)) or hasattr(a, "dtype"):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")


class GraphAppendingTracer(TracerBase):
    """Adds nodes to a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


def _operator(name: str, reflected: bool) -> Any:
    function = getattr(operator, name)

    def method(self: Proxy, *others: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (*others, self) if reflected else (self, *others), {})
    return method


for _name in _OPERATORS:
    setattr(Proxy, f"__{_name.rstrip('_')}__", _operator(_name, False))
for _name in _REFLECTED:
    setattr(Proxy, f"__r{_name.rstrip('_')}__", _operator(_name, True))


def first_proxy(*args: Argument) -> Proxy | None:
    """A proxy among arguments, also within tuples, lists, dicts and slices."""
    found: list[Proxy] = []
    map_aggregate(args, lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found[0] if found else None


class Recording(Observer):
    """While it watches, operations that get a proxy become nodes."""

    def compose(self, op: Op, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The proxy of a composed operation."""
        proxy = first_proxy(args, options)
        return NotImplemented if proxy is None else proxy.__volta_function__(op, args, options)

    def replace(self, op: Op, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The proxy of a record."""
        proxy = first_proxy(inputs, params)
        return NotImplemented if proxy is None else proxy.__volta_function__(op, inputs, params)
