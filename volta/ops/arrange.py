"""Rearranging composed of the views and copies of `movement.py`: moved, rolled, tiled and joined dimensions, diagonals, grids."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta._kernels import core
from volta.errors import ArgumentError, ShapeError
from volta.ops.movement import _place, _reshape, cat, contiguous_, expand, flip, listed, narrow, permute, repeat, transpose
from volta.ops.padding import pad
from volta.ops.table import case, register
from volta.shapes import as_dim, as_shape, broadcast_shapes, infer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

MOST_PARTS = 1 << 20        # that tensor_split makes where there are fewer slices


# ---------------------------------------------------------------- diagonals
def _diagonal_kernel(x, *, offset):
    """The diagonal of the last two dimensions as the last one."""
    rows, columns = x.shape[-2:]
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    down, across = x._strides[-2:]
    start = x.offset + (offset * across if offset > 0 else -offset * down) if length else x.offset
    return core.view(x, x.shape[:-2] + (length,), x._strides[:-2] + (down + across,), start)


def _np_diagonal(x, offset):
    import numpy
    return numpy.diagonal(x, offset, -2, -1)


_diagonal = register(
    "diagonal", ("x",), family="view", view=_diagonal_kernel, numpy=_np_diagonal,
    vjp=(lambda g, x_shape, offset: _on_diagonal(g, x_shape[-2:], offset),),
    cases=(case((3, 5), offset=0), case((2, 4, 3), offset=1), case((4, 3), offset=-2), case((2, 3), offset=5), case((0, 3), offset=0)))


def _on_diagonal(g, shape, offset):
    """Zeros of shape (..., *shape) with g on the diagonal: the derivative of `diagonal`."""
    from volta.ops.creation import arange
    from volta.ops.elementwise import where
    rows, columns = shape
    before = max(-offset, 0)
    by_row = pad(g, (before, rows - before - g.shape[-1]) if g.shape[-1] else (rows, 0))
    row = _reshape(arange(rows, device=g.device), shape=(rows, 1))
    nothing = False if g.dtype.code == 0 else 0
    return where(arange(columns, device=g.device) == row + offset, _reshape(by_row, shape=by_row.shape + (1,)), nothing)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as the last one, a view; a positive offset lies above it.

    Raises: ArgumentError for one dimension named twice.
    """
    a, b = as_dim("diagonal", dim1, input.ndim), as_dim("diagonal", dim2, input.ndim)
    if input.ndim < 2 or a == b:
        raise ArgumentError(f"diagonal: needs two different dimensions, got {dim1} and {dim2} of a tensor of rank {input.ndim}")
    rest = [d for d in range(input.ndim) if d not in (a, b)]
    return _diagonal(permute(input, *rest, a, b), offset=offset)


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or a matrix with a vector on its diagonal."""
    if input.ndim == 2:
        return contiguous_(_diagonal(input, offset=diagonal))
    if input.ndim != 1:
        raise ShapeError(f"diag: needs a vector or a matrix, got shape {input.shape}")
    size = input.shape[0] + abs(diagonal)
    return _on_diagonal(input, (size, size), diagonal)


def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise ShapeError(f"trace: needs a matrix, got shape {input.shape}")
    return _diagonal(input, offset=0).sum()


# ---------------------------------------------------------------- views
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` of a dimension, without it, as a view."""
    d = as_dim("select", dim, input.ndim)
    return _reshape(narrow(input, d, index, 1), shape=input.shape[:d] + input.shape[d + 1:])


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """`transpose` under NumPy's name."""
    return transpose(input, axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """`transpose` under another name."""
    return transpose(input, dim0, dim1)


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions moved to other places, the others in their order, as a view."""
    sources, places = (tuple(as_dim("movedim", d, input.ndim) for d in ((v,) if hasattr(v, "__index__") else v))
                       for v in (source, destination))
    if len(sources) != len(places) or len(set(sources)) != len(sources) or len(set(places)) != len(places):
        raise ArgumentError(f"movedim: source {source} and destination {destination} must name as many different dimensions")
    rest = iter(d for d in range(input.ndim) if d not in sources)
    return permute(input, tuple(sources[places.index(d)] if d in places else next(rest) for d in range(input.ndim)))


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """A dimension as several (one size may be -1), as a view."""
    d = as_dim("unflatten", dim, input.ndim)
    return _reshape(input, shape=input.shape[:d] + infer("unflatten", input.shape[d], tuple(sizes)) + input.shape[d + 1:])


def ravel(input: Tensor) -> Tensor:
    """The elements as one dimension."""
    return _reshape(input, shape=(input._size,))


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(expand(t, shape) for t in tensors)


def meshgrid(*tensors: Tensor, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors as coordinates of a grid: the i-th result varies along dimension i; with indexing="xy" the first two are exchanged."""
    vectors = listed("meshgrid", tensors, None)
    if indexing not in ("ij", "xy") or any(t.ndim > 1 for t in vectors):
        raise ArgumentError(f"meshgrid: needs vectors and indexing 'ij' or 'xy', got shapes {[t.shape for t in vectors]} and {indexing!r}")
    shape = tuple(t._size for t in vectors)
    grids = [expand(_reshape(t, shape=(1,) * i + (t._size,) + (1,) * (len(shape) - i - 1)), shape) for i, t in enumerate(vectors)]
    return tuple(transpose(t, 0, 1) if indexing == "xy" and len(shape) > 1 else t for t in grids)


def tensor_split(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0) -> tuple:
    """Views of as equal parts as possible, or of the parts between the given positions. A tensor is read on the host.

    Raises: ArgumentError for a 0-d input, for what is no integer, and for a number of parts out of proportion to the tensor.
    """
    d = as_dim("tensor_split", dim, input.ndim)
    if not input.shape:
        raise ArgumentError("tensor_split: a 0-d tensor has no dimension to split; reshape it to (1,)")
    n, parts = input.shape[d], indices_or_sections
    if isinstance(parts, core.TensorBase):
        if parts.ndim > 1 or parts.dtype.category != 1:
            raise ArgumentError(f"tensor_split: needs integers of rank 0 or 1, got {parts.dtype} of shape {parts.shape}")
        parts = parts.tolist()
    if hasattr(parts, "__index__"):
        if isinstance(parts, bool) or not 1 <= parts <= max(n, MOST_PARTS):
            raise ArgumentError(f"tensor_split: the number of parts must be an integer of 1 to {max(n, MOST_PARTS)}, got {parts}")
        least, more = divmod(n, parts)
        parts = [i * least + min(i, more) for i in range(1, parts)]
    bounds = [0, *(min(max(i + n if i < 0 else i, 0), n) for i in parts), n]
    return tuple(narrow(input, d, a, max(b - a, 0)) for a, b in zip(bounds, bounds[1:]))


# ---------------------------------------------------------------- copies
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """The elements moved along `dims`, those that leave at the end coming in at the start; without `dims`, as one dimension."""
    shifts = (shifts,) if hasattr(shifts, "__index__") else tuple(shifts)
    if dims is None or not hasattr(dims, "__index__") and not len(dims):
        if len(shifts) != 1:
            raise ArgumentError(f"roll: without dims there can be one shift, got {shifts}")
        return _reshape(roll(ravel(input), shifts, 0), shape=input.shape)
    dims = (dims,) if hasattr(dims, "__index__") else tuple(dims)
    if len(shifts) != len(dims):
        raise ArgumentError(f"roll: {len(shifts)} shifts for {len(dims)} dims")
    if not input.ndim:
        raise IndexRangeError(f"roll: a 0-d tensor has no dimension {dims[0]}; leave dims out")
    out = input
    for shift, dim in zip(shifts, dims):
        d = as_dim("roll", dim, input.ndim)
        n = input.shape[d]
        if n and shift % n:
            out = cat([narrow(out, d, n - shift % n, shift % n), narrow(out, d, 0, n - shift % n)], d)
    return contiguous_(input) if out is input else out


def tile(input: Tensor, *counts: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """`repeat` that takes fewer counts than there are dimensions: the others are 1."""
    sizes = as_shape(*listed("tile", counts, dims))
    return repeat(input, (1,) * (input.ndim - len(sizes)) + sizes)


def repeat_interleave(input: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """Each slice along `dim` so many times in a row; without `dim`, of the elements as one dimension.

    Raises: ArgumentError for a tensor of counts: the size of the result would have to be read from it.
    """
    if not hasattr(repeats, "__index__") or isinstance(repeats, core.TensorBase) or repeats < 0:
        raise ArgumentError(f"repeat_interleave: repeats must be an integer >= 0, got {repeats!r}")
    if dim is None:
        input, dim = ravel(input), 0
    d = as_dim("repeat_interleave", dim, input.ndim)
    shape = input.shape
    wide = expand(_reshape(input, shape=shape[:d + 1] + (1,) + shape[d + 1:]), shape[:d + 1] + (repeats,) + shape[d + 1:])
    return _reshape(contiguous_(wide), shape=shape[:d] + (shape[d] * repeats,) + shape[d + 1:])


def fliplr(input: Tensor) -> Tensor:
    """`flip` of dimension 1.

    Raises: ShapeError below rank 2.
    """
    if input.ndim < 2:
        raise ShapeError(f"fliplr: needs at least 2 dimensions, got shape {input.shape}")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """`flip` of dimension 0.

    Raises: ShapeError for a 0-d tensor.
    """
    if not input.ndim:
        raise ShapeError("flipud: needs at least 1 dimension, got a 0-d tensor")
    return flip(input, 0)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """`cat` along dimension 1, of vectors along dimension 0."""
    tensors = [_reshape(t, shape=(1,)) if t.ndim == 0 else t for t in tensors]
    return cat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """`cat` along dimension 0, vectors being rows."""
    return cat([_reshape(t, shape=(1, t._size)) if t.ndim < 2 else t for t in tensors], 0)


def _unfold_kernel(x, *, dim, size, step):
    """Windows along `dim`, whose elements lie along a new last dimension."""
    count = (x.shape[dim] - size) // step + 1
    return core.view(x, x.shape[:dim] + (count,) + x.shape[dim + 1:] + (size,),
                     x._strides[:dim] + (x._strides[dim] * step,) + x._strides[dim + 1:] + (x._strides[dim],), x.offset)


def _np_unfold(x, dim, size, step):
    import numpy
    windows = numpy.lib.stride_tricks.sliding_window_view(x, size, dim)
    return windows[(slice(None),) * dim + (slice(None, None, step),)]


def _fold(g, shape, dim, step):
    """Each window's gradient added where the window was: the derivative of `unfold`."""
    out = None
    if not g.shape[-1]:
        return _place(_reshape(g, shape=shape[:dim] + (0,) + shape[dim + 1:]), shape=shape, starts=(0,) * len(shape),
                      steps=(1,) * len(shape), value=0.0)
    for k in range(g.shape[-1]):
        starts, steps = (tuple(v if i == dim else default for i in range(len(shape))) for v, default in ((k, 0), (step, 1)))
        part = _place(select(g, -1, k), shape=shape, starts=starts, steps=steps, value=0.0)
        out = part if out is None else out + part
    return out


_unfold = register(
    "unfold", ("x",), family="view", view=_unfold_kernel, numpy=_np_unfold,
    vjp=(lambda g, x_shape, dim, step: _fold(g, x_shape, dim, step),),
    cases=(case((5,), dim=0, size=2, step=1), case((3, 7), dim=1, size=3, step=2), case((4, 3), dim=0, size=1, step=3)))


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements, `step` apart, along a dimension; the elements of a window lie along a new last one. A view."""
    d = as_dim("unfold", dimension, input.ndim)
    n = input.shape[d] if input.ndim else 1
    if not 0 <= size <= n or step < 1:
        raise ArgumentError(f"unfold: size {size} must be 0 to {n}, and step {step} positive")
    return _unfold(input, dim=d, size=size, step=step) if input.ndim else narrow(ravel(input), 0, 0, size)
