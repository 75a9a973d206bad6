"""Users' kernels on the GPU: a WGSL function of elements, and a whole compute shader. Their texts are compiled with checks.

Knows tensors and the runtime's context. Must not know the graph.
"""
from __future__ import annotations

import struct
from collections.abc import Callable

from volta._kernels.gpu.launch import Pointwise
from volta.devices.gpu.common import BYTES, COMPUTED, WINDOW_ALIGNMENT, broadcast_shape, broadcast_strides, context, new, row_major
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.elementwise import NUMBERS
from volta.devices.gpu.generate import Expression
from volta.devices.gpu.map import make_plan
from volta.errors import ArgumentError
from volta.gpu.interface import Interface


def elementwise(text: str, declared: Interface, number_dtypes: dict, dtypes_of: Callable) -> Pointwise:
    """Kernel of a function of elements. IN: number_dtypes, that of a number by its parameter's type; dtypes_of, from operands to the
    dtypes of the results."""
    kinds = tuple(declared.inputs.values())

    def plan(operands, out, own, large):
        tensors = [x for x in operands if type(x) not in NUMBERS]
        shape = broadcast_shape([t.shape for t in tensors])
        bound, numbers = iter(range(len(tensors))), iter(range(len(operands)))
        words = [f"{kind}(s{next(numbers)})" if type(x) in NUMBERS else f"{kind}(x{next(bound)})" for kind, x in zip(kinds, operands)]
        results = dtypes_of(operands)
        members = [f"t0.{name}" for name in declared.outputs] if declared.packed else ["t0"]
        expression = Expression(tuple(f"{COMPUTED[dtype.code]}({member})" for dtype, member in zip(results, members)),
                                (f"{declared.name}({', '.join(words)})",), (text,),
                                tuple(number_dtypes[kind] for kind, x in zip(kinds, operands) if type(x) in NUMBERS), declared.name)
        inputs = [(broadcast_strides(t, shape), t.offset, t.dtype) for t in tensors]
        outputs = [(row_major(shape), 0, dtype) for dtype in results]
        return make_plan(tensors[0].storage.device, expression, shape, inputs, outputs, large)
    return Pointwise(declared.name, plan)


class Shader:
    """Kernel of a compute shader: `kernel(*tensors, **params)`. Every buffer is bound as far as its tensor goes, and what the shader leaves
    of its outputs is 0."""

    def __init__(self, text: str, declared: Interface, dtypes_of: Callable, grid_of: Callable) -> None:
        self.text, self.declared, self.dtypes_of, self.grid_of = text, declared, dtypes_of, grid_of

    def __call__(self, *tensors, **params):
        grid = self.grid_of(tuple(t.shape for t in tensors), params)
        device = tensors[0].storage.device
        ctx = context(device)
        pipeline = ctx.pipeline(self.declared.name, text=self.text, users=True)
        fields = self._packed(pipeline.params_format, grid.fields)
        outputs = tuple(new(device, shape, dtype) for shape, dtype in zip(grid.shapes, self.dtypes_of(tensors)))
        for out in outputs:
            ctx.clear(out.storage.buffer)
        if any(out._size for out in outputs):
            ctx.launch(pipeline, tuple(_window(ctx, t) for t in (*tensors, *outputs)), fields, *grid.groups)
        return outputs if len(outputs) > 1 else outputs[0]

    def _packed(self, form: str, values: tuple) -> bytes:
        try:
            return struct.pack(form or "<", *values)
        except struct.error as error:
            raise ArgumentError(f"{self.declared.name}: struct Params holds {self.declared.fields}, got {values}: {error}") from None


def _window(ctx, t) -> tuple:
    """A binding of the elements of `t` and no others, from a copy where they do not lie so."""
    itemsize = BYTES[t.dtype.code]
    if not t._size:
        return ctx.alloc(16), 0, 16
    if not t._contiguous or t.offset * itemsize % WINDOW_ALIGNMENT:
        t = contiguous(t)
    return t.storage.buffer, t.offset * itemsize, t._size * itemsize
