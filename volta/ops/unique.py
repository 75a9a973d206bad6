"""What differs among elements or slices. The shape of the results depends on the values: these ops read one number from the device."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph, host_sees
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta.dtypes import bool_, int64
from volta.errors import IndexRangeError, ShapeError
from volta.ops.creation import full, ones, zeros
from volta.ops.from_data import tensor
from volta.ops.indexing import changed_places, index_select, known_range, true_places, true_values
from volta.ops.join import cat
from volta.ops.parts import narrow
from volta.ops.records.copy import cast
from volta.ops.records.index import gather_op, index_put_op, index_select_op
from volta.ops.records.places import changes_op, counts_op
from volta.ops.records.reduce import any_op, sum_op
from volta.ops.records.scan import cumsum_op
from volta.ops.records.sort import scatter_unique, sort_op
from volta.ops.records.view import flat, reshape_op
from volta.ops.sort import argsort
from volta.ops.table import case, composed
from volta.ops.view import movedim
from volta.shapes import as_dim

if TYPE_CHECKING:
    from volta.tensor import Tensor

_NEAR, _WIDEST = 1 << 16, 1 << 24       # numbers of a table that is looked at whatever the size, and at most
_COUNTED = 4096                         # that a GPU counts in workgroup memory


def _changes(rows):
    """Of (n, ...) whether each slice, the first too, differs from the one before it."""
    n = rows.shape[0]
    if rows.ndim == 1:
        return changes_op(rows)
    changed = any_op(narrow(rows, 0, 1, n - 1) != narrow(rows, 0, 0, n - 1), dim=tuple(range(1, rows.ndim)), keepdim=False)
    return cat([ones(1, dtype=changed.dtype, device=rows.device), changed], 0)


def _flags(input, return_inverse, return_counts):
    """`unique` of booleans: one count says all."""
    n, trues = input._size, sum_op(input, dim=tuple(range(input.ndim)), keepdim=False).item()
    known = [(value, count) for value, count in ((False, n - trues), (True, trues)) if count]
    out = [tensor([value for value, _ in known], device=input.device)]
    if return_inverse:
        out.append(cast(input, int64) if len(known) == 2 else zeros(input.shape, dtype=int64, device=input.device))
    if return_counts:
        out.append(tensor([count for _, count in known], device=input.device))
    return tuple(out) if len(out) > 1 else out[0]


def _given(values, inverse, starts, n, return_inverse, return_counts):
    """The results that are asked for."""
    out = [values]
    if return_inverse:
        out.append(inverse)
    if return_counts and return_inverse and not values.device.is_gpu:
        out.append(counts_op(flat(inverse), None, None, bins=starts._size, between=None))
    elif return_counts:
        end = full((1,), n, dtype=int64, device=values.device)
        out.append(cat([narrow(starts, 0, 1, starts.shape[0] - 1), end], 0) - starts if n else starts)
    return tuple(out) if len(out) > 1 else values


def _of_none(input, dim, return_inverse, return_counts):
    inverse, counts = (zeros(shape, dtype=int64, device=input.device) for shape in (input.shape if dim is None else 0, 0))
    return _given(reshape_op(input, shape=(0,) if dim is None else input.shape), inverse, counts, 0, return_inverse, return_counts)


def _ranks(table):
    """Of (n, m) the number of each row in lexicographic order, equal ones alike: of pairs of columns, until there is one column."""
    while table.shape[1] > 1:
        if table.shape[1] % 2:
            table = cat([table, narrow(table, 1, table.shape[1] - 1, 1)], 1)
        n, half = table.shape[0], table.shape[1] // 2
        pairs = reshape_op(table, shape=(n, half, 2))
        first, second = (reshape_op(narrow(pairs, 2, k, 1), shape=(n, half)) for k in (0, 1))
        order = argsort(second, 0)
        order = gather_op(order, argsort(gather_op(first, order, dim=0), 0), dim=0)
        first, second = (gather_op(x, order, dim=0) for x in (first, second))
        changed = (narrow(first, 0, 1, n - 1) != narrow(first, 0, 0, n - 1)) | (narrow(second, 0, 1, n - 1) != narrow(second, 0, 0, n - 1))
        numbers = cat([zeros(1, half, dtype=int64, device=table.device), cumsum_op(changed, dim=0)], 0)
        table = scatter_unique(numbers, order, dim=0, size=n)
    return flat(table)


def _is_plain(input, return_inverse, return_counts):
    """Whether nothing but the values is asked for, of a GPU's tensor that wants no gradient."""
    return input.device.is_gpu and not return_inverse and not return_counts and not (graph.is_grad_enabled() and input.requires_grad)


def _listed(input):
    """`unique` of whole numbers of a GPU that lie close together, by a table of which there are; None of others."""
    extremes = None if input.dtype.is_floating_point else known_range(input)
    if extremes is None:
        return None
    low, high = min(extremes[0], 0) if extremes[0] < _NEAR else extremes[0], extremes[1]
    if high - low >= max(_NEAR, min(8 * input._size, _WIDEST)):
        return None
    device, size, numbers = input.device, high - low + 1, cast(flat(input), int64)
    numbers = numbers - low if low else numbers
    if size <= _COUNTED:                    # many that go to one place are slow
        there = counts_op(numbers, None, None, bins=size, between=None)
    else:
        there = zeros(size, dtype=bool_, device=device)
        run_kernel(index_put_op, device, (there, numbers, ones((), dtype=bool_, device=device)), {"rank": 1, "unique": True})
    found = true_places(there)
    return cast(found + low if low else found, input.dtype)


def _slices(name, input, dim):
    """(dimension, the slices along it as rows)."""
    d = as_dim(name, dim, input.ndim)
    if not input.ndim:
        raise IndexRangeError(f"{name}: dim {dim} of a 0-d tensor, which has no dimensions; leave dim away")
    if input._size == 0 and input.shape[d]:
        raise ShapeError(f"{name}: the slices along dimension {d} of shape {input.shape} are empty")
    rows = movedim(input, d, 0)
    return d, reshape_op(rows, shape=(rows.shape[0], rows._size // max(rows.shape[0], 1)))


def _picked(x, d, places):
    """Slices along d, which lie whole in memory one after another, as in PyTorch."""
    return index_select(x, 0, places) if d == 0 else movedim(index_select(movedim(x, d, 0), 0, places), 0, d)


def _np_unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    out = np.unique(x, return_index=False, return_inverse=True, return_counts=True, axis=dim)
    wanted = (out[0], out[1].reshape(x.shape if dim is None else -1) if return_inverse else None, out[2] if return_counts else None)
    return tuple(o for o in wanted if o is not None)


@composed(samples=(case((40,)), case((3, 4), return_inverse=True), case((2, 9), return_counts=True), case((6, 1), dim=0),
                   case((3, 5), dim=1, return_inverse=True, return_counts=True), case((), return_inverse=True), case((0,))), kinds="fib",
          smooth=False, reads=True, numpy=_np_unique)
def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
           dim: int | None = None) -> Tensor | tuple[Tensor, ...]:
    """The different elements in order, `sorted` or not, or the different slices along `dim`; on request the place of each among them, and
    how many there are of each. Every NaN differs from the others. Reads how many there are; the gradient goes to the element taken.

    Raises: ShapeError for empty slices.

    >>> volta.unique(volta.tensor([3, 1, 2, 1]), return_counts=True)
    (tensor([1, 2, 3]), tensor([2, 1, 1]))
    """
    if dim is None and input.dtype is bool_ and input._size and host_sees(input):
        return _flags(input, return_inverse, return_counts)
    d, rows = (0, flat(input)) if dim is None else _slices("unique", input, dim)
    n = rows.shape[0]
    if not n:
        return _of_none(input, dim, return_inverse, return_counts)
    plain = dim is None and _is_plain(input, return_inverse, return_counts)
    if plain and (found := _listed(input)) is not None:
        return found
    in_order, order = sort_op(rows.detach() if dim is None else _ranks(rows.detach()), dim=0)
    if plain:
        return true_values(in_order, in_order, changes=True)
    if dim is None and bare(input) and (found := core.consecutive(in_order, (n,), return_inverse, return_counts)) is not None:
        if return_inverse:
            numbers = run_kernel(scatter_unique, input.device, (found[1], order), {"dim": 0, "size": n})
            found = found[0], core.reshaped(numbers, input._shape), *found[2:]
        return found if return_inverse or return_counts else found[0]
    starts = changed_places(in_order)
    values = _picked(rows if dim is None else input, d, index_select_op(order, starts, dim=0))
    inverse = scatter_unique(cumsum_op(_changes(in_order), dim=0) - 1, order, dim=0, size=n) if return_inverse else None
    return _given(values, inverse if dim is not None or inverse is None else reshape_op(inverse, shape=input.shape), starts, n,
                  return_inverse, return_counts)


def _np_consecutive(x, return_inverse=False, return_counts=False, dim=None):
    rows = x.reshape(-1, 1) if dim is None else np.moveaxis(x, dim, 0).reshape(x.shape[dim], -1)
    changes = np.r_[True, (rows[1:] != rows[:-1]).any(1)][:len(rows)]
    starts = np.flatnonzero(changes)
    out = (x.reshape(-1)[starts] if dim is None else np.take(x, starts, dim), np.cumsum(changes) - 1, np.diff(np.r_[starts, len(rows)]))
    inverse = out[1].reshape(x.shape if dim is None else -1)
    return tuple(o for o, wanted in zip((out[0], inverse, out[2]), (True, return_inverse, return_counts)) if wanted)


@composed(samples=(case((40,)), case((3, 4), return_inverse=True), case((5, 2), dim=0, return_counts=True), case((), return_inverse=True)),
          kinds="fib", smooth=False, reads=True, numpy=_np_consecutive)
def unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
                       dim: int | None = None) -> Tensor | tuple[Tensor, ...]:
    """`unique` that joins only what is equal and side by side, and keeps the order.

    >>> volta.unique_consecutive(volta.tensor([1, 1, 2, 2, 1]))
    tensor([1, 2, 1])
    """
    d, rows = (0, flat(input)) if dim is None else _slices("unique_consecutive", input, dim)
    n = rows.shape[0]
    if not n:
        return _of_none(input, dim, return_inverse, return_counts)
    if dim is None and _is_plain(input, return_inverse, return_counts):
        return true_values(rows, rows, changes=True)
    if dim is None and bare(input) and (found := core.consecutive(rows, input._shape, return_inverse, return_counts)) is not None:
        return found if return_inverse or return_counts else found[0]
    changes = _changes(rows.detach()) if return_inverse or rows.ndim > 1 else None
    starts = changed_places(rows.detach()) if changes is None else true_places(changes)
    values = _picked(rows if dim is None else input, d, starts)
    numbers = cumsum_op(changes, dim=0) - 1 if return_inverse else None
    return _given(values, reshape_op(numbers, shape=input.shape) if return_inverse and dim is None else numbers, starts, n,
                  return_inverse, return_counts)
