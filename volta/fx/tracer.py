"""Making graphs: a module or function runs once with proxies in the place of its inputs."""
from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from volta._kernels import core
from volta.fx.graph import Graph
from volta.fx.graph_module import GraphModule
from volta.fx.node import Argument, _assert
from volta.fx.proxy import Recording, TracerBase, first_proxy
from volta.nn.container import Sequential
from volta.nn.module import Module
from volta.nn.parameter import Parameter

__all__ = ["PH", "Tracer", "symbolic_trace", "wrap"]

PH = type("Placeholder", (), {"__repr__": lambda self: "PH"})()         # among `concrete_args`: this argument is an input all the same
_wrapped: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
_call = Module.__call__


def wrap(fn_or_name: Any) -> Any:
    """Let a function, given by its name in the calling module or as a decorator, be a node and not be traced through."""
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = (frame.f_globals, name)
    return fn_or_name


def _recorded(function):
    """The function, which is a node where it gets a proxy."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        proxy = first_proxy(args, kwargs)
        return function(*args, **kwargs) if proxy is None else proxy.__volta_function__(function, args, kwargs)
    return call


@contextlib.contextmanager
def _patched(entries: list[tuple[Any, str, Any]]) -> Iterator[None]:
    """Entries of dicts, or attributes of classes, that have another value for a while."""
    missing, before = object(), []
    try:
        for place, name, value in entries:
            before.append((place, name, place.get(name, missing) if isinstance(place, dict) else getattr(place, name)))
            place.__setitem__(name, value) if isinstance(place, dict) else setattr(place, name, value)
        yield
    finally:
        for place, name, value in reversed(before):
            if not isinstance(place, dict):
                setattr(place, name, value)
            elif value is missing:
                del place[name]
            else:
                place[name] = value


class Tracer(TracerBase):
    """Makes graphs. Modules of volta.nn are single nodes, others are traced through; a subclass may say otherwise by `is_leaf_module`.
    Functions in `autowrap_modules`, `autowrap_functions` and those given to `wrap` are nodes."""

    def __init__(self, autowrap_modules: tuple[ModuleType, ...] = (math,), autowrap_functions: tuple[Callable[..., Any], ...] = (),
                 param_shapes_constant: bool = False) -> None:
        if param_shapes_constant:
            raise NotImplementedError("Tracer: param_shapes_constant=True is not supported")
        self._searched = [vars(module) for module in autowrap_modules]
        self._functions = {id(value) for names in self._searched for name, value in names.items()
                           if callable(value) and not name.startswith("_") and not isinstance(value, type)}
        self._functions |= {id(function) for function in autowrap_functions}
        self.root: Any = None
        self.graph: Any = None

    # ------------------------------------------------------------ what a subclass may change
    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is one node."""
        return (type(m).__module__ + ".").startswith("volta.nn.") and not isinstance(m, Sequential)

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call of a module gives."""
        path = self.path_of_module(m)
        return self.create_proxy("call_module", path, args, kwargs) if self.is_leaf_module(m, path) else forward(*args, **kwargs)

    # ------------------------------------------------------------ nodes
    def create_arg(self, a: Any) -> Argument:
        """An argument of a node: parameters and buffers are read from the module, other tensors become attributes of it.

        Raises: NotImplementedError for what cannot be part of a graph.
        """
        if isinstance(a, (core.TensorBase, Module)):
            return self.create_node("get_attr", self._path(a), (), {})
        return super().create_arg(a)

    def _path(self, held):
        """The dotted name of a tensor or module; a tensor that the module does not hold becomes a constant of it."""
        if isinstance(held, Module):
            return self.path_of_module(held)
        for name, tensor in (*self.root.named_parameters(), *self.root.named_buffers()):
            if tensor is held:
                return name
        if isinstance(held, Parameter):
            raise NameError("parameter is not a member of this module")
        for path, module in self.root.named_modules():
            for name, value in vars(module).items():
                if value is held:
                    return f"{path}.{name}" if path else name
        number = next(i for i in range(sys.maxsize) if not hasattr(self.root, f"_tensor_constant{i}"))
        setattr(self.root, f"_tensor_constant{number}", held)
        return f"_tensor_constant{number}"

    def path_of_module(self, mod: Module) -> str:
        """The dotted name of a module. Raises: NameError where the root does not hold it."""
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    # ------------------------------------------------------------ tracing
    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function. `concrete_args` are arguments with a value, for which alone the graph holds.

        Raises: TraceError where a branch depends on an input.
        """
        if isinstance(root, Module):
            self.root, fn = root, root._compiled if isinstance(root, GraphModule) else type(root).forward
        else:
            self.root, fn = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        tracer, own = self, getattr(fn, "__globals__", {})

        def call(module: Module, *args: Any, **kwargs: Any) -> Any:
            if first_proxy(args, kwargs) is None:
                return _call(module, *args, **kwargs)
            return tracer.call_module(module, functools.partial(_call, module), args, kwargs)

        functions = [(names, name, _recorded(value)) for names in (own, *self._searched) for name, value in list(names.items())
                     if id(value) in self._functions]
        functions += [(names, name, _recorded(names.get(name, getattr(builtins, name, None)))) for names, name in _wrapped.values()]
        with _patched([(Module, "__call__", call), *functions]), Recording():
            args = self._placeholders(fn, isinstance(root, Module), concrete_args or {})
            self.create_node("output", "output", (self.create_arg(fn(*args[0], **args[1])),), {}, None, None)
        return self.graph

    def _placeholders(self, fn, is_method, concrete):
        """What `fn` is called with: a proxy, or the concrete value, for each parameter."""
        positional: list[Any] = [self.root] if is_method else []
        named: dict[str, Any] = {}
        parameters = list(inspect.signature(fn).parameters.values())[is_method:]
        for p in parameters:
            stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
            default = () if p.default is p.empty else (p.default,)
            value: Any = self.create_proxy("placeholder", stars + p.name, default, {}, p.name)
            value.node.type = None if p.annotation is p.empty or isinstance(p.annotation, str) else p.annotation
            if p.name in concrete and concrete[p.name] is not PH:
                wanted = concrete[p.name]
                message = f"{p.name} has been specialized to have value {wanted} but got another value"
                if wanted is None or isinstance(wanted, (bool, int, float, str)):
                    _assert(value == wanted if wanted is not None else self.create_proxy(
                        "call_function", _is_none, (value,), {}), message)
                value = wanted
            if stars == "**" or p.kind is p.KEYWORD_ONLY:
                named.update({p.name: value} if not stars else {})
            else:
                positional += [value]
        return positional, named


def _is_none(value: object) -> bool:
    return value is None


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """The module or function as a module made of its graph. Raises: TraceError where a branch depends on an input.

    >>> traced = volta.fx.symbolic_trace(lambda x: volta.relu(x) + 1)
    >>> [node.name for node in traced.graph.nodes]
    ['x', 'relu', 'add', 'output']
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    return GraphModule(tracer.root, graph, type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule"))
