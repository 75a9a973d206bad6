"""Subscripts: `x[...]`, `x[...] = v` and what masks select. NumPy's and PyTorch's rules.

Basic subscripts are parsed in C (`_kernels/indexing.pyx`) and give views; here are those with integer and bool tensors.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph, indexing, inplace
from volta.dtypes import bool_
from volta.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from volta.ops.creation import full
from volta.ops.elementwise import where
from volta.ops.index import _indices, index_last_primitive, index_select_primitive
from volta.ops.movement import (
    _expand,
    _reshape,
    cast,
    contiguous,
    copy_into,
    fill_into,
    permute,
    reshape,
    slice_primitive,
    slice_view,
    squeeze,
)
from volta.shapes import broadcast_shapes, broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number


# ---------------------------------------------------------------- x[...]
def _as_index(item, x):
    """A Python or NumPy index as slice, int, None, Ellipsis or integer/bool tensor."""
    if item is None or item is Ellipsis or isinstance(item, slice) or isinstance(item, core.TensorBase):
        return item
    if isinstance(item, (bool, np.bool_)):
        raise ArgumentError("indexing: a single bool is no index; use x[None] or a bool tensor")
    if hasattr(item, "__index__") and not isinstance(item, np.ndarray):
        return item.__index__()
    if isinstance(item, (list, np.ndarray, range)):
        from volta.ops.creation import tensor
        array = np.asarray(item)
        if array.size == 0:
            array = array.astype(np.int64)
        return tensor(array, device=x.device)
    raise ArgumentError(f"indexing: {type(item).__name__} is no index; use ints, slices, None, ..., or integer and bool tensors")


def _expand_ellipsis(x, key):
    items = [_as_index(i, x) for i in (key if isinstance(key, tuple) else (key,))]
    used = sum(i.ndim if isinstance(i, core.TensorBase) and i.dtype.code == 0 else 1
               for i in items if i is not None and i is not Ellipsis)
    dots = [k for k, i in enumerate(items) if i is Ellipsis]
    if used > x.ndim or len(dots) > 1:
        raise IndexRangeError(f"indexing: {used} indices for a tensor of shape {x.shape}")
    fill = [slice(None)] * (x.ndim - used)
    at = dots[0] if dots else len(items)
    return items[:at] + fill + items[at + 1:]


def _nonzero(mask):
    """Positions of the true elements, per dimension. The count decides a shape, so the mask is read on the host."""
    from volta.ops.creation import tensor
    return [tensor(i, device=mask.device) for i in np.nonzero(mask.numpy())]


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Positions of the non-zero elements, (count, rank) int64, or one vector per dimension. Reads the values on the host."""
    from volta.ops.creation import tensor
    if as_tuple:
        return tuple(_nonzero((input if input.ndim else _reshape(input, shape=(1,))).detach() != 0))
    return tensor(np.argwhere(input.detach().numpy() != 0), device=input.device)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` holds, as a vector."""
    if mask.dtype.code != 0:
        raise DTypeError(f"masked_select: the mask must be bool, got {mask.dtype}; compare it first, as in x > 0")
    shape = broadcast_shapes(input.shape, mask.shape) or (1,)
    return getitem(_expand(input, shape=shape), _expand(mask, shape=shape))


def _basic(x, items):
    """The view for the ints, slices and Nones of an index, and where its tensors stand in that view."""
    slices, shape_plan, d = [], [], 0
    for item in items:
        if item is None:
            shape_plan.append(("new", None))
        elif isinstance(item, _Choice):
            shape_plan.append(("new", item.index))
        elif isinstance(item, slice):
            slices.append(item)
            shape_plan.append(("keep", None))
            d += 1
        elif isinstance(item, int):
            n = x.shape[d]
            if not -n <= item < n:
                raise IndexRangeError(f"indexing: index {item} is out of range for dimension {d} of size {n}")
            at = item % n
            slices.append(slice(at, at + 1))
            shape_plan.append(("drop", None))
            d += 1
        else:
            slices.append(slice(None))
            shape_plan.append(("tensor", item))
            d += 1
    out = slice_view(x, tuple(slices)) if any(s != slice(None) for s in slices) else x
    shape, tensors, k = [], {}, 0
    for kind, item in shape_plan:
        if kind == "new":
            if item is not None:
                tensors[len(shape)] = item
            shape.append(1)
            continue
        if kind == "tensor":
            tensors[len(shape)] = item
        if kind != "drop":
            shape.append(out.shape[k])
        k += 1
    if tuple(shape) != out.shape:
        out = _reshape(out, shape=tuple(shape))
    elif out is x:
        out = _expand(x, shape=x.shape)       # x[:] is a new tensor on the same storage
    return out, tensors


class _Choice:
    """A 0-d bool tensor as an index: a new dimension of size 1, kept or left empty."""

    def __init__(self, mask):
        from volta.ops.creation import tensor
        self.index = tensor([0] if mask.item() else np.empty(0, np.int64), device=mask.device)


def _split_masks(x, items):
    """Bool tensors replaced by the positions of their true elements."""
    out, d = [], 0
    for item in items:
        if isinstance(item, core.TensorBase) and item.dtype.code == 0:
            if item.ndim == 0:
                out.append(_Choice(item))
                continue
            if item.shape != x.shape[d:d + item.ndim]:
                raise IndexRangeError(f"indexing: a mask of shape {item.shape} does not fit {x.shape} at dimension {d}")
            out.extend(_nonzero(item))
            d += item.ndim
            continue
        d += item is not None
        out.append(item)
    return out


def _linearised(view, tensors):
    """(the view with its indexed dimensions joined in front, one flat index, the index shape, where the result goes)."""
    dims = sorted(tensors)
    shape = broadcast_shapes(*(tensors[d].shape for d in dims))
    flat = None
    for d in dims:
        index = _expand(_indices("indexing", tensors[d], view.shape[d]), shape=shape)
        flat = index if flat is None else flat * view.shape[d] + index
    rest = [d for d in range(view.ndim) if d not in tensors]
    front = permute(view, *dims, *rest)
    joined = 1
    for d in dims:
        joined *= view.shape[d]
    front = reshape(front, (joined,) + tuple(view.shape[d] for d in rest))
    at = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    return front, reshape(flat, (flat._size,)), shape, at


def getitem(x: Tensor, key: object) -> Tensor:
    """x[key]: views for ints, slices, None and ...; copies for integer and bool tensors. NumPy's and PyTorch's rules.

    Raises: IndexRangeError.
    """
    params = indexing.basic(x, key)
    if params is not None:
        return slice_primitive(x, **params)
    if isinstance(key, core.TensorBase) and key.dtype.code != 0 and x.ndim:
        flat = _indices("indexing", key, x.shape[0])
        if key.ndim == 1:
            return index_select_primitive(x, flat, dim=0)
        return _reshape(index_select_primitive(x, _reshape(flat, shape=(flat._size,)), dim=0), shape=key.shape + x.shape[1:])
    view, tensors = _basic(x, _split_masks(x, _expand_ellipsis(x, key)))
    if not tensors:
        return view
    front, flat, shape, at = _linearised(view, tensors)
    out = index_select_primitive(front, flat, dim=0)
    out = _reshape(out, shape=shape + front.shape[1:])
    if at:
        k, n = len(shape), len(shape) + len(front.shape) - 1
        order = list(range(k, k + at)) + list(range(k)) + list(range(k + at, n))
        out = permute(out, *order)
    return out


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
        before = where(self._kept(g), g, 0.0) if self.needs[0] else None
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
        """Nothing is saved but the geometry."""


class _SetItem:
    """Backward of a recorded x[key] = value, in the form that `graph.custom_node` takes."""

    def __init__(self, key):
        self.key = key

    def gradients(self, g):
        """(for x: g with the written part cleared, for value: the written part of g)."""
        kept = g.clone()
        setitem(kept, self.key, 0.0)
        return kept, getitem(g, self.key)

    def release(self):
        """Nothing is saved but the key."""


def setitem(x: Tensor, key: object, value: Number | Tensor) -> None:
    """x[key] = value, in place, recorded where a gradient is wanted.

    Raises: ShapeError where the value does not broadcast; AutogradError on a leaf that requires grad.
    """
    number = isinstance(value, (bool, int, float))
    if not number and not isinstance(value, core.TensorBase):
        from volta.ops.creation import tensor
        value = tensor(value, dtype=x.dtype, device=x.device)
    if not number:
        value = cast(value, x.dtype)            # recorded, so that its gradient comes back in its own dtype
    wants = graph.is_grad_enabled() and (x.requires_grad or (not number and value.requires_grad))
    if wants:
        inplace.check_inplace("setitem", x)
    previous = graph.set_grad_mode(False)
    try:
        _write(x, key, value, number)
    finally:
        graph.set_grad_mode(previous)
    if not wants:
        return
    after = core.alias(x)
    graph.custom_node(_SetItem(key), (inplace.as_before(x), None if number else value), (after,))
    inplace.take_history(x, after)


def _write(x, key, value, number):
    params = indexing.basic(x, key)
    if params is not None:
        return _write_view(indexing.slice_view(x, **params), value, number)
    if isinstance(key, core.TensorBase) and key.dtype.code == 0 and (number or value._size == 1):
        return _write_masked(x, key, value)
    view, tensors = _basic(x, _split_masks(x, _expand_ellipsis(x, key)))
    if view.storage is not x.storage:
        raise ShapeError("setitem: the index of this tensor is no view of it; make it contiguous first")
    if not tensors:
        return _write_view(view, value, number)
    _put(view, tensors, value, number)


def _write_view(view, value, number):
    """Write into what basic indexing shows."""
    if number:
        return fill_into(view, value)
    value = value.to(view.device)
    while value.ndim > view.ndim and value.shape[0] == 1:
        value = squeeze(value, 0)
    if not broadcasts_to(value.shape, view.shape):
        raise ShapeError(f"setitem: a value of shape {value.shape} does not broadcast to the indexed shape {view.shape}")
    copy_into(view, value)


def _write_masked(x, mask, value):
    """x[mask] = one value, without asking where the mask is true."""
    if mask.shape != x.shape[:mask.ndim]:
        raise IndexRangeError(f"indexing: a mask of shape {mask.shape} does not fit {x.shape} at dimension 0")
    mask = _reshape(mask, shape=mask.shape + (1,) * (x.ndim - mask.ndim))
    if isinstance(value, core.TensorBase):
        value = cast(_reshape(value.to(x.device), shape=()), x.dtype)
    elif not x.dtype.is_floating_point:
        value = int(value) if x.dtype.category else bool(value)
    copy_into(x, cast(where(mask, value, x), x.dtype))


def _put(view, tensors, value, number):
    """Write at integer positions: find the last entry that names each row, then choose between its value and the old one."""
    front, flat, shape, at = _linearised(view, tensors)
    if flat._size == 0:
        return
    rest = front.shape[1:]
    target = shape + rest if not at else rest[:at] + shape + rest[at:]
    if number:
        value = full((), value, dtype=view.dtype, device=view.device)
    if not broadcasts_to(value.shape, target):
        raise ShapeError(f"setitem: a value of shape {value.shape} does not broadcast to the indexed shape {target}")
    value = _expand(cast(value.to(view.device), view.dtype), shape=target)
    if at:
        k = len(shape)
        value = permute(value, *range(at, at + k), *range(at), *range(at + k, len(target)))
    value = reshape(value, (flat._size,) + rest)
    rows = front.shape[0]
    last = index_last_primitive(flat, size=rows)
    source = index_select_primitive(value, where(last > 0, last - 1, 0), dim=0)
    merged = where(reshape(last > 0, (rows,) + (1,) * len(rest)), source, front)
    dims = sorted(tensors)
    others = [d for d in range(view.ndim) if d not in tensors]
    merged = reshape(merged, tuple(view.shape[d] for d in dims) + rest)
    order_back = [0] * view.ndim
    for i, d in enumerate(dims + others):
        order_back[d] = i
    copy_into(view, permute(merged, *order_back))


def masked_fill(input: Tensor, mask: Tensor, value: Number | Tensor) -> Tensor:
    """`input` with `value` (a number or a 0-d tensor, in the dtype of `input`) where `mask` holds.

    Raises: ShapeError for a value of more dimensions.
    """
    if isinstance(value, core.TensorBase):
        if value.ndim:
            raise ShapeError(f"masked_fill: value must be a number or a 0-d tensor, got shape {value.shape}; use where()")
        value = cast(value, input.dtype)
    elif not input.dtype.is_floating_point:
        value = bool(value) if input.dtype.code == 0 else int(value)
    return where(mask, value, input)
