"""Pooling over one, two and three dimensions: each function here is made once for all three."""
from __future__ import annotations

import functools
import inspect
import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import checked_size, graph
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import as_batch, bare, only
from volta.dtypes import int64
from volta.errors import ArgumentError, DTypeError, RankError, ShapeError
from volta.nn.functional import integers
from volta.ops.copy import lines_as, pixels_as
from volta.ops.creation import zeros
from volta.ops.indexing import check_index
from volta.ops.records.activation import hardshrink_op
from volta.ops.records.index import scatter_reduce_op
from volta.ops.records.math import relu, root_op, sign
from volta.ops.records.pool import avg_pool_op, max_pool_op, max_pool_values
from volta.ops.records.reduce import amax_op, mean_op
from volta.ops.records.view import reshape_op, row_major, slice_op, tied
from volta.ops.reduce import max as max_
from volta.ops.table import Derived, case, composed
from volta.shapes import per_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = [f"{name}{rank}d" for name in ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "lp_pool", "max_unpool")
           for rank in (1, 2, 3)]

MAX_WINDOW = 1 << 24        # elements of a pooling window, padding included: what no image has would only keep the device busy
_KEPT = (int, tuple)        # types of what a window is said by
SMALL = 1024                # elements of a plane up to which its largest one is found as that of a window
LETTERS = {1: "L", 2: "H, W", 3: "D, H, W"}


# ---------------------------------------------------------------- arguments
def _op(function, name, rank, samples, numpy, /, takes="f", **options):
    """A function for `rank` dimensions, under the name with that number, as an op; the braces of its text are filled in."""
    function.__name__ = function.__qualname__ = f"{name}{rank}d".rpartition(".")[2]
    shown = {"rank": rank, "letters": LETTERS[rank], "new": LETTERS[rank].replace(",", "',") + "'",
             "fours": ", 4" * rank, "twos": ", 2" * rank}
    function.__doc__ = function.__doc__.format(**shown)
    return composed(name=f"{name}{rank}d", samples=samples, numpy=numpy, method=False, takes={"input": takes}, **options)(function)


def _batched(op, rank, input, adaptive=0):
    """(the input as (N, C, ...), whether it was so). Of `adaptive` pools, 1, any first dimension may be empty; with 2, all channels, too.

    Raises: ShapeError for another rank, or a size of 0 elsewhere than of the batch.
    """
    letters = LETTERS[rank]
    shape = input._shape
    if len(shape) not in (rank + 1, rank + 2):
        raise RankError(f"{op}: needs an input (N, C, {letters}) or (C, {letters}), got {input.shape}")
    batched = len(shape) == rank + 2
    if not input._size and 0 in shape[(0, 1, batched + 1)[adaptive] or batched:]:
        raise ShapeError(f"{op}: only the batch may have a size of 0, got an input {input.shape}")
    if not batched:
        x = as_batch(input)
        return reshape_op(row_major(input), shape=(1,) + shape) if x is None else x, False
    return input, True


def _unbatched(out, batched, like=None):
    """Without the batch that was added. A batch lies pixel by pixel where `like` does; PyTorch lets that be None for most volumes."""
    if not batched:
        first = only(out)
        return reshape_op(out, shape=out._shape[1:]) if first is None else first
    return out if like is None else lines_as(like, out) if like.ndim == 3 else pixels_as(like, out)


def _by(values):
    return "x".join(map(str, values))


def _geometry(op, rank, sizes, kernel_size, stride, padding, dilation, ceil_mode):
    """Parameters of a pooling record. With `ceil_mode` windows may end behind the input; none begins in the padding on the right.

    Raises: ArgumentError, ShapeError where they do not fit.
    """
    if (type(kernel_size) is int and type(padding) is int and 0 <= padding <= kernel_size and 0 < kernel_size < MAX_WINDOW
            and (stride is None or type(stride) is int and 0 < stride < MAX_WINDOW)
            and (dilation is None or type(dilation) is int and dilation == 1)):
        return _square(op, rank, sizes, kernel_size, stride, padding, dilation, bool(ceil_mode))
    given = [tuple(x) if type(x) is list else x for x in (kernel_size, stride, padding, dilation)]
    return _window(op, rank, sizes, *given, bool(ceil_mode))


@functools.lru_cache(maxsize=1024)
def _window(op, rank, sizes, kernel_size, stride, padding, dilation, ceil_mode):
    """The same for any windows. Kept, since small poolings take no longer than this."""
    kernel = per_dim(op, "kernel_size", kernel_size, rank)
    stride = kernel if stride is None or stride in ((), []) else per_dim(op, "stride", stride, rank)
    padding, apart = per_dim(op, "padding", padding, rank, 0), per_dim(op, "dilation", 1 if dilation is None else dilation, rank)
    size = _pooled_size(op, sizes, kernel, stride, padding, apart, bool(ceil_mode))
    if op == "avg_pool3d" and any(n < k for n, k in zip(sizes, kernel)):        # as in PyTorch, which asks this of no other pool
        raise ShapeError(f"{op}: an input of {_by(sizes)} is smaller than the kernel {_by(kernel)}, whatever its padding; pad() it before")
    window = {"size": size, "kernel": kernel, "stride": stride, "padding": padding}
    return window if dilation is None else {**window, "dilation": apart}


@functools.lru_cache(maxsize=1024)
def _square(op, rank, sizes, kernel, stride, padding, dilation, ceil_mode):
    """The same for windows that are alike along all dimensions. Kept, as that is."""
    stride = kernel if stride is None else stride
    return _window(op, rank, sizes, (kernel,) * rank, (stride,) * rank, (padding,) * rank, dilation and (dilation,) * rank, ceil_mode)


@functools.lru_cache(maxsize=1024)
def _pooled_size(op, sizes, kernel, stride, padding, dilation, ceil_mode):
    """The spatial size of the output. Kept, as that is.

    Raises: ArgumentError, ShapeError where the arguments do not fit.
    """
    if any(2 * p > k for p, k in zip(padding, kernel)):
        raise ArgumentError(f"{op}: padding {padding} must be at most half of the kernel {kernel}")
    if math.prod(kernel) > MAX_WINDOW:
        raise ArgumentError(f"{op}: a kernel of {_by(kernel)} is too large, it may have {MAX_WINDOW} elements; use amax or mean")
    size = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation):
        room = n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)
        if room < 0:
            raise ShapeError(f"{op}: an input of {_by(sizes)} with padding {padding} is smaller than the kernel {_by(kernel)} with "
                             f"dilation {dilation}")
        count = room // s + 1
        size.append(count - 1 if ceil_mode and (count - 1) * s >= n + p else count)
    return tuple(size)


def _adaptive(op, rank, sizes, output_size):
    """Parameters of an adaptive pooling record; None keeps a size."""
    if type(output_size) is int and 0 <= output_size < 1 << 31:
        return _even(rank, output_size)
    return _each(op, rank, sizes, tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * rank)


@functools.lru_cache(maxsize=256)
def _each(op, rank, sizes, output_size):
    values = output_size
    if len(values) != rank or not all(v is None or (hasattr(v, "__index__") and 0 <= v < 1 << 31) for v in values):
        raise ArgumentError(f"{op}: output_size must be an int >= 0 or None for each of {rank} dimensions, got {output_size!r}")
    return {"size": tuple(n if v is None else int(v) for n, v in zip(sizes, values)), "kernel": None, "stride": None, "padding": None}


@functools.lru_cache(maxsize=256)
def _even(rank, n):
    return {"size": (n,) * rank, "kernel": None, "stride": None, "padding": None}


def _none(x, size):
    """No outputs at all, which depend on x all the same."""
    part = slice_op(tied(x), starts=(0,) * x.ndim, sizes=x.shape[:2] + (0,) * (x.ndim - 2), steps=(1,) * x.ndim)
    return reshape_op(part, shape=x.shape[:2] + size)


# ---------------------------------------------------------------- maxima
def _max_pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode, placed=True):
    """(values, places) of max_pool1d, 2d and 3d; unless they are to be `placed`, no places where nothing else needs them."""
    op = f"max_pool{rank}d"
    x, batched = _batched(op, rank, input)
    window = _geometry(op, rank, x._shape[2:], kernel_size, stride, padding, dilation, ceil_mode)
    if not x.dtype.is_floating_point:
        out = integers.max_pool(x, **window)
    elif placed or graph.wants_derivative(x):
        out = max_pool_op(x, **window)
    else:
        out = run_kernel(max_pool_values, x.device, (x,), window) if bare(x) else max_pool_values(x, **window)
        return (_unbatched(out, batched, x if rank > 1 else None),)
    return tuple([_unbatched(o, batched, x) for o in out])


def _np_pooled(numpy, rank):
    """The reference of a function over fixed windows by that of its record."""
    def pooled(x, kernel_size, stride=None, padding=0, ceil_mode=False, return_indices=False, dilation=1, **options):
        geometry = _geometry("", rank, x.shape[-rank:], kernel_size, stride, padding, dilation, ceil_mode)
        out = numpy(x.reshape((-1, 1) + x.shape[-rank:]), **geometry, **options)
        found = [o.reshape(x.shape[:-rank] + geometry["size"]) for o in (out if isinstance(out, tuple) else (out,))]
        return tuple(found) if return_indices else found[0]
    return pooled


def _np_average(x, count_include_pad=True, divisor_override=None, dilation=None, **geometry):
    return avg_pool_op.details.numpy(x, count_padding=count_include_pad, divisor=divisor_override, **geometry)


def _samples(rank, *more):
    return (case((2, 3, 6, 8, 4)[:rank + 2], 2), case((2, 7, 5, 4)[:rank + 1], 3, stride=2, padding=1, ceil_mode=True), *more)


def _make_max_pool(rank):
    def function(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
                 return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Largest value of each window; the first of equal ones gets the gradient. With `ceil_mode` windows may end behind the input;
        `return_indices` adds where the values were, in {letters}.

        Shape: (N, C, {letters}) or (C, {letters}) -> (N, C, {new}).
        Raises: ArgumentError, ShapeError where the window does not fit.

        >>> volta.max_pool{rank}d(volta.ones(1, 3{fours}), 2).shape
        volta.Size([1, 3{twos}])
        """
        out = _max_pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        return out if return_indices else out[0]
    return _op(function, "max_pool", rank, _samples(rank, case((1, 2, 6, 6, 6)[:rank + 2], 2, return_indices=True, dilation=2)),
               _np_pooled(max_pool_op.details.numpy, rank), takes="fi")


def _np_adaptive(numpy, rank, **params):
    def pooled(x, output_size, return_indices=False):
        geometry = _adaptive("", rank, x.shape[-rank:], output_size)
        out = numpy(x.reshape((-1, 1) + x.shape[-rank:]), **geometry, **params)
        found = [o.reshape(x.shape[:-rank] + geometry["size"]) for o in (out if isinstance(out, tuple) else (out,))]
        return tuple(found) if return_indices else found[0]
    return pooled


def _adaptive_max_pool(rank, input, output_size, placed=True):
    """(values, places) of adaptive_max_pool1d, 2d and 3d; unless they are to be `placed`, the places are any of the largest ones'."""
    op = f"adaptive_max_pool{rank}d"
    x, batched = _batched(op, rank, input, 1)
    window = _adaptive(op, rank, x._shape[2:], output_size)
    if 0 in window["size"] or not x._size:
        out = _none(x, window["size"]), zeros(x.shape[:2] + window["size"], dtype=int64, device=x.device)
    elif max(window["size"]) == 1 and not placed and not x.requires_grad:
        out = [amax_op(x, dim=tuple(range(2, rank + 2)), keepdim=True)]
    elif max(window["size"]) == 1 and not placed and math.prod(x._shape[2:]) > SMALL:   # a reduction, which places a NaN elsewhere
        found = max_(reshape_op(tied(x), shape=x.shape[:2] + (math.prod(x.shape[2:]),)), 2)
        out = [reshape_op(o, shape=x.shape[:2] + window["size"]) for o in found]
    else:
        out = max_pool_op(x if rank < 3 else row_major(x), dilation=None, **window)
    return tuple([_unbatched(o, batched, x if rank < 3 else None) for o in out])


def _make_adaptive_max_pool(rank):
    def function(input: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Largest values of as many windows as `output_size` says, which cover the input; None keeps a size.

        Shape: (N, C, {letters}) or (C, {letters}) -> (N, C, *output_size).
        Raises: ArgumentError, ShapeError where the arguments do not fit.

        >>> volta.nn.functional.adaptive_max_pool{rank}d(volta.ones(1, 3{fours}), 2).shape
        volta.Size([1, 3{twos}])
        """
        out = _adaptive_max_pool(rank, input, output_size, return_indices)
        return out if return_indices else out[0]
    return _op(function, "functional.adaptive_max_pool", rank, _ADAPTIVE[rank],
               _np_adaptive(max_pool_op.details.numpy, rank, dilation=None), function=False)


_ADAPTIVE = {rank: (case((2, 3, 5, 7, 4)[:rank + 2], 3), case((3, 5, 4, 6)[:rank + 1], 1),
                    case((2, 3, 5, 4, 4)[:rank + 2], output_size=(2, None, 6)[:rank])) for rank in (1, 2, 3)}


# ---------------------------------------------------------------- averages
@functools.lru_cache(maxsize=1024)
def _averages(rank, sizes, kernel, stride, padding, ceil_mode, count_padding, divisor):
    """Parameters of the record; kept, as those of `_square`."""
    if divisor == 0:
        raise ArgumentError(f"avg_pool{rank}d: divisor_override must not be 0")
    return {**_geometry(f"avg_pool{rank}d", rank, sizes, kernel, stride, padding, None, ceil_mode), "count_padding": count_padding,
            "divisor": divisor}


def _avg_pool(rank, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    shape = input._shape
    if type(kernel_size) in _KEPT and type(padding) in _KEPT and len(shape) == rank + 2 and input._size and (
            input.dtype.is_floating_point and input._contiguous and (stride is None or type(stride) in _KEPT)
            and (divisor_override is None or type(divisor_override) is int)):
        return graph.call(avg_pool_op, (input,), _averages(rank, shape[2:], kernel_size, stride, padding, bool(ceil_mode),
                                                           bool(count_include_pad), divisor_override))
    op = f"avg_pool{rank}d"
    if divisor_override == 0:
        raise ArgumentError(f"{op}: divisor_override must not be 0")
    x, batched = _batched(op, rank, input)
    window = _geometry(op, rank, x._shape[2:], kernel_size, stride, padding, None, ceil_mode)
    pool = avg_pool_op if x.dtype.is_floating_point else integers.avg_pool
    out = pool(x if rank < 3 else row_major(x), count_padding=bool(count_include_pad), divisor=divisor_override, **window)
    return _unbatched(out, batched, x if rank < 3 else None)


def _make_avg_pool(rank):
    if rank == 1:
        def function(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                     padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
            return _avg_pool(rank, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)
    else:
        def function(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                     padding: int | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
                     divisor_override: int | None = None) -> Tensor:
            return _avg_pool(rank, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    function.__doc__ = """Mean of each window, of its padding too unless `count_include_pad` is False. With `ceil_mode` windows may end
    behind the input.

    Shape: (N, C, {letters}) or (C, {letters}) -> (N, C, {new}).
    Raises: ArgumentError, ShapeError where the window does not fit.

    >>> volta.nn.functional.avg_pool{rank}d(volta.ones(1, 3{fours}), 2).shape
    volta.Size([1, 3{twos}])
    """
    more = () if rank == 1 else (case((1, 2, 5, 6, 4)[:rank + 2], 2, divisor_override=3),)
    return _op(function, "avg_pool", rank, _samples(rank, case((1, 2, 6, 5, 4)[:rank + 2], 3, 2, 1, count_include_pad=False), *more),
               _np_pooled(_np_average, rank), takes="fi", function=rank == 1)


def _make_adaptive_avg_pool(rank):
    def function(input: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
        """Means of as many windows as `output_size` says, which cover the input; None keeps a size.

        Shape: (N, C, {letters}) or (C, {letters}) -> (N, C, *output_size).
        Raises: ArgumentError, ShapeError where the arguments do not fit.

        >>> volta.nn.functional.adaptive_avg_pool{rank}d(volta.ones(1, 3{fours}), 2).shape
        volta.Size([1, 3{twos}])
        """
        op = f"adaptive_avg_pool{rank}d"
        if not input._size and input.ndim in (rank + 1, rank + 2) and output_size in (1, (1,) * rank, [1] * rank):
            return mean_op(input, dim=tuple(range(input.ndim - rank, input.ndim)), keepdim=True)       # NaN where there is nothing
        x, batched = _batched(op, rank, input, 2 if rank < 3 else 1)
        window = _adaptive(op, rank, x._shape[2:], output_size)
        if 0 in window["size"] or not x._size:
            out = _none(x, window["size"])
        elif max(window["size"]) == 1:
            out = mean_op(x, dim=tuple(range(2, rank + 2)), keepdim=True)
        else:
            out = avg_pool_op(x if rank < 3 else row_major(x), count_padding=True, divisor=None, **window)
        return _unbatched(out, batched, x if rank < 3 or max(window["size"]) == 1 else None)
    return _op(function, "adaptive_avg_pool", rank, _ADAPTIVE[rank],
               _np_adaptive(avg_pool_op.details.numpy, rank, count_padding=True, divisor=None), function=rank == 1)


def _make_lp_pool(rank):
    def function(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 ceil_mode: bool = False) -> Tensor:
        """The `norm_type`-norm of each window: its sum of powers, to the power of 1 / norm_type.

        Shape: (N, C, {letters}) or (C, {letters}) -> (N, C, {new}).
        Raises: ArgumentError, ShapeError where the arguments do not fit.

        >>> volta.nn.functional.lp_pool{rank}d(volta.ones(1, 3{fours}), 2, 2).shape
        volta.Size([1, 3{twos}])
        """
        if norm_type == 0:
            raise ArgumentError(f"lp_pool{rank}d: norm_type must not be 0")
        if abs(norm_type) == math.inf:
            size, s = abs(input), math.copysign(1.0, norm_type)
            return _max_pool(rank, size * s, kernel_size, stride, 0, 1, ceil_mode)[0] * s
        out = _avg_pool(rank, input ** norm_type, kernel_size, stride, 0, ceil_mode, True, None if ceil_mode else 1)
        if ceil_mode:                       # as PyTorch, whose means are of what lies inside
            out = out * math.prod(per_dim(f"lp_pool{rank}d", "kernel_size", kernel_size, rank))
        if norm_type == 1:                  # NaN has the gradient 0, as 0 has of every norm
            return sign(out) * relu(abs(out))
        return root_op(out) if norm_type == 2 else hardshrink_op(out, 0.0) ** (1.0 / norm_type)

    def numpy(x, norm_type, kernel_size, **options):
        mean = _np_pooled(_np_average, rank)(x ** norm_type, kernel_size, **options)
        return (mean * kernel_size ** rank) ** (1 / norm_type)
    return _op(function, "lp_pool", rank, (case((2, 3, 4, 6, 4)[:rank + 2], 2, 2), case((3, 5, 6, 4)[:rank + 1], 3.0, 3, stride=2)), numpy,
               domain=(0.3, 2.0), rtol=2e-5, in_float32=True, function=False)


# ---------------------------------------------------------------- the way back
def _unpooled_size(op, rank, sizes, kernel, stride, padding, output_size):
    """The spatial size of what is unpooled to; one given may differ from the plain one by less than the stride."""
    plain = [(n - 1) * s + k - 2 * p for n, k, s, p in zip(sizes, kernel, stride, padding)]
    if output_size is None:
        size = tuple(plain)
    else:
        size = tuple(output_size)[2:] if len(output_size) == rank + 2 else tuple(output_size)
        if len(size) != rank or not all(n - s < m < n + s for n, m, s in zip(plain, size, stride)):
            raise ArgumentError(f"{op}: output_size {tuple(output_size)} must have sizes that differ from {tuple(plain)} by less than the "
                                f"stride {stride}")
    if min(size) < 1:
        raise ShapeError(f"{op}: an input of {_by(sizes)} gives an output of {_by(size)}, which has no elements")
    return size


def _make_max_unpool(rank):
    def function(input: Tensor, indices: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                 padding: int | Sequence[int] = 0, output_size: Sequence[int] | None = None) -> Tensor:
        """The partial inverse of max_pool{rank}d: zeros, with the values where they came from. Where an index occurs twice in a plane,
        the last value counts.

        Shape: (N, C, {letters}) or (C, {letters}), indices of the same shape -> (N, C, {new}).
        Raises: DTypeError, ShapeError, ArgumentError, IndexRangeError where the arguments do not fit.

        >>> out, indices = volta.nn.functional.max_pool{rank}d(volta.ones(1, 3{fours}), 2, return_indices=True)
        >>> volta.nn.functional.max_unpool{rank}d(out, indices, 2).shape
        volta.Size([1, 3{fours}])
        """
        op = f"max_unpool{rank}d"
        kernel = per_dim(op, "kernel_size", kernel_size, rank, one=False)
        stride = kernel if stride is None else per_dim(op, "stride", stride, rank, one=False)
        x, batched = _batched(op, rank, input)
        if indices.dtype is not int64:
            raise DTypeError(f"{op}: indices must be int64, got {indices.dtype}; convert them with .long()")
        if indices.shape != input.shape:
            raise ShapeError(f"{op}: indices must have the shape of the input, {input.shape}, got {indices.shape}")
        size = _unpooled_size(op, rank, x.shape[2:], kernel, stride, per_dim(op, "padding", padding, rank, 0, False), output_size)
        plane, planes = checked_size(size), x.shape[0] * x.shape[1]
        check_index(op, indices, plane)
        if not planes:
            return reshape_op(x, shape=x.shape[:2] + size)
        values, places = [reshape_op(t, shape=(planes, x._size // planes)) for t in (x, indices)]
        out = scatter_reduce_op(zeros((planes, plane), dtype=x.dtype, device=x.device), values, places, dim=1, reduce="last")
        return _unbatched(reshape_op(out, shape=x.shape[:2] + size), batched, x if rank == 2 else None)

    def numpy(x, indices, kernel_size):
        out = np.zeros((*x.shape[:2], math.prod(n * kernel_size for n in x.shape[2:])))
        np.put_along_axis(out, indices.reshape(*x.shape[:2], -1).astype(np.int64), x.reshape(*x.shape[:2], -1), 2)
        return out.reshape(*x.shape[:2], *[n * kernel_size for n in x.shape[2:]])
    corners = Derived(lambda x: np.broadcast_to(sum(np.ix_(*[np.arange(n) * 2 * math.prod(2 * m for m in x.shape[3 + i:]) for i, n in
                                                             enumerate(x.shape[2:])])), x.shape).astype(np.int64))
    return _op(function, "max_unpool", rank, (case((2, 3, 3, 2, 2)[:rank + 2], corners, 2),), numpy, function=False)


(max_pool1d, max_pool2d, max_pool3d), (avg_pool1d, avg_pool2d, avg_pool3d), (lp_pool1d, lp_pool2d, lp_pool3d), \
    (adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d), (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d), \
    (max_unpool1d, max_unpool2d, max_unpool3d) = [
        [make(rank) for rank in (1, 2, 3)] for make in (_make_max_pool, _make_avg_pool, _make_lp_pool, _make_adaptive_max_pool,
                                                        _make_adaptive_avg_pool, _make_max_unpool)]


def with_indices(function):
    """The same function giving (values, places) whatever `return_indices` says."""
    def placed(*args: object, **options: object) -> tuple[Tensor, Tensor]:
        names = list(inspect.signature(function).parameters)
        if len(args) > names.index("return_indices"):
            args = (*args[:names.index("return_indices")], True, *args[names.index("return_indices") + 1:])
            return function(*args, **options)
        return function(*args, **{**options, "return_indices": True})
    placed.__name__ = placed.__qualname__ = f"{function.__name__}_with_indices"
    placed.__doc__ = f"`{function.__name__}` with `return_indices`."
    placed.__signature__ = inspect.signature(function).replace(return_annotation="tuple[Tensor, Tensor]")
    return placed


(max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices, adaptive_max_pool1d_with_indices,
 adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices) = map(with_indices, (
     max_pool1d, max_pool2d, max_pool3d, adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d))
__all__ += [f"{name}{rank}d_with_indices" for name in ("max_pool", "adaptive_max_pool") for rank in (1, 2, 3)]


@composed(name="adaptive_max_pool1d", samples=_ADAPTIVE[1], method=False,
          numpy=lambda x, output_size: _np_adaptive(max_pool_op.details.numpy, 1, dilation=None)(x, output_size, True))
def _adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int]) -> tuple[Tensor, Tensor]:
    """(values, places) of `nn.functional.adaptive_max_pool1d`.

    >>> volta.adaptive_max_pool1d(volta.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    return _adaptive_max_pool(1, input, output_size)


@composed(name="max_pool1d_with_indices", samples=_samples(1), method=False,
          numpy=lambda *x, **options: _np_pooled(max_pool_op.details.numpy, 1)(*x, return_indices=True, **options))
def _max_pool1d_with_indices(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
                             padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1,
                             ceil_mode: bool = False) -> tuple[Tensor, Tensor]:
    """(values, places) of `max_pool1d`.

    >>> volta.max_pool1d_with_indices(volta.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    (tensor([[3., 2.]]), tensor([[1, 2]]))
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode)
