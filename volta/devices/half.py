"""float16 for the kernels that have no form of their own for it: operands are widened to float32, results narrowed again.

Which kernels take float16 themselves stands where a device's kernels are bound (`HALF`); `call_kernel` decides by that, before any
kernel runs. Must not know any kernel but the casts; a record says which inputs its kernel writes and which outputs stay float32.
"""
from __future__ import annotations

import numpy as np

from volta._kernels import core
from volta.ops.table import RECORDS

FLOAT16, FLOAT32 = core.dtype_from_code(4), core.dtype_from_code(5)


def compute(op, device, kernel, inputs: tuple, params: dict | None):
    """kernel(*inputs, **params), in float32."""
    params = params or {}
    if params.get("dtype") is FLOAT16:
        return _drawn(op, device, kernel, inputs, params)
    wide = [_cast(x, FLOAT32, FLOAT16) for x in inputs]
    result = kernel(*wide, **params)
    for i in op.writes:
        for old, new in zip(inputs[i], wide[i]) if isinstance(inputs[i], (list, tuple)) else ((inputs[i], wide[i]),):
            if old is not new:
                _kernel("copy_into", device)(old, new)
    if isinstance(result, tuple):
        return tuple(r if i in op.wide else _cast(r, FLOAT16, FLOAT32) for i, r in enumerate(result))
    return _cast(result, FLOAT16, FLOAT32)


def _kernel(name: str, device):
    """A kernel itself: those who watch calls see one, that of the op."""
    return RECORDS[name].gpu if device.is_gpu else RECORDS[name].cpu


def _cast(x, dtype, old):
    """x, or of a list its tensors, as `dtype` where it is `old`."""
    if isinstance(x, (list, tuple)):
        return [_cast(t, dtype, old) for t in x]
    if isinstance(x, core.TensorBase) and x.dtype is old:
        return _kernel("cast", x.device)(x, dtype=dtype)
    return x


def _drawn(op, device, kernel, inputs: tuple, params: dict):
    """Random numbers: those of float32, rounded; a uniform one stays below its upper bound."""
    out = _cast(kernel(*inputs, **{**params, "dtype": FLOAT32}), FLOAT16, FLOAT32)
    if op.name == "uniform":
        _, low, high = inputs
        below = float(np.nextafter(np.float16(high), np.float16(low)))
        if low < below < high:
            out = _kernel("minimum", device)(out, below)
    return out
