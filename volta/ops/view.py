"""Views: the same elements under other shapes and in another order of dimensions."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph, reshaping
from volta._kernels.core import indexing as geometry
from volta.errors import ArgumentError, DTypeError, ShapeError, warn_once
from volta.ops.records.view import expand_op, permute_op, reshape_op, row_major, slice_op
from volta.ops.table import Derived, case, composed
from volta.shapes import (
    as_dim,
    as_dims,
    as_order,
    broadcast_shapes,
    expanded,
    infer,
    listed,
    listed_sizes,
    moved,
    moved_one,
    squeezed,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta._kernels.core import DType
    from volta.tensor import Tensor

SAME_ON_GPUS = {"int32", "float16", "float32"}          # what has the same bytes there


# ---------------------------------------------------------------- shapes
@composed(samples=(case((2, 6), shape=(3, -1)), case((0, 3), shape=(3, 0))), kinds="fib", view=True,
          numpy=lambda x, shape: x.reshape(shape))
def reshape(input: Tensor, *sizes: int | Sequence[int], shape: Sequence[int] | None = None) -> Tensor:
    """The same elements under another shape (one size may be -1): a view where the strides allow, else a copy.

    Raises: ShapeError where the number of elements differs.

    >>> volta.reshape(volta.arange(4), (2, -1)).tolist()
    [[0, 1], [2, 3]]
    """
    return reshaping.reshape(reshape_op, input, sizes, shape)


@composed(samples=(case((6,), size=(2, 3)), case((), size=(1,))), kinds="fib", view=True,
          function=False, numpy=lambda x, size: x.reshape(size))
def view(input: Tensor, *shape: int | Sequence[int] | DType, size: Sequence[int] | None = None, dtype: DType | None = None) -> Tensor:
    """`reshape` that never copies; with a dtype in place of sizes, the same bytes as other elements, without a graph.

    Raises: ShapeError where the strides allow no view; DTypeError for bytes that are no such elements: bools of other ones, and on a
    GPU those of bool, uint8 and int64, which take 32 bits there; ArgumentError for neither or both.

    >>> volta.arange(4).view(2, 2).tolist()
    [[0, 1], [2, 3]]
    >>> volta.tensor([1.0, -2.0]).view(volta.int32).tolist()
    [1065353216, -1073741824]
    """
    if len(shape) == 1 and isinstance(shape[0], core.DType):
        shape, dtype = (), shape[0]
    if dtype is not None:
        if not isinstance(dtype, core.DType):
            raise DTypeError(f"view: dtype must be a dtype such as volta.int32, got {type(dtype).__name__}")
        if shape or size is not None:
            raise ArgumentError(f"view: needs sizes or a dtype, got {shape or size} and {dtype}")
        return _reinterpreted(input, dtype)
    return reshaping.view(reshape_op, input, shape, size)


def _reinterpreted(input, dtype):
    """The same bytes as elements of `dtype`."""
    own, name = input.dtype, f"view: {input.dtype} as {dtype}"
    if own is dtype:
        return core.alias(input)
    if input.device.is_gpu and not {own.name, dtype.name} <= SAME_ON_GPUS:
        raise DTypeError(f"{name}: on a GPU only int32, float16 and float32 lie in memory as on the CPU; move the tensor there with .cpu() "
                         f"or convert its values with .to({dtype})")
    if dtype.name == "bool":
        raise DTypeError(f"{name}: a bool is stored as 0 or 1, which other bytes need not be; compare with != 0")
    shape, strides, offset = input.shape, input._strides, input.offset
    if own.itemsize != dtype.itemsize:
        if not shape or strides[-1] != 1:
            raise ShapeError(f"{name}: elements of another size need a last dimension of stride 1, got shape {shape}, strides {strides}")
        parts, joined = max(own.itemsize // dtype.itemsize, 1), max(dtype.itemsize // own.itemsize, 1)
        numbers = (shape[-1], offset, *strides[:-1])
        if any(n % joined for n in numbers):
            raise ShapeError(f"{name}: the last size, the offset and the other strides must be divisible by {joined}, got shape {shape}, "
                             f"strides {strides} and offset {offset}")
        last, offset, *steps = [n * parts // joined for n in numbers]
        shape, strides = (*shape[:-1], last), (*steps, 1)
    if not input.device.is_gpu and input._size and input._address % dtype.itemsize:
        raise ShapeError(f"{name}: the data begin at an address that is no multiple of {dtype.itemsize}; clone() the tensor first")
    return core.tensor(input.storage, shape, strides, offset, dtype)


@composed(samples=(case((6,), Derived(lambda x: np.zeros((2, 3)))),), kinds="fib", view=True, function=False,
          numpy=lambda x, other: x.reshape(other.shape))
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`view` with the shape of `other`.

    >>> volta.arange(4).view_as(volta.ones(2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    return reshaping.view(reshape_op, input, (other._shape,))


@composed(samples=(case((6,), Derived(lambda x: np.zeros((2, 3)))),), kinds="fib", view=True, function=False,
          numpy=lambda x, other: x.reshape(other.shape))
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """`reshape` with the shape of `other`.

    >>> volta.arange(4).reshape_as(volta.ones(2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    return graph.call(reshape_op, (input,), {"shape": infer("reshape", input._size, other._shape)})


@composed(samples=(case((2, 3, 4), start_dim=1), case(())), kinds="fib", view=True,
          numpy=lambda x, start_dim=0: x.reshape(x.shape[:start_dim] + (-1,)))
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions start_dim to end_dim as one.

    Raises: ArgumentError where the first lies behind the last.

    >>> volta.flatten(volta.ones(2, 3, 4), 1).shape
    volta.Size([2, 12])
    """
    rank = len(input._shape)
    if start_dim == 0 and end_dim == -1 and rank != 1:
        return graph.call(reshape_op, (input,), {"shape": (input._size,)})
    a, b = as_dim("flatten", start_dim, rank), as_dim("flatten", end_dim, rank)
    if a > b:
        raise ArgumentError(f"flatten: start_dim {start_dim} lies behind end_dim {end_dim}")
    if a == b and rank:
        return input
    return graph.call(reshape_op, (input,), {"shape": input._shape[:a] + (math.prod(input._shape[a:b + 1]),) + input._shape[b + 1:]})


@composed(samples=(case((6, 2), dim=0, sizes=(2, -1)),), kinds="fib", view=True, numpy=lambda x, dim, sizes: x.reshape(sizes + x.shape[1:]))
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """A dimension as several (one size may be -1), as a view.

    Raises: ShapeError for a 0-d tensor, or without sizes.

    >>> volta.unflatten(volta.arange(4), 0, (2, 2)).tolist()
    [[0, 1], [2, 3]]
    """
    d = as_dim("unflatten", dim, input.ndim)
    if not input.shape:
        raise ShapeError("unflatten: a 0-d tensor has no dimension to take apart")
    if not sizes:
        raise ShapeError("unflatten: sizes must hold at least one size, got none")
    return reshape_op(input, shape=input.shape[:d] + infer("unflatten", input.shape[d], tuple(sizes)) + input.shape[d + 1:])


@composed(samples=(case((2, 3)), case(())), kinds="fib", view=True, numpy=np.ravel)
def ravel(input: Tensor) -> Tensor:
    """The elements as one dimension.

    >>> volta.ravel(volta.ones(2, 3)).shape
    volta.Size([6])
    """
    return reshape_op(row_major(input), shape=(input._size,))


@composed(samples=(case((3, 1), size=(2, -1, 4)), case((1,), size=(0,))), kinds="fib", view=True, function=False,
          numpy=lambda x, size: np.broadcast_to(x, [n if s == -1 else s for s, n in zip(size, (1,) * (len(size) - x.ndim) + x.shape)]))
def expand(input: Tensor, *shape: int | Sequence[int], size: Sequence[int] | None = None, implicit: bool = False) -> Tensor:
    """Size-1 dimensions repeated without copying; -1 keeps a size. `implicit` says who asks, and changes nothing.

    Raises: ShapeError where a size other than 1 would change.

    >>> volta.arange(2).expand(2, 2).tolist()
    [[0, 1], [0, 1]]
    """
    return reshaping.expand(expand_op, input, shape, size)


@composed(samples=(case((3, 1), Derived(lambda x: np.zeros((2, 3, 4)))),), kinds="fib", view=True, function=False,
          numpy=lambda x, other: np.broadcast_to(x, other.shape))
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`expand` to the shape of `other`.

    >>> volta.arange(2).expand_as(volta.ones(3, 2)).shape
    volta.Size([3, 2])
    """
    return graph.call(expand_op, (input,), {"shape": expanded(input._shape, other._shape)})


@composed(samples=(case((3, 1), size=(2, 3, 4)),), kinds="fib", view=True, numpy=lambda x, size: np.broadcast_to(x, size))
def broadcast_to(input: Tensor, size: int | Sequence[int]) -> Tensor:
    """`expand` with the shape as a tuple, or one size.

    >>> volta.broadcast_to(volta.arange(2), (2, 2)).tolist()
    [[0, 1], [0, 1]]
    """
    shape = (size,) if type(size) is int else listed_sizes("expand", (size,))
    return graph.call(expand_op, (input,), {"shape": expanded(input._shape, shape)})


@composed(samples=(case((3, 1), (4,)),), kinds="fib", method=False, numpy=lambda *x: tuple(np.broadcast_arrays(*x)))
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape.

    >>> [x.shape for x in volta.broadcast_tensors(volta.ones(3, 1), volta.ones(2))]
    [volta.Size([3, 2]), volta.Size([3, 2])]
    """
    shape = broadcast_shapes(*[t.shape for t in tensors])
    return tuple([t if t._shape == shape else graph.call(expand_op, (t,), {"shape": expanded(t._shape, shape)}) for t in tensors])


@composed(samples=(case((3,), (2,)), case((3,), (2,), (1,), indexing="xy")), kinds="fib", method=False,
          numpy=lambda *x, indexing="ij": tuple(np.meshgrid(*x, indexing=indexing)))
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> tuple[Tensor, ...]:
    """Vectors as coordinates of a grid: the i-th result varies along dimension i; with indexing="xy" the first two are exchanged.

    Raises: ArgumentError for tensors of rank above 1, and another `indexing`; DTypeError for different dtypes, and without tensors.

    >>> [x.tolist() for x in volta.meshgrid(volta.arange(2), volta.arange(2))]
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    vectors = tensors and listed("meshgrid", tensors, None)
    if not all(isinstance(t, core.TensorBase) for t in vectors):
        raise DTypeError(f"meshgrid: needs vectors, or one list of them, got {[type(t).__name__ for t in vectors]}")
    if indexing is None:
        warn_once("meshgrid: without indexing it is deprecated; give indexing='ij', which is meant then, or 'xy'")
        indexing = "ij"
    if indexing not in ("ij", "xy") or any(t.ndim > 1 for t in vectors):
        raise ArgumentError(f"meshgrid: needs vectors and indexing 'ij' or 'xy', got shapes {[t.shape for t in vectors]} and {indexing!r}")
    if len({t.dtype for t in vectors}) != 1:
        raise DTypeError(f"meshgrid: needs one vector at least, and all of one dtype, got {[t.dtype for t in vectors]}")
    if indexing == "xy" and len(vectors) > 1:
        grids = meshgrid(vectors[1], vectors[0], *vectors[2:], indexing="ij")
        return (grids[1], grids[0], *grids[2:])
    shape = tuple(t._size for t in vectors)
    lines = [reshape_op(t, shape=(1,) * i + (t._size,) + (1,) * (len(shape) - i - 1)) for i, t in enumerate(vectors)]
    return tuple([graph.call(expand_op, (line,), {"shape": shape}) for line in lines])


@composed(samples=(case((2, 3), dim=1), case((), dim=-1)), kinds="fib", geometry=True, numpy=lambda x, dim: np.expand_dims(x, dim))
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1 at `dim`.

    >>> volta.unsqueeze(volta.arange(2), 1).tolist()
    [[0], [1]]
    """
    return reshaping.unsqueeze(reshape_op, slice_op, input, dim)


@composed(samples=(case((1, 3, 1)), case((1, 3, 1), dim=0), case((2,), dim=0)), kinds="fib", geometry=True,
          numpy=lambda x, dim=None: np.squeeze(x, dim) if dim is None or x.shape[dim] == 1 else x)
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without its dimensions of size 1 (or those of `dim` that have it).

    >>> volta.squeeze(volta.ones(1, 3, 1)).shape
    volta.Size([3])
    """
    shape = input._shape
    if type(dim) is int:
        return graph.call(slice_op, (input,), geometry.squeezed(input, (as_dim("squeeze", dim, len(shape)),)))
    dims = None if dim is None else () if dim in ((), []) else as_dims("squeeze", dim, len(shape))
    left = squeezed(shape, dims)
    if input._size and (dims is None or 1 not in left):
        return graph.call(reshape_op, (input,), {"shape": left})
    return graph.call(slice_op, (input,), geometry.squeezed(input, dims))                # strides that reshape would not keep


# ---------------------------------------------------------------- order
@composed(samples=(case((2, 3, 4), dims=(2, 0, -2)), case((), dims=())), kinds="fib", view=True, numpy=lambda x, dims: x.transpose(dims))
def permute(input: Tensor, *order: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """Dimensions in another order, as a view.

    >>> volta.permute(volta.ones(2, 3, 4), (2, 0, 1)).shape
    volta.Size([4, 2, 3])
    """
    return graph.call(permute_op, (input,), {"dims": as_order("permute", listed("permute", order, dims), len(input._shape))})


@composed(samples=(case((2, 3, 4), dim0=0, dim1=-1), case((), dim0=0, dim1=-1)), kinds="fib", geometry=True,
          numpy=lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1) if x.ndim else x)
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged, as a view.

    >>> volta.transpose(volta.arange(4).reshape(2, 2), 0, 1).tolist()
    [[0, 2], [1, 3]]
    """
    return reshaping.transpose(permute_op, input, dim0, dim1)


@composed(samples=(case((2, 3)), case((3,)), case(())), kinds="fib", geometry=True, numpy=np.transpose)
def t(input: Tensor) -> Tensor:
    """Transpose of a tensor of rank 2 or less.

    Raises: ShapeError for a rank above 2.

    >>> volta.t(volta.ones(2, 3)).shape
    volta.Size([3, 2])
    """
    rank = len(input._shape)
    if rank > 2:
        raise ShapeError(f"t: needs rank 2 or less, got shape {input.shape}; use transpose(dim0, dim1) or mT")
    return graph.call(permute_op, (input,), {"dims": (1, 0) if rank == 2 else tuple(range(rank))})          # a view, of a vector too


@composed(samples=(case((2, 3), axis0=0, axis1=1),), kinds="fib", geometry=True, numpy=lambda x, axis0, axis1: np.swapaxes(x, axis0, axis1))
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """`transpose` under NumPy's name.

    >>> volta.swapaxes(volta.ones(2, 3), 0, 1).shape
    volta.Size([3, 2])
    """
    return transpose(input, axis0, axis1)


@composed(samples=(case((2, 3), dim0=0, dim1=1),), kinds="fib", geometry=True, numpy=lambda x, dim0, dim1: np.swapaxes(x, dim0, dim1))
def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """`transpose` under another name.

    >>> volta.swapdims(volta.ones(2, 3), 0, 1).shape
    volta.Size([3, 2])
    """
    return transpose(input, dim0, dim1)


@composed(samples=(case((2, 3, 4), source=0, destination=-1), case((2, 3, 4), source=(0, 1), destination=(1, 2))), kinds="fib", view=True,
          aliases=("moveaxis",), numpy=lambda x, source, destination: np.moveaxis(x, source, destination))
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions moved to other places, the others in their order, as a view.

    Raises: ArgumentError unless `source` and `destination` are as many different dimensions.

    >>> volta.movedim(volta.ones(2, 3, 4), 0, 2).shape
    volta.Size([3, 4, 2])
    """
    rank = len(input._shape)
    if type(source) is int and type(destination) is int and rank:
        return graph.call(permute_op, (input,), {"dims": moved_one("movedim", source, destination, rank)})
    sources, places = [tuple([as_dim("movedim", d, rank) for d in ((v,) if hasattr(v, "__index__") else v)]) for v in (source, destination)]
    if len(sources) != len(places) or len(set(sources)) != len(sources) or len(set(places)) != len(places):
        raise ArgumentError(f"movedim: source {source} and destination {destination} must name as many different dimensions")
    return graph.call(permute_op, (input,), {"dims": moved(sources, places, rank) if rank else ()})
