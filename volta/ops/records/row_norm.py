"""Records of the normalisation of rows: layer, RMS, group and instance normalisation are calls of one kernel.

The elements are rows of `length`. A row is runs of `inner` elements that share a weight; the weights of `groups` rows follow one another,
then begin anew. Unless `centred`, the mean counts as 0. Without `sums` the gradients of weight and bias are not wanted, and are empty.
What `arrived` at x already is added to its gradient.
"""
from __future__ import annotations

import numpy as np

from volta._kernels.core.direct import bare
from volta.ops.records.math import reciprocal, rsqrt
from volta.ops.records.norm import in_wide
from volta.ops.records.reduce import mean_op, sum_op
from volta.ops.records.view import reshape_op, slice_op
from volta.ops.table import Derived, case, register


def _np_rows(x, length, groups, inner):
    return x.reshape(-1, groups, length // inner, inner)


def _np_statistics(x, length, groups, inner, centred, eps):
    """Mean and rstd in NumPy, shaped to broadcast against the rows."""
    rows = _np_rows(x, length, groups, inner)
    mean = rows.mean(axis=(2, 3), keepdims=True) * centred
    return mean, 1 / np.sqrt(((rows - mean) ** 2).mean(axis=(2, 3), keepdims=True) + eps)


def _np_row_norm(x, weight, bias, length, groups, inner, centred, eps):
    mean, rstd = _np_statistics(x, length, groups, inner, centred, eps)
    out = (_np_rows(x, length, groups, inner) - mean) * rstd
    out = out if weight is None else out * weight.reshape(groups, -1, 1)
    out = out if bias is None else out + bias.reshape(groups, -1, 1)
    return out.reshape(x.shape), mean.reshape(-1), rstd.reshape(-1)


def _np_row_norm_grad(g, x, weight, mean, rstd, arrived, length, groups, inner, centred, sums):
    g, rows = _np_rows(g, length, groups, inner), _np_rows(x, length, groups, inner)
    mean, rstd = mean.reshape(-1, groups, 1, 1), rstd.reshape(-1, groups, 1, 1)
    normal, h = (rows - mean) * rstd, g if weight is None else g * weight.reshape(groups, -1, 1)
    level = h.mean(axis=(2, 3), keepdims=True) * centred
    dx = rstd * (h - level - normal * (h * normal).mean(axis=(2, 3), keepdims=True))
    dx = dx.reshape(x.shape) + (0 if arrived is None else arrived)
    return dx, *[t.sum(axis=(0, 3)).reshape(-1) if sums else np.zeros(0) for t in (g * normal, g)]


def _row_norm_grad(g, x, weight, mean, rstd, arrived, length, groups, inner, centred, sums):
    """The fused derivative in simpler ops. Statistics are taken from x again, so that higher orders see them depend on it."""
    shape, dims = (x._size // (groups * length), groups, length // inner, inner), (2, 3)
    nothing = slice_op(rstd, starts=(0,), sizes=(0,), steps=(1,))
    g, rows, rstd = reshape_op(g, shape=shape), reshape_op(x, shape=shape), reshape_op(rstd, shape=shape[:2] + (1, 1))
    away = rows - mean_op(rows, dim=dims, keepdim=True) if centred else rows
    variance = mean_op(away * away, dim=dims, keepdim=True)
    scale = rsqrt(variance + (reciprocal(rstd * rstd) - variance).detach())
    normal = away * scale
    h = g if weight is None else g * reshape_op(weight, shape=shape[1:3] + (1,))
    dx = h - normal * mean_op(h * normal, dim=dims, keepdim=True)
    dx = (dx - mean_op(h, dim=dims, keepdim=True) if centred else dx) * scale
    columns = [reshape_op(sum_op(t, dim=(0, 3), keepdim=False), shape=(shape[1] * shape[2],)) if sums else nothing for t in (g * normal, g)]
    dx = reshape_op(dx, shape=x.shape)
    return dx if arrived is None else dx + arrived, *columns


def _row_norm_vjp(g, x, weight, mean, rstd, x_arrived, needs, length, groups, inner, centred):
    if mean.dtype is not x.dtype and g.dtype is x.dtype and bare(g, x):             # the CPU's kernel takes 16 bits
        gradients = row_norm_grad(g, x, weight, mean, rstd, x_arrived, length=length, groups=groups, inner=inner, centred=centred,
                                  sums=needs[1] or needs[2])
        return tuple([d if need else None for d, need in zip(gradients, needs)])
    return in_wide(row_norm_grad, needs, g, x, weight, mean, rstd, x_arrived, length=length, groups=groups, inner=inner, centred=centred,
                   sums=needs[1] or needs[2])


def _rows(length, groups=1, inner=1, centred=True):
    return {"length": length, "groups": groups, "inner": inner, "centred": centred}


_CASES = (((4, 5), (5,), _rows(5)), ((2, 3, 4), (12,), _rows(12)), ((70, 8), (8,), _rows(8, centred=False)),
          ((1, 1300), (1300,), _rows(1300)), ((3, 6, 5, 2), (6,), _rows(30, 2, 10)), ((2, 4, 3), (4,), _rows(3, 4, 3)),
          ((3, 8), (8,), _rows(4, 2)), ((2, 4, 8), (4,), _rows(16, 2, 8, centred=False)), ((2, 2, 300), (2,), _rows(600, 1, 300)))


def _statistic(which, p):
    return Derived(lambda g, x, *_: _np_statistics(x, eps=1e-5, **p)[which].reshape(-1))


row_norm_op = register(
    "row_norm", ("x", "weight", "bias"), names=("input", "weight", "bias"), family="norm", pixels=("x",), outputs=("out", "mean", "rstd"),
    takes={"x": "f", "weight": "=x?", "bias": "=x?"}, wide=("mean", "rstd"), vjp=_row_norm_vjp, numpy=_np_row_norm, rtol=1e-4,
    cases=tuple(case(s, w, w, eps=1e-5, **p) for s, w, p in _CASES) + (case((4, 5), None, None, eps=0.1, **_CASES[0][2]),))
row_norm_grad = register(
    "row_norm_grad", ("g", "x", "weight", "mean", "rstd", "arrived"), family="norm", pixels=("g",), outputs=("dx", "dweight", "dbias"),
    takes={"g": "f", "x": "=g", "weight": "=g?", "mean": "=g or wide", "rstd": "=g or wide", "arrived": "=g?"}, reference=_row_norm_grad,
    numpy=_np_row_norm_grad, rtol=1e-4,
    cases=tuple(case(s, s, w, _statistic(0, p), _statistic(1, p), s if i % 2 else None, sums=w is not None, **p)
                for i, (s, w, p) in enumerate((*_CASES, *_CASES[:5], ((4, 5), None, _CASES[0][2]), ((3, 6, 5, 2), None, _CASES[4][2])))))
