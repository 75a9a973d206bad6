"""Fractional max pooling: windows of one size at random steps, which lead to any smaller size. Composed: places, then one gather."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import float32, float64, int64
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.nn.functional.pool import _batched, _by, _op, _unbatched, with_indices
from volta.ops.creation import arange, rand
from volta.ops.math import clamp
from volta.ops.records.copy import cast
from volta.ops.records.index import gather_op
from volta.ops.records.view import reshape_op, tied
from volta.ops.reduce import max as max_
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


def _starts(samples, n, count, kernel):
    """Where the windows of each plane begin along an axis of n elements: (planes, count)."""
    if count == 1:
        return cast(samples * 0, int64) + (n - kernel)
    step = (n - kernel) / (count - 1)
    i = cast(arange(count, device=samples.device), samples.dtype)
    found = cast((i + samples) * step, int64) - cast(samples * step, int64)
    last = cast(i == count - 1, int64)
    return clamp(found * (1 - last) + last * (n - kernel), 0, n - kernel)              # whatever samples were given


def _places(samples, sizes, size, kernel):
    """The places in a plane of the elements of all windows: (planes, windows, elements of one)."""
    planes, rank, place = samples.shape[0], len(sizes), 0
    for d, (n, m, k) in enumerate(zip(sizes, size, kernel)):
        sample = samples[:, 1 - d:2 - d] if rank == 2 else samples[:, d:d + 1]              # as PyTorch: in the plane, of the width first
        at = reshape_op(_starts(sample, n, m, k), shape=(planes, m, 1)) + arange(k, device=samples.device)
        windows, inside = [1] * rank, [1] * rank
        windows[d], inside[d] = m, k
        place = place * n + reshape_op(at, shape=(planes, *windows, *inside))
    return reshape_op(place, shape=(planes, math.prod(size), math.prod(kernel)))


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
        planes, shape = x.shape[0] * x.shape[1], x.shape[:2] + size
        at = _places(_samples_of(op, rank, x, _random_samples), x.shape[2:], size, kernel)
        flat = reshape_op(tied(x), shape=(planes, math.prod(x.shape[2:])))
        windows = gather_op(flat.detach(), reshape_op(at, shape=(planes, at.shape[1] * at.shape[2])), dim=1)
        best = max_(reshape_op(windows, shape=at.shape), 2).indices if planes else at[..., 0]
        index = reshape_op(gather_op(at, reshape_op(best, shape=(*best.shape, 1)), dim=2), shape=best.shape) if planes else best
        out = _unbatched(reshape_op(gather_op(flat, index, dim=1), shape=shape), batched)
        return (out, _unbatched(reshape_op(index, shape=shape), batched)) if return_indices else out

    drawn = Derived(lambda x, *_: np.arange(math.prod(x.shape[:2]) * rank).reshape(*x.shape[:2], rank) * 3 % 8 / 8.0)
    return _op(function, "functional.fractional_max_pool", rank,
               (case((2, 3, 7, 6, 5)[:rank + 2], 2, 3, None, True, drawn), case((1, 2, 6, 8, 4)[:rank + 2], 3, 2, None, False, drawn),
                case((1, 2, 4, 5, 3)[:rank + 2], 2, 1, None, True, drawn)), _np_fractional(rank), function=False)


def _np_fractional(rank):
    def numpy(x, kernel, m, ratio, return_indices, samples):
        sizes, out, index = x.shape[2:], np.empty(x.shape[:2] + (m,) * rank), np.empty(x.shape[:2] + (m,) * rank, np.int64)
        for where in np.ndindex(*x.shape[:2]):
            drawn = samples[where][::-1] if rank == 2 else samples[where]
            steps = [(n - kernel) / max(m - 1, 1) for n in sizes]
            for o in np.ndindex(*(m,) * rank):
                first = [n - kernel if i == m - 1 else int((i + s) * a) - int(s * a) for i, s, a, n in zip(o, drawn, steps, sizes)]
                window = x[where][tuple(slice(a, a + kernel) for a in first)]
                inside = np.unravel_index(window.argmax(), window.shape)
                out[where + o] = window.max()
                index[where + o] = np.ravel_multi_index(np.add(first, inside), sizes)
        return (out, index) if return_indices else out
    return numpy


fractional_max_pool2d, fractional_max_pool3d = (_make_fractional(rank) for rank in (2, 3))
fractional_max_pool2d_with_indices = with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices = with_indices(fractional_max_pool3d)
