"""Compiled code: `core` (tensors, the graph, the engine), `cpu` (loops, one build per instruction set), `gpu` (native calls)."""
