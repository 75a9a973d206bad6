"""Records of vectors along a dimension divided by their lengths, or by eps where that is more, and of cosines of rows."""
from __future__ import annotations

import math

import numpy as np

from volta.ops.records.math import clamp_grad, clamp_min, reciprocal, root_grad, sqrt
from volta.ops.records.reduce import norm2_op, sum_op
from volta.ops.records.view import reshape_op
from volta.ops.table import Derived, case, register


def _np_size(x, dim):
    return np.sqrt((x * x).sum(dim, keepdims=True))


def _np_unit(x, dim, eps):
    size = _np_size(x, dim)
    return x / np.maximum(size, eps), size


def _np_unit_grad(g, x, size, dim, eps):
    limited = np.maximum(size, eps)
    along = (g * x).sum(dim, keepdims=True) / limited ** 2 * (size >= eps)
    return (g - x * along) / limited


def _reference(x, dim, eps):
    size = norm2_op(x, dim=(dim,), keepdim=True)
    return x * reciprocal(clamp_min(size, eps)), size


def _gradient(g, x, size, dim, eps):
    """The length is taken from x again, so that higher orders see it depend on it."""
    size = norm2_op(x, dim=(dim,), keepdim=True)
    scale = reciprocal(clamp_min(size, eps))
    along = clamp_grad(sum_op(g * x, dim=(dim,), keepdim=True) * scale * scale, size, eps, math.inf)
    return g * scale - x * root_grad(along + along, size)


_CASES = (((3, 5), 1, 1e-12), ((4, 3), 0, 1e-12), ((2, 3, 4), 1, 2.0), ((5,), 0, 1e-12), ((3, 200), 1, 8.0), ((2, 70, 8), 1, 1e-12),
          ((2, 0), 1, 1e-12), ((0, 3), 1, 1e-12))
unit_op = register(
    "unit", ("x",), names=("input",), family="unit", takes="f", outputs=("out", "size"), numpy=_np_unit, domain=(0.3, 2.0),
    vjp=(lambda g, x, size, dim, eps: unit_grad(g, x, size, dim=dim, eps=eps),), reference=_reference,
    cases=tuple(case(shape, dim=dim, eps=eps) for shape, dim, eps in _CASES))
unit_grad = register(
    "unit_grad", ("g", "x", "size"), family="unit", takes={"g": "f", "x": "=g", "size": "=g"}, numpy=_np_unit_grad, domain=(0.3, 2.0),
    reference=_gradient, cases=tuple(case(shape, shape, Derived(lambda g, x, dim=dim: _np_size(x, dim)), dim=dim, eps=eps)
                                     for shape, dim, eps in _CASES))


# ---------------------------------------------------------------- of the rows of two tensors: a.b / sqrt((a.a + eps) * (b.b + eps))
def _np_cosine(a, b, eps):
    aa, bb = (a * a).sum(-1) + eps, (b * b).sum(-1) + eps
    return (a * b).sum(-1) / np.sqrt(aa * bb), aa, bb


def _np_cosine_grad(g, a, b, cosine, aa, bb, eps):
    return b * (g / np.sqrt(aa * bb))[..., None] - a * (g * cosine / aa)[..., None]


def _of_rows(x, y):
    return sum_op(x * y, dim=(x.ndim - 1,), keepdim=True)


def _cosine(a, b, eps):
    aa, bb = _of_rows(a, a) + eps, _of_rows(b, b) + eps
    return tuple([reshape_op(t, shape=a.shape[:-1]) for t in (_of_rows(a, b) / sqrt(aa * bb), aa, bb)])


def _cosine_gradient(g, a, b, cosine, aa, bb, eps):
    """The squares are taken from the rows again, so that higher orders see them depend on these."""
    aa, bb = _of_rows(a, a) + eps, _of_rows(b, b) + eps
    g, root = reshape_op(g, shape=aa.shape), sqrt(aa * bb)
    return b * (g / root) - a * (g * (_of_rows(a, b) / root) / aa)


def _squares(place):
    return Derived(lambda g, a, b, *_: np.asarray(_np_cosine(a, b, 0.5)[place]))


_PAIRS = (3, 5), (2, 3, 4), (7,), (3, 200), (0, 3)
cosine_op = register(
    "cosine", ("a", "b"), family="unit", takes={"a": "f", "b": "=a"}, outputs=("out", "aa", "bb"), differentiable=("out",),
    numpy=_np_cosine, domain=(0.3, 2.0), reference=_cosine, cases=tuple(case(s, s, eps=eps) for s in _PAIRS for eps in (1e-12, 0.5)),
    vjp=(lambda g, a, b, out, aa, bb, eps: cosine_grad(g, a, b, out, aa, bb, eps=eps),
         lambda g, a, b, out, aa, bb, eps: cosine_grad(g, b, a, out, bb, aa, eps=eps)))
cosine_grad = register(
    "cosine_grad", ("g", "a", "b", "cosine", "aa", "bb"), family="unit", numpy=_np_cosine_grad, domain=(0.3, 2.0),
    takes={"g": "f", **dict.fromkeys(("a", "b", "cosine", "aa", "bb"), "=g")}, reference=_cosine_gradient,
    cases=tuple(case(s[:-1], s, s, *map(_squares, range(3)), eps=0.5) for s in _PAIRS))
