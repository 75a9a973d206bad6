"""A module whose forward is a graph."""
from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any

from volta._kernels import core
from volta._kernels.core.size import package_name
from volta.errors import ArgumentError
from volta.fx.graph import Graph, PythonCode, attribute
from volta.nn.module import Module

__all__ = ["GraphModule"]


class GraphModule(Module):
    """A module made of a graph and what the graph names of `root`: a module, or a dict by dotted names. After a change of `graph`, call
    `recompile()`; `code` is its Python text."""

    def __init__(self, root: Module | Mapping[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self._class_name = class_name
        self.meta: dict[str, Any] = {}
        if isinstance(root, Module):
            self.training = root.training
        self._hold(root, graph)
        self.graph = graph

    def _hold(self, root, *graphs):
        """Have what graphs name."""
        for node in (node for graph in graphs for node in graph.nodes if node.op in ("get_attr", "call_module")):
            if not isinstance(root, Module) and node.target not in root:
                raise RuntimeError(f"Node {node} referenced target {node.target} but that target was not provided in `root`!")
            _put(self, node.target, attribute(root, node.target, node) if isinstance(root, Module) else root[node.target])

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise ArgumentError(f"GraphModule: expected a Graph instance, got {type(g).__name__}")
        object.__setattr__(self, "_graph", g)
        g.owning_module = self
        self.recompile()

    def recompile(self) -> PythonCode:
        """Make forward of the graph as it is now."""
        made = self._graph.python_code("self")
        names, file = dict(made.globals), f"<volta.fx graph {id(self)}>"
        linecache.cache[file] = (len(made.src), None, made.src.splitlines(True), file)          # for tracebacks
        exec(compile(made.src, file, "exec"), names)
        object.__setattr__(self, "_compiled", names["forward"])
        object.__setattr__(self, "_code", made.src)
        return made

    @property
    def forward(self) -> Callable[..., Any]:            # type: ignore[override]  (a method elsewhere, made of the graph here)
        """What the graph computes."""
        return MethodType(self._compiled, self)

    @property
    def code(self) -> str:
        """The text of forward."""
        return self._code

    def add_submodule(self, target: str, m: Module) -> bool:
        """Hold a module under a dotted name; gives whether that was possible."""
        try:
            _put(self, target, m)
        except AttributeError:
            return False
        return True

    def delete_submodule(self, target: str) -> bool:
        """Let the module under a dotted name go; gives whether there was one."""
        path, _, name = target.rpartition(".")
        try:
            del self.get_submodule(path)._modules[name]
        except (AttributeError, KeyError):
            return False
        return True

    def delete_all_unused_submodules(self) -> None:
        """Let go of the modules that the graph does not call."""
        used = {node.target for node in self.graph.nodes if node.op in ("call_module", "get_attr")}
        for name in [name for name, _ in self.named_modules() if name]:
            if not any(name == u or u.startswith(f"{name}.") or name.startswith(f"{u}.") for u in used):
                self.delete_submodule(name)

    def print_readable(self, print_output: bool = True) -> str:
        """Print the text of forward, and give it."""
        text = f"class {self._class_name}({package_name()}.nn.Module):\n" + "".join(
            f"    {line}\n" for line in self.code.strip().splitlines())
        if print_output:
            print(text)
        return text

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_compiled", "_code")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._graph.owning_module = self
        self.recompile()

    def __repr__(self) -> str:
        return self._class_name + super().__repr__().removeprefix(type(self).__name__)

    def __str__(self) -> str:
        return f"{self!r}\n{self.code}\n# To see more debug info, please use `graph_module.print_readable()`"


def _put(module, target, value):
    """Set a dotted name, with empty modules on the way."""
    *path, name = target.split(".")
    for part in path:
        if not hasattr(module, part):
            module.add_module(part, Module())
        module = getattr(module, part)
    if isinstance(value, core.TensorBase) and not value.requires_grad and name not in module._parameters and (
            name not in module.__dict__ and name not in module._buffers):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)
