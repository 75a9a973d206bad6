"""What is computed in a wider dtype than it is stored in, for the kernels that have no form of their own for it: operands are widened,
float16 and bfloat16 to float32, int8 and int16 to int32, and results narrowed again, integers by leaving off their upper bits.

Which kernels take them themselves stands where a device's kernels are bound (`OWN`); `call_kernel` decides by that, before any
kernel runs. Must not know any kernel but the casts; a record says which inputs its kernel writes and which outputs stay float32.
"""
from __future__ import annotations

import numpy as np

from volta._kernels import core
from volta._kernels.core.order import dense_strides, outermost_first
from volta.dtypes import bfloat16, float16, float32, int8, int16, int32
from volta.errors import ArgumentError, DTypeError
from volta.ops.table import RECORDS

WIDER = {float16: float32, bfloat16: float32, int8: int32, int16: int32}


def compute(op, device, kernel, inputs: tuple, params: dict | None, out):
    """kernel(*inputs, **params), computed in wider dtypes; written into `out` where that is a tensor.

    Raises: DTypeError for bfloat16 on a GPU.
    """
    params = params or {}
    asked = params.get("dtype")
    new = asked in WIDER
    narrow = {} if new else _stored(inputs)
    if device.is_gpu and (asked is bfloat16 or bfloat16 in narrow.values()):
        raise DTypeError(f"{op.name}: bfloat16 tensors are on the CPU alone; on a GPU take float16, by .half() or dtype=volta.float16")
    if new:
        return _drawn(op, device, kernel, inputs, params)
    if int32 in narrow:
        inputs = tuple([_wrapped(op, x, narrow[int32]) if isinstance(x, int) else x for x in inputs])
    wide = [_widened(x) for x in inputs]
    result = kernel(*wide, **params)
    if out is not None:
        return _kernel("copy_into", device)(out, result)
    for i in op.writes:
        for old, changed in zip(inputs[i], wide[i]) if isinstance(inputs[i], (list, tuple)) else ((inputs[i], wide[i]),):
            if old is not changed:
                _kernel("copy_into", device)(old, changed)
    if isinstance(result, tuple):
        return tuple(r if i in op.wide else narrowed(r, narrow) for i, r in enumerate(result))
    return narrowed(result, narrow)


def _stored(inputs: tuple) -> dict:
    """The stored dtype of the inputs by the one that it is widened to."""
    found: dict = {}
    for x in inputs:
        for t in x if isinstance(x, (list, tuple)) else (x,):
            if isinstance(t, core.TensorBase) and t.dtype in WIDER:
                found.setdefault(WIDER[t.dtype], t.dtype)
    return found


def _wrapped(op, value: int, dtype) -> int:
    """An integer beside tensors of narrower ones: as in PyTorch it wraps from 64 bits, where the record does not say that it has to fit.

    Raises: NumberError beyond these.
    """
    core.check_word(op.name, value)
    bits = 8 * dtype.itemsize
    if "i" in op.details.fits and not -1 << bits - 1 <= value < 1 << bits - 1:
        raise ArgumentError(f"{op.name}: {value} does not fit into {dtype}")
    low = value & (1 << bits) - 1
    return low - (1 << bits) if dtype.is_signed and low >> bits - 1 else low


def _kernel(name: str, device):
    """A kernel itself: those who watch calls see one, that of the op."""
    return RECORDS[name].gpu if device.is_gpu else RECORDS[name].cpu


def _cast(x, dtype):
    """x in another dtype; it lies in memory as x does."""
    kernel, strides = _kernel("cast", x.device), None if x._contiguous or x.device.is_gpu else dense_strides(x)
    if strides is None:
        return kernel(x, dtype=dtype)
    dims = outermost_first(strides)
    shape, steps = (tuple([sizes[d] for d in dims]) for sizes in (x._shape, x._strides))
    return core.view(kernel(core.view(x, shape, steps, x.offset), dtype=dtype), x._shape, strides, 0)


def _widened(x):
    """x, or of a list its tensors, in a dtype that every kernel takes. On a GPU small integers lie in 32 bits already."""
    if isinstance(x, (list, tuple)):
        return [_widened(t) for t in x]
    if not isinstance(x, core.TensorBase) or x.dtype not in WIDER:
        return x
    if x.device.is_gpu and WIDER[x.dtype] is int32:
        return core.tensor(x.storage, x.shape, x._strides, x.offset, int32)
    return _cast(x, WIDER[x.dtype])


def narrowed(x, narrow: dict):
    """A result in the dtype that it is to be stored in."""
    if isinstance(x, (list, tuple)):
        return [narrowed(t, narrow) for t in x]
    return _cast(x, narrow[x.dtype]) if isinstance(x, core.TensorBase) and x.dtype in narrow else x


def _drawn(op, device, kernel, inputs: tuple, params: dict):
    """What is made of nothing: that of the wider dtype, narrowed; a uniform number stays below its upper bound."""
    dtype = params["dtype"]
    wider = WIDER[dtype]
    out = _cast(kernel(*inputs, **{**params, "dtype": wider}), dtype)
    if op.name == "uniform":
        _, low, high = inputs
        below = _below(high, low, dtype)
        if low < below < high:
            out = _cast(_kernel("minimum", device)(_cast(out, wider), below), dtype)
    return out


def _below(high, low, dtype):
    """The number of the dtype that is next to `high` on the way to `low`."""
    if dtype is not bfloat16:
        return float(np.nextafter(np.float16(high), np.float16(low)))
    rounded = core.read_scalar(RECORDS["full"].cpu((), float(high), dtype=dtype))
    bits = np.float32(rounded).view(np.uint32)
    return rounded if rounded < high else float(np.uint32(bits - 0x10000 if rounded > 0 else bits + 0x10000).view(np.float32))
