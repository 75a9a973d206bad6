"""Stand-ins for values while a graph is made: whatever is done with one becomes a node."""
from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from volta._kernels.core.call import Observer
from volta._kernels.core.record import Op
from volta.fx.node import Argument, Node, map_aggregate

if TYPE_CHECKING:
    from volta.fx.tracer import Tracer

__all__ = ["Attribute", "Proxy", "TraceError"]

_OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and_", "or_", "xor", "eq", "ne",
              "lt", "le", "gt", "ge", "neg", "pos", "invert", "getitem")
_REFLECTED = _OPERATORS[:13]


class TraceError(ValueError):
    """What was traced asked for the value of an input."""


class Proxy:
    """Stands for what a node will give. Attributes, methods, operators and functions of it are nodes; its truth, its length and its
    elements are not known: asking for them raises TraceError."""

    def __init__(self, node: Node, tracer: Tracer) -> None:
        self.node, self.tracer = node, tracer

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
