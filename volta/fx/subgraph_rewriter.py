"""Finding parts of a graph that look like a pattern, and putting others in their place."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from volta.errors import ArgumentError
from volta.fx.graph import Graph
from volta.fx.graph_module import GraphModule
from volta.fx.node import Node, map_arg
from volta.fx.tracer import Tracer
from volta.nn.module import Module

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """Where a pattern was found: the node of its result, and the node for each of the pattern's."""
    anchor: Node
    nodes_map: dict[Node, Node]


def _graph(part: Any) -> Graph:
    return part if isinstance(part, Graph) else part.graph if isinstance(part, GraphModule) else Tracer().trace(part)


def _fits(wanted: Any, found: Any, nodes: dict[Node, Node]) -> bool:
    """Whether an argument of the pattern fits one of the graph; says in `nodes` which node is which."""
    if isinstance(wanted, Node):
        if wanted.op == "placeholder" and wanted not in nodes:
            nodes[wanted] = found                           # any value may stand for an input
        if wanted in nodes:
            return nodes[wanted] is found or not isinstance(found, Node) and nodes[wanted] == found
        if not isinstance(found, Node) or wanted.op != found.op or wanted.target != found.target:
            return False
        nodes[wanted] = found
        return _fits(wanted.args, found.args, nodes) and _fits(wanted.kwargs, found.kwargs, nodes)
    if isinstance(wanted, (list, tuple)):
        return isinstance(found, (list, tuple)) and len(wanted) == len(found) and all(_fits(w, f, nodes) for w, f in zip(wanted, found))
    if isinstance(wanted, dict):
        return isinstance(found, dict) and wanted.keys() == found.keys() and all(_fits(w, found[key], nodes) for key, w in wanted.items())
    return not isinstance(found, Node) and type(wanted) is type(found) and wanted == found


def _matches(graph: Graph, pattern: Graph) -> list[Match]:
    """Where the pattern is, none overlapping another; its inner results are used nowhere else."""
    result = pattern.output_node().args[0]
    if not isinstance(result, Node):
        raise ArgumentError("replace_pattern: the pattern must return one value")
    inner = [node for node in pattern.nodes if node.op not in ("placeholder", "output")]
    found: list[Match] = []
    taken: set[Node] = set()
    for anchor in reversed(graph.nodes):
        nodes: dict[Node, Node] = {}
        if not _fits(result, anchor, nodes):
            continue
        held = [nodes[node] for node in inner if node in nodes]
        if taken.isdisjoint(held) and all(user in held for node in held if node is not anchor for user in node.users):
            found.append(Match(anchor, nodes))
            taken.update(held)
    return found[::-1]


def replace_pattern(gm: GraphModule, pattern: Callable[..., Any] | Module | Graph,
                    replacement: Callable[..., Any] | Module | Graph) -> list[Match]:
    """Put `replacement` wherever the graph looks like `pattern`, both functions of the same inputs, and compile the graph anew. Inputs of
    the pattern stand for any value; what is found may be used elsewhere only by its result.

    >>> traced = volta.fx.symbolic_trace(lambda x: volta.exp(x) + volta.exp(x * 2))
    >>> len(volta.fx.replace_pattern(traced, lambda a: volta.exp(a), lambda a: volta.relu(a)))
    2
    >>> traced(volta.tensor([-1.0, 1.0]))
    tensor([0., 3.])
    """
    wanted, other = _graph(pattern), _graph(replacement)
    inputs, others = ([node for node in graph.nodes if node.op == "placeholder"] for graph in (wanted, other))
    if len(inputs) != len(others):
        raise ArgumentError(f"replace_pattern: the pattern has {len(inputs)} inputs, the replacement {len(others)}")
    for part in (pattern, replacement):
        if isinstance(part, Module):
            gm._hold(part, *([other] if part is replacement else []))
    found = _matches(gm.graph, wanted)
    changed: dict[Node, Any] = {}                           # results that an earlier replacement has taken the place of
    for anchor, nodes in found:
        values = {theirs: changed.get(nodes[ours], nodes[ours]) if isinstance(nodes[ours], Node) else nodes[ours]
                  for ours, theirs in zip(inputs, others) if ours in nodes}
        with gm.graph.inserting_before(anchor):
            for node in other.nodes:
                if node.op == "output":
                    result = map_arg(node.args[0], values.__getitem__)
                elif node not in values:
                    values[node] = gm.graph.node_copy(node, values.__getitem__)
        if not isinstance(result, Node):
            raise ArgumentError("replace_pattern: the replacement must return one value")
        anchor.replace_all_uses_with(result)
        changed[anchor] = result
        for node in reversed(list(wanted.nodes)):
            if node.op not in ("placeholder", "output") and node in nodes and not nodes[node].users:
                gm.graph.erase_node(nodes[node])
    gm.recompile()
    return found
