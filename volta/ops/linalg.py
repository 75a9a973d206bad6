"""Matrix products: `matmul` in 1-D, 2-D and batched forms, and what is composed of it."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase, same_memory, view
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import all_bare, bare, flat_product, straight
from volta._kernels.core.inplace import into
from volta.dtypes import as_integer, bool_, float32, float64, held, promote_types, uint8
from volta.errors import ArgumentError, DTypeError, RankError, ShapeError
from volta.ops.records.chain import fused
from volta.ops.records.copy import cast
from volta.ops.records.linalg import dot_op, linear_op, matmul_op
from volta.ops.records.math import add_op, add_product, where_op
from volta.ops.records.view import permute_op, reshape_op
from volta.ops.table import case, composed
from volta.shapes import broadcasts_to

if TYPE_CHECKING:
    from volta.tensor import Tensor


def _into(least, most):
    """See `Details.into`: of products of matrices with so many dimensions."""
    def into(out, *matrices):
        if len(matrices) != 2 or not all(isinstance(x, TensorBase) and least <= x.ndim <= most for x in matrices):
            return False
        a, b = (x._shape for x in matrices)
        if a[-1] != b[-2] or a[:-2] != b[:-2]:
            return False
        return straight(matmul_op, out, matrices, a[:-1] + b[-1:])
    return into


MANY = 4096                         # elements of a product from which on a sum overwrites it
_NUMBERS = (int, float)


@composed(samples=(case((3, 4), (4, 5)), case((4,), (4,)), case((4,), (2, 4, 3)), case((2, 3, 4), (4,)), case((2, 3, 4), (4, 2)),
                   case((2, 1, 3, 4), (5, 4, 2)), case((2, 0), (0, 3))), numpy=np.matmul, kinds="fi", rtol=1e-4, operator="matmul",
          reflected=True, aliases=("linalg.matmul",), into=_into(2, 8))
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product. 1-D operands are a row on the left and a column on the right; leading dimensions are batches and broadcast.

    Shape: (..., m, k) @ (..., k, n) -> (..., m, n).
    Raises: ShapeError where the inner sizes or the batches do not fit; DTypeError for different dtypes.

    >>> volta.tensor([[1.0, 2.0]]) @ volta.tensor([3.0, 4.0])
    tensor([11.])
    """
    a, b = input._shape, other._shape
    if not a or not b:
        raise ShapeError(f"matmul: both operands need at least 1 dimension, got {a} @ {b}; use * for a scalar")
    if a[-1] != b[-2 if len(b) > 1 else 0]:
        raise ShapeError(f"matmul: inner sizes differ, got {a} @ {b}")
    if len(a) == 2 and len(b) == 2:
        return _multiplied(input, other)
    if len(b) == 1 and len(a) == 1:
        return dot_op(input, other)
    if len(b) < 3 and (found := flat_product(matmul_op, input, other)) is not None:
        return found
    if len(b) == 1 and len(a) == 2:
        return reshape_op(_matrices(input, reshape_op(other, shape=(*b, 1))), shape=a[:-1])
    if len(a) == 1 or len(b) == 1:
        left = input if len(a) > 1 else reshape_op(input, shape=(1, *a))
        out = matmul(left, other if len(b) > 1 else reshape_op(other, shape=(*b, 1)))
        return reshape_op(out, shape=a[:-1] + (b[:-2] + b[-1:] if len(b) > 1 else ()))
    if len(b) == 2:
        return reshape_op(_matrices(reshape_op(input, shape=(math.prod(a[:-1]), a[-1])), other), shape=a[:-1] + b[-1:])
    for i in range(1, min(len(a), len(b)) - 1):
        if a[-2 - i] != b[-2 - i] and 1 not in (a[-2 - i], b[-2 - i]):
            raise ShapeError(f"matmul: batch sizes do not broadcast, got {a} @ {b}")
    return _multiplied(input, other)


def _multiplied(a, b):
    """Products of matrices whose sizes fit."""
    try:
        return matmul_op(a, b)
    except DTypeError:
        return of_nothing(a, b)


def of_nothing(a, b):
    """The product of bool matrices without elements, which PyTorch gives though it multiplies no others of bool: there is nothing to do.

    Raises: DTypeError for other tensors.
    """
    if a.dtype is b.dtype is bool_ and not (a._size and b._size):
        return cast(matmul_op(cast(a, uint8), cast(b, uint8)), bool_)
    return matmul_op(a, b)


@composed(samples=(case((3, 4), (4, 5)), case((0, 2), (2, 3))), numpy=np.matmul, kinds="fi", rtol=1e-4, aliases=("spmm",), into=_into(2, 2))
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices.

    >>> volta.ones(1, 2).mm(volta.ones(2, 2))
    tensor([[2., 2.]])
    """
    return _matrices(input, mat2)


def _matrices(input, mat2):
    a, b = input._shape, mat2._shape
    if len(a) != 2 or len(b) != 2:
        raise ShapeError(f"mm: needs two matrices, got {input.shape} @ {mat2.shape}")
    return _multiplied(input, mat2) if a[1] == b[0] else matmul(input, mat2)


@composed(samples=(case((3, 4), (4,)), case((2, 0), (0,))), numpy=np.matmul, kinds="fi", rtol=1e-4)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector.

    >>> volta.ones(2, 3).mv(volta.ones(3))
    tensor([3., 3.])
    """
    return _matrix_by_vector(input, vec)


def _matrix_by_vector(input, vec):
    a, b = input._shape, vec._shape
    if len(a) != 2 or len(b) != 1:
        raise RankError(f"mv: needs a matrix and a vector, got {input.shape} @ {vec.shape}")
    if a[1] != b[0]:
        return matmul(input, vec)
    if (found := flat_product(matmul_op, input, vec)) is not None:
        return found
    return reshape_op(_matrices(input, reshape_op(vec, shape=(*b, 1))), shape=a[:1])


def _in_place(product):
    """See `Places.one`: of a sum of the tensor and a product, where nothing is weighed."""
    def one(input, a, b, *, beta=1, alpha=1):
        for x in (a, b):
            if not isinstance(x, TensorBase) or x.dtype is not input.dtype or same_memory(x, input):
                return None
        return (add_op, (product(a, b), input)) if beta == 1 == alpha else None
    return one


@composed(samples=(case((2, 3, 4), (2, 4, 5)), case((0, 2, 3), (0, 3, 2))), numpy=np.matmul, kinds="fi", rtol=1e-4, into=_into(3, 3))
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two batches of matrices: (b, m, k) @ (b, k, n).

    >>> volta.ones(2, 1, 3).bmm(volta.ones(2, 3, 1)).shape
    volta.Size([2, 1, 1])
    """
    return _batches(input, mat2)


def _batches(input, mat2):
    a, b = input._shape, mat2._shape
    if len(a) != 3 or len(b) != 3 or a[0] != b[0]:
        raise RankError(f"bmm: needs (b, m, k) @ (b, k, n), got {input.shape} @ {mat2.shape}")
    return _multiplied(input, mat2) if a[2] == b[1] else matmul(input, mat2)


@composed(samples=(case((4,), (4,)), case((0,), (0,))), numpy=np.matmul, kinds="fi", rtol=1e-4)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Inner product of two vectors.

    Raises: ShapeError for other ranks, and different lengths.

    >>> volta.tensor([1, 2]).dot(volta.tensor([3, 4]))
    tensor(11)
    """
    if len(input._shape) != 1 or len(tensor._shape) != 1:
        raise ShapeError(f"dot: needs two vectors, got {input.shape} and {tensor.shape}")
    if input._shape != tensor._shape:
        raise ShapeError(f"dot: needs vectors of one length, got {input.shape} and {tensor.shape}")
    return dot_op(input, tensor)


@composed(samples=(case((4,), (4,)), case((0,), (0,))), numpy=np.vdot, kinds="fi", rtol=1e-4)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """`dot`, which of real numbers it is.

    >>> volta.vdot(volta.tensor([1, 2]), volta.tensor([3, 4]))
    tensor(11)
    """
    return dot(input, other)


@composed(out="cast", samples=(case((3,), (4,)), case((0,), (2,))), numpy=np.outer, kinds="fi", aliases=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Outer product of two vectors.

    Raises: ShapeError for other ranks.

    >>> volta.tensor([1, 2]).outer(volta.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    if input.ndim != 1 or vec2.ndim != 1:
        raise ShapeError(f"outer: needs two vectors, got {input.shape} and {vec2.shape}")
    if bare(input):
        return view(input, (*input._shape, 1), (*input._strides, 1), input.offset) * vec2
    return reshape_op(input, shape=(input._size, 1)) * vec2


def _line_added(out, *args):
    """See `Details.into`: of a line that is added to all rows of a product."""
    if len(args) != 3 or not all(isinstance(x, TensorBase) and x.ndim == n for x, n in zip(args, (1, 2, 2))):
        return False
    line, (a, b) = args[0], (x._shape for x in args[1:])
    if a[1] != b[0] or line._shape != b[1:]:
        return False
    turned = view(args[2], b[::-1], args[2]._strides[::-1], args[2].offset)
    return straight(linear_op, out, (args[1], turned, line), (a[0], b[1]))


@composed(samples=(case((5,), (3, 4), (4, 5)), case((3, 5), (3, 4), (4, 5), beta=2, alpha=3), case((), (2, 0), (0, 3), beta=0)), kinds="fi",
          numpy=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b), rtol=1e-4, in_float32=True,
          takes={"input": "fi", "mat1": "=input", "mat2": "=input"}, inplace=True, one=_in_place(_matrices), into=_line_added)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2). Of integers the factors are cut to integers; beta 0 ignores `input`, NaN or not,
    and alpha 0 the product.

    Raises: DTypeError for different dtypes; ShapeError where `input` does not broadcast to the product.

    >>> volta.addmm(volta.ones(2), volta.ones(1, 3), volta.ones(3, 2), alpha=2)
    tensor([[7., 7.]])
    """
    if beta == 1 == alpha and len(input._shape) == 1 and len(mat1._shape) == 2 == len(mat2._shape) and input._shape == mat2._shape[1:]:
        a, b = mat1._shape, mat2._shape
        if a[1] == b[0] and mat1.dtype in (float32, float64) and input.dtype is mat1.dtype is mat2.dtype and all_bare((input, mat1, mat2)):
            return run_kernel(linear_op, mat1.device, (mat1, view(mat2, b[::-1], mat2._strides[::-1], mat2.offset), input))
    return _added("addmm", input, _matrices(mat1, mat2), beta, alpha)


@composed(samples=(case((5,), (2, 3, 4), (2, 4, 5)), case((2, 3, 5), (2, 3, 4), (2, 4, 5), beta=2, alpha=3)), kinds="fi",
          numpy=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b), rtol=1e-4, in_float32=True,
          takes={"input": "fi", "batch1": "=input", "batch2": "=input"}, inplace=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (batch1 @ batch2), of batches of matrices, with the rules of `addmm`.

    >>> volta.baddbmm(volta.ones(1), volta.ones(2, 1, 3), volta.ones(2, 3, 1)).shape
    volta.Size([2, 1, 1])
    """
    return _added("baddbmm", input, _batches(batch1, batch2), beta, alpha)


@composed(samples=(case((3,), (3, 4), (4,)), case((), (2, 0), (0,), beta=2, alpha=3)), kinds="fi", rtol=1e-4, in_float32=True, inplace=True,
          numpy=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b), takes={"input": "fi", "mat": "=input", "vec": "=input"},
          one=_in_place(_matrix_by_vector))
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec), with the rules of `addmm`.

    >>> volta.addmv(volta.ones(1), volta.ones(2, 3), volta.ones(3))
    tensor([4., 4.])
    """
    return _added("addmv", input, _matrix_by_vector(mat, vec), beta, alpha)


@composed(out="cast", samples=(case((3, 4), (3,), (4,)), case((4,), (3,), (4,), beta=2, alpha=3)), kinds="fi", rtol=1e-4, in_float32=True,
          inplace=True, numpy=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * np.outer(a, b))
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2), with the rules of `addmm`.

    Raises: ArgumentError for floats `beta` and `alpha` beside integers, and bools beside numbers.

    >>> volta.addr(volta.ones(2, 2), volta.ones(2), volta.tensor([1.0, 2.0]))
    tensor([[2., 3.],
            [2., 3.]])
    """
    dtype, shape = input.dtype, (vec1._size, vec2._size)
    if (dtype is vec1.dtype is vec2.dtype and dtype.is_floating_point and type(beta) is int and beta == 1 and type(alpha) in _NUMBERS
            and input._shape == shape and len(vec1._shape) == 1 == len(vec2._shape) and bare(input, vec1) and bare(vec2)):
        column = view(vec1, (*vec1._shape, 1), (*vec1._strides, 1), vec1.offset)
        return run_kernel(add_product, input.device, (input, column, vec2, alpha))
    dtype = promote_types(dtype, promote_types(vec1.dtype, vec2.dtype))
    if not dtype.is_floating_point and (isinstance(beta, float) or isinstance(alpha, float)):
        raise ArgumentError(f"addr: of integers beta and alpha must be integers, got {beta} and {alpha}")
    if dtype is not bool_ and (isinstance(beta, bool) or isinstance(alpha, bool)):
        raise ArgumentError(f"addr: beta and alpha may be bool for bool tensors alone, got {beta} and {alpha} beside {dtype}")
    vec1 = cast(vec1, dtype)
    if alpha != 1:
        vec1 = vec1 * (bool(alpha) if dtype is bool_ else held("addr", alpha, dtype))
    return _added("addr", cast(input, dtype), outer(vec1, cast(vec2, dtype)), beta, 1, first=True)


@composed(samples=(case((3, 5), (2, 3, 4), (2, 4, 5)), case((5,), (2, 3, 4), (2, 4, 5), beta=2, alpha=3), case((), (0, 2, 3), (0, 3, 2))),
          kinds="fi", numpy=lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b).sum(0, dtype=a.dtype), rtol=1e-4, in_float32=True,
          takes={"input": "fi", "batch1": "=input", "batch2": "=input"}, inplace=True, grows=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (the sum of batch1 @ batch2 over the batch), with the rules of `addmm`.

    Raises: RankError for shapes other than (b, m, k) and (b, k, n).

    >>> volta.addbmm(volta.ones(1, 1), volta.ones(2, 1, 3), volta.ones(2, 3, 1))
    tensor([[7.]])
    """
    if batch1.ndim != 3 or batch2.ndim != 3 or batch1.shape[::2] != batch2.shape[:2]:
        raise RankError(f"addbmm: needs (b, m, k) @ (b, k, n), got {batch1.shape} @ {batch2.shape}")
    (b, m, k), n = batch1.shape, batch2.shape[2]
    rows = reshape_op(permute_op(batch1, dims=(1, 0, 2)), shape=(m, b * k))         # one product sums over the batch as well
    return _added("addbmm", input, _matrices(rows, reshape_op(batch2, shape=(b * k, n))), beta, alpha)


def _added(name, input, out, beta, alpha, first=False):
    """beta * input + alpha * out; with `first` the input decides in which order in memory the sum lies."""
    if input._shape != out._shape and not broadcasts_to(input.shape, out.shape):
        raise ShapeError(f"{name}: input {input.shape} does not broadcast to the product's shape {out.shape}")
    if beta == 1 == alpha:
        if out._size > MANY and input.dtype is out.dtype and bare(input, out):      # a product of whose memory nobody else knows
            return into(add_op, out, input)
        return input + out if first else out + input
    if not out.dtype.is_floating_point:
        if not (math.isfinite(beta) and math.isfinite(alpha)):
            raise ArgumentError(f"{name}: beta and alpha of integer tensors must be finite, got {beta} and {alpha}")
        beta, alpha = (bool(n) if out.dtype is bool_ else as_integer(name, n, out.dtype) for n in (beta, alpha))
    else:
        beta, alpha = held(name, beta, out.dtype), held(name, alpha, out.dtype)
    if alpha and beta and out.storage.device.is_gpu:
        return fused(_weighted, input, out, beta, alpha) if first else fused(_weighted, out, input, alpha, beta)
    if alpha != 1:
        out = out * alpha if alpha or name == "baddbmm" else _nothing(out)
    if beta == 0 and not (first or input._requires_grad) and input.dtype is out.dtype and input.device is out.device:
        return out
    input = input if beta == 1 else input * beta if beta else _nothing(input)
    return input + out if first else out + input


def _weighted(x, y, a, b):
    return x * a + y * b


def _nothing(x):
    """Zeros, of NaN as well, in the graph."""
    return where_op(x < x, x, False if x.dtype is bool_ else 0)
