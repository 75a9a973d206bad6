"""float16 and bfloat16 for the kernels that have no form of their own for them: operands are widened to float32, results narrowed again.

Which kernels take them themselves stands where a device's kernels are bound (`HALF`); `call_kernel` decides by that, before any
kernel runs. Must not know any kernel but the casts; a record says which inputs its kernel writes and which outputs stay float32.
"""
from __future__ import annotations

import numpy as np

from volta._kernels import core
from volta.dtypes import HALVES
from volta.errors import DTypeError
from volta.ops.table import RECORDS

FLOAT32, BFLOAT16 = core.dtype_from_code(5), core.dtype_from_code(7)


def compute(op, device, kernel, inputs: tuple, params: dict | None, out):
    """kernel(*inputs, **params), in float32; written into `out` where that is a tensor.

    Raises: DTypeError for bfloat16 on a GPU.
    """
    params = params or {}
    asked = params.get("dtype")
    new = asked is not None and asked in HALVES
    narrow = asked if new else next(t.dtype for x in inputs for t in (x if isinstance(x, (list, tuple)) else (x,)) if _is_half(t))
    if narrow is BFLOAT16 and device.is_gpu:
        raise DTypeError(f"{op.name}: bfloat16 tensors are on the CPU alone; on a GPU take float16, by .half() or dtype=volta.float16")
    if new:
        return _drawn(op, device, kernel, inputs, params)
    wide = [_cast(x, FLOAT32, narrow) for x in inputs]
    result = kernel(*wide, **params)
    if out is not None:
        return _kernel("copy_into", device)(out, result)
    for i in op.writes:
        for old, new in zip(inputs[i], wide[i]) if isinstance(inputs[i], (list, tuple)) else ((inputs[i], wide[i]),):
            if old is not new:
                _kernel("copy_into", device)(old, new)
    if isinstance(result, tuple):
        return tuple(r if i in op.wide else _cast(r, narrow, FLOAT32) for i, r in enumerate(result))
    return _cast(result, narrow, FLOAT32)


def _is_half(x):
    return isinstance(x, core.TensorBase) and x.dtype in HALVES


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
    """What is made of nothing: that of float32, rounded; a uniform number stays below its upper bound."""
    dtype = params["dtype"]
    out = _cast(kernel(*inputs, **{**params, "dtype": FLOAT32}), dtype, FLOAT32)
    if op.name == "uniform":
        _, low, high = inputs
        below = _below(high, low, dtype)
        if low < below < high:
            out = _cast(_kernel("minimum", device)(_cast(out, FLOAT32, dtype), below), dtype, FLOAT32)
    return out


def _below(high, low, dtype):
    """The number of the dtype that is next to `high` on the way to `low`."""
    if dtype is not BFLOAT16:
        return float(np.nextafter(np.float16(high), np.float16(low)))
    rounded = core.read_scalar(RECORDS["full"].cpu((), float(high), dtype=dtype))
    bits = np.float32(rounded).view(np.uint32)
    return rounded if rounded < high else float(np.uint32(bits - 0x10000 if rounded > 0 else bits + 0x10000).view(np.float32))
