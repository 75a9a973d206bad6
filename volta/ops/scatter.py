"""Writing and reducing at the positions of an integer tensor along one dimension (scatter, index_copy and their kind).

What only writes is `x[...] = v` of `subscript.py` by another name. Indices are checked where that needs no transfer; others are clamped
on a GPU.
"""
from __future__ import annotations

import inspect
import math
from functools import wraps
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase, host_sees, inplace, read_scalar, reshaping, same_memory, stands_in
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare, unseen
from volta._kernels.core.entries import combined
from volta._kernels.core.graph import custom_node, is_grad_enabled
from volta.dtypes import bool_, iinfo, int32, int64, uint8
from volta.errors import ArgumentError, AutogradError, DTypeError, RankError, ShapeError, warn_once
from volta.ops.copy import as_value, untouched
from volta.ops.creation import full_like, new_zeros, ones, ones_like, zeros_like
from volta.ops.entries import BETA, alike, as_held, index_reduce_in_place, scatter_in_place, scatter_reduce_in_place, slices_of
from volta.ops.expanded import changed
from volta.ops.indexing import (
    as_vector,
    check_index,
    check_integers,
    gather,
    index_select,
    known_range,
    masked_fill,
    positions,
    scatter_add,
    takes_entries,
)
from volta.ops.math import div
from volta.ops.parts import slice_view
from volta.ops.records.copy import cast
from volta.ops.records.create import full_op
from volta.ops.records.index import index_put_op, scale_gradient, scatter_reduce_op
from volta.ops.records.math import clamp_min, where_op
from volta.ops.records.view import clone_op, contiguous_op, expand_op, reshape_op
from volta.ops.subscript import setitem
from volta.ops.table import Derived, Labels, case, composed
from volta.shapes import as_dim, moved_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from volta.tensor import Tensor
    from volta.types import Number


def writing(fresh: Callable | None = None, copy: Callable = contiguous_op, one: bool = False, expanded: Callable | None = None,
            **options: object) -> Callable:
    """Decorator: `f_`, which writes into its first argument, is declared as such and, on a copy of it or, unless that gives None, as
    `fresh` of it, as `f`. With `one`, what is written may be an element of that argument. `expanded` does what is refused of expanded
    tensors; it gives whether it has."""
    def make(function):
        name = function.__name__

        @wraps(function)
        def on_copy(input, *args, **options):
            made = fresh(input, *args, **options) if fresh else None
            return function(copy(input), *args, **options) if made is None else made

        @wraps(function)
        def in_place(input, *args, **options):
            for x in (*args, *options.values()):
                if isinstance(x, TensorBase) and (x.ndim or not one):
                    inplace.check_apart(in_place.__name__, input, x, whole=True)
            try:
                function(input, *args, **options)
            except AutogradError:
                if expanded is None or not expanded(input, *args, **options):
                    raise
            return input
        in_place.__doc__ = f"`{name}` in place.\n\n{inspect.getdoc(function)}"
        in_place.__name__ = in_place.__qualname__ = name + "_"
        composed(function=False, untested=f"as {name}, which is this on a copy")(in_place)
        return composed(**options)(on_copy)
    return make


def different(count: int, high: int, *shape: int) -> Derived:
    """A sample index that names no place along dimension 0 twice, whose gradients are those of finite differences."""
    return Derived(lambda *_: np.argsort(np.random.default_rng(0).random((*shape, high)), -1)[..., :count].T)


# ---------------------------------------------------------------- scatter
def _np_places(x, dim, index):
    where = list(np.indices(index.shape))
    where[dim] = index
    return tuple(where)


def _np_scatter(x, dim, index, src=None, value=None, reduce=None):
    out, where = x.copy(), _np_places(x, dim, index)
    src = np.full(index.shape, value, x.dtype) if src is None else src[tuple(map(slice, index.shape))]
    if reduce is None:
        for place in np.ndindex(index.shape):
            out[tuple(w[place] for w in where)] = src[place]
    else:
        {"add": np.add, "multiply": np.multiply}[reduce].at(out, where, src)
    return out


def _fitted(op, input, dim, index, src):
    """(dim, input, index, src), none of them 0-d, with src, where it is a tensor, in the shape of the index."""
    d = as_dim(op, dim, input.ndim)
    x, at = as_vector(input), as_vector(index)
    if isinstance(src, TensorBase):
        at, src = alike(op, input, at, as_vector(src))
    if isinstance(src, TensorBase) and src._shape == at._shape == x._shape:
        return d, x, at, src
    fits = at.ndim == x.ndim and all(n <= m or i == d for i, (n, m) in enumerate(zip(at.shape, x.shape)))
    if at._size and not (fits and (not isinstance(src, TensorBase) or src.ndim == x.ndim and all(map(int.__le__, at.shape, src.shape)))):
        of_source = f" than src {src.shape}, and" if isinstance(src, TensorBase) else ""
        raise ShapeError(f"{op}: index {index.shape} must be no larger{of_source} than input {input.shape} outside dimension {d}")
    if isinstance(src, TensorBase) and at._size and src.shape != at.shape:
        src = slice_view(src, tuple(slice(0, n) for n in at.shape))
    return d, x, at, src


def _combined(op, input, x, d, at, source, reduce):
    """The elements of `source` that `at` sends to each place of x, the input, along d: combined with what is there, or the last of them."""
    at = positions(op, at, x.shape[d], kernel_checks=reduce == "last")
    if at._shape == x._shape or all(n == m for i, (n, m) in enumerate(zip(at._shape, x._shape)) if i != d):
        out = scatter_reduce_op(x, source, at, dim=d, reduce=reduce)
    else:
        if reduce != "last" and x.requires_grad:        # what is not finite in the rest, too, has the gradient NaN
            x = scale_gradient(x, cast(where_op(x.isfinite() if reduce == "prod" else x == x, 1.0, math.nan), x.dtype))
        out, part = contiguous_op(x), tuple(slice(0, m if i == d else n) for i, (n, m) in enumerate(zip(at.shape, x.shape)))
        setitem(out, part, scatter_reduce_op(slice_view(x, part), source, at, dim=d, reduce=reduce))
    return out if input.shape else reshape_op(out, shape=())


@composed(apart=1, inplace=True, one=scatter_in_place, samples=(
                   case((5, 3), 0, different(4, 5, 3), (4, 3)), case((7, 3), 0, different(6, 7, 2), (7, 3)),
                   case((), 0, Labels((), 1), ()), case((3, 5), 1, Labels((2, 4), 5), value=1),
                   case((3, 5), 1, Labels((3, 2), 5), (3, 2), reduce="add"),
                   case((3, 5), 0, Labels((3, 2), 3), (3, 2), reduce="multiply")), kinds="fi", numpy=lambda x, dim, index, *args, **options:
          _np_scatter(np.atleast_1d(x), dim, np.atleast_1d(index), *map(np.atleast_1d, args), **options).reshape(x.shape))
def scatter(input: Tensor, dim: int, index: Tensor, src: Tensor | Number | None = None, *, value: Number | None = None,
            reduce: str | None = None) -> Tensor:
    """`src`, or one `value`, written at `index` along `dim`: out[index[i][j]][j] = src[i][j] for dim 0. With `reduce`, "add" or "multiply",
    it is added to what is there or multiplied with it. Where a place is named twice the last one counts; each gets the gradient of it.

    Raises: ShapeError where `index` is larger than `src`, or than `input` in the other dimensions; IndexRangeError for one outside
    [0, size); DTypeError for a source of another dtype; ArgumentError for another `reduce`, and for none or both of `src` and `value`.

    >>> volta.scatter(volta.zeros(3), 0, volta.tensor([2]), 5).tolist()
    [0.0, 0.0, 5.0]
    """
    src = value if src is None else src
    if src is None or value is not None and src is not value:
        raise ArgumentError("scatter: needs either src or value")
    if reduce is not None:
        dim = as_dim("scatter", dim, input.ndim)
        if reduce not in ("add", "multiply"):
            raise ArgumentError(f"scatter: reduce must be 'add' or 'multiply', got {reduce!r}")
        if isinstance(src, TensorBase):
            warn_once("scatter: reduce beside a tensor src is deprecated; write scatter_reduce, which has more reductions")
        source = src if isinstance(src, TensorBase) else full_like(index, as_held(input, src), dtype=input.dtype)
        return scatter_reduce(input, dim, index, source, "sum" if reduce == "add" else "prod")
    if (found := combined(input, dim, index, src, "last", False, False, True)) is not None:
        return found
    d, x, at, src = _fitted("scatter", input, dim, index, src)
    if not at._size:
        return untouched(input, src)
    if not isinstance(src, TensorBase):
        held = as_held(x, src)
        src = full_like(at, held, dtype=x.dtype) if stands_in(at) else run_kernel(
            full_op, at.device, (at._shape, held), {"dtype": x.dtype, "device": at.device})
    return _combined("scatter", input, x, d, at, src, "last")


_REDUCE = {"sum": (0, np.add), "mean": (0, np.add), "prod": (1, np.multiply), "amax": (-np.inf, np.maximum), "amin": (np.inf, np.minimum)}

SHORT = {"max": "amax", "min": "amin"}          # which PyTorch takes, too


def _np_scatter_reduce(x, dim, index, src, reduce, include_self=True):
    where = _np_places(x, dim, index)
    start, combine = _REDUCE[reduce]
    out, count = x.copy(), np.full(x.shape, int(include_self))
    if not include_self:
        out[where] = start if x.dtype.kind == "f" or np.isfinite(start) else np.iinfo(x.dtype).min if start < 0 else np.iinfo(x.dtype).max
    combine.at(out, where, src[tuple(map(slice, index.shape))])
    np.add.at(count, where, 1)
    count = np.maximum(count, 1)
    return out if reduce != "mean" else (out / count if x.dtype.kind == "f" else out // count).astype(x.dtype)


def _identity(reduce, x):
    """What changes nothing when it is reduced with, of elements like those of x."""
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if x.dtype.is_floating_point:
        return -np.inf if reduce == "amax" else np.inf
    limits = iinfo(int32 if x.dtype is int64 and x.device.is_gpu else uint8 if x.dtype.code == 0 else x.dtype)     # a GPU has 32 bits
    return limits.min if reduce == "amax" else limits.max


def _few_combined(input, dim, index, source, reduce, include_self, slices):
    """See `combined`."""
    if include_self or reduce == "mean":
        return combined(input, dim, index, source, reduce, False, slices, False, not include_self)
    own = combined(input, dim, index, _identity(reduce, input), "last", False, slices, True)
    return None if own is None else combined(own, dim, index, source, reduce, True, slices)


@composed(apart=1, samples=tuple(case((3, 5), 1, Labels((3, 4), 5), (3, 4), reduce=reduce, include_self=own) for reduce in _REDUCE
                        for own in (True, False)) + (case((4, 3), 0, Labels((6, 2), 4), (7, 3), reduce="amax"),),
          one=scatter_reduce_in_place, kinds="fi", inplace=True, in_float32=True, takes={"input": "fib", "src": "=input"},
          numpy=_np_scatter_reduce)
def scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """The sum, prod, mean, amax or amin of the elements of `src` that `index` sends to each place along `dim`, together with what is there;
    without `include_self`, only where nothing comes.

    Raises: as `scatter`; ArgumentError for another `reduce`; DTypeError for bool.

    >>> volta.scatter_reduce(volta.ones(2), 0, volta.tensor([1, 1]), volta.tensor([2.0, 3.0]), "prod").tolist()
    [1.0, 6.0]
    """
    dim = as_dim("scatter_reduce", dim, input.ndim)
    reduce = SHORT.get(reduce, reduce)
    if reduce not in _REDUCE:
        raise ArgumentError(f"scatter_reduce: reduce must be one of {', '.join(_REDUCE)}, got {reduce!r}")
    if (found := _few_combined(input, dim, index, src, reduce, include_self, False)) is not None:
        return found
    check_integers("scatter_reduce", index)
    d, x, at, source = _fitted("scatter_reduce", input, dim, index, src)
    if not at._size:
        return untouched(input, source)
    at = cast(at, int64)
    if reduce == "mean":
        if input.dtype.code == 0:
            raise DTypeError("scatter_reduce: takes no mean of bool; convert it with .float()")
        out = _mean(x, d, at, source, include_self)
        return out if input.shape else reshape_op(out, shape=())
    start = x if include_self else scatter(x, d, at, as_held(x, _identity(reduce, x)))
    if reduce == "sum":
        out = scatter_add(start, d, at, source)
        return out if input.shape else reshape_op(out, shape=())
    out = _combined("scatter_reduce", input, start, d, at, source, reduce)
    if include_self or reduce == "prod" or not source.requires_grad or not is_grad_enabled():
        return out
    return scale_gradient(out, reshape_op(_fewer(out, x, start, source, d, at), shape=out.shape))


def _mean(x, d, at, source, include_self):
    """That of the elements sent to each place, and of what is there; of a place to which nothing comes that alone."""
    floating = x.dtype.is_floating_point
    kind = x.dtype if floating else int64
    count = scatter_add((ones_like if include_self else zeros_like)(x, dtype=kind), d, at, ones_like(at, dtype=kind))
    total = scatter_add(x if include_self else where_op(count == 0, x, as_held(x, 0)), d, at, source)
    count = count if include_self else clamp_min(count, 1)
    return total / count if floating else cast(div(total, count, rounding_mode="floor"), x.dtype)


def _fewer(out, x, start, source, d, at):
    """What gradients of extremes are multiplied with, so that what is equal to one shares it with the element of x that did not take part,
    as in PyTorch, and not with the `start` that took its place."""
    out, x = reshape_op(out, shape=x.shape).detach(), x.detach()
    equal = scatter_add(zeros_like(x), d, at, cast(source == gather(out, d, at), x.dtype))
    return (cast(start == out, x.dtype) + equal) / (cast(x == out, x.dtype) + equal)


def _np_index_reduce(x, dim, index, source, reduce, include_self=True):
    wide = np.moveaxis(np.broadcast_to(index, np.moveaxis(source, dim, -1).shape), -1, dim)
    return _np_scatter_reduce(x, dim, wide, source, reduce, include_self)


@composed(apart=1, samples=tuple(case((3, 5), 1, Labels((4,), 5), (3, 4), reduce=reduce, include_self=own) for reduce in list(_REDUCE)[1:]
                        for own in (True, False)), one=index_reduce_in_place, kinds="fi", inplace=True, in_float32=True,
          takes={"input": "fib", "source": "=input"},
          numpy=_np_index_reduce)
def index_reduce(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> Tensor:
    """`scatter_reduce` (prod, mean, amax, amin) of whole slices of `source` along `dim`, by a vector of positions.

    Raises: ShapeError where `source` does not fit; IndexRangeError for an index outside [0, size); ArgumentError for another `reduce`;
    DTypeError for bool.

    >>> volta.index_reduce(volta.ones(2), 0, volta.tensor([1, 1]), volta.tensor([2.0, 3.0]), "prod").tolist()
    [1.0, 6.0]
    """
    if reduce not in _REDUCE or reduce == "sum":
        raise ArgumentError(f"index_reduce: reduce must be one of prod, mean, amax, amin, got {reduce!r}; for sums take index_add")
    if input.dtype.code == 0:
        raise DTypeError("index_reduce: needs a floating point or integer tensor, got bool; convert it with .float()")
    warn_once(BETA)
    if (found := _few_combined(input, dim, index, source, reduce, include_self, True)) is not None:
        return found
    d = as_dim("index_reduce", dim, input.ndim)
    if include_self and reduce != "mean" and d < input.ndim - 1 and not input.device.is_gpu and takes_entries(input, index, source):
        own = contiguous_op(input)                              # whose slices a kernel of theirs takes
        if index_reduce_in_place(own, d, index, source, reduce) is own:
            return own
    index, source = slices_of("index_reduce", d, input, index, source)
    check_index("index_reduce", index, input.shape[d] if input.shape else 1)
    if not index._size:
        return untouched(input, source)
    index = reshape_op(index, shape=(index._size,) + (1,) * (input.ndim - 1 - d))
    return scatter_reduce(input, d, expand_op(index, shape=source.shape or (1,)), as_vector(source), reduce, include_self=include_self)


# ---------------------------------------------------------------- slices by a vector of positions
def _np_index_copy(x, dim, index, source):
    out = x.copy()
    for k, i in enumerate(index):
        np.moveaxis(out, dim, 0)[i] = np.moveaxis(source, dim, 0)[k]
    return out


class _Copied:
    """Backward of `index_copy`, in the form that `graph.custom_node` takes."""

    def __init__(self, dim, index, needs):
        self.dim, self.index, self.needs, self.version = dim, index, needs, index.storage.version

    def gradients(self, g):
        """(for the input: g with the slices cleared that were overwritten, for the source: those of g)."""
        if self.index.storage.version != self.version:
            raise AutogradError("index_copy: an index that is needed for the gradient was changed in place; clone() it first")
        return (index_fill(g, self.dim, self.index, 0.0) if self.needs[0] else None,
                index_select(g, self.dim, self.index) if self.needs[1] else None)

    def release(self):
        """One backward pass is all, though nothing is saved but the index."""
        return True


def _copied(input, dim, index, source):
    """`index_copy` in one dimension of a host tensor that nobody watches; else None."""
    if (found := combined(input, dim, index, source, "last", False, True)) is not None:
        return found
    shape, at = input._shape, index._shape
    if len(at) != 1 or index.dtype is not int64 or source.dtype is not input.dtype or source._size < 2 or not (
            unseen(input, source) and bare(index) and host_sees(index) and host_sees(input)):
        return None
    d = as_dim("index_copy", dim, len(shape))
    if not shape or source._shape != shape[:d] + at + shape[d + 1:]:
        return None
    index = positions("index_copy", index, shape[d])
    target, given = run_kernel(contiguous_op, input.device, (input,)), source
    out = target
    if d:
        dims = (d, *range(d), *range(d + 1, len(shape)))
        target, source = reshaping.permute_view(out, dims=dims), reshaping.permute_view(source, dims=dims)
    run_kernel(index_put_op, out.device, (target, index, source), _ROWS)
    if is_grad_enabled() and (input.requires_grad or given.requires_grad):
        custom_node(_Copied(d, index, (input.requires_grad, given.requires_grad)), (input, given), (out,))
    return out


_ROWS = {"rank": 1}
_FEW = 1 << 16              # elements of which a CPU sooner fills every so many than it chooses by a mask


@writing(_copied, samples=(case((3, 5), 1, different(4, 5), (3, 4)), case((6, 2), 0, different(3, 6), (3, 2))), numpy=_np_index_copy,
         kinds="fi", apart=1)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` whose slices along `dim` at the positions of `index`, a vector, are those of `source`; of equal positions the last counts.

    Raises: ShapeError where `source` does not fit; IndexRangeError for an index outside [0, size); DTypeError for another dtype.

    >>> volta.index_copy(volta.zeros(3), 0, volta.tensor([2]), volta.ones(1)).tolist()
    [0.0, 0.0, 1.0]
    """
    if combined(input, dim, index, source, "last", True, True) is not None:
        return input
    d = as_dim("index_copy", dim, input.ndim)
    index, source = slices_of("index_copy", d, input, index, source)
    index = positions("index_copy", index, input.shape[d] if input.shape else 1)
    recorded = is_grad_enabled() and (input.requires_grad or source.requires_grad)
    if source._size > 1 and input._shape and (index.device.is_gpu or host_sees(index) and host_sees(input)) and not (
            recorded or stands_in(input) or stands_in(index) or stands_in(source)):
        _put_slices(input, d, index, source)
        return input
    if not host_sees(index) and known_range(index) is None:         # a subscript's would count from the end
        index = clamp_min(index, 0)
    setitem(as_vector(input), (slice(None),) * d + (index,) if d else index, as_vector(source))
    return input


def _put_slices(x, d, rows, source):
    """Slices along d overwritten at positions, in place; unrecorded. What setitem comes to, in fewer steps."""
    inplace.check_elements("index_copy", x)
    if d:
        dims = (d, *range(d), *range(d + 1, x.ndim))
        x, source = reshaping.permute_view(x, dims=dims), reshaping.permute_view(source, dims=dims)
    run_kernel(index_put_op, x.device, (x, rows, source), {"rank": 1})


def _np_index_fill(x, dim, index, value):
    out = np.atleast_1d(x).copy()
    np.moveaxis(out, dim, 0)[index] = value
    return out.reshape(x.shape)


def _checked_fill(input, dim, index, value):
    """The dimension."""
    d = as_dim("index_fill", dim, input.ndim)
    if index.ndim > 1:
        raise RankError(f"index_fill: index must be a vector or one number, got shape {index.shape}")
    check_integers("index_fill", index)
    if isinstance(value, TensorBase) and value.ndim:
        raise ShapeError(f"index_fill: value must be a number or a 0-d tensor, got shape {value.shape}")
    return d


def _as_number(input, value):
    """A 0-d tensor of the host like the input, which nobody records, as the number that it holds."""
    if not isinstance(value, TensorBase):
        return value
    return read_scalar(value) if value._shape == () and value.dtype is input.dtype and bare(value) else None


def _fill_mask(input, d, index):
    """The places to fill, shaped to broadcast against the input."""
    size, device = input.shape[d] if input.shape else 1, input.device
    mask = new_zeros(index, size, dtype=bool_, device=device)
    if index.device is device and not stands_in(index) and index._size:         # what setitem comes to, in fewer steps
        rows, value = positions("index_fill", as_vector(index), size, wrap=True), ones((), dtype=bool_, device=device)
        run_kernel(index_put_op, device, (mask, rows, value), {"rank": 1, "unique": True})
    else:
        setitem(mask, cast(as_vector(index), int64), True)
    return reshape_op(mask, shape=(mask._size,) + (1,) * (input.ndim - 1 - d) if input.shape else ())


def _by_places(input, dim, index):
    """Whether a CPU fills places of a copy sooner than it chooses by a mask: of few elements, whole runs of them, or few places."""
    return input._shape and host_sees(input) and host_sees(index) and not stands_in(index) and (
        input._size <= 4096 or type(dim) is int and (dim == 0 and input.ndim > 1 or (
            -input.ndim <= dim < input.ndim and index._size * 8 <= input._shape[dim])))


def _fill_slices(out, d, index, value):
    """A number in slices of a host tensor of which nobody records, in place. What setitem comes to, in fewer steps."""
    rows = positions("index_fill", as_vector(index), out._shape[d], wrap=True)
    number = run_kernel(full_op, out.device, ((), as_held(out, value)), {"dtype": out.dtype})
    target = reshaping.permute_view(out, dims=moved_one("index_fill", d, 0, out.ndim)) if d else out
    run_kernel(index_put_op, out.device, (target, rows, number), _ROWS)
    return out


def _filled(input, dim, index, value):
    """`index_fill` in one pass over the input; on a GPU, where that is more dispatches, on a copy."""
    if (found := combined(input, dim, index, _as_number(input, value), "last", False, True, True)) is not None:
        return found
    if input._contiguous and not isinstance(value, TensorBase) and not (
            is_grad_enabled() and input.requires_grad or stands_in(input)) and (input.device.is_gpu or _by_places(input, dim, index)):
        d = _checked_fill(input, dim, index, value)
        out = contiguous_op(input)
        if not input.device.is_gpu:
            return _fill_slices(out, d, index, value)
        setitem(as_vector(out), (slice(None),) * d + (cast(as_vector(index), int64),), as_held(input, value))
        return out
    mask = _fill_mask(input, _checked_fill(input, dim, index, value), index)
    return where_op(mask, as_value("index_fill", input, value) if isinstance(value, TensorBase) else as_held(input, value), input)


def _filled_expanded(input, dim, index, value):
    return changed("index_fill_", input, lambda whole: whole.index_fill_(dim, index, value), (index, value))


@writing(_filled, one=True, expanded=_filled_expanded, samples=(case((3, 5), 1, Labels((2,), 5), 1), case((), 0, Labels((1,), 1), 1)),
         numpy=_np_index_fill, kinds="fib")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Number | Tensor) -> Tensor:
    """`input` with `value`, a number or a 0-d tensor, in the slices along `dim` at the positions of `index`; negative ones count from
    the end.

    Raises: ShapeError for an index of more than one dimension or a value of any; IndexRangeError.

    >>> volta.index_fill(volta.zeros(3), 0, volta.tensor([-1]), 5).tolist()
    [0.0, 0.0, 5.0]
    """
    if combined(input, dim, index, _as_number(input, value), "last", True, True, True) is not None:
        return input
    d = _checked_fill(input, dim, index, value)
    if input._contiguous and input._shape and not isinstance(value, TensorBase) and bare(input) and host_sees(index) and (
            d < input.ndim - 1 or input._size <= _FEW) and not (stands_in(index) or same_memory(input, index)):
        inplace.check_elements("index_fill", input)
        return _fill_slices(input, d, index, value)
    if isinstance(value, TensorBase) or d == input.ndim - 1 and not input.device.is_gpu and (
            input._size > 4096 or not host_sees(index)):
        return _filled_(input, _fill_mask(input, d, index), clone_op(value) if isinstance(value, TensorBase) else as_held(input, value))
    setitem(as_vector(input), (slice(None),) * d + (cast(as_vector(index), int64),), as_held(input, value))      # whole runs of elements
    return input


_filled_ = inplace.InPlace("index_fill_", masked_fill)
