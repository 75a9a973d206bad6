"""Records of Bessel and Airy functions. As in PyTorch, of these the modified ones of the first kind alone have derivatives."""
from __future__ import annotations

import math

import numpy as np

from volta.dtypes import finfo
from volta.ops.records.elementwise import unary
from volta.ops.records.math import abs, sign, where_op

EULER = 0.5772156649015329


# ---------------------------------------------------------------- references, by other formulas than the kernels'
def _np_i1(x):
    small = np.where(np.abs(x) < 700, x, 0.0)
    sum, term = small / 2, small / 2
    for k in range(1, 500):
        term = term * (small / 2) ** 2 / (k * (k + 1))
        sum = sum + term
    return np.where(np.abs(x) < 700, sum, np.sign(x) * np.i0(x))


def _scaled(function):
    """exp(-|x|) function(x)."""
    def reference(x):
        near = np.abs(x) < 700
        far = np.sign(function(np.sign(x))) / np.sqrt(2 * math.pi * np.abs(x))
        return np.where(near, function(np.where(near, x, 1.0)) * np.exp(-np.abs(x)), far)
    return reference


def _far(x, cosine, sine):
    """cosine cos(x) + sine sin(x), of the size of J and Y for large x."""
    return np.where(np.isinf(x), np.nan, (cosine * np.cos(x) + sine * np.sin(x)) / np.sqrt(math.pi * x))


def _np_j(x, order):
    """The mean of cos(order t - x sin(t)) over half a turn, for |x| < 100."""
    t = (np.arange(400) + 0.5) * math.pi / 400
    return np.cos(order * t - np.where(np.abs(x) < 100, x, 0.0)[..., None] * np.sin(t)).mean(-1)


def _np_bessel_j(x, order):
    near, t = np.where(np.abs(x) < 100, x, 0.0)[..., None], (np.arange(400) + 0.5) * math.pi / 400
    near = np.where(np.abs(x) < 1e-8, x / 2, (np.sin(t) * np.sin(near * np.sin(t))).mean(-1)) if order else _np_j(x, 0)
    return np.where(np.abs(x) < 100, near, _far(np.abs(x), 1 - 2 * order, 1) * (np.sign(x) if order else 1))


def _np_bessel_y(x, order):
    """Neumann's series. Source: Abramowitz and Stegun, 9.1.88."""
    small = np.where((x > 0) & (x < 100), x, 1.0)
    near = 2 / math.pi * ((np.log(small / 2) + EULER - order) * _np_j(small, order) - order / small * _np_j(small, 0))
    for k in range(1, 60):
        near = near - 2 / math.pi * (-1) ** k * (2 * k + order) / (k * (k + order)) * _np_j(small, 2 * k + order)
    return np.where(x > 0, np.where(x < 100, near, _far(x, -1, 1 - 2 * order)), np.where(x == 0, -np.inf, np.nan))


def _np_k(x, order, scaled=False):
    """The series with a logarithm below 10, else the leading term."""
    small = np.where((x > 0) & (x < 10), x, 1.0)
    sum, term, psi = 0 * small, (small / 2) ** order, -EULER
    for k in range(1, 60):
        sum = sum + term * (np.log(small / 2) - psi - 0.5 / k if order else psi - np.log(small / 2))
        term, psi = term * (small / 2) ** 2 / (k * (k + order)), psi + 1 / k
    near = sum + (1 / small if order else 0)
    far = np.sqrt(math.pi / 2 / x) * (1 if scaled else np.exp(-x))
    return np.where(x > 0, np.where(x < 10, near * (np.exp(small) if scaled else 1), far), np.where(x == 0, np.inf, np.nan))


def _np_airy_ai(x):
    """The series for |x| < 10, else what the kernels give there: 0, or NaN where the phase is lost."""
    small = np.where(np.abs(x) < 10, x, 0.0)
    sum, f, g = 0 * small, 0.355028053887817239, -0.258819403792806798 * small
    for k in range(1, 200, 3):
        sum, f, g = sum + f + g, f * small ** 3 / ((k + 1) * (k + 2)), g * small ** 3 / ((k + 2) * (k + 3))
    return np.where(np.abs(x) < 10, sum, np.where((x > 0) & (x < np.inf), 0.0, np.nan))


def _slope(g, x, slope):
    """The gradient of a function with slope(x), which divides by x, or 1/2 where x is tiny or NaN, as in PyTorch."""
    far = abs(x) > finfo(x.dtype).eps
    return g * where_op(far, slope(where_op(far, x, 1.0)), 0.5)


# ---------------------------------------------------------------- I, plain and scaled
i0 = unary("i0", lambda g, x: g * i1(x), numpy=np.i0, domain=(-4.0, 4.0), aliases=("special.i0", "special.modified_bessel_i0"))
i1 = unary("i1", lambda g, x, out: _slope(g, x, lambda x: i0(x) - out / x), numpy=_np_i1, domain=(-4.0, 4.0), room="special",
           aliases=("special.modified_bessel_i1",))
i0e = unary("i0e", lambda g, x, out: g * (i1e(x) - sign(x) * out), numpy=_scaled(np.i0), domain=(-4.0, 4.0), room="special")
i1e = unary("i1e", lambda g, x, out: _slope(g, x, lambda x: i0e(x) - out / x - sign(x) * out), numpy=_scaled(_np_i1),
            domain=(-4.0, 4.0), room="special")


# ---------------------------------------------------------------- J, Y, K, Ai and the spherical j
for _order in (0, 1):
    unary(f"bessel_j{_order}", numpy=lambda x, order=_order: _np_bessel_j(x, order), domain=(-9.0, 9.0), room="special")
    unary(f"bessel_y{_order}", numpy=lambda x, order=_order: _np_bessel_y(x, order), domain=(0.3, 9.0), room="special")
    unary(f"modified_bessel_k{_order}", numpy=lambda x, order=_order: _np_k(x, order), domain=(0.3, 6.0), room="special")
    unary(f"scaled_modified_bessel_k{_order}", numpy=lambda x, order=_order: _np_k(x, order, True), domain=(0.3, 6.0), room="special")
airy_ai = unary("airy_ai", numpy=_np_airy_ai, domain=(-5.0, 3.0), room="special")
spherical_bessel_j0 = unary("spherical_bessel_j0", numpy=lambda x: np.where(np.isinf(x), 0.0, np.sinc(x / math.pi)), domain=(-9.0, 9.0),
                            room="special")
