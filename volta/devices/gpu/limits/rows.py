"""Products, losses, normalisation, sums at indices, draws and updates beyond one binding: by rows, channels, batches or elements.

Where one row or channel alone is too large, it is composed of reductions and elementwise kernels, which cut by themselves.
"""
from __future__ import annotations

import math

from volta._kernels import core
from volta.devices.gpu.copy import arange, cast, cat, contiguous, copy_into, full
from volta.devices.gpu.limits.cut import bytes_of, call, flat, halves, limit_of, narrow, part


def linear(run, x, weight, bias):
    if x.shape[0] > 1 and (bytes_of(weight) <= limit_of(x) or weight.shape[0] < 2):
        return halves(run, (x, weight, bias), {}, (0, None, None), 0)
    if weight.shape[0] > 1:
        return halves(run, (x, weight, bias), {}, (None, 0, 0), 1)
    out = halves(run, (x, weight, None), {}, (1, 1, None), None)
    return out if bias is None else call("add", out, bias)


def matmul(run, a, b):
    rank = max(len(a.shape), len(b.shape))
    for d in range(rank - 2):                                   # a batch: cut it
        at, bt = d - rank + len(a.shape), d - rank + len(b.shape)
        da = at if at >= 0 and a.shape[at] > 1 else None
        db = bt if bt >= 0 and b.shape[bt] > 1 else None
        if da is not None or db is not None:
            return halves(run, (a, b), {}, (da, db), d)
    rows, columns = len(a.shape) - 2, len(b.shape) - 1
    if a.shape[rows] > 1 and (bytes_of(a) >= bytes_of(b) or b.shape[columns] < 2):
        return halves(run, (a, b), {}, (rows, None), rank - 2)
    if b.shape[columns] > 1:
        return halves(run, (a, b), {}, (None, columns), rank - 1)
    return halves(run, (a, b), {}, (rows + 1, columns - 1), None)


def index_select(run, x, index, dim):
    """By an index that is too large itself."""
    return halves(run, (x, index), {"dim": dim}, (None, 0), dim)


def bag_sum(run, weight, index, offsets, scales, *, bags, padding, mean):
    """Columns by themselves while there are several; then the rows that the indices name are made, and added bag by bag."""
    if weight.shape[1] > 1:
        params = {"bags": bags, "padding": padding, "mean": mean}
        return halves(run, (weight, index, offsets, scales), params, (1, None, None, None), 1)
    n, counted = index._size, call("cast", call("ne", index, padding), dtype=weight.dtype)
    rows = call("mul", core.reshaped(call("index_select", weight, index, dim=0), (n,)), 1 if scales is None else scales)
    rows = call("where", call("ne", index, padding), rows, 0.0)
    places = arange(0, 1, n, dtype=index.dtype, device=weight.storage.device)
    bag = call("floor_divide", places, max(n // max(bags, 1), 1)) if offsets is None else call(
        "sub", call("searchsorted", offsets, places, right=True), 1)

    def total(x):
        return narrow(call("index_add", x, bag, dim=0, size=bags + 1), 0, 0, bags)
    out = total(rows)
    return core.reshaped(contiguous(call("div", out, call("maximum", total(counted), 1.0)) if mean else out), (bags, 1))


def bag_max(run, weight, index, offsets, *, bags, padding):
    """Columns by themselves while there are several; then the bags by halves, or the larger of what both halves of the rows give."""
    if weight.shape[1] > 1:
        return halves(run, (weight, index, offsets), {"bags": bags, "padding": padding}, (1, None, None), (1, 1))
    n, device = index._size, weight.storage.device
    places = arange(0, 1, n, dtype=index.dtype, device=device)
    bag = call("floor_divide", places, max(n // max(bags, 1), 1)) if offsets is None else call(
        "sub", call("searchsorted", offsets, places, right=True), 1)
    counts = call("ne", index, padding)
    own = call("where", counts, places, n)
    first = call("scatter_reduce", full((bags + 1,), n, index.dtype, device), own, bag, dim=0, reduce="amin")
    values = core.reshaped(call("index_select", weight, index, dim=0), (n,))
    leads, real = call("eq", call("index_select", first, bag, dim=0), places), call("eq", values, values)
    known = call("where", real, values, call("where", leads, math.inf, -math.inf))
    top = call("scatter_reduce", full((bags + 1,), -math.inf, weight.dtype, device), call("where", counts, known, -math.inf), bag, dim=0,
               reduce="amax")
    at = call("where", call("logical_and", counts, call("eq", known, call("index_select", top, bag, dim=0))), places, n)
    at = narrow(call("scatter_reduce", full((bags + 1,), n, index.dtype, device), at, bag, dim=0, reduce="amin"), 0, 0, bags)
    at, none = call("clamp_max", at, n - 1), call("eq", at, n)
    out = call("where", none, 0.0, call("index_select", values, at, dim=0))
    taken = call("where", none, -1, call("index_select", index, at, dim=0))
    return tuple([core.reshaped(t, (bags, 1)) for t in (out, taken)])


def indexed_sum(run, g, index, dim, size):
    """Along the longest dimension that is not indexed, else by the entries: the sums of both halves are added then."""
    full = len(index.shape) == len(g.shape)
    others = [d for d, n in enumerate(g.shape) if d != dim and n > 1]
    if not others or not full and bytes_of(index) + 1024 > limit_of(g):
        return halves(run, (g, index), {"dim": dim, "size": size}, (dim, dim if full else 0), None)
    other = max(others, key=lambda d: g.shape[d])
    return halves(run, (g, index), {"dim": dim, "size": size}, (other, other if full else None), other)


def indexed_reduction(run, x, src, index, dim, reduce):
    """Along the longest dimension that is not indexed; else by the entries, one half after the other; else by the places, where an entry
    of the other half repeats one that is there already and so changes nothing of an extreme, or is 1 in a product."""
    others = [d for d, n in enumerate(src.shape) if d != dim and n > 1]
    params = {"dim": dim, "reduce": reduce}
    if others:
        other = max(others, key=lambda d: x.shape[d] + src.shape[d])
        return halves(run, (x, src, index), params, (other, other, other), other)
    entries, size = src.shape[dim], x.shape[dim]
    if entries > 1 and bytes_of(src) >= bytes_of(x):
        for start, stop in ((0, entries // 2), (entries // 2, entries)):
            x = run(x, part(src, dim, start, stop), part(index, dim, start, stop), **params)
        return x
    parts = []
    for start, stop in ((0, size // 2), (size // 2, size)):
        own, at = part(x, dim, start, stop), call("clamp", call("sub", index, start), 0, stop - start - 1)
        inside = call("logical_and", call("ge", index, start), call("lt", index, stop))
        neutral = 1 if reduce == "prod" else call("gather", own, at, dim=dim)
        parts.append(run(own, call("where", inside, src, neutral), at, **params))
    return cat(*parts, dim=dim)


def drawn(run, shape, offset, **params):
    """Random numbers in two draws that continue each other."""
    count = math.prod(shape)
    half = count // 2 & ~3
    first = run(shape=(half,), offset=offset, **params)
    second = run(shape=(count - half,), offset=offset + half // 4, **params)
    return core.reshaped(cat(first, second, dim=0), shape)


def drawn_into(run, out, offset, **params):
    """Random numbers in place of copies of both halves."""
    line, half = flat(out), out._size // 2 & ~3
    for start, stop in ((0, half), (half, out._size)):
        piece = part(line, 0, start, stop)
        run(piece, offset=offset + start // 4, **params)
        copy_into(narrow(line, 0, start, stop), piece)
    if not out._contiguous:
        copy_into(out, core.reshaped(line, out.shape))


def dropout(run, x, p, seed, offset):
    line = flat(x)
    half = x._size // 2 & ~3
    first = run(part(line, 0, 0, half), p=p, seed=seed, offset=offset)
    second = run(part(line, 0, half, x._size), p=p, seed=seed, offset=offset + half // 4)
    return core.reshaped(cat(first, second, dim=0), x.shape)


def updated(written):
    """An in-place kernel on copies of both halves; the tensors at the positions `written` get theirs back."""
    def cut(run, *tensors, **params):
        lines = [None if t is None else flat(t) for t in tensors]
        size = lines[0]._size
        for start, stop in ((0, size // 2), (size // 2, size)):
            pieces = [part(t, 0, start, stop) for t in lines]
            run(*pieces, **params)
            for i in written:
                if lines[i] is not None:
                    copy_into(narrow(lines[i], 0, start, stop), pieces[i])
        for i in written:
            if tensors[i] is not None and not tensors[i]._contiguous:
                copy_into(tensors[i], core.reshaped(lines[i], tensors[i].shape))
    return cut


def attention(run, q, k, v, mask, **params):
    return _by_heads(run, (q, k, v, mask), (1, 1, 1, 1), params, (1, 1))


def attention_grad(run, g, q, k, v, mask, out, stats, **params):
    shared = None if q.shape[0] == 1 == k.shape[1] else 1           # of one head for all, both halves' gradients are added
    return _by_heads(run, (g, q, k, v, mask, out, stats), (1,) * 7, params, (1, shared, shared))


def _by_heads(run, tensors, heads, params, joined):
    """By batches, else by heads, which are those dimensions of the tensors and of the results."""
    if tensors[0].shape[0] > 1:
        heads, joined = (0,) * len(tensors), (0,) * len(joined)
    dims = [None if t is None or t.shape[d] == 1 else d for t, d in zip(tensors, heads)]
    return halves(run, tensors, params, dims, joined)


# ---------------------------------------------------------------- one row or channel alone

def cross_entropy(keep, run, x, target, ignore_index, smoothing=0.0):
    """By rows; one row alone is composed. With `keep`, softmax(x) too."""
    if x.shape[0] > 1:
        return halves(run, (x, target), {"ignore_index": ignore_index, "smoothing": smoothing}, (0, 0), (0, 0) if keep else 0)
    logp = call("log_softmax", x, dim=1)
    picked = call("gather", logp, core.reshaped(contiguous(target), (1, 1)), dim=1)
    loss = call("neg", core.reshaped(picked, (1,)))
    if smoothing:
        loss = call("sub", call("mul", loss, 1 - smoothing), call("mul", call("mean", logp, dim=(1,), keepdim=False), smoothing))
    loss = call("where", call("logical_and", call("ge", target, 0), call("lt", target, x.shape[1])), loss, math.nan)
    loss = call("where", call("eq", target, ignore_index), 0.0, loss)
    return (loss, call("softmax", x, dim=1)) if keep else loss


def cross_entropy_grad(run, g, softmax, target, ignore_index, smoothing=0.0):
    if softmax.shape[0] > 1:
        return halves(run, (g, softmax, target), {"ignore_index": ignore_index, "smoothing": smoothing}, (0, 0, 0), 0)
    slope = call("where", call("eq", target, ignore_index), 0.0, g)
    hot = call("eq", arange(0, 1, softmax.shape[1], target.dtype, target.storage.device), target)
    hot = core.reshaped(cast(hot, softmax.dtype), softmax.shape)
    hot = call("add", call("mul", hot, 1 - smoothing), smoothing / softmax.shape[1]) if smoothing else hot
    return call("mul", call("sub", softmax, hot), core.reshaped(slope, (1, 1)))


def _label_weights(x, target, weight, ignore_index):
    """Of each label its class's weight, or 1, and 0 where it is ignored."""
    weights = 1.0 if weight is None else core.reshaped(call("index_select", weight, flat(target), dim=0), target.shape)
    ones = call("full", target.shape, 1.0, x.dtype, x.storage.device)
    return call("where", call("eq", target, ignore_index), 0.0, call("mul", ones, weights))


def nll(run, x, target, weight, ignore_index, reduction, picked):
    """By rows; what is reduced is reduced afterwards; one row alone is composed."""
    params = {"ignore_index": ignore_index, "picked": picked}
    if reduction != "none":
        losses, nothing = run(x, target, weight, reduction="none", **params)
        dims = tuple(range(len(target.shape)))
        out = call("sum", losses, dims, False)
        if reduction == "sum":
            return out, nothing
        total = call("sum", _label_weights(x, target, weight, ignore_index), dims, False)
        return call("div", out, total), core.reshaped(total, (1,))
    if x.shape[0] > 1:
        return halves(run, (x, target, weight), {"reduction": reduction, **params}, (0, 0, None), (0, 0))
    found, inside = x, call("ge", target, 0)
    if not picked:
        found = core.reshaped(call("neg", call("gather", x, core.reshaped(contiguous(target), (1, 1, *x.shape[2:])), dim=1)), target.shape)
        inside = call("logical_and", inside, call("lt", target, x.shape[1]))
    found = call("mul", call("where", inside, found, math.nan), _label_weights(x, target, weight, ignore_index))
    return call("where", call("eq", target, ignore_index), 0.0, found), call("full", (0,), 0.0, x.dtype, x.storage.device)


def nll_grad(run, g, target, weight, total, shape, ignore_index, reduction, picked):
    """By adding each label's slope at its place among zeros."""
    slopes = call("mul", _label_weights(g, target, weight, ignore_index), call("div", g, total) if reduction == "mean" else g)
    if picked:
        return slopes
    at = core.reshaped(call("clamp", target, 0, shape[1] - 1), (shape[0], 1, *shape[2:]))
    return call("scatter_add", core.reshaped(call("neg", slopes), at.shape), at, dim=1, size=shape[1])


def _margins(x, target, weight, p, margin):
    """Of one row alone (terms of the classes, 0 of the label; which is the label; what the row counts divided by its classes)."""
    label = core.reshaped(call("clamp", target, 0, x.shape[1] - 1), (1, 1))
    terms = call("positive_part", call("add", call("sub", margin, call("gather", x, label, dim=1)), x))
    own = call("eq", core.reshaped(arange(0, 1, x.shape[1], target.dtype, target.storage.device), x.shape), label)
    scale = 1.0 if weight is None else call("index_select", weight, flat(label), dim=0)
    return call("where", own, 0.0, terms), own, call("div", scale, call("full", (1,), float(x.shape[1]), x.dtype, x.storage.device))


def multi_margin(run, x, target, weight, p, margin):
    """By rows; one row alone is composed."""
    if x.shape[0] > 1:
        return halves(run, (x, target, weight), {"p": p, "margin": margin}, (0, 0, None), 0)
    terms, _, scale = _margins(x, target, weight, p, margin)
    return call("mul", call("sum", call("mul", terms, terms) if p == 2 else terms, (1,), False), scale)


def multi_margin_grad(run, g, x, target, weight, p, margin):
    if x.shape[0] > 1:
        return halves(run, (g, x, target, weight), {"p": p, "margin": margin}, (0, 0, 0, None), 0)
    terms, own, scale = _margins(x, target, weight, p, margin)
    slopes = call("mul", terms, 2.0) if p == 2 else call("where", call("gt", terms, 0.0), 1.0, call("mul", terms, 0.0))
    slopes = call("where", own, call("neg", call("sum", slopes, (1,), True)), slopes)
    return call("mul", slopes, call("mul", scale, g))


def batch_norm(run, x, weight, bias, eps):
    """By channels; one channel alone is composed of reductions."""
    if x.shape[1] > 1:
        return halves(run, (x, weight, bias), {"eps": eps}, (1, 0, 0), (1, 0, 0))
    line, count = flat(x), float(x._size)
    mean = call("div", call("sum", line, (0,), True), count)
    centred = call("sub", line, mean)
    rstd = call("rsqrt", call("add", call("div", call("sum", call("mul", centred, centred), (0,), True), count), eps))
    out = call("mul", centred, rstd if weight is None else call("mul", rstd, weight))
    return core.reshaped(out if bias is None else call("add", out, bias), x.shape), mean, rstd


def batch_norm_grad(run, g, x, weight, mean, rstd):
    if x.shape[1] > 1:
        return halves(run, (g, x, weight, mean, rstd), {}, (1, 1, 0, 0, 0), (1, 0, 0))
    slope, count = flat(g), float(x._size)
    normal = call("mul", call("sub", flat(x), mean), rstd)
    dweight, dbias = call("sum", call("mul", slope, normal), (0,), True), call("sum", slope, (0,), True)
    centred = call("sub", call("sub", slope, call("div", dbias, count)), call("mul", normal, call("div", dweight, count)))
    return core.reshaped(call("mul", centred, rstd if weight is None else call("mul", rstd, weight)), x.shape), dweight, dbias


def batch_norm_given_grad(run, g, x, weight, mean, var, eps):
    if x.shape[1] > 1:
        return halves(run, (g, x, weight, mean, var), {"eps": eps}, (1, 1, 0, 0, 0), (1, 0, 0))
    slope, rstd = flat(g), call("rsqrt", call("add", var, eps))
    normal = call("mul", call("sub", flat(x), mean), rstd)
    dx = call("mul", slope, rstd if weight is None else call("mul", rstd, weight))
    return core.reshaped(dx, x.shape), call("sum", call("mul", slope, normal), (0,), True), call("sum", slope, (0,), True)


# ---------------------------------------------------------------- rows

def _grouped(t, shape: tuple):
    return core.reshaped(t if t._contiguous else contiguous(t), shape)


def row_norm(x, weight, bias, length, groups, inner, centred, eps):
    """The same of reductions and elementwise kernels."""
    shape, dims = (x._size // (groups * length), groups, length // inner, inner), (2, 3)
    away = _grouped(x, shape)
    mean = call("mean", away, dims, True) if centred else full(shape[:2] + (1, 1), 0.0, x.dtype, x.storage.device)
    away = call("sub", away, mean)
    rstd = call("rsqrt", call("add", call("mean", call("mul", away, away), dims, True), eps))
    out = call("mul", away, rstd)
    out = out if weight is None else call("mul", out, _grouped(weight, (*shape[1:3], 1)))
    out = out if bias is None else call("add", out, _grouped(bias, (*shape[1:3], 1)))
    return core.reshaped(out, x.shape), flat(mean), flat(rstd)


def row_norm_grad(g, x, weight, mean, rstd, arrived, length, groups, inner, centred, sums):
    shape, dims = (x._size // (groups * length), groups, length // inner, inner), (2, 3)
    g, mean, rstd = _grouped(g, shape), _grouped(mean, shape[:2] + (1, 1)), _grouped(rstd, shape[:2] + (1, 1))
    normal = call("mul", call("sub", _grouped(x, shape), mean), rstd)
    h = g if weight is None else call("mul", g, _grouped(weight, (*shape[1:3], 1)))
    product = call("mul", g, normal)
    dx = call("sub", h, call("mul", normal, call("mean", call("mul", h, normal), dims, True)))
    dx = call("sub", dx, call("mean", h, dims, True)) if centred else dx
    dx = core.reshaped(call("mul", dx, rstd), x.shape)
    dx = dx if arrived is None else call("add", dx, arrived)
    return dx, *[flat(call("sum", t, (0, 3), False)) if sums else full((0,), 0.0, x.dtype, x.storage.device) for t in (product, g)]


def beyond(composed):
    """The cut of a kernel that is composed as soon as it exceeds a binding."""
    return lambda run, *operands, **params: composed(*operands, **params)


# ---------------------------------------------------------------- sequences
def ctc(run, x, labels, inputs, lengths, blank):
    return halves(run, (x, labels, inputs, lengths), {"blank": blank}, (1, 0, 0, 0), (0, 0))


def ctc_grad(run, g, x, labels, inputs, lengths, loss, alphas, blank):
    return halves(run, (g, x, labels, inputs, lengths, loss, alphas), {"blank": blank}, (0, 1, 0, 0, 0, 0, 0), 1)
