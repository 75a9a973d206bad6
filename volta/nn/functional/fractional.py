"""Fractional max pooling: windows of one size at random steps, which lead to any smaller size."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import float32, float64
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.nn.functional.pool import _batched, _by, _op, _unbatched, with_indices
from volta.ops.creation import rand
from volta.ops.records.copy import cast
from volta.ops.records.fractional import fractional_pool
from volta.ops.records.view import reshape_op
from volta.ops.table import Derived, case
from volta.shapes import per_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = [f"fractional_max_pool{rank}d{form}" for rank in (2, 3) for form in ("", "_with_indices")]


def _size(op, rank, sizes, kernel, output_size, output_ratio):
    """The size of the output. Raises: ArgumentError, ShapeError where it does not fit."""
    if (output_size is None) == (output_ratio is None):
        raise ArgumentError(f"{op}: needs either output_size or output_ratio, got {output_size} and {output_ratio}")
    if output_size is None:
        ratios = (output_ratio,) * rank if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
        if len(ratios) != rank:
            raise ArgumentError(f"{op}: output_ratio must be a number or {rank} of them, got {output_ratio!r}")
        output_size = tuple(int(n * r) for n, r in zip(sizes, ratios))
    size = per_dim(op, "output_size", output_size, rank)
    if any(m + k - 1 > n for n, m, k in zip(sizes, size, kernel)):
        raise ShapeError(f"{op}: an output of {_by(size)} by windows of {_by(kernel)} needs more than an input of {_by(sizes)}")
    return size


def _samples_of(op, rank, x, given):
    """Of each plane a number of [0, 1) for each dimension: (planes, rank)."""
    n, c = x.shape[:2]
    dtype = x.dtype if x.dtype is float64 else float32
    if given is None:
        return rand(n * c, rank, dtype=dtype, device=x.device)
    if given.dtype is not x.dtype:
        raise DTypeError(f"{op}: _random_samples must be {x.dtype}, as the input, got {given.dtype}")
    if given.ndim != 3 or given.shape[0] < n or given.shape[1:] != (c, rank):
        raise ShapeError(f"{op}: _random_samples must have shape {(n, c, rank)}, got {given.shape}")
    return reshape_op(cast(given[:n].detach(), dtype), shape=(n * c, rank))


def _make_fractional(rank):
    def function(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None,
                 output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
                 _random_samples: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """Largest value of windows that begin at random steps, as many as `output_size` says, or as `output_ratio` of the input;
        `return_indices` adds where they were, in {letters}. Source: Graham 2014.

        Shape: (N, C, {letters}) or (C, {letters}) -> (N, C, {new}).
        Raises: ArgumentError, ShapeError where the arguments do not fit.

        >>> volta.nn.functional.fractional_max_pool{rank}d(volta.ones(1, 3{fours}), 2, output_ratio=0.5).shape
        volta.Size([1, 3{twos}])
        """
        op = f"fractional_max_pool{rank}d"
        x, batched = _batched(op, rank, input)
        kernel = per_dim(op, "kernel_size", kernel_size, rank)
        size = _size(op, rank, x.shape[2:], kernel, output_size, output_ratio)
        planes = reshape_op(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))
        pooled = fractional_pool(planes, _samples_of(op, rank, x, _random_samples), size=size, kernel=kernel)
        out, index = [_unbatched(reshape_op(y, shape=x.shape[:2] + size), batched) for y in pooled]
        return (out, index) if return_indices else out

    drawn = Derived(lambda x, *_: np.arange(math.prod(x.shape[:2]) * rank).reshape(*x.shape[:2], rank) * 3 % 8 / 8.0)
    return _op(function, "functional.fractional_max_pool", rank,
               (case((2, 3, 7, 6, 5)[:rank + 2], 2, 3, None, True, drawn), case((1, 2, 6, 8, 4)[:rank + 2], 3, 2, None, False, drawn),
                case((1, 2, 4, 5, 3)[:rank + 2], 2, 1, None, True, drawn)), _np_fractional(rank), function=False)


def _np_fractional(rank):
    def numpy(x, kernel, m, ratio, return_indices, samples):
        found = fractional_pool.details.numpy(x.reshape(-1, *x.shape[2:]), samples.reshape(-1, rank), (m,) * rank, (kernel,) * rank)
        out, index = [y.reshape(*x.shape[:2], *y.shape[1:]) for y in found]
        return (out, index) if return_indices else out
    return numpy


fractional_max_pool2d, fractional_max_pool3d = (_make_fractional(rank) for rank in (2, 3))
fractional_max_pool2d_with_indices = with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices = with_indices(fractional_max_pool3d)
