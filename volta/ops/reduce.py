"""Reductions over any dimensions, softmax, and what is composed of them (var, norm, ...)."""
from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase, graph, reshaped
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare, few_counted
from volta.dtypes import HALVES, as_dtype, bool_, float32, result_type, uint8
from volta.errors import ArgumentError, AutogradError, CallError, DTypeError, IndexRangeError
from volta.ops.copy import clone
from volta.ops.records.chain import fused
from volta.ops.records.copy import cast
from volta.ops.records.index import gather_op
from volta.ops.records.math import maximum, minimum, root_op, where_op
from volta.ops.records.reduce import (
    all_op,
    amax_op,
    amin_op,
    any_op,
    argmax_op,
    argmin_op,
    count,
    log_softmax_op,
    logsumexp_op,
    mean_op,
    prod_op,
    softmax_op,
    sum_op,
    var_op,
)
from volta.ops.records.view import clone_op, flat, permute_op, reshape_op
from volta.ops.table import case, composed
from volta.results import Result
from volta.shapes import as_dim, as_dims, reduced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor
    from volta.types import DTypeLike

_FULL = (case((3, 4)), case((2, 3, 4), dim=(0, -1)), case((3, 4), dim=1, keepdim=True), case(()))
_CASES = (*_FULL, case((0, 3), dim=0))
_ARGS = (case((3, 4)), case((2, 3, 4), dim=-2), case((3, 4), dim=1, keepdim=True), case(()))
_SPREADS = (case((3, 4)), case((3, 4), dim=0), case((2, 3, 4), dim=(0, -1), unbiased=False),
            case((3, 4), dim=1, keepdim=True, correction=2))
_ALONG = (case((3, 4), dim=-1), case((2, 3, 4), dim=1), case((), dim=0))


def np_reduced(function):
    return lambda x, dim=None, keepdim=False: function(x, axis=dim, keepdims=keepdim)


# ---------------------------------------------------------------- softmax
def _np_log_softmax(x, dim):
    x = x - x.max(axis=dim, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=dim, keepdims=True))


@composed(samples=_ALONG, numpy=lambda x, dim: np.exp(_np_log_softmax(x, dim) if x.ndim else x * 0),
          aliases=("special.softmax",))
def softmax(input: Tensor, dim: int | None = None, dtype: DTypeLike = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`, without overflow.

    >>> volta.softmax(volta.tensor([0.0, 0.0]), 0)
    tensor([0.5000, 0.5000])
    """
    return _along("softmax", softmax_op, input, dim, dtype)


@composed(samples=_ALONG, numpy=lambda x, dim: _np_log_softmax(x, dim) if x.ndim else x * 0,
          aliases=("special.log_softmax",))
def log_softmax(input: Tensor, dim: int | None = None, dtype: DTypeLike = None) -> Tensor:
    """log(softmax(x)) along `dim`, without overflow.

    >>> volta.log_softmax(volta.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    return _along("log_softmax", log_softmax_op, input, dim, dtype)


def _along(name, record, x, dim, dtype):
    if dtype is not None:
        x = cast(x, as_dtype(dtype))
    dim = as_dim(name, need_dim(name, dim), x.ndim)
    if not x._size and not x.dtype.is_floating_point:   # nothing to compute, which PyTorch takes of any dtype
        return clone(x)
    return record(x, dim=dim) if x.ndim else reshape_op(record(reshape_op(x, shape=(1,)), dim=0), shape=())


def need_dim(name: str, dim: int | None) -> int:
    """`dim`, which PyTorch once guessed and Volta does not.

    Raises: ArgumentError for None.
    """
    if dim is None:
        raise CallError(f"{name}: give dim, the dimension that is normalised (often dim=1 or dim=-1)")
    return dim


# ---------------------------------------------------------------- sums and extremes
def cast_to_add(name, input, dtype):
    """The elements as they are added up or multiplied; an AutogradError where a gradient is wanted of a dtype that has none."""
    if not dtype.is_floating_point and input.requires_grad and graph.is_grad_enabled():
        raise AutogradError(f"{name}: there are no gradients in {dtype}; detach() the tensor, or give a floating point dtype")
    return cast(input, dtype)


def _in_dtype(name, record, input, dim, keepdim, dtype):
    """A sum or product computed in `dtype`: integers and bool in int64, which wraps to the same."""
    if dtype is not None:
        dtype = as_dtype(dtype)
        input = cast_to_add(name, input, dtype)
    out = record(input, dim=as_dims(name, dim, input.ndim), keepdim=keepdim)
    return out if dtype is None else cast(out, dtype)


@composed(out="dtype", samples=_CASES, numpy=np_reduced(np.sum), kinds="fib", aliases=("sum_dim",))
def sum(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Sum over `dim` (an int, several, or None for all). Integers and bool add up in int64, unless `dtype` says otherwise.

    >>> volta.ones(2, 3).sum(dim=1)
    tensor([3., 3.])
    """
    if dtype is None and input.ndim:
        return sum_op(input, dim=as_dims("sum", dim, input.ndim), keepdim=keepdim)
    return _in_dtype("sum", sum_op, input, dim, keepdim, dtype)


@composed(out="cast", samples=_FULL, numpy=np_reduced(np.mean), aliases=("mean_dim",))
def mean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Mean over `dim`.

    Raises: DTypeError for integers.

    >>> volta.tensor([1.0, 2.0]).mean()
    tensor(1.5000)
    """
    if dtype is not None:
        input = cast(input, as_dtype(dtype))
    return mean_op(input, dim=as_dims("mean", dim, input.ndim), keepdim=keepdim)


@composed(out="dtype", samples=(*_ARGS, case((0, 3), dim=0)), numpy=np_reduced(np.prod), kinds="fib", domain=(0.5, 1.5))
def prod(input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Product over `dim`, which is one, or of all elements. Integers and bool multiply in int64, unless `dtype` says otherwise.

    >>> volta.tensor([2, 3, 4]).prod()
    tensor(24)
    """
    if dtype is None and input.dtype in HALVES and not bare(input):     # none of many factors is rounded on the way, nor in the derivative
        return cast(_in_dtype("prod", prod_op, cast(input, float32), dim, keepdim, None), input.dtype)
    return _in_dtype("prod", prod_op, input, dim, keepdim, dtype)


def _extreme(name, record, input, dim, keepdim):
    dims = as_dims(name, dim, input.ndim)
    if input._size == 0 and 0 in [input.shape[d] for d in dims]:
        raise IndexRangeError(f"{name}: cannot reduce {dims} of shape {input.shape}: there are no elements, and it has no neutral one")
    if not input.ndim and input.dtype.is_floating_point and not bare(input):
        return reshape_op(record(reshape_op(input, shape=(1,)), dim=(0,), keepdim=keepdim), shape=())
    return record(input, dim=dims, keepdim=keepdim) if dims else clone_op(input)

@composed(samples=_FULL, numpy=np_reduced(np.amax), kinds="fib", aliases=("max_dim", "max_reduce"))
def amax(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Largest value over `dim`; equal ones share the gradient; NaN wins, and gets the gradient.

    >>> volta.tensor([[1.0, 3.0], [2.0, 0.0]]).amax(1)
    tensor([3., 2.])
    """
    return _extreme("amax", amax_op, input, dim, keepdim)


@composed(samples=_FULL, numpy=np_reduced(np.amin), kinds="fib")
def amin(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Smallest value over `dim`; equal ones share the gradient; NaN wins.

    >>> volta.tensor([[1.0, 3.0], [2.0, 0.0]]).amin(1)
    tensor([1., 0.])
    """
    return _extreme("amin", amin_op, input, dim, keepdim)


def shared_extreme(name: str, largest: bool, input: Tensor, dim: int | Sequence[int] | None, keepdim: bool) -> Tensor:
    """amax or amin whose gradient goes to NaN as to an extreme."""
    out = _extreme(name, amax_op if largest else amin_op, input, dim, None)
    return reshape_op(out, shape=reduced(input.shape, as_dims(name, dim, input.ndim), True)) if keepdim else out


def _arg(name, record, input, dim, keepdim):
    if dim is None:
        out = _arg(name, record, flat(input), 0, False)
        return reshape_op(out, shape=(1,) * input.ndim) if keepdim else out
    d = as_dim(name, dim, input.ndim)
    if input.ndim == 0:
        return reshape_op(_arg(name, record, reshape_op(input, shape=(1,)), 0, False), shape=())
    if input.shape[d] == 0:
        raise IndexRangeError(f"{name}: dimension {d} of shape {input.shape} is empty and has no {name[3:]}imum")
    return record(input, dim=d, keepdim=keepdim)


@composed(samples=_ARGS, numpy=np_reduced(np.argmax), kinds="fi", smooth=False)
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index (int64) of the largest value, the first of equal ones; of the flattened tensor without `dim`.

    >>> volta.tensor([1.0, 3.0, 2.0]).argmax()
    tensor(1)
    """
    return _arg("argmax", argmax_op, input, dim, keepdim)


@composed(samples=_ARGS, numpy=np_reduced(np.argmin), kinds="fi", smooth=False)
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index (int64) of the smallest value, the first of equal ones; of the flattened tensor without `dim`.

    >>> volta.tensor([1.0, 3.0, 2.0]).argmin()
    tensor(0)
    """
    return _arg("argmin", argmin_op, input, dim, keepdim)


class ValuesIndices(Result):
    """What max and min give along a dimension: the extreme values, and where they are."""
    values: Tensor
    indices: Tensor


def _pick(name, record, input, dim, keepdim):
    d = as_dim(name, dim, input.ndim)
    numbers = cast(input, uint8) if input.dtype is bool_ else input
    if input.ndim == 0:
        return ValuesIndices(clone(input), _arg(f"arg{name}", record, numbers, 0, False))
    if input._shape[d] and bare(input):
        device, size = input.device, input._shape[:d] + input._shape[d + 1:]
        indices = run_kernel(record, device, (numbers,), {"dim": d, "keepdim": True})
        values = run_kernel(gather_op, device, (input, indices), {"dim": d})
        return tuple.__new__(ValuesIndices, (values, indices) if keepdim else (reshaped(values, size), reshaped(indices, size)))
    indices = record(numbers, dim=d, keepdim=True) if input._shape[d] else _arg(f"arg{name}", record, numbers, d, True)
    values = gather_op(input, indices, dim=d)
    if not keepdim:
        shape = input._shape[:d] + input._shape[d + 1:]
        values, indices = reshape_op(values, shape=shape), reshape_op(indices, shape=shape)
    return ValuesIndices(values, indices)


def _np_pick(extreme, arg):
    """The reference of max or min."""
    def pick(x, dim=None, keepdim=False):
        value = extreme(x, axis=dim, keepdims=keepdim)
        return value if dim is None else (value, arg(x, axis=dim, keepdims=keepdim))
    return pick


def _called(name, pick, of_all, of_two, input, dim_or_other, keepdim, dim, other):
    """max or min in one of its three forms. With keepdim, True or False, a whole number in a tensor is a dimension."""
    if keepdim is None:
        keepdim = False
    elif isinstance(dim_or_other, TensorBase):
        if dim_or_other.ndim or dim_or_other.dtype.category != 1 or dim is not None or other is not None:
            raise DTypeError(f"{name}: with keepdim goes a dimension, an int, got a tensor")
        dim_or_other = dim_or_other.item()
    if dim_or_other is None and dim is None and other is None and not keepdim:
        return _extreme(name, of_all, input, None, None)
    if other is None and (type(dim_or_other) is int and dim is None or type(dim) is int and dim_or_other is None):
        return _pick(name, pick, input, dim if dim_or_other is None else dim_or_other, keepdim)
    given = [x for x in (dim_or_other, dim, other) if x is not None]
    two = other is not None or hasattr(dim_or_other, "dtype")
    if len(given) != 1 or keepdim and two:
        raise CallError(f"{name}: takes a dimension, and keepdim with it, or another tensor, or neither")
    return of_two(input, *given) if two else _pick(name, pick, input, *given, keepdim)


@composed(out="one", samples=_ARGS, numpy=_np_pick(np.amax, np.argmax), kinds="fib")
def max(input: Tensor, dim_or_other: int | Tensor | None = None, keepdim: bool | None = None, *, dim: int | None = None,
        other: Tensor | None = None) -> Tensor | ValuesIndices:
    """The largest value; with an int `dim` (values, indices); with another tensor, in its place or as `other`, `maximum`.

    >>> volta.tensor([[1.0, 3.0], [2.0, 0.0]]).max(dim=1).indices
    tensor([1, 0])
    """
    return _called("max", argmax_op, amax_op, maximum, input, dim_or_other, keepdim, dim, other)


@composed(out="one", samples=_ARGS, numpy=_np_pick(np.amin, np.argmin), kinds="fib")
def min(input: Tensor, dim_or_other: int | Tensor | None = None, keepdim: bool | None = None, *, dim: int | None = None,
        other: Tensor | None = None) -> Tensor | ValuesIndices:
    """The smallest value; with an int `dim` (values, indices); with another tensor, in its place or as `other`, `minimum`.

    >>> volta.tensor([[1.0, 3.0], [2.0, 0.0]]).min(dim=1).values
    tensor([1., 0.])
    """
    return _called("min", argmin_op, amin_op, minimum, input, dim_or_other, keepdim, dim, other)


def _truth(name, record, input, dim, keepdim):
    """bool, but uint8 for uint8, and of each element by itself for no dimensions, as in PyTorch."""
    dims = as_dims(name, dim, input.ndim) if dim is None or hasattr(dim, "__index__") or len(dim) else ()
    out = record(input, dim=dims, keepdim=keepdim) if dims else input != 0
    return cast(out, input.dtype) if input.dtype.code == 1 else out


def _np_truth(function):
    return lambda x, dim=None, keepdim=False: function(x, axis=dim, keepdims=keepdim).astype(np.uint8 if x.dtype == np.uint8 else bool)


@composed(out="bool", samples=_CASES, numpy=_np_truth(np.any), kinds="fib", smooth=False)
def any(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether any element is non-zero.

    >>> volta.tensor([0, 2]).any()
    tensor(True)
    """
    return _truth("any", any_op, input, dim, keepdim)


@composed(out="bool", samples=_CASES, numpy=_np_truth(np.all), kinds="fib", smooth=False)
def all(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are non-zero.

    >>> volta.tensor([0, 2]).all()
    tensor(False)
    """
    return _truth("all", all_op, input, dim, keepdim)


_OF_LINE = {"dim": (0,), "keepdim": False}


@composed(samples=(case((3, 4)), case((2, 3, 4), dim=(0, 2)), case(())), kinds="fib", smooth=False,
          numpy=lambda x, dim=None: np.asarray(np.count_nonzero(x, axis=dim)))
def count_nonzero(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """How many elements are not 0 (int64).

    >>> volta.count_nonzero(volta.tensor([0, 2, 3]))
    tensor(2)
    """
    if dim is None and (few := few_counted(input)) is not None:
        return few
    found = input if input.dtype is bool_ else input != 0
    if dim is None and input._contiguous and bare(input):
        return run_kernel(sum_op, found.device, (reshaped(found, (found._size,)),), _OF_LINE)
    return sum_op(found, dim=as_dims("count_nonzero", dim, input.ndim), keepdim=False) if input.ndim else sum(found, dim)


# ---------------------------------------------------------------- spread
def _correction(name, dim, unbiased, correction):
    """(dim, what is taken from the count) of PyTorch's three forms: correction=, (dim, unbiased), (unbiased)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is not None:
        raise ArgumentError(f"{name}: give unbiased or correction, not both")
    return dim, int(unbiased)


def _np_var(x, dim=None, unbiased=True, keepdim=False, correction=None):
    return np.var(x, axis=dim, ddof=int(unbiased) if correction is None else correction, keepdims=keepdim)


def _moments(name, input, dim, unbiased, keepdim, correction):
    """(variance, mean) over `dim`."""
    if unbiased is not None or isinstance(dim, bool):
        if keepdim and isinstance(dim, bool):
            raise CallError(f"{name}: keepdim goes with a dimension; give dim, too")
        dim, correction = _correction(name, dim, unbiased, correction)
    elif correction is None:
        correction = 1
    rank = len(input._shape)
    dims = as_dims(name, dim, rank) or (0,)
    if rank and input._size and dims[-1] - dims[0] < len(dims):
        options = {"dim": dims, "keepdim": keepdim, "correction": float(correction)}
        out = run_kernel(var_op, input.device, (input,), options) if bare(input) else var_op(input, **options)
        if input._size <= correction * out[0]._size:
            _warn_of_freedom(name, input._size // out[0]._size, correction)
        return out
    x = input if rank else reshape_op(input, shape=(1,))
    out = _spread(x, dims, float(correction))
    shape = reduced(x._shape, dims, keepdim) if rank else ()
    size = math.prod(shape)
    if x._size <= correction * size and (size or correction >= 0):
        _warn_of_freedom(name, x._size // size if size else 0, correction)
    return tuple([o if o._shape == shape else reshape_op(o, shape=shape) for o in out])


def _warn_of_freedom(name, n, correction):
    warnings.warn(f"{name}: degrees of freedom is <= 0: the correction should be less than the number of elements that are reduced, got "
                  f"{correction} and {n}", stacklevel=4)


def _spread(x, dims, correction):
    """(variance, mean), with the dimensions kept. Over dimensions that are not neighbours: the last run of them, then the others."""
    start = len(dims) - 1
    while start and dims[start - 1] == dims[start] - 1:
        start -= 1
    if not x._size:
        return (mean_op(x, dim=dims, keepdim=True),) * 2
    if not start:
        return var_op(x, dim=dims, keepdim=True, correction=correction)
    within, mean = var_op(x, dim=dims[start:], keepdim=True, correction=0.0)
    between, mean = _spread(mean, dims[:start], 0.0)
    n = count(x.shape, dims)
    return (mean_op(within, dim=dims[:start], keepdim=True) + between) * (n / (n - correction) if n > correction else math.inf), mean


@composed(out="cast", samples=_SPREADS, numpy=_np_var, in_float32=True, takes={"input": "f"})
def var(input: Tensor, dim: int | Sequence[int] | bool | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None) -> Tensor:
    """Variance over `dim`, divided by (count - correction); correction 1 unless given, 0 with unbiased=False.

    >>> volta.tensor([1.0, 3.0]).var()
    tensor(2.)
    """
    return _moments("var", input, dim, unbiased, keepdim, correction)[0]


@composed(out="cast", samples=_SPREADS, numpy=lambda *x, **options: np.sqrt(_np_var(*x, **options)), in_float32=True, takes={"input": "f"})
def std(input: Tensor, dim: int | Sequence[int] | bool | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None) -> Tensor:
    """Square root of `var`; where it is 0, the gradient is 0.

    >>> volta.tensor([1.0, 3.0]).std(correction=0)
    tensor(1.)
    """
    return root_op(_moments("std", input, dim, unbiased, keepdim, correction)[0])


def _np_with_mean(function):
    return lambda x, dim=None, keepdim=False, **options: (function(x, dim=dim, keepdim=keepdim, **options),
                                                          x.mean(axis=dim, keepdims=keepdim))


@composed(samples=_SPREADS, numpy=_np_with_mean(_np_var), method=False, in_float32=True, takes={"input": "f"})
def var_mean(input: Tensor, dim: int | Sequence[int] | bool | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> tuple[Tensor, Tensor]:
    """(`var`, `mean`).

    >>> volta.var_mean(volta.tensor([1.0, 3.0]))
    (tensor(2.), tensor(2.))
    """
    return _moments("var_mean", input, dim, unbiased, keepdim, correction)


@composed(samples=_SPREADS, numpy=_np_with_mean(lambda *x, **options: np.sqrt(_np_var(*x, **options))),
          method=False, in_float32=True, takes={"input": "f"})
def std_mean(input: Tensor, dim: int | Sequence[int] | bool | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> tuple[Tensor, Tensor]:
    """(`std`, `mean`).

    >>> volta.std_mean(volta.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(2.))
    """
    variance, mean = _moments("std_mean", input, dim, unbiased, keepdim, correction)
    return root(variance, 0.5), mean


def root(x: Tensor, power: float) -> Tensor:
    """x ** power of what is at least 0, with gradient 0 at 0, as in PyTorch's norm and std."""
    if power == 0.5:
        return root_op(x)
    if not graph.wants_derivative(x):
        return x ** power
    return fused(power_but_of_zero, x, power, flags={"of_zero": 0.0 if power > 0 else math.inf})


def power_but_of_zero(x: Tensor, power: float, *, of_zero: float) -> Tensor:
    """x ** power, and for 0 a number, so that the gradient there is 0."""
    zero = x == 0
    return where_op(zero, of_zero, where_op(zero, 1.0, x) ** power)


@composed(out="cast", samples=(case((3, 4), dim=1), case((2, 3, 4), dim=(0, -1), keepdim=True)), in_float32=True,
          aliases=("special.logsumexp",), numpy=lambda x, dim, keepdim=False: np.log(np.exp(x).sum(axis=dim, keepdims=keepdim)))
def logsumexp(input: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over `dim`, without overflow.

    >>> volta.tensor([1000.0, -1000.0]).logsumexp(0)
    tensor(1000.)
    """
    dims = as_dims("logsumexp", dim, input.ndim)
    if 0 in [input.shape[d] for d in dims]:
        return sum(input, dims, keepdim) - math.inf
    input = cast(input, result_type(input, 1.0))
    if len(dims) == 1:
        out = logsumexp_op(input, dim=dims[0])
    else:                       # none or several, as one behind the others
        kept = [d for d in range(input.ndim) if d not in dims]
        shape = (*[input.shape[d] for d in kept], count(input.shape, dims))
        out = logsumexp_op(reshape_op(permute_op(input, dims=(*kept, *dims)), shape=shape), dim=len(kept))
    return reshape_op(out, shape=reduced(input.shape, dims, True)) if keepdim else out
