"""Translations of reductions, softmax, scans, sorting, products of matrices and losses."""
from __future__ import annotations

import math

from volta.dtypes import bool_, int32, int64
from volta.onnx.graph import TO_THE_END, Call, Graph, translates

_REDUCED = {"sum": "ReduceSum", "mean": "ReduceMean", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd",
            "norm2": "ReduceL2", "any": "ReduceMax", "all": "ReduceMin"}


# ---------------------------------------------------------------- reductions
@translates(*_REDUCED)
def _reduced(g: Graph, c: Call):
    x, out = c[0], c.out.dtype
    if c.op in ("any", "all") and c.dtype is not bool_:
        x = g.cast(x, bool_)
    if out is bool_ or c.dtype is bool_:
        x = g.cast(x, int32 if out is bool_ else out)
    elif c.dtype is not out:
        x = g.cast(x, out)
    x = g.node(_REDUCED[c.op], x, g.ints(c.dim), keepdims=int(bool(c.keepdim)))
    return g.cast(x, bool_) if out is bool_ else x


@translates("var")
def _var(g: Graph, c: Call):
    axes, n = g.ints(c.dim), 1
    for d in c.dim:
        n = c.shape()[d] * n
    mean = g.node("ReduceMean", c[0], axes, keepdims=1)
    away = g.node("Sub", c[0], mean)
    total = g.node("ReduceSum", g.node("Mul", away, away), axes, keepdims=int(c.keepdim))
    below = g.scalar(n, c.dtype)
    if c.correction:
        below = g.node("Max", g.node("Sub", below, g.scalar(c.correction, c.dtype)), g.scalar(0.0, c.dtype))
    return g.node("Div", total, below), mean if c.keepdim else g.node("Squeeze", mean, axes)


@translates("argmax", "argmin")
def _arg(g: Graph, c: Call):
    return g.node("ArgMax" if c.op == "argmax" else "ArgMin", c[0], axis=c.dim, keepdims=int(c.keepdim))


@translates("softmax", "log_softmax")
def _softmax(g: Graph, c: Call):
    return g.node("Softmax" if c.op == "softmax" else "LogSoftmax", c[0], axis=c.dim)


@translates("glu")
def _glu(g: Graph, c: Call):
    axis, half = g.ints([c.dim]), g.ints([c.out.shape[c.dim]])
    gate = g.node("Slice", c[0], half, g.ints([TO_THE_END]), axis)
    return g.node("Mul", g.node("Slice", c[0], g.ints([0]), half, axis), g.node("Sigmoid", gate))


@translates("logsumexp")
def _logsumexp(g: Graph, c: Call):
    return g.node("ReduceLogSumExp", c[0], g.ints([c.dim]), keepdims=0)


@translates("cumsum")
def _cumsum(g: Graph, c: Call):
    x = c[0] if c.dtype is c.out.dtype else g.cast(c[0], c.out.dtype)
    return g.node("CumSum", x, g.scalar(c.dim, int64)) if c.shape() else x


@translates("sort")
def _sort(g: Graph, c: Call):
    count = c.params.get("count")
    count = g.ints([c.shape()[c.dim] if count is None else count])
    return g.node("TopK", c[0], count, outputs=2, axis=c.dim, largest=int(c.params.get("descending", False)), sorted=1)


# ---------------------------------------------------------------- products
@translates("matmul", "dot")
def _matmul(g: Graph, c: Call):
    return g.node("MatMul", c[0], c[1])


@translates("linear")
def _linear(g: Graph, c: Call):
    return g.node("Gemm", c[0], c[1], c[2], transB=1)


# ---------------------------------------------------------------- attention
def _grouped(g, x, groups, shape):
    """(B, H, L, E), or where fewer heads of keys than of queries share them (B, G, H / G, L, E)."""
    b, heads, length, width = shape
    return x if groups is None else g.reshape(x, (b, groups, heads // groups, length, width))


@translates("attention")
def _attention(g: Graph, c: Call):
    """softmax(scale * q @ k.T + mask) @ v; a query that may see no key gives 0."""
    (b, heads, length, _), (_, groups, keys, _) = c.shape(0), c.shape(1)
    share = None if groups == heads else groups
    q, k, v = (_grouped(g, c[i], share, c.shape(i)) for i in range(3))
    order = [0, 1, 3, 2] if share is None else [0, 1, 2, 4, 3]
    scores = g.node("MatMul", g.node("Mul", q, g.scalar(c.scale, c.dtype)), g.node("Transpose", k, perm=order))
    if share is not None:
        scores = g.reshape(scores, (b, heads, length, keys))
    if c.inputs[3] is not None:
        scores = g.node("Add", scores, c[3] if c.inputs[3].dtype is c.dtype else g.cast(c[3], c.dtype))
    if c.causal:
        rows, columns = (g.node("Range", *[g.scalar(n, int64) for n in (0, count, 1)]) for count in (length, keys))
        seen = g.node("GreaterOrEqual", g.node("Unsqueeze", rows, g.ints([1])), columns)
        scores = g.node("Where", seen, scores, g.scalar(-math.inf, c.dtype))
    p = g.node("Softmax", scores, axis=-1)
    if c.inputs[3] is not None:
        highest = g.node("ReduceMax", scores, g.ints([-1]), keepdims=1)
        p = g.node("Where", g.node("Equal", highest, g.scalar(-math.inf, c.dtype)), g.scalar(0.0, c.dtype), p)
    if share is not None:
        p = g.reshape(p, (b, groups, heads // groups, length, keys))
    out = g.node("MatMul", p, v)
    if share is not None:
        out = g.reshape(out, (b, heads, length, c.shape(2)[3]))
    if c.used[1]:
        raise c.refuse("the greatest scores and their sums are not exported")
    return out, ""


# ---------------------------------------------------------------- losses
@translates("nll")
def _nll(g: Graph, c: Call):
    """(loss, sum of the weights that count)."""
    ignored, one, nothing = g.node("Equal", c[1], g.scalar(c.ignore_index, int64)), g.scalar(1.0, c.dtype), g.scalar(0.0, c.dtype)
    label = g.node("Where", ignored, g.scalar(0, int64), c[1])
    weights = g.node("Where", ignored, nothing, g.node("Gather", c[2], label, axis=0) if c[2] else one)
    losses = c[0]
    if not c.picked:
        found = g.node("GatherElements", c[0], g.node("Unsqueeze", label, g.ints([1])), axis=1)
        losses = g.node("Neg", g.node("Squeeze", found, g.ints([1])))
    losses = g.node("Where", ignored, nothing, g.node("Mul", losses, weights))
    if c.reduction == "none":
        return losses, weights
    total, loss = g.node("ReduceSum", weights, keepdims=0), g.node("ReduceSum", losses, keepdims=0)
    return (g.node("Div", loss, total) if c.reduction == "mean" else loss), total


@translates("multi_margin")
def _multi_margin(g: Graph, c: Call):
    """Of each row the sum of the terms of all classes but the label, over the classes."""
    label, zero = g.node("Unsqueeze", c[1], g.ints([1])), g.scalar(0.0, c.dtype)
    far = g.node("Add", g.node("Sub", g.scalar(c.margin, c.dtype), g.node("GatherElements", c[0], label, axis=1)), c[0])
    terms = g.node("Where", g.node("Greater", far, zero), far, zero)
    terms = g.node("ScatterElements", terms, label, g.node("Mul", g.node("GatherElements", terms, label, axis=1), zero), axis=1)
    terms = g.node("Mul", terms, terms) if c.p == 2 else terms
    out = g.node("Div", g.node("ReduceSum", terms, g.ints([1]), keepdims=0), g.scalar(float(c.shape(0)[1]), c.dtype))
    return g.node("Mul", out, g.node("Gather", c[2], c[1], axis=0)) if c[2] else out


@translates("cross_entropy", "cross_entropy_softmax")
def _cross_entropy(g: Graph, c: Call):
    """Per row minus the logarithm of the label's probability, 0 for `ignore_index`."""
    ignored = g.node("Equal", c[1], g.scalar(c.ignore_index, int64))
    label = g.node("Unsqueeze", g.node("Where", ignored, g.scalar(0, int64), c[1]), g.ints([1]))
    logp = g.node("LogSoftmax", c[0], axis=1)
    found = g.node("Squeeze", g.node("GatherElements", logp, label, axis=1), g.ints([1]))
    if c.smoothing:
        even = g.node("Mul", g.node("ReduceMean", logp, g.ints([1]), keepdims=0), g.scalar(c.smoothing, c.dtype))
        found = g.node("Add", g.node("Mul", found, g.scalar(1.0 - c.smoothing, c.dtype)), even)
    loss = g.node("Where", ignored, g.scalar(0.0, c.dtype), g.node("Neg", found))
    return loss if c.op == "cross_entropy" else (loss, g.node("Softmax", c[0], axis=1))
