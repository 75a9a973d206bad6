"""Views: other shapes, orders and parts of the same elements."""
from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from volta._kernels import core
from volta._kernels.core import indexing
from volta.errors import ArgumentError, IndexRangeError, ShapeError
from volta.ops.records.view import diagonal_op, expand_op, permute_op, reshape_op, slice_op, unfold_op
from volta.shapes import as_dim, as_dims, broadcast_shapes, infer, view_strides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

MOST_PARTS = 1 << 20        # that tensor_split makes where there are fewer slices


def listed(op: str, given: tuple, named: Sequence[int] | None) -> tuple:
    """The sizes or dimensions of `f(x, 1, 2)`, `f(x, (1, 2))` or `f(x, name=(1, 2))`."""
    if named is not None:
        if given:
            raise ArgumentError(f"{op}: the sizes were given twice, as {given} and by name as {named!r}")
        given = (named,)
    if len(given) != 1 or hasattr(given[0], "__index__"):
        return given
    try:
        return tuple(given[0])
    except TypeError:
        raise ShapeError(f"{op}: sizes must be integers, got {given[0]!r}") from None


def _sizes(op: str, given: tuple, named: Sequence[int] | None = None) -> tuple[int, ...]:
    """Sizes, negative ones too, in the forms of `listed`.

    Raises: ShapeError for what is no integer.
    """
    try:
        return tuple(map(operator.index, listed(op, given, named)))
    except TypeError:
        raise ShapeError(f"{op}: sizes must be integers, got {given if named is None else named!r}") from None


# ---------------------------------------------------------------- shapes
def reshape(input: Tensor, *sizes: int | Sequence[int], shape: Sequence[int] | None = None) -> Tensor:
    """The same elements under another shape (one size may be -1): a view where the strides allow, else a copy.

    Raises: ShapeError where the number of elements differs.
    """
    return reshape_op(input, shape=infer("reshape", input._size, _sizes("reshape", sizes, shape)))


def view(input: Tensor, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Tensor:
    """`reshape` that never copies.

    Raises: ShapeError where the strides allow no view; ArgumentError for a dtype, whose bytes Volta does not reinterpret.
    """
    if len(shape) == 1 and isinstance(shape[0], core.DType):
        raise ArgumentError(f"view: reading the bytes as {shape[0]} is not available; convert the values with .to({shape[0]})")
    new = infer("view", input._size, _sizes("view", shape, size))
    if not input._contiguous and view_strides(input.shape, input._strides, new) is None:
        raise ShapeError(f"view: shape {input.shape} with strides {input._strides} cannot be seen as {new} without a copy; use reshape")
    return reshape_op(input, shape=new)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions start_dim to end_dim as one."""
    rank = input.ndim
    a, b = as_dim("flatten", start_dim, rank), as_dim("flatten", end_dim, rank)
    if a > b:
        raise ArgumentError(f"flatten: start_dim {start_dim} lies behind end_dim {end_dim}")
    size = 1
    for s in input.shape[a:b + 1]:
        size *= s
    return reshape_op(input, shape=input.shape[:a] + (size,) + input.shape[b + 1:])


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """A dimension as several (one size may be -1), as a view."""
    d = as_dim("unflatten", dim, input.ndim)
    return reshape_op(input, shape=input.shape[:d] + infer("unflatten", input.shape[d], tuple(sizes)) + input.shape[d + 1:])


def ravel(input: Tensor) -> Tensor:
    """The elements as one dimension."""
    return reshape_op(input, shape=(input._size,))


def expand(input: Tensor, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Tensor:
    """Size-1 dimensions repeated without copying; -1 keeps a size.

    Raises: ShapeError where a size other than 1 would change.
    """
    shape = _sizes("expand", shape, size)
    lead = len(shape) - input.ndim
    if lead < 0:
        raise ShapeError(f"expand: shape {shape} has fewer dimensions than the tensor's {input.shape}")
    new = tuple(input.shape[i - lead] if s == -1 and i >= lead else s for i, s in enumerate(shape))
    for i, (a, b) in enumerate(zip(input.shape, new[lead:])):
        if a not in (1, b):
            raise ShapeError(f"expand: {input.shape} cannot become {new}: size {a} at dimension {i} is not 1")
    if any(s < 0 for s in new):
        raise ShapeError(f"expand: sizes must not be negative, got {shape}; -1 may stand only for an existing dimension")
    return expand_op(input, shape=new)


def broadcast_to(input: Tensor, size: tuple[int, ...]) -> Tensor:
    """`expand` with the shape as a tuple."""
    return expand(input, size)


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
    grids = [expand(reshape_op(t, shape=(1,) * i + (t._size,) + (1,) * (len(shape) - i - 1)), shape) for i, t in enumerate(vectors)]
    return tuple(transpose(t, 0, 1) if indexing == "xy" and len(shape) > 1 else t for t in grids)


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1 at `dim`."""
    d = as_dim("unsqueeze", dim, input.ndim + 1)
    return reshape_op(input, shape=input.shape[:d] + (1,) + input.shape[d:])


def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without its dimensions of size 1 (or those of `dim` that have it)."""
    dims = range(input.ndim) if dim is None else () if dim == () or dim == [] else as_dims("squeeze", dim, input.ndim)
    return reshape_op(input, shape=tuple(s for i, s in enumerate(input.shape) if not (i in dims and s == 1)))


# ---------------------------------------------------------------- order
def permute(input: Tensor, *order: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """Dimensions in another order, as a view."""
    dims = listed("permute", order, dims)
    order = tuple(as_dim("permute", d, input.ndim) for d in dims)
    if len(order) != input.ndim or len(set(order)) != len(order):
        raise ArgumentError(f"permute: dims {tuple(dims)} must name each of the {input.ndim} dimensions once")
    return permute_op(input, dims=order)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged, as a view."""
    order = list(range(input.ndim))
    if not order:
        return input
    a, b = as_dim("transpose", dim0, input.ndim), as_dim("transpose", dim1, input.ndim)
    order[a], order[b] = b, a
    return permute_op(input, dims=tuple(order))


def t(input: Tensor) -> Tensor:
    """Transpose of a tensor of rank 2 or less."""
    if input.ndim > 2:
        raise ShapeError(f"t: needs rank 2 or less, got shape {input.shape}; use transpose(dim0, dim1) or mT")
    return transpose(input, 0, -1) if input.ndim == 2 else input


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


# ---------------------------------------------------------------- parts
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """`length` slices from `start` (which may be a 0-d integer tensor) along `dim`, as a view.

    Raises: IndexRangeError outside the dimension; ArgumentError for a 0-d input, and for what is no integer.
    """
    d = as_dim("narrow", dim, input.ndim)
    if type(start) is not int or type(length) is not int:
        start, length = _whole("narrow", "start", start), _whole("narrow", "length", length)
    if not input.shape:
        raise ArgumentError("narrow: a 0-d tensor has no dimension to narrow; reshape it to (1,)")
    start = start + input.shape[d] if -input.shape[d] <= start < 0 else start
    if not 0 <= start <= start + length <= input.shape[d]:
        raise IndexRangeError(f"narrow: {start}:{start + length} lies outside dimension {dim} of size {input.shape[d]}")
    starts = tuple(start if i == d else 0 for i in range(input.ndim))
    return slice_op(input, starts=starts, sizes=input.shape[:d] + (length,) + input.shape[d + 1:], steps=(1,) * input.ndim)


def _whole(op: str, name: str, value: object) -> int:
    """`value` as an int. Raises: ArgumentError for a bool and for what is no integer."""
    tensor = isinstance(value, core.TensorBase)
    if isinstance(value, bool) or not hasattr(value, "__index__") or tensor and (value.shape or value.dtype.category != 1):
        raise ArgumentError(f"{op}: {name} must be an integer, got {f'a tensor of {value.dtype} {value.shape}' if tensor else repr(value)}")
    return operator.index(value)


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at `index` of a dimension, without it, as a view."""
    d = as_dim("select", dim, input.ndim)
    return reshape_op(narrow(input, d, index, 1), shape=input.shape[:d] + input.shape[d + 1:])


def slice_view(input: Tensor, slices: tuple[slice, ...]) -> Tensor:
    """Basic slicing of the leading dimensions."""
    return slice_op(input, **indexing.parse(input, slices))


def shrink(input: Tensor, bounds: Sequence[tuple[int, int]]) -> Tensor:
    """Per dimension (start, stop), as a view: the inverse of `pad`."""
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in bounds):
        raise ArgumentError(f"shrink: bounds must be pairs (start, stop), got {bounds!r}")
    if len(bounds) != input.ndim:
        raise ArgumentError(f"shrink: {len(bounds)} bounds for a tensor of rank {input.ndim}")
    for d, ((a, b), n) in enumerate(zip(bounds, input.shape)):
        if not 0 <= a <= b <= n:
            raise IndexRangeError(f"shrink: bounds ({a}, {b}) lie outside dimension {d} of size {n}")
    return slice_view(input, tuple(slice(a, b) for a, b in bounds))


def stride_op(input: Tensor, steps: Sequence[int]) -> Tensor:
    """Every steps[i]-th element of dimension i, as a view; a negative step runs backwards."""
    if len(steps) != input.ndim or 0 in steps:
        raise ArgumentError(f"stride_op: needs {input.ndim} non-zero steps, got {tuple(steps)}")
    return slice_view(input, tuple(slice(None, None, s) for s in steps))


def split(input: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple:
    """Views of `split_size` slices each (the last may be smaller), or of the given lengths."""
    d = as_dim("split", dim, input.ndim)
    n = input.shape[d]
    if hasattr(split_size_or_sections, "__index__"):
        if split_size_or_sections < (n > 0):
            raise ArgumentError(f"split: the size must be positive, got {split_size_or_sections}")
        sizes = [min(split_size_or_sections, n - i) for i in range(0, n, split_size_or_sections or 1)] or [0]
    else:
        sizes = list(split_size_or_sections)
        if sum(sizes) != n:
            raise ArgumentError(f"split: the sections {sizes} add up to {sum(sizes)}, dimension {dim} has {n}")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(narrow(input, d, a, s) for a, s in zip(starts, sizes))


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple:
    """Views of at most `chunks` equal parts."""
    if chunks <= 0:
        raise ArgumentError(f"chunk: chunks must be positive, got {chunks}")
    n = input.shape[as_dim("chunk", dim, input.ndim)]
    if n == 0:
        return split(input, [0] * chunks, dim)
    return split(input, max(1, -(-n // chunks)), dim)


def unbind(input: Tensor, dim: int = 0) -> tuple:
    """The slices along `dim`, each without it."""
    if input.ndim == 0:
        raise IndexRangeError("unbind: a 0-d tensor has no dimension to take apart")
    d = as_dim("unbind", dim, input.ndim)
    return tuple(squeeze(narrow(input, d, i, 1), d) for i in range(input.shape[d]))


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


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions as the last one, a view; a positive offset lies above it.

    Raises: ArgumentError for one dimension named twice.
    """
    a, b = as_dim("diagonal", dim1, input.ndim), as_dim("diagonal", dim2, input.ndim)
    if input.ndim < 2 or a == b:
        raise ArgumentError(f"diagonal: needs two different dimensions, got {dim1} and {dim2} of a tensor of rank {input.ndim}")
    rest = [d for d in range(input.ndim) if d not in (a, b)]
    return diagonal_op(permute(input, *rest, a, b), offset=offset)


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements, `step` apart, along a dimension; the elements of a window lie along a new last one. A view."""
    d = as_dim("unfold", dimension, input.ndim)
    n = input.shape[d] if input.ndim else 1
    if not 0 <= size <= n or step < 1:
        raise ArgumentError(f"unfold: size {size} must be 0 to {n}, and step {step} positive")
    return unfold_op(input, dim=d, size=size, step=step) if input.ndim else narrow(ravel(input), 0, 0, size)
