"""Where subscripts with index tensors point: positions in the dimensions that these index, read and written.

The parser of subscripts is in C (`_kernels/core/indexing.pyx`); what `x[...]` and `x[...] = v` come to is `subscript.py`'s.
"""
from __future__ import annotations

import math
import operator

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph, indexing, reshaping
from volta._kernels.core.call import run_kernel
from volta._kernels.core.order import order_as
from volta.device import mixed_devices
from volta.dtypes import int32, int64
from volta.errors import AutogradError, IndexRangeError, IndexTypeError, ShapeError
from volta.ops.creation import empty
from volta.ops.from_data import tensor
from volta.ops.indexing import check_index, positions, true_places
from volta.ops.records.copy import cast
from volta.ops.records.create import full_op
from volta.ops.records.index import index_put_op, index_select_op, index_sum_op
from volta.ops.records.math import joined
from volta.ops.records.view import contiguous_op, expand_op, permute_op, reshape_op, slice_op
from volta.shapes import broadcast_shapes, broadcasts_to


def rows_of(indices, lengths, shape, x):
    """Index tensors that broadcast to `shape` as one vector of positions in dimensions of these lengths, joined."""
    for k, index in enumerate(indices):
        if index.dtype is not int64 and index.dtype is not int32:
            raise IndexTypeError(f"indexing: the index must be an integer tensor (int64 or int32), got {index.dtype}; use .long()")
        if index.device is not x.device:
            indices[k] = mixed_devices(index_select_op, (x, index), None)[1]
    if all(map(core.host_sees, indices)):
        return indexing.rows(indices, lengths, shape)
    if 0 in shape:
        return empty(0, dtype=core.dtype_from_code(3), device=x.device)
    if len(indices) == 1:
        flat = positions("indexing", indices[0], lengths[0], wrap=True)
    else:
        for index, length in zip(indices, lengths):
            check_index("indexing", index, length, -length)
        flat, below = cast(indices[0], int64), lengths[0]
        for index, length in zip(indices[1:], lengths[1:]):
            flat, below = joined(flat, below, cast(index, int64), length), below * length
    flat = flat if flat.shape == shape else expand_op(flat, shape=shape)
    return flat if flat.ndim == 1 else reshape_op(flat, shape=(flat._size,))


def _common(indices):
    """The shape that index tensors broadcast to."""
    first = indices[0]._shape
    if len(indices) == 1 or all(index._shape == first for index in indices):
        return first
    try:
        return broadcast_shapes(*[index.shape for index in indices])
    except ShapeError:
        raise IndexRangeError(f"indexing: the index tensors do not broadcast, got shapes {', '.join(str(i.shape) for i in indices)}; "
                              f"they need one common shape") from None


def falling(x, dims):
    """Whether these dimensions of x lie in their order."""
    strides = [x._strides[d] for d in dims if x._shape[d] > 1]
    return all(map(operator.ge, strides, strides[1:]))


class Positions:
    """Where a subscript with index tensors points, in any tensor of the shape that it was made for.

    view     parameters of the slice that the index tensors apply to; None for the whole
    dims     dimensions of that view that are indexed; others: the rest
    rows     positions in `dims` joined, as a vector; shape: that of the index
    at       where the dimensions of the index go among the others
    turned   the index tensors, where one is not row-major
    unique   whether no position is named twice
    """

    def __init__(self, x, view, places):
        whole = view is None or view["sizes"] == x.shape and "axes" not in view and set(view["steps"]) <= {1}
        self.view = None if whole else view
        shown = x if whole else reshaping.slice_view(x, **view)
        self.unique = False
        self.dims, indices, lengths, scalars = [], [], [], []
        for first, item in places:
            span = range(first, first + 1)
            if item is True or item is False:
                item = tensor(np.zeros(int(item), np.int64), device=x.device)
            elif item.dtype.code == 0:          # the count decides a shape, so it is read
                span = range(first, first + item.ndim)
                self.unique = len(places) == 1
                item = true_places(item)
            elif not item.shape:
                scalars.append(first)
            self.dims += span
            indices.append(item)
            lengths.append(math.prod([shown._shape[d] for d in span]))
        self.shape = _common(indices)
        self.turned = () if all(i._contiguous for i in indices) else tuple(indices)
        self.rows = rows_of(indices, tuple(lengths), self.shape, x)
        rank, first, last = len(shown._shape), self.dims[0], self.dims[-1]
        self.others = [d for d in range(rank) if d not in self.dims]
        if not scalars:
            self.at = first if last - first < len(self.dims) else 0
        else:
            # tensors of no dimensions count as ints, which are no part of the question whether the indexed dimensions are neighbours
            left = [d for d in range(rank) if d not in scalars]
            marked = [k for k, d in enumerate(left) if d in self.dims]
            self.at = marked[0] if marked and marked[-1] - marked[0] < len(marked) else 0
        self.version = self.rows.storage.version

    @classmethod
    def of_neighbours(cls, x, rows, first, count, shape):
        """Those that `indexing.neighbours` has found."""
        self = object.__new__(cls)
        self.view, self.unique, self.turned, self.rows, self.shape, self.at = None, False, (), rows, shape, first
        self.dims = list(range(first, first + count))
        self.others = [*range(first), *range(first + count, x.ndim)]
        self.version = rows.storage.version
        return self

    def check(self):
        """Raise where the index has been changed since."""
        if self.rows.storage.version != self.version:
            raise AutogradError("setitem: an index tensor that is needed for the gradient was changed in place; clone() it first")

    def target(self, shape):
        """Shape of what is read or written, of a view of `shape`."""
        rest = tuple([shape[d] for d in self.others])
        return rest[:self.at] + self.shape + rest[self.at:]

    def read(self, x):
        """The elements, as a copy; recorded."""
        x = x if self.view is None else graph.call(slice_op, (x,), self.view)
        if self.turned or not (x._contiguous or core.stands_in(x) or falling(x, self.others)):
            return self._laid(x, self._order(x))
        first, count = self.dims[0], len(self.dims)
        across = count == 1 and self.at and not x._contiguous and x._strides[first] == max(x._strides)
        if self.dims != list(range(first, first + count)) or across:        # whole lines are read, and put in order
            return self._laid(x, tuple(range(len(self.shape) + len(self.others))))
        if count > 1:
            x = reshape_op(x, shape=x._shape[:first] + (math.prod(x._shape[first:first + count]),) + x._shape[first + count:])
        out = index_select_op(x, self.rows, dim=first)
        return out if len(self.shape) == 1 else reshape_op(out, shape=x._shape[:first] + self.shape + x._shape[first + 1:])

    def _order(self, x):
        """The dimensions of what is read of x, outermost in memory first, as PyTorch lays them: by the strides of x and of the indices."""
        steps, k, behind = [x._strides[d] * (x._shape[d] > 1) for d in self.others], len(self.shape), len(self.others) - self.at
        source = core.view(x, self.target(x.shape), (*steps[:self.at], *(0,) * k, *steps[self.at:]), x.offset)
        turned = [core.view(i, i.shape + (1,) * behind, i._strides + (0,) * behind, i.offset) for i in self.turned]
        return order_as((source, *turned)) or tuple(range(k + len(self.others)))

    def _laid(self, x, order):
        """What is read of x, with its dimensions in this order in memory: read so, where those of the index stay together there, else
        read with these first and put in order."""
        k, at = len(self.shape), self.at
        first = order.index(at) if k else at
        lies, outer, inner = order, order[:first], order[first + k:]
        if order[first:first + k] != tuple(range(at, at + k)) or outer and x._strides[self.dims[0]] == max(x._strides):
            outer, inner = (), tuple([d for d in order if not at <= d < at + k])
            lies = (*range(at, at + k), *inner)
        outer, inner = ([self.others[d - k * (d > at)] for d in part] for part in (outer, inner))
        before, after = (tuple([x._shape[d] for d in part]) for part in (outer, inner))
        x = reshape_op(permute_op(x, dims=(*outer, *self.dims, *inner)),
                       shape=(*before, math.prod([x._shape[d] for d in self.dims]), *after))
        out = reshape_op(index_select_op(x, self.rows, dim=len(outer)), shape=before + self.shape + after)
        if lies != order:
            out = contiguous_op(permute_op(out, dims=tuple(map(lies.index, order))))
        return permute_op(out, dims=tuple(map(order.index, range(out.ndim))))

    def entries(self, value, shape):
        """A value that broadcasts to what is written, of a view of `shape`, as one slice for each of the positions."""
        k, at, target = len(self.shape), self.at, self.target(shape)
        value = value if value._shape == target else expand_op(value, shape=target)
        if at:
            value = permute_op(value, dims=(*range(at, at + k), *range(at), *range(at + k, value.ndim)))
        return value if k == 1 else reshape_op(value, shape=(self.rows._size,) + value.shape[k:])

    def added(self, x, value):
        """x with a value added at these positions, of which the same may be named several times; recorded."""
        shape, dims = x._shape, (*self.dims, *self.others)
        value, sizes = self.entries(fitting(value, self.target(shape)), shape), tuple([shape[d] for d in dims])
        lines = reshape_op(permute_op(x, dims=dims), shape=(math.prod(sizes[:len(self.dims)]), *sizes[len(self.dims):]))
        total = reshape_op(index_sum_op(lines, value, self.rows, dim=0), shape=sizes)
        return permute_op(total, dims=tuple([dims.index(d) for d in range(len(shape))]))

    def write(self, x, value):
        """x at these positions = value, in place; unrecorded."""
        view = x if self.view is None else reshaping.slice_view(x, **self.view)
        rows = contiguous_op(self.rows) if core.same_memory(self.rows, x) else self.rows
        if not isinstance(value, core.TensorBase):
            value = run_kernel(full_op, x.device, ((), value), {"dtype": x.dtype, "device": x.device})
        else:
            value = fitting(value, self.target(view._shape))
            if value._size == 1:
                value = reshape_op(value, shape=())
            elif not rows._size or not value._size:
                return
            else:
                value = self.entries(value, view.shape)
            value = contiguous_op(value) if core.same_memory(value, x) else value
        order = (*self.dims, *self.others)
        target = view if order == tuple(range(len(order))) else reshaping.permute_view(view, dims=order)
        run_kernel(index_put_op, x.device, (target, rows, value), {"rank": len(self.dims), "unique": self.unique})


def fitting(value, shape):
    """`value` without leading dimensions of size 1, which do not count.

    Raises: ShapeError where it does not broadcast to `shape`.
    """
    if value._shape == shape:
        return value
    lead = next((i for i, n in enumerate(value.shape) if n != 1), value.ndim)
    if not broadcasts_to(value.shape[lead:], shape):
        raise ShapeError(f"setitem: a value of shape {value.shape} does not broadcast to the indexed shape {shape}")
    return reshape_op(value, shape=value.shape[lead:]) if lead else value
