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
from volta._kernels.core import graph, histories, indexing, inplace, reshaping
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare, unwatched
from volta._kernels.core.grad_mode import call_under
from volta._kernels.core.values import of_numbers
from volta.dtypes import bool_, check_held, float32, int8, int16, int64, is_element
from volta.errors import ArgumentError, AutogradError, DTypeError, IndexTypeError
from volta.ops.assign import copy_
from volta.ops.copy import clone, contiguous, copy_into, fill_into
from volta.ops.creation import full
from volta.ops.entries import as_held
from volta.ops.expanded import changed
from volta.ops.from_data import tensor
from volta.ops.indexing import known_range, true_places, true_values
from volta.ops.positions import Positions, falling, fitting, rows_of
from volta.ops.records.copy import cast
from volta.ops.records.create import full_op
from volta.ops.records.index import index_put_op, index_select_op
from volta.ops.records.math import joined, where_op
from volta.ops.records.view import expand_op, permute_op, reshape_op, slice_op
from volta.ops.table import Flags, case, composed
from volta.shapes import broadcast_shapes

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
    if isinstance(item, bool):
        return item
    if isinstance(item, slice):
        bounds = [None if b is None else _integer(b) for b in (item.start, item.stop, item.step)]
        if bounds[2] == 0:
            raise ArgumentError(f"indexing: the step of a slice must not be 0, got {item}")
        return slice(*bounds)
    if type(item) is list and (made := _of_list(item, x)) is not None:
        return made
    if isinstance(item, (list, tuple, np.ndarray, range)):
        array = np.asarray(item)
        made = tensor(array.astype(np.int64) if array.size == 0 and array.dtype != bool else array, device=x.device)
        return made if made.shape else _as_index(made, x)
    return item if item is None or item is Ellipsis else _integer(item)


def _of_list(item, x):
    """A list of ints, or of bools, as a tensor beside x on the host; None for any other."""
    return of_numbers(item, float32) if item and type(item[0]) in (int, bool) and not x.device.is_gpu and unwatched() else None


def _integer(item):
    try:
        return operator.index(item)
    except TypeError:
        raise IndexTypeError(f"indexing: {type(item).__name__} is no index; use ints, slices, None, ..., or integer and bool "
                            f"tensors") from None


indexing.configure(_as_index, rows_of, joined)


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
    if type(key) is list and (made := _of_list(key, x)) is not None:
        key = made
    parsed = indexing.parse(x, key, True)
    if type(parsed) is dict:
        return graph.call(slice_op, (x,), parsed)
    if parsed is not None and len(parsed) == 4:
        if x._contiguous or x.ndim == 2 and x._size < _SMALL and parsed[2] == 1 == len(parsed[3]):
            return _read_neighbours(x, *parsed)
        parsed = indexing.parse(x, key)
    if parsed is not None:
        whole = isinstance(key, core.TensorBase) and key.dtype.code == 0 and key._shape == x._shape
        if isinstance(key, core.TensorBase) and key.dtype.code == 0 and x._contiguous and len(key._shape) == 1 < len(x._shape) and (
                key._shape == x._shape[:1] and core.host_sees(x) and core.host_sees(key)):
            return index_select_op(x, true_places(key), dim=0)
        if whole and core.host_sees(x) and core.host_sees(key):
            return index_select_op(reshape_op(x, shape=(x._size,)), true_places(key), dim=0)
        if whole and x.device.is_gpu and key.device is x.device and x._size and not core.stands_in(x) and not (
                graph.is_grad_enabled() and x.requires_grad):
            return true_values(x, key)
        return Positions(x, *parsed).read(x)
    found = indexing.neighbours(x, (key,)) if x._contiguous else None
    if found is not None:
        return _read_neighbours(x, *found)
    if not (key._contiguous and (x._contiguous or x.ndim < 3 or falling(x, range(1, x.ndim)))):
        return Positions(x, None, [(0, key)]).read(x)
    out = index_select_op(x, rows_of([key], x._shape[:1], key._shape, x), dim=0)
    return out if len(key._shape) == 1 else reshape_op(out, shape=key._shape + x._shape[1:])


@composed(apart=0, samples=(case((3, 4), Flags((3, 4))), case((2, 3), Flags((3,)))), kinds="fib", reads=True,
          numpy=lambda x, mask: x[np.broadcast_to(mask, x.shape)])
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` holds, as a vector.

    Raises: DTypeError for a mask that is not bool.

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
        return before, histories.replay(contiguous(g), self.view) if self.needs[1] else None

    def _kept(self, g):
        """What was not overwritten, as booleans; laid out as the tensor was, so that the view is one of it too."""
        low = sum((n - 1) * s for n, s in zip(g.shape, self.strides) if s < 0 and n)
        high = sum((n - 1) * s for n, s in zip(g.shape, self.strides) if s > 0 and n)
        memory = full((high - low + 1,), True, dtype=bool_, device=g.device)
        kept = core.view(memory, g.shape, self.strides, -low)
        fill_into(histories.replay(kept, self.view), False)
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
        _write_view(reshaping.slice_view(x, **self.params), value)


def _write_view(view, value):
    inplace.check_elements("setitem", view)
    if isinstance(value, core.TensorBase):
        value = value if value._shape == view._shape else fitting(value, view.shape)
        if value._size == view._size:
            value = value if value._shape == view._shape else expand_op(value, shape=view._shape)
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
        else:
            value = float(value) if x.dtype.is_floating_point else as_held(x, value)
            if _filled(x, self.mask, value):
                return
        copy_into(x, cast(where_op(self.mask, value, x), x.dtype))


def _filled(x, mask, value):
    """Whether x has become a number of its kind where the mask holds, by the one kernel that writes in place."""
    if not is_element(value, x.dtype) or mask.device is not x.device or core.stands_in(x) or core.stands_in(mask):
        return False
    inplace.change(where_op, x, (mask, value, x))
    return True


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
    if not number and isinstance(key, core.TensorBase) and key.dtype is bool_ and key._shape == x._shape and isinstance(
            value, core.TensorBase) and value._size == 1 and value.dtype is x.dtype and bare(x, value):
        value, number = core.read_scalar(value), True
    if type(key) is list and (made := _of_list(key, x)) is not None:
        key = made
    if number and not -65504.0 <= value <= 65504.0 and x.dtype.itemsize > 2:    # 16 bits become infinite, as in PyTorch
        check_held("setitem", value, x.dtype)
    if number and isinstance(key, core.TensorBase) and key.dtype is bool_ and key._shape == x._shape != () and x._contiguous and (
            type(value) is int or type(value) is float and x.dtype.is_floating_point) and bare(x, key) and _filled(x, key, value):
        return None
    if not number:
        kind = value.dtype if isinstance(value, core.TensorBase) else x.dtype
        if not isinstance(value, core.TensorBase):
            value = tensor(value, dtype=x.dtype, device=x.device)
        elif value.device is not x.device:
            value = value.to(x.device)
        if value.dtype is not x.dtype:
            value = cast(value, x.dtype)            # recorded, so that its gradient comes back in its own dtype
    if key is False:
        return None
    if key is True:
        key = None
    if x._view is not None:
        inplace.check_inferred(x)
    parsed = indexing.parse(x, key, number or kind is x.dtype)
    if parsed is not None and len(parsed) == 4 and type(parsed) is tuple:
        return _assign_neighbours(x, parsed, value)
    if core.stands_in(x):
        return _set_in_batch(x, parsed, key, value)
    if type(parsed) is dict:
        if not bare(x, None if number else value) and (x.requires_grad or not number and value.requires_grad):
            if inplace.repeated(x):             # what is written need not be
                copy_(slice_op(x, **parsed), value)
                return None
            return _assign(x, _Slice(parsed), value)
        return _write_view(reshaping.slice_view(x, **parsed), value)
    masks = parsed is not None and all(isinstance(mask, core.TensorBase) and mask.dtype is bool_ for _, mask in parsed[1])
    if not number and kind is not x.dtype and not (masks and value._size == 1):
        raise DTypeError(f"setitem: at index tensors a value must have the dtype of the tensor, {x.dtype}, got {kind}; use .to(dtype)")
    if parsed is None:
        found = indexing.neighbours(x, (key,))
        return _assign(x, Positions(x, None, [(0, key)]), value) if found is None else _assign_neighbours(x, found, value)
    alone = masks and parsed[1][0][1] is key and isinstance(key, core.TensorBase)
    if alone and (number or value._size == 1) and (x.device.is_gpu or key.ndim == x.ndim):
        return _assign(x, _Masked(x, key), value)
    if alone and key.ndim and core.host_sees(x) and core.host_sees(key):
        return _assign_neighbours(x, (rows := true_places(key), 0, key.ndim, rows._shape), value)
    return _assign(x, Positions(x, *parsed), value)


def set_expanded(x: Tensor, key: object, value: Number | Tensor) -> bool:
    """Whether index tensors name places of an expanded tensor, which gets the value there."""
    return type(indexing.parse(x, key)) is not dict and changed(
        "index_put_", x, lambda whole: setitem(whole, key, value), (value,), lambda marks: setitem(marks, key, True))


def _assign_neighbours(x, found, value):
    """x[key] = value where `indexing.neighbours` found the positions: at once where whole slices are written and nothing is recorded."""
    rows, first, count, shape = found
    if first == 0 and not isinstance(value, core.TensorBase) and is_element(value, x.dtype) and bare(x, rows) and (
            not core.same_memory(rows, x)):
        inplace.check_elements("setitem", x)
        one = run_kernel(full_op, x.device, ((), as_held(x, value)), {"dtype": x.dtype, "device": x.device})
        return run_kernel(index_put_op, x.device, (x, rows, one), {"rank": count})
    if not (first == 0 and isinstance(value, core.TensorBase) and value._size > 1 and value._shape == shape + x._shape[count:]
            and len(shape) == 1) or core.stands_in(value) or graph.is_grad_enabled() and (x.requires_grad or value.requires_grad) or (
                core.same_memory(value, x) or core.same_memory(rows, x)):
        return _assign(x, Positions.of_neighbours(x, *found), value)
    inplace.check_elements("setitem", x)
    return run_kernel(index_put_op, x.device, (x, rows, value), {"rank": count})


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
        value = fitting(value, part.target(view.shape))
        value = reshape_op(value, shape=()) if value._size == 1 else part.entries(value, view.shape)
    inplace.put_in_batch(permute_op(view, dims=(*part.dims, *part.others)), part.rows, len(part.dims), value)


def _assign_within(x, part, value):
    """Of a view, which may show an element several times, the part alone gets another history; recorded."""
    view = part.read(x)
    result = value if isinstance(value, core.TensorBase) else full((), value, dtype=x.dtype, device=x.device)
    result = result if result.shape == view.shape else expand_op(fitting(result, view.shape), shape=view.shape)
    inplace.check_inplace("setitem", view)
    call_under(False, part.write, (x, value), {})
    inplace.take_history(view, result)


def _assign(x, part, value):
    """Write the value, a number or a tensor of x's dtype and device, and record it."""
    number = not isinstance(value, core.TensorBase)
    wants = graph.is_grad_enabled() and (x.requires_grad or (not number and value.requires_grad))
    (inplace.check_inplace if wants else inplace.check_elements)("setitem", x)
    if wants and x._base is not None and isinstance(part, _Slice):
        _assign_within(x, part, value)
        return
    if not number and isinstance(part, Positions):
        inplace.check_apart("setitem_", x, value, whole=True)
    call_under(False, part.write, (x, value), {})
    if not wants:
        return
    after = core.alias(x)
    graph.custom_node(_SetItem(part), (inplace.as_before(x), None if number else value), (after,))
    inplace.take_history(x, after)
