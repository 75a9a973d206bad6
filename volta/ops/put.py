"""Writing by tuples of indices, by masks, and at positions among the elements in their order: index_put, put, masked_scatter."""
from __future__ import annotations

import math
import operator
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase, graph, host_sees, indexing, inplace, put_where, reshaped, same_memory, stands_in, view
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta._kernels.core.entries import combined
from volta._kernels.core.order import dense_strides, outermost_first
from volta.dtypes import int64
from volta.errors import ArgumentError, DTypeError, RankError, ShapeError
from volta.ops.assign import fill_
from volta.ops.copy import changed_by, copy_into, fill_into
from volta.ops.creation import arange, full
from volta.ops.entries import alike, as_held
from volta.ops.expanded import added, changed
from volta.ops.indexing import as_vector, check_integers, coordinates, index_add, nonzero, positions
from volta.ops.join import stack
from volta.ops.parts import unbind
from volta.ops.positions import Positions
from volta.ops.records.copy import cast
from volta.ops.records.index import index_add_into_op, index_put_op, index_select_op, index_sum_op
from volta.ops.records.math import add_op, clamp_op, where_op
from volta.ops.records.scan import cumsum_op
from volta.ops.records.sort import searchsorted_op
from volta.ops.records.view import clone_op, contiguous_op, diagonal_op, expand_op, flat, permute_op, reshape_op, row_major
from volta.ops.reduce import sum
from volta.ops.scan import cumsum
from volta.ops.scatter import different, writing
from volta.ops.subscript import setitem
from volta.ops.table import Flags, Labels, case, composed
from volta.shapes import broadcast_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor
    from volta.types import Number


_whole = slice(None)


def _as_index_vector(index):
    if index.dtype.code == 0:
        raise ArgumentError("index_put: a mask needs at least one dimension")
    return as_vector(index)


def _put_expanded(input, indices, values, accumulate=False):
    if accumulate:
        return added(input, (values,), lambda zeros: zeros.index_put_(indices, values, True))
    return changed("index_put_", input, lambda whole: whole.index_put_(indices, values), (values,),
                   lambda marks: marks.index_put_(indices, full((), True, device=marks.device)))


def _added(input, indices, values, accumulate=False):
    """`index_put` that adds one slice at each position of a vector, which is `index_add` (row-major, as `index_put` of such an input is),
    or that has one number behind a mask; else None."""
    if isinstance(values, TensorBase) and values.dtype is input.dtype and input._contiguous and type(indices) in (tuple, list) and (
            input._shape and values.device is input.device and bare(input, values) and input.dtype.itemsize > 2):
        found = indexing.neighbours(input, tuple(indices))
        if found is not None and found[1] == 0 and len(found[3]) == 1 and values._size > 1 and (
                values._shape == found[3] + input._shape[found[2]:]):
            return _put_rows(clone_op(input), values, accumulate, *found)
        mask = indices[0] if len(indices) == 1 and not accumulate and values._size == 1 else None
        if isinstance(mask, TensorBase) and mask.dtype.code == 0 and mask._shape == input._shape and mask._contiguous and bare(mask):
            return run_kernel(where_op, input.device, (mask, reshaped(values, ()), input))
    if not accumulate or not input._contiguous or len(indices) != 1 or (
            not isinstance(values, TensorBase) or not isinstance(index := indices[0], TensorBase)):
        return None
    if index.dtype.code == 0 or index.dtype.is_floating_point or len(index._shape) != 1 or not input._shape or (
            values._shape != index._shape + input._shape[1:] or values.dtype is not input.dtype or stands_in(index)
            or values.device is not input.device or index.device is not input.device):
        return None
    return index_add(input, 0, positions("index_put", index, input._shape[0], wrap=True), values)


def _put_rows(out, values, accumulate, rows, first, count, shape):
    """One value or slice for each of the positions, in place."""
    if not accumulate:
        run_kernel(index_put_op, out.device, (out, rows, values), {"rank": count})
    else:
        lines = reshaped(out, (math.prod(out._shape[:count]), *out._shape[count:]))
        run_kernel(index_add_into_op, out.device, (lines, values, rows), {"dim": 0})
    return out


@writing(_added, copy=clone_op, expanded=_put_expanded, untested="tests/test_scatter.py: its indices are a tuple of tensors")
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """input[indices] = values, where None stands for a whole dimension; with `accumulate`, values are added to what is there, as often as a
    place is named.

    Raises: ShapeError where `values` do not broadcast; IndexRangeError; DTypeError for values of another dtype;
    ArgumentError for no indices.

    >>> volta.index_put(volta.zeros(3), (volta.tensor([2, 2]),), volta.ones(2), accumulate=True).tolist()
    [0.0, 0.0, 2.0]
    """
    if not indices or not all(i is None or isinstance(i, TensorBase) for i in indices):
        raise ArgumentError("index_put: indices must be a tuple of tensors and None, with one at least")
    if not isinstance(values, TensorBase):
        raise DTypeError(f"index_put: values must be a tensor, got {type(values).__name__}")
    if values._size == 1 and not accumulate and [i.dtype.code for i in indices if i is not None] == [0]:
        values = cast(values, input.dtype)          # one number behind one mask, which masked_fill takes of any dtype
    if values.dtype is not input.dtype or values.device is not input.device:
        _, values = alike("index_put", input, input, values)
    key = tuple([_whole if i is None else i if i._shape else _as_index_vector(i) for i in indices])
    if input._contiguous and values._contiguous and input._shape and bare(input, values) and not same_memory(values, input) and (
            found := indexing.neighbours(input, key)) is not None and found[1] == 0 and (
            values._shape == found[3] + input._shape[found[2]:] and not same_memory(found[0], input)):
        inplace.check_elements("index_put", input)
        values = values if len(found[3]) == 1 else reshaped(values, (found[0]._size, *input._shape[found[2]:]))
        return _put_rows(input, values, accumulate, *found)
    if not accumulate:
        setitem(input, key[0] if len(key) == 1 else key, values)
        return input
    parsed = indexing.parse(input, key[0] if len(key) == 1 else key)
    if type(parsed) is dict:
        return inplace.into(add_op, input, values)
    part = Positions(input, *(parsed or (None, [(0, key[0])])))
    return changed_by("index_put", input, values, lambda x: part.added(x, values))


def _np_put(x, index, source, accumulate=False):
    out = x.copy().reshape(-1)
    for i, v in zip(index.reshape(-1), source.reshape(-1)):
        out[i] = out[i] + v if accumulate else v
    return out.reshape(x.shape)


@writing(samples=(case((3, 4), different(3, 12), (3,)), case((3, 4), Labels((2, 3), 4), (6,), accumulate=True)),
          copy=clone_op, numpy=_np_put, kinds="fi")
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`source` written at the positions of `index` among the elements in their order, or with `accumulate` added to what is there; negative
    ones count from the end.

    Raises: ShapeError unless index and source have equally many elements; IndexRangeError; DTypeError for a source of another dtype.

    >>> volta.put(volta.zeros(2, 2), volta.tensor([1, -1]), volta.ones(2)).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    if input._contiguous and index._contiguous and source._contiguous and index._size == source._size and bare(input, source) and (
            combined(reshaped(input, (input._size,)), 0, reshaped(index, (index._size,)), reshaped(source, (source._size,)),
                     "sum" if accumulate else "last", True, False) is not None):
        return input
    check_integers("put", index)
    index, source = alike("put", input, index, source)
    if index._size != source._size:
        raise RankError(f"put: index {index.shape} and source {source.shape} must have equally many elements")
    at, source = positions("put", flat(index), input._size, wrap=True), flat(source)
    if not input._size and not accumulate:                  # nothing to write, and no place to name
        return input
    if input._contiguous and input._size and bare(input, source) and not same_memory(source, input) and not same_memory(at, input):
        inplace.check_elements("put", input)
        return _put_rows(input, source, accumulate, at, 0, input.ndim, at._shape)
    if accumulate:
        return changed_by("put", input, source, lambda x: reshape_op(index_sum_op(flat(x), source, at, dim=0), shape=x.shape))
    if input._contiguous and not stands_in(input):
        setitem(flat(input) if input._shape else as_vector(input), at, source)
    else:
        setitem(as_vector(input), unravel_index(at, input.shape or (1,)), source)
    return input


@composed(apart=0, samples=(case((3, 4), Labels((2, 3), 12)), case((), Labels((2,), 1))), kinds="fib",
          numpy=lambda x, index: x.reshape(-1)[index])
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at the positions of `index` among all in their order, in its shape; negative ones count from the end.

    Raises: IndexRangeError.

    >>> volta.take(volta.tensor([[1, 2], [3, 4]]), volta.tensor([1, -1])).tolist()
    [2, 4]
    """
    at = positions("take", flat(index), input._size, wrap=True)
    if input._contiguous and bare(input, index):
        out = run_kernel(index_select_op, input.device, (reshaped(input, (input._size,)), at), {"dim": 0})
        return out if len(index._shape) == 1 else reshaped(out, index._shape)
    out = index_select_op(flat(input), at, dim=0)
    return out if len(index._shape) == 1 else reshape_op(out, shape=index._shape)


@composed(samples=(case(Labels((3, 4), 24), shape=(2, 3, 4)),), kinds="i", method=False, smooth=False,
          numpy=lambda x, shape: tuple(np.unravel_index(x, shape)))
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Positions among the elements of a tensor of this shape, as one index per dimension.

    Raises: DTypeError for an index tensor without integers; ArgumentError for sizes below 0 or beyond int64.

    >>> [i.tolist() for i in volta.unravel_index(volta.tensor([1, 5]), (2, 3))]
    [[0, 1], [1, 2]]
    """
    if indices.dtype.is_floating_point or indices.dtype.code == 0:
        raise DTypeError(f"unravel_index: the indices must be integers, got {indices.dtype}")
    sizes = tuple(map(operator.index, (shape,) if hasattr(shape, "__index__") else shape))
    if any(not 0 <= n < 1 << 63 for n in sizes):
        raise ArgumentError(f"unravel_index: sizes must be at least 0 and fit into 64 bits, got {sizes}")
    strides = None if stands_in(indices) or not indices._size else dense_strides(indices)
    if strides is None or not sizes:
        return unbind(stack(list(coordinates(cast(indices, int64), sizes)), -1), -1) if sizes else ()
    dims = outermost_first(strides)           # in which the indices lie in memory
    found = unravel_index(permute_op(indices, dims=dims), sizes)
    return tuple([permute_op(x, dims=tuple(map(dims.index, range(x.ndim)))) for x in found])


def _np_nonzero_static(x, size, fill_value=-1):
    found = np.argwhere(x)[:size]
    return np.concatenate([found, np.full((size - len(found), x.ndim), fill_value)])


@composed(samples=(case((3, 4), size=20), case((2, 3, 4), size=5, fill_value=7), case((), size=2), case((0, 3), size=2)), kinds="fib",
          smooth=False, numpy=_np_nonzero_static)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` positions of non-zero elements, (size, rank) int64, with `fill_value` where there are fewer. It reads no values
    of a GPU.

    Raises: ArgumentError for a negative size.

    >>> volta.nonzero_static(volta.tensor([0, 5, 6]), size=3).tolist()
    [[1], [2], [-1]]
    """
    if size < 0:
        raise ArgumentError(f"nonzero_static: size must be >= 0, got {size}")
    if not input._size or not input.ndim:
        return full((size, input.ndim), fill_value, dtype=int64, device=input.device)
    if host_sees(input):
        found, out = nonzero.function(input), full((size, input.ndim), fill_value, dtype=int64)
        held = (min(size, found._shape[0]), input.ndim)
        if held[0]:
            copy_into(view(out, held, out._strides, 0), view(found, held, found._strides, 0))
        return out
    ends = cumsum(flat(input.detach() != 0), 0)
    at = searchsorted_op(ends, arange(1, size + 1, device=input.device), right=False)
    return stack([where_op(at < input._size, i, fill_value) for i in unravel_index(at, input.shape)], 1)


def _np_masked_scatter(x, mask, source):
    out, mask = np.broadcast_arrays(x, mask)
    out = out.copy()
    out[mask] = source.reshape(-1)[:mask.sum()]
    return out


def _put(out, mask, source):
    """`out` with the elements of source where the mask holds, in place. IN: contiguous, on the host, of one dtype."""
    count = put_where(out, mask, source)
    if count > source._size:
        raise ShapeError(f"masked_scatter: the mask holds {count} times, but source has {source._size} elements")
    return out


def _scattered_in_place(input, mask, source):
    """See `Places.one`."""
    if not (isinstance(mask, TensorBase) and isinstance(source, TensorBase) and source.dtype is input.dtype and mask.dtype.code == 0) or (
            mask._shape != input._shape or not (input._contiguous and mask._contiguous and source._contiguous)) or (
            not bare(input, source) or not host_sees(mask) or same_memory(source, input) or same_memory(mask, input)):
        return None
    inplace.check_elements("masked_scatter", input)
    return _put(input, mask, source)


_scattered_in_place.every = True


@composed(samples=(case((3, 4), Flags((3, 4)), (13,)), case((3, 4), Flags((4,)), (3, 4))), kinds="fib", inplace=True,
          one=_scattered_in_place, numpy=_np_masked_scatter)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with the elements of `source`, in their order, where `mask` holds.

    Raises: ShapeError, on the CPU, where there are too few of them (on a GPU the last one repeats); DTypeError for another dtype.

    >>> volta.masked_scatter(volta.zeros(3), volta.tensor([True, False, True]), volta.tensor([1.0, 2.0])).tolist()
    [1.0, 0.0, 2.0]
    """
    if mask.dtype.code != 0:
        raise DTypeError(f"masked_scatter: the mask must be bool, got {mask.dtype}; compare it first, as in x > 0")
    mask, source = alike("masked_scatter", input, mask, source)
    shape = input._shape
    if shape != mask._shape:
        shape = broadcast_shapes(input.shape, mask.shape)
        input, mask = expand_op(input, shape=shape), expand_op(mask, shape=shape)
    if bare(input, source) and host_sees(mask):
        return _put(*[x if i and x._contiguous else run_kernel(contiguous_op, x.device, (x,)) for i, x in enumerate((input, mask, source))])
    place = cumsum_op(flat(mask), dim=0) - 1
    if not mask.device.is_gpu and mask._size > source._size and int(place[-1]) >= source._size:
        raise ShapeError(f"masked_scatter: the mask holds {int(place[-1]) + 1} times, but source has {source._size} elements")
    if not source._size:
        return where_op(mask, cast(sum(source), input.dtype), input)        # nothing of it, with a gradient of zeros
    picked = index_select_op(flat(source), clamp_op(place, 0, source._size - 1), dim=0)
    return where_op(row_major(mask), reshape_op(picked, shape=shape), row_major(input))


@composed(function=False, untested="tests/test_scatter.py: it has only this form")
def fill_diagonal_(input: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """`fill_value` on the main diagonal, where all indices are equal; with `wrap` it starts again below the end of a tall matrix.

    Raises: ShapeError for a tensor of less than 2 dimensions, or of more that are not of one size.

    >>> volta.zeros(2, 2).fill_diagonal_(5).tolist()
    [[5.0, 0.0], [0.0, 5.0]]
    """
    if input.ndim < 2 or input.ndim > 2 and len(set(input.shape)) > 1:
        raise ShapeError(f"fill_diagonal_: needs a matrix, or dimensions of one size, got shape {input.shape}")
    fill_value = as_held(input, fill_value)
    plain = not (stands_in(input) or graph.is_grad_enabled() and input.requires_grad or isinstance(fill_value, TensorBase))
    if plain and not (wrap and input.shape[0] > input.shape[1]):
        shown = view(input, (min(input.shape),), (reduce(operator.add, input._strides),), input.offset)
        if not any(input._strides):                     # which are one element
            shown = view(input, shown.shape[:1] and (1,), (1,), input.offset)
        inplace.check_elements("fill_diagonal", shown)
        fill_into(shown, fill_value)
        return input
    if inplace.repeated(input) and input.ndim == 2:         # recorded
        fill_(diagonal_op(input, offset=0), fill_value)
        return input
    if wrap and input.ndim == 2:
        key = unravel_index(arange(0, input._size, input.shape[1] + 1, device=input.device), input.shape)
    else:
        key = (arange(min(input.shape), device=input.device),) * input.ndim
    setitem(input, key, fill_value)
    return input
