"""Records of the fused cross entropy of logits and class indices."""
from __future__ import annotations

import numpy as np

from volta.ops.creation import arange
from volta.ops.elementwise import where
from volta.ops.movement import _reshape, cast, unsqueeze
from volta.ops.records.reduce import softmax_op
from volta.ops.table import Derived, Labels, case, register


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
    classes = _reshape(arange(x.shape[1], device=x.device), shape=(1, x.shape[1]))
    hot = cast(unsqueeze(target, 1) == classes, x.dtype)
    return (softmax_op(x, dim=1) - hot) * unsqueeze(where(target != ignore_index, g, 0.0), 1)


def _cross_entropy_vjp(g, x, logsumexp, target, ignore_index):
    wide = logsumexp.dtype                      # float32 for float16 logits
    return cast(cross_entropy_grad(cast(g, wide), cast(x, wide), logsumexp, target, ignore_index=ignore_index), x.dtype)


_CASES = (case((4, 5), Labels((4,), 5), ignore_index=-100), case((3, 1), Labels((3,), 1), ignore_index=-100),
          case((6, 4), Labels((6,), 4), ignore_index=2), case((2, 300), Labels((2,), 300), ignore_index=-100))
cross_entropy_op = register(
    "cross_entropy", ("x", "target"), family="loss", outputs=("out", "logsumexp"), wide=("logsumexp",), numpy=_np_cross_entropy, cases=_CASES,
    vjp=(_cross_entropy_vjp, None))
cross_entropy_grad = register(
    "cross_entropy_grad", ("g", "x", "logsumexp", "target"), family="loss", reference=_cross_entropy_grad,
    numpy=_np_cross_entropy_grad,
    cases=tuple(case(c.inputs[0][:1], c.inputs[0], Derived(lambda g, x: np.log(np.exp(x).sum(axis=1))), c.inputs[1], **c.params)
                for c in _CASES))
