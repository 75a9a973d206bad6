"""Views (reshape, permute, expand, slicing), copies (contiguous, cast, place, cat) and transfer between devices.

A view shares its storage and costs no kernel; its derivative is another view or `place`, the inverse of slicing.
"""
from __future__ import annotations

import operator
from functools import wraps
from typing import TYPE_CHECKING

from volta._kernels import core
from volta._kernels.core import graph, indexing, inplace
from volta._kernels.core.call import run_kernel
from volta.device import device as as_device
from volta.dtypes import as_dtype, bool_, float16, float32, int32, int64, promote_types, to_numpy
from volta.errors import ArgumentError, IndexRangeError, ShapeError
from volta.ops.table import case, register
from volta.shapes import as_dim, as_dims, as_shape, infer, view_strides

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from volta._kernels.core import DType
    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike, Number


# ---------------------------------------------------------------- views
def _reshape_kernel(x, *, shape):
    if x._contiguous:
        return core.reshaped(x, shape)
    strides = view_strides(x.shape, x._strides, shape)
    if strides is not None:
        return core.view(x, shape, strides, x.offset)
    return core.reshaped(run_kernel(contiguous_, x.device, (x,)), shape)


def _expand_kernel(x, *, shape):
    lead = len(shape) - len(x.shape)
    strides = [0] * lead + [0 if a == 1 and b != 1 else s for a, b, s in zip(x.shape, shape[lead:], x._strides)]
    return core.view(x, shape, tuple(strides), x.offset)


def _invert(dims):
    out = [0] * len(dims)
    for i, d in enumerate(dims):
        out[d] = i
    return tuple(out)


def _np_expand(x, shape):
    import numpy
    return numpy.broadcast_to(x, shape)


def _np_slice(x, starts, sizes, steps, axes=None):
    out = x[tuple(slice(a, None if a + n * s < 0 else a + n * s, s) for a, n, s in zip(starts, sizes, steps))]
    return out if axes is None else out.reshape([1 if i < 0 else sizes[i] for i in axes])


_reshape = register(
    "reshape", ("x",), family="view", view=_reshape_kernel, vjp=(lambda g, x_shape: _reshape(g, shape=x_shape),),
    numpy=lambda x, shape: x.reshape(shape), cases=(case((2, 6), shape=(3, 4)), case((), shape=(1, 1)), case((0, 3), shape=(3, 0))))
permute_primitive = register(
    "permute", ("x",), family="view", view=indexing.permute_view, vjp=(lambda g, dims: permute_primitive(g, dims=_invert(dims)),),
    numpy=lambda x, dims: x.transpose(dims), cases=(case((2, 3, 4), dims=(2, 0, 1)), case((3, 0), dims=(1, 0))))
_expand = register(
    "expand", ("x",), family="view", view=_expand_kernel, vjp=(lambda g, x_shape: sum_to(g, x_shape),),
    numpy=_np_expand, cases=(case((3, 1), shape=(2, 3, 4)), case((1,), shape=(0,))))
slice_primitive = register(
    "slice", ("x",), family="view", view=indexing.slice_view,
    vjp=(lambda g, x_shape, starts, sizes, steps, axes: _unslice(g, x_shape, starts, sizes, steps, axes),), numpy=_np_slice,
    cases=(case((5, 6), starts=(1, 4), sizes=(2, 3), steps=(2, -2)), case((4,), starts=(0,), sizes=(0,), steps=(1,)),
           case((3, 4, 5), starts=(1, 0, 2), sizes=(1, 4, 2), steps=(1, 1, -1), axes=(-1, 1, 2))))


def _unslice(g, shape, starts, sizes, steps, axes):
    """The derivative of slicing: g put where it was taken from. A negative step is undone by flipping first."""
    if axes is not None:
        g = _reshape(g, shape=sizes)
    if sizes == shape and all(s > 0 for s in steps):
        return g
    backwards = [d for d, s in enumerate(steps) if s < 0]
    if backwards:
        g = flip(g, backwards)
        starts = tuple(a + (n - 1) * s if s < 0 and n else a for a, n, s in zip(starts, g.shape, steps))
        steps = tuple(-s if s < 0 else s for s in steps)
    return _place(g, shape=shape, starts=starts, steps=steps, value=0.0)


# ---------------------------------------------------------------- copies
def _np_place(x, shape, starts, steps, value):
    import numpy
    out = numpy.full(shape, value, x.dtype)
    out[tuple(slice(a, a + (n - 1) * s + 1 if n else a, s) for a, n, s in zip(starts, x.shape, steps))] = x
    return out


contiguous_ = register("contiguous", ("x",), family="movement", vjp=(lambda g: g,), numpy=lambda x: x.copy(), kinds="fib",
                       cases=(case((3, 4)), case(()), case((0, 2))))
_cast = register("cast", ("x",), family="movement", vjp=(lambda g, x_dtype: cast(g, x_dtype),), smooth=False, kinds="fib",
                 numpy=lambda x, dtype: x.astype(to_numpy(dtype)),
                 cases=(case((3, 4), dtype=int64), case((2, 3), dtype=bool_), case((5,), dtype=int32), case((), dtype=float32),
                        case((0, 2), dtype=int32), case((70, 3), dtype=float32)))
_place = register(
    "place", ("x",), family="movement", numpy=_np_place, kinds="fi",
    vjp=(lambda g, x_shape, starts, steps: slice_primitive(g, starts=starts, sizes=x_shape, steps=steps),),
    cases=(case((2, 3), shape=(4, 7), starts=(1, 0), steps=(2, 3), value=0.5), case((0,), shape=(3,), starts=(0,), steps=(1,), value=1.0)))


def _cat_vjp(g, needs, shapes, dim):
    out, start = [], 0
    for need, shape in zip(needs, shapes):
        out.append(narrow(g, dim, start, shape[dim]) if need else None)
        start += shape[dim]
    return tuple(out)


def _np_cat(*tensors, dim):
    import numpy
    return numpy.concatenate(tensors, dim)


_cat = register("cat", ("*",), family="movement", vjp=_cat_vjp, numpy=_np_cat, kinds="fib",
                cases=(case((2, 3), (2, 1), dim=1), case((2, 3), (0, 3), (4, 3), dim=0)))
_copy_into = register("copy_into", ("out", "x"), writes=("out",), family="inplace", numpy=lambda out, x: (x, None), kinds="fib",
                      cases=(case((3, 4), (3, 4)), case((), ()), case((0, 2), (0, 2))))
_fill_into = register("fill_into", ("out", "value"), writes=("out",), family="inplace", numpy=lambda out, value: (out * 0 + value, None), kinds="fi",
                      cases=(case((3, 4), 2), case((), 1), case((2, 0), 3)))


def copy_into(out: Tensor, x: Tensor) -> None:
    """out[...] = x with broadcasting, unrecorded."""
    if x.shape != out.shape:
        x = _expand_kernel(x, shape=out.shape)
    run_kernel(_copy_into, out.device, (out, x))


def fill_into(out: Tensor, value: Number) -> None:
    """out[...] = number, unrecorded and without bumping the version."""
    run_kernel(_fill_into, out.device, (out, value))


def cast(x: Tensor, dtype: DTypeLike) -> Tensor:
    """x as another element type; x itself where it already has it."""
    return x if x.dtype is dtype else _cast(x, dtype=dtype)


def in_float32(function):
    """Decorator of a composed op: for a float16 input all is computed in float32 and the result rounded once. Steps of their
    own in float16 would overflow at 65,504 and round many times."""
    @wraps(function)
    def run(input, *args, **options):
        if input.dtype is not float16:
            return function(input, *args, **options)
        return widened(function, (input, *args), options)
    return run


def widened(function, args, options):
    """function(*args, **options) in float32, its result rounded to float16."""
    return cast(function(*map(_wide, args), **{name: _wide(x) for name, x in options.items()}), float16)


def _wide(x):
    return cast(x, float32) if isinstance(x, core.TensorBase) and x.dtype is float16 else x


# ---------------------------------------------------------------- transfer
_download = register("download", ("x",), family="transfer", cases=())
_upload = register("upload", (), family="transfer", cases=())


def _transfer_kernel(x, *, device):
    host = x
    if x.device.is_gpu:
        host = from_array(run_kernel(_download, x.device, (x,)))
        if host.dtype is not x.dtype:
            host = cast(host, x.dtype)
    if not device.is_gpu:
        return host
    return run_kernel(_upload, device, (run_kernel(_download, host.device, (host,)), x.dtype, device))


def from_array(array: np.ndarray) -> Tensor:
    """Host tensor over the memory of a C-contiguous NumPy array."""
    from volta.dtypes import from_numpy_dtype
    storage = core.borrowed_storage(array, array.__array_interface__["data"][0], array.nbytes)
    return core.tensor(storage, array.shape, tuple(s // array.itemsize for s in array.strides), 0, from_numpy_dtype(array.dtype))


_transfer = register("transfer", ("x",), family="view", view=_transfer_kernel, cases=(),
                     vjp=(lambda g, x_device: _transfer(g, device=x_device),))


def to(input: Tensor, *args: object, dtype: DTypeLike = None, device: DeviceLike = None, copy: bool = False,
       non_blocking: bool = False) -> Tensor:
    """The tensor on another device, as another dtype, or both: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(other)`."""
    for a in args:
        if isinstance(a, core.TensorBase):
            device, dtype = a.device, a.dtype
        elif isinstance(a, (str, core.Device)) or isinstance(a, int):
            device = a
        elif a is not None:
            dtype = a
    out, kind = input, None if dtype is None else as_dtype(dtype)
    place = out.device if device is None else as_device(device)
    if kind is not None and (place.is_gpu or place is out.device):
        out = cast(out, kind)
    if place is not out.device:
        out = _transfer(out, device=place)
    if kind is not None:                    # on the CPU, which has every dtype, not on the GPU that it comes from
        out = cast(out, kind)
    return clone(out) if copy and out is input else out


def clone(input: Tensor) -> Tensor:
    """A copy with its own storage, differentiable."""
    return contiguous_(input)


def contiguous(input: Tensor) -> Tensor:
    """The tensor itself where it is row-major, else a row-major copy."""
    return input if input._contiguous else contiguous_(input)


def replace(form, input, args, options):
    """An op in place (`form`) by computing it and copying the result in; recorded where gradients are wanted."""
    function = form.op
    if form.geometry:
        if graph.is_grad_enabled() and input.requires_grad:
            inplace.check_inplace(function.name, input)
        source = inplace.as_before(input) if input._base is None else input
        return inplace.show_as(input, function(source, *args, **options))
    if graph.is_grad_enabled() and (input.requires_grad or any(isinstance(x, core.TensorBase) and x.requires_grad for x in args)):
        inplace.check_inplace(function.name, input)
        source = clone(inplace.as_before(input))            # a copy: the function may save its input
    else:
        source = input
    result = function(source, *args, **options)
    if result.shape != input.shape:
        raise ShapeError(f"{form.name}: the result has shape {result.shape} but the tensor changed in place has {input.shape}; "
                         f"use the out-of-place {function.name}")
    inplace.check_stored(function.name, result.dtype, input)
    if source is not input:
        return inplace.overwrite(input, result)
    inplace.check_elements(function.name, input)
    copy_into(input, result if result.dtype is input.dtype else cast(result, input.dtype))
    return input


# ---------------------------------------------------------------- functions
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


def reshape(input: Tensor, *sizes: int | Sequence[int], shape: Sequence[int] | None = None) -> Tensor:
    """The same elements under another shape (one size may be -1): a view where the strides allow, else a copy.

    Raises: ShapeError where the number of elements differs.
    """
    return _reshape(input, shape=infer("reshape", input._size, _sizes("reshape", sizes, shape)))


def view(input: Tensor, *shape: int | Sequence[int], size: Sequence[int] | None = None) -> Tensor:
    """`reshape` that never copies.

    Raises: ShapeError where the strides allow no view; ArgumentError for a dtype, whose bytes Volta does not reinterpret.
    """
    if len(shape) == 1 and isinstance(shape[0], core.DType):
        raise ArgumentError(f"view: reading the bytes as {shape[0]} is not available; convert the values with .to({shape[0]})")
    new = infer("view", input._size, _sizes("view", shape, size))
    if not input._contiguous and view_strides(input.shape, input._strides, new) is None:
        raise ShapeError(f"view: shape {input.shape} with strides {input._strides} cannot be seen as {new} without a copy; use reshape")
    return _reshape(input, shape=new)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions start_dim to end_dim as one."""
    rank = input.ndim
    a, b = as_dim("flatten", start_dim, rank), as_dim("flatten", end_dim, rank)
    if a > b:
        raise ArgumentError(f"flatten: start_dim {start_dim} lies behind end_dim {end_dim}")
    size = 1
    for s in input.shape[a:b + 1]:
        size *= s
    return _reshape(input, shape=input.shape[:a] + (size,) + input.shape[b + 1:])


def permute(input: Tensor, *order: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """Dimensions in another order, as a view."""
    dims = listed("permute", order, dims)
    order = tuple(as_dim("permute", d, input.ndim) for d in dims)
    if len(order) != input.ndim or len(set(order)) != len(order):
        raise ArgumentError(f"permute: dims {tuple(dims)} must name each of the {input.ndim} dimensions once")
    return permute_primitive(input, dims=order)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged, as a view."""
    order = list(range(input.ndim))
    if not order:
        return input
    a, b = as_dim("transpose", dim0, input.ndim), as_dim("transpose", dim1, input.ndim)
    order[a], order[b] = b, a
    return permute_primitive(input, dims=tuple(order))


def t(input: Tensor) -> Tensor:
    """Transpose of a tensor of rank 2 or less."""
    if input.ndim > 2:
        raise ShapeError(f"t: needs rank 2 or less, got shape {input.shape}; use transpose(dim0, dim1) or mT")
    return transpose(input, 0, -1) if input.ndim == 2 else input


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
    return _expand(input, shape=new)


def broadcast_to(input: Tensor, size: tuple[int, ...]) -> Tensor:
    """`expand` with the shape as a tuple."""
    return expand(input, size)


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1 at `dim`."""
    d = as_dim("unsqueeze", dim, input.ndim + 1)
    return _reshape(input, shape=input.shape[:d] + (1,) + input.shape[d:])


def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without its dimensions of size 1 (or those of `dim` that have it)."""
    dims = range(input.ndim) if dim is None else () if dim == () or dim == [] else as_dims("squeeze", dim, input.ndim)
    return _reshape(input, shape=tuple(s for i, s in enumerate(input.shape) if not (i in dims and s == 1)))


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
    return slice_primitive(input, starts=starts, sizes=input.shape[:d] + (length,) + input.shape[d + 1:], steps=(1,) * input.ndim)


def _whole(op: str, name: str, value: object) -> int:
    """`value` as an int. Raises: ArgumentError for a bool and for what is no integer."""
    tensor = isinstance(value, core.TensorBase)
    if isinstance(value, bool) or not hasattr(value, "__index__") or tensor and (value.shape or value.dtype.category != 1):
        raise ArgumentError(f"{op}: {name} must be an integer, got {f'a tensor of {value.dtype} {value.shape}' if tensor else repr(value)}")
    return operator.index(value)


def slice_view(input: Tensor, slices: tuple[slice, ...]) -> Tensor:
    """Basic slicing of the leading dimensions."""
    return slice_primitive(input, **indexing.parse(input, slices))


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


def flip(input: Tensor, *which: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """The order of the elements reversed along `dims`, as a copy."""
    dims = listed("flip", which, dims)
    chosen = as_dims("flip", dims, input.ndim) if dims else ()
    return contiguous_(slice_view(input, tuple(slice(None, None, -1 if d in chosen else 1) for d in range(input.ndim))))


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along `dim`; their dtypes are promoted. A tensor of shape (0,) fits any others, and adds nothing.

    A 1-D tensor without elements is left out, whatever the rank of the others (its dtype counts).

    Raises: ShapeError where other sizes differ.
    """
    tensors = tuple(tensors)
    if not tensors:
        raise ArgumentError("cat: needs at least one tensor")
    dtype = tensors[0].dtype
    dtype = result_dtype(tensors)
    tensors = tuple(x for x in tensors if x.shape != (0,)) or tensors[:1]
    d = as_dim("cat", dim, tensors[0].ndim)
    for i, x in enumerate(tensors):
        if x.ndim != tensors[0].ndim or x.ndim == 0 or x.shape[:d] + x.shape[d + 1:] != tensors[0].shape[:d] + tensors[0].shape[d + 1:]:
            raise ShapeError(f"cat: tensor {i} has shape {x.shape}, which differs from {tensors[0].shape} outside dimension {d}")
    return _cat(*[cast(x, dtype) for x in tensors], dim=d)


def result_dtype(tensors: Sequence[Tensor]) -> DType:
    """The dtype that all of them promote to."""
    dtype = tensors[0].dtype
    for x in tensors:
        dtype = promote_types(dtype, x.dtype)
    return dtype


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    tensors = tuple(tensors)
    if tensors and any(x.shape != tensors[0].shape for x in tensors):
        raise ShapeError(f"stack: shapes differ: {', '.join(str(x.shape) for x in tensors)}")
    return cat([unsqueeze(x, dim) for x in tensors], as_dim("stack", dim, tensors[0].ndim + 1) if tensors else 0)


def split(input: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple:
    """Views of `split_size` slices each (the last may be smaller), or of the given lengths."""
    d = as_dim("split", dim, input.ndim)
    n = input.shape[d]
    if hasattr(split_size_or_sections, "__index__"):
        if split_size_or_sections <= 0:
            raise ArgumentError(f"split: the size must be positive, got {split_size_or_sections}")
        sizes = [min(split_size_or_sections, n - i) for i in range(0, n, split_size_or_sections)] or [0]
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


def repeat(input: Tensor, *sizes: int | Sequence[int], repeats: Sequence[int] | None = None) -> Tensor:
    """The tensor tiled so many times per dimension, as a copy."""
    sizes = as_shape(*listed("repeat", sizes, repeats))
    if len(sizes) < input.ndim:
        raise ShapeError(f"repeat: {len(sizes)} counts for a tensor of rank {input.ndim}")
    shape = (1,) * (len(sizes) - input.ndim) + input.shape
    interleaved = tuple(v for s in shape for v in (1, s))
    tiled = tuple(v for n, s in zip(sizes, shape) for v in (n, s))
    wide = expand(reshape(input, interleaved), tiled)
    out = reshape(wide, tuple(n * s for n, s in zip(sizes, shape)))
    return clone(out) if out.storage is input.storage else out


def sum_to(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Undo broadcasting: sum `g` down to `shape`."""
    from volta.ops.reduce import sum_primitive
    lead = len(g.shape) - len(shape)
    dims = tuple(i for i, n in enumerate(g.shape) if i < lead or (shape[i - lead] == 1 and n != 1))
    if dims:
        g = sum_primitive(g, dim=dims, keepdim=lead == 0)
    return g if g.shape == shape else _reshape(g, shape=shape)


