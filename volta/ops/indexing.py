"""Reading and adding by integer tensors: gather, index_select, scatter_add and their kind. `x[...]` is in `subscript.py`."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta._kernels.core import indexing
from volta.dtypes import int64
from volta.errors import DTypeError, IndexRangeError, ShapeError
from volta.ops.creation import arange
from volta.ops.movement import (
    _expand,
    _reshape,
    cast,
    contiguous_,
    reshape,
    slice_view,
    unsqueeze,
)
from volta.ops.padding import pad
from volta.ops.records.index import gather_op, index_add_op, index_select_op, scatter_add_op
from volta.ops.records.math import where_op as where
from volta.shapes import as_dim, broadcast_shapes

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number


def known_range(t):
    """(least, largest) of an integer tensor: on the host; on a GPU where they are known from the upload; else None, since reading would
    be a transfer. None for an empty one."""
    if not t._size:
        return None
    if not t.device.is_gpu:
        return indexing.extremes(t)
    whole = t.storage.version == 0 and t._contiguous and t.offset == 0 and 4 * t._size == t.storage.nbytes
    return t.storage.bounds if whole else None


def check_index(op: str, index: Tensor, size: int, least: int = 0) -> bool:
    """Raise unless `index` holds integers in [least, size), as far as the host knows; a GPU kernel clamps the others. Gives whether
    some may be negative and are to count from the end."""
    if index.dtype.is_floating_point or index.dtype.code == 0:
        raise DTypeError(f"{op}: the index must be an integer tensor, got {index.dtype}; convert it with .long()")
    known = known_range(index)
    if known is None:
        return least < 0 and index._size > 0
    low, high = known
    if low < least or high >= size:
        raise IndexRangeError(f"{op}: index {low if low < least else high} is out of range for a dimension of size {size}")
    return low < 0


def _indices(op, index, size, wrap=False):
    """int64 and, as far as the host knows, in [0, size); with `wrap` a negative one counts from the end."""
    negative = check_index(op, index, size, -size if wrap else 0)
    index = cast(index, int64)
    return where(index < 0, index + size, index) if negative else index


def _vector(x):
    """A 0-d tensor as one of shape (1,), which it counts as."""
    return x if x.shape else _reshape(x, shape=(1,))


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Elements of `input` at `index` along `dim`: out[i][j] = input[index[i][j]][j] for dim 0.

    Raises: ShapeError unless the ranks agree and `index` is no larger in the other dimensions; IndexRangeError for one outside [0, size).
    """
    return _gather("gather", input, as_dim("gather", dim, input.ndim), index, False)


def _gather(op, input, d, index, wrap):
    x, at = _vector(input), _vector(index)
    if at.ndim != x.ndim:
        raise ShapeError(f"{op}: index has shape {index.shape}, the input {input.shape}; their ranks must be the same")
    if any(a > b for i, (a, b) in enumerate(zip(at.shape, x.shape)) if i != d):
        raise ShapeError(f"{op}: index {index.shape} is larger than the input {input.shape} outside dimension {d}")
    at = _indices(op, at, x.shape[d], wrap)
    if any(a != b for i, (a, b) in enumerate(zip(at.shape, x.shape)) if i != d):
        x = slice_view(x, tuple(slice(None) if i == d else slice(0, n) for i, n in enumerate(at.shape)))
    out = gather_op(x, at, dim=d)
    return out if index.shape else _reshape(out, shape=())


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` whose other dimensions broadcast, and whose negative indices count from the end; without `dim`, of both flattened.

    Raises: ShapeError unless the ranks agree; IndexRangeError.
    """
    if dim is None:
        return _gather("take_along_dim", reshape(input, -1), 0, reshape(indices, -1), False)
    d = as_dim("take_along_dim", dim, input.ndim)
    if indices.ndim != input.ndim:
        raise ShapeError(f"take_along_dim: indices have shape {indices.shape}, the input {input.shape}; their ranks must be the same")
    common = broadcast_shapes(input.shape[:d] + (1,) + input.shape[d + 1:], indices.shape[:d] + (1,) + indices.shape[d + 1:])
    wide, index = (_expand(x, shape=common[:d] + x.shape[d:d + 1] + common[d + 1:]) for x in (input, indices))
    return _gather("take_along_dim", wide, d, index, True)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input + src added at `index` along `dim`; `index` may be smaller than `src`, and than `input` in the other dimensions.

    Raises: ShapeError where `index` is larger; IndexRangeError for one outside [0, size).
    """
    d = as_dim("scatter_add", dim, input.ndim)
    if not index._size:
        return contiguous_(input)
    x, at, added = _vector(input), _vector(index), _vector(src)
    if not at.ndim == added.ndim == x.ndim or any(n > s or (n > m and i != d) for i, (n, s, m) in
                                                  enumerate(zip(at.shape, added.shape, x.shape))):
        raise ShapeError(f"scatter_add: index {index.shape} must be no larger than src {src.shape}, and than input "
                         f"{input.shape} outside dimension {d}")
    at = _indices("scatter_add", at, x.shape[d])
    if added.shape != at.shape:
        added = slice_view(added, tuple(slice(0, n) for n in at.shape))
    added = scatter_add_op(added, at, dim=d, size=x.shape[d])
    if added.shape != x.shape:
        added = pad(added, [v for n, m in zip(reversed(x.shape), reversed(added.shape)) for v in (0, n - m)])
    return input + (added if input.shape else _reshape(added, shape=()))


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """input + alpha * source, whose slices along `dim` are added at the positions of `index`, a vector or one number.

    Raises: ShapeError where `source` does not fit; IndexRangeError for an index outside [0, size).
    """
    d = as_dim("index_add", dim, input.ndim)
    needed = input.shape[:d] + (index._size,) + input.shape[d + 1:] if input.shape else ()
    if index.ndim > 1 or source.shape != needed or not input.shape and index._size != 1:
        raise ShapeError(f"index_add: source {source.shape} must be like input {input.shape} with one slice along dimension {d} for each "
                         f"of the positions {index.shape}")
    x = _vector(input)
    index = _indices("index_add", _vector(index), x.shape[d])
    added = index_add_op(_vector(source if alpha == 1 else source * alpha), index, dim=d, size=x.shape[d])
    return input + (added if input.shape else _reshape(added, shape=()))


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices of `input` along `dim` at the positions of `index`, a vector or one number.

    Raises: ShapeError where `index` has more dimensions; IndexRangeError for one outside [0, size).
    """
    d = as_dim("index_select", dim, input.ndim)
    if index.ndim > 1 or not input.shape and index._size != 1:
        raise ShapeError(f"index_select: index must be 1-D, and of one element for a 0-d input, got shape {index.shape} for an input "
                         f"of shape {input.shape}")
    x = _vector(input)
    out = index_select_op(x, _indices("index_select", _vector(index), x.shape[d]), dim=d)
    return out if input.shape else _reshape(out, shape=())


def one_hot(input: Tensor, num_classes: int) -> Tensor:
    """int64 rows with a 1 at each label."""
    check_index("one_hot", input, num_classes)
    return cast(unsqueeze(input, -1) == arange(num_classes, device=input.device), int64)
