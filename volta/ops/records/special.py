"""Records of special functions: inverse and hyperbolic ones, error, gamma and Bessel functions, and what sees the bits of a number."""
from __future__ import annotations

import math

import numpy as np

from volta.ops.records.elementwise import binary, unary
from volta.ops.records.math import exp, exp2, isnan, logical_or, rsqrt, sigmoid, where_op, zero
from volta.ops.table import UNARY_SHAPES, case


# ---------------------------------------------------------------- references
def _np_erfinv(x):
    if not abs(x) < 1:
        return x * math.inf if abs(x) == 1 else math.nan
    tail = math.log1p(-x * x)                   # Winitzki's estimate, then Newton's steps
    near = 2 / (math.pi * 0.147) + tail / 2
    y = math.copysign(math.sqrt(math.sqrt(near * near - tail / 0.147) - near), x)
    for _ in range(4):
        y -= (math.erf(y) - x) * math.sqrt(math.pi) / 2 * math.exp(y * y)
    return y


def _np_lgamma(x):
    return math.inf if x <= 0 and (math.isinf(x) or x % 1 == 0) else math.lgamma(x)


def _np_digamma(x):
    if x == 0:
        return -math.copysign(math.inf, x)
    if x < 0:
        return math.nan if math.isinf(x) or x % 1 == 0 else _np_digamma(1 - x) - math.pi / math.tan(math.pi * x)
    shift = 0.0
    while x < 30:
        shift -= 1 / x
        x += 1
    return shift + math.log(x) - 1 / (2 * x) - (1 / 12 - (1 / 120 - 1 / (252 * x * x)) / (x * x)) / (x * x)


def _np_zeta(s, q):
    head, q = np.sum([(q + k) ** -s for k in range(500)], axis=0), q + 500
    return head + q ** (1 - s) / (s - 1) + q ** -s / 2 + s * q ** (-s - 1) / 12


def _np_i1(x):
    small = np.where(np.abs(x) < 700, x, 0.0)
    sum, term = small / 2, small / 2
    for k in range(1, 500):
        term = term * (small / 2) ** 2 / (k * (k + 1))
        sum = sum + term
    return np.where(np.abs(x) < 700, sum, np.sign(x) * np.i0(x))


def _np_heaviside(a, b):
    return np.where(a == 0, b, np.asarray(a > 0).astype(np.result_type(a, b)))


# ---------------------------------------------------------------- angles, hyperbolic functions and their inverses
asin = unary("asin", lambda g, x: g * rsqrt(1.0 - x * x), numpy=np.arcsin, domain=(-0.9, 0.9), aliases=("arcsin",))
acos = unary("acos", lambda g, x: g * -rsqrt(1.0 - x * x), numpy=np.arccos, domain=(-0.9, 0.9), aliases=("arccos",))
atan = unary("atan", lambda g, x: g / (x * x + 1.0), numpy=np.arctan, aliases=("arctan",))
sinh = unary("sinh", lambda g, x: g * cosh(x), numpy=np.sinh)
cosh = unary("cosh", lambda g, x: g * sinh(x), numpy=np.cosh)
asinh = unary("asinh", lambda g, x: g * rsqrt(x * x + 1.0), numpy=np.arcsinh, aliases=("arcsinh",))
acosh = unary("acosh", lambda g, x: g * rsqrt(x * x - 1.0), numpy=np.arccosh, domain=(1.2, 4.0), aliases=("arccosh",))
atanh = unary("atanh", lambda g, x: g / (1.0 - x * x), numpy=np.arctanh, domain=(-0.9, 0.9), aliases=("arctanh",))


def _square_norm(a, b):
    """a**2 + b**2, infinite where that is 0, so that a quotient by it is 0."""
    norm = a * a + b * b
    return where_op(norm == 0, math.inf, norm)


atan2 = binary("atan2", (lambda g, a, b: g * (b / _square_norm(a, b)), lambda g, a, b: g * (-a / _square_norm(a, b))), takes="f",
               numpy=np.arctan2, domain=(0.3, 3.0), aliases=("arctan2",))
hypot = binary("hypot", (lambda g, a, out: g * (a / out), lambda g, b, out: g * (b / out)), takes="f", promote="common", numpy=np.hypot,
               domain=(0.3, 3.0))


# ---------------------------------------------------------------- error, gamma and Bessel functions
erfc = unary("erfc", lambda g, x: g * exp(-x * x) * (-2 / math.sqrt(math.pi)), numpy=lambda x: np.vectorize(math.erfc)(x) if x.size else x)
erfinv = unary("erfinv", lambda g, out: g * exp(out * out) * (math.sqrt(math.pi) / 2), numpy=np.vectorize(_np_erfinv, [float]),
               domain=(-0.9, 0.9))
logit_op = unary("logit", lambda g, x, out: where_op(isnan(out), out, g / (x * (1.0 - x))), numpy=lambda x: np.log(x / (1 - x)),
                 domain=(0.1, 0.9), public=False)
lgamma = unary("lgamma", lambda g, x: g * digamma(x), numpy=np.vectorize(_np_lgamma, [float]), domain=(0.3, 4.0))
digamma = unary("digamma", lambda g, x: g * zeta(2.0, x), numpy=np.vectorize(_np_digamma, [float]), domain=(0.3, 4.0))
# The sum of (b + k) ** -a over k >= 0, for a number a > 1, below 0 a whole one: the derivatives of digamma.
zeta = binary("zeta", (None, lambda g, a, b: g * (zeta(a + 1.0, b) * -a)), takes="f", family="grad", numpy=_np_zeta, domain=(0.3, 4.0),
              public=False, cases=tuple(case(s, shape) for s in (2.0, 3.0) for shape in UNARY_SHAPES))
i0 = unary("i0", lambda g, x: g * i1(x), numpy=np.i0, domain=(-4.0, 4.0))
i1 = unary("i1", lambda g, x, out: g * (i0(x) - where_op(x == 0, 0.5, out / x)), numpy=_np_i1, domain=(-4.0, 4.0), public=False)
logaddexp = binary("logaddexp", (lambda g, a, b: g * sigmoid(a - b), lambda g, a, b: g * sigmoid(b - a)), takes="f", promote="common",
                   numpy=np.logaddexp, inplace=False)
logaddexp2 = binary("logaddexp2", (lambda g, a, b: g * sigmoid((a - b) * math.log(2)), lambda g, a, b: g * sigmoid((b - a) * math.log(2))),
                    takes="f", promote="common", numpy=np.logaddexp2, inplace=False)


# ---------------------------------------------------------------- bits, steps and integers
signbit = unary("signbit", numpy=lambda x: np.signbit(np.asarray(x, np.float64)), takes="fib", tests=True, inplace=False)
copysign = binary("copysign", (lambda g, a, out: g * where_op(a == 0, 0.0, out / a), zero), takes="f", numpy=np.copysign, domain=(0.3, 3.0))
nextafter_op = binary("nextafter", (lambda g, a, b: where_op(a == b, 0.0, g), lambda g, a, b: where_op(a == b, g, 0.0)), takes="f",
                      promote="common", numpy=np.nextafter, smooth=False, public=False)
frexp_mantissa = unary("frexp_mantissa", lambda g, x: g / exp2(frexp_exponent(x)), promote="common", numpy=lambda x: np.frexp(x)[0],
                       smooth=False, public=False)
frexp_exponent = unary("frexp_exponent", promote="common", numpy=lambda x: np.frexp(x)[1].astype(np.float64), public=False)
heaviside_op = binary("heaviside", numpy=_np_heaviside, takes="fib", public=False)


def _first(a, b):
    return logical_or(a >= b, b != b)


def _second(a, b):
    return logical_or(a <= b, b != b)


fmax = binary("fmax", (lambda g, a, b: where_op(_first(a, b), g, 0.0), lambda g, a, b: where_op(_first(a, b), 0.0, g)), numpy=np.fmax,
              takes="fib", inplace=False)
fmin = binary("fmin", (lambda g, a, b: where_op(_second(a, b), g, 0.0), lambda g, a, b: where_op(_second(a, b), 0.0, g)), numpy=np.fmin,
              takes="fib", inplace=False)
gcd = binary("gcd", numpy=np.gcd, takes="i")
lcm = binary("lcm", numpy=np.lcm, takes="i")
bitwise_left_shift = binary("bitwise_left_shift", numpy=np.left_shift, takes="i", family="bitwise", domain=(1.0, 9.0), operator="lshift",
                            reflected=True)
bitwise_right_shift = binary("bitwise_right_shift", numpy=np.right_shift, takes="i", family="bitwise", domain=(1.0, 9.0),
                             operator="rshift", reflected=True)
