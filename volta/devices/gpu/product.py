"""Matrix products on buffers, for kernels that use one inside: plans of gpu_matmul, compiled, cached and launched.

Knows the runtime's context. Must not know tensors.
"""
from __future__ import annotations

from volta.devices.gpu.linalg import LARGE_GPU, SMALL_GPU
from volta.devices.gpu.matmul import Operand, plan
from volta.devices.gpu.plans import Plans

__all__ = ["Operand", "multiply"]

_steps = Plans()


def _compile(ctx, m, n, k, batch, a, b) -> tuple:
    """([(pipeline, params, workgroups, buffers)], bytes of scratch)."""
    made = plan(m, n, k, batch, a, b, units=LARGE_GPU if ctx.info.type == "DiscreteGPU" else SMALL_GPU)
    steps = [(ctx.pipeline(step.file, **step.overrides), step.params, step.groups, step.buffers) for step in made.steps]
    return steps, made.scratch


def multiply(ctx, m: int, n: int, k: int, batch: int, a, a_layout: Operand, b, b_layout: Operand, out) -> None:
    """out[batch, m, n] = a[batch, m, k] @ b[batch, k, n] in float32.

    IN: a and b are buffers read through their layouts; OUT: out, a buffer or a window of one, is contiguous.
    """
    key = (ctx, m, n, k, batch, a_layout, b_layout)
    found = _steps.get(key)
    if found is None:
        found = _steps[key] = _compile(ctx, m, n, k, batch, a_layout, b_layout)
    steps, scratch = found
    operands = (a, b, b, out, ctx.alloc(scratch) if scratch else None)
    for pipeline, params, groups, buffers in steps:
        ctx.launch(pipeline, tuple([operands[i] for i in buffers]), params, groups)
