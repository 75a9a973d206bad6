"""Records of vectors along a dimension divided by their lengths, or by eps where that is more."""
from __future__ import annotations

import math

import numpy as np

from volta.ops.records.math import clamp_grad, clamp_min, reciprocal, root_grad
from volta.ops.records.reduce import norm2_op, sum_op
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
