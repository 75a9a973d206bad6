"""What a module computes as a graph that programs read and change, after torch.fx: functions and modules are traced with stand-ins for
their inputs, the graph is Python again.

A graph holds what was called: functions, methods, modules, attributes. Branches that depend on an input are refused.
"""
from volta.fx.graph import Graph
from volta.fx.graph_module import GraphModule
from volta.fx.interpreter import Interpreter, Transformer
from volta.fx.node import Node, has_side_effect, map_arg
from volta.fx.proxy import Proxy
from volta.fx.subgraph_rewriter import replace_pattern
from volta.fx.tracer import PH, Tracer, symbolic_trace, wrap
from volta.late import modules_of as _modules_of

__all__ = ["PH", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect", "map_arg",
           "replace_pattern", "symbolic_trace", "wrap"]

__getattr__ = _modules_of(__name__)
