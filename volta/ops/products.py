"""Products of vectors and of several matrices: Kronecker and cross products, powers, chains in their best order; Vandermonde matrices."""
from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core.direct import bare
from volta.dtypes import bool_, int64
from volta.errors import ArgumentError, RankError, ShapeError, warn_once
from volta.ops.creation import eye, ones
from volta.ops.inverse import inverse, square
from volta.ops.join import cat
from volta.ops.linalg import matmul
from volta.ops.parts import diagonal
from volta.ops.records.copy import cast
from volta.ops.records.linalg import cross_op, matmul_op
from volta.ops.records.math import where_op
from volta.ops.records.view import contiguous_op, expand_op, reshape_op, row_major
from volta.ops.reduce import sum
from volta.ops.scan import cumprod
from volta.ops.table import Many, case, composed
from volta.ops.view import unsqueeze
from volta.shapes import as_dim, broadcast_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor


@composed(out="cast", samples=(case((2, 3), (4, 1)), case((3,), (2, 2)), case((), (2, 3)), case((2, 0), (1, 3))), kinds="fi", numpy=np.kron)
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product: every element of `input` times all of `other`, as blocks. The one of lower rank gets leading dimensions of size 1.

    >>> volta.kron(volta.eye(2), volta.tensor([[1.0, 2.0]]))
    tensor([[1., 2., 0., 0.],
            [0., 0., 1., 2.]])
    """
    a, b = input._shape, other._shape
    rank = len(a)
    if rank != len(b):
        rank = max(rank, len(b))
        a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if rank == 2:                               # most are, and a comprehension takes as long as a view
        (m, n), (p, q) = a, b
        if input._contiguous and other._contiguous and bare(input, other):
            return core.reshaped(core.reshaped(input, (m, 1, n, 1)) * core.reshaped(other, (p, 1, q)), (m * p, n * q))
        blocks = reshape_op(input, shape=(m, 1, n, 1)) * reshape_op(other, shape=(p, 1, q))
        return reshape_op(blocks, shape=(m * p, n * q))
    blocks = reshape_op(input, shape=tuple([n for size in a for n in (size, 1)])) * reshape_op(
        other, shape=tuple([n for size in b for n in (1, size)]))
    return reshape_op(blocks, shape=tuple([m * n for m, n in zip(a, b)]))


def _cross(name, input, other, dim):
    if input._shape[dim:dim + 1] != (3,) or other._shape[dim:dim + 1] != (3,):
        raise RankError(f"{name}: dimension {dim} must have size 3 in both, got {input.shape} and {other.shape}")
    if input._shape == other._shape:
        return cross_op(input, other, dim=dim)
    shape = broadcast_shapes(input.shape, other.shape)
    return cross_op(expand_op(input, shape=shape), expand_op(other, shape=shape), dim=dim)


@composed(apart=0, samples=(case((2, 3), (2, 3)), case((3, 2), (3, 1), dim=0)), kinds="fi", takes={"input": "fi", "other": "=input"},
          in_float32=True, numpy=lambda a, b, dim=-1: np.cross(a, b, axis=dim))
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Cross products of the vectors of 3 elements along `dim`: by default the first dimension of size 3.

    Raises: ShapeError where `dim` is not of size 3.

    >>> volta.cross(volta.tensor([1, 0, 0]), volta.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    if input.ndim != other.ndim:
        raise ShapeError(f"cross: the tensors must have equally many dimensions, got {input.shape} and {other.shape}")
    if dim is None:
        warn_once("cross: without dim, which is the first dimension of size 3 then, cross is deprecated; give dim, or write linalg.cross, "
                  "where it is the last one")
        if 3 not in input.shape:
            raise ShapeError(f"cross: no dimension of {input.shape} has size 3")
        dim = input.shape.index(3)
    return _cross("cross", input, other, as_dim("cross", dim, input.ndim))


@composed(name="linalg.cross", apart=0, function=False, method=False, kinds="fi", takes={"input": "fi", "other": "=input"}, in_float32=True,
          samples=(case((2, 3), (2, 3)), case((1, 3), (2, 3)), case((3, 2), (3, 2), dim=0)),
          numpy=lambda a, b, dim=-1: np.cross(a, b, axis=dim))
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross products of the vectors of 3 elements along `dim`.

    >>> volta.linalg.cross(volta.tensor([1, 0, 0]), volta.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    return cross.function(input, other, dim)


@composed(name="linalg.vecdot", function=False, method=False,
          samples=(case((3,), (2, 3)), case((3, 2), (3, 2), dim=0), case((2, 0), (2, 0))), rtol=1e-4, in_float32=True,
          takes={"x": "f", "y": "=x"}, numpy=lambda x, y, dim=-1: (x * y).sum(dim))
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Inner products of the vectors along `dim`; the others are batches and broadcast.

    >>> volta.linalg.vecdot(volta.tensor([1.0, 2.0]), volta.tensor([3.0, 4.0]))
    tensor(11.)
    """
    return sum(x * y, dim)


@functools.lru_cache(maxsize=256)
def _cheapest(sizes):
    """Where to cut each part of a chain of matrices, sizes[i] by sizes[i + 1], so that its products take the fewest multiplications."""
    n, cut = len(sizes) - 1, {}
    cost = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            least = math.inf
            for k in range(i, j):
                way = cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                if way < least:
                    least, cut[i, j] = way, k
            cost[i][j] = least
    return cut


def _product(multiply, parts, cut, i, j):
    k = cut[i, j]
    return multiply(parts[i] if i == k else _product(multiply, parts, cut, i, k),
                    parts[j] if k + 1 == j else _product(multiply, parts, cut, k + 1, j))


@composed(name="linalg.multi_dot", function=False, method=False, kinds="fi", numpy=lambda tensors: np.linalg.multi_dot(tensors), rtol=1e-4,
          samples=(case(Many(((2, 5), (5, 3), (3, 4), (4, 1)))), case(Many(((3,), (3, 2), (2,)))), case(Many(((2, 3), (3, 2))))))
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Product of two or more matrices in the order that takes the fewest multiplications. The first may be a row, the last a column.

    Raises: ArgumentError for fewer than two; ShapeError where they do not fit.

    >>> volta.linalg.multi_dot([volta.ones(2, 5), volta.ones(5, 3), volta.ones(3)])
    tensor([15., 15.])
    """
    if len(tensors) < 2:
        raise ArgumentError(f"linalg.multi_dot: needs at least 2 tensors, got {len(tensors)}")
    parts, shapes, last = list(tensors), [x._shape for x in tensors], len(tensors) - 1
    for i, shape in enumerate(shapes):
        if len(shape) != 2 and (len(shape) != 1 or i not in (0, last)):
            raise ShapeError(f"linalg.multi_dot: needs matrices, or vectors at the ends, got {[x.shape for x in tensors]}")
    row, column = len(shapes[0]) == 1, len(shapes[last]) == 1
    if row:
        shapes[0] = (1, *shapes[0])
        parts[0] = reshape_op(parts[0], shape=shapes[0])
    if column:
        shapes[last] = (*shapes[last], 1)
        parts[last] = reshape_op(parts[last], shape=shapes[last])
    for i in range(last):
        if shapes[i][1] != shapes[i + 1][0]:
            raise ShapeError(f"linalg.multi_dot: inner sizes differ, got {[x.shape for x in tensors]}")
    sizes = (shapes[0][0], *[shape[1] for shape in shapes])
    multiply = matmul if parts[0].dtype is bool_ else matmul_op         # of bool there are products without elements
    if last == 2:                                       # which one of two is known without a table
        first = sizes[0] * sizes[2] * (sizes[1] + sizes[3]) < sizes[1] * sizes[3] * (sizes[0] + sizes[2])
        a, b, c = parts
        out = multiply(multiply(a, b), c) if first else multiply(a, multiply(b, c))
    else:
        out = _product(multiply, parts, _cheapest(sizes), 0, last)
    return reshape_op(out, shape=out.shape[row:2 - column]) if row or column else out


@composed(samples=(case((2, 5), (5, 3), (3, 4)), case((2, 2))), kinds="fi", method=False, rtol=1e-4,
          numpy=lambda *x: np.linalg.multi_dot(x) if len(x) > 1 else x[0])
def chain_matmul(*matrices: Tensor) -> Tensor:
    """Product of matrices in the order that takes the fewest multiplications: `linalg.multi_dot`.

    Raises: ShapeError for anything but matrices.

    >>> volta.chain_matmul(volta.ones(2, 5), volta.ones(5, 3), volta.ones(3, 1)).shape
    volta.Size([2, 1])
    """
    warn_once("chain_matmul is deprecated; write linalg.multi_dot, which takes a list")
    if any(x.ndim != 2 for x in matrices):
        raise ShapeError(f"chain_matmul: needs matrices, got {[x.shape for x in matrices]}")
    return multi_dot(matrices) if len(matrices) != 1 else matrices[0]


@composed(out="cast", samples=(case((3, 3), 3), case((2, 3, 3), n=0), case((2, 2), n=1), case((2, 2, 2), n=6)), kinds="fi", rtol=1e-4,
          in_float32=True, numpy=lambda x, n: np.linalg.matrix_power(x, n), aliases=("linalg.matrix_power",))
def matrix_power(input: Tensor, n: int) -> Tensor:
    """The product of `n` times a square matrix, of its inverse for negative `n`; leading dimensions are batches.

    Raises: ShapeError unless square; for negative `n` what `inverse` raises.

    >>> volta.matrix_power(volta.tensor([[1, 1], [0, 1]]), 5)
    tensor([[1, 5],
            [0, 1]])
    """
    square("linalg.matrix_power", input)
    if n == 0:
        input = row_major(input)
        return where_op(input < input, input, eye(input.shape[-1], dtype=input.dtype, device=input.device))      # in the graph
    base = inverse(input) if n < 0 else input
    out = contiguous_op(base) if n == 1 else base       # a copy
    for bit in f"{abs(n):b}"[1:]:                       # squares, and one factor more for each binary digit 1
        out = matmul(out, out)
        out = matmul(out, base) if bit == "1" else out
    return out


@composed(name="linalg.vander", function=False, method=False, kinds="fi", rtol=1e-4, halves=False, takes={"x": "fi"},
          samples=(case((3,)), case((2, 3), N=4), case((3,), N=2)),
          numpy=lambda x, N=None: x[..., None] ** np.arange(x.shape[-1] if N is None else N))
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Vandermonde matrices: the powers 0 to N - 1 of every element in a row, of integers as int64; `N` is by default how many there are.

    Raises: ArgumentError unless `N` is above 1.

    >>> volta.linalg.vander(volta.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    x = x if x.dtype.is_floating_point else cast(x, int64)
    x = x if x.ndim else unsqueeze(x, 0)
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise ArgumentError(f"linalg.vander: needs N above 1, by default the size of the last dimension, got shape {x.shape} and N {N}")
    powers = expand_op(unsqueeze(x, -1), shape=(*x.shape, count - 1))
    return cat([ones(*x.shape, 1, dtype=x.dtype, device=x.device), cumprod(powers, -1)], -1)


@composed(name="linalg.diagonal", function=False, method=False, samples=(case((3, 4)), case((2, 3, 4), offset=1, dim1=0)), kinds="fib",
          view=True, numpy=lambda x, offset=0, dim1=-2, dim2=-1: np.diagonal(x, offset, dim1, dim2))
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of the matrices in the last two dimensions, as a view.

    >>> volta.linalg.diagonal(volta.eye(2))
    tensor([1., 1.])
    """
    return diagonal.function(A, offset, dim1, dim2)
