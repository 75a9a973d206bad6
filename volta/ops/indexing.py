"""Reading and adding by integer tensors (gather, index_select, scatter_add and their kind), and by masks and triangles. `x[...]` is in
`subscript.py`."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import TensorBase, graph, indexing, inplace
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta._kernels.core.entries import combined
from volta.dtypes import as_integer, bool_, check_held, held, int32, int64, is_element
from volta.errors import ArgumentError, DTypeError, IndexRangeError, IndexTypeError, RankError, ShapeError
from volta.ops.copy import as_value, changed_by, multiple, to, untouched
from volta.ops.parts import narrow, select, slice_view, unbind
from volta.ops.records.copy import cast, cat_op
from volta.ops.records.index import (
    gather_op,
    index_add_into_op,
    index_select_op,
    index_sum_op,
    one_hot_op,
    scatter_add_into_op,
    scatter_sum_op,
)
from volta.ops.records.math import remainder, where_op, wrapped
from volta.ops.records.places import changes_op, true_starts
from volta.ops.records.places import true_places as true_places_op
from volta.ops.records.places import true_values as true_values_op
from volta.ops.records.reduce import amax_op, amin_op, sum_op
from volta.ops.records.view import clone_op, contiguous_op, expand_op, flat, permute_op, reshape_op, row_major
from volta.ops.table import Flags, Labels, case, composed
from volta.shapes import as_dim, broadcast_shapes, broadcasts_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor
    from volta.types import Number

_BLOCK, _MOST_RANK = 4096, 8            # elements whose places are counted together, dimensions that a GPU's kernel takes
_SUMMED = 4096                          # blocks whose counts the host adds up
_FEW = 65536                            # indices that are looked at sooner than their extremes are found
_MANY = 1024                            # elements from which two kernels find their extremes sooner than one loop


def known_range(t):
    """(least, largest) of an integer tensor: where the host sees it; on a GPU where they are known from the upload; else None, since
    reading would be a transfer. None for an empty one."""
    if not t._size:
        return None
    if core.host_sees(t):
        t = t if t._contiguous else run_kernel(contiguous_op, t.device, (t,))
        if t._size < _MANY:
            return indexing.extremes(t)
        params = {"dim": tuple(range(t.ndim)), "keepdim": False}        # the kernels take vectors and threads, and a call each
        return tuple([core.read_scalar(run_kernel(op, t.device, (t,), params)) for op in (amin_op, amax_op)])
    own = t.device.is_gpu and t.storage.version in (0, core.INFERRED) and t.offset == 0
    return t.storage.bounds if own and 4 * (t._size if t._contiguous else _elements(t)) == t.storage.nbytes else None


def _elements(t):
    """How many elements of its storage a permuted or expanded tensor shows, if these lie behind one another from the first on, else 0."""
    sides = [(n, s) for n, s in zip(t.shape, t._strides) if s]
    count = math.prod(n for n, _ in sides)
    return count if sum((n - 1) * s for n, s in sides) == count - 1 else 0


_LONG = frozenset(("put", "take", "take_along_dim", "one_hot", "index_copy", "index_fill", "multi_margin_loss", "multilabel_margin_loss"))

_UNSEEN = frozenset(("gather", "scatter_reduce"))


def check_integers(op: str, index: Tensor) -> None:
    """Raise unless the elements are int64 or, but for the ops where PyTorch wants that alone, int32: masks and bytes are no indices, though
    gather and scatter do not look at what has no elements, as in PyTorch."""
    if index.dtype is int32 and op in _LONG:
        raise IndexTypeError(f"{op}: the index must be int64, got int32; convert it with .long()")
    if index.dtype not in (int64, int32) and (index._size or op not in _UNSEEN):
        raise IndexTypeError(f"{op}: the index must be int64 or int32, got {index.dtype}; convert it with .long()")


def check_index(op: str, index: Tensor, size: int, least: int = 0) -> bool:
    """Raise unless `index` holds integers in [least, size), as far as the host knows; a GPU kernel clamps the others. Gives whether
    some may be negative and are to count from the end."""
    check_integers(op, index)
    if index._size <= _FEW and core.host_sees(index) and indexing.all_within(index, size):
        return False
    known = known_range(index)
    if known is None and size > 0:
        return least < 0 and index._size > 0
    if known is None:
        if index._size:
            raise IndexRangeError(f"{op}: a dimension of size 0 has no elements to index, got an index of shape {index.shape}")
        return False
    low, high = known
    if low < least or high >= size:
        raise IndexRangeError(f"{op}: index {low if low < least else high} is out of range for a dimension of size {size}")
    return low < 0


def positions(op: str, index: Tensor, size: int, wrap: bool = False, kernel_checks: bool = False) -> Tensor:
    """An index as int64 and, as far as the host knows, in [0, size); with `wrap` a negative one counts from the end. `kernel_checks`: that
    of the host raises by itself, naming this op."""
    if kernel_checks and not wrap and index.dtype is int64 and not index.device.is_gpu:
        return index
    negative = check_index(op, index, size, -size if wrap else 0)
    index = cast(index, int64)
    return wrapped(index, size) if negative else index


def as_vector(x: Tensor) -> Tensor:
    """A 0-d tensor as one of shape (1,), which it counts as."""
    return x if x._shape else reshape_op(x, shape=(1,))


@composed(apart=0, samples=(case((3, 5), 1, Labels((3, 2), 5)), case((4, 3), -2, Labels((2, 2), 4))), kinds="fib",
          numpy=lambda x, dim, index: np.take_along_axis(x[:, :2] if dim == -2 else x, index, dim))
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Elements of `input` at `index` along `dim`: out[i][j] = input[index[i][j]][j] for dim 0.

    Raises: ShapeError unless the ranks agree and `index` is no larger in the other dimensions; IndexRangeError for one outside [0, size);
    ArgumentError for sparse_grad=True where a gradient is recorded.

    >>> volta.gather(volta.tensor([[1, 2], [3, 4]]), 1, volta.tensor([[1], [0]])).tolist()
    [[2], [3]]
    """
    d = as_dim("gather", dim, len(input._shape))
    if sparse_grad and input.requires_grad and graph.is_grad_enabled():
        raise ArgumentError("gather: there are no sparse gradients; call it with sparse_grad=False")
    return _gather("gather", input, d, index, False)


def _gather(op, input, d, index, around):
    x, at = as_vector(input), as_vector(index)
    check_integers(op, index)
    if not index._size:                         # of any rank, as in PyTorch
        return clone_op(reshape_op(slice_view(flat(x), (slice(0, 0),)), shape=index.shape))
    places, sizes, part = at._shape, x._shape, False
    if len(places) != len(sizes):
        raise ShapeError(f"{op}: index has shape {index.shape}, the input {input.shape}; their ranks must be the same")
    if places != sizes:
        for i, n in enumerate(places):
            if n != sizes[i] and i != d:
                if n > sizes[i]:
                    raise ShapeError(f"{op}: index {index.shape} is larger than the input {input.shape} outside dimension {d}")
                part = True
    at = _around(op, at, sizes[d]) if around else positions(op, at, sizes[d], False, op == "gather")
    if part:
        x = slice_view(x, tuple([slice(None) if i == d else slice(0, n) for i, n in enumerate(places)]))
    out = gather_op(x, at, dim=d)
    return out if index._shape else reshape_op(out, shape=())


def _around(op, index, size):
    """An index as int64 in [0, size): one outside goes around, as often as it takes."""
    known = known_range(index)
    if size == 0 or known is not None and 0 <= known[0] and known[1] < size:
        return positions(op, index, size)
    return remainder(cast(index, int64), size)


def _np_take(x, index, dim=None):
    if dim is None:
        return x.reshape(-1)[index.reshape(-1)]
    return np.take_along_axis(x, np.broadcast_to(index, x.shape[:dim] + (index.shape[dim],) + x.shape[dim + 1:]), dim)


def _np_added(x, dim, index, source, alpha=1):
    """scatter_add of a matrix, or with a vector as index index_add."""
    out = x.copy()
    where = list(np.indices(source.shape))
    where[dim] = index if index.ndim > 1 else np.moveaxis(np.broadcast_to(index, np.moveaxis(source, dim, -1).shape), -1, dim)
    np.add.at(out, tuple(where), np.asarray(source * alpha, x.dtype))
    return out


@composed(apart=0, samples=(case((3, 5), Labels((1, 2), 5), dim=1), case((3, 2), Labels((4,), 6))), kinds="fib", numpy=_np_take)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` whose other dimensions broadcast, and whose indices go around: -1 and 2 * size - 1 are the last one; without `dim`, of
    both flattened.

    Raises: ShapeError unless the ranks agree; IndexRangeError.

    >>> volta.take_along_dim(volta.tensor([[1, 2], [3, 4]]), volta.tensor([[-1]]), 1).tolist()
    [[2], [4]]
    """
    if dim is None:
        return _gather("gather", flat(input), 0, flat(indices), False)
    if not input.ndim and not indices.ndim:
        raise IndexRangeError(f"take_along_dim: a number has no dimension {dim}; leave dim out")
    d = as_dim("take_along_dim", dim, input.ndim)
    if indices.ndim != input.ndim:
        raise ShapeError(f"take_along_dim: indices have shape {indices.shape}, the input {input.shape}; their ranks must be the same")
    if input._shape[:d] == indices._shape[:d] and input._shape[d + 1:] == indices._shape[d + 1:]:
        return _gather("take_along_dim", input, d, indices, True)
    common = broadcast_shapes(input.shape[:d] + (1,) + input.shape[d + 1:], indices.shape[:d] + (1,) + indices.shape[d + 1:])
    wide, index = (expand_op(x, shape=common[:d] + x.shape[d:d + 1] + common[d + 1:]) for x in (input, indices))
    return _gather("take_along_dim", wide, d, index, True)


def takes_entries(input: Tensor, index: Tensor, source: Tensor) -> bool:
    """Whether a kernel may add to a tensor, or write, where it lies, unrecorded."""
    device = input.device
    if not (isinstance(source, core.TensorBase) and isinstance(index, core.TensorBase) and input._contiguous and input._size > 0):
        return False
    seen = bare(input, source) if not device.is_gpu else not (core.stands_in(input) or core.stands_in(source) or (
        graph.is_grad_enabled() and (input.requires_grad or source.requires_grad)))
    return (seen and input._shape and index.device is device and source.device is device and not core.stands_in(index)
            and not (core.same_memory(input, source) or core.same_memory(input, index)))


def one_for_each(input: Tensor, d: int, index: Tensor, source: Tensor) -> bool:
    """Whether `index` names a place along d for each element of `source`, and has all that the input has in other dimensions."""
    return source.dtype is input.dtype and source._shape == index._shape and index._size > 0 and index.ndim == input.ndim and (
        index._shape[:d] == input._shape[:d] and index._shape[d + 1:] == input._shape[d + 1:])


def _add_elements_in_place(input, dim, index, src):
    if (found := combined(input, dim, index, src, "sum", True, False)) is not None:
        return found
    if not takes_entries(input, index, src) or not one_for_each(input, d := as_dim("scatter_add", dim, input.ndim), index, src):
        return None
    inplace.check_elements("scatter_add", input)
    at = positions("scatter_add", index, input.shape[d], kernel_checks=True)
    run_kernel(scatter_add_into_op, input.device, (input, src, at), {"dim": d})
    return input


@composed(samples=(case((3, 5), 1, Labels((3, 2), 5), (3, 2)), case((4, 3), 0, Labels((6, 3), 4), (6, 3))), kinds="fi", inplace=True,
          apart=1, numpy=_np_added, one=_add_elements_in_place)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """input + src added at `index` along `dim`; `index` may be smaller than `src`, and than `input` in the other dimensions.

    Raises: ShapeError where `index` is larger; IndexRangeError for one outside [0, size); DTypeError for a `src` of another dtype.

    >>> volta.scatter_add(volta.zeros(3), 0, volta.tensor([2, 2]), volta.ones(2)).tolist()
    [0.0, 0.0, 2.0]
    """
    if (found := combined(input, dim, index, src, "sum", False, False)) is not None:
        return found
    d = as_dim("scatter_add", dim, input.ndim)
    if src.dtype is not input.dtype:
        raise DTypeError(f"scatter_add: src is {src.dtype} and the input {input.dtype}; cast one of them")
    if not index._size:
        return untouched(input, src)
    x, at, added = as_vector(input), as_vector(index), as_vector(src)
    if not at.shape == added.shape == x.shape and (not at.ndim == added.ndim == x.ndim or any(
            n > s or (n > m and i != d) for i, (n, s, m) in enumerate(zip(at.shape, added.shape, x.shape)))):
        raise ShapeError(f"scatter_add: index {index.shape} must be no larger than src {src.shape}, and than input "
                         f"{input.shape} outside dimension {d}")
    at = positions("scatter_add", at, x.shape[d], kernel_checks=True)
    if added.shape != at.shape:
        added = slice_view(added, tuple(slice(0, n) for n in at.shape))
    if at.shape != x.shape and any(n != m for i, (n, m) in enumerate(zip(x.shape, at.shape)) if i != d):
        part = [slice(0, m if i == d else n) for i, (n, m) in enumerate(zip(at.shape, x.shape))]
        out = scatter_sum_op(slice_view(x, tuple(part)), added, at, dim=d)
        for i, kept in enumerate(part):                     # beside which the input stays as it is
            if kept.stop < x.shape[i]:
                rest = (*[slice(None)] * i, slice(kept.stop, None), *part[i + 1:])
                out = cat_op(out, slice_view(x, rest), dim=i)
        return out
    out = scatter_sum_op(x, added, at, dim=d)
    return out if input.shape else reshape_op(out, shape=())


def _slices_to_add(input, dim, index, source, alpha):
    """(alpha * source, index, dimension) of what index_add adds to the input."""
    d = as_dim("index_add", dim, input.ndim)
    needed = input.shape[:d] + (index._size,) + input.shape[d + 1:] if input.shape else ()
    if index.ndim > 1 or source.shape != needed or not input.shape and index._size != 1:
        raise RankError(f"index_add: source {source.shape} must be like input {input.shape} with one slice along dimension {d} for each "
                         f"of the positions {index.shape}")
    if source.dtype is not input.dtype:
        raise DTypeError(f"index_add: source must be {input.dtype} as input is, got {source.dtype}; convert it with .to({input.dtype})")
    if input._size or input.ndim < 2 or not index._size:            # else nothing is added, wherever it would be
        index = positions("index_add", as_vector(index), input.shape[d] if input.shape else 1, kernel_checks=True)
    factor = (held("index_add", alpha, input.dtype) if input.dtype.is_floating_point else bool(alpha) if input.dtype is bool_
              else as_integer("index_add", alpha, input.dtype))
    return as_vector(source if factor == 1 else source * factor), index, d


def _adds_alone(input, index, source):
    """Whether the CPU's kernel may add slices to the input, or a copy, one by one: nobody records or watches."""
    return input._shape and input._size and bare(input, source) and index.device is input.device and not core.stands_in(index)


def _add_slices_in_place(input, dim, index, source, *, alpha=1):
    if (found := combined(input, dim, index, multiple(input, source, alpha), "sum", True, True)) is not None:
        return found
    for x in (index, source):
        inplace.check_apart("index_add_", input, x, whole=True)
    if not takes_entries(input, index, source) and not (isinstance(source, TensorBase) and _adds_alone(input, index, source)):
        return changed_by("index_add", input, source, lambda x: index_add(x, dim, index, source, alpha=alpha)) if (
            isinstance(source, TensorBase) and source.device is input.device) else None
    source, index, d = _slices_to_add(input, dim, index, source, alpha)
    inplace.check_elements("index_add", input)
    run_kernel(index_add_into_op, input.device, (input, source, index), {"dim": d})
    return input


_add_elements_in_place.every = _add_slices_in_place.every = True


@composed(samples=(case((3, 5), 1, Labels((4,), 5), (3, 4)), case((4, 3), 0, Labels((2,), 4), (2, 3), alpha=2)), kinds="fi", inplace=True,
          apart=1, numpy=_np_added, one=_add_slices_in_place)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """input + alpha * source, whose slices along `dim` are added at the positions of `index`, a vector or one number.

    Raises: ShapeError, DTypeError where `source` does not fit; IndexRangeError for an index outside [0, size).

    >>> volta.index_add(volta.zeros(3), 0, volta.tensor([2, 2]), volta.ones(2)).tolist()
    [0.0, 0.0, 2.0]
    """
    if (found := combined(input, dim, index, multiple(input, source, alpha), "sum", False, True)) is not None:
        return found
    source, index, d = _slices_to_add(input, dim, index, source, alpha)
    if not input._size and input.ndim > 1 and index._size:
        return row_major(input) + sum_op(source, dim=tuple(range(source.ndim)), keepdim=False)
    out = index_sum_op(as_vector(input), source, index, dim=d)
    return out if input.shape else reshape_op(out, shape=())


@composed(apart=0, samples=(case((3, 5), 1, Labels((4,), 5)), case((), 0, Labels((1,), 1))), kinds="fib",
          numpy=lambda x, dim, index: np.take(x, index, dim) if x.ndim else x)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices of `input` along `dim` at the positions of `index`, a vector or one number.

    Raises: ShapeError where `index` has more dimensions; IndexRangeError for one outside [0, size).

    >>> volta.index_select(volta.tensor([5, 6, 7]), 0, volta.tensor([2, 0])).tolist()
    [7, 5]
    """
    d = as_dim("index_select", dim, len(input._shape))
    if input._shape and len(index._shape) == 1 and index.dtype is int64 and bare(input, index):
        return run_kernel(index_select_op, input.device, (input, index), {"dim": d})
    if index.ndim > 1 or not input.shape and index._size != 1:
        raise RankError(f"index_select: index must be 1-D, and of one element for a 0-d input, got shape {index.shape} for an input "
                         f"of shape {input.shape}")
    x = as_vector(input)
    out = index_select_op(x, positions("index_select", as_vector(index), x.shape[d], kernel_checks=True), dim=d)
    return out if input.shape else reshape_op(out, shape=())


@composed(samples=(case(Labels((2, 3), 4), 4),), kinds="i", method=False, smooth=False, numpy=lambda x, n: np.eye(n, dtype=np.int64)[x])
def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """int64 rows with a 1 at each label; num_classes -1 takes the largest label + 1. Raises: ArgumentError where there is none.

    >>> volta.one_hot(volta.tensor([1, 0]), 3).tolist()
    [[0, 1, 0], [1, 0, 0]]
    """
    if num_classes == -1:
        check_integers("one_hot", input)
        if not input._size:
            raise ArgumentError("one_hot: no elements say how many classes there are; give num_classes")
        num_classes = core.checked_size((int(amax_op(input, dim=tuple(range(input.ndim)), keepdim=False).item()) + 1,))
    return one_hot_op(positions("one_hot", input, num_classes, kernel_checks=num_classes > 0), classes=num_classes)


def _filled_in_place(input, mask, value):
    """See `Places.one`."""
    if not isinstance(mask, TensorBase) or mask.dtype.code != 0:
        return None
    if isinstance(value, TensorBase):
        held = value.dtype is input.dtype and not value._shape and input.dtype.is_floating_point and input.dtype.itemsize > 2
    else:
        held = is_element(value, input.dtype)
    return (where_op, (mask, value, input)) if held and (mask._shape == input._shape or broadcasts_to(mask.shape, input.shape)) else None


_filled_in_place.every = True


@composed(samples=(case((3, 4), Flags((4,)), 2), case((), Flags(()), 1.0)), kinds="fib", inplace=True, one=_filled_in_place,
          numpy=lambda x, mask, value: np.where(mask, np.asarray(value, x.dtype), x))
def masked_fill(input: Tensor, mask: Tensor, value: Number | Tensor) -> Tensor:
    """`input` with `value` (a number or a 0-d tensor, in the dtype of `input`) where `mask` holds.

    Raises: ShapeError for a value of more dimensions; DTypeError where the mask is not bool.

    >>> volta.masked_fill(volta.tensor([1, 2]), volta.tensor([True, False]), 0).tolist()
    [0, 2]
    """
    if not isinstance(mask, TensorBase) or mask.dtype.code != 0:
        raise DTypeError(f"masked_fill: the mask must be a bool tensor, got {getattr(mask, 'dtype', mask)}; compare first, as in x > 0")
    if isinstance(value, TensorBase):
        if value.ndim:
            raise ShapeError(f"masked_fill: value must be a number or a 0-d tensor, got shape {value.shape}; use where()")
        value = as_value("masked_fill", input, value)
    elif not input.dtype.is_floating_point:
        value = bool(value) if input.dtype.code == 0 else as_integer("masked_fill", value, input.dtype)
    elif not -65504.0 <= value <= 65504.0:
        check_held("masked_fill", value, input.dtype)
    return where_op(row_major(mask), value, row_major(input))


def true_places(mask: Tensor) -> Tensor:
    """The flat positions where a mask holds, ascending, int64. Of a GPU's only their number is read."""
    if mask._contiguous and not mask.device.is_gpu and not core.stands_in(mask):
        found = core.true_places(core.reshaped(mask, (mask._size,)))
        return core.reshaped(found, found._shape[1:])
    if not mask.device.is_gpu or not mask._size:
        return select(_found(flat(mask)), 0, 0)
    return _named(_places(mask, (mask._size,))[0], mask._size)


def _found(x):
    """Per dimension a row of where the elements of x are not 0, found by the host."""
    if x.dtype.is_floating_point and x.dtype.itemsize == 2:
        x = x != 0
    if not x.device.is_gpu:
        return core.true_places(row_major(x))
    return to(core.true_places(row_major(to(x.detach(), "cpu"))), x.device)


def _named(found, size):
    found.storage.bounds = 0, size - 1                      # which says that none counts from the end
    return found


def _places(x, sizes, changes=False):
    """Per dimension of `sizes` a row of where the elements of x are not 0, or differ from the one before. Reads how many they are."""
    x = flat(x.detach())
    starts, count, running = counted(x, changes)
    return true_places_op(x, starts, block=_BLOCK, sizes=sizes, count=count, changes=changes, running=running)


def counted_places(x: Tensor, count: int) -> Tensor:
    """Per dimension a row of where the elements of a GPU's x are not 0, of which the host knows how many they are."""
    flattened = flat(x)
    starts, running = _starts(flattened, False)
    return true_places_op(flattened, starts, block=_BLOCK, sizes=x._shape, count=count, changes=False, running=running)


def _starts(x, changes):
    """How many places each block of a GPU's vector has, or where they are many all blocks up to it, and whether these are running sums."""
    running = x._size > _SUMMED * _BLOCK
    return true_starts(x, block=_BLOCK, changes=changes, running=running), running


def counted(x: Tensor, changes: bool) -> tuple[Tensor, int, bool]:
    """What the kernels of places take of a GPU's vector: (starts of blocks, how many places there are, whether starts are running sums).
    Reads how many."""
    starts, running = _starts(x, changes)
    if running:
        return starts, narrow(starts, 0, starts._size - 1, 1).item(), True
    return starts, int(starts.numpy().sum()), False         # to add up few numbers takes the host less than a dispatch


def changed_places(x: Tensor) -> Tensor:
    """The positions in a vector of the elements that differ from the one before, int64. Of a GPU's only their number is read."""
    return _named(_places(x, (x._size,), True)[0], x._size) if x.device.is_gpu else true_places(changes_op(x))


def true_values(x: Tensor, mask: Tensor, changes: bool = False) -> Tensor:
    """The elements of a GPU's x, which wants no gradient, where those of `mask` hold, or with `changes` differ from the one before; as a
    vector. Reads how many they are."""
    x, mask = flat(x), flat(mask)
    starts, count, running = counted(mask, changes)
    return true_values_op(x, mask, starts, block=_BLOCK, count=count, changes=changes, running=running)


def coordinates(places: Tensor, shape: Sequence[int]) -> list[Tensor]:
    """Of flat positions in `shape`, those along each dimension."""
    found, rest = [], places
    for i, n in enumerate(shape[::-1], 1):              # products of sizes may be beyond what a GPU holds
        found.append(rest % n)
        rest = rest // n if i < len(shape) and n > 1 else rest
    return found[::-1]


@composed(samples=(case((3, 4)), case(())), kinds="fib", smooth=False, reads=True, numpy=np.argwhere)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Positions of the non-zero elements, (count, rank) int64, or one vector per dimension. Reads how many they are.

    >>> volta.nonzero(volta.tensor([0, 5, 6])).tolist()
    [[1], [2]]
    """
    if input.device.is_gpu and input._size and 0 < input.ndim <= _MOST_RANK:
        found = _places(input, input.shape)
        if as_tuple:
            return tuple([select(found, 0, d) for d in range(input.ndim)])
    elif not as_tuple:
        found = _found(input)
    if not as_tuple:                                            # it lies by dimensions, as in PyTorch
        return permute_op(found, dims=(1, 0)) if found._size else core.view(found, found.shape[::-1], (1, found.shape[1]), 0)
    return unbind(_found(input if input._shape else reshape_op(input, shape=(1,))), 0)


@composed(samples=(case((3, 4)), case(())), kinds="fib", smooth=False, reads=True, numpy=np.argwhere)
def argwhere(input: Tensor) -> Tensor:
    """`nonzero`: the positions of the non-zero elements, (count, rank) int64.

    >>> volta.argwhere(volta.tensor([0, 5, 6])).tolist()
    [[1], [2]]
    """
    return nonzero(input)
