"""Sparse tensors by coordinates, and the products of torch.sparse. Gradients reach the values and what they are multiplied by."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from volta.dtypes import as_dtype, float32, float64, int64
from volta.ops.sparse import SparseTensor, sparse_coo_tensor
from volta.tensor import Tensor

__all__ = ["DoubleTensor", "FloatTensor", "LongTensor", "SparseTensor", "addmm", "mm", "sparse_coo_tensor", "sum"]


def mm(mat1: SparseTensor | Tensor, mat2: SparseTensor | Tensor) -> Tensor:
    """Product of two matrices, one of which is sparse.

    >>> volta.sparse.mm(volta.sparse_coo_tensor([[0], [1]], [2.0], (2, 2)), volta.ones(2, 2)).tolist()
    [[2.0, 2.0], [0.0, 0.0]]
    """
    return mat1 @ mat2


def addmm(mat: Tensor, mat1: SparseTensor | Tensor, mat2: SparseTensor | Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * mat + alpha * (mat1 @ mat2)."""
    return beta * mat + alpha * (mat1 @ mat2)


def sum(input: SparseTensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Any:
    """The sum of all, a tensor; over some of the sparse dimensions, a sparse tensor of those that stay."""
    return (input if dtype is None else input.to(as_dtype(dtype))).sum(dim)


def FloatTensor(indices: Any, values: Any = None, size: Sequence[int] | None = None) -> SparseTensor:
    """The legacy constructor of values of float32, as those below of other dtypes."""
    return sparse_coo_tensor(indices, values, size, dtype=float32)


def DoubleTensor(indices: Any, values: Any = None, size: Sequence[int] | None = None) -> SparseTensor:
    """Of float64."""
    return sparse_coo_tensor(indices, values, size, dtype=float64)


def LongTensor(indices: Any, values: Any = None, size: Sequence[int] | None = None) -> SparseTensor:
    """Of int64."""
    return sparse_coo_tensor(indices, values, size, dtype=int64)
