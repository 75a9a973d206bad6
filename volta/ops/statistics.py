"""Quantiles, sums and means of what is not NaN, both extremes, covariance."""
from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import TensorBase
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta.dtypes import HALVES, as_dtype, float32, float64, int64, result_type
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.creation import full
from volta.ops.indexing import known_range
from volta.ops.linalg import matmul
from volta.ops.math import lerp, where
from volta.ops.parts import narrow
from volta.ops.records.copy import cast
from volta.ops.records.index import gather_op, scale_gradient
from volta.ops.records.math import ceil, clamp_max, clamp_min, floor, isnan, nan_to_num_op, round_op, sqrt, where_op
from volta.ops.records.reduce import amax_op, amin_op
from volta.ops.records.sort import sort_op
from volta.ops.records.view import diagonal_op, flat, permute_op, reshape_op
from volta.ops.reduce import amax, amin, mean, np_reduced, sum
from volta.ops.table import Derived, case, composed
from volta.results import Result
from volta.shapes import as_dim, as_dims, reduced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor
    from volta.types import DTypeLike


# ---------------------------------------------------------------- quantiles
_ROUNDED = {"lower": floor, "higher": ceil, "nearest": round_op}


def _levels(name, input, q):
    """The quantiles as a tensor of the dtype of the input. Those of a tensor are looked at where that is no transfer."""
    if not isinstance(q, TensorBase):
        outside = not 0 <= q <= 1
        q = full((), float(q), dtype=input.dtype, device=input.device)
    else:
        outside = core.host_sees(q) and not bool(((q >= 0) & (q <= 1)).all().item())
    if outside:
        raise ArgumentError(f"{name}: q must be from 0 to 1")
    if q.ndim > 1 or q.dtype is not input.dtype:
        raise ShapeError(f"{name}: q must be a number or a vector of {input.dtype}, got {q.dtype} of shape {q.shape}")
    return q


def _quantile(name, input, q, dim, keepdim, interpolation, skip):
    if not input.dtype.is_floating_point:
        raise DTypeError(f"{name}: needs a floating point tensor, got {input.dtype}; convert it with .float()")
    if interpolation not in (*_ROUNDED, "linear", "midpoint"):
        raise ArgumentError(f"{name}: interpolation must be linear, lower, higher, midpoint or nearest, got {interpolation!r}")
    if not input._size:
        raise ShapeError(f"{name}: there are no elements, got shape {input.shape}")
    level = q if type(q) in (int, float) and 0 <= q <= 1 and not skip else None
    q = _levels(name, input, q) if level is None else q
    dims = tuple(range(input.ndim)) if dim is None else (as_dim(name, dim, input.ndim),)[:input.ndim]
    lines = flat(input)
    if len(dims) == 1:
        lines = permute_op(input, dims=(*[i for i in range(input.ndim) if i != dims[0]], dims[0]))
    values, _ = sort_op(lines, dim=lines.ndim - 1)
    last = lines.shape[-1] - 1
    if level is not None:
        return reshape_op(_at_level(values, level, last, interpolation), shape=reduced(input.shape, dims, keepdim))
    most = last - sum(isnan(values), -1, True)             # the rank of the largest number
    rank = q * clamp_min(cast(most, input.dtype), 0.0) if skip else where(most == last, q * float(last), float(last))
    found = _between(values, rank, interpolation)
    found = permute_op(found, dims=(found.ndim - 1, *range(found.ndim - 1)))
    return reshape_op(found, shape=q.shape + reduced(input.shape, dims, keepdim))


def _at_level(values, level, last, interpolation):
    """Of sorted lines what is at a level that the host knows, as the numbers of their dtype give it; NaN of lines that end with one."""
    kind = np.float64 if values.dtype is float64 else np.float32
    rank, end = kind(level) * kind(last), narrow(values, values.ndim - 1, last, 1)
    places = [min(int(f(rank)), last) for f in (np.floor, np.ceil, np.rint)]
    below, above, near = (narrow(values, values.ndim - 1, place, 1) for place in places)
    if interpolation in _ROUNDED:
        found = {"lower": below, "higher": above, "nearest": near}[interpolation]
    else:
        found = lerp(below, above, 0.5 if interpolation == "midpoint" else float(rank - kind(places[0])))
    return where_op(isnan(end), end, found)


def _between(values, rank, interpolation):
    """Of sorted lines what is at the ranks, between two elements where they are not whole."""
    def at(place):
        return gather_op(values, cast(place, int64), dim=values.ndim - 1)
    if interpolation in _ROUNDED:
        return at(_ROUNDED[interpolation](rank))
    below = floor(rank)
    return lerp(at(below), at(ceil(rank)), 0.5 if interpolation == "midpoint" else rank - below)


def _np_quantile(function):
    def of(x, q, dim=None, keepdim=False, interpolation="linear"):
        return function(x, q, dim if x.ndim else None, keepdims=keepdim, method=interpolation)
    return of


_QUANTILES = (case((3, 7), 0.3), case((3, 7), 0.6, dim=1, keepdim=True), case((4, 3), 0.0, dim=0), case((), 0.5),
              case((2, 5), Derived(lambda x: np.array([0.1, 0.5, 1.0], x.dtype)), dim=1),
              *[case((3, 7), 0.37, dim=-1, interpolation=i) for i in ("lower", "higher", "midpoint", "nearest")])
_OPTIONS = {"samples": _QUANTILES, "domain": (-900.0, 900.0), "halves": False}


@composed(numpy=_np_quantile(np.quantile), **_OPTIONS)
def quantile(input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear") -> Tensor:
    """The quantiles q, a number or a vector, along `dim` or of all elements; those of a vector lie along a new first dimension. NaN where
    there is a NaN.

    Raises: DTypeError for integers; ArgumentError for q outside [0, 1], as far as the host knows.

    >>> volta.quantile(volta.tensor([1.0, 2.0, 4.0]), 0.75)
    tensor(3.)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@composed(numpy=_np_quantile(np.nanquantile), **_OPTIONS)
def nanquantile(input: Tensor, q: float | Tensor, dim: int | None = None, keepdim: bool = False, *,
                interpolation: str = "linear") -> Tensor:
    """`quantile` of the elements that are not NaN.

    >>> volta.nanquantile(volta.tensor([1.0, float("nan"), 2.0]), 0.5)
    tensor(1.5000)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


# ---------------------------------------------------------------- without NaN
_SUMS = (case((3, 4)), case((2, 3, 4), dim=(0, -1)), case((3, 4), dim=1, keepdim=True), case(()))


def _numbers(input):
    """The elements, with 0 for NaN."""
    return nan_to_num_op(input, 0.0, math.inf) if input.dtype.is_floating_point else input


@composed(out="cast", samples=(*_SUMS, case((0, 3), dim=0)), numpy=np_reduced(np.nansum), kinds="fib")
def nansum(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """`sum` with 0 for NaN.

    >>> volta.nansum(volta.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    if core.host_sees(input) and input.dtype.is_floating_point and (dtype is None or as_dtype(dtype).is_floating_point):
        total = sum.function(input, dim, keepdim, dtype=dtype)
        seen = cast(total, float32) if total.dtype in HALVES else total
        if core.same_values(seen, seen):              # none is NaN, and so no element was
            return total
    return sum.function(_numbers(input), dim, keepdim, dtype=dtype)


@composed(out="cast", samples=_SUMS, numpy=np_reduced(np.nanmean))
def nanmean(input: Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """`mean` of the elements that are not NaN.

    Raises: DTypeError for integers, and for a `dtype` of these.

    >>> volta.nanmean(volta.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5000)
    """
    dtype = input.dtype if dtype is None else as_dtype(dtype)
    if not input.dtype.is_floating_point or not dtype.is_floating_point:
        raise DTypeError(f"nanmean: needs a floating point tensor and dtype, got {input.dtype} and {dtype}; convert it with .float()")
    x = cast(input, float32 if dtype in HALVES else dtype)         # rounded once
    if x.requires_grad:                                             # where there is no number, the gradient is NaN, too
        x = scale_gradient(x, cast(where_op(sum(x == x, dim, True) == 0, math.nan, 1.0), x.dtype))
    return cast(nansum(x, dim, keepdim) / sum(x == x, dim, keepdim), dtype)


# ---------------------------------------------------------------- both extremes
class MinMax(Result):
    """What `aminmax` gives."""
    min: Tensor
    max: Tensor


@composed(samples=(case((3, 4)), case((2, 3, 4), dim=-2), case((3, 4), dim=1, keepdim=True), case((3, 4), keepdim=True)), kinds="fib",
          numpy=lambda x, dim=None, keepdim=False: (np.amin(x, dim, keepdims=keepdim), np.amax(x, dim, keepdims=keepdim)))
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """(min, max) along `dim`, or of all elements; NaN wins.

    >>> volta.aminmax(volta.tensor([1.0, 3.0, 2.0])).max
    tensor(3.)
    """
    dims = as_dims("aminmax", dim, input.ndim)
    if input._size and dims:
        if bare(input):
            device, of, options = input.device, (input,), {"dim": dims, "keepdim": keepdim}
            return tuple.__new__(MinMax, (run_kernel(amin_op, device, of, options), run_kernel(amax_op, device, of, options)))
        return MinMax(amin_op(input, dim=dims, keepdim=keepdim), amax_op(input, dim=dims, keepdim=keepdim))
    return MinMax(amin(input, dim, keepdim), amax(input, dim, keepdim))


# ---------------------------------------------------------------- covariance
def _check_weights(name, weights, n, floating):
    """Raises: ShapeError, DTypeError or ArgumentError for what does not weigh n observations."""
    if weights.ndim > 1 or weights._size != n:
        raise ShapeError(f"cov: {name} must have one element for each of the {n} observations, got shape {weights.shape}")
    if weights.dtype.is_floating_point is not floating or weights.dtype.code == 0:
        raise DTypeError(f"cov: {name} must be {'floating point' if floating else 'integers'}, got {weights.dtype}")
    extremes = known_range(weights) if not floating else None if not (n and core.host_sees(weights)) else [weights.amin().item()]
    if extremes and not extremes[0] >= 0:
        raise ArgumentError(f"cov: {name} must not be negative, got {extremes[0]}")


@composed(samples=(case((3, 5)), case((6,)), case((2, 4), correction=0), case((2, 4), fweights=None, aweights=None)), kinds="fi",
          numpy=lambda x, correction=1, fweights=None, aweights=None: np.cov(x, ddof=correction), rtol=2e-5)
def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Covariances of the rows of a matrix (variables), whose columns are observations; of a vector, its variance. `fweights` count how
    often each was observed, `aweights` say how much it weighs.

    Raises: ShapeError above rank 2; DTypeError for bool; ArgumentError for weights that add up to 0.

    >>> volta.cov(volta.tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 1.0]])).tolist()[0]
    [1.0, -1.0]
    """
    if input.dtype in HALVES:
        out = cov(cast(input, float32), correction=correction, fweights=fweights, aweights=aweights)
        return cast(out, input.dtype if aweights is None else result_type(input, aweights))
    if not input.dtype.is_floating_point and input.dtype.code and aweights is not None and aweights.dtype in HALVES:
        return cast(cov(input * 1.0, correction=correction, fweights=fweights, aweights=aweights), aweights.dtype)
    if input.ndim > 2:
        raise ShapeError(f"cov: needs at most 2 dimensions, got shape {input.shape}")
    if input.dtype.code == 0:
        raise DTypeError("cov: needs floating point or integer tensors, got bool; convert it with .float()")
    x = input if input.ndim == 2 else reshape_op(input, shape=(1, input._size))
    n, weight = x.shape[1], None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            _check_weights(name, given, n, name == "aweights")
            weight = given if weight is None else weight * given
    if not x.dtype.is_floating_point:
        x = x * 1.0
    if weight is None:
        centred, total = x - mean(x, 1, True), n - correction
        if total <= 0:
            _warn_of_freedom(n, correction)
        weighted, total = centred, float(max(total, 0))
    else:
        weight = reshape_op(weight, shape=(n,))         # in its own dtype, as in PyTorch, where float32 may weigh float64
        whole = sum(weight)
        if core.host_sees(whole) and not whole.item():
            raise ArgumentError("cov: the weights add up to 0; at least one observation needs a weight")
        centred = x - sum(x * weight, 1, True) / whole
        weighted = centred * weight
        if aweights is None or correction == 0:
            total = whole - correction
        else:
            total = whole - correction * sum(weight * reshape_op(aweights, shape=(n,))) / whole
        if core.host_sees(total) and total.item() <= 0:
            _warn_of_freedom(whole.item(), correction)
        total = clamp_min(total, 0.0)
    out = matmul(weighted, permute_op(centred, dims=(1, 0))) / total
    return reshape_op(out, shape=()) if out._size == 1 else out


def _warn_of_freedom(n, correction):
    warnings.warn(f"cov: degrees of freedom is <= 0: the correction should be less than the number of observations, got {correction} and "
                  f"{n}", stacklevel=3)


@composed(samples=(case((3, 5)), case((6,))), kinds="fi", numpy=np.corrcoef, rtol=2e-5, in_float32=True)
def corrcoef(input: Tensor) -> Tensor:
    """Correlation coefficients of the rows of a matrix (`cov`).

    Raises: ShapeError for a rank above 2.

    >>> volta.corrcoef(volta.tensor([[1.0, 2.0], [2.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if input.ndim > 2:
        raise ShapeError(f"corrcoef: needs at most 2 dimensions, got shape {input.shape}")
    covered = cov(input)
    if not covered.ndim:
        return covered / covered
    spread = sqrt(diagonal_op(covered, offset=0))
    n = spread.shape[0]
    return clamp_max(clamp_min(covered / reshape_op(spread, shape=(n, 1)) / spread, -1.0), 1.0)
