"""Reductions over any dimensions, softmax, and what is composed of them (mean, var, norm, ...)."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import graph
from volta.dtypes import as_dtype, float16, float32, get_default_dtype, int64
from volta.errors import ArgumentError, DTypeError, IndexRangeError
from volta.ops.elementwise import exp, floor, log, where
from volta.ops.elementwise import sqrt as sqrt_op
from volta.ops.movement import _expand, _reshape, cast, cat, clone, in_float32, narrow
from volta.ops.movement import permute_primitive as _permute
from volta.ops.operands import numbers
from volta.ops.table import case, register
from volta.shapes import as_dim, as_dims, reduced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor
    from volta.types import DTypeLike

_CASES = (case((3, 4), dim=(1,), keepdim=False), case((3, 4), dim=(0,), keepdim=True), case((2, 3, 4), dim=(0, 2), keepdim=False),
          case((2, 3, 4), dim=(0, 1, 2), keepdim=False), case((5, 1), dim=(1,), keepdim=False), case((2, 70), dim=(1,), keepdim=True))
_EMPTY = (case((0, 3), dim=(0,), keepdim=False), case((2, 0), dim=(1,), keepdim=True))


def _spread(g, shape, dim, keepdim):
    """A reduced gradient seen at every element that went into it."""
    if not keepdim:
        g = _reshape(g, shape=reduced(shape, dim, True))
    return _expand(g, shape=shape)


def _count(shape, dim):
    return math.prod([shape[d] for d in dim])


def _extreme_vjp(g, x, out, dim, keepdim):
    """Shared equally among equal extremes, as in torch.amax."""
    hit = cast(x == _spread(out, x.shape, dim, keepdim), g.dtype)
    return hit * _spread(g, x.shape, dim, keepdim) / sum_primitive(hit, dim=dim, keepdim=True)


def _prod_vjp(g, x, dim, keepdim):
    """g times the product of the others. Multiplications alone give it, so it and its derivatives are right where x is 0, too."""
    g, n = _spread(g, x.shape, dim, keepdim), _count(x.shape, dim)
    if n < 2:
        return g
    if len(dim) == 1:
        return g * _others(x, dim[0])
    order = (*dim, *[d for d in range(x.ndim) if d not in dim])
    shape = tuple([x.shape[d] for d in order])
    others = _others(_reshape(_permute(x, dims=order), shape=(n,) + shape[len(dim):]), 0)
    return g * _permute(_reshape(others, shape=shape), dims=tuple([order.index(d) for d in range(x.ndim)]))


def _others(x, d):
    """For each element the product of all others along dimension d, by a tree of pairs."""
    n = x.shape[d]
    half = n // 2
    left, right = narrow(x, d, 0, half), narrow(x, d, half, half)
    if n == 2:
        return cat([right, left], d)
    pairs = left * right
    above = _others(cat([pairs, narrow(x, d, n - 1, 1)], d) if n % 2 else pairs, d)
    outside = narrow(above, d, 0, half)
    return cat([outside * right, outside * left, *([narrow(above, d, half, 1)] if n % 2 else [])], d)


def _reduction(name, vjp, numpy, cases=_CASES + _EMPTY, **options):
    return register(name, ("x",), family="reduce", vjp=vjp and (vjp,), cases=cases,
                    numpy=lambda x, dim, keepdim: numpy(x, axis=dim, keepdims=keepdim), **options)


sum_primitive = _reduction("sum", lambda g, x_shape, dim, keepdim: _spread(g, x_shape, dim, keepdim), np.sum, kinds="fib")
mean_primitive = _reduction(
    "mean", lambda g, x_shape, dim, keepdim: _spread(g * (1.0 / (_count(x_shape, dim) or 1)), x_shape, dim, keepdim), np.mean, _CASES)
amax_primitive = _reduction("amax", _extreme_vjp, np.amax, _CASES, kinds="fi")
amin_primitive = _reduction("amin", _extreme_vjp, np.amin, _CASES, kinds="fi")
prod_primitive = _reduction("prod", _prod_vjp, np.prod, kinds="fi", domain=(0.5, 1.5))
any_primitive = _reduction("any", None, np.any, kinds="fib")
all_primitive = _reduction("all", None, np.all, kinds="fib")

_ARG_CASES = (case((3, 4), dim=1, keepdim=False), case((3, 4), dim=0, keepdim=True), case((2, 3, 4), dim=1, keepdim=False),
              case((130,), dim=0, keepdim=False))
argmax_primitive = register("argmax", ("x",), family="arg", kinds="fi", cases=_ARG_CASES,
                            numpy=lambda x, dim, keepdim: np.argmax(x, axis=dim, keepdims=keepdim))
argmin_primitive = register("argmin", ("x",), family="arg", kinds="fi", cases=_ARG_CASES,
                            numpy=lambda x, dim, keepdim: np.argmin(x, axis=dim, keepdims=keepdim))


# ---------------------------------------------------------------- softmax
def _np_softmax(x, dim):
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


_SOFTMAX_CASES = (case((3, 5), dim=1), case((3, 5), dim=0), case((2, 3, 4), dim=1), case((4, 1), dim=1), case((0, 3), dim=1))
_SOFTMAX_GRAD_CASES = tuple(case(c.inputs[0], c.inputs[0], **c.params) for c in _SOFTMAX_CASES)
softmax_primitive = register("softmax", ("x",), family="softmax", numpy=_np_softmax, cases=_SOFTMAX_CASES,
                             vjp=(lambda g, out, dim: softmax_grad(g, out, dim=dim),))
log_softmax_primitive = register(
    "log_softmax", ("x",), family="softmax", cases=_SOFTMAX_CASES, vjp=(lambda g, out, dim: log_softmax_grad(g, out, dim=dim),),
    numpy=lambda x, dim: np.log(_np_softmax(x, dim)))
softmax_grad = register(
    "softmax_grad", ("g", "out"), family="softmax", cases=_SOFTMAX_GRAD_CASES,
    reference=lambda g, out, dim: out * (g - sum_primitive(g * out, dim=(dim,), keepdim=True)),
    numpy=lambda g, out, dim: out * (g - (g * out).sum(axis=dim, keepdims=True)))
log_softmax_grad = register(
    "log_softmax_grad", ("g", "out"), family="softmax", cases=_SOFTMAX_GRAD_CASES,
    reference=lambda g, out, dim: g - exp(out) * sum_primitive(g, dim=(dim,), keepdim=True),
    numpy=lambda g, out, dim: g - np.exp(out) * g.sum(axis=dim, keepdims=True))


def softmax(input: Tensor, dim: int, dtype: DTypeLike = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`, without overflow."""
    input = _floating("softmax", input, dtype)
    return _along(softmax_primitive, "softmax", input, dim)


def log_softmax(input: Tensor, dim: int, dtype: DTypeLike = None) -> Tensor:
    """log(softmax(x)) along `dim`, without overflow."""
    input = _floating("log_softmax", input, dtype)
    return _along(log_softmax_primitive, "log_softmax", input, dim)


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
    return _in_dtype(sum_primitive, "sum", input, dim, keepdim, dtype)


def mean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Mean over `dim`.

    Raises: DTypeError for integers.
    """
    input = _floating("mean", input, dtype)
    dims = as_dims("mean", dim, input.ndim)
    return mean_primitive(input, dim=dims, keepdim=keepdim) if dims else input * 1.0


def _extreme(name, primitive, input, dim, keepdim):
    dims = as_dims(name, dim, input.ndim)
    if input._size == 0 and 0 in [input.shape[d] for d in dims]:
        raise IndexRangeError(f"{name}: cannot reduce {dims} of shape {input.shape}: there are no elements, and it has no neutral one")
    return primitive(input, dim=dims, keepdim=keepdim) if dims else clone(input)


def amax(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Largest value over `dim`; equal ones share the gradient; NaN wins."""
    return _extreme("amax", amax_primitive, input, dim, keepdim)


def amin(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Smallest value over `dim`; equal ones share the gradient; NaN wins."""
    return _extreme("amin", amin_primitive, input, dim, keepdim)


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
    return _arg("argmax", argmax_primitive, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index (int64) of the smallest value, the first of equal ones; of the flattened tensor without `dim`."""
    numbers("argmin", input=input)
    return _arg("argmin", argmin_primitive, input, dim, keepdim)


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
    from volta.ops.index import gather_primitive
    d = as_dim(name, dim, input.ndim)
    if input.ndim == 0:
        return ValuesIndices((clone(input), _arg(f"arg{name}", primitive, input, 0, False)))
    indices = _arg(f"arg{name}", primitive, input, d, True)
    values = gather_primitive(input, indices, dim=d)
    if not keepdim:
        shape = input.shape[:d] + input.shape[d + 1:]
        values, indices = _reshape(values, shape=shape), _reshape(indices, shape=shape)
    return ValuesIndices((values, indices))


def max(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The largest value; with an int `dim` (values, indices); with another tensor, `maximum`."""
    if hasattr(dim, "dtype"):
        from volta.ops.elementwise import maximum
        return maximum(input, dim)
    return amax(input) if dim is None else _pick("max", argmax_primitive, input, dim, keepdim)


def min(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:
    """The smallest value; with an int `dim` (values, indices); with another tensor, `minimum`."""
    if hasattr(dim, "dtype"):
        from volta.ops.elementwise import minimum
        return minimum(input, dim)
    return amin(input) if dim is None else _pick("min", argmin_primitive, input, dim, keepdim)


def prod(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """Product over `dim`. Integers and bool multiply in int64, unless `dtype` says otherwise."""
    if dtype is None and input.dtype is float16:        # of many factors, none is rounded on the way, nor in the derivative
        return cast(_in_dtype(prod_primitive, "prod", cast(input, float32), dim, keepdim, None), float16)
    return _in_dtype(prod_primitive, "prod", input, dim, keepdim, dtype)


def _truth(out, x):
    """bool, but uint8 for uint8, as in PyTorch."""
    return cast(out, x.dtype) if x.dtype.code == 1 else out


def any(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether any element is non-zero."""
    dims = as_dims("any", dim, input.ndim)
    return _truth(any_primitive(input, dim=dims, keepdim=keepdim) if dims else input != 0, input)


def all(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    """Whether all elements are non-zero."""
    dims = as_dims("all", dim, input.ndim)
    return _truth(all_primitive(input, dim=dims, keepdim=keepdim) if dims else input != 0, input)


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
    n = _count(input.shape, dims)
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
