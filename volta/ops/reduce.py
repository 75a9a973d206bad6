"""Reductions over any dimensions, softmax, and what is composed of them (mean, var, norm, ...)."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from volta._kernels.core import graph
from volta.dtypes import as_dtype, float16, float32, get_default_dtype, int64
from volta.errors import ArgumentError, DTypeError, IndexRangeError
from volta.ops.elementwise import exp, floor, log, maximum, minimum, where
from volta.ops.elementwise import sqrt as sqrt_op
from volta.ops.movement import _reshape, cast, clone, in_float32
from volta.ops.operands import numbers
from volta.ops.records.index import gather_op
from volta.ops.records.reduce import (
    all_op,
    amax_op,
    amin_op,
    any_op,
    argmax_op,
    argmin_op,
    count,
    log_softmax_op,
    mean_op,
    prod_op,
    softmax_op,
    sum_op,
)
from volta.shapes import as_dim, as_dims, reduced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor
    from volta.types import DTypeLike


def softmax(input: Tensor, dim: int, dtype: DTypeLike = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`, without overflow."""
    input = _floating("softmax", input, dtype)
    return _along(softmax_op, "softmax", input, dim)


def log_softmax(input: Tensor, dim: int, dtype: DTypeLike = None) -> Tensor:
    """log(softmax(x)) along `dim`, without overflow."""
    input = _floating("log_softmax", input, dtype)
    return _along(log_softmax_op, "log_softmax", input, dim)


def _along(primitive, name, x, dim):
    dim = as_dim(name, dim, x.ndim)
    return primitive(x, dim=dim) if x.ndim else _reshape(primitive(_reshape(x, shape=(1,)), dim=0), shape=())


# ---------------------------------------------------------------- functions
def _floating(name, x, dtype=None):
    if dtype is not None:
        x = cast(x, as_dtype(dtype))
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{name}: needs a floating point tensor, got {x.dtype}; convert it with .float()")
    return x


def _one_element(x):
    """Sum or product of the one element of a 0-d tensor."""
    return clone(x) if x.dtype.is_floating_point else cast(x, int64)


def _in_dtype(reduction, name, input, dim, keepdim, dtype):
    """A sum or product computed in `dtype`: integers and bool in int64, which wraps to the same."""
    dtype = None if dtype is None else as_dtype(dtype)
    if dtype is not None:
        input = cast(input, dtype)
    dims = as_dims(name, dim, input.ndim)
    out = reduction(input, dim=dims, keepdim=keepdim) if dims else _one_element(input)
    return out if dtype is None else cast(out, dtype)


def sum(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Sum over `dim` (an int, several, or None for all). Integers and bool add up in int64, unless `dtype` says otherwise."""
    return _in_dtype(sum_op, "sum", input, dim, keepdim, dtype)


def mean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Mean over `dim`.

    Raises: DTypeError for integers.
    """
    input = _floating("mean", input, dtype)
    dims = as_dims("mean", dim, input.ndim)
    return mean_op(input, dim=dims, keepdim=keepdim) if dims else input * 1.0


def _extreme(name, primitive, input, dim, keepdim):
    dims = as_dims(name, dim, input.ndim)
    if input._size == 0 and 0 in [input.shape[d] for d in dims]:
        raise IndexRangeError(f"{name}: cannot reduce {dims} of shape {input.shape}: there are no elements, and it has no neutral one")
    return primitive(input, dim=dims, keepdim=keepdim) if dims else clone(input)


def amax(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Largest value over `dim`; equal ones share the gradient; NaN wins."""
    return _extreme("amax", amax_op, input, dim, keepdim)


def amin(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Smallest value over `dim`; equal ones share the gradient; NaN wins."""
    return _extreme("amin", amin_op, input, dim, keepdim)


def _arg(name, primitive, input, dim, keepdim):
    if dim is None:
        flat = _reshape(input, shape=(input._size,))
        out = _arg(name, primitive, flat, 0, False)
        return _reshape(out, shape=(1,) * input.ndim) if keepdim else out
    d = as_dim(name, dim, input.ndim)
    if input.ndim == 0:
        return _reshape(_arg(name, primitive, _reshape(input, shape=(1,)), 0, False), shape=())
    if input.shape[d] == 0:
        raise IndexRangeError(f"{name}: dimension {d} of shape {input.shape} is empty and has no {name[3:]}imum")
    return primitive(input, dim=d, keepdim=keepdim)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index (int64) of the largest value, the first of equal ones; of the flattened tensor without `dim`."""
    numbers("argmax", input=input)
    return _arg("argmax", argmax_op, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index (int64) of the smallest value, the first of equal ones; of the flattened tensor without `dim`."""
    numbers("argmin", input=input)
    return _arg("argmin", argmin_op, input, dim, keepdim)


class ValuesIndices(tuple):
    """(values, indices) of max, min: a pair with names."""
    __slots__ = ()

    @property
    def values(self):
        """The extreme values."""
        return self[0]

    @property
    def indices(self):
        """Where they are."""
        return self[1]


def _pick(name, primitive, input, dim, keepdim):
    d = as_dim(name, dim, input.ndim)
    if input.ndim == 0:
        return ValuesIndices((clone(input), _arg(f"arg{name}", primitive, input, 0, False)))
    indices = _arg(f"arg{name}", primitive, input, d, True)
    values = gather_op(input, indices, dim=d)
    if not keepdim:
        shape = input.shape[:d] + input.shape[d + 1:]
        values, indices = _reshape(values, shape=shape), _reshape(indices, shape=shape)
    return ValuesIndices((values, indices))


def max(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The largest value; with an int `dim` (values, indices); with another tensor, `maximum`."""
    if hasattr(dim, "dtype"):
        return maximum(input, dim)
    return amax(input) if dim is None else _pick("max", argmax_op, input, dim, keepdim)


def min(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The smallest value; with an int `dim` (values, indices); with another tensor, `minimum`."""
    if hasattr(dim, "dtype"):
        return minimum(input, dim)
    return amin(input) if dim is None else _pick("min", argmin_op, input, dim, keepdim)


def prod(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Product over `dim`. Integers and bool multiply in int64, unless `dtype` says otherwise."""
    if dtype is None and input.dtype is float16:        # of many factors, none is rounded on the way, nor in the derivative
        return cast(_in_dtype(prod_op, "prod", cast(input, float32), dim, keepdim, None), float16)
    return _in_dtype(prod_op, "prod", input, dim, keepdim, dtype)


def _truth(out, x):
    """bool, but uint8 for uint8, as in PyTorch."""
    return cast(out, x.dtype) if x.dtype.code == 1 else out


def any(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether any element is non-zero."""
    dims = as_dims("any", dim, input.ndim)
    return _truth(any_op(input, dim=dims, keepdim=keepdim) if dims else input != 0, input)


def all(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are non-zero."""
    dims = as_dims("all", dim, input.ndim)
    return _truth(all_op(input, dim=dims, keepdim=keepdim) if dims else input != 0, input)


def _correction(name, dim, unbiased, correction):
    """(dim, what is taken from the count) of PyTorch's three forms: correction=, (dim, unbiased), (unbiased)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is None:
        return dim, 1 if correction is None else correction
    if correction is not None:
        raise ArgumentError(f"{name}: give unbiased or correction, not both")
    return dim, int(unbiased)


@in_float32
def var(input: Tensor, dim: int | Sequence[int] | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None) -> Tensor:
    """Variance over `dim`, divided by (count - correction); correction 1 unless given, 0 with unbiased=False."""
    input = _floating("var", input)
    dim, correction = _correction("var", dim, unbiased, correction)
    dims = as_dims("var", dim, input.ndim)
    n = count(input.shape, dims)
    centred = input - mean(input, dims, True)
    total = sum(centred * centred, dims, keepdim)
    return total / float(n - correction if n > correction else 0)


@in_float32
def std(input: Tensor, dim: int | Sequence[int] | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None) -> Tensor:
    """Square root of `var`; where it is 0, the gradient is 0."""
    return _root(var(input, dim, unbiased, keepdim, correction=correction), 0.5)


def var_mean(input: Tensor, dim: int | Sequence[int] | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> tuple[Tensor, Tensor]:
    """(`var`, `mean`)."""
    return (var(input, dim, unbiased, keepdim, correction=correction),
            mean(input, None if isinstance(dim, bool) else dim, keepdim))


def std_mean(input: Tensor, dim: int | Sequence[int] | None = None, unbiased: bool | None = None, keepdim: bool = False, *,
             correction: float | None = None) -> tuple[Tensor, Tensor]:
    """(`std`, `mean`)."""
    return (std(input, dim, unbiased, keepdim, correction=correction),
            mean(input, None if isinstance(dim, bool) else dim, keepdim))


def _root(x, power):
    """x ** power of what is at least 0, with gradient 0 at 0, as in PyTorch's norm and std."""
    if not (x.requires_grad and graph.is_grad_enabled()):
        return sqrt_op(x) if power == 0.5 else x ** power
    zero = x == 0
    safe = where(zero, 1.0, x)
    return where(zero, 0.0, sqrt_op(safe) if power == 0.5 else safe ** power)


@in_float32
def logsumexp(input: Tensor, dim: int | Sequence[int] | None, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over `dim`, without overflow."""
    dims = as_dims("logsumexp", dim, input.ndim)
    if 0 in [input.shape[d] for d in dims]:
        return log(sum(exp(input), dims, keepdim))
    top = amax(input, dims, True).detach()
    top = where(top.isfinite(), top, 0.0)
    out = log(sum(exp(input - top), dims, True)) + top
    return out if keepdim else _reshape(out, shape=reduced(input.shape, dims, False))


def norm(input: Tensor, p: float | str | None = "fro", dim: int | Sequence[int] | None = None, keepdim: bool = False, *,
         dtype: DTypeLike = None) -> Tensor:
    """p-norm of the elements over `dim`: a number, infinity, -infinity, or "fro" (2). Where it is 0, the gradient is 0.

    Raises: ArgumentError for another p.
    """
    if p not in ("fro", None) and (isinstance(p, str) or p != p):
        raise ArgumentError(f"norm: p must be a number or 'fro', got {p!r}")
    if dtype is not None or not input.dtype.is_floating_point:
        input = _floating("norm", input, get_default_dtype() if dtype is None else dtype)
    return _norm(input, p, dim, keepdim)


@in_float32
def _norm(input, p, dim, keepdim):
    if p in ("fro", None, 2):
        return _root(sum(input * input, dim, keepdim), 0.5)
    if p == 1:
        return sum(abs(input), dim, keepdim)
    if p in (math.inf, -math.inf):
        return (amax if p > 0 else amin)(abs(input), dim, keepdim)
    size, zero = abs(input), input == 0
    if p == 0:
        return sum(floor(where(zero, size, 1.0)), dim, keepdim)         # 0 and 1, in the graph, with derivative 0
    if p < 0 and 0 in [input.shape[d] for d in as_dims("norm", dim, input.ndim)]:
        raise IndexRangeError(f"norm: there is no {p}-norm of no elements, got shape {input.shape}")
    terms = size ** p if p > 1 else where(zero, 0.0 if p > 0 else math.inf, where(zero, 1.0, size) ** p)
    return _root(sum(terms, dim, keepdim), 1.0 / p)


def count_nonzero(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """How many elements are not 0 (int64)."""
    return sum(input != 0, dim)
