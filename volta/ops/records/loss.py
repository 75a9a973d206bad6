"""Records of the fused cross entropy of logits and class indices."""
from __future__ import annotations

import numpy as np

from volta.dtypes import int64
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op
from volta.ops.records.math import where_op
from volta.ops.records.reduce import np_softmax, softmax_grad
from volta.ops.records.view import reshape_op
from volta.ops.table import Labels, case, create, register


def _np_cross_entropy(x, target, ignore_index):
    picked = np_softmax(x, 1)[np.arange(len(x)), np.where(target == ignore_index, 0, target)]
    return np.where(target == ignore_index, 0.0, -np.log(picked))


def _np_cross_entropy_grad(g, softmax, target, ignore_index):
    hot = target[:, None] == np.arange(softmax.shape[1])
    return (softmax - hot) * (g * (target != ignore_index))[:, None]


def _cross_entropy_grad(g, softmax, target, ignore_index):
    """(softmax - one_hot(target)) * g in simpler ops, for higher orders."""
    rows, classes = softmax.shape
    labels = create(arange_op, 0, 1, classes, dtype=int64, device=softmax.device)
    hot = cast(reshape_op(target, shape=(rows, 1)) == reshape_op(labels, shape=(1, classes)), softmax.dtype)
    return (softmax - hot) * reshape_op(where_op(target != ignore_index, g, 0.0), shape=(rows, 1))


def _cross_entropy_vjp(g_out, g_softmax, x_dtype, softmax, target, ignore_index):
    grad = None
    if g_out is not None:                       # softmax is float32 for float16 logits
        grad = cross_entropy_grad(cast(g_out, softmax.dtype), softmax, target, ignore_index=ignore_index)
    if g_softmax is not None:                   # of a derivative's derivative
        again = softmax_grad(g_softmax, softmax, dim=1)
        grad = again if grad is None else grad + again
    return cast(grad, x_dtype)


_CASES = (case((4, 5), Labels((4,), 5), ignore_index=-100), case((3, 1), Labels((3,), 1), ignore_index=-100),
          case((6, 4), Labels((6,), 4), ignore_index=2), case((2, 300), Labels((2,), 300), ignore_index=-100))
_TAKES = {"x": "f", "target": "int64"}
cross_entropy_softmax = register(
    "cross_entropy_softmax", ("x", "target"), names=("input", "target"), family="loss", takes=_TAKES, outputs=("out", "softmax"),
    wide=("softmax",), differentiable=("out", "softmax"), cases=_CASES, vjp=(_cross_entropy_vjp, None),
    numpy=lambda x, target, ignore_index: (_np_cross_entropy(x, target, ignore_index), np_softmax(x, 1)))
cross_entropy_op = register(
    "cross_entropy", ("x", "target"), names=("input", "target"), family="loss", takes=_TAKES, cases=_CASES, numpy=_np_cross_entropy,
    reference=lambda x, target, ignore_index: cross_entropy_softmax(x, target, ignore_index=ignore_index)[0])
cross_entropy_grad = register(
    "cross_entropy_grad", ("g", "softmax", "target"), family="loss", reference=_cross_entropy_grad,
    takes={"g": "f", "softmax": "=g", "target": "int64"}, numpy=_np_cross_entropy_grad,
    cases=tuple(case(c.inputs[0][:1], c.inputs[0], c.inputs[1], **c.params) for c in _CASES))
