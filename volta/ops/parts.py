"""Parts of a tensor as views: slices, splits, diagonals, windows."""
from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph, histories, indexing, order
from volta.dtypes import int64
from volta.errors import ArgumentError, IndexRangeError, RankError
from volta.ops.records.view import diagonal_op, permute_op, reshape_op, slice_op, unfold_op
from volta.ops.table import case, composed
from volta.shapes import as_dim, moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from volta.tensor import Tensor

MOST_PARTS = 1 << 20        # that tensor_split makes where there are fewer slices


def slice_view(input: Tensor, slices: tuple[slice, ...]) -> Tensor:
    """Basic slicing of the leading dimensions."""
    return slice_op(input, **indexing.parse(input, slices))


def _dim(op: str, verb: str, x: Tensor, dim: int) -> int:
    """The dimension to work on. Raises: RankError for a 0-d tensor, which has none."""
    d = as_dim(op, dim, len(x._shape))
    if not x._shape:
        raise RankError(f"{op}: a 0-d tensor has no dimension to {verb}; reshape it to (1,)")
    return d


def cut(x: Tensor, d: int, parts: Iterable[tuple[int, int]]) -> tuple[Tensor, ...]:
    """Per (start, length) that part of dimension d."""
    return tuple([graph.call(slice_op, (x,), indexing.part(x, d, a, n)) for a, n in parts])


@composed(samples=(case((4, 5), dim=1, start=1, length=3), case((4,), dim=-1, start=-2, length=2)), kinds="fib", view=True,
          numpy=lambda x, dim, start, length: np.take(x, range(start, start + length), dim))
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """`length` slices from `start` (which may be a 0-d integer tensor) along `dim`, as a view.

    Raises: IndexRangeError outside the dimension; ArgumentError for a 0-d input, and for what is no integer.

    >>> volta.narrow(volta.arange(5), 0, 1, 3).tolist()
    [1, 2, 3]
    """
    d = _dim("narrow", "narrow", input, dim)
    if type(start) is not int or type(length) is not int:
        start, length = _whole("narrow", "start", start), _whole("narrow", "length", length)
    n = input._shape[d]
    start = start + n if -n <= start < 0 else start
    if not 0 <= start <= start + length <= n:
        raise IndexRangeError(f"narrow: {start}:{start + length} lies outside dimension {dim} of size {n}")
    return graph.call(slice_op, (input,), indexing.part(input, d, start, length))


def _whole(op: str, name: str, value: object) -> int:
    """`value` as an int. Raises: ArgumentError for a bool and for what is no integer."""
    tensor = isinstance(value, core.TensorBase)
    if isinstance(value, bool) or not hasattr(value, "__index__") or tensor and (value.shape or value.dtype.category != 1):
        raise ArgumentError(f"{op}: {name} must be an integer, got {f'a tensor of {value.dtype} {value.shape}' if tensor else repr(value)}")
    return operator.index(value)


@composed(samples=(case((4, 5), dim=1, index=-2), case((3,), dim=0, index=1)), kinds="fib", view=True,
          numpy=lambda x, dim, index: np.take(x, index, dim))
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` of a dimension, without it, as a view.

    Raises: IndexRangeError for an index outside of it.

    >>> volta.select(volta.arange(6).reshape(2, 3), 1, -1).tolist()
    [2, 5]
    """
    d, i = _dim("select", "select from", input, dim), index if type(index) is int else _whole("select", "index", index)
    n = input._shape[d]
    if not -n <= i < n:
        raise IndexRangeError(f"select: index {index} lies outside dimension {dim} of size {n}")
    return graph.call(slice_op, (input,), indexing.at(input, d, i + n if i < 0 else i))


@composed(samples=(case((4, 5), bounds=((1, 3), (0, 5))),), kinds="fib", view=True,
          numpy=lambda x, bounds: x[tuple(slice(*b) for b in bounds)])
def shrink(input: Tensor, bounds: Sequence[tuple[int, int]]) -> Tensor:
    """Per dimension (start, stop), as a view: the inverse of `pad`.

    Raises: ArgumentError for anything but a pair per dimension; IndexRangeError for bounds outside of one.

    >>> volta.shrink(volta.arange(5), [(1, 3)]).tolist()
    [1, 2]
    """
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in bounds):
        raise ArgumentError(f"shrink: bounds must be pairs (start, stop), got {bounds!r}")
    if len(bounds) != input.ndim:
        raise ArgumentError(f"shrink: {len(bounds)} bounds for a tensor of rank {input.ndim}")
    for d, ((a, b), n) in enumerate(zip(bounds, input.shape)):
        if not 0 <= a <= b <= n:
            raise IndexRangeError(f"shrink: bounds ({a}, {b}) lie outside dimension {d} of size {n}")
    return slice_view(input, tuple(slice(a, b) for a, b in bounds))


@composed(samples=(case((4, 5), steps=(2, -1)),), kinds="fib", view=True,
          numpy=lambda x, steps: x[tuple(slice(None, None, s) for s in steps)])
def stride_op(input: Tensor, steps: Sequence[int]) -> Tensor:
    """Every steps[i]-th element of dimension i, as a view; a negative step runs backwards.

    Raises: ArgumentError unless there is a step for each dimension, none of which is 0.

    >>> volta.stride_op(volta.arange(5), (-2,)).tolist()
    [4, 2, 0]
    """
    if len(steps) != input.ndim or 0 in steps:
        raise ArgumentError(f"stride_op: needs {input.ndim} non-zero steps, got {tuple(steps)}")
    return slice_view(input, tuple(slice(None, None, s) for s in steps))


# ---------------------------------------------------------------- several
def _split(op, input, size_or_sections, dim):
    return histories.several(slice_op, input, _sections(op, input, size_or_sections, dim), op)


def apart(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Views as tensors of their own, which PyTorch's "unsafe" functions give: a change of one is none of what it shows."""
    for each in parts:
        order.owned(each)
        each._requires_grad = each._node is not None
    return parts


def _sections(op, input, size_or_sections, dim):
    """Where the parts lie."""
    d = _dim(op, "split", input, dim)
    n, size = input._shape[d], size_or_sections
    if hasattr(size, "__index__"):
        if size < (n > 0):
            raise ArgumentError(f"{op}: the size must be positive, got {size}")
        return indexing.parts(input, d, size)
    parts, start = [], 0
    for length in size:
        parts.append((start, length))
        start += length
    if start != n:
        raise ArgumentError(f"{op}: the sections {list(size)} add up to {start}, dimension {dim} has {n}")
    if min(size, default=0) < 0:
        raise ArgumentError(f"{op}: the sections must not be negative, got {list(size)}")
    return [indexing.part(input, d, a, length) for a, length in parts]


@composed(samples=(case((5, 2), 2), case((2, 6), 4, dim=-1)), kinds="fib", view=True, method=False,
          numpy=lambda x, size, dim=0: tuple(np.split(x, range(size, x.shape[dim], size), dim)))
def split(input: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of `split_size` slices each (the last may be smaller), or of the given lengths.

    >>> [part.tolist() for part in volta.split(volta.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    return _split("split", input, split_size_or_sections, dim)


@composed(samples=(case((5, 2), 3), case((2, 6), 2, dim=1)), kinds="fib", view=True,
          numpy=lambda x, chunks, dim=0: tuple(np.array_split(x, chunks, dim)))
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most `chunks` equal parts.

    Raises: ArgumentError unless `chunks` is positive.

    >>> [part.tolist() for part in volta.chunk(volta.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    if chunks <= 0:
        raise ArgumentError(f"chunk: chunks must be positive, got {chunks}")
    d = _dim("chunk", "split", input, dim)
    n = input._shape[d]
    places = indexing.parts(input, d, -(-n // chunks)) if n else _sections("chunk", input, [0] * chunks, d)
    return histories.several(slice_op, input, places, "chunk")


@composed(samples=(case((3, 2)), case((3, 2), dim=-1)), kinds="fib", view=True, numpy=lambda x, dim=0: tuple(np.moveaxis(x, dim, 0)))
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along `dim`, each without it.

    Raises: IndexRangeError for a 0-d tensor.

    >>> [row.tolist() for row in volta.unbind(volta.ones(2, 3))]
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    if input.ndim == 0:
        raise IndexRangeError("unbind: a 0-d tensor has no dimension to take apart")
    d = as_dim("unbind", dim, input.ndim)
    return histories.several(slice_op, input, list(indexing.every(input, d)), "unbind")


@composed(samples=(case((7, 2), indices_or_sections=3), case((2, 7), indices_or_sections=(1, 4), dim=1)), kinds="fib", view=True,
          numpy=lambda x, indices_or_sections, dim=0: tuple(np.array_split(x, indices_or_sections, dim)))
def tensor_split(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of as equal parts as possible, or of the parts between the given positions. A tensor is read on the host.

    Raises: ArgumentError for a 0-d input, for what is no integer, and for a number of parts out of proportion to the tensor.

    >>> [part.tolist() for part in volta.tensor_split(volta.arange(5), (1, 3))]
    [[0], [1, 2], [3, 4]]
    """
    d = _dim("tensor_split", "split", input, dim)
    n, parts = input._shape[d], indices_or_sections
    if type(parts) is int and 1 <= parts <= n and n % parts == 0:
        return tuple([graph.call(slice_op, (input,), part) for part in indexing.parts(input, d, n // parts)])
    if isinstance(parts, core.TensorBase):
        if parts.ndim > 1 or parts.dtype is not int64:
            raise ArgumentError(f"tensor_split: needs int64 of rank 0 or 1, got {parts.dtype} of shape {parts.shape}")
        parts = parts.tolist()
    if hasattr(parts, "__index__"):
        if isinstance(parts, bool) or not 1 <= parts <= max(n, MOST_PARTS):
            raise ArgumentError(f"tensor_split: the number of parts must be an integer of 1 to {max(n, MOST_PARTS)}, got {parts}")
        least, more = divmod(n, parts)
        parts = [i * least + min(i, more) for i in range(1, parts)]
    bounds = [0, *(min(max(i + n if i < 0 else i, 0), n) for i in map(operator.index, parts)), n]
    return cut(input, d, [(a, max(b - a, 0)) for a, b in zip(bounds, bounds[1:])])


@composed(samples=(case((5, 2), 2),), kinds="fib", view=True,
          numpy=lambda x, size, dim=0: tuple(np.split(x, range(size, x.shape[dim], size), dim)))
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`, whose parts may be changed in place: none of the others, nor `input`, has a history of that.

    >>> [part.tolist() for part in volta.unsafe_split(volta.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    return apart(_split("unsafe_split", input, split_size, dim))


@composed(samples=(case((5, 2), 3),), kinds="fib", view=True, numpy=lambda x, chunks, dim=0: tuple(np.array_split(x, chunks, dim)))
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`, whose parts may be changed in place: none of the others, nor `input`, has a history of that.

    >>> [part.tolist() for part in volta.unsafe_chunk(volta.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    return apart(chunk(input, chunks, dim))


# ---------------------------------------------------------------- diagonals and windows
@composed(samples=(case((3, 4)), case((3, 4, 2), offset=-1, dim1=2, dim2=0)), kinds="fib", view=True,
          numpy=lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2))
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as the last one, a view; a positive offset lies above it.

    Raises: ArgumentError for one dimension named twice.

    >>> volta.diagonal(volta.arange(6).reshape(2, 3), 1).tolist()
    [1, 5]
    """
    rank = len(input._shape)
    if rank == 2 and dim1 == 0 and dim2 == 1:
        return graph.call(diagonal_op, (input,), {"offset": offset})
    a, b = as_dim("diagonal", dim1, rank), as_dim("diagonal", dim2, rank)
    if rank < 2 or a == b:
        raise ArgumentError(f"diagonal: needs two different dimensions, got {dim1} and {dim2} of a tensor of rank {rank}")
    last = input if (a, b) == (rank - 2, rank - 1) else permute_op(input, dims=moved((a, b), (rank - 2, rank - 1), rank))
    return graph.call(diagonal_op, (last,), {"offset": offset})


def _np_windows(x, dimension, size, step):
    return np.lib.stride_tricks.sliding_window_view(x, size, dimension)[(slice(None),) * dimension + (slice(None, None, step),)]


@composed(samples=(case((7,), dimension=0, size=3, step=2), case((2, 5), dimension=1, size=2, step=1)), kinds="fib", view=True,
          function=False, numpy=_np_windows)
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements, `step` apart, along a dimension; the elements of a window lie along a new last one. A view.

    Raises: ArgumentError for a `size` beyond the dimension's, or a `step` below 1.

    >>> volta.arange(4).unfold(0, 2, 1).tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    shape = input._shape
    d = as_dim("unfold", dimension, len(shape))
    n = shape[d] if shape else 1
    if not 0 <= size <= n or step < 1:
        raise ArgumentError(f"unfold: size {size} must be 0 to {n}, and step {step} positive")
    if shape:
        return graph.call(unfold_op, (input,), {"dim": d, "size": size, "step": step})
    return cut(reshape_op(input, shape=(1,)), 0, ((0, size),))[0]
