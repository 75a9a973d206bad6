"""Reading and adding by integer tensors: gather, index_select, scatter_add and their kind. `x[...]` is in `subscript.py`."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import indexing
from volta.dtypes import int64
from volta.errors import DTypeError, IndexRangeError, ShapeError
from volta.ops.elementwise import where
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
from volta.ops.table import Labels, case, register
from volta.shapes import as_dim, broadcast_shapes

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number


def _np_scatter_add(g, index, dim, size):
    out = np.zeros(g.shape[:dim] + (size,) + g.shape[dim + 1:], g.dtype)
    where_ = list(np.indices(g.shape))
    where_[dim] = index
    np.add.at(out, tuple(where_), g)
    return out


def _np_index_add(g, index, dim, size):
    out = np.zeros(g.shape[:dim] + (size,) + g.shape[dim + 1:], g.dtype)
    np.add.at(np.moveaxis(out, dim, 0), index, np.moveaxis(g, dim, 0))
    return out


gather_primitive = register(
    "gather", ("x", "index"), family="index", kinds="fib", numpy=lambda x, index, dim: np.take_along_axis(x, index, dim),
    vjp=(lambda g, x_shape, index, dim: scatter_add_primitive(g, index, dim=dim, size=x_shape[dim]), None),
    cases=(case((3, 5), Labels((3, 2), 5), dim=1), case((4, 3), Labels((6, 3), 4), dim=0), case((2, 3, 4), Labels((2, 5, 4), 3), dim=1)))
scatter_add_primitive = register(
    "scatter_add", ("g", "index"), family="index", kinds="fib", numpy=_np_scatter_add,
    vjp=(lambda _, index, dim: gather_primitive(_, index, dim=dim), None),
    cases=(case((3, 4), Labels((3, 4), 5), dim=1, size=5), case((6, 3), Labels((6, 3), 4), dim=0, size=4)))
index_select_primitive = register(
    "index_select", ("x", "index"), family="index", kinds="fib", numpy=lambda x, index, dim: np.take(x, index, dim),
    vjp=(lambda g, x_shape, index, dim: index_add_primitive(g, index, dim=dim, size=x_shape[dim]), None),
    cases=(case((5, 3), Labels((7,), 5), dim=0), case((2, 4, 3), Labels((2,), 4), dim=1), case((3, 4), Labels((0,), 4), dim=1)))
index_add_primitive = register(
    "index_add", ("g", "index"), family="index", kinds="fib", numpy=_np_index_add,
    vjp=(lambda _, index, dim: index_select_primitive(_, index, dim=dim), None),
    cases=(case((7, 3), Labels((7,), 5), dim=0, size=5), case((2, 6, 3), Labels((6,), 4), dim=1, size=4)))


def _np_index_put(out, index, values, rank, unique=False):
    new = out.reshape((-1,) + out.shape[rank:]).copy()
    for k, place in enumerate(index):
        new[place] = values[k] if values.ndim else values
    return new.reshape(out.shape), None, None


index_put_primitive = register(
    "index_put", ("out", "index", "values"), family="inplace", numpy=_np_index_put, kinds="fib",
    cases=(case((5, 3), Labels((7,), 5), (7, 3), rank=1), case((4, 3, 2), Labels((20,), 12), (20, 2), rank=2),
           case((3, 4), Labels((0,), 3), (0, 4), rank=1), case((6,), Labels((3,), 6), (), rank=1),
           case((90, 4), Labels((1300,), 90), (1300, 4), rank=1), case((30000,), Labels((1500,), 30000), (1500,), rank=1)))


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
    out = gather_primitive(x, at, dim=d)
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
    added = scatter_add_primitive(added, at, dim=d, size=x.shape[d])
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
    added = index_add_primitive(_vector(source if alpha == 1 else source * alpha), index, dim=d, size=x.shape[d])
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
    out = index_select_primitive(x, _indices("index_select", _vector(index), x.shape[d]), dim=d)
    return out if input.shape else _reshape(out, shape=())


def one_hot(input: Tensor, num_classes: int) -> Tensor:
    """int64 rows with a 1 at each label."""
    from volta.ops.creation import arange
    check_index("one_hot", input, num_classes)
    return cast(unsqueeze(input, -1) == arange(num_classes, device=input.device), int64)
