"""The shape and dtype of what each node gives."""
from __future__ import annotations

from typing import Any, NamedTuple

from volta._kernels import core
from volta.fx.interpreter import Interpreter
from volta.fx.node import Node, map_aggregate
from volta.shapes import Size

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor."""
    shape: Size
    dtype: core.DType
    requires_grad: bool
    stride: tuple[int, ...]


class ShapeProp(Interpreter):
    """Runs a graph, and notes in `meta["tensor_meta"]` of each node what its tensors are."""

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        tensors = []

        def noted(x):
            if isinstance(x, core.TensorBase):
                tensors.append(x)
                return TensorMetadata(x.shape, x.dtype, x.requires_grad, x.stride())
            return x
        meta = map_aggregate(result, noted)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph with these inputs."""
        return self.run(*args)
