"""Rearrangements composed of views, joins and copies: splits by dimension, diagonals, parts replaced, any strides."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph, indexing, reshaping
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import all_bare, bare, of_one_dtype
from volta.dtypes import float16, result_type
from volta.errors import ArgumentError, DTypeError, ShapeError, warn_once
from volta.ops import reduce
from volta.ops.assign import copy_
from volta.ops.copy import clone, flipped
from volta.ops.creation import zeros
from volta.ops.join import cat
from volta.ops.parts import _split, apart, diagonal, select, slice_view, tensor_split
from volta.ops.records.copy import cast, copy_into_op
from volta.ops.records.create import full_op
from volta.ops.records.strided import as_strided_op
from volta.ops.records.view import contiguous_op, flat, on_diagonal, permute_op, place, reshape_op, row_major
from volta.ops.table import Many, case, composed
from volta.ops.view import movedim, unsqueeze
from volta.shapes import as_dim, as_shape, broadcasts_to, exchanged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor


# ---------------------------------------------------------------- splits
@composed(samples=(case((5, 2), split_sizes=(2, 3)), case((2, 6), split_sizes=(4, 2), dim=-1)), kinds="fib", view=True,
          numpy=lambda x, split_sizes, dim=0: tuple(np.split(x, np.cumsum(split_sizes)[:-1], dim)))
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the given lengths, which add up to the dimension.

    Raises: ArgumentError for one number, which `split` takes.

    >>> [part.tolist() for part in volta.split_with_sizes(volta.arange(5), (2, 3))]
    [[0, 1], [2, 3, 4]]
    """
    if hasattr(split_sizes, "__index__"):
        raise ArgumentError(f"split_with_sizes: needs a list of lengths, got {split_sizes!r}; split takes one number")
    return _split("split_with_sizes", input, split_sizes, dim)


@composed(samples=(case((5, 2), split_sizes=(2, 3)),), kinds="fib", view=True,
          numpy=lambda x, split_sizes, dim=0: tuple(np.split(x, np.cumsum(split_sizes)[:-1], dim)))
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, whose parts may be changed in place: none of the others, nor `input`, has a history of that.

    >>> [part.tolist() for part in volta.unsafe_split_with_sizes(volta.arange(5), (2, 3))]
    [[0, 1], [2, 3, 4]]
    """
    return apart(split_with_sizes(input, split_sizes, dim))


def _split_along(name, input, indices_or_sections, dim, least):
    if input.ndim < least:
        raise ArgumentError(f"{name}: needs a tensor of at least {least} dimensions, got shape {input.shape}")
    if hasattr(indices_or_sections, "__index__") and (indices_or_sections < 1 or input.shape[dim] % indices_or_sections):
        raise ArgumentError(f"{name}: dimension {dim} of size {input.shape[dim]} cannot be split into {indices_or_sections} equal parts; "
                            "tensor_split takes unequal ones")
    return tensor_split(input, indices_or_sections, dim)


@composed(samples=(case((4, 6), indices_or_sections=3), case((6,), indices_or_sections=(1, 4))), kinds="fib", view=True,
          numpy=lambda x, indices_or_sections: tuple(np.hsplit(x, indices_or_sections)))
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Equal parts, or the parts between positions, along dimension 1 (0 of a vector), as views.

    >>> [part.tolist() for part in volta.hsplit(volta.arange(4), 2)]
    [[0, 1], [2, 3]]
    """
    return _split_along("hsplit", input, indices_or_sections, int(input.ndim > 1), 1)


@composed(samples=(case((4, 6), indices_or_sections=2), case((5, 1), indices_or_sections=(1, 4))), kinds="fib", view=True,
          numpy=lambda x, indices_or_sections: tuple(np.vsplit(x, indices_or_sections)))
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Equal parts, or the parts between positions, along dimension 0, as views.

    >>> [part.tolist() for part in volta.vsplit(volta.arange(4).reshape(2, 2), 2)]
    [[[0, 1]], [[2, 3]]]
    """
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


@composed(samples=(case((2, 1, 4), indices_or_sections=2), case((1, 2, 5), indices_or_sections=(1, 4))), kinds="fib", view=True,
          numpy=lambda x, indices_or_sections: tuple(np.dsplit(x, indices_or_sections)))
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Equal parts, or the parts between positions, along dimension 2, as views.

    >>> [part.shape for part in volta.dsplit(volta.ones(1, 2, 4), 2)]
    [volta.Size([1, 2, 2]), volta.Size([1, 2, 2])]
    """
    return _split_along("dsplit", input, indices_or_sections, 2, 3)


# ---------------------------------------------------------------- ranks and order
def _atleast(rank, places):
    """The function of tensors with new dimensions at the places that belong to their number of dimensions."""
    def deep(x):
        for d in places[x.ndim] if x.ndim < rank else ():
            x = unsqueeze(x, d)
        return x

    def function(*tensors):
        if len(tensors) > 1 and not all(isinstance(x, core.TensorBase) for x in tensors):
            raise DTypeError(f"atleast_{rank}d: needs tensors, or one list of them, got {[type(x).__name__ for x in tensors]}")
        found = [deep(x) for x in
                 (tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], core.TensorBase) else tensors)]
        return found[0] if len(tensors) == 1 and tensors[0] is not None and isinstance(tensors[0], core.TensorBase) else tuple(found)
    return function


_ATLEAST = _atleast(1, [[0]]), _atleast(2, [[0, 0], [0]]), _atleast(3, [[0, 0, 0], [0, 2], [2]])


@composed(samples=(case(()), case((3,))), kinds="fib", view=True, method=False, numpy=np.atleast_1d)
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """A number as a vector, of one tensor or each of several.

    >>> volta.atleast_1d(volta.tensor(2.0))
    tensor([2.])
    """
    return _ATLEAST[0](*tensors)


@composed(samples=(case(()), case((3,)), case((1, 2, 3))), kinds="fib", view=True, method=False, numpy=np.atleast_2d)
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """A number or vector as a matrix of one row, of one tensor or each of several.

    >>> volta.atleast_2d(volta.arange(2)).tolist()
    [[0, 1]]
    """
    return _ATLEAST[1](*tensors)


@composed(samples=(case(()), case((3,)), case((2, 3))), kinds="fib", view=True, method=False, numpy=np.atleast_3d)
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """As three dimensions: a vector lies along the middle one, a matrix along the first two.

    >>> volta.atleast_3d(volta.arange(2)).tolist()
    [[[0], [1]]]
    """
    return _ATLEAST[2](*tensors)


@composed(samples=(case((2, 3)), case((2, 3, 4))), kinds="fib", view=True, numpy=lambda x: np.swapaxes(x, -1, -2))
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged, as a view: of real numbers, what `mT` is.

    Raises: ShapeError for a vector.

    >>> volta.adjoint(volta.arange(4).reshape(2, 2)).tolist()
    [[0, 2], [1, 3]]
    """
    if input.ndim == 1:
        raise ShapeError(f"adjoint: needs a matrix, or a batch of them, got shape {input.shape}")
    rank = len(input._shape)
    if not rank:
        warn_once("adjoint: of a tensor without dimensions it is deprecated; write conj", stacklevel=3)
        return input
    return graph.call(permute_op, (input,), {"dims": exchanged("adjoint", rank, rank - 2, rank - 1)})


@composed(samples=(case((2, 3)), case((2, 3, 4), k=2, dims=(1, 2)), case((2, 3), k=-1)), kinds="fib",
          numpy=lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims))
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated by k times 90 degrees in the plane of two dimensions, from the first towards the second.

    Raises: ArgumentError unless `dims` are two different dimensions of the tensor.

    >>> volta.rot90(volta.arange(4).reshape(2, 2)).tolist()
    [[1, 3], [0, 2]]
    """
    if len(dims) != 2 or input.ndim < 2:
        raise ArgumentError(f"rot90: needs two dimensions of a tensor of at least two, got dims {list(dims)} and shape {input.shape}")
    rank = input.ndim
    a, b = as_dim("rot90", dims[0], rank), as_dim("rot90", dims[1], rank)
    if a == b:
        raise ArgumentError(f"rot90: dims must be two different dimensions, got {list(dims)}")
    k %= 4
    if k in (0, 2):
        return flipped(input, (a, b)) if k else contiguous_op(input)
    turned = flipped(input, (b,) if k == 1 else (a,))
    order = exchanged("rot90", rank, a, b)
    return reshaping.permute_view(turned, dims=order) if bare(input) else permute_op(turned, dims=order)


def _np_sum_to_size(x, *shape, size=()):
    shape = (*shape, *size)
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    return x.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(shape)


@composed(samples=(case((3, 4), 4), case((2, 3), 2, 1), case((2, 3), size=())), kinds="fi", function=False, numpy=_np_sum_to_size)
def sum_to_size(input: Tensor, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Tensor:
    """Summed to a shape that broadcasts to this tensor's.

    Raises: ShapeError where it does not; TypeError without a size.

    >>> volta.ones(2, 3).sum_to_size(3)
    tensor([2., 2., 2.])
    """
    if not shape and size is None:
        raise TypeError("sum_to_size: needs the size to sum to")
    shape = as_shape(*(shape if size is None else (*shape, size)))
    if not broadcasts_to(shape, input.shape):
        raise ShapeError(f"sum_to_size: {input.shape} cannot be summed to {shape}")
    if not shape:
        return reduce.sum(input)
    lead = input.ndim - len(shape)
    dims = tuple(d for d, n in enumerate(input.shape) if d < lead or shape[d - lead] != n)
    return reshape_op(reduce.sum(input, dims, True), shape=shape) if dims else input


# ---------------------------------------------------------------- joins
@composed(out="cast", apart=0, samples=(case(Many(((2, 3), (2, 3)))), case(Many(((3,), (3,)))), case(Many(((), ())))), kinds="fib",
          method=False, numpy=np.dstack)
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """`cat` along dimension 2, of tensors made three-dimensional by `atleast_3d`.

    >>> volta.dstack((volta.arange(2), volta.arange(2))).tolist()
    [[[0, 0], [1, 1]]]
    """
    return cat(list(_ATLEAST[2](list(tensors))), 2)


def _np_block_diag(*blocks):
    blocks = [np.atleast_2d(b) for b in blocks]
    out = np.zeros(np.sum([b.shape for b in blocks], 0), np.result_type(*blocks))
    row = column = 0
    for b in blocks:
        out[row:row + b.shape[0], column:column + b.shape[1]] = b
        row, column = row + b.shape[0], column + b.shape[1]
    return out


@composed(samples=(case((2, 3), (1, 2)), case((), (3,), (0, 2))), kinds="fib", method=False, numpy=_np_block_diag)
def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices (vectors are rows, numbers 1 x 1) as blocks along the diagonal, zeros elsewhere.

    Raises: ShapeError for a tensor of rank above 2.

    >>> volta.block_diag(volta.ones(1, 2), volta.tensor(3.0))
    tensor([[1., 1., 0.],
            [0., 0., 3.]])
    """
    if (found := _bare_blocks(tensors)) is not None:
        return found
    if any(x.ndim > 2 for x in tensors):
        raise ShapeError(f"block_diag: needs matrices, vectors and numbers, got shapes {[x.shape for x in tensors]}")
    if not tensors:
        return zeros(1, 0)
    dtype, column = result_type(*tensors), 0
    blocks = [cast(b, dtype) for b in _ATLEAST[1](list(tensors))]
    width, rows = sum(b.shape[1] for b in blocks), []
    if all(map(core.host_sees, blocks)) and not any(map(graph.wants_derivative, blocks)):
        out, row = blocks[0].new_zeros((sum(b.shape[0] for b in blocks), width)), 0
        for b in blocks:
            copy_into_op(slice_view(out, (slice(row, row + b.shape[0]), slice(column, column + b.shape[1]))), b)
            row, column = row + b.shape[0], column + b.shape[1]
        return out
    for b in blocks:
        before, after = ((b.shape[0], n) for n in (column, width - column - b.shape[1]))
        if b._size and dtype.code:
            rows.append(place(b, value=0.0 if dtype.is_floating_point else 0, shape=(b.shape[0], width), starts=(0, column), steps=(1, 1)))
        else:
            rows.append(cat([b.new_zeros(before), b, b.new_zeros(after)], 1))
        column += b.shape[1]
    return cat(rows, 0)


def _bare_blocks(blocks):
    """The same of matrices of one dtype that nobody records or watches; else None."""
    rows = columns = row = column = 0
    if not of_one_dtype(blocks, False) or not all_bare(blocks):
        return None
    for b in blocks:
        if len(b._shape) != 2:
            return None
        rows, columns = rows + b._shape[0], columns + b._shape[1]
    device, dtype = blocks[0].device, blocks[0].dtype
    out = run_kernel(full_op, device, ((rows, columns), 0), {"dtype": dtype, "device": device})
    for b in blocks:
        if b._size:
            run_kernel(copy_into_op, device, (core.view(out, b._shape, (columns, 1), row * columns + column), b))
        row, column = row + b._shape[0], column + b._shape[1]
    return out


# ---------------------------------------------------------------- diagonals
def _np_diag_embed(x, offset=0, dim1=-2, dim2=-1):
    n = x.shape[-1] + abs(offset)
    out = np.zeros(x.shape[:-1] + (n, n), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


@composed(samples=(case((2, 3)), case((3,), offset=1), case((2, 3), offset=-1, dim1=0, dim2=2)), kinds="fib", numpy=_np_diag_embed)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension of `input` on the diagonal of two new dimensions.

    Raises: ArgumentError for a 0-d tensor, or twice the same dimension.

    >>> volta.diag_embed(volta.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    a, b = (as_dim("diag_embed", d, input.ndim + 1) for d in (dim1, dim2))
    if not input.ndim or a == b:
        raise ArgumentError(f"diag_embed: needs at least a vector and two different dimensions, got shape {input.shape}, {dim1}, {dim2}")
    n = input.shape[-1] + abs(offset)
    out = on_diagonal(input, (n, n), offset)
    return out if a + 1 == b == input.ndim else row_major(movedim(out, (-2, -1), (a, b)))


@composed(samples=(case((2, 2)), case((), offset=1)), kinds="fib", numpy=lambda x, offset=0: np.diagflat(x, offset))
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix of zeros with all elements on a diagonal.

    >>> volta.diagflat(volta.tensor([1.0, 2.0]), 1).shape
    volta.Size([3, 3])
    """
    return diag_embed(flat(input), offset)


# ---------------------------------------------------------------- parts replaced
def _with_gaps(x):
    """A copy with the very strides of x, where they leave gaps and show no element twice."""
    strides = x._strides
    if x._contiguous or core.stands_in(x) or any(s <= 0 and n > 1 for s, n in zip(strides, x.shape)):
        return clone(x)
    memory = zeros(1 + sum((n - 1) * s for n, s in zip(x.shape, strides)), dtype=x.dtype, device=x.device)
    return copy_(core.view(memory, x.shape, strides, 0), x)


def _replaced(name, input, src, part):
    """A copy of `input` in which part(copy), a view, holds `src`."""
    out = _with_gaps(input)
    shown = part(out)
    if shown.shape != src.shape:
        raise ShapeError(f"{name}: src must have the shape of what it replaces, {shown.shape}, got {src.shape}")
    if src.dtype is out.dtype and src.device is out.device and bare(out, src):
        run_kernel(copy_into_op, out.device, (shown, src))
    else:
        copy_(shown, src)
    return out


def _np_replaced(index):
    def replaced(x, src, *args, **options):
        out = x.copy()
        index(out, *args, **options)[...] = src
        return out
    return replaced


def _np_diagonal_scatter(x, src, offset=0, dim1=0, dim2=1):
    out, i = x.copy(), np.arange(src.shape[-1])
    np.moveaxis(out, (dim1, dim2), (-2, -1))[..., i + max(-offset, 0), i + max(offset, 0)] = src
    return out


@composed(samples=(case((3, 4), (3,)), case((3, 4, 2), (4, 1), offset=-1, dim1=2, dim2=0)), kinds="fib", numpy=_np_diagonal_scatter)
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with `src` on the diagonal that `diagonal` shows.

    >>> volta.diagonal_scatter(volta.zeros(2, 2), volta.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _replaced("diagonal_scatter", input, src, lambda out: diagonal(out, offset, dim1, dim2))


@composed(samples=(case((3, 4), (3,), 1, -2), case((3,), (), 0, 1)), kinds="fib",
          numpy=_np_replaced(lambda x, dim, index: np.moveaxis(x, dim, 0)[index:index + 1 or None]))
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` as the slice at `index` of a dimension.

    >>> volta.select_scatter(volta.zeros(2, 2), volta.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    return _replaced("select_scatter", input, src, lambda out: select(out, dim, index))


@composed(samples=(case((4, 3), (2, 3), start=1, end=3), case((2, 5), (2, 3), dim=1, step=2)), kinds="fib",
          numpy=_np_replaced(lambda x, dim=0, start=None, end=None, step=1: x[(slice(None),) * dim + (slice(start, end, step),)]))
def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """A copy of `input` with `src` in start:end:step of a dimension.

    Raises: ArgumentError for a `step` below 1.

    >>> volta.slice_scatter(volta.zeros(3), volta.ones(2), start=1)
    tensor([0., 1., 1.])
    """
    d = as_dim("slice_scatter", dim, input.ndim)
    if step < 1:
        raise ArgumentError(f"slice_scatter: step must be positive, got {step}")
    return _replaced("slice_scatter", input, src, lambda out: slice_view(out, (slice(None),) * d + (slice(start, end, step),)))


# ---------------------------------------------------------------- any strides
@composed(view=True, geometry=True, untested="tests/test_arrange.py: it shows the storage, which the samples' layouts do not share")
def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view of the storage of `input`: any sizes and strides, from an offset. Units: elements.

    Raises: ArgumentError for negative strides, and where an element would lie outside the storage.

    >>> volta.as_strided(volta.arange(4), (3, 2), (1, 1)).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    offset = input.offset if storage_offset is None else storage_offset
    if type(size) is type(stride) is tuple and indexing.strided(input, size, stride, offset):
        own = input._strides, input.offset
        return graph.call(as_strided_op, (input,), {"size": size, "stride": stride, "offset": offset, "own": own})
    size, stride = as_shape(*size) if not hasattr(size, "__index__") else (size,), tuple(stride)
    if len(size) != len(stride) or stride and min(stride) < 0 or offset < 0:
        raise ArgumentError(f"as_strided: needs as many strides >= 0 as sizes, and an offset >= 0, got sizes {size}, strides {stride} and "
                            f"offset {offset}")
    last = offset
    for n, s in zip(size, stride):
        last += (n - 1) * s
    width = input.itemsize if not input.device.is_gpu or input.dtype is float16 else 4
    held = input.storage.nbytes // width
    if last >= held and 0 not in size:
        raise ArgumentError(f"as_strided: sizes {size}, strides {stride} and offset {offset} reach element {last}, the storage has {held}")
    return as_strided_op(input, size=size, stride=stride, offset=offset, own=(input._strides, input.offset))


@composed(untested="tests/test_arrange.py: as of as_strided")
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A copy of `input` with `src` where `as_strided` shows it: of what lies in memory up to its last element, or in rows where it shows
    an element several times. Units: elements.

    >>> volta.as_strided_scatter(volta.zeros(4), volta.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    name, strides, offset = "as_strided_scatter", input.stride(), input.offset
    if input._contiguous and not offset or 0 in input.shape or any(s == 0 and n > 1 for n, s in zip(input.shape, strides)):
        return _replaced(name, input, src, lambda out: as_strided(out, size, stride, storage_offset or 0))
    held = offset + 1 + sum((n - 1) * s for n, s in zip(input.shape, strides))
    out = _replaced(name, as_strided(input, (held,), (1,), 0), src,
                    lambda out: as_strided(out, size, stride, offset if storage_offset is None else storage_offset))
    return as_strided(out, input.shape, strides, offset)
