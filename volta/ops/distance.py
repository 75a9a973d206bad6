"""Distances and similarities of vectors."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta.dtypes import HALVES, float32, promote_types
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.copy import cast, promoted
from volta.ops.join import cat
from volta.ops.linalg import matmul
from volta.ops.norms import norm
from volta.ops.parts import split
from volta.ops.records.chain import fused
from volta.ops.records.distance import distances_op, pairs_of
from volta.ops.records.index import index_select_op
from volta.ops.records.math import abs, ceil, clamp_max, clamp_min, positive_part, reciprocal
from volta.ops.records.reduce import sum_op
from volta.ops.records.unit import unit_op
from volta.ops.records.view import expand_op, reshape_op
from volta.ops.reduce import amax, root, sum
from volta.ops.table import case, composed
from volta.ops.view import broadcast_tensors, transpose, unsqueeze
from volta.shapes import as_dim, broadcast_shapes

if TYPE_CHECKING:
    from volta.tensor import Tensor

BLOCK = 1 << 19                     # differences of rows that are made at a time
PAIRED = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def _np_cosine(x1, x2, dim=1, eps=1e-8):
    sizes = [np.maximum(np.sqrt((x * x).sum(dim, keepdims=True)), eps) for x in np.broadcast_arrays(x1, x2)]
    return (x1 / sizes[0] * (x2 / sizes[1])).sum(dim)


@composed(samples=(case((3, 4), (3, 4)), case((2, 1, 4), (3, 4), dim=-1), case((5,), (5,), dim=0)), numpy=_np_cosine, method=False)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """The cosine of the angle between vectors along `dim`: x1 . x2 / (max(|x1|, eps) max(|x2|, eps)); the two broadcast.

    Raises: DTypeError unless a tensor is floating point; ArgumentError for a negative `eps`.

    >>> volta.cosine_similarity(volta.tensor([[3.0, 4.0]]), volta.tensor([[6.0, 8.0]]))
    tensor([1.])
    """
    common = promote_types(x1.dtype, x2.dtype)              # of the dtypes alone, also beside a tensor without dimensions
    if not common.is_floating_point:
        raise DTypeError(f"cosine_similarity: needs floating point tensors, got {x1.dtype}; convert them with .float()")
    if not eps >= 0:
        raise ArgumentError(f"cosine_similarity: eps must not be negative, got {eps}")
    wide = float32 if common in HALVES else common
    return cast(_cosine(cast(x1, wide), cast(x2, wide), dim, eps), common)


def _cosine(x1, x2, dim, eps):
    if x1._shape != x2._shape:
        x1, x2 = broadcast_tensors(x1, x2)
    if not x1.ndim or x1._shape[as_dim("cosine_similarity", dim, x1.ndim)] == 1:        # a norm of one element does not overflow
        x1, x2 = (x * reciprocal(clamp_min(norm(x, 2, dim, True), eps)) for x in (x1, x2))
        return sum(x1 * x2, dim)
    along = as_dim("cosine_similarity", dim, x1.ndim)
    x1, x2 = (unit_op(x, dim=along, eps=eps)[0] for x in (x1, x2))
    return sum_op(x1 * x2, dim=(along,), keepdim=False)


@composed(samples=(case((3, 4), (3, 4)), case((4,), (3, 4), p=1.0, keepdim=True), case((3, 4), (3, 4), p=math.inf)), method=False,
          numpy=lambda x1, x2, p=2.0, eps=1e-6, keepdim=False: np.linalg.norm(x1 - x2 + eps, p, -1, keepdim))
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension.

    Raises: DTypeError for bool.

    >>> volta.pairwise_distance(volta.zeros(1, 2), volta.tensor([[3.0, 4.0]]), eps=0)
    tensor([5.])
    """
    if x1.dtype.code == 0 or x2.dtype.code == 0:
        raise DTypeError("pairwise_distance: needs floating point or integer tensors, got bool; convert it with .float()")
    return _pairwise(x1, x2, p, eps, keepdim)


@promoted
def _pairwise(x1: Tensor, x2: Tensor, p: float, eps: float, keepdim: bool):
    return norm(fused(_apart_by, x1, x2, eps), p, -1, keepdim)


def _apart_by(x1, x2, eps):
    return x1 - x2 + eps


def _np_cdist(x1, x2, p=2.0, compute_mode=PAIRED[0]):
    return np.linalg.norm(x1[..., :, None, :] - x2[..., None, :, :], p, -1)


@composed(samples=(case((3, 4), (5, 4)), case((2, 3, 4), (1, 2, 4), p=1.0), case((3, 4), (2, 4), p=math.inf)), numpy=_np_cdist,
          method=False, in_float32=True, takes={"x1": "f", "x2": "=x1"})
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = PAIRED[0]) -> Tensor:
    """The p-norm distance between each row of `x1` and each of `x2`, where it is 0 with the gradient 0. Of more than 25 rows, the
    Euclidean one comes from a matrix product, which is less exact for near rows, unless `compute_mode` says otherwise.

    Shape: (..., P, M) and (..., R, M) -> (..., P, R).
    Raises: ShapeError for other shapes; ArgumentError for a `p` that is negative or NaN, and another `compute_mode`.

    >>> volta.cdist(volta.zeros(1, 2), volta.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(f"cdist: needs (..., P, M) and (..., R, M), got shapes {x1.shape} and {x2.shape}")
    if compute_mode not in PAIRED:
        raise ArgumentError(f"cdist: compute_mode must be one of {', '.join(PAIRED)}, got {compute_mode!r}")
    if not p >= 0:
        raise ArgumentError(f"cdist: p must be >= 0, got {p}")
    many = max(x1.shape[-2], x2.shape[-2]) > 25
    if p == 2 and (compute_mode == PAIRED[1] or compute_mode == PAIRED[0] and many) and not _better_apart(x1, x2):
        squares = unsqueeze(sum(x1 * x1, -1), -1) + unsqueeze(sum(x2 * x2, -1), -2) - 2.0 * matmul(x1, transpose(x2, -1, -2))
        return root(clamp_min(squares, 0.0), 0.5)
    if len(x1._shape) == len(x2._shape) == 2 and x1._contiguous and x2._contiguous and p in (0, 1, 2, math.inf) and (
            x1._size and x2._size and bare(x1, x2)):
        first, second = core.reshaped(x1, (1, *x1._shape)), core.reshaped(x2, (1, *x2._shape))
        return core.reshaped(run_kernel(distances_op, x1.device, (first, second), {"p": float(p)}), (x1._shape[0], x2._shape[0]))
    if not _has_kernel(x1, p, max(math.prod(x1._shape[:-1]) * x2._shape[-2], x1._shape[-2] * math.prod(x2._shape[:-1]))):
        rows = max(BLOCK // max(math.prod(x1.shape[:-2]) * x2.shape[-2] * x2.shape[-1], 1), 1)      # whose differences stay in caches
        if x1.shape[-2] <= rows or not core.host_sees(x1):
            return _apart(x1, x2, p)
        return cat([_apart(block, x2, p) for block in split(x1, rows, -2)], -2)
    a, b = x1._shape, x2._shape
    lead = a[:-2] if a[:-2] == b[:-2] else broadcast_shapes(a[:-2], b[:-2])
    first, second = [reshape_op(x if x._shape[:-2] == lead else expand_op(x, shape=lead + x._shape[-2:]),
                                shape=(math.prod(lead), *x._shape[-2:])) for x in (x1, x2)]
    return reshape_op(distances_op(first, second, p=float(p)), shape=(*lead, x1.shape[-2], x2.shape[-2]))


NARROW = 32                         # elements of rows up to which their differences take less time than what a product leaves to be done
FEW = 512                           # differences up to which the calls take most of the time


def _better_apart(x1, x2):
    """Whether Euclidean distances are taken from differences, which is more exact too: not where a row is not finite, of which products
    make NaN."""
    if x1.shape[-1] > NARROW or not (core.host_sees(x1) and core.host_sees(x2)):
        return False
    if graph.wants_derivative(x1) or graph.wants_derivative(x2):
        return False
    return bool(np.isfinite(x1.detach().numpy()).all() and np.isfinite(x2.detach().numpy()).all())


def _has_kernel(x, p, pairs):
    """Whether distances are not made of simpler operations: so they are in what is traced, and on a CPU of powers that take most of the
    time, where `pow` has ways of its own for some."""
    return x.device.is_gpu or core.host_sees(x) and (p in (0, 1, 2, math.inf) or pairs * x.shape[-1] <= FEW and x.shape[-1] > 0)


def _apart(x1, x2, p):
    way = unsqueeze(x1, -2) - unsqueeze(x2, -3)
    return amax(positive_part(abs(way)), -1) if p == math.inf and way.shape[-1] else _length(way, p)


def _length(x, p):
    """`norm` over the last dimension, but NaN of p 0 where there is a NaN, and 0 of no elements for every p."""
    if p == 0:
        return sum(clamp_max(ceil(abs(x)), 1.0), -1)
    return norm(x, p if x.shape[-1] else 1, -1)


@composed(samples=(case((4, 3)), case((3, 2), p=1.0), case((1, 3))), method=False, in_float32=True,
          numpy=lambda x, p=2.0: _np_cdist(x, x, p)[np.triu_indices(len(x), 1)])
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances between the rows of a matrix, each pair once: (0, 1), (0, 2), ..., (1, 2), ... Shape: (N, M) -> (N(N-1)/2,).

    Raises: ShapeError for another rank; ArgumentError for a `p` that is negative or NaN.

    >>> volta.pdist(volta.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    if input.ndim != 2:
        raise ShapeError(f"pdist: needs a matrix, got shape {input.shape}")
    if not p >= 0:
        raise ArgumentError(f"pdist: p must be >= 0, got {p}")
    n, m = input._shape
    if _has_kernel(input, p, n * n):
        pairs = (n * (n - 1) // 2,)
        if bare(input) and input._contiguous:
            return core.reshaped(run_kernel(distances_op, input.device, (core.reshaped(input, (1, n, m)), None), {"p": float(p)}), pairs)
        return reshape_op(distances_op(reshape_op(input, shape=(1, n, m)), None, p=float(p)), shape=pairs)
    rows = reshape_op(input, shape=(1, n, m))
    first, second = pairs_of(rows)
    return _length(index_select_op(input, first, dim=0) - index_select_op(input, second, dim=0), p)
