"""Norms of vectors and matrices, and what is measured or limited by them."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase, graph
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta.device import beyond_gpu
from volta.dtypes import HALVES, as_dtype, float32, float64, promote_types
from volta.errors import ArgumentError, DeviceError, DTypeError, IndexRangeError, ShapeError, warn_once
from volta.ops.copy import widened
from volta.ops.math import where
from volta.ops.records.chain import fused
from volta.ops.records.copy import cast
from volta.ops.records.decomposition import svd_op
from volta.ops.records.math import add_op, div_op, floor, gt, mul, where_op
from volta.ops.records.reduce import amax_op, norm2_op, sum_op
from volta.ops.records.view import permute_op, reshape_op, row_major, uncounted_op
from volta.ops.reduce import amax, amin, power_but_of_zero, root, shared_extreme, sum
from volta.ops.table import case, composed
from volta.shapes import as_dim, as_dims, reduced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor
    from volta.types import DTypeLike


def _np_norm(x, p="fro", dim=None, keepdim=False):
    p, x = 2 if p == "fro" else p, np.abs(x)
    if p in (0, math.inf):
        return (x ** p).sum(axis=dim, keepdims=keepdim) if p == 0 else x.max(axis=dim, keepdims=keepdim)
    return (x ** p).sum(axis=dim, keepdims=keepdim) ** (1 / p)


@composed(samples=(case((3, 4)), case((3, 4), p=1, dim=1), case((2, 3, 4), p=3.0, dim=(0, -1), keepdim=True), case((3, 4), p=math.inf),
                   case((3, 4), p=0, dim=0), case((3, 4), p=0.5), case(()), case((0, 3), dim=0)), numpy=_np_norm, domain=(0.3, 2.0))
def norm(input: Tensor, p: float | str | None = "fro", dim: int | Sequence[int] | None = None, keepdim: bool = False, *,
         dtype: DTypeLike = None) -> Tensor:
    """p-norm of the elements over `dim`: a number, infinity, -infinity, "fro" (2), or of matrices "nuc". Where it is 0, so is its gradient.

    Raises: ArgumentError for another p; DTypeError for integers.

    >>> volta.tensor([3.0, 4.0]).norm()
    tensor(5.)
    """
    return _checked(input, p, dim, keepdim, dtype)


def _checked(input, p, dim, keepdim, dtype):
    if p == "nuc":
        return matrix_norm(input, p, as_dims("norm", dim, input.ndim), keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise ArgumentError(f"norm: p must be a number, 'fro' or 'nuc', got {p!r}")
    input = _into("norm", input, dtype)
    if input.dtype not in HALVES:
        return _norm(input, p, dim, keepdim)
    if p in ("fro", None, 2) and input.ndim and bare(input) and not _alone(input, dim):
        return run_kernel(norm2_op, input.device, (input,), {"dim": as_dims("norm", dim, input.ndim), "keepdim": keepdim})
    return widened(_norm, (input, p, dim, keepdim), {})


def _into(name, input, dtype):
    """The input in the dtype to compute in, which holds all of it."""
    dtype = input.dtype if dtype is None else as_dtype(dtype)
    if not (input.dtype.is_floating_point and dtype.is_floating_point):
        raise DTypeError(f"{name}: needs a floating point tensor and dtype, got {input.dtype} and {dtype}; convert it with .float()")
    if dtype is input.dtype:
        return input
    if promote_types(input.dtype, dtype) is not dtype:
        raise DTypeError(f"{name}: {dtype} does not hold what {input.dtype} does; convert the tensor with .to({dtype})")
    return cast(input, dtype)


def _alone(input, dim):
    """Whether each norm is that of one element."""
    if dim is None or input._size == 1:
        return input._size == 1
    if type(dim) is int and -input.ndim <= dim:
        return input._shape[dim] == 1
    for d in as_dims("norm", dim, input.ndim):
        if input._shape[d] != 1:
            return False
    return True


def _norm(input, p, dim, keepdim):
    found = _powers(input, p, dim, keepdim)
    if not _alone(input, dim) or p in (0, 1, math.inf, -math.inf):
        return found
    size = sum(abs(input), dim, keepdim)                # of which powers may overflow or be 0
    return where_op(size < math.inf, size, found)


def _powers(input, p, dim, keepdim):
    if p in ("fro", None, 2) and input.ndim:
        return norm2_op(input, dim=as_dims("norm", dim, input.ndim), keepdim=keepdim)
    if p in ("fro", None, 2):
        return root(sum(input * input, dim, keepdim), 0.5)
    if p == 1:
        return _sum(abs(input), dim, keepdim)
    if p in (math.inf, -math.inf):
        return shared_extreme("norm", p > 0, abs(input), dim, keepdim)
    if p == 0:                                          # in the graph, but without a gradient
        input = uncounted_op(input)
        return sum(floor(where_op(input == 0, abs(input), 1.0)), dim, keepdim)
    if p < 0 and 0 in [input.shape[d] for d in as_dims("norm", dim, input.ndim)]:
        raise IndexRangeError(f"norm: there is no {p}-norm of no elements, got shape {input.shape}")
    if p > 1:
        return root(_sum(fused(_power, input, p), dim, keepdim), 1.0 / p)
    powers = fused(_power_but_of_zero, input, p, flags={"of_zero": 0.0 if p > 0 else math.inf})
    return root(_sum(powers, dim, keepdim), 1.0 / p)


def _power(x, p):
    return abs(x) ** p


def _power_but_of_zero(x, p, *, of_zero):
    return power_but_of_zero(abs(x), p, of_zero=of_zero)


def _sum(x, dim, keepdim):
    """`sum` of floating point numbers."""
    return sum_op(x, dim=as_dims("norm", dim, len(x._shape)), keepdim=keepdim) if x._shape else sum(x, dim, keepdim)


# ---------------------------------------------------------------- torch.linalg
@composed(name="linalg.vector_norm", function=False, method=False, domain=(0.3, 2.0),
          samples=(case((3, 4)), case((3, 4), 1, dim=1), case((2, 3, 4), ord=3.0, dim=(0, -1), keepdim=True), case((3, 4), ord=math.inf)),
          numpy=lambda x, ord=2, dim=None, keepdim=False: _np_norm(x, ord, dim, keepdim))
def vector_norm(x: Tensor, ord: float = 2, dim: int | Sequence[int] | None = None, keepdim: bool = False, *,
                dtype: DTypeLike = None) -> Tensor:
    """The norm of order `ord` of the elements over `dim`: (sum of |x| ** ord) ** (1 / ord), for infinity the largest, for -infinity the
    smallest, for 0 how many are not 0.

    Raises: DTypeError for integers; ArgumentError for an `ord` that is no number.

    >>> volta.linalg.vector_norm(volta.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if isinstance(ord, str):
        raise ArgumentError(f"vector_norm: ord must be a number, got {ord!r}")
    if not x.dtype.is_floating_point:
        raise DTypeError(f"vector_norm: needs a floating point tensor, got {x.dtype}; convert it with .float()")
    return _checked(x, ord, dim, keepdim, dtype)


def _singular(name, ord, A):
    """The singular values of matrices."""
    if A.dtype in HALVES:
        raise DTypeError(f"{name}: ord={ord!r} takes float32 and float64, got {A.dtype}; convert it with .float()")
    if A.device.is_gpu:
        beyond_gpu(DeviceError(f"{name}: ord={ord!r} needs singular values, which are computed on the CPU alone; use A.cpu()"),
                   "Computed there, and copied back.")
        return _singular(name, ord, A.cpu()).to(A.device)
    return svd_op(A, full_matrices=False, vectors=graph.wants_derivative(A))[1]


def _np_matrix_norm(x, ord="fro", dim=(-2, -1), keepdim=False):
    return np.linalg.norm(x, ord, dim, keepdim)


@composed(name="linalg.matrix_norm", function=False, method=False, numpy=_np_matrix_norm,
          samples=(case((3, 4)), case((2, 3, 4), 1), case((2, 3, 4), ord=-1, dim=(0, 2), keepdim=True), case((3, 4), ord=math.inf),
                   case((3, 4), ord=-math.inf)))
def matrix_norm(A: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *,
                dtype: DTypeLike = None) -> Tensor:
    """The norm of the matrices in the two dimensions `dim`: "fro", "nuc", or the largest (smallest for negative `ord`) sum of |A| over
    columns (1), over rows (inf), or singular value (2).

    Raises: DTypeError for integers; ArgumentError for another `ord`; ShapeError below 2 dimensions; DeviceError on a GPU for 2, -2 and
    "nuc", which need singular values.

    >>> volta.linalg.matrix_norm(volta.tensor([[1.0, -2.0], [3.0, 4.0]]), 1)
    tensor(6.)
    """
    if isinstance(ord, TensorBase):
        ord = ord.item()
    if ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ArgumentError(f"matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}")
    rank, own = len(A._shape), A.dtype is float32 or A.dtype is float64
    if own and dtype is None and rank > 1 and dim == (-2, -1) and A._size > 1:
        if ord == "fro":
            return norm2_op(A, dim=(rank - 2, rank - 1), keepdim=keepdim)
        if ord in (1, math.inf) and not keepdim:
            return amax_op(sum_op(abs(A), dim=(rank - 1 - (ord == 1),), keepdim=False), dim=(rank - 2,), keepdim=False)
    if len(dim) != 2 or A.ndim < 2:
        raise ShapeError(f"matrix_norm: needs a tensor of at least 2 dimensions and two of these, got shape {A.shape} and dim {dim}")
    if not A.dtype.is_floating_point:
        raise DTypeError(f"matrix_norm: needs a floating point tensor, got {A.dtype}; convert it with .float()")
    if ord == "fro":
        return _checked(A, 2, dim, keepdim, dtype)
    A = _into("matrix_norm", A, dtype)
    rows, columns = (as_dim("matrix_norm", d, A.ndim) for d in dim)
    as_dims("matrix_norm", (rows, columns), A.ndim)
    if ord in ("nuc", 2, -2):
        values = _singular("matrix_norm", ord, permute_op(A, dims=(*[d for d in range(A.ndim) if d not in (rows, columns)], rows, columns)))
        extreme = sum if ord == "nuc" else amin if ord < 0 else amax
        out = extreme(values, -1) if values.shape[-1] or ord != 2 else sum(values, -1).detach()
    else:
        first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = sum(abs(A), first, True)                 # of no sums the largest is 0
        out = amin(sums, second, True) if ord < 0 else amax(sums, second, True) if A.shape[second] else sum(sums, second, True).detach()
    return reshape_op(out, shape=reduced(A.shape, (rows, columns), keepdim))


@composed(name="linalg.norm", function=False, method=False, domain=(0.3, 2.0),
          samples=(case((3, 4)), case((3, 4), 1), case((5,), ord=3), case((3, 4), ord=2, dim=1), case((2, 3, 4), ord="fro", dim=(0, 2))),
          numpy=lambda x, ord=None, dim=None, keepdim=False: np.linalg.norm(x, ord, dim, keepdim))
def linalg_norm(A: Tensor, ord: float | str | None = None, dim: int | Sequence[int] | None = None, keepdim: bool = False, *,
                dtype: DTypeLike = None) -> Tensor:
    """`vector_norm` of a vector, over one dimension, or without `ord` of all elements; else `matrix_norm`.

    Raises: ShapeError where `ord` without `dim` is given for more than 2 dimensions, and for a `dim` of none or more than two.

    >>> volta.linalg.norm(volta.tensor([[3.0, 4.0]]))
    tensor(5.)
    """
    if type(dim) in (tuple, list) and len(dim) not in (1, 2):
        raise ShapeError(f"linalg.norm: dim must name one dimension or two, got {list(dim)}; of several, write linalg.vector_norm")
    if ord is None:
        return _norm(A, 2, dim, keepdim) if dtype is None and A.dtype is float32 else vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None and A.ndim not in (1, 2):
        raise ShapeError(f"norm: with ord but without dim the tensor must have 1 or 2 dimensions, got shape {A.shape}")
    single = A.ndim == 1 if dim is None else hasattr(dim, "__index__") or len(dim) == 1
    if single:
        return vector_norm(A, ord, dim, keepdim, dtype=dtype)
    return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)


# ---------------------------------------------------------------- measured by norms
@composed(samples=(case((3, 4), (3, 4)), case((3, 4), (4,), p=1), case((3,), (3,), p=math.inf)), takes={"input": "fi"},
          numpy=lambda x, y, p=2: _np_norm(x - y, p))
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other.

    >>> volta.dist(volta.tensor([1.0, 2.0]), volta.tensor([4.0, 6.0]))
    tensor(5.)
    """
    return norm(input - other, p)


@composed(samples=(case((2, 3), dim=1), case((2, 3, 4), dim=(0, 2), keepdim=True)), domain=(0.3, 2.0), method=False,
          numpy=lambda x, dim, keepdim=False: np.sqrt((x * x).sum(axis=dim, keepdims=keepdim)))
def frobenius_norm(input: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """The 2-norm over one or two dimensions; of none, over all.

    Raises: ShapeError for more dimensions.

    >>> volta.frobenius_norm(volta.tensor([[3.0, 4.0]]), 1)
    tensor([5.])
    """
    warn_once("frobenius_norm is deprecated; write linalg.vector_norm(x, 2.0, dim, keepdim)")
    dims = (dim,) if hasattr(dim, "__index__") else tuple(dim)
    if len(dims) > 2:
        raise ShapeError(f"frobenius_norm: takes at most 2 dimensions, got {len(dims)}")
    return norm(input, 2.0, dims or None, keepdim)


@composed(samples=(case((2, 3)), case((2, 3, 4), dim=(0, 2))), method=False, cpu_only=True, rtol=1e-4, smooth=False,
          numpy=lambda x, dim=(0, 1), keepdim=False: np.linalg.norm(x, "nuc", dim, keepdim))
def nuclear_norm(input: Tensor, dim: Sequence[int] = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of the singular values of the matrices in two dimensions, on the CPU.

    >>> volta.nuclear_norm(volta.eye(3))
    tensor(3.)
    """
    warn_once("nuclear_norm is deprecated; write linalg.matrix_norm(x, 'nuc', dim, keepdim)")
    return norm(input, "nuc", (-2, -1) if isinstance(dim, bool) else tuple(dim), dim if isinstance(dim, bool) else keepdim)


@composed(samples=(case((2, 3, 4)), case((2, 3, 4), 2, 1), case((2, 3), 1, -1)), domain=(0.3, 2.0), method=False,
          numpy=lambda v, pow=2, dim=0: (lambda axes: (np.abs(v) ** pow).sum(axes, keepdims=dim != -1) ** (1 / pow))(
              tuple(d for d in range(v.ndim) if d != dim)))
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but one, which are kept with size 1; with -1 over all.

    Raises: IndexRangeError for a 0-d tensor.

    >>> volta.norm_except_dim(volta.tensor([[3.0, 4.0], [0.0, 1.0]])).flatten()
    tensor([5., 1.])
    """
    if dim == -1:
        return norm(v, float(pow))
    if not v.ndim:
        raise IndexRangeError("norm_except_dim: a tensor without dimensions has none to keep")
    d = as_dim("norm_except_dim", dim, v.ndim)
    if v.ndim == 1:
        return norm(reshape_op(v, shape=(v._size, 1)), float(pow), 1)
    return norm(v, float(pow), tuple(i for i in range(v.ndim) if i != d), True)


def shortened(x, length, most):
    """Those scaled to this length whose own is above it."""
    return x * where_op(length > most, most / (length + 1e-7), 1.0)


def _longer(x, length, most):
    return where_op(length > most, x, 0.0)


def _limited(x, p, over, most):
    """`renorm` of what nobody records or watches, by the kernels alone."""
    device = x.device
    if p == 2 and not _alone(x, over):
        sizes = run_kernel(norm2_op, device, (x,), {"dim": over, "keepdim": True})
    else:
        sizes = _norm(x, p, over, True)
    factors = run_kernel(div_op, device, (most, run_kernel(add_op, device, (sizes, 1e-7))))
    factors = run_kernel(where_op, device, (run_kernel(gt, device, (sizes, most)), factors, 1.0))
    return run_kernel(mul, device, (row_major(x), factors))


def _np_renorm(x, p, dim, maxnorm):
    sizes = _np_norm(x, p, tuple(d for d in range(x.ndim) if d != dim), True)
    return np.where(sizes > maxnorm, x * (maxnorm / (sizes + 1e-7)), x)


@composed(samples=(case((3, 4), 2, 0, 1.0), case((2, 3, 4), p=1, dim=1, maxnorm=20.0)), inplace=True, in_float32=True, takes={"input": "f"},
          numpy=_np_renorm)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Each slice along `dim` whose p-norm is above `maxnorm` scaled down to it.

    Raises: ShapeError below rank 2; ArgumentError for p <= 0 or maxnorm < 0.

    >>> volta.renorm(volta.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if input.ndim < 2:
        raise ShapeError(f"renorm: needs at least 2 dimensions, got shape {input.shape}")
    p, maxnorm = (x.item() if isinstance(x, TensorBase) else x for x in (p, maxnorm))
    if not p > 0 or not maxnorm >= 0:
        raise ArgumentError(f"renorm: p must be above 0 and maxnorm at least 0, got {p} and {maxnorm}")
    d = as_dim("renorm", dim, input.ndim)
    over = tuple([i for i in range(input.ndim) if i != d])
    if bare(input):
        return _limited(input, p, over, maxnorm)
    sizes = norm(input.detach(), p, over, True)
    if graph.wants_derivative(input):          # a slice that is not scaled has no part in the derivative of the norms: it may hold NaN
        sizes = where(sizes > maxnorm, norm(fused(_longer, input, sizes, maxnorm), p, over, True), 0.0)
    return fused(shortened, row_major(input), sizes, maxnorm)
