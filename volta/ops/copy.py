"""Copies: other element types, other devices, in float32, and rearranged elements."""
from __future__ import annotations

from functools import partial, wraps
from inspect import signature
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph, indexing, inplace
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare, diagonal_sum, of_one_dtype
from volta._kernels.core.halves import widened
from volta._kernels.core.order import by_pixels, dense_strides
from volta._kernels.core.reshaping import expand_kernel
from volta.device import as_device
from volta.dtypes import HALVES, as_dtype, as_integer, bool_, check_held, float32, float64, int64, result_type, to_numpy, uint8
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.layout import channels_last, channels_last_3d, contiguous_format, preserve_format
from volta.ops.parts import narrow
from volta.ops.records.copy import cast, copy_into_op, fill_into_op, transfer
from volta.ops.records.create import full_op
from volta.ops.records.math import mul, where_op
from volta.ops.records.reduce import sum_op
from volta.ops.records.view import as_it_lies, clone_op, contiguous_op, diagonal_op, in_order, on_diagonal, row_major, slice_op
from volta.ops.table import Derived, case, composed
from volta.ops.view import expand, reshape, squeeze, unsqueeze
from volta.shapes import as_dims, as_shape, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.layout import memory_format as Layout
    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike, Number


def copy_into(out: Tensor, x: Tensor) -> None:
    """out[...] = x with broadcasting, unrecorded."""
    if core.stands_in(out):
        inplace.overwrite(out, x if x.shape == out.shape else expand(x, out.shape))
        return
    inplace.check_elements("copy", out)
    if x._shape != out._shape:
        x = expand_kernel(x, shape=out._shape)
    run_kernel(copy_into_op, out.device, (out, x))


def changed_by(name, input, other, result_of):
    """input = result_of(input) in place, which does not keep it for its derivative; recorded where it or `other` wants a gradient."""
    if graph.is_grad_enabled() and (input.requires_grad or other.requires_grad):
        inplace.check_inplace(name, input)
        return inplace.overwrite(input, result_of(input if core.stands_in(input) else inplace.as_before(input)))
    inplace.check_elements(name, input)
    result = result_of(input)
    if core.stands_in(input):
        return inplace.overwrite(input, result)
    copy_into(input, result)
    return input


def fill_into(out: Tensor, value: Number) -> None:
    """out[...] = number, unrecorded and without bumping the version."""
    if core.stands_in(out):
        inplace.in_batch(out, value)
        return
    run_kernel(fill_into_op, out.device, (out, value))


def in_float32(function):
    """Decorator of a composed op: for a float16 or bfloat16 input all is computed in float32 and the result rounded once. Steps of
    their own would overflow at 65,504 and round many times."""
    @wraps(function)
    def run(input, *args, **options):
        if input.dtype not in HALVES:
            return function(input, *args, **options)
        return widened(function, (input, *args), options)
    return run


def promoted(function, one=False):
    """Decorator of a composed op of several tensors: they come in their common dtype, float16 and bfloat16 as float32, and the result is
    rounded to it once. An option that is a number, perhaps a tensor without dimensions, has no part in it. With `one`, the function is a
    single kernel, which rounds once by itself; its derivative would not."""
    if function is None:
        return partial(promoted, one=one)
    numbers = {name for name, of in signature(function).parameters.items() if of.annotation in ("Number", "float", "str", "int", "bool")}

    @wraps(function)
    def run(*tensors, **options):
        if of_one_dtype(tensors, one, options):
            return function(*tensors, **options)
        given = [x for x in tensors if isinstance(x, core.TensorBase)]
        given += [x for name, x in options.items() if name not in numbers and isinstance(x, core.TensorBase)]
        dtype = result_type(*given) if given else None
        wide = float32 if dtype in HALVES else dtype
        if all(x.dtype is wide for x in given):
            return function(*tensors, **options)
        for kind in (dtype, wide)[not one:]:    # PyTorch rounds wider tensors without dimensions to 16 bits for a single kernel
            tensors = [_as(x, kind) for x in tensors]
            options = {name: x if name in numbers else _as(x, kind) for name, x in options.items()}
        out = function(*tensors, **options)
        return cast(out, dtype) if dtype in HALVES else out
    return run


def multiple(input, source, alpha):
    """alpha * source, to be added to the input, where nothing has to be looked at before; None for another alpha than 1 elsewhere."""
    if alpha == 1:
        return source
    plain = type(alpha) in (int, float) and isinstance(source, core.TensorBase) and source.dtype in (float32, float64)
    return mul(source, alpha) if plain and abs(alpha) <= 65504 and bare(source) and not core.same_memory(input, source) else None


def untouched(input, source):
    """A copy of the input. A source is part of its graph, as in PyTorch, although nothing of it is taken."""
    if not isinstance(source, core.TensorBase) or bare(source):
        return contiguous_op(input)
    never = run_kernel(full_op, input.device, ((), False), {"dtype": bool_, "device": input.device})
    return where_op(never, sum_op(source, dim=tuple(range(source.ndim)), keepdim=False), row_major(input))


def as_wide(x):
    """A float16 or bfloat16 tensor as float32; anything else as it is."""
    return cast(x, float32) if isinstance(x, core.TensorBase) and x.dtype in HALVES else x


def _as(x, dtype):
    return cast(x, dtype) if isinstance(x, core.TensorBase) else x


def arranged(name: str, x: Tensor, memory_format: Layout | None) -> Tensor:
    """The tensor with its elements in this order in memory. Raises: ArgumentError for another number of dimensions, and of `contiguous`
    and `empty` for `preserve_format`."""
    if memory_format is None or memory_format is preserve_format:
        if memory_format is not None and name == "contiguous" and not x._contiguous:
            raise ArgumentError("contiguous: preserve memory format is unsupported by the contiguous operator; give another, or clone()")
        if memory_format is not None and name == "empty":
            raise ArgumentError("empty: unsupported memory format Preserve, as there is nothing to preserve; use empty_like")
        return x
    if memory_format is contiguous_format:
        return x if x._contiguous and (name == "contiguous" or x._strides == core.strides_of(x._shape)) else contiguous_op(x)
    if memory_format is not channels_last and memory_format is not channels_last_3d:
        raise ArgumentError(f"{name}: memory_format must be a volta.memory_format, got {memory_format!r}")
    if x.ndim != memory_format.value:
        rank = memory_format.value
        raise ArgumentError(f"{name}: required rank {rank} tensor to use {memory_format.name} format, got a shape {tuple(x.shape)}")
    last = x.movedim(1, -1)
    if last._contiguous and x._size and (name == "contiguous" or last._strides == core.strides_of(last._shape)):
        return x
    return laid(x, True)


def suggested(x: Tensor) -> Layout:
    """The memory format that results should have beside x."""
    return contiguous_format if not by_pixels(x) else channels_last if x.ndim == 4 else channels_last_3d


def laid(x: Tensor, pixels: bool) -> Tensor:
    """Images or volumes with the channels of each pixel together, or row-major."""
    return in_order(x, (0, *range(2, x.ndim), 1)) if pixels and x.ndim > 3 else x if pixels else contiguous_op(x)


def pixels_as(x: Tensor, out: Tensor) -> Tensor:
    """What was made of images, row-major, with the channels of each pixel together where those of x lie so."""
    return laid(out, True) if by_pixels(x) and not by_pixels(out) else out


def lines_as(x: Tensor, out: Tensor) -> Tensor:
    """`pixels_as` of lines, which are images of one row."""
    return out if x._contiguous else squeeze(pixels_as(unsqueeze(x, 2), unsqueeze(out, 2)), 2)


@composed(samples=(case((2, 3)), case(())), kinds="fib", record=clone_op, numpy=lambda x, **_: np.copy(x))
def clone(input: Tensor, *, memory_format: Layout | None = None) -> Tensor:
    """A copy with its own storage, differentiable; it lies in memory as the tensor does unless `memory_format` says otherwise.

    >>> volta.clone(volta.arange(2)).tolist()
    [0, 1]
    """
    if memory_format is None or memory_format is preserve_format:
        return clone_op(input)
    out = arranged("clone", input, memory_format)
    return clone_op(out) if out is input else out


@composed(samples=(case((2, 3)), case(())), kinds="fib", function=False, numpy=lambda x, **_: np.copy(x))
def contiguous(input: Tensor, *, memory_format: Layout = contiguous_format) -> Tensor:
    """The tensor itself where it is row-major, or as `memory_format` says, else a copy that is.

    >>> volta.ones(2, 3).t().contiguous().stride()
    (2, 1)
    >>> volta.ones(1, 2, 3, 4).contiguous(memory_format=volta.channels_last).stride()
    (24, 1, 8, 2)
    """
    return input if memory_format is contiguous_format and input._contiguous else arranged("contiguous", input, memory_format)


@composed(samples=(case((2, 3), dtype=int64),), kinds="fib", function=False, smooth=False,
          numpy=lambda x, dtype: x.astype(to_numpy(dtype)))
def to(input: Tensor, *args: object, dtype: DTypeLike = None, device: DeviceLike = None, copy: bool = False,
       non_blocking: bool = False, memory_format: Layout | None = None, tensor: Tensor | None = None) -> Tensor:
    """The tensor on another device, as another dtype, or both: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(other)`.

    Raises: TypeError for arguments in another order.

    >>> volta.arange(2).to("cpu", volta.float32).tolist()
    [0.0, 1.0]
    """
    if len(args) == 1 and dtype is None and device is None and tensor is None and not copy and memory_format is None:
        if type(args[0]) is core.DType:
            return cast(input, args[0])
        if isinstance(args[0], (str, core.Device)) and as_device(args[0]) is input.device:
            return input
    flags = []
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    for a in args:
        if type(a) is bool and a is not args[0]:
            flags.append(a)                     # non_blocking, copy
        elif type(a) is core.DType:
            dtype = a
        elif isinstance(a, core.TensorBase):
            device, dtype = a.device, a.dtype
        elif isinstance(a, (str, core.Device, int)) and a is args[0]:
            device = a
        elif a is not None:
            if len(args) > 2 and a is not args[0] and a is not args[1]:
                raise TypeError(f"to: non_blocking and copy must be True or False, got {a!r}")
            dtype = a
    if len(flags) > 2 or flags and flags != list(args[-len(flags):]):
        raise TypeError(f"to: takes a device, a dtype, non_blocking and copy in this order, got {args}")
    copy = flags[1] if len(flags) == 2 else copy
    out, kind = input, None if dtype is None else as_dtype(dtype)
    place = out.device if device is None else as_device(device)
    if kind is not None and (place.is_gpu or place is out.device):
        out = cast(out, kind)
    if place is not out.device:
        out = as_it_lies(partial(transfer, device=place), out)
    if kind is not None:                    # on the CPU, which has every dtype, not on the GPU that it comes from
        out = cast(out, kind)
    if copy and out is input:
        return clone(out, memory_format=memory_format)
    return _asked(input, out, memory_format)


def cast_as(input: Tensor, dtype: core.DType, memory_format: Layout | None) -> Tensor:
    """As another dtype, arranged as `memory_format` says."""
    return _asked(input, cast(input, dtype), memory_format)


def _asked(input, out, memory_format):
    """What `to` has made of `input`, arranged. As in PyTorch, it is left alone where its strides suggest that format, with gaps, too."""
    if memory_format is None or out is input and memory_format is suggested(input):
        return out
    return arranged("to", out, memory_format)


@composed(samples=(case((2, 3), Derived(lambda x: x)),), kinds="fib", function=False, numpy=lambda x, other: np.copy(x))
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """As the dtype of `other`, where `other` is.

    >>> volta.arange(2).type_as(volta.ones(1)).tolist()
    [0.0, 1.0]
    """
    return cast(input, other.dtype) if other.device is input.device else to(input, other)


# ---------------------------------------------------------------- rearranged
@composed(samples=(case((4, 5), dim=1, start=1, length=3), case((4,), dim=-1, start=-2, length=2)), kinds="fib",
          numpy=lambda x, dim, start, length: np.take(x, range(start, start + length), dim))
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`narrow` as a copy.

    >>> volta.narrow_copy(volta.arange(5), 0, 1, 3).tolist()
    [1, 2, 3]
    """
    return contiguous_op(narrow(input, dim, start, length))


@composed(samples=(case((2, 3), dims=(0, -1)), case((2, 3), dims=(1,)), case((2,), dims=())), kinds="fib",
          numpy=lambda x, dims: np.flip(x, dims))
def flip(input: Tensor, *which: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """The order of the elements reversed along `dims`, as a copy.

    >>> volta.flip(volta.arange(3), 0).tolist()
    [2, 1, 0]
    """
    dims = listed("flip", which, dims)
    return flipped(input, as_dims("flip", dims, len(input._shape)) if dims else ())


def flipped(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """A copy in which these dimensions run backwards."""
    if x._size and bare(x):
        record = contiguous_op if x._contiguous and dense_strides(x) is None else clone_op
        return run_kernel(record, x.device, (indexing.reversed_view(x, dims),))
    return clone_op(graph.call(slice_op, (x,), indexing.reversed_along(x, dims))) if x._size else contiguous_op(x)


@composed(samples=(case((2, 3)),), kinds="fib", numpy=np.fliplr)
def fliplr(input: Tensor) -> Tensor:
    """`flip` of dimension 1.

    Raises: ShapeError below rank 2.

    >>> volta.fliplr(volta.arange(4).reshape(2, 2)).tolist()
    [[1, 0], [3, 2]]
    """
    if input.ndim < 2:
        raise ShapeError(f"fliplr: needs at least 2 dimensions, got shape {input.shape}")
    return flipped(input, (1,))


@composed(samples=(case((2, 3)), case((3,))), kinds="fib", numpy=np.flipud)
def flipud(input: Tensor) -> Tensor:
    """`flip` of dimension 0.

    Raises: ShapeError for a 0-d tensor.

    >>> volta.flipud(volta.arange(3)).tolist()
    [2, 1, 0]
    """
    if not input.ndim:
        raise ShapeError("flipud: needs at least 1 dimension, got a 0-d tensor")
    return flipped(input, (0,))


@composed(samples=(case((2, 3), repeats=(2, 1, 2)), case((), repeats=(2,))), kinds="fib", function=False,
          numpy=lambda x, repeats: np.tile(x, repeats))
def repeat(input: Tensor, *sizes: int | Sequence[int], repeats: Sequence[int] | None = None) -> Tensor:
    """The tensor tiled so many times per dimension, as a copy.

    Raises: ShapeError for fewer counts than dimensions.

    >>> volta.arange(2).repeat(2, 2).tolist()
    [[0, 1, 0, 1], [0, 1, 0, 1]]
    """
    sizes = as_shape(*listed("repeat", sizes, repeats))
    if len(sizes) < input.ndim:
        raise ShapeError(f"repeat: {len(sizes)} counts for a tensor of rank {input.ndim}")
    shape = (1,) * (len(sizes) - input.ndim) + input.shape
    interleaved = tuple(v for s in shape for v in (1, s))
    tiled = tuple(v for n, s in zip(sizes, shape) for v in (n, s))
    wide = expand(reshape(input, interleaved), tiled)
    out = reshape(wide, tuple(n * s for n, s in zip(sizes, shape)))
    return contiguous_op(out) if out.storage is input.storage else out


@composed(samples=(case((2, 3), dims=(2,)),), kinds="fib", numpy=lambda x, dims: np.tile(x, dims))
def tile(input: Tensor, *counts: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """`repeat` that takes fewer counts than there are dimensions: the others are 1.

    >>> volta.tile(volta.arange(2), (2,)).tolist()
    [0, 1, 0, 1]
    """
    sizes = as_shape(*listed("tile", counts, dims))
    return repeat(input, (1,) * (input.ndim - len(sizes)) + sizes)


@composed(samples=(case((3,)), case((2,), diagonal=-1), case((3, 4), diagonal=1)), kinds="fib",
          numpy=lambda x, diagonal=0: np.diag(x, diagonal))
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or a matrix with a vector on its diagonal.

    Raises: ShapeError for another rank.

    >>> volta.diag(volta.tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    if input.ndim == 2:
        return contiguous_op(diagonal_op(input, offset=diagonal))
    if input.ndim != 1:
        raise ShapeError(f"diag: needs a vector or a matrix, got shape {input.shape}")
    size = input.shape[0] + abs(diagonal)
    out = on_diagonal(cast(input, uint8) if input.dtype is bool_ else input, (size, size), diagonal)
    return cast(out, input.dtype)


_ALL_OF_ONE = {"dim": (0,), "keepdim": False}


@composed(samples=(case((3, 4)),), kinds="fi", numpy=np.trace)
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix.

    Raises: ShapeError unless it is a matrix; DTypeError for bool.

    >>> volta.trace(volta.ones(2, 2)).item()
    2.0
    """
    if (found := diagonal_sum(sum_op, input, _ALL_OF_ONE)) is not None:
        return found
    if input.ndim != 2:
        raise ShapeError(f"trace: needs a matrix, got shape {input.shape}")
    if input.dtype.code == 0:
        raise DTypeError("trace: needs a floating point or integer tensor, got bool; convert it with .float()")
    shown = diagonal_op(input, offset=0)
    return sum_op(shown, dim=(0,), keepdim=False) if input.dtype in (float32, float64) else shown.sum()


def as_value(op: str, input: Tensor, value: Tensor) -> Tensor | Number:
    """A 0-d tensor that `input` is to hold, in its dtype; where that is one of integers and the host sees the number, the number."""
    if value.dtype is input.dtype or input.dtype.code == 0 or not core.host_sees(value) or core.stands_in(value):
        return cast(value, input.dtype)
    if not input.dtype.is_floating_point:
        return as_integer(op, value.item(), input.dtype)
    if value.dtype.itemsize > input.dtype.itemsize:
        check_held(op, value.item(), input.dtype)
    return cast(value, input.dtype)
