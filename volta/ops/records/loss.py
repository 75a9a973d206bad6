"""Records of the fused cross entropy of logits and class indices, and of the log-probabilities that labels name, reduced."""
from __future__ import annotations

import numpy as np

from volta.dtypes import int64
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op
from volta.ops.records.index import gather_op, index_add_op, index_select_op, scatter_add_op
from volta.ops.records.math import clamp_op, positive_part, where_op
from volta.ops.records.reduce import np_softmax, softmax_grad, sum_op
from volta.ops.records.view import reshape_op, slice_op
from volta.ops.table import Derived, Labels, case, create, register


def _np_cross_entropy(x, target, ignore_index, smoothing):
    logp = np.log(np_softmax(x, 1))
    picked = logp[np.arange(len(x)), np.where(target == ignore_index, 0, target)]
    return np.where(target == ignore_index, 0.0, (smoothing - 1) * picked - smoothing * logp.mean(axis=1))


def _np_cross_entropy_grad(g, softmax, target, ignore_index, smoothing):
    hot = target[:, None] == np.arange(softmax.shape[1])
    return (softmax - (1 - smoothing) * hot - smoothing / softmax.shape[1]) * (g * (target != ignore_index))[:, None]


def _cross_entropy_grad(g, softmax, target, ignore_index, smoothing):
    """(softmax - one_hot(target), smoothed) * g in simpler ops, for higher orders."""
    rows, classes = softmax.shape
    labels = create(arange_op, 0, 1, classes, dtype=int64, device=softmax.device)
    hot = cast(reshape_op(target, shape=(rows, 1)) == reshape_op(labels, shape=(1, classes)), softmax.dtype)
    hot = hot * (1 - smoothing) + smoothing / classes if smoothing else hot
    return (softmax - hot) * reshape_op(where_op(target != ignore_index, g, 0.0), shape=(rows, 1))


def _cross_entropy_vjp(g_out, g_softmax, x_dtype, softmax, target, ignore_index, smoothing):
    grad = None
    if g_out is not None:                       # softmax is float32 for float16 logits
        grad = cross_entropy_grad(cast(g_out, softmax.dtype), softmax, target, ignore_index=ignore_index, smoothing=smoothing)
    if g_softmax is not None:                   # of a derivative's derivative
        again = softmax_grad(g_softmax, softmax, dim=1)
        grad = again if grad is None else grad + again
    return cast(grad, x_dtype)


# ---------------------------------------------------------------- log-probabilities that labels name
def _np_nll(x, target, weight, ignore_index, reduction, picked):
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    weights = (np.ones(target.shape) if weight is None else weight[safe]) * kept
    found = x if picked else -np.take_along_axis(x, safe[:, None], 1)[:, 0]
    losses = np.where(kept, found * weights, 0.0)
    if reduction == "none":
        return losses, np.zeros(0)
    return losses.sum() / (weights.sum() if reduction == "mean" else 1), weights.sum().reshape(1) if reduction == "mean" else np.zeros(0)


def label_weights(target, weight, ignore_index, like):
    """Of each label its class's weight, or 1, and 0 where it is ignored."""
    kept = target != ignore_index
    if weight is None:
        return cast(kept, like.dtype)
    safe = reshape_op(where_op(kept, target, 0), shape=(target._size,))
    return where_op(kept, reshape_op(index_select_op(weight, safe, dim=0), shape=target.shape), 0.0)


def sum_of_weights(weights, total):
    """The sum that is known already; higher orders see that it depends on the weights."""
    found = sum_op(weights, dim=tuple(range(weights.ndim)), keepdim=False)
    return found + (reshape_op(total, shape=()) - found).detach()


def _nll(x, target, weight, ignore_index, reduction, picked):
    """The loss in simpler ops."""
    kept, weights = target != ignore_index, label_weights(target, weight, ignore_index, x)
    nothing = slice_op(reshape_op(x, shape=(x._size,)), starts=(0,), sizes=(0,), steps=(1,)).detach()
    losses, shape = x, (target.shape[0], 1, *target.shape[1:])
    if not picked:
        losses = -reshape_op(gather_op(x, reshape_op(where_op(kept, target, 0), shape=shape), dim=1), shape=target.shape)
    losses = where_op(kept, losses * weights, 0.0)
    if reduction == "none":
        return losses, nothing
    dims = tuple(range(target.ndim))
    losses = sum_op(losses, dim=dims, keepdim=False)
    if reduction == "sum":
        return losses, nothing
    total = sum_op(weights, dim=dims, keepdim=False)
    return losses / total, reshape_op(total, shape=(1,)).detach()


def _np_nll_grad(g, target, weight, total, shape, ignore_index, reduction, picked):
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    slopes = (np.ones(target.shape) if weight is None else weight[safe]) * kept * g / (total[0] if reduction == "mean" else 1)
    if picked:
        return slopes
    out = np.zeros(shape)
    np.put_along_axis(out, safe[:, None], -slopes[:, None], 1)
    return out


def _nll_grad(g, target, weight, total, shape, ignore_index, reduction, picked):
    """The gradient in simpler ops."""
    slopes = weights = label_weights(target, weight, ignore_index, g)
    if reduction == "mean":
        slopes = weights / sum_of_weights(weights, total)
    slopes = slopes * g
    if picked:
        return slopes
    kept, line = target != ignore_index, (shape[0], 1, *shape[2:])
    at = reshape_op(where_op(kept, target, 0), shape=line)
    return scatter_add_op(-reshape_op(slopes, shape=line), at, dim=1, size=shape[1])


def _nll_vjp(g, target, weight, total, x_shape, ignore_index, reduction, picked):
    return nll_grad(g, target, weight, total, shape=x_shape, ignore_index=ignore_index, reduction=reduction, picked=picked)


def _nll_weight_vjp(g, x, target, weight, out, total, weight_shape, ignore_index, reduction, picked):
    kept = target != ignore_index
    safe = where_op(kept, target, 0)
    if not picked:
        x = -reshape_op(gather_op(x, reshape_op(safe, shape=(target.shape[0], 1, *target.shape[1:])), dim=1), shape=target.shape)
    if reduction == "mean":
        x = (x - out) / sum_of_weights(label_weights(target, weight, ignore_index, x), total)
    slopes = where_op(kept, x, 0.0) * g
    return index_add_op(*[reshape_op(t, shape=(target._size,)) for t in (slopes, safe)], dim=0, size=weight_shape[0])


def _reduced(reduction, ignore_index=-100, picked=False):
    return {"ignore_index": ignore_index, "reduction": reduction, "picked": picked}


def _weight_sum(p):
    """What the gradient gets of the loss: no number of its own."""
    return Derived(lambda g, target, weight: _np_nll(np.zeros(target.shape), target, weight, p["ignore_index"], "mean", True)[1])


_NLL = (((4, 5), (4,), 5, None, _reduced("mean")), ((6, 4), (6,), 4, (4,), _reduced("mean", 2)),
        ((2, 3, 4), (2, 4), 3, (3,), _reduced("none", 1)), ((2, 3, 2, 2), (2, 2, 2), 3, None, _reduced("sum")),
        ((3, 4), (3, 4), 5, (5,), _reduced("mean", 3, True)), ((5,), (5,), 3, None, _reduced("sum", 1, True)))
nll_op = register(
    "nll", ("x", "target", "weight"), names=("input", "target", "weight"), family="loss", outputs=("out", "total"),
    takes={"x": "f", "target": "int64", "weight": "=x?"}, vjp=(_nll_vjp, None, _nll_weight_vjp), reference=_nll, numpy=_np_nll,
    domain=(0.1, 1.0), cases=tuple(case(x, Labels(t, classes), w, **p) for x, t, classes, w, p in _NLL))
nll_grad = register(
    "nll_grad", ("g", "target", "weight", "total"), family="loss", reference=_nll_grad, numpy=_np_nll_grad, domain=(0.1, 1.0),
    takes={"g": "f", "target": "int64", "weight": "=g?", "total": "=g"},
    cases=tuple(case(t if p["reduction"] == "none" else (), Labels(t, classes), w, _weight_sum(p) if p["reduction"] == "mean" else (0,),
                     shape=x, **p)
                for x, t, classes, w, p in _NLL))


# ---------------------------------------------------------------- scores within a margin of the label's
def _np_margins(x, target, p, margin):
    """(by how much each score comes within the margin, 0 of the label's own; its derivative)"""
    far = margin - np.take_along_axis(x, target[:, None], 1) + x
    terms = np.where((far > 0) & (target[:, None] != np.arange(x.shape[1])), far, 0.0)
    return terms ** p, 2 * terms if p == 2 else (terms > 0).astype(x.dtype)


def _np_multi_margin(x, target, weight, p, margin):
    return _np_margins(x, target, p, margin)[0].sum(1) / x.shape[1] * (1 if weight is None else weight[target])


def _np_multi_margin_grad(g, x, target, weight, p, margin):
    slopes = _np_margins(x, target, p, margin)[1]
    np.put_along_axis(slopes, target[:, None], -slopes.sum(1, keepdims=True), 1)
    return slopes * (g * (1 if weight is None else weight[target]))[:, None] / x.shape[1]


def _margins(x, target, weight, margin):
    """(terms of all classes, 0 of the label's own; which is the label; what each row counts), for higher orders."""
    rows, classes = x.shape
    labels = reshape_op(clamp_op(target, 0, classes - 1), shape=(rows, 1))
    terms = positive_part(margin - gather_op(x, labels, dim=1) + x)
    own = labels == reshape_op(create(arange_op, 0, 1, classes, dtype=int64, device=x.device), shape=(1, classes))
    scale = 1.0 if weight is None else index_select_op(weight, reshape_op(labels, shape=(rows,)), dim=0)
    return where_op(own, 0.0, terms), own, scale


def _multi_margin(x, target, weight, p, margin):
    terms, _, scale = _margins(x, target, weight, margin)
    total = sum_op(terms * terms if p == 2 else terms, dim=(1,), keepdim=False) / float(x.shape[1])
    return where_op(total > 0, total * scale, total)        # an infinite weight of nothing is nothing


def _multi_margin_grad(g, x, target, weight, p, margin):
    terms, own, scale = _margins(x, target, weight, margin)
    slopes = 2.0 * terms if p == 2 else where_op(terms > 0, 1.0, terms * 0.0)
    slopes = where_op(own, -sum_op(slopes, dim=(1,), keepdim=True), slopes)
    return where_op(slopes == 0, slopes, slopes * reshape_op(g * scale / float(x.shape[1]), shape=(x.shape[0], 1)))


def _multi_margin_vjp(g, x, target, weight, p, margin):
    return multi_margin_grad(g, x, target, weight, p=p, margin=margin)


def _multi_margin_weight_vjp(g, x, target, weight_shape, p, margin):
    classes = weight_shape[0]
    return index_add_op(g * multi_margin_op(x, target, None, p=p, margin=margin), clamp_op(target, 0, classes - 1), dim=0, size=classes)


_MARGINS = (((4, 5), None, 1, 1.0), ((3, 4), (4,), 2, 0.5), ((2, 300), None, 2, 1.0), ((3, 301), (301,), 1, 0.75), ((3, 1), None, 1, 1.0))
multi_margin_op = register(
    "multi_margin", ("x", "target", "weight"), names=("input", "target", "weight"), family="loss",
    takes={"x": "f", "target": "int64", "weight": "=x?"}, vjp=(_multi_margin_vjp, None, _multi_margin_weight_vjp), reference=_multi_margin,
    numpy=_np_multi_margin, cases=tuple(case(s, Labels(s[:1], s[1]), w, p=p, margin=margin) for s, w, p, margin in _MARGINS))
multi_margin_grad = register(
    "multi_margin_grad", ("g", "x", "target", "weight"), family="loss", reference=_multi_margin_grad, numpy=_np_multi_margin_grad,
    takes={"g": "f", "x": "=g", "target": "int64", "weight": "=g?"},
    cases=tuple(case(s[:1], s, Labels(s[:1], s[1]), w, p=p, margin=margin) for s, w, p, margin in _MARGINS))


# ---------------------------------------------------------------- scores of classes
_CASES = tuple([case((n, classes), Labels((n,), classes), ignore_index=ignored, smoothing=smoothing) for n, classes, ignored, smoothing in (
    (4, 5, -100, 0.0), (3, 1, -100, 0.0), (6, 4, 2, 0.0), (2, 300, -100, 0.0), (6, 4, 2, 0.1), (2, 300, -100, 0.3), (5, 17, -100, 1.0))])
_TAKES = {"x": "f", "target": "int64"}
cross_entropy_softmax = register(
    "cross_entropy_softmax", ("x", "target"), names=("input", "target"), family="loss", takes=_TAKES, outputs=("out", "softmax"),
    wide=("softmax",), differentiable=("out", "softmax"), cases=_CASES, vjp=(_cross_entropy_vjp, None),
    numpy=lambda x, target, **params: (_np_cross_entropy(x, target, **params), np_softmax(x, 1)))
cross_entropy_op = register(
    "cross_entropy", ("x", "target"), names=("input", "target"), family="loss", takes=_TAKES, cases=_CASES, numpy=_np_cross_entropy,
    reference=lambda x, target, **params: cross_entropy_softmax(x, target, **params)[0])
cross_entropy_grad = register(
    "cross_entropy_grad", ("g", "softmax", "target"), family="loss", reference=_cross_entropy_grad,
    takes={"g": "f", "softmax": "=g", "target": "int64"}, numpy=_np_cross_entropy_grad,
    cases=tuple(case(c.inputs[0][:1], c.inputs[0], c.inputs[1], **c.params) for c in _CASES))
