"""Reductions and softmax beyond one binding: by halves along the longest dimension, those first that are not reduced over."""
from __future__ import annotations

import math

from volta._kernels import core
from volta.devices.gpu.copy import cat
from volta.devices.gpu.limits.cut import call, narrow

HIGHEST = 3.4028234e38      # of finite numbers


def _halves(x, dim: tuple):
    """(dimension, where its second half begins); one that is not in `dim` where any can be cut."""
    d = max(range(len(x.shape)), key=lambda d: (d not in dim and x.shape[d] > 1, x.shape[d]))
    return d, x.shape[d] // 2


def softmax(name: str, run, *operands, dim):
    """softmax, log_softmax, or a derivative of one."""
    d, half = _halves(operands[0], (dim,))
    if d == dim:
        return composed_softmax(name, *operands, dim=dim)
    return cat(*[run(*[narrow(x, d, a, b) for x in operands], dim=dim) for a, b in ((0, half), (half, operands[0].shape[d]))], dim=d)


def logsumexp(run, x, dim):
    """logsumexp, along dim of halves or of reductions and elementwise kernels."""
    d, half = _halves(x, (dim,))
    if d == dim:
        return composed_logsumexp(x, dim=dim)
    return cat(*[run(narrow(x, d, a, b), dim=dim) for a, b in ((0, half), (half, x.shape[d]))], dim=d - (d > dim))


def composed_logsumexp(x, *, dim):
    """The same, of reductions and elementwise kernels."""
    top = call("clamp", call("amax", x, (dim,), True), -HIGHEST, HIGHEST)
    out = call("add", call("log", call("sum", call("exp", call("sub", x, top)), (dim,), True)), top)
    return core.reshaped(out, x.shape[:dim] + x.shape[dim + 1:])


def composed_softmax(name: str, *operands, dim):
    """The same, of reductions and elementwise kernels."""
    if name.endswith("_grad"):
        g, y = operands
        if name == "log_softmax_grad":
            return call("sub", g, call("mul", call("exp", y), call("sum", g, (dim,), True)))
        return call("mul", y, call("sub", g, call("sum", call("mul", g, y), (dim,), True)))
    below = call("sub", operands[0], call("amax", operands[0], (dim,), True))
    powers = call("exp", below)
    total = call("sum", powers, (dim,), True)
    return call("sub", below, call("log", total)) if name == "log_softmax" else call("div", powers, total)


def composed_unit(x, *, dim, eps):
    """Vectors divided by their lengths, and these."""
    size = call("norm2", x, (dim,), True)
    return call("mul", x, call("reciprocal", call("clamp_min", size, eps))), size


def composed_unit_grad(g, x, size, *, dim, eps):
    """The gradient of x."""
    scale = call("reciprocal", call("clamp_min", size, eps))
    along = call("mul", call("mul", call("sum", call("mul", g, x), (dim,), True), scale), scale)
    along = call("clamp_grad", along, size, eps, math.inf)
    return call("mul", call("sub", g, call("mul", x, along)), scale)


def composed_cosine(a, b, *, eps):
    """Cosines of rows, and the squares of their lengths."""
    aa, ab, bb = (call("sum", call("mul", x, y), (a.ndim - 1,), False) for x, y in ((a, a), (a, b), (b, b)))
    aa, bb = call("add", aa, eps), call("add", bb, eps)
    return call("div", ab, call("sqrt", call("mul", aa, bb))), aa, bb


def composed_cosine_grad(g, a, b, cosine, aa, bb, *, eps):
    """The gradient of a."""
    across, along = call("div", g, call("sqrt", call("mul", aa, bb))), call("div", call("mul", g, cosine), aa)
    across, along = (core.view(t, (*t.shape, 1), (*t._strides, 1), t.offset) for t in (across, along))
    return call("sub", call("mul", b, across), call("mul", a, along))


def reduction(name: str, run, x, dim, keepdim):
    """A reduction over the dims of a tuple; parts along one of them are reduced again."""
    d, half = _halves(x, dim)
    parts = narrow(x, d, 0, half), narrow(x, d, half, x.shape[d])
    if d not in dim:
        out = cat(*[run(part, dim, True) for part in parts], dim=d)
    else:
        again = "sum" if name == "mean" else name
        out = call(again, cat(*[call(again, part, dim, True) for part in parts], dim=d), (d,), True)
        if name == "mean":
            out = call("div", out, float(math.prod(x.shape[d] for d in dim)))
    return core.reshaped(out, tuple(1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim))


def argument(name: str, run, x, dim, keepdim):
    """argmax or argmin: of both halves, the first of the better ones."""
    d, half = _halves(x, (dim,))
    parts = narrow(x, d, 0, half), narrow(x, d, half, x.shape[d])
    found = [run(part, dim, True) for part in parts]
    if d != dim:
        out = cat(*found, dim=d)
    else:
        values = [call("a" + name[3:], part, (dim,), True) for part in parts]
        better = call("gt" if name == "argmax" else "lt", values[1], values[0])
        nan = call("gt", call("isnan", values[1]), call("isnan", values[0]))
        out = call("where", call("logical_or", better, nan), call("add", found[1], half), found[0])
    return core.reshaped(out, tuple(1 if d == dim else n for d, n in enumerate(x.shape) if keepdim or d != dim))
