"""Records of special functions: inverse and hyperbolic ones, error and gamma functions, and what sees the bits of a number."""
from __future__ import annotations

import math

import numpy as np

from volta.ops.records.elementwise import binary, gradient, unary
from volta.ops.records.math import exp, exp2, isinf, log, logical_or, rsqrt, sigmoid, where_op, xlogy, zero
from volta.ops.table import BINARY_SHAPES, UNARY_SHAPES, Derived, case, underived


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
    if s < 1:
        return math.nan
    if s == 1 or q <= 0 and q == np.floor(q):
        return math.inf
    if s != s or q != q or q == math.inf or s == math.inf and q > 1:
        return math.nan
    if q < 0:
        sign = -1 if s % 2 == 1 else 1
        return _np_zeta(s, q % 1) + sign * (_np_zeta(s, 1 - q % 1) - _np_zeta(s, 1 - q)) if s == np.floor(s) else math.nan
    head, q = ((q + np.arange(500)) ** -s).sum(), q + 500
    return head + (q ** (1 - s) / (s - 1) + q ** -s / 2 + s * q ** (-s - 1) / 12 if q ** -s > 0 else 0.0)


def _np_erfcx(x):
    return 1 / (x * math.sqrt(math.pi)) if x > 25 else np.exp(x * x) * math.erfc(x)


def _np_log_ndtr(x):
    if x < -30:
        return -x * x / 2 - np.log(-x * math.sqrt(2 * math.pi))
    return math.log(math.erfc(-x / math.sqrt(2)) / 2) if x < 0 else math.log1p(-math.erfc(x / math.sqrt(2)) / 2)


def _np_ndtri(p):
    """By halving the interval in which ndtr passes p."""
    if p == 0.5:
        return 0.0
    if not 0 < p < 1:
        return math.copysign(math.inf, p - 0.5) if p in (0, 1) else math.nan
    low, high = -40.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(-middle * math.sqrt(0.5)) < 2 * p else (low, middle)
    return low


def _np_igamma(a, x):
    if a < 0 or x < 0 or a == 0 and not x > 0:
        return math.nan
    if x == 0 or math.inf in (a, x):
        return math.nan if a == x else float(x == math.inf)
    if a != a or x != x:
        return math.nan
    if a == 0 or max(a, x) > 700:
        return 0.5 if a == x else float(x > a)
    term = total = math.exp(a * math.log(x) - x - math.lgamma(a + 1))
    for n in range(1, 400):
        term *= x / (a + n)
        total += term
    return total


def _np_ldexp(a, b):
    return np.where(np.isnan(b), np.nan, np.ldexp(a, np.trunc(np.clip(np.nan_to_num(b), -3000, 3000)).astype(np.int64)))


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
               numpy=np.arctan2, domain=(0.3, 3.0), aliases=("arctan2",), tensors=2)
hypot = binary("hypot", (lambda g, a, out: g * (a / out), lambda g, b, out: g * (b / out)), takes="f", promote="common", numpy=np.hypot,
               domain=(0.3, 3.0), tensors=2)


# ---------------------------------------------------------------- error and gamma functions
erfc = unary("erfc", lambda g, x: g * exp(-x * x) * (-2 / math.sqrt(math.pi)), numpy=np.vectorize(math.erfc, [float]),
             aliases=("special.erfc",))
erfinv = unary("erfinv", lambda g, out: g * exp(out * out) * (math.sqrt(math.pi) / 2), numpy=np.vectorize(_np_erfinv, [float]),
               domain=(-0.9, 0.9), aliases=("special.erfinv",))
logit_op = unary("logit", lambda g, x: logit_grad(g, x), numpy=lambda x: np.log(x / (1 - x)), domain=(0.1, 0.9), public=False)
logit_grad = gradient("logit_grad", "x", None, numpy=lambda g, x: np.where((x < 0) | (x > 1), np.nan, g / (x * (1 - x))),
                      reference=lambda g, x: where_op((x < 0) | (x > 1), math.nan, g / (x * (1.0 - x))), domain=(0.1, 0.9))
lgamma = unary("lgamma", lambda g, x: g * digamma(x), numpy=np.vectorize(_np_lgamma, [float]), domain=(0.3, 4.0),
               aliases=("special.gammaln",))
digamma = unary("digamma", lambda g, x: g * trigamma(x), numpy=np.vectorize(_np_digamma, [float]), domain=(0.3, 4.0),
                aliases=("special.digamma", "special.psi"))
zeta = binary("zeta", (underived("special.zeta", "input"), lambda g, a, b: g * (zeta(a + 1.0, b) * -a)), takes="f",
              numpy=np.vectorize(_np_zeta, [float]), domain=(0.3, 4.0), room="special", family="gamma",
              cases=tuple(case(s, shape) for s in (2.0, 3.0) for shape in UNARY_SHAPES))
erfcx = unary("erfcx", lambda g, x, out: g * (x * out * 2.0 - 2 / math.sqrt(math.pi)), numpy=np.vectorize(_np_erfcx, [float]),
              room="special")
ndtr = unary("ndtr", lambda g, x: g * exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)), room="special",
             numpy=np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2, [float]))
ndtri = unary("ndtri", lambda g, out: g * exp(out * out * 0.5) * math.sqrt(2 * math.pi), numpy=np.vectorize(_np_ndtri, [float]),
              domain=(0.05, 0.95), room="special")
log_ndtr = unary("log_ndtr", lambda g, x: log_ndtr_grad(g, x), room="special", numpy=np.vectorize(_np_log_ndtr, [float]))
log_ndtr_grad = gradient("log_ndtr_grad", "x", None, numpy=lambda g, x: g * np.exp(-x * x / 2 - log_ndtr.details.numpy(x)) / math.sqrt(
    2 * math.pi), reference=lambda g, x: where_op(x == -math.inf, math.nan, g * _hazard(x, log_ndtr(x))))
entr = unary("entr", lambda g, x: g * (-log(x) - 1.0), domain=(0.2, 3.0), room="special",
             numpy=lambda x: np.where(x > 0, -x * np.log(x), np.where(x == 0, 0.0, np.where(x < 0, -np.inf, x))))
xlog1py = binary("xlog1py", (lambda g, a, b: where_op((a == 0) & (b <= -1), 0.0, xlog1py(g, b)), lambda g, a, b: g * a / (b + 1.0)),
                 takes="f", domain=(0.3, 3.0), room="special", rounds=True,
                 numpy=lambda a, b: np.where((a == 0) & ~np.isnan(b), 0.0, a * np.log1p(b)))


def _hazard(x, out):
    """The density over ndtr(x), whose logarithm is out: by quotients that are finite on either side of 0, as are their derivatives."""
    right = x > 0
    below = math.sqrt(2 / math.pi) / erfcx(where_op(right, 0.0, x) * -math.sqrt(0.5))
    return where_op(right, exp(-(x * x * 0.5 + out)) * (1 / math.sqrt(2 * math.pi)), below)


def trigamma(x):
    """The derivative of digamma: 0 at infinity, where `zeta` is NaN, and NaN at -infinity, where that is infinite."""
    end = isinf(x)
    return where_op(end, where_op(x < 0, math.nan, exp(where_op(end, x, 0.0) * -1.0)), zeta(2.0, x))


def _gamma_density(a, b):
    """The derivative of igamma(a, b) by b."""
    return exp(xlogy(a - 1.0, where_op(b < 0, math.nan, b)) - b - lgamma(zero(b) + a))          # of a number too


_ONE = np.full((), 2.5, np.float32)
_POSITIVE = tuple(case(Derived(lambda shape=a: np.linspace(0.4, 5.0, math.prod(shape)).reshape(shape)), b)
                  for a, b in BINARY_SHAPES if 0 not in a) + (case(_ONE, (0, 2)), case(_ONE, (7,)))
igamma = binary("igamma", (underived("igamma", "input"), lambda g, a, b: g * _gamma_density(a, b)), takes="f", promote="common",
                numpy=np.vectorize(_np_igamma, [float]), domain=(0.3, 6.0), cases=_POSITIVE, family="gamma", tensors=2,
                aliases=("special.gammainc",))
igammac = binary("igammac", (underived("igammac", "input"), lambda g, a, b: -g * _gamma_density(a, b)), takes="f", promote="common",
                 numpy=np.vectorize(lambda a, x: 1 - _np_igamma(a, x), [float]), domain=(0.3, 6.0), cases=_POSITIVE,
                 family="gamma", tensors=2, aliases=("special.gammaincc",))
logaddexp = binary("logaddexp", (lambda g, a, b: g * sigmoid(a - b), lambda g, a, b: g * sigmoid(b - a)), takes="f", promote="common",
                   numpy=np.logaddexp, inplace=False, tensors=2)
logaddexp2 = binary("logaddexp2", (lambda g, a, b: g * sigmoid((a - b) * math.log(2)), lambda g, a, b: g * sigmoid((b - a) * math.log(2))),
                    takes="f", promote="common", numpy=np.logaddexp2, inplace=False, tensors=2)


# ---------------------------------------------------------------- bits, steps and integers
signbit = unary("signbit", numpy=lambda x: np.signbit(np.asarray(x, np.float64)), takes="fib", tests=True, inplace=False)
copysign = binary("copysign", (lambda g, a, out: g * where_op(a == 0, 0.0, out / a), zero), takes="f", numpy=np.copysign,
                  domain=(0.3, 3.0), tensors=1)
nextafter_op = binary("nextafter", (lambda g, a, b: where_op(a == b, 0.0, g), zero), takes="f",
                      promote="common", numpy=np.nextafter, smooth=False, public=False)
ldexp_op = binary("ldexp", (lambda g, b: ldexp_op(g, b), zero), takes="f", public=False, numpy=_np_ldexp, smooth=False)     # of whole b
frexp_mantissa = unary("frexp_mantissa", lambda g, x: g / exp2(frexp_exponent(x)), promote="common", numpy=lambda x: np.frexp(x)[0],
                       smooth=False, public=False)
frexp_exponent = unary("frexp_exponent", promote="common", numpy=lambda x: np.frexp(x)[1].astype(np.float64), public=False)
heaviside_op = binary("heaviside", (zero, lambda g, a: g * (a == 0)), numpy=_np_heaviside, takes="fib", public=False)


def _first(a, b):
    return logical_or(a >= b, b != b)


def _second(a, b):
    return logical_or(a <= b, b != b)


fmax = binary("fmax", (lambda g, a, b: where_op(_first(a, b), g, 0.0), lambda g, a, b: where_op(_first(a, b), 0.0, g)), numpy=np.fmax,
              takes="fib", inplace=False, tensors=2)
fmin = binary("fmin", (lambda g, a, b: where_op(_second(a, b), g, 0.0), lambda g, a, b: where_op(_second(a, b), 0.0, g)), numpy=np.fmin,
              takes="fib", inplace=False, tensors=2)
gcd = binary("gcd", numpy=np.gcd, takes="i", tensors=2)
lcm = binary("lcm", numpy=np.lcm, takes="i", tensors=2)
bitwise_left_shift = binary("bitwise_left_shift", numpy=np.left_shift, takes="i", family="bitwise", domain=(1.0, 9.0), operator="lshift",
                            reflected=True)
bitwise_right_shift = binary("bitwise_right_shift", numpy=np.right_shift, takes="i", family="bitwise", domain=(1.0, 9.0),
                             operator="rshift", reflected=True)
