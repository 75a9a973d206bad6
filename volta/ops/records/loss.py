"""Records of the fused cross entropy of logits and class indices."""
from __future__ import annotations

import numpy as np

from volta.dtypes import int64
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op
from volta.ops.records.math import where_op
from volta.ops.records.reduce import softmax_op
from volta.ops.records.view import reshape_op
from volta.ops.table import Derived, Labels, case, create, register


def _np_cross_entropy(x, target, ignore_index):
    top = x.max(axis=1, keepdims=True)
    lse = (np.log(np.exp(x - top).sum(axis=1, keepdims=True)) + top)[:, 0]
    picked = x[np.arange(len(x)), np.where(target == ignore_index, 0, target)]
    return np.where(target == ignore_index, 0.0, lse - picked), lse


def _np_cross_entropy_grad(g, x, logsumexp, target, ignore_index):
    hot = target[:, None] == np.arange(x.shape[1])
    return (np.exp(x - logsumexp[:, None]) - hot) * (g * (target != ignore_index))[:, None]


def _cross_entropy_grad(g, x, logsumexp, target, ignore_index):
    """(softmax(x) - one_hot(target)) * g in simpler ops, the softmax taken from x again for higher orders."""
    rows, classes = x.shape
    labels = create(arange_op, 0, 1, classes, dtype=int64, device=x.device)
    hot = cast(reshape_op(target, shape=(rows, 1)) == reshape_op(labels, shape=(1, classes)), x.dtype)
    return (softmax_op(x, dim=1) - hot) * reshape_op(where_op(target != ignore_index, g, 0.0), shape=(rows, 1))


def _cross_entropy_vjp(g, x, logsumexp, target, ignore_index):
    wide = logsumexp.dtype                      # float32 for float16 logits
    return cast(cross_entropy_grad(cast(g, wide), cast(x, wide), logsumexp, target, ignore_index=ignore_index), x.dtype)


_CASES = (case((4, 5), Labels((4,), 5), ignore_index=-100), case((3, 1), Labels((3,), 1), ignore_index=-100),
          case((6, 4), Labels((6,), 4), ignore_index=2), case((2, 300), Labels((2,), 300), ignore_index=-100))
cross_entropy_op = register(
    "cross_entropy", ("x", "target"), names=("input", "target"), family="loss", takes={"x": "f", "target": "int64"},
    outputs=("out", "logsumexp"), wide=("logsumexp",), numpy=_np_cross_entropy, cases=_CASES, vjp=(_cross_entropy_vjp, None))
cross_entropy_grad = register(
    "cross_entropy_grad", ("g", "x", "logsumexp", "target"), family="loss", reference=_cross_entropy_grad,
    takes={"g": "f", "x": "=g", "logsumexp": "=g", "target": "int64"}, numpy=_np_cross_entropy_grad,
    cases=tuple(case(c.inputs[0][:1], c.inputs[0], Derived(lambda g, x: np.log(np.exp(x).sum(axis=1))), c.inputs[1], **c.params)
                for c in _CASES))
