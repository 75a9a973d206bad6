"""Records of attention: the fused forward and its derivative, which takes the probabilities anew from the stats of each row: of its scores
in units of log 2, the greatest, and one over the sum of powers of two against it.

What they give lies in memory with the heads of a place behind one another, as in the projections that they are cut from.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op
from volta.ops.records.linalg import matmul_op
from volta.ops.records.math import where_op
from volta.ops.records.reduce import amax_op, softmax_op, sum_op, sum_to
from volta.ops.records.view import permute_op, reshape_op
from volta.ops.table import Derived, case, create, register

if TYPE_CHECKING:
    from volta.tensor import Tensor


# ---------------------------------------------------------------- composed of simpler ops
def _grouped(x, groups):
    """(B, H, L, E) as (B, G, H / G, L, E)."""
    b, heads, length, width = x.shape
    return reshape_op(x, shape=(b, groups, heads // max(groups, 1), length, width))


def _flat(x):
    """(B, G, H / G, L, E) as (B, H, L, E)."""
    b, groups, ratio, length, width = x.shape
    return reshape_op(x, shape=(b, groups * ratio, length, width))


def _turned(x):
    return permute_op(x, dims=(0, 1, 2, 4, 3))


def probabilities(q: Tensor, k: Tensor, mask: Tensor | None, causal: bool, scale: float) -> Tensor:
    """(B, H, L, S): softmax of the scores; zeros for a query that may see no key."""
    b, heads, length, _ = q.shape
    groups, keys = k.shape[1:3]
    shape = (b, heads, length, keys)
    scores = reshape_op(matmul_op(_grouped(q, groups), _turned(_grouped(k, groups))), shape=shape) * scale
    if mask is not None:
        scores = scores + cast(mask, scores.dtype)
    if causal:
        rows, columns = (reshape_op(create(arange_op, 0, 1, n, dtype=core.dtype_from_code(3), device=q.device), shape=s)
                         for n, s in ((length, (length, 1)), (keys, (1, keys))))
        scores = where_op(rows >= columns, scores, -math.inf)
    if mask is None or not keys:
        return softmax_op(scores, dim=3)
    blind = amax_op(scores.detach(), dim=(3,), keepdim=True) == -math.inf
    return where_op(blind, 0.0, softmax_op(where_op(blind, 0.0, scores), dim=3))


def weighted(p: Tensor, v: Tensor) -> Tensor:
    """(B, H, L, V): the values, weighted by p[B, H, L, S]."""
    groups = v.shape[1]
    b, heads, length, keys = p.shape
    return _flat(matmul_op(reshape_op(p, shape=(b, groups, heads // max(groups, 1), length, keys)), _grouped(v, groups)))


def _slopes(g, p, v):
    """The gradient of the scores, (B, H, L, S)."""
    groups = v.shape[1]
    products = reshape_op(matmul_op(_grouped(g, groups), _turned(_grouped(v, groups))), shape=p.shape)
    return p * (products - sum_op(p * products, dim=(3,), keepdim=True))


def _attention_grad(g, q, k, v, mask, out, stats, causal, scale):
    """The fused derivative in simpler ops: out and stats are taken from q, k and v again, so that higher orders see them depend."""
    groups = k.shape[1]
    p = probabilities(q, k, mask, causal, scale)
    b, heads, length, keys = p.shape
    slopes, p = (reshape_op(x, shape=(b, groups, heads // max(groups, 1), length, keys)) for x in (_slopes(g, p, v) * scale, p))
    dq = matmul_op(slopes, _grouped(k, groups))
    dk, dv = (sum_op(matmul_op(_turned(a), _grouped(x, groups)), dim=(2,), keepdim=True) for a, x in ((slopes, q), (p, g)))
    return _flat(dq), _flat(dk), _flat(dv)


def _attention_vjp(g, q, k, v, mask, out, stats, causal, scale, needs):
    gradients = (None,) * 3
    if any(needs[:3]):
        gradients = attention_grad(g, q, k, v, mask, out, stats, causal=causal, scale=scale)
    of_mask = None
    if needs[3]:
        of_mask = cast(sum_to(attention_slopes(g, q, k, v, mask, out, stats, causal=causal, scale=scale), mask.shape), mask.dtype)
    return (*[d if need else None for d, need in zip(gradients, needs)], of_mask)


def _attention_slopes(g, q, k, v, mask, out, stats, causal, scale):
    return _slopes(g, probabilities(q, k, mask, causal, scale), v)


# ---------------------------------------------------------------- in NumPy, for the tests
def _np_scores(q, k, mask, causal, scale):
    scores = np.einsum("bhle,bhse->bhls", q, k) * scale + (0.0 if mask is None else mask)
    return np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf) if causal else scores


def np_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None = None, causal: bool = False,
                 scale: float = 1.0) -> tuple:
    """(out, stats)."""
    q, k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1).astype(np.float64) for x in (q, k, v))
    scores = _np_scores(q, k, mask, causal, scale)
    top = np.maximum(scores.max(axis=3, keepdims=True, initial=-np.inf), -1e300)
    e = np.exp(scores - top)
    total = e.sum(axis=3, keepdims=True)
    out = np.einsum("bhls,bhse->bhle", e / np.where(total == 0, 1, total), v)
    none = total == 0
    return out, np.concatenate((np.where(none, np.inf, top / math.log(2)), np.where(none, 0, 1 / np.where(none, 1, total))), axis=3)


def _np_attention_slopes(g, q, k, v, mask, out, stats, causal, scale):
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    p = np.exp2(_np_scores(q, k, mask, causal, scale) / math.log(2) - stats[..., :1]) * stats[..., 1:]
    return p * (np.einsum("bhle,bhse->bhls", g, v) - np.einsum("bhle,bhle->bhl", g, out)[..., None])


def _np_attention_grad(g, q, k, v, mask, out, stats, causal, scale):
    b, groups, keys, _ = k.shape
    ratio = q.shape[1] // groups
    slopes = _np_attention_slopes(g, q, k, v, mask, out, stats, causal, scale) * scale
    k = np.repeat(k, ratio, axis=1)
    p = np.exp2(_np_scores(q, k, mask, causal, scale) / math.log(2) - stats[..., :1]) * stats[..., 1:]
    dk, dv = (np.einsum("bhls,bhle->bhse", a, x).reshape(b, groups, ratio, keys, -1).sum(axis=2) for a, x in ((slopes, q), (p, g)))
    return np.einsum("bhls,bhse->bhle", slopes, k), dk, dv


# ---------------------------------------------------------------- records
def _masked(*shape, hidden=True):
    """A sample mask: numbers of which every seventh, and the last row, is -inf where some are hidden."""
    def make(*arrays):
        mask = np.cos(np.arange(float(math.prod(shape)))).reshape(shape)
        if hidden:
            mask.reshape(-1)[::7] = -np.inf
            mask[..., -1, :] = -np.inf
        return mask
    return Derived(make)


_CASES = (case((2, 2, 5, 4), (2, 2, 7, 4), (2, 2, 7, 3), None, causal=False, scale=0.5),
          case((1, 4, 4, 2), (1, 2, 6, 2), (1, 2, 6, 2), None, causal=True, scale=0.3),
          case((2, 2, 5, 4), (2, 1, 3, 4), (2, 1, 3, 4), _masked(2, 1, 5, 3, hidden=False), causal=False, scale=0.5),
          case((1, 1, 70, 1), (1, 1, 67, 1), (1, 1, 67, 1), _masked(1, 1, 1, 67), causal=True, scale=-0.4),
          case((1, 3, 2, 33), (1, 3, 3, 33), (1, 3, 3, 36), _masked(1, 3, 2, 1), causal=False, scale=0.1))
_TAKES = {"q": "f", "k": "=q", "v": "=q", "mask": "=q or wide?"}
attention_op = register(
    "attention", ("q", "k", "v", "mask"), family="attention", outputs=("out", "stats"), takes=_TAKES, wide=("stats",),
    vjp=_attention_vjp, numpy=np_attention, cases=_CASES, rtol=1e-4)
_GRAD_TAKES = {"g": "f", **_TAKES, "q": "=g", "out": "=g", "stats": "=g or wide"}
_GRAD_CASES = tuple(case(
    c.inputs[0][:3] + c.inputs[2][3:], *c.inputs,
    *[Derived(lambda g, q, k, v, mask, *_, i=i, c=c: np_attention(q, k, v, mask, **c.params)[i]) for i in (0, 1)], **c.params)
    for c in _CASES)
attention_grad = register(
    "attention_grad", ("g", "q", "k", "v", "mask", "out", "stats"), family="attention", outputs=("dq", "dk", "dv"),
    takes=_GRAD_TAKES, reference=_attention_grad, numpy=_np_attention_grad, rtol=1e-4, cases=_GRAD_CASES)
attention_slopes = register(            # of the scores, which the mask is added to
    "attention_slopes", ("g", "q", "k", "v", "mask", "out", "stats"), family="attention", takes={**_GRAD_TAKES, "mask": "=q or wide"},
    reference=_attention_slopes, numpy=_np_attention_slopes, rtol=1e-4,
    cases=tuple([c for c in _GRAD_CASES if c.inputs[4] is not None]))
