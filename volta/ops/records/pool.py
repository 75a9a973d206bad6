"""Records of pooling over one to three dimensions: maxima and averages of windows of x[N, C, ...].

`kernel`, `stride`, `padding` and `dilation` hold a number for each dimension, `size` is the output's; without a kernel windows are
adaptive: output o of m sees floor(o * n / m) to ceil((o + 1) * n / m) of n elements.
"""
from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

from volta.ops.records.index import gather_op
from volta.ops.records.math import clamp_min, where_op
from volta.ops.records.view import reshape_op
from volta.ops.table import Derived, case, register


def _np_windows(n, m, kernel, stride, padding, dilation):
    """Of each output the elements along one dimension, and how many there are with the padding."""
    if kernel is None:
        ranges = [range(o * n // m, -(-(o + 1) * n // m)) for o in range(m)]
        return [(r, len(r)) for r in ranges]
    starts = [o * stride - padding for o in range(m)]
    return [([i for i in range(s, s + kernel * dilation, dilation) if 0 <= i < n], min(s + kernel, n + padding) - s) for s in starts]


def _np_cells(sizes, outs, kernel, stride, padding, dilation=None):
    """(output, its places in a plane, how many there are with the padding) of every output."""
    geometry = [v or (None,) * len(sizes) for v in (kernel, stride, padding)] + [dilation or (1,) * len(sizes)]
    axes = [_np_windows(n, m, *g) for n, m, g in zip(sizes, outs, zip(*geometry))]
    for o in np.ndindex(*outs):
        cells = list(itertools.product(*[axis[i][0] for axis, i in zip(axes, o)]))
        yield (..., *o), [int(np.ravel_multi_index(c, sizes)) for c in cells], math.prod(axis[i][1] for axis, i in zip(axes, o))


def _np_max_pool(x, size, kernel, stride, padding, dilation):
    flat, out, index = x.reshape(*x.shape[:2], -1), np.full(x.shape[:2] + size, -np.inf), np.full(x.shape[:2] + size, -1)
    for o, places, _ in _np_cells(x.shape[2:], size, kernel, stride, padding, dilation):
        if places:
            index[o] = np.array(places)[flat[..., places].argmax(-1)]
            out[o] = flat[..., places].max(-1)
    return out, index


def _np_max_pool_grad(g, index, size, **window):
    out = np.zeros(g.shape[:2] + (math.prod(size),))
    np.add.at(out, (*np.indices(g.shape)[:2], index), g)
    return out.reshape(g.shape[:2] + size)


def _np_shares(sizes, outs, kernel, stride, padding, count_padding, divisor):
    """(output, its places, what its sum is divided by)."""
    for o, places, padded in _np_cells(sizes, outs, kernel, stride, padding):
        yield o, places, divisor or (padded if count_padding else len(places))


def _np_avg_pool(x, size, **window):
    flat, out = x.reshape(*x.shape[:2], -1), np.zeros(x.shape[:2] + size)
    for o, places, divisor in _np_shares(x.shape[2:], size, **window):
        out[o] = flat[..., places].sum(-1) / divisor
    return out


def _np_avg_pool_grad(g, size, **window):
    out = np.zeros(g.shape[:2] + (math.prod(size),))
    for o, places, divisor in _np_shares(size, g.shape[2:], **window):
        out[..., places] += g[o][..., None] / divisor
    return out.reshape(g.shape[:2] + size)


def _max_pool_grad_vjp(gg, index):
    n, c, *sizes = gg.shape
    at = reshape_op(clamp_min(index, 0), shape=(n, c, math.prod(index.shape[2:])))
    found = gather_op(reshape_op(gg, shape=(n, c, math.prod(sizes))), at, dim=2)
    return where_op(index < 0, 0.0, reshape_op(found, shape=index.shape))


def _fixed(kernel, stride, padding, **more):
    return dict(kernel=kernel, stride=stride, padding=padding, **more)


def _average(count_padding=True, divisor=None, **window):
    return dict(count_padding=count_padding, divisor=divisor, **window)


_ADAPTIVE = _fixed(None, None, None)
_MAXIMA = (((2, 3, 6, 8), (3, 4), _fixed((2, 2), (2, 2), (0, 0), dilation=(1, 1))),
           ((1, 2, 7, 5), (4, 4), _fixed((3, 2), (2, 1), (1, 1), dilation=(1, 2))),
           ((1, 2, 6, 9), (4, 3), _fixed((3, 3), (2, 4), (1, 0), dilation=(1, 1))),
           ((2, 2, 9), (4,), _fixed((3,), (2,), (0,), dilation=(1,))),
           ((1, 2, 4, 5, 6), (2, 5, 2), _fixed((2, 3, 3), (2, 1, 3), (0, 1, 1), dilation=(1, 1, 2))),
           ((2, 2, 5, 7), (3, 4), dict(_ADAPTIVE, dilation=None)), ((1, 2, 3, 4, 5), (2, 6, 3), dict(_ADAPTIVE, dilation=None)),
           ((1, 1, 2, 260), (2, 130), _fixed((1, 2), (1, 2), (0, 0), dilation=(1, 1))),
           ((1, 2, 17, 9), (2, 1), dict(_ADAPTIVE, dilation=None)),
           ((1, 2, 12, 9), (2, 1), _fixed((9, 9), (5, 4), (1, 1), dilation=(1, 1))))
_AVERAGES = (((2, 3, 6, 8), (3, 4), _average(**_fixed((2, 2), (2, 2), (0, 0)))),
             ((1, 2, 7, 5), (4, 3), _average(**_fixed((3, 3), (2, 2), (1, 1)))),
             ((1, 2, 7, 5), (4, 3), _average(False, **_fixed((3, 3), (2, 2), (1, 1)))),
             ((2, 2, 10), (5,), _average(**_fixed((3,), (2,), (1,)))),
             ((1, 2, 4, 5, 6), (2, 5, 3), _average(divisor=7, **_fixed((2, 3, 2), (2, 1, 2), (0, 1, 0)))),
             ((2, 2, 5, 7), (3, 4), _average(**_ADAPTIVE)), ((1, 2, 3, 4, 5), (2, 6, 3), _average(**_ADAPTIVE)),
             ((1, 1, 2, 260), (2, 130), _average(False, **_fixed((1, 3), (1, 2), (0, 1)))),
             ((1, 2, 17, 9), (2, 1), _average(**_ADAPTIVE)), ((1, 2, 12, 9), (2, 1), _average(**_fixed((9, 9), (5, 4), (1, 1)))))


def _places(shape, size, window):
    made = cache(lambda: _np_max_pool(-np.arange(math.prod(shape)).reshape(shape) % 7.0, size, **window)[1])
    return Derived(lambda g: made())


max_pool_op = register(
    "max_pool", ("x",), names=("input",), family="pool", pixels=("x",), takes="f", tied=True, outputs=("out", "index"), numpy=_np_max_pool,
    vjp=(lambda g, index, x_shape, kernel, stride, padding, dilation: max_pool_grad(
            g, index, size=x_shape[2:], kernel=kernel, stride=stride, padding=padding, dilation=dilation),),
    cases=tuple(case(shape, size=size, **window) for shape, size, window in _MAXIMA))
max_pool_values = register(
    "max_pool_values", ("x",), names=("input",), family="pool", pixels=("x",), takes="f", tied=True,
    reference=lambda x, **window: max_pool_op(x, **window)[0],
    numpy=lambda x, **window: _np_max_pool(x, **window)[0], cases=max_pool_op.details.cases)
max_pool_grad = register(
    "max_pool_grad", ("g", "index"), family="pool", pixels=("g",), takes={"g": "f", "index": "int64"}, vjp=(_max_pool_grad_vjp, None),
    numpy=_np_max_pool_grad,
    cases=tuple(case(shape[:2] + size, _places(shape, size, window), size=shape[2:], **window) for shape, size, window in _MAXIMA))
avg_pool_op = register(
    "avg_pool", ("x",), names=("input",), family="pool", pixels=("x",), takes="f", tied=True, numpy=_np_avg_pool,
    vjp=(lambda g, x_shape, kernel, stride, padding, count_padding, divisor: avg_pool_grad(
            g, size=x_shape[2:], kernel=kernel, stride=stride, padding=padding, count_padding=count_padding, divisor=divisor),),
    cases=tuple(case(shape, size=size, **window) for shape, size, window in _AVERAGES))
avg_pool_grad = register(
    "avg_pool_grad", ("g",), family="pool", pixels=("g",), takes="f", numpy=_np_avg_pool_grad,
    vjp=(lambda gg, g_shape, kernel, stride, padding, count_padding, divisor: avg_pool_op(
            gg, size=g_shape[2:], kernel=kernel, stride=stride, padding=padding, count_padding=count_padding, divisor=divisor),),
    cases=tuple(case(shape[:2] + size, size=shape[2:], **window) for shape, size, window in _AVERAGES))
