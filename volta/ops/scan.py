"""Scans: what runs along one dimension."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import as_dtype
from volta.ops.records.copy import cast
from volta.ops.records.scan import cumsum_op
from volta.ops.table import case, composed
from volta.shapes import as_dim

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DTypeLike


@composed(samples=(case((3, 4), dim=-1), case((2, 3, 4), dim=0), case((600, 2), dim=0), case((0, 2), dim=1)),
          inplace=True, in_float32=True,
          numpy=lambda x, dim: np.cumsum(x, dim), rtol=2e-5)
def cumsum(input: Tensor, dim: int, *, dtype: DTypeLike = None) -> Tensor:
    """Running sums of floating point elements along `dim`.

    Raises: DTypeError for integers, unless a floating point `dtype` is asked for.

    >>> volta.cumsum(volta.tensor([1.0, 2.0, 4.0]), 0)
    tensor([1., 3., 7.])
    """
    return cumsum_op(input if dtype is None else cast(input, as_dtype(dtype)), dim=as_dim("cumsum", dim, input.ndim))
