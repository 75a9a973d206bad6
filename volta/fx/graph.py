"""A graph: its nodes in the order in which they run, and what changes it."""
from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from volta.errors import ArgumentError
from volta.fx.codegen import Names, PythonCode, python_code, snake_case
from volta.fx.node import Argument, Node, Target, map_arg

if TYPE_CHECKING:
    from volta.nn.module import Module

__all__ = ["Graph", "PythonCode"]


class Nodes:
    """The nodes of a graph, from the first to the last, or reversed. While one goes through them, they may be changed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _walk(self, step):
        node = getattr(self.graph._root, step)
        while node is not self.graph._root:
            if node._prev._next is node:            # it has not been erased meanwhile
                yield node
            node = getattr(node, step)

    def __iter__(self) -> Iterator[Node]:
        return self._walk("_next")

    def __reversed__(self) -> Iterator[Node]:
        return self._walk("_prev")


class Graph:
    """A graph of calls. It begins with placeholders and ends with one output; new nodes come in front of its end, or where
    `inserting_before` and `inserting_after` say.

    >>> graph = volta.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(volta.relu, (x,)))
    >>> volta.fx.GraphModule({}, graph)(volta.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, owning_module: Module | None = None, tracer_cls: type | None = None) -> None:
        self._root = Node(self, "", "get_attr", "", (), {})
        self._names, self._insert = Names(), self._root.prepend
        self._tracer_cls, self._owner = tracer_cls, None
        self.owning_module = owning_module

    @property
    def owning_module(self) -> Module | None:
        """The module that the graph is the forward of, where there is one."""
        return None if self._owner is None else self._owner()

    @owning_module.setter
    def owning_module(self, module: Module | None) -> None:
        self._owner = None if module is None else weakref.ref(module)

    @property
    def nodes(self) -> Nodes:
        """All nodes in order."""
        return Nodes(self)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, with a target where it is given."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        """The last node."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    # ------------------------------------------------------------ adding
    def create_node(self, op: str, target: Target, args: tuple[Argument, ...] | None = None, kwargs: dict[str, Argument] | None = None,
                    name: str | None = None, type_expr: Any = None) -> Node:
        """Add a node. The methods below add one of a kind."""
        suggestion = name or (snake_case(getattr(target, "__name__", type(target).__name__)) if callable(target) else target)
        node = Node(self, self._names.create(suggestion), op, target, args or (), kwargs or {}, type_expr)
        self._insert(node)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """Add an input."""
        return self.create_node("placeholder", name, () if default_value is ... else (default_value,), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a read of a module's attribute: a parameter, a buffer."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: tuple[Argument, ...] | None = None, kwargs: dict[str, Argument] | None = None,
                    type_expr: Any = None) -> Node:
        """Add a call of the module under a dotted name."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: tuple[Argument, ...] | None = None, kwargs: dict[str, Argument] | None = None,
                    type_expr: Any = None) -> Node:
        """Add a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function: Callable[..., Any], args: tuple[Argument, ...] | None = None,
                      kwargs: dict[str, Argument] | None = None, type_expr: Any = None) -> Node:
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add the end, which gives `result`."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Add a node like one of another graph, with what `arg_transform` makes of the nodes in its arguments."""
        copied = self.create_node(node.op, node.target, map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform), node.name,
                                  node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Add all nodes of another graph but its end; gives what the end would give. `val_map` says, and is told, which node is which."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    @contextlib.contextmanager
    def _inserting(self, insert):
        before, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = before

    def inserting_before(self, n: Node | None = None) -> contextlib.AbstractContextManager[None]:
        """Where new nodes come: in front of `n`, or of all."""
        return self.inserting_after(self._root) if n is None else self._inserting(self._own(n).prepend)

    def inserting_after(self, n: Node | None = None) -> contextlib.AbstractContextManager[None]:
        """Where new nodes come: each right behind `n`, or behind all."""
        return self.inserting_before(self._root) if n is None else self._inserting(self._own(n).append)

    def _own(self, node):
        if node.graph is not self:
            raise ArgumentError("Graph: Node to insert at is not in graph")
        return node

    # ------------------------------------------------------------ taking away
    def erase_node(self, to_erase: Node) -> None:
        """Take out a node that nothing uses. Raises: RuntimeError where something does."""
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                               f"{to_erase.users}!")
        self._own(to_erase)._leave()
        to_erase._take((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out what nothing uses; gives whether there was any."""
        keep, found = is_impure_node or Node.is_impure, False
        for node in reversed(self.nodes):
            if not node.users and not keep(node):
                self.erase_node(node)
                found = True
        return found

    # ------------------------------------------------------------ checking and showing
    def lint(self) -> None:
        """Raises: RuntimeError where a node is used before it runs or belongs to another graph, or names what its module has not."""
        seen: set[Node] = set()
        for node in self.nodes:
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an argument!")
                if used not in seen:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that Nodes "
                                       f"in the graph are topologically ordered\n{self}")
            if any(other.name == node.name for other in seen):
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                attribute(self.owning_module, node.target, node)

    def python_code(self, root_module: str = "self") -> PythonCode:
        """The text of a function `forward`, and what it names."""
        return python_code(self, root_module)

    def print_tabular(self) -> None:
        """Print a line for each node."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [tuple(map(str, (node.op, node.name, node.target, node.args, node.kwargs))) for node in self.nodes]
        widths = [max(map(len, column)) for column in zip(*rows)]
        rows.insert(1, tuple("-" * width for width in widths))
        print("\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows))

    def __str__(self) -> str:
        return "graph():" + "".join(f"\n    {node.format_node()}" for node in self.nodes)

    # ------------------------------------------------------------ copies and files
    def __getstate__(self) -> dict[str, Any]:
        """A list of nodes with the numbers of their arguments: going from node to node would go as deep as the graph is long."""
        places = {node: i for i, node in enumerate(self.nodes)}

        def entry(node):
            args, kwargs = (map_arg(part, lambda used: _Place(places[used])) for part in (node.args, node.kwargs))
            return node.op, node.target, args, kwargs, node.name, node.type, node.meta
        return {"entries": [entry(node) for node in places], "tracer": self._tracer_cls}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(tracer_cls=state["tracer"])       # type: ignore[misc]  (an empty graph again)
        nodes: list[Node] = []
        for op, target, args, kwargs, name, kind, meta in state["entries"]:
            args, kwargs = ({} if not part else _placed(part, nodes) for part in (args, kwargs))
            nodes.append(self.create_node(op, target, args or (), kwargs, name, kind))
            nodes[-1].meta = meta


class _Place(Node):
    """Stands for a node in what is written of a graph."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self):
        return _Place, (self.number,)


def _placed(part, nodes):
    return map_arg(part, lambda place: nodes[place.number])


def attribute(module: Any, name: Any, node: Node | None = None) -> Any:
    """What is under a dotted name. Raises: RuntimeError."""
    value = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise RuntimeError(f"{'' if node is None else f'Node {node}: '}target {name} references nonexistent attribute {part} of "
                               f"{type(value).__name__}")
        value = getattr(value, part)
    return value
