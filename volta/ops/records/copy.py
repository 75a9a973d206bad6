"""Records of copies: casts, joins, writing into a tensor, and transfer between devices."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph, indexing
from volta._kernels.core.call import run_kernel
from volta.dtypes import bfloat16, bool_, float32, from_numpy_dtype, int32, int64, to_numpy
from volta.errors import DTypeError
from volta.ops.records.view import reshape_op, slice_op
from volta.ops.table import case, register

if TYPE_CHECKING:
    from volta._kernels.core import DType
    from volta.tensor import Tensor


cast_op = register("cast", ("x",), family="movement", vjp=(lambda g, x_dtype: cast_op(g, dtype=x_dtype),), smooth=False, takes="fib",
                 kinds="fib", numpy=lambda x, dtype: x.astype(to_numpy(dtype)),
                 cases=(case((3, 4), dtype=int64), case((2, 3), dtype=bool_), case((5,), dtype=int32), case((), dtype=float32),
                        case((0, 2), dtype=int32), case((70, 3), dtype=float32)))
cast_op.pointwise = cast_op.copies = True


def cast(x: Tensor, dtype: DType) -> Tensor:
    """x as another element type; x itself where it already has it."""
    return x if x.dtype is dtype else cast_op(x, dtype=dtype)


def _cat_vjp(g, needs, shapes, dim):
    out, start = [], 0
    for need, shape in zip(needs, shapes):
        n = shape[dim]
        out.append(graph.call(slice_op, (g,), indexing.part(g, dim, start, n)) if need else None)
        start += n
    return tuple(out)


cat_op = register("cat", ("*",), family="movement", vjp=_cat_vjp, numpy=lambda *tensors, dim: np.concatenate(tensors, dim), takes="fib",
                  kinds="fib", cases=(case((2, 3), (2, 1), dim=1), case((2, 3), (0, 3), (4, 3), dim=0)))


def side_by_side(shape, parts):
    """The gradients of slices of a tensor of `shape` in one, where they lie side by side along one dimension and leave nothing out; else
    None. IN: parts, the parameters of each slice and its gradient."""
    split = [d for d, (n, size) in enumerate(zip(shape, parts[0][0]["sizes"])) if n != size]
    if len(split) != 1:
        return None
    d, end, once, joined = split[0], 0, (1,) * len(shape), []
    before, behind = shape[:d], shape[d + 1:]
    for params, g in sorted(parts, key=lambda part: (part[0]["starts"][d], part[0]["sizes"][d])):
        sizes = params["sizes"]
        if params["starts"][d] != end or params["steps"] != once or sizes[:d] != before or sizes[d + 1:] != behind:
            return None
        end += sizes[d]
        joined.append(g if g._shape == sizes else reshape_op(g, shape=sizes))
    return cat_op(*joined, dim=d) if end == shape[d] else None


copy_into_op = register("copy_into", ("out", "x"), writes=("out",), family="inplace", numpy=lambda out, x: (x, None),
                        takes={"out": "fib", "x": "fib"}, kinds="fib", cases=(case((3, 4), (3, 4)), case((), ()), case((0, 2), (0, 2))))
fill_into_op = register("fill_into", ("out", "value"), writes=("out",), family="inplace", takes="fib", kinds="fi",
                        numpy=lambda out, value: (out * 0 + value, None), cases=(case((3, 4), 2), case((), 1), case((2, 0), 3)))


# ---------------------------------------------------------------- between devices
download = register("download", ("x",), family="transfer", takes="fib", cases=())
upload = register("upload", (), family="transfer", cases=())


def from_array(array: np.ndarray) -> Tensor:
    """Host tensor over the memory of a C-contiguous NumPy array."""
    width = array.itemsize
    return core.tensor(core.array_storage(array), array.shape, tuple([s // width for s in array.strides]), 0, from_numpy_dtype(array.dtype))


def _transfer_kernel(x, *, device):
    if device.is_meta:
        return run_kernel(upload, device, (x, x.dtype, device))
    host = from_array(run_kernel(download, x.device, (x,))) if x.device.is_gpu else x
    if not device.is_gpu:
        return host
    if x.dtype is bfloat16:
        raise DTypeError("to: bfloat16 tensors are on the CPU alone; convert it first, by .half() or .float()")
    # Rows are read where they lie; what runs across them is put in order by a kernel that works in blocks.
    in_rows = host.ndim == 0 or host._strides[-1] == 1 or not host._size
    array = host.numpy(force=True) if in_rows else run_kernel(download, host.device, (host,))
    return run_kernel(upload, device, (array, x.dtype, device))


transfer = register("transfer", ("x",), family="view", view=_transfer_kernel, takes="fib", cases=(),
                     vjp=(lambda g, x_device: transfer(g, device=x_device),))
