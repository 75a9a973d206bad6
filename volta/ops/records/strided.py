"""The record of views with any strides. Its derivative adds into a buffer that stands for the part of the storage that is seen."""
from __future__ import annotations

import math

from volta._kernels import core
from volta.ops.records.create import arange_op, full_op
from volta.ops.records.index import index_add_op, index_select_op
from volta.ops.records.view import reshape_op
from volta.ops.table import create, register


def _ends(shape, strides, offset):
    """The first and the last element of a storage that a view reaches."""
    reach = [(n - 1) * s for n, s in zip(shape, strides)]
    return offset + sum(r for r in reach if r < 0), offset + sum(r for r in reach if r > 0)


def _positions(shape, strides, start, device):
    """Where the elements of a view lie, as a vector."""
    total = create(arange_op, start, 0, 1, dtype=core.dtype_from_code(3), device=device)
    for n, s in zip(shape, strides):
        steps = create(arange_op, 0, s, n, dtype=core.dtype_from_code(3), device=device)
        total = reshape_op(reshape_op(total, shape=(total._size, 1)) + steps, shape=(total._size * n,))
    return total


def _grad(g, x_shape, size, stride, offset, own):
    """`own` are the strides and the offset of the input. An element that it shows several times shares its gradient among them."""
    if not math.prod(x_shape) or not math.prod(size):
        return create(full_op, x_shape, 0, dtype=g.dtype, device=g.device)
    seen, shown = _ends(size, stride, offset), _ends(x_shape, *own)
    low, count = min(seen[0], shown[0]), max(seen[1], shown[1]) - min(seen[0], shown[0]) + 1
    buffer = index_add_op(reshape_op(g, shape=(g._size,)), _positions(size, stride, offset - low, g.device), dim=0, size=count)
    at = _positions(x_shape, own[0], own[1] - low, g.device)
    if any(n > 1 and s == 0 for n, s in zip(x_shape, own[0])):
        ones = create(full_op, (at._size,), 1, dtype=g.dtype, device=g.device)
        times = index_add_op(ones, at, dim=0, size=count)
        buffer = buffer / (times + (times == 0))
    return reshape_op(index_select_op(buffer, at, dim=0), shape=x_shape)


as_strided_op = register(
    "as_strided", ("x",), family="view", takes="fib", kinds="fib", vjp=(_grad,),
    view=lambda x, *, size, stride, offset, own: core.view(x, size, stride, offset))
