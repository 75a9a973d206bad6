"""More tensors by rule: numbers in geometric steps, indices of triangles, products and combinations of vectors, given strides."""
from __future__ import annotations

import builtins
import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta.device import as_device
from volta.dtypes import as_dtype, bool_, float32, float64, get_default_dtype, int32, int64
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.copy import to
from volta.ops.creation import arange, empty, full, linspace, number
from volta.ops.from_data import as_tensor, finish, tensor
from volta.ops.indexing import counted_places
from volta.ops.join import stack
from volta.ops.records.copy import cast
from volta.ops.records.index import index_select_op
from volta.ops.records.view import reshape_op
from volta.ops.table import case, composed
from volta.ops.view import meshgrid
from volta.shapes import as_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike, Number

_MASKED = 1 << 26           # places of a matrix up to which a GPU looks for those of a triangle
_made = composed(method=False, untested="tests/test_draws.py: no inputs to differentiate")


@_made
def scalar_tensor(s: Number, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """A 0-d tensor of the default dtype.

    >>> volta.scalar_tensor(3)
    tensor(3.)
    """
    return full.function((), s, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


@_made
def logspace(start: Number | Tensor, end: Number | Tensor, steps: int, base: float = 10.0, *, dtype: DTypeLike = None,
             device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """base ** x for `steps` values x from start to end, both included.

    >>> volta.logspace(0, 3, 4, base=2).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    kind, place = as_dtype(dtype or get_default_dtype()), as_device(device)
    exact = float64 if not place.is_gpu else float32         # rounded or cut off once
    if not kind.is_floating_point:                           # as in `linspace`, from bounds that are cut off
        start, end = (int(number("logspace", name, x)) for name, x in (("start", start), ("end", end)))
    return finish(cast(base ** linspace(start, end, steps, dtype=exact, device=place), kind), requires_grad)


@_made
def range(start: Number, end: Number, step: Number = 1, *, dtype: DTypeLike = None, device: DeviceLike = None,
          requires_grad: bool = False) -> Tensor:
    """start, start + step, ... with the end included: deprecated, as in PyTorch; use `arange`.

    Raises: ArgumentError for a step that does not lead from start to end, and what is not finite; DTypeError for bool.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     volta.range(0, 2).tolist()
    [0.0, 1.0, 2.0]
    """
    warnings.warn("range is deprecated, since it includes the end; use arange", UserWarning, stacklevel=3)
    kind = as_dtype(dtype or get_default_dtype())
    if kind is bool_:
        raise DTypeError("range: bool has no numbers; take an integer or a floating point dtype")
    if not kind.is_floating_point and all(map(math.isfinite, (start, end, step))):
        start, end, step = int(start), int(end), int(step)
    if step == 0 or (end - start) / step < 0:
        raise ArgumentError(f"range: from {start} to {end} cannot be walked in steps of {step}")
    if not math.isfinite((end - start) / step):
        raise ArgumentError(f"range: needs finite numbers, got {start}, {end} and {step}")
    count = int((end - start) / step + 1)
    return finish(cast(arange(0, count, device=device), kind) * step + start, requires_grad)


def _triangle(name, upper, row, col, offset, dtype, device):
    for which, size in (("row", row), ("col", col)):
        if not hasattr(size, "__index__") or size < 0:
            raise ArgumentError(f"{name}: {which} must be an integer >= 0, got {size!r}")
    dtype = int64 if dtype is None else as_dtype(dtype)
    if dtype is not int64 and dtype is not int32:
        raise DTypeError(f"{name}: indices are int64 or int32, got {dtype}")
    core.checked_size((row,))
    core.checked_size((col,))
    offset = max(-row, min(offset, col))                        # beyond, all are in the triangle, or none
    first, last = (0, min(row, col - offset)) if upper else (max(0, -offset), row)         # rows that have a part in it
    count = row * col - _below(row, col, offset - 1) if upper else _below(row, col, offset)
    core.checked_size((2, count))
    place = as_device(device)
    if place.is_gpu and place.type != "meta" and 0 < count and row * col <= _MASKED:
        steps = arange(col, device=place) - reshape_op(arange(row, device=place), shape=(row, 1))
        return to(counted_places(steps >= offset if upper else steps <= offset, count), dtype=dtype)
    out = core.triangle_places(first, last if count else first, col, offset, upper, count)
    return out if dtype is int64 and place is out.device else to(out, device=place, dtype=dtype)


def _below(rows: int, columns: int, offset: int) -> int:
    """How many places of a matrix are on or below the diagonal `offset`."""
    first = min(max(0, -offset), rows)                          # from here on rows have some, from `whole` on all their columns
    whole = min(max(columns - offset, first), rows)
    return (whole - first) * (first + whole + 2 * offset + 1) // 2 + (rows - whole) * columns


@_made
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """The indices (rows, columns) of the lower triangle of a matrix, row by row.

    >>> volta.tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle("tril_indices", False, row, col, offset, dtype, device)


@_made
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """The indices (rows, columns) of the upper triangle of a matrix, row by row.

    >>> volta.triu_indices(2, 2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle("triu_indices", True, row, col, offset, dtype, device)


@_made
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples of elements of some vectors, a row each, the last one running fastest.

    Raises: ArgumentError without tensors; ShapeError for other ranks.

    >>> volta.cartesian_prod(volta.tensor([1, 2]), volta.tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    for x in tensors:
        if x.ndim != 1:
            raise ShapeError(f"cartesian_prod: needs vectors, got shape {x.shape}")
    if not tensors:
        raise ArgumentError("cartesian_prod: needs at least one vector")
    if len(tensors) == 1:
        return tensors[0]
    columns = [reshape_op(x, shape=(x._size,)) for x in meshgrid(*tensors, indexing="ij")]
    return stack(columns, 1)


def _np_combinations(x, r=2, with_replacement=False):
    return x[_places(len(x), r, with_replacement)]


def _places(size, r, again):
    """The positions of all combinations, (count, r), column by column: each row so far goes on with every position that leaves enough for
    the columns behind."""
    count, step = math.comb(size + r - 1 if again else size, r), 0 if again else 1
    core.checked_size((count, r))
    if not count:
        return np.empty((0, r), np.int64)
    rows = np.arange(size - (r - 1) * step, dtype=np.int64)[:, None]
    for column in builtins.range(1, r):
        first = rows[:, -1] + step
        counts = size - (r - 1 - column) * step - first
        ends = np.cumsum(counts)
        last = np.arange(ends[-1], dtype=np.int64) - np.repeat(ends - counts - first, counts)
        rows = np.concatenate((np.repeat(rows, counts, 0), last[:, None]), 1)
    return rows


@composed(samples=(case((4,)), case((5,), r=3), case((3,), with_replacement=True), case((2,), r=3)), kinds="fib", method=False, reads=True,
          numpy=_np_combinations)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of `r` elements of a vector, a row each, in the order of their positions, which are made on the host.

    Raises: ShapeError for what is no vector; ArgumentError for a negative r.

    >>> volta.combinations(volta.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    if input.ndim != 1:
        raise ShapeError(f"combinations: needs a vector, got shape {input.shape}")
    if r < 0:
        raise ArgumentError(f"combinations: r must be >= 0, got {r}")
    if r == 0:
        return empty(0, dtype=input.dtype, device=input.device)
    places = _places(input._size, r, with_replacement)
    return reshape_op(index_select_op(input, tensor(places.reshape(-1), device=input.device), dim=0), shape=places.shape)


@composed(samples=(case((3,)), case((3,), N=5), case((4,), N=2, increasing=True), case((2,), N=0)), kinds="fi", method=False,
          domain=(0.5, 2.0), numpy=lambda x, N=None, increasing=False: np.vander(x, N, increasing).astype(
              np.float64 if x.dtype.kind == "f" else np.int64), dtype=lambda d: d if d.is_floating_point else int64)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers N - 1 to 0 of each element in a row, or with `increasing` 0 to N - 1; N is by default how many elements there are.

    Raises: ShapeError for what is no vector; ArgumentError for a negative N.

    >>> volta.vander(volta.tensor([1, 2, 3])).tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    if x.ndim != 1:
        raise ShapeError(f"vander: needs a vector, got shape {x.shape}")
    count = x._size if N is None else N
    if count < 0:
        raise ArgumentError(f"vander: N must be >= 0, got {N}")
    powers = arange(count, device=x.device) if increasing else arange(count - 1, -1, -1, device=x.device)
    x = x if x.dtype.is_floating_point else cast(x, int64)
    return reshape_op(x, shape=(x._size, 1)) ** cast(powers, x.dtype)


@_made
def empty_strided(size: Sequence[int], stride: Sequence[int], *, dtype: DTypeLike = None, device: DeviceLike = None,
                  requires_grad: bool = False) -> Tensor:
    """Contents undefined, with these strides, in elements.

    Raises: ShapeError unless there is one stride >= 0 for each size.

    >>> volta.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    sizes, strides = as_shape(*size), tuple(stride)
    if len(strides) != len(sizes) or any(not hasattr(s, "__index__") or s < 0 for s in strides):
        raise ShapeError(f"empty_strided: needs one stride >= 0 for each of the sizes {sizes}, got {strides}")
    length = 1 + sum((n - 1) * int(s) for n, s in zip(sizes, strides)) if 0 not in sizes else 0
    memory = empty(core.checked_size((length,)), dtype=dtype, device=device)
    return finish(core.view(memory, sizes, tuple(int(s) for s in strides), 0), requires_grad)


@_made
def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], *, dtype: DTypeLike = None, device: DeviceLike = None,
                   requires_grad: bool = False) -> Tensor:
    """Contents undefined, with the dimensions in memory in the order of `physical_layout`, the last one densest.

    Raises: ShapeError unless that names each dimension once.

    >>> volta.empty_permuted((2, 3, 4), (1, 0, 2)).stride()
    (4, 8, 1)
    """
    sizes, order = as_shape(*size), tuple(physical_layout)
    if sorted(order) != [d for d, _ in enumerate(sizes)]:
        raise ShapeError(f"empty_permuted: physical_layout must name each of the {len(sizes)} dimensions once, got {order}")
    memory = empty(tuple(sizes[d] for d in order), dtype=dtype, device=device)
    return finish(memory.permute([order.index(d) for d in sorted(order)]), requires_grad)


@composed(function=False, untested="as the function without new_")
def new_empty_strided(self: Tensor, size: Sequence[int], stride: Sequence[int], *, dtype: DTypeLike = None, device: DeviceLike = None,
                      requires_grad: bool = False) -> Tensor:
    """`volta.empty_strided` with the dtype and device of this tensor.

    >>> volta.ones(2).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    return empty_strided(size, stride, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


@_made
def asarray(obj: object, *, dtype: DTypeLike = None, device: DeviceLike = None, copy: bool | None = None,
            requires_grad: bool | None = None) -> Tensor:
    """`obj` as a tensor; `copy` True always copies, False never, None where it has to. A tensor stays in its graph unless `requires_grad`
    is False.

    Raises: ArgumentError where copy=False asks for what needs a copy.

    >>> volta.asarray([1, 2], dtype=volta.float32).tolist()
    [1.0, 2.0]
    """
    if copy and isinstance(obj, np.ndarray):
        return tensor(obj, dtype=dtype, device=device, requires_grad=bool(requires_grad))
    out = as_tensor(obj, dtype=dtype, device=device)
    if requires_grad is False and out.requires_grad:
        out = out.detach()
    if isinstance(obj, core.TensorBase) and out.storage is obj.storage:
        if copy:
            out = out.clone()
    elif copy is False and not (isinstance(obj, np.ndarray) and np.shares_memory(out.detach().numpy(), obj)):
        raise ArgumentError("asarray: a tensor of this needs a copy; call it without copy=False")
    elif copy and not isinstance(obj, core.TensorBase):
        out = out.clone()
    return out.requires_grad_() if requires_grad and not out.requires_grad else out
