"""Chains of elementwise records on the GPU: one dispatch each. Must not know the graph."""
from __future__ import annotations

from functools import cache, partial

from volta._kernels.gpu.launch import Pointwise
from volta.devices.gpu.common import BOOL, FLOAT32, broadcast_shape, broadcast_strides, row_major
from volta.devices.gpu.elementwise import NUMBERS, compose, function
from volta.devices.gpu.map import make_plan
from volta.devices.gpu.plans import need_float32


def _word(operand):
    """An operand in WGSL, in which infinity and NaN are no constants."""
    if isinstance(operand, str):
        return operand
    return f"f32({operand!r})" if abs(operand) < float("inf") else "nan()" if operand != operand else "inf()" if operand > 0 else "-inf()"


def _calls(steps):
    """The steps as `compose` has them: of float32, or of what steps before have compared."""
    compared, calls = set(), []
    for i, (name, operands) in enumerate(steps):
        dtype = BOOL if operands[0] in compared and name != "where" else FLOAT32
        if dtype is BOOL or function(name, dtype).result == "bool":
            compared.add(f"t{i}")
        calls.append((name, dtype, [*map(_word, operands)]))
    return calls


def _plan(chain, operands, out, own, large):
    tensors = [x for x in operands if type(x) not in NUMBERS]
    need_float32("chain", *tensors)
    shape = broadcast_shape([t.shape for t in tensors])
    expression = compose(_calls(chain.steps), (FLOAT32,) * chain.numbers)
    inputs = [(broadcast_strides(t, shape), t.offset, t.dtype) for t in tensors]
    return make_plan(tensors[0].storage.device, expression, shape, inputs, [(row_major(shape), 0, FLOAT32)], large)


@cache
def _kernel(chain):
    return Pointwise("chain", partial(_plan, chain))


def chain(a, b, c, d, e, f, *, chain, numbers):
    """What the chain makes of as many of the tensors as it has."""
    return _kernel(chain)(*(a, b, c, d, e, f)[:chain.tensors], *numbers)


KERNELS = {"chain": chain}
