"""float16 for the kernels that have no form of their own for it: operands are widened to float32, results narrowed again.

The one place for this, on both devices. A kernel refuses float16 by a DTypeError before it writes anything; the backend then
calls `compute`, so that other dtypes pay nothing. Must not know any kernel beyond what the table below says.
"""
from __future__ import annotations

import numpy as np

from volta._kernels import core
from volta.ops.table import PRIMITIVES

FLOAT16, FLOAT32 = core.dtype_from_code(4), core.dtype_from_code(5)

# Outputs that stay float32: derivatives are computed from them, and rounding them would show.
WIDE = {"cross_entropy": (1,), "batch_norm": (1, 2)}


def concerns(inputs: tuple, params: dict) -> bool:
    """Whether any operand, or the dtype asked for, is float16."""
    return params.get("dtype") is FLOAT16 or any(isinstance(x, core.TensorBase) and x.dtype is FLOAT16 for x in inputs)


def compute(name: str, kernel, kernels: dict, inputs: tuple, params: dict):
    """kernel(*inputs, **params), in float32. IN: kernels, the device's own, of which the casts are used."""
    if "dtype" in params:
        return _drawn(name, kernel, kernels, inputs, params)
    cast = kernels["cast"]
    wide = [cast(x, FLOAT32) if isinstance(x, core.TensorBase) and x.dtype is FLOAT16 else x for x in inputs]
    result = kernel(*wide, **params)
    for i in PRIMITIVES[name].writes:
        if wide[i] is not inputs[i]:
            kernels["copy_into"](inputs[i], wide[i])
    if isinstance(result, tuple):
        kept = WIDE.get(name, ())
        return tuple(cast(r, FLOAT16) if r.dtype is FLOAT32 and i not in kept else r for i, r in enumerate(result))
    return result if result is None or result.dtype is not FLOAT32 else cast(result, FLOAT16)


def _drawn(name: str, kernel, kernels: dict, inputs: tuple, params: dict):
    """Random numbers: those of float32, rounded; a uniform one stays below its upper bound."""
    out = kernels["cast"](kernel(*inputs, **{**params, "dtype": FLOAT32}), FLOAT16)
    if name == "uniform":
        _, low, high = inputs
        below = float(np.nextafter(np.float16(high), np.float16(low)))
        if low < below < high:
            out = kernels["minimum"](out, below)
    return out
