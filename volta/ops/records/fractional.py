"""Fractional max pooling of planes: windows of one size at random steps. Source: Graham 2014."""
from __future__ import annotations

import math

import numpy as np

from volta.dtypes import int64
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op
from volta.ops.records.index import gather_op, scatter_add_op
from volta.ops.records.math import clamp_op, isnan, where_op
from volta.ops.records.reduce import amax_op, argmax_op
from volta.ops.records.view import reshape_op, slice_op, tied
from volta.ops.table import Derived, case, create, register


def _count(n, x):
    return create(arange_op, 0, 1, n, dtype=x.dtype, device=x.device)


def _starts(samples, n, count, kernel):
    """Where the windows of each plane begin along an axis of n elements: (planes, count). `samples` is (planes, 1)."""
    if count == 1:
        return cast(samples * 0, int64) + (n - kernel)
    step, i = (n - kernel) / (count - 1), _count(count, samples)
    found = cast((i + samples) * step, int64) - cast(samples * step, int64)
    last = cast(i == count - 1, int64)
    return clamp_op(found * (1 - last) + last * (n - kernel), 0, n - kernel)              # whatever samples were given


def _places(samples, sizes, size, kernel):
    """The places in a plane of the elements of all windows: (planes, windows, elements of one)."""
    planes, rank, place = samples.shape[0], len(sizes), 0
    for d, (n, m, k) in enumerate(zip(sizes, size, kernel)):
        one = slice_op(samples, starts=(0, 1 - d if rank == 2 else d), sizes=(planes, 1), steps=(1, 1))     # as PyTorch: the width's first
        at = reshape_op(_starts(one, n, m, k), shape=(planes, m, 1)) + cast(_count(k, samples), int64)
        windows, inside = [1] * rank, [1] * rank
        windows[d], inside[d] = m, k
        place = place * n + reshape_op(at, shape=(planes, *windows, *inside))
    return reshape_op(place, shape=(planes, math.prod(size), math.prod(kernel)))


def _reference(x, samples, size, kernel):
    planes = x.shape[0]
    at = _places(cast(samples.detach(), x.dtype), x.shape[1:], size, kernel)
    flat = reshape_op(tied(x), shape=(planes, math.prod(x.shape[1:])))
    windows = reshape_op(gather_op(flat.detach(), reshape_op(at, shape=(planes, at.shape[1] * at.shape[2])), dim=1), shape=at.shape)
    lost = where_op(isnan(windows), _count(at.shape[2], windows) + 1, 0.0)
    largest, latest = [argmax_op(each, dim=2, keepdim=True) for each in (windows, lost)]
    best = where_op(amax_op(lost, dim=(2,), keepdim=True) > 0, latest, largest)
    index = reshape_op(gather_op(at, best, dim=2), shape=best.shape[:2])
    return reshape_op(gather_op(flat, index, dim=1), shape=(planes, *size)), reshape_op(index, shape=(planes, *size))


def _gradient(g, index, x_shape):
    planes, *sizes = x_shape
    rows = (planes, math.prod(index.shape[1:]))
    spread = scatter_add_op(reshape_op(g, shape=rows), reshape_op(index, shape=rows), dim=1, size=math.prod(sizes))
    return reshape_op(spread, shape=x_shape)


def _numpy(x, samples, size, kernel):
    sizes, out, index = x.shape[1:], np.empty(x.shape[:1] + size), np.empty(x.shape[:1] + size, np.int64)
    steps = [(n - k) / max(m - 1, 1) for n, m, k in zip(sizes, size, kernel)]
    for plane, drawn in enumerate(samples):
        drawn = drawn[::-1] if len(size) == 2 else drawn
        for o in np.ndindex(*size):
            first = [min(max(int((i + s) * a) - int(s * a), 0), n - k) if i < m - 1 else n - k
                     for i, s, a, n, m, k in zip(o, drawn, steps, sizes, size, kernel)]
            window = x[plane][tuple(slice(a, a + k) for a, k in zip(first, kernel))]
            inside = np.unravel_index(window.argmax(), window.shape)
            out[plane, *o], index[plane, *o] = window.max(), np.ravel_multi_index(np.add(first, inside), sizes)
    return out, index


_DRAWN = Derived(lambda x, *_: np.arange(x.shape[0] * (x.ndim - 1)).reshape(x.shape[0], x.ndim - 1) * 3 % 8 / 8.0)
fractional_pool = register(
    "fractional_max_pool", ("x", "samples"), family="pool", takes={"x": "f", "samples": "f"}, tied=True, outputs=("out", "index"),
    reference=_reference, vjp=(_gradient, None), numpy=_numpy,
    cases=tuple(case(shape, _DRAWN, size=size, kernel=kernel) for shape, size, kernel in (
        ((3, 7, 6), (3, 3), (2, 2)), ((2, 6, 9), (4, 2), (3, 4)), ((2, 5, 4), (1, 3), (2, 1)), ((2, 7, 6, 5), (3, 2, 4), (2, 3, 2)),
        ((1, 4, 5, 3), (1, 1, 2), (3, 2, 1)))))
