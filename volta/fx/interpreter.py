"""Running a graph node by node, and making another graph so."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from volta.errors import ArgumentError
from volta.fx.graph import Graph, attribute
from volta.fx.graph_module import GraphModule
from volta.fx.node import Argument, Node, Target, map_arg
from volta.fx.proxy import Proxy
from volta.fx.tracer import Tracer
from volta.nn.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs the graph of a module, a node at a time. A subclass changes what is done for a kind of node, or, by `run_node`, for all.

    >>> class Names(volta.fx.Interpreter):
    ...     def run_node(self, n):
    ...         print(n.name)
    ...         return super().run_node(n)
    >>> result = Names(volta.fx.symbolic_trace(lambda x: volta.exp(x) * 2)).run(volta.zeros(2))
    x
    exp
    mul
    output
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.graph = graph if graph is not None else module.graph       # type: ignore[assignment]  (a GraphModule's)
        self.garbage_collect_values, self.name = garbage_collect_values, "Interpreter"
        self.submodules = dict(module.named_modules())
        self.env: dict[Node, Any] = {}
        self.args_iter: Iterator[Any] = iter(())

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """What the graph gives for these inputs. `initial_env` has values of nodes that then do not run."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        last = {used: node for node in self.graph.nodes for used in node.all_input_nodes} if self.garbage_collect_values else {}
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            for used in node.all_input_nodes:
                if last.get(used) is node:
                    del self.env[used]
        return None

    def run_node(self, n: Node) -> Any:
        """What a node gives, by the method named after its kind."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node with values in the place of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Values in the place of nodes. Raises: RuntimeError for a node that has not run."""
        def value(node):
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues")
            return self.env[node]
        return map_arg(args, value)

    def fetch_attr(self, target: str) -> Any:
        """What is under a dotted name."""
        return attribute(self.module, target)

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next input, or the default. Raises: RuntimeError without."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function's result."""
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method's result."""
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A module's result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the graph gives."""
        return args[0]


class _Copying(Tracer):
    """A tracer that goes through no module."""

    def __init__(self, graph: Graph, root: Module) -> None:
        super().__init__()
        self.graph, self.root = graph, root

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Makes a new graph of a graph: a subclass says, for a kind of node, which proxies come in its place."""

    def __init__(self, module: Module) -> None:
        super().__init__(module, garbage_collect_values=False)
        if not isinstance(module, GraphModule):
            raise ArgumentError(f"Transformer: needs a GraphModule, got {type(module).__name__}")
        self.new_graph = Graph()
        self.tracer = _Copying(self.new_graph, module)

    def placeholder(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """An input of the new graph."""
        return self.tracer.create_proxy("placeholder", target, args, {})

    def get_attr(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        """An attribute, in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call, in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call, in the new graph."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call, in the new graph."""
        return self.tracer.call_module(self.fetch_attr(target), lambda: None, args, kwargs)

    def transform(self) -> GraphModule:
        """The module of the new graph."""
        result = super().run(enable_io_processing=False)
        self.new_graph.output(self.tracer.create_arg(result))
        return GraphModule(self.module, self.new_graph, self.module._class_name)
