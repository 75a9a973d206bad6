"""The windows of images as columns, and columns added where they were: two records that are each other's derivatives."""
from __future__ import annotations

import math

import numpy as np

from volta.ops.records.view import contiguous_op, permute_op, place, reshape_op, slice_op, unfold_op
from volta.ops.table import case, register


def window_views(x, kernel, stride, dilation):
    """The windows of images (N, C, ...) as further dimensions behind theirs, in place."""
    for i, (k, s, d) in enumerate(zip(kernel, stride, dilation), 2):
        x = unfold_op(x, dim=i, size=d * (k - 1) + 1, step=s)
        if d > 1:
            x = slice_op(x, starts=(0,) * x.ndim, sizes=x.shape[:-1] + (k,), steps=(1,) * (x.ndim - 1) + (d,))
    return x


def _columns(x, kernel, stride, padding, dilation):
    """The windows of images (N, C, H, W), padded by zeros, as columns (N, C * kh * kw, windows)."""
    if any(padding):
        shape = x.shape[:2] + tuple([n + 2 * p for n, p in zip(x.shape[2:], padding)])
        x = place(x, shape=shape, starts=(0, 0, *padding), steps=(1,) * 4, value=0)
    found = contiguous_op(permute_op(window_views(x, kernel, stride, dilation), dims=(0, 1, 4, 5, 2, 3)))
    return reshape_op(found, shape=(found.shape[0], math.prod(found.shape[1:4]), math.prod(found.shape[4:])))


def np_fold(x, size, kernel, stride, padding, dilation):
    """The definition in NumPy, for the tests."""
    whole = [n + 2 * p for n, p in zip(size, padding)]
    windows = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(whole, kernel, stride, dilation)]
    x = x.reshape(x.shape[0], -1, *kernel, *windows)
    out = np.zeros((*x.shape[:2], *whole))
    for k in np.ndindex(*kernel):
        at = [slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(k, dilation, windows, stride)]
        out[(..., *at)] += x[:, :, *k]
    return out[..., padding[0]:whole[0] - padding[0], padding[1]:whole[1] - padding[1]]


def _np_columns(x, kernel, stride, padding, dilation):
    x = np.pad(x, [(0, 0)] * 2 + [(p, p) for p in padding])
    windows = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    parts = [x[(..., *[slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(k, dilation, windows, stride)])]
             for k in np.ndindex(*kernel)]
    return np.stack(parts, 2).reshape(x.shape[0], x.shape[1] * math.prod(kernel), math.prod(windows))


def _window(kernel, stride=(1, 1), padding=(0, 0), dilation=(1, 1)):
    return {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}


fold_op = register(
    "fold", ("x",), family="fold", takes="f", numpy=np_fold,
    vjp=(lambda g, kernel, stride, padding, dilation: columns_op(g, kernel=kernel, stride=stride, padding=padding, dilation=dilation),),
    cases=(case((2, 12, 12), size=(4, 5), **_window((2, 2))), case((1, 8, 6), size=(5, 4), **_window((2, 2), (2, 2), (1, 1), (2, 2))),
           case((2, 18, 70), size=(7, 10), **_window((3, 3), padding=(1, 1))),
           case((1, 6, 7), size=(3, 8), **_window((3, 2), (1, 1), (0, 1), (1, 3)))))
columns_op = register(
    "columns", ("x",), family="fold", takes="fb", kinds="fb", numpy=_np_columns, reference=_columns,
    vjp=(lambda g, x_shape, kernel, stride, padding, dilation: fold_op(
            g, size=x_shape[2:], kernel=kernel, stride=stride, padding=padding, dilation=dilation),),
    cases=(case((2, 3, 4, 5), **_window((2, 2))), case((1, 2, 5, 4), **_window((2, 2), (2, 2), (1, 1), (2, 2))),
           case((1, 1, 3, 8), **_window((3, 2), (1, 1), (0, 1), (1, 3))), case((2, 3, 4, 4), **_window((1, 1)))))
