"""Subscripts: `x[...]`, `x[...] = v` and what masks select. NumPy's and PyTorch's rules.

Subscripts are parsed in C (`_kernels/core/indexing.pyx`), for reading and for writing alike: into a view, and the index tensors that apply
to dimensions of it. Reading them is an index_select, writing an index_put; both cost what is read or written.
"""
from __future__ import annotations

import math
import operator
import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph, indexing, inplace
from volta._kernels.core.call import run_kernel
from volta._kernels.core.grad_mode import call_under
from volta._kernels.core.order import order_as
from volta.device import mixed_devices
from volta.dtypes import bool_, int8, int16, int32, int64
from volta.errors import ArgumentError, AutogradError, DTypeError, IndexRangeError, IndexTypeError, ShapeError
from volta.ops.copy import clone, contiguous, copy_into, fill_into
from volta.ops.creation import empty, full
from volta.ops.from_data import tensor
from volta.ops.indexing import check_index, known_range, positions, true_places, true_values
from volta.ops.records.copy import cast
from volta.ops.records.create import full_op
from volta.ops.records.index import index_add_op, index_put_op, index_select_op
from volta.ops.records.math import joined, where_op
from volta.ops.records.view import contiguous_op, expand_op, permute_op, reshape_op, slice_op
from volta.ops.table import Flags, case, composed
from volta.shapes import broadcast_shapes, broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number


# ---------------------------------------------------------------- the key
def _as_index(item, x):
    """What is no plain int, slice, None, `...` or index tensor, as one of those or as a bool."""
    if isinstance(item, core.TensorBase):               # of no dimensions, or the parser had taken it
        if item.dtype.code == 1:
            warnings.warn("indexing: uint8 tensors are masks here, as in PyTorch; make them bool, or int64 for places", stacklevel=4)
            item = item.bool()
        if item.dtype.code == 0:
            return item if item.shape else bool(item.item())
        known = None if item.dtype.is_floating_point else known_range(item)
        return known[0] if known is not None else cast(item, int64) if item.dtype in (int8, int16) else item
    if isinstance(item, (bool, np.bool_)):
        return bool(item)
    if isinstance(item, slice):
        bounds = [None if b is None else _integer(b) for b in (item.start, item.stop, item.step)]
        if bounds[2] == 0:
            raise ArgumentError(f"indexing: the step of a slice must not be 0, got {item}")
        return slice(*bounds)
    if isinstance(item, (list, tuple, np.ndarray, range)):
        array = np.asarray(item)
        return tensor(array.astype(np.int64) if array.size == 0 and array.dtype != bool else array, device=x.device)
    return item if item is None or item is Ellipsis else _integer(item)


def _integer(item):
    try:
        return operator.index(item)
    except TypeError:
        raise IndexTypeError(f"indexing: {type(item).__name__} is no index; use ints, slices, None, ..., or integer and bool "
                            f"tensors") from None


def _rows(indices, lengths, shape, x):
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


indexing.configure(_as_index, _rows, joined)


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


def _falling(x, dims):
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
        shown = x if whole else indexing.slice_view(x, **view)
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
        self.rows = _rows(indices, tuple(lengths), self.shape, x)
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
        if self.turned or not (x._contiguous or core.stands_in(x) or _falling(x, self.others)):
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

    def sums(self, value, shape):
        """Zeros of `shape`, with a value added at these positions, of which the same may be named several times; recorded."""
        value = self.entries(_fitting(value, self.target(shape)), shape)
        dims = (*self.dims, *self.others)
        total = index_add_op(value, self.rows, dim=0, size=math.prod([shape[d] for d in self.dims]))
        return permute_op(reshape_op(total, shape=tuple(shape[d] for d in dims)), dims=tuple(dims.index(d) for d in range(len(shape))))

    def write(self, x, value):
        """x at these positions = value, in place; unrecorded."""
        view = x if self.view is None else indexing.slice_view(x, **self.view)
        rows = contiguous_op(self.rows) if core.same_memory(self.rows, x) else self.rows
        if not isinstance(value, core.TensorBase):
            value = run_kernel(full_op, x.device, ((), value), {"dtype": x.dtype, "device": x.device})
        else:
            value = _fitting(value, self.target(view._shape))
            if value._size == 1:
                value = reshape_op(value, shape=())
            elif not rows._size or not value._size:
                return
            else:
                value = self.entries(value, view.shape)
            value = contiguous_op(value) if core.same_memory(value, x) else value
        order = (*self.dims, *self.others)
        target = view if order == tuple(range(len(order))) else indexing.permute_view(view, dims=order)
        run_kernel(index_put_op, x.device, (target, rows, value), {"rank": len(self.dims), "unique": self.unique})


def _fitting(value, shape):
    """`value` without leading dimensions of size 1, which do not count.

    Raises: ShapeError where it does not broadcast to `shape`.
    """
    if value._shape == shape:
        return value
    lead = next((i for i, n in enumerate(value.shape) if n != 1), value.ndim)
    if not broadcasts_to(value.shape[lead:], shape):
        raise ShapeError(f"setitem: a value of shape {value.shape} does not broadcast to the indexed shape {shape}")
    return reshape_op(value, shape=value.shape[lead:]) if lead else value


_SMALL = 4096                       # elements of a matrix up to which its columns are read one element at a time


def _read_neighbours(x, rows, first, count, shape):
    """The elements at positions in neighbouring dimensions of what is contiguous, or at those in one dimension of a small matrix."""
    if count > 1:
        x = reshape_op(x, shape=x._shape[:first] + (math.prod(x._shape[first:first + count]),) + x._shape[first + count:])
    out = index_select_op(x, rows, dim=first)
    return out if len(shape) == 1 else reshape_op(out, shape=x._shape[:first] + shape + x._shape[first + 1:])


# ---------------------------------------------------------------- x[...]
def getitem(x: Tensor, key: object) -> Tensor:
    """x[key]: views for ints, slices, None and ...; copies for integer and bool tensors. NumPy's and PyTorch's rules.

    Raises: IndexRangeError.
    """
    parsed = indexing.parse(x, key, True)
    if type(parsed) is dict:
        return graph.call(slice_op, (x,), parsed)
    if parsed is not None and len(parsed) == 4:
        if x._contiguous or x.ndim == 2 and x._size < _SMALL and parsed[2] == 1 == len(parsed[3]):
            return _read_neighbours(x, *parsed)
        parsed = indexing.parse(x, key)
    if parsed is not None:
        whole = isinstance(key, core.TensorBase) and key.dtype.code == 0 and key._shape == x._shape
        if whole and core.host_sees(x) and core.host_sees(key):
            return index_select_op(reshape_op(x, shape=(x._size,)), true_places(key), dim=0)
        if whole and x.device.is_gpu and key.device is x.device and x._size and not core.stands_in(x) and not (
                graph.is_grad_enabled() and x.requires_grad):
            return true_values(x, key)
        return Positions(x, *parsed).read(x)
    found = indexing.neighbours(x, (key,)) if x._contiguous else None
    if found is not None:
        return _read_neighbours(x, *found)
    if not (key._contiguous and (x._contiguous or x.ndim < 3 or _falling(x, range(1, x.ndim)))):
        return Positions(x, None, [(0, key)]).read(x)
    out = index_select_op(x, _rows([key], x._shape[:1], key._shape, x), dim=0)
    return out if len(key._shape) == 1 else reshape_op(out, shape=key._shape + x._shape[1:])


@composed(apart=0, samples=(case((3, 4), Flags((3, 4))), case((2, 3), Flags((3,)))), kinds="fib", reads=True,
          numpy=lambda x, mask: x[np.broadcast_to(mask, x.shape)])
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` holds, as a vector.

    >>> volta.masked_select(volta.tensor([1, 2]), volta.tensor([True, False])).tolist()
    [1]
    """
    if mask.dtype.code != 0:
        raise DTypeError(f"masked_select: the mask must be bool, got {mask.dtype}; compare it first, as in x > 0")
    if input._shape == mask._shape != ():
        return getitem(input, mask)
    shape = broadcast_shapes(input.shape, mask.shape) or (1,)
    return getitem(expand_op(input, shape=shape), expand_op(mask, shape=shape))


# ---------------------------------------------------------------- x[...] = v
class Overwrite:
    """Backward of writing values into a part of a tensor that a view shows, in the form that `graph.custom_node` takes.

    view     how the part is seen (a tensor's `_view`); None for the whole
    strides  of the tensor
    needs    whether (the tensor before, the values) want a gradient
    """

    def __init__(self, view, strides, needs):
        self.view, self.strides, self.needs = view, strides, needs

    def gradients(self, g):
        """(for the tensor before: g without the overwritten part, for the values: that part of g)."""
        before = where_op(self._kept(g), g, 0.0) if self.needs[0] else None
        return before, graph.replay(contiguous(g), self.view) if self.needs[1] else None

    def _kept(self, g):
        """What was not overwritten, as booleans; laid out as the tensor was, so that the view is one of it too."""
        low = sum((n - 1) * s for n, s in zip(g.shape, self.strides) if s < 0 and n)
        high = sum((n - 1) * s for n, s in zip(g.shape, self.strides) if s > 0 and n)
        memory = full((high - low + 1,), True, dtype=bool_, device=g.device)
        kept = core.view(memory, g.shape, self.strides, -low)
        fill_into(graph.replay(kept, self.view), False)
        return kept

    def release(self):
        """Whether one backward pass is all: as in PyTorch where a part was overwritten, though nothing is saved but the geometry."""
        return self.view is not None


class _Slice:
    """Where a subscript without index tensors points: a view."""

    def __init__(self, params):
        self.params = params

    def check(self):
        """Nothing that could change."""

    def read(self, x):
        """The view; recorded."""
        return slice_op(x, **self.params)

    def write(self, x, value):
        """The view = value, in place; unrecorded."""
        _write_view(indexing.slice_view(x, **self.params), value)


def _write_view(view, value):
    inplace.check_elements("setitem", view)
    if isinstance(value, core.TensorBase):
        value = value if value.shape == view.shape else _fitting(value, view.shape)
        if value._size == view._size:
            value = value if value.shape == view.shape else expand_op(value, shape=view.shape)
            inplace.check_apart("setitem_", view, value)
        elif core.same_memory(value, view):         # x[:] = x[0]: what is repeated may be part of what is written, as in PyTorch
            value = clone(value)
        copy_into(view, value)
    else:
        fill_into(view, value)


class _Masked:
    """Where a mask holds, for one value: nothing has to be read to write it."""

    def __init__(self, x, mask):
        self.mask = mask if mask.ndim == x.ndim else reshape_op(mask, shape=mask.shape + (1,) * (x.ndim - mask.ndim))
        self.version = mask.storage.version

    def check(self):
        """Raise where the mask has been changed since."""
        if self.mask.storage.version != self.version:
            raise AutogradError("setitem: a mask that is needed for the gradient was changed in place; clone() it first")

    def read(self, x):
        """What the value's gradient is the sum of."""
        return where_op(self.mask, x, 0.0)

    def write(self, x, value):
        """x = value where the mask holds, in place; unrecorded."""
        if isinstance(value, core.TensorBase):
            value = reshape_op(value, shape=())
        elif not x.dtype.is_floating_point:
            value = int(value) if x.dtype.category else bool(value)
        elif self.mask.device is x.device and not core.stands_in(x) and not core.stands_in(self.mask):
            inplace.change(where_op, x, (self.mask, float(value), x))
            return
        copy_into(x, cast(where_op(self.mask, value, x), x.dtype))


class _SetItem:
    """Backward of a recorded x[key] = value, in the form that `graph.custom_node` takes. IN: part, where the key points."""

    def __init__(self, part):
        self.part = part

    def gradients(self, g):
        """(for x: g with the written part cleared, for value: the written part of g)."""
        self.part.check()
        kept = g.clone()
        _assign(kept, self.part, 0.0)
        return kept, self.part.read(g)

    def release(self):
        return True                             # one backward pass is all, though nothing is saved but the key


def setitem(x: Tensor, key: object, value: Number | Tensor) -> None:
    """x[key] = value, in place, recorded where a gradient is wanted. Where index tensors name a place twice, the last value counts.

    Raises: ShapeError where the value does not broadcast; DTypeError for another dtype at index tensors, but for one value at masks;
    AutogradError on a leaf that requires grad.
    """
    number = isinstance(value, (bool, int, float))
    if not number:
        kind = value.dtype if isinstance(value, core.TensorBase) else x.dtype
        if not isinstance(value, core.TensorBase):
            value = tensor(value, dtype=x.dtype, device=x.device)
        elif value.device is not x.device:
            value = value.to(x.device)
        if value.dtype is not x.dtype:
            value = cast(value, x.dtype)            # recorded, so that its gradient comes back in its own dtype
    parsed = indexing.parse(x, key, number or kind is x.dtype)
    if parsed is not None and len(parsed) == 4 and type(parsed) is tuple:
        return _assign_neighbours(x, parsed, value, number)
    if core.stands_in(x):
        return _set_in_batch(x, parsed, key, value)
    if type(parsed) is dict:
        if x.requires_grad or (not number and value.requires_grad):
            return _assign(x, _Slice(parsed), value)
        return _write_view(indexing.slice_view(x, **parsed), value)
    masks = parsed is not None and all(mask is True or mask is False or mask.dtype is bool_ for _, mask in parsed[1])
    if not number and kind is not x.dtype and not (masks and value._size == 1):
        raise DTypeError(f"setitem: at index tensors a value must have the dtype of the tensor, {x.dtype}, got {kind}; use .to(dtype)")
    if parsed is None:
        found = indexing.neighbours(x, (key,))
        return _assign(x, Positions(x, None, [(0, key)]), value) if found is None else _assign_neighbours(x, found, value, number)
    alone = masks and parsed[1][0][1] is key and isinstance(key, core.TensorBase)
    if alone and (number or value._size == 1) and (x.device.is_gpu or key.ndim == x.ndim):
        return _assign(x, _Masked(x, key), value)
    if alone and key.ndim and core.host_sees(x) and core.host_sees(key):
        return _assign_neighbours(x, (rows := true_places(key), 0, key.ndim, rows._shape), value, number)
    return _assign(x, Positions(x, *parsed), value)


def _assign_neighbours(x, found, value, number):
    """`_assign` at what `indexing.neighbours` has found, which is one kernel where nothing is recorded, shared or repeated."""
    rows, first, count, shape = found
    if number or first or len(shape) != 1 or not rows._size or not value._size or value._shape != shape + x._shape[count:] or (
            x.requires_grad or value.requires_grad or any(map(core.stands_in, (x, value, rows)))
            or core.same_memory(value, x) or core.same_memory(rows, x)):
        return _assign(x, Positions.of_neighbours(x, *found), value)
    inplace.check_elements("setitem", x)
    run_kernel(index_put_op, x.device, (x, rows, value), {"rank": count, "unique": False})


def _set_in_batch(x, parsed, key, value):
    """x[key] = value where x stands in for a batch (`vmap`)."""
    number = not isinstance(value, core.TensorBase)
    if type(parsed) is dict:
        return _write_view(slice_op(x, **parsed), value)
    if isinstance(key, core.TensorBase) and key.dtype is bool_ and (number or value._size == 1):
        return _Masked(x, key).write(x, value)
    part = Positions(x, *(parsed or (None, [(0, key)])))
    view = x if part.view is None else slice_op(x, **part.view)
    if not number:
        value = _fitting(value, part.target(view.shape))
        value = reshape_op(value, shape=()) if value._size == 1 else part.entries(value, view.shape)
    inplace.put_in_batch(permute_op(view, dims=(*part.dims, *part.others)), part.rows, len(part.dims), value)


def _assign(x, part, value):
    """Write the value, a number or a tensor of x's dtype and device, and record it."""
    number = not isinstance(value, core.TensorBase)
    wants = graph.is_grad_enabled() and (x.requires_grad or (not number and value.requires_grad))
    (inplace.check_inplace if wants else inplace.check_elements)("setitem", x)
    if not number and isinstance(part, Positions):
        inplace.check_apart("setitem_", x, value, whole=True)
    call_under(False, part.write, (x, value), {})
    if not wants:
        return
    after = core.alias(x)
    graph.custom_node(_SetItem(part), (inplace.as_before(x), None if number else value), (after,))
    inplace.take_history(x, after)
