"""Movement, creation and transfer kernels on the GPU: copies, casts, fills, uploads and downloads.

Knows layouts and element types. Must not know operations on values.
"""
from __future__ import annotations

import struct
from functools import partial

import numpy as np

from volta._kernels import core
from volta._kernels.gpu.launch import Pointwise
from volta.devices.gpu.common import (
    BOOL,
    BYTES,
    COMPUTED,
    INT32,
    INT64,
    STORED,
    check_dtype,
    context,
    new,
    pack_number,
    unsigned,
)
from volta.devices.gpu.generate import Expression
from volta.devices.gpu.map import STORES, elementwise_step, make_plan

TILE = 32
TRANSPOSE = 8               # least size of both dims for the transposing kernel
PART = 1 << 14              # elements of a strided host array that are gathered before they are converted: fits into the cache


# ---------------------------------------------------------------- copies

def _conversion(source, target) -> str:
    """WGSL text that converts x0 as C does; of numbers beyond 32 bits, and NaN, the least integer, as x86 makes it."""
    a, r = COMPUTED[source.code], COMPUTED[target.code]
    if target is BOOL:
        return "x0" if source is BOOL else f"u32(!(x0 == {a}(0)))"
    if a == "f32" and r != "f32":
        x0 = "select(-0x7fffffff - 1, i32(x0), abs(x0) < 2147483648.0)"
        return x0 if r == "i32" else f"u32({x0})"
    return "x0" if a == r else f"{r}(x0)"


def _copy_plan(operands, out, own, large):
    x, target = operands[0], [(out._strides, out.offset, out.dtype)]
    if own:                 # onto itself
        return make_plan(out.storage.device, Expression(("o0",)), out.shape, [], target, large, new=False)
    return make_plan(out.storage.device, Expression((_conversion(x.dtype, out.dtype),)), out.shape, [(x._strides, x.offset, x.dtype)],
                     target, large, _copy_step, False)


def _copy_step(ctx, expression, geometry, dtypes):
    """The transposing kernel where source and target run along different dims, else the elementwise one."""
    sizes, (source, target) = geometry.sizes, geometry.strides
    rank = len(sizes)
    row = next((d for d in range(rank - 1) if abs(source[d]) == 1 and sizes[d] >= TRANSPOSE), None)
    if row is None or rank > 6 or source[-1] in (-1, 0, 1) or target[-1] != 1 or sizes[-1] < TRANSPOSE:
        return elementwise_step(ctx, expression, geometry, dtypes)
    batch = [d for d in reversed(range(rank - 1)) if d != row]
    row_tiles, column_tiles = -(-sizes[row] // TILE), -(-sizes[-1] // TILE)
    groups = row_tiles * column_tiles
    for d in batch:
        groups *= sizes[d]
    spare = 4 - len(batch)
    words = [*(sizes[d] for d in batch), *[1] * spare, *(source[d] for d in batch), *[0] * spare,
             *(target[d] for d in batch), *[0] * spare, sizes[row], sizes[-1], source[row], source[-1], target[row],
             *geometry.offsets, row_tiles, column_tiles]
    pipeline = ctx.pipeline("copy/copy", A=STORED[dtypes[0].code], X=COMPUTED[dtypes[0].code], O=STORED[dtypes[1].code],
                            R=COMPUTED[dtypes[1].code], op=expression.results[0], stored=STORES.get(dtypes[1], "O(r)"))
    return pipeline, struct.pack(pipeline.params_format, *unsigned(words)), groups


def copy_into(out, x) -> None:
    """out[...] = x; one shape, any strides and dtypes."""
    if x._size:
        _copy.into(out, x)


_copy = Pointwise("copy_into", _copy_plan)


def contiguous(x):
    """Row-major copy."""
    return cast(x, x.dtype)


def cast(x, dtype):
    """Row-major copy with another element type."""
    out = new(x.storage.device, x.shape, dtype)
    copy_into(out, x)
    storage = x.storage
    if storage.bounds is not None and dtype in (INT32, INT64) and storage.version in (0, core.INFERRED) and 4 * x._size == storage.nbytes:
        out.storage.bounds = storage.bounds             # of the same integers
    return out


# ---------------------------------------------------------------- creation

def _fill_plan(text, operands, out, own, large):
    """Plan of out[i] = text, over the operands, which are numbers."""
    expression = Expression((text(out.dtype),), numbers=(out.dtype,) * len(operands), fits=("fill", True))
    return make_plan(out.storage.device, expression, out.shape, [], [(out._strides, out.offset, out.dtype)], large, new=False)


_fill = Pointwise("fill", partial(_fill_plan, lambda dtype: "s0"))
_count = Pointwise("arange", partial(_fill_plan, lambda dtype: f"s0 + {COMPUTED[dtype.code]}(i) * s1"))


def fill_into(out, value) -> None:
    """out[...] = value; any strides. Raises: ArgumentError for a number that does not fit the dtype, without elements too."""
    if out._size:
        _fill.into(out, value)
    else:
        pack_number(value, out.dtype, "fill")


def empty(shape, dtype, device):
    """Contiguous tensor, contents undefined."""
    return new(device, shape, dtype)


def full(shape, value, dtype, device):
    """Contiguous tensor of one value."""
    out = new(device, shape, dtype)
    fill_into(out, value)
    return out


def arange(start, step, count, dtype, device, end=None):
    """start + i * step; with `end`, the second half counted back from it."""
    out = new(device, (count,), dtype)
    if count == 1:
        step = 0            # which may be beyond the dtype
    half = count if end is None else count // 2 or count
    if count:
        _count.into(out if half == count else core.view(out, (half,), (1,), 0), start, step)
    if half < count:
        back = arange(end, -step, count - half, dtype, device)
        copy_into(core.view(out, back.shape, (1,), half), core.view(back, back.shape, (-1,), count - half - 1))
    return out


def place(x, shape, starts, steps, value):
    """full(shape, value) with x written at starts + i * steps."""
    out = full(shape, value, x.dtype, x.storage.device)
    strides = out._strides
    offset = sum(start * stride for start, stride in zip(starts, strides))
    copy_into(core.view(out, x.shape, tuple(s * step for s, step in zip(strides, steps)), offset), x)
    return out


def cat(*tensors, dim):
    """The tensors one after another along `dim`."""
    first = tensors[0]
    length = sum(t.shape[dim] for t in tensors)
    out = new(first.storage.device, first.shape[:dim] + (length,) + first.shape[dim + 1:], first.dtype)
    at = 0
    for t in tensors:
        copy_into(core.view(out, t.shape, out._strides, at * out._strides[dim]), t)
        at += t.shape[dim]
    return out


# ---------------------------------------------------------------- transfer

def upload(array, dtype, device, out=None):
    """Host array of any layout to a new tensor of `dtype`, or to `out`, contiguous and all of its memory, in one pass over its elements.

    Raises: DTypeError for float64; ArgumentError for an int64 value beyond 32 bits, before anything is recorded.
    """
    ctx = context(device)
    dtype = check_dtype(ctx, dtype)
    out = new(device, array.shape, dtype) if out is None else out
    if array.size:
        # The extremes of integers let labels and indices be checked without reading them back.
        out.storage.bounds = ctx.upload(out.storage.buffer, _elements(array, dtype.name), 0, dtype.name)
    return out


def _elements(array, name: str):
    """The array itself where its elements lie in order, else an iterator over parts in which they do."""
    if array.dtype == name and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.nditer(array, ["external_loop", "buffered"], [["readonly", "contig", "aligned"]], [name], "C", "unsafe", buffersize=PART)


def download(x):
    """Tensor to a new contiguous host array, in one pass over its elements."""
    array = np.empty(x.shape, x.dtype.name)
    if x._size:
        start = x.offset * BYTES[x.dtype.code]
        if not x._contiguous:
            x, start = contiguous(x), 0
        context(x.storage.device).download(x.storage.buffer, array, start, x.dtype.name)
    return array


KERNELS = {"contiguous": contiguous, "clone": contiguous, "cast": cast, "copy_into": copy_into, "fill_into": fill_into, "full": full,
           "arange": arange, "empty": empty, "upload": upload, "download": download}
