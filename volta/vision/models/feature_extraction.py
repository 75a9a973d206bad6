"""Models that give what they compute on the way, by the names of layers and steps: rewritten graphs of them (`volta.fx`)."""
from __future__ import annotations

import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from volta.fx.graph import Graph
from volta.fx.graph_module import GraphModule
from volta.fx.node import Node, Target
from volta.fx.proxy import Proxy
from volta.fx.tracer import Tracer
from volta.nn.module import Module
from volta.vision import ops

__all__ = ["create_feature_extractor", "get_graph_node_names"]

_LAYERS = tuple(kind for _, kind in inspect.getmembers(ops, inspect.isclass) if issubclass(kind, Module))


class NodePathTracer(Tracer):
    """Says for each node where in the model it comes from: "layer1.0.relu_1" is the second step that `relu` of block 0 is."""

    def __init__(self, leaf_modules: Sequence[type[Module]] = (), **options: Any) -> None:
        super().__init__(**{**options, "autowrap_modules": (math, ops, *options.get("autowrap_modules", ()))})
        self.leaf_modules = (*_LAYERS, *leaf_modules)
        self.current_module_qualname = ""
        self.node_to_qualname: dict[Node, str] = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return super().is_leaf_module(m, module_qualified_name) or type(m) in self.leaf_modules

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        before, self.current_module_qualname = self.current_module_qualname, self.path_of_module(m)
        try:
            return super().call_module(m, forward, args, kwargs)
        finally:
            self.current_module_qualname = before

    def create_proxy(self, kind: str, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any], *rest: Any, **options: Any) -> Proxy:
        proxy = super().create_proxy(kind, target, args, kwargs, *rest, **options)
        self.node_to_qualname[proxy.node] = self._qualname(proxy.node)
        return proxy

    def _qualname(self, node):
        name = self.current_module_qualname
        if node.op != "call_module":
            name = f"{name}.{node}" if name else str(node)
        name = re.sub(r"_[0-9]+$", "", name)
        for earlier in reversed(self.node_to_qualname.values()):
            if match := re.fullmatch(rf"{re.escape(name)}(?:_([0-9]+))?", earlier):
                return f"{name}_{int(match[1] or 0) + 1}"
        return name


class DualGraphModule(GraphModule):
    """A module with a graph for training and one for evaluation."""

    def __init__(self, root: Module, train_graph: Graph, eval_graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__(root, train_graph, class_name)
        self._hold(root, eval_graph)
        self.train_graph, self.eval_graph = train_graph, eval_graph

    def train(self, mode: bool = True) -> DualGraphModule:
        """Training or evaluation, here and below."""
        self.graph = self.train_graph if mode else self.eval_graph
        return super().train(mode)


def _traced(model, options, concrete_args):
    """The tracers of the model in training and in evaluation, by mode."""
    training, tracers = model.training, {}
    try:
        for mode in (True, False):
            tracers[mode] = NodePathTracer(**(options or {}))
            tracers[mode].trace(model.train(mode), concrete_args)
    finally:
        model.train(training)
    return tracers


def _compare(tracers, silent):
    """Warn where the two graphs differ."""
    names = [list(tracers[mode].node_to_qualname.values()) for mode in (True, False)]
    if names[0] != names[1] and not silent:
        warnings.warn("The nodes obtained by tracing the model in train mode are different to those obtained in eval mode. When "
                      "choosing nodes for feature extraction, you may have to name output nodes for both modes separately.", stacklevel=3)
    return names


def get_graph_node_names(model: Module, tracer_kwargs: dict[str, Any] | None = None, suppress_diff_warning: bool = False,
                         concrete_args: dict[str, Any] | None = None) -> tuple[list[str], list[str]]:
    """The names of a model's steps in training and in evaluation."""
    names = _compare(_traced(model, tracer_kwargs, concrete_args), suppress_diff_warning)
    return names[0], names[1]


def _cut(tracer: NodePathTracer, wanted: dict[str, str]) -> Graph:
    """The graph that gives a dict of the last nodes that the names stand for."""
    names, graph = tracer.node_to_qualname, tracer.graph
    for name in wanted:
        if not any(found == name or found.startswith(f"{name}.") for found in names.values()):
            raise ValueError(f"node: '{name}' is not present in model. Hint: use `get_graph_node_names` to make sure the `return_nodes` "
                             "you specified are present. It may even be that you need to specify `train_return_nodes` and "
                             "`eval_return_nodes` separately.")
    graph.erase_node(graph.output_node())
    last = {name: node for name in wanted for node in graph.nodes if f"{names.get(node, '')}.".startswith(f"{name}.")}
    places = list(graph.nodes)
    graph.output({wanted[name]: last[name] for name in sorted(wanted, key=lambda name: places.index(last[name]))})
    graph.eliminate_dead_code()
    return graph


def create_feature_extractor(model: Module, return_nodes: Sequence[str] | Mapping[str, str] | None = None,
                             train_return_nodes: Sequence[str] | Mapping[str, str] | None = None,
                             eval_return_nodes: Sequence[str] | Mapping[str, str] | None = None,
                             tracer_kwargs: dict[str, Any] | None = None, suppress_diff_warning: bool = False,
                             concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """A model that gives a dict of what nodes of `model` give, under their names or those that a dict says; what they do not need is left
    out. A name is a node's (`get_graph_node_names`), or a module's, which stands for its last node.

    Raises: ValueError for names that the model has not; TraceError where its branches depend on inputs.

    >>> model = volta.nn.Sequential(volta.nn.Conv2d(3, 4, 3), volta.nn.ReLU(), volta.nn.Flatten())
    >>> features = volta.vision.models.feature_extraction.create_feature_extractor(model, {"1": "map"})
    >>> {name: x.shape for name, x in features(volta.ones(1, 3, 5, 5)).items()}
    {'map': volta.Size([1, 4, 3, 3])}
    """
    if return_nodes is None and train_return_nodes is None and eval_return_nodes is None:
        raise ValueError("Either `return_nodes` or `train_return_nodes` and `eval_return_nodes` together, should be specified")
    if (train_return_nodes is None) != (eval_return_nodes is None):
        raise ValueError("If any of `train_return_nodes` and `eval_return_nodes` are specified, then both should be specified")
    if (return_nodes is None) == (train_return_nodes is None):
        raise ValueError("`return_nodes` cannot be specified beside `train_return_nodes` and `eval_return_nodes`")
    tracers = _traced(model, tracer_kwargs, concrete_args)
    _compare(tracers, suppress_diff_warning)
    graphs = []
    for mode, chosen in ((True, train_return_nodes), (False, eval_return_nodes)):
        names = return_nodes if chosen is None else chosen
        graphs.append(_cut(tracers[mode], dict(names) if isinstance(names, Mapping) else {name: name for name in names or ()}))
    return DualGraphModule(model, *graphs, class_name=type(model).__name__).train(model.training)
