"""Scans: what runs along one dimension."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import HALVES, as_dtype, bool_, float32
from volta.errors import DTypeError
from volta.ops.records.copy import cast
from volta.ops.records.scan import cummax_op, cummin_op, cumprod_op, cumsum_op, logcumsumexp_op
from volta.ops.records.view import reshape_op
from volta.ops.reduce import ValuesIndices, cast_to_add
from volta.ops.table import case, composed
from volta.shapes import as_dim

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DTypeLike

_SAMPLES = (case((3, 4), dim=-1), case((2, 3, 4), dim=0), case((600, 2), dim=0), case((0, 2), dim=1), case((), dim=-1))


def _in_dtype(name, record, input, dim, dtype):
    """A scan of elements of `dtype`; bool counts as 0 and 1, and integers add up in int64, which wraps to the same."""
    if dtype is None:
        return record(input, dim=as_dim(name, dim, len(input._shape)))
    dtype, d = as_dtype(dtype), as_dim(name, dim, input.ndim)
    if dtype is bool_ and input.ndim and input._size:
        raise DTypeError(f"{name}: results of bool are not available; give an integer dtype, or use any() or all()")
    return cast(record(cast_to_add(name, input, dtype), dim=d), dtype)


@composed(out="dtype", samples=_SAMPLES, inplace=True, kinds="fib", numpy=lambda x, dim: cumsum_op.details.numpy(x, dim), rtol=2e-5)
def cumsum(input: Tensor, dim: int, *, dtype: DTypeLike = None) -> Tensor:
    """Running sums along `dim`. Integers and bool add up in int64, unless `dtype` says otherwise.

    >>> volta.cumsum(volta.tensor([1.0, 2.0, 4.0]), 0)
    tensor([1., 3., 7.])
    """
    return _in_dtype("cumsum", cumsum_op, input, dim, dtype)


def _cumprod(x, dim):
    """Of float16 and bfloat16 in float32, the derivative too."""
    return cast(cumprod_op(cast(x, float32), dim=dim), x.dtype) if x.dtype in HALVES else cumprod_op(x, dim=dim)


@composed(out="dtype", samples=_SAMPLES, inplace=True, kinds="fib", numpy=lambda x, dim: cumprod_op.details.numpy(x, dim), rtol=2e-5,
          domain=(0.9, 1.1))
def cumprod(input: Tensor, dim: int, *, dtype: DTypeLike = None) -> Tensor:
    """Running products along `dim`. Integers and bool multiply in int64, unless `dtype` says otherwise.

    >>> volta.cumprod(volta.tensor([1.0, 2.0, 4.0]), 0)
    tensor([1., 2., 8.])
    """
    return _in_dtype("cumprod", _cumprod, input, dim, dtype)


@composed(samples=_SAMPLES, in_float32=True, numpy=lambda x, dim: logcumsumexp_op.details.numpy(x, dim), rtol=2e-5)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log of the running sums of exp(x) along `dim`, without overflow.

    >>> volta.logcumsumexp(volta.tensor([0.0, 0.0]), 0)
    tensor([0.0000, 0.6931])
    """
    return logcumsumexp_op(input, dim=as_dim("logcumsumexp", dim, input.ndim))


def _extremes(name, record, input, dim):
    d = as_dim(name, dim, len(input._shape))
    if input._shape:
        return tuple.__new__(ValuesIndices, record(input, dim=d))
    return ValuesIndices(*[reshape_op(x, shape=()) for x in record(reshape_op(input, shape=(1,)), dim=d)])


def _np_extremes(record):
    def pick(x, dim):
        return record.details.numpy(x, dim) if x.ndim else (x, np.zeros((), np.int64))
    return pick


@composed(samples=_SAMPLES, kinds="fib", numpy=_np_extremes(cummax_op))
def cummax(input: Tensor, dim: int) -> ValuesIndices:
    """(values, indices) of the largest element so far along `dim`: the last of equal ones; NaN wins.

    >>> volta.cummax(volta.tensor([1.0, 3.0, 2.0]), 0).values
    tensor([1., 3., 3.])
    """
    return _extremes("cummax", cummax_op, input, dim)


@composed(samples=_SAMPLES, kinds="fib", numpy=_np_extremes(cummin_op))
def cummin(input: Tensor, dim: int) -> ValuesIndices:
    """(values, indices) of the smallest element so far along `dim`: the last of equal ones; NaN wins.

    >>> volta.cummin(volta.tensor([2.0, 3.0, 1.0]), 0).indices
    tensor([0, 0, 2])
    """
    return _extremes("cummin", cummin_op, input, dim)
