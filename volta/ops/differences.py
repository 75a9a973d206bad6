"""Differences of neighbours, derivatives from samples, and integrals by trapezoids."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase
from volta._kernels.core.direct import steps
from volta.dtypes import HALVES, bool_, float32, result_type, uint8
from volta.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError
from volta.ops.copy import clone
from volta.ops.join import cat
from volta.ops.parts import cut, narrow, select
from volta.ops.records.copy import cast
from volta.ops.records.math import logical_xor, sub_op
from volta.ops.records.scan import cumsum_op
from volta.ops.records.view import reshape_op
from volta.ops.reduce import sum
from volta.ops.table import case, composed
from volta.shapes import as_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor
    from volta.types import Number


def _steps(x, d):
    """What each element exceeds the one before it by."""
    if (found := steps(sub_op, x, d)) is not None:
        return found
    n = x.shape[d] - 1
    later, earlier = cut(x, d, ((1, n), (0, n)))
    return logical_xor(later, earlier) if x.dtype.code == 0 else later - earlier


@composed(out="cast", samples=(case((4, 5)), case((4, 5), n=2, dim=0), case((3,), n=7), case((2, 3), n=0)), kinds="fib",
          numpy=lambda x, n=1, dim=-1: np.diff(x, min(n, x.shape[dim]), dim))
def diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbours along `dim`, n times, of `prepend`, `input` and `append` in a row; of bool, whether they differ.

    Raises: ShapeError for a 0-d tensor, and for what does not fit before or behind it; ArgumentError for a negative n.

    >>> volta.diff(volta.tensor([1, 3, 6]), prepend=volta.tensor([0]))
    tensor([1, 2, 3])
    """
    if n == 0 and input.ndim:
        return clone(input)                                 # whatever the rest, as in PyTorch
    d = as_dim("diff", dim, input.ndim)
    if n == 1 and prepend is None and append is None and input.ndim and input._shape[d]:
        return _steps(input, d)
    given = [x for x in (prepend, input, append) if x is not None]
    if not input.ndim or any(x.ndim != input.ndim or x.shape[:d] + x.shape[d + 1:] != input.shape[:d] + input.shape[d + 1:] for x in given):
        raise ShapeError(f"diff: needs tensors of at least 1 dimension that agree outside dimension {d}, got {[x.shape for x in given]}")
    if n < 0:
        raise ArgumentError(f"diff: n must be >= 0, got {n}")
    out = cat(given, d) if len(given) > 1 else input
    if not out.shape[d]:
        return out
    if n >= out.shape[d]:
        return narrow(out, d, 0, 0)
    for _ in range(n):
        out = _steps(out, d)
    return out


# ---------------------------------------------------------------- derivatives
def _across(x, d, rank):
    """A vector along dimension d of a tensor of this rank."""
    return reshape_op(x, shape=tuple([x._size if i == d else 1 for i in range(rank)]))


def _slope(x, d, first, count, weights):
    """`count` results: three neighbours along d weighed, those of the first result from `first` on."""
    terms = [narrow(x, d, first + k, count) * weight for k, weight in enumerate(weights)]
    return terms[0] + terms[1] + terms[2]


def _derivative(x, spacing, d, edge_order):
    """Along d. IN: spacing, a number, or a vector of coordinates. Source: the formulas of second order of numpy.gradient."""
    n = x.shape[d]
    equal = not isinstance(spacing, TensorBase)
    steps = None if equal else _across(_steps(spacing, 0), d, x.ndim) / 1

    def step(first, count=1):
        return 1.0 if equal else narrow(steps, d, first, count)
    a, b = step(0, n - 2), step(1, n - 2)
    if equal:                               # of steps of 1, divided by the spacing at the end, which may be 0
        inner = (narrow(x, d, 2, n - 2) - narrow(x, d, 0, n - 2)) / 2
    else:
        inner = _slope(x, d, 0, n - 2, (-b / (a * (a + b)), (b - a) / (a * b), a / (b * (a + b))))
    if edge_order == 1:
        first, last = ((narrow(x, d, i + 1, 1) - narrow(x, d, i, 1)) / step(i) for i in (0, n - 2))
    else:
        a, b = step(0), step(1)
        first = _slope(x, d, 0, 1, (-(2 * a + b) / (a * (a + b)), (a + b) / (a * b), -a / (b * (a + b))))
        a, b = step(n - 3), step(n - 2)
        last = _slope(x, d, n - 3, 1, (b / (a * (a + b)), -(a + b) / (a * b), (2 * b + a) / (b * (a + b))))
    out = cat([first, inner, last], d)
    return out / float(spacing) if equal else out


def _spacings(spacing, dims):
    """One for each of the dimensions: a number or a vector of coordinates."""
    if isinstance(spacing, TensorBase) and not spacing.ndim:
        spacing = spacing.item()
    found = [spacing] * len(dims) if isinstance(spacing, (int, float)) else list(spacing)
    if len(found) != len(dims):
        raise ArgumentError(f"gradient: spacing must be a number or one entry for each of the {len(dims)} dimensions, got {len(found)}")
    return found


def _np_gradient(x, spacing=1, dim=None, edge_order=1):
    given = [spacing] if isinstance(spacing, (int, float)) else spacing
    out = np.gradient(x, *given, axis=dim, edge_order=edge_order)
    return tuple(out) if isinstance(out, (list, tuple)) else (out,)


@composed(samples=(case((5,)), case((4, 5), spacing=2.0), case((4, 5), spacing=(1.5, 0.5), edge_order=2), case((3, 4), dim=1)), kinds="f",
          method=False, numpy=_np_gradient, rtol=2e-5)
def gradient(input: Tensor, *, spacing: float | Sequence[float] | Sequence[Tensor] | None = 1, dim: int | Sequence[int] | None = None,
             edge_order: int = 1) -> tuple[Tensor, ...]:
    """Derivatives along the dimensions `dim`, or all, from samples at distances `spacing`: a number, one for each dimension, or vectors of
    coordinates. Central differences inside; at the ends such of the order `edge_order`, 1 or 2.

    Raises: ShapeError below edge_order + 1 samples, and where coordinates do not fit; DTypeError for uint8 and bool; ArgumentError for
    another `edge_order`, or a dimension that is named twice.

    >>> volta.gradient(volta.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    dims = range(input.ndim) if dim is None else [dim] if hasattr(dim, "__index__") else dim
    dims = [as_dim("gradient", d, input.ndim) for d in dims]
    if len(set(dims)) < len(dims):
        raise ArgumentError(f"gradient: dim {tuple(dims)} names a dimension twice")
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    if input.dtype in (bool_, uint8):
        raise DTypeError(f"gradient: needs floating point or signed integer tensors, got {input.dtype}; convert it with .float()")
    found = _spacings(1 if spacing is None else spacing, dims)
    for d, step in zip(dims, found):
        if input.shape[d] <= edge_order or isinstance(step, TensorBase) and step.shape != input.shape[d:d + 1]:
            raise ShapeError(f"gradient: needs {edge_order + 1} samples along dimension {d} of shape {input.shape}, and as many "
                             f"coordinates as samples where they are given")
    return tuple([_derivative(input, step, d, edge_order) for d, step in zip(dims, found)])


# ---------------------------------------------------------------- integrals
def _trapezoids(name, y, x, dx, dim, add):
    """What `add(areas, dimension)` makes of the areas between neighbouring samples; of float16 and bfloat16 in float32, rounded once."""
    if not y.ndim:
        raise IndexRangeError(f"{name}: dim {dim} of a 0-d tensor, which has no dimensions")
    d, dtype = as_dim(name, dim, y.ndim), y.dtype if x is None else result_type(y, x)
    n = y.shape[d]
    if not n and add is sum:
        return cast(sum(y.detach(), d), y.dtype)            # zeros, as in PyTorch without a gradient
    if y.dtype.code == 0 or x is not None and x.dtype.code == 0:
        raise DTypeError(f"{name}: needs floating point or integer tensors, got bool; convert it with .float()")
    y = cast(y, float32) if dtype in HALVES and y.dtype.is_floating_point else y      # integers wrap first, as in PyTorch
    if n and x is not None:
        if x.ndim < 1 or x.ndim == 1 and x.shape[0] != n:
            raise ShapeError(f"{name}: x must be a vector of {n} elements or broadcast with y {y.shape}, got {x.shape}")
        if 1 < x.ndim < y.ndim:
            x = reshape_op(x, shape=(1,) * (y.ndim - x.ndim) + x.shape)
        dx = _steps(x, d) if x.ndim > 1 else _across(_steps(x, 0), d, y.ndim)
    if not n and x is not None and x.ndim:
        at = as_dim(name, dim, x.ndim) if x.ndim > 1 else 0
        if x.shape[at] > 1:
            raise ShapeError(f"{name}: x must have as many places along dimension {dim} as y {y.shape}, got {x.shape}")
        x = narrow(x, at, 0, 0)
        y = y * (x if x.ndim > 1 else _across(x, d, y.ndim))
    if n and x is None and add is sum:          # of equal steps, only the ends count half
        out = (sum(y, d) - (select(y, d, 0) + select(y, d, n - 1)) * 0.5) * dx
    else:
        both = narrow(y, d, 1, n - 1) + narrow(y, d, 0, n - 1) if n else y
        out = add((cast(both, float32) if dtype in HALVES else both) * dx / 2 if n else y if add is sum else y / 2, d)
    return cast(out, dtype) if dtype in HALVES else out


_SAMPLES = (case((4, 5)), case((4, 5), dim=0, dx=0.5), case((4, 5), (5,)), case((2, 3), (2, 3), dim=0), case((2, 3), (1, 3)), case((1,)))


def _np_trapezoid(y, x=None, dx=1, dim=-1):
    return np.trapezoid(y, x, dx, dim)


@composed(samples=_SAMPLES, method=False, aliases=("trapz",), numpy=_np_trapezoid)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number = 1, dim: int = -1) -> Tensor:
    """The integral of samples y along `dim` by trapezoids, at the places x or `dx` apart.

    >>> volta.trapezoid(volta.tensor([1.0, 2.0, 4.0]))
    tensor(4.5000)
    """
    return _trapezoids("trapezoid", y, x, dx, dim, sum)


def _np_cumulative(y, x=None, dx=1, dim=-1):
    widths = dx if x is None else np.diff(x, axis=dim if x.ndim > 1 else 0)
    pairs = (np.delete(y, 0, dim) + np.delete(y, -1, dim)) / 2
    return np.cumsum(pairs * widths, dim)


@composed(samples=_SAMPLES, method=False, numpy=_np_cumulative)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number = 1, dim: int = -1) -> Tensor:
    """`trapezoid` from the first sample to each following one.

    >>> volta.cumulative_trapezoid(volta.tensor([1.0, 2.0, 4.0]))
    tensor([1.5000, 4.5000])
    """
    return _trapezoids("cumulative_trapezoid", y, x, dx, dim, lambda areas, d: cumsum_op(areas, dim=d))
