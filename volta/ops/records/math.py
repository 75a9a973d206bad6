"""Records of elementwise ops: unary, binary, comparisons, ternary, and the fused derivatives of activations.

Each line is a record: derivative, NumPy reference, domain of the samples, and a public function unless one with options stands on it
(`volta/ops/math.py`). Derivatives are written in these very ops, so that they run where the data lives and can be differentiated
again; `gg` is the gradient of a gradient.
"""
from __future__ import annotations

import math

import numpy as np

from volta._kernels.core.graph import is_grad_enabled
from volta.ops.records.create import full_op
from volta.ops.records.elementwise import binary, gradient, ternary, unary
from volta.ops.records.view import tied
from volta.ops.table import TERNARY_SHAPES, UNARY_SHAPES, Flags, case, create, register
from volta.ops.table import erf as np_erf


def zero(g):
    """The gradient of a function of steps: 0 of the shape of g. A derivative that is such a function of its input has it too, rather than
    none, so that a second gradient is 0 and no error."""
    return create(full_op, g.shape, 0, dtype=g.dtype, device=g.device)


# ---------------------------------------------------------------- unary
neg = unary("neg", lambda g: -g, numpy=np.negative, takes="fi", operator="neg", aliases=("negative",))
abs = unary("abs", lambda g, x: abs_grad(g, x), numpy=np.abs, takes="fi", operator="abs", aliases=("absolute",))
sign = unary("sign", zero, numpy=np.sign, takes="fib", kinds="fi", aliases=("sgn",))
reciprocal = unary("reciprocal", lambda g, out: reciprocal_grad(g, out), numpy=np.reciprocal, domain=(0.3, 3.0), aliases=("recip",))
sqrt = unary("sqrt", lambda g, out: sqrt_grad(g, out), numpy=np.sqrt, domain=(0.2, 4.0))
root_op = unary("root", lambda g, out: root_grad(g, out), numpy=np.sqrt, domain=(0.2, 4.0), public=False)    # with gradient 0 at 0
rsqrt = unary("rsqrt", lambda g, out: rsqrt_grad(g, out), numpy=lambda x: 1 / np.sqrt(x), domain=(0.2, 4.0))
exp = unary("exp", lambda g, out: g * out, numpy=np.exp)
exp2 = unary("exp2", lambda g, out: g * out * math.log(2), numpy=np.exp2, aliases=("special.exp2",))
expm1 = unary("expm1", lambda g, out: g * (out + 1.0), numpy=np.expm1, aliases=("special.expm1",))
log = unary("log", lambda g, x: g / x, numpy=np.log, domain=(0.2, 4.0))
log2 = unary("log2", lambda g, x: g / (x * math.log(2)), numpy=np.log2, domain=(0.2, 4.0))
log10 = unary("log10", lambda g, x: g / (x * math.log(10)), numpy=np.log10, domain=(0.2, 4.0))
log1p = unary("log1p", lambda g, x: g / (x + 1.0), numpy=np.log1p, domain=(-0.6, 3.0), aliases=("special.log1p",))
sin = unary("sin", lambda g, x: g * cos(x), numpy=np.sin)
cos = unary("cos", lambda g, x: -g * sin(x), numpy=np.cos)
tan = unary("tan", lambda g, out: g * (out * out + 1.0), numpy=np.tan, domain=(-1.2, 1.2))
tanh = unary("tanh", lambda g, out: tanh_grad(g, out), numpy=np.tanh)
sigmoid = unary("sigmoid", lambda g, out: sigmoid_grad(g, out), numpy=lambda x: 1 / (1 + np.exp(-x)), aliases=("special.expit",))
erf = unary("erf", lambda g, x: g * exp(-x * x) * (2 / math.sqrt(math.pi)), numpy=np_erf, aliases=("special.erf",))
relu = unary("relu", lambda g, out: relu_grad(g, out), numpy=lambda x: np.maximum(x, 0), takes="fi")
gelu_op = unary("gelu", lambda g, x: gelu_grad(g, x), numpy=lambda x: 0.5 * x * (1 + np_erf(x / math.sqrt(2))), promote="common",
                 public=False)
gelu_tanh = unary("gelu_tanh", lambda g, x: gelu_tanh_grad(g, x), numpy=lambda x: 0.5 * x * (
    1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))), promote="common", public=False)
silu = unary("silu", lambda g, x: silu_grad(g, x), numpy=lambda x: x / (1 + np.exp(-x)), promote="common", function=False, inplace=False)
positive_part = unary("positive_part", lambda g, out: where_op(out > 0, g, 0.0), numpy=lambda x: np.where(x > 0, x, 0), public=False)
floor = unary("floor", zero, numpy=np.floor, takes="fi")
ceil = unary("ceil", zero, numpy=np.ceil, takes="fi")
round_op = unary("round", zero, numpy=np.round, takes="fi", public=False)
trunc = unary("trunc", zero, numpy=np.trunc, takes="fi", aliases=("fix",))
angle = unary("angle", zero, numpy=lambda x: np.where(x < 0, math.pi, np.where(x == x, 0.0, x)), out="cast", inplace=False)
frac = unary("frac", lambda g: g, numpy=lambda x: x - np.trunc(x), promote="common")
bitwise_not = unary("bitwise_not", numpy=np.invert, takes="ib", family="bitwise", operator="invert")
logical_not = unary("logical_not", numpy=np.logical_not, takes="fib", tests=True, out="cast", unrecorded=True)
isnan = unary("isnan", numpy=np.isnan, takes="fib", tests=True, inplace=False)
isinf = unary("isinf", numpy=np.isinf, takes="fib", tests=True, inplace=False)
isfinite = unary("isfinite", numpy=np.isfinite, takes="fib", tests=True, inplace=False)


# ---------------------------------------------------------------- fused derivatives
def _gelu_tanh_grad(g, x):
    c = math.sqrt(2 / math.pi)
    t = tanh((x + x * x * x * 0.044715) * c)
    return g * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * (x * x * (3 * 0.044715) + 1.0) * c)


def _silu_grad(g, x):
    s = sigmoid(x)
    return g * s * (x * (1.0 - s) + 1.0)


def _np_gelu_grad(g, x):
    return g * (0.5 * (1 + np_erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def _np_gelu_tanh_grad(g, x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x))


def _np_silu_grad(g, x):
    s = 1 / (1 + np.exp(-x))
    return g * s * (1 + x * (1 - s))


def _np_sinc_grad(g, x):
    a = math.pi * np.where(x == 0, 1.0, x)
    return np.where(x == 0, 0.0, g * (np.cos(a) - np.sin(a) / a) * math.pi / a)


def _sinc_grad(g, x):
    angle = x * math.pi
    square = angle * angle
    near, series = square < 1.0, 0.0        # by the series, where the difference has lost its digits, and at 0 its derivatives
    for k in range(9, 0, -1):
        series = series * square + (-1) ** k * 2 * k / math.factorial(2 * k + 1)
    away = where_op(near, 1.0, angle)
    return g * where_op(near, series * angle, (cos(away) - sin(away) / away) / away) * math.pi


abs_grad = gradient("abs_grad", "x", (lambda gg, x: abs_grad(gg, x), zero), numpy=lambda g, x: g * np.sign(x))
clamp_grad = gradient("clamp_grad", "x", (lambda gg, x, low, high: clamp_grad(gg, x, low, high), None, None, None),
                      numpy=lambda g, x, low, high: np.where((x >= low) & (x <= high), g, 0.0), numbers={"low": -0.7, "high": 0.7})
relu_grad = gradient("relu_grad", "out", (lambda gg, out: relu_grad(gg, out), zero),
                         numpy=lambda g, out: np.where(out > 0, g, 0.0))
sigmoid_grad = gradient("sigmoid_grad", "out", (
    lambda gg, out: sigmoid_grad(gg, out), lambda gg, g, out: gg * g * (1.0 - out * 2.0)),
    numpy=lambda g, out: g * out * (1 - out), domain=(0.05, 0.95))
tanh_grad = gradient("tanh_grad", "out", (
    lambda gg, out: tanh_grad(gg, out), lambda gg, g, out: gg * g * out * -2.0),
    numpy=lambda g, out: g * (1 - out * out), domain=(-0.95, 0.95))
reciprocal_grad = gradient("reciprocal_grad", "out", (
    lambda gg, out: reciprocal_grad(gg, out), lambda gg, g, out: gg * g * out * -2.0),
    numpy=lambda g, out: -g * out * out, domain=(0.3, 3.0))
sqrt_grad = gradient("sqrt_grad", "out", (
    lambda gg, out: sqrt_grad(gg, out), lambda gg, g, out: sqrt_grad(gg, out) * g / -out),
    numpy=lambda g, out: g * 0.5 / out, domain=(0.2, 4.0))
rsqrt_grad = gradient("rsqrt_grad", "out", (
    lambda gg, out: rsqrt_grad(gg, out), lambda gg, g, out: gg * g * -1.5 * out * out),
    numpy=lambda g, out: g * -0.5 * out ** 3, domain=(0.2, 4.0))
root_grad = gradient("root_grad", "out", (
    lambda gg, out: root_grad(gg, out), lambda gg, g, out: root_grad(root_grad(gg, out) * g, out) * -2.0),
    numpy=lambda g, out: g * 0.5 / out, domain=(0.2, 4.0))
gelu_grad = gradient("gelu_grad", "x", (
    lambda gg, x: gelu_grad(gg, x),
    lambda gg, g, x: gg * g * exp(x * x * -0.5) * (2.0 - x * x) * (1 / math.sqrt(2 * math.pi))), numpy=_np_gelu_grad)
gelu_tanh_grad = gradient("gelu_tanh_grad", "x", None, numpy=_np_gelu_tanh_grad, reference=_gelu_tanh_grad)
sinc = unary("sinc", lambda g, x: sinc_grad(g, x), numpy=np.sinc, domain=(0.3, 2.0), aliases=("special.sinc",))
sinc_grad = gradient("sinc_grad", "x", None, numpy=_np_sinc_grad, reference=_sinc_grad, domain=(0.3, 2.0))
silu_grad = gradient("silu_grad", "x", None, numpy=_np_silu_grad, reference=_silu_grad)


# ---------------------------------------------------------------- binary
def _pow_a(g, a, b):
    if isinstance(b, (int, float)):
        if b == 2 and not is_grad_enabled():
            return g * (a * 2)
        return zero(g) if b == 0 else g * ((tied(a) if b == 2 else a ** (b - 1)) * b)     # tied, so that a third gradient is 0 and no error
    return where_op(b == 0, 0.0, g * (b * a ** (b - 1)))


def _pow_b(g, a, b, out):
    """At the base 0 the power has the derivative 0 to exponents >= 0; out * log(a) is infinite or NaN for the others."""
    if isinstance(a, (int, float)):
        steep = g * (out * (math.log(a) if a > 0 else -math.inf if a == 0 else math.nan))
        return steep if a else where_op(b >= 0, 0.0, steep)
    flat = logical_and(a == 0, b >= 0)
    return where_op(flat, 0.0, g * (out * log(where_op(flat, 1.0, a))))


def _not_below(g, a, b):
    return clamp_grad(g, a, b, math.inf) if isinstance(b, (int, float)) else where_op(a >= b, g, 0.0)


def _not_above(g, a, b):
    return clamp_grad(g, a, -math.inf, b) if isinstance(b, (int, float)) else where_op(a <= b, g, 0.0)


def _within(g, x, min, max):
    if isinstance(min, (int, float)) and isinstance(max, (int, float)):
        return clamp_grad(g, x, min, max)
    return where_op(x >= min, where_op(x <= max, g, 0.0), 0.0)


def _larger(g, a, b):
    """The gradient of the input that wins; an equal pair shares it, and where one is NaN both get it, as in PyTorch."""
    return where_op(a < b, 0.0, where_op(a == b, g * 0.5, g))


add_op = binary("add", (lambda g: g, lambda g: g), numpy=np.add, takes="fib", public=False, rounds=True)
sub_op = binary("sub", (lambda g: g, lambda g: -g), numpy=np.subtract, public=False, rounds=True)
sub_op.no_bool = True
mul = binary("mul", (lambda g, b: g * b, lambda g, a: g * a), numpy=np.multiply, takes="fib", aliases=("multiply",),
             factors=True)
div_op = binary("div", (lambda g, b: g / b, lambda g, a, b: -g * (a / b) / b), numpy=np.divide, takes="f", domain=(0.3, 3.0), public=False,
                factors=True)
pow = binary("pow", (_pow_a, _pow_b), numpy=np.power, second="exponent", kinds="f", domain=(0.3, 2.5), rtol=2e-5, operator="pow",
              reflected=True, fits="i", rounds=True)
xlogy = binary("xlogy", (lambda g, a, b: where_op((a == 0) & (b <= 0), 0.0, xlogy(g, b)), lambda g, a, b: g * a / b), takes="f",
                domain=(0.3, 3.0), numpy=lambda a, b: np.where((a == 0) & (b == b), 0.0, a * np.log(b)), aliases=("special.xlogy",),
                rounds=True)
remainder = binary("remainder", (lambda g: g, lambda g, a, b: -g * floor_divide(a, b)), numpy=np.mod, domain=(0.6, 3.0), smooth=False,
                    operator="mod", reflected=True, aliases=("mod",), rounds=True)
fmod = binary("fmod", (lambda g: g, lambda g, a, b: -g * div_trunc(a, b)), numpy=np.fmod, domain=(0.6, 3.0), smooth=False, tensors=1,
              rounds=True)
floor_divide = binary("floor_divide", (zero, zero), numpy=np.floor_divide, domain=(0.6, 3.0), smooth=False, operator="floordiv",
                       reflected=True, factors=True)
div_trunc = binary("div_trunc", (zero, zero), numpy=lambda a, b: np.trunc(a / b).astype(np.result_type(a, b)), domain=(0.6, 3.0),
                    smooth=False, public=False, factors=True)
for _op in (add_op, sub_op, mul, div_op, floor_divide, div_trunc):
    _op.of_numbers = True
maximum = binary("maximum", (_larger, lambda g, a, b: _larger(g, b, a)), numpy=np.maximum, takes="fib", tensors=2,
                 inplace=False)
minimum = binary("minimum", (lambda g, a, b: _larger(g, b, a), _larger), numpy=np.minimum, takes="fib", tensors=2,
                 inplace=False)
clamp_min = binary("clamp_min", (_not_below, lambda g, a, b: where_op(a < b, g, 0.0)), numpy=np.maximum,
                    takes="fib", second="min", tensors=1, fits="ifh")
clamp_max = binary("clamp_max", (_not_above, lambda g, a, b: where_op(a > b, g, 0.0)), numpy=np.minimum,
                    takes="fib", second="max", tensors=1, fits="ifh")


def _comparison(name, numpy, **options):
    return binary(name, numpy=numpy, takes="fib", family="comparison", tests=True, tensors=options.pop("tensors", 1), **options)


eq = _comparison("eq", np.equal, rounds=True, operator="eq")
ne = _comparison("ne", np.not_equal, rounds=True, operator="ne", aliases=("not_equal",))
lt = _comparison("lt", np.less, rounds=True, operator="lt", aliases=("less", "cmplt"))
le = _comparison("le", np.less_equal, rounds=True, operator="le", aliases=("less_equal",))
gt = _comparison("gt", np.greater, rounds=True, operator="gt", aliases=("greater",))
ge = _comparison("ge", np.greater_equal, rounds=True, operator="ge", aliases=("greater_equal",))
logical_and = _comparison("logical_and", np.logical_and, tensors=2, unrecorded=True)
logical_or = _comparison("logical_or", np.logical_or, tensors=2, unrecorded=True)
logical_xor = _comparison("logical_xor", np.logical_xor, tensors=2, unrecorded=True)
bitwise_and = binary("bitwise_and", numpy=np.bitwise_and, takes="ib", family="bitwise", operator="and", reflected=True)
bitwise_or = binary("bitwise_or", numpy=np.bitwise_or, takes="ib", family="bitwise", operator="or", reflected=True)
bitwise_xor = binary("bitwise_xor", numpy=np.bitwise_xor, takes="ib", family="bitwise", operator="xor", reflected=True)


def _np_wrapped(i, n):
    return np.minimum(np.maximum(np.where(i < 0, i + n, i), 0), n - 1)


wrapped = binary("wrapped", numpy=_np_wrapped, takes="i", family="bitwise",
                 public=False)              # indices counted from an end; what lies outside is the nearest one inside

joined = register(
    "joined", ("i", "n", "j", "m"), family="bitwise", takes="i", kinds="i", promote="common",
    cases=(case((6,), 5, (6,), 4), case((3, 1), 7, (2,), 9)),
    numpy=lambda i, n, j, m: _np_wrapped(i, n) * m + _np_wrapped(j, m))           # two such as one, of n dimensions of m


# ---------------------------------------------------------------- ternary
where_op = ternary("where", ("condition", "input", "other"), (
    None, lambda g, condition: where_op(condition, g, 0.0), lambda g, condition: where_op(condition, 0.0, g)),
    numpy=np.where, takes={"condition": "b", "input": "fib", "other": "fib"}, kinds="fib", public=False,
    cases=tuple(case(Flags(s[0]), *s[1:]) for s in TERNARY_SHAPES), fits="if")
clamp_op = ternary("clamp", ("x", "min", "max"), (
    _within, lambda g, x, min, max: where_op(logical_and(x < min, min < max), g, 0.0),
    lambda g, x, min, max: where_op(logical_or(x > max, max < min), g, 0.0)), numpy=np.clip, takes="fi", public=False, smooth=False,
    fits="ifh")
clamp_op.bounds = True
mulacc = ternary("mulacc", ("a", "b", "c"), (lambda g, b: g * b, lambda g, a: g * a, lambda g: g), numpy=lambda a, b, c: a * b + c,
                  takes="fi", rtol=2e-5, inplace=False, fits="ifh", rounds=True)
_SCALED = tuple(case(*s, ()) for s in TERNARY_SHAPES)
add_product = ternary("add_product", ("x", "a", "b", "value"), (
    lambda g: g, lambda g, b, value: g * (b * value), lambda g, a, value: g * (a * value), lambda g, a, b: g * a * b),
    takes="fi", rtol=2e-5, cases=_SCALED, public=False, numpy=lambda x, a, b, value: x + value * a * b, fits="ifh")
add_quotient = ternary("add_quotient", ("x", "a", "b", "value"), (
    lambda g: g, lambda g, b, value: g * value / b, lambda g, a, b, value: -g * (a * value / b) / b,
    lambda g, a, b: g * a / b), domain=(0.3, 3.0),
    numpy=lambda x, a, b, value: x + value * a / b, takes="f", rtol=2e-5, cases=_SCALED, public=False, fits="ifh")
nan_to_num_op = ternary("nan_to_num", ("x", "nan", "largest"), (lambda g, x, largest: where_op(abs(x) <= largest, g, 0.0), None, None),
                        takes="f", cases=tuple(case(s, 0.5, 3e4) for s in UNARY_SHAPES), public=False,
                        numpy=lambda x, nan, largest: np.where(np.isnan(x), nan, np.clip(x, -largest, largest)))
lerp_op = ternary("lerp", ("x", "end", "weight"), (
    lambda g, weight: g * (1 - weight), lambda g, weight: g * weight, lambda g, x, end: g * (end - x)), takes="f", rtol=2e-5, public=False,
    numpy=lambda x, end, weight: np.where(np.abs(weight) < 0.5, x + weight * (end - x), end - (end - x) * (1 - weight)), fits="ifh")
bce_op = gradient("bce", "target", (                        # cross entropy of a probability; not a derivative, but of two floats like one
    lambda gg, g, target: bce_grad(gg, g, target), lambda gg, g: gg * (log1p(-g) - log(g))),
    numpy=lambda x, target: -(target * np.maximum(np.log(x), -100) + (1 - target) * np.maximum(np.log1p(-x), -100)), domain=(0.1, 0.9))
bce_grad = ternary("bce_grad", ("g", "x", "target"), None, takes="f", domain=(0.1, 0.9), public=False,
                   reference=lambda g, x, target: g * (x - target) / clamp_min((1.0 - x) * x, 1e-12),
                   numpy=lambda g, x, target: g * (x - target) / np.maximum((1 - x) * x, 1e-12))
absolute_difference = binary("absolute_difference", (
    lambda g, a, b: absolute_difference_grad(g, a, b), lambda g, a, b: absolute_difference_grad(g, b, a)), takes="f", public=False,
    numpy=lambda a, b: np.abs(a - b))
absolute_difference_grad = ternary("absolute_difference_grad", ("g", "x", "target"), (
    lambda gg, x, target: absolute_difference_grad(gg, x, target), zero, zero), takes="f", public=False, smooth=False,
    numpy=lambda g, x, target: g * np.sign(x - target))
squared_difference = binary("squared_difference", (
    lambda g, a, b: squared_difference_grad(g, a, b), lambda g, a, b: squared_difference_grad(g, b, a)), takes="f", public=False,
    numpy=lambda a, b: (a - b) ** 2)
squared_difference_grad = ternary("squared_difference_grad", ("g", "x", "target"), (
    lambda gg, x, target: squared_difference_grad(gg, x, target), lambda gg, g: 2 * gg * g, lambda gg, g: -2 * gg * g), takes="f",
    public=False, numpy=lambda g, x, target: 2 * g * (x - target))
logistic_loss = gradient("logistic_loss", "target", (       # likewise, of the logit; either side by itself; NaN of -inf, as in PyTorch
    lambda gg, g, target: logistic_loss_grad(gg, g, target), lambda gg, g: -gg * g),
    numpy=lambda x, target: x * ((x > 0) - target) + np.log1p(np.exp(-np.abs(x))) + 0 * np.where(target > 1, 0, np.minimum(x, 0)))
logistic_loss_grad = ternary("logistic_loss_grad", ("g", "x", "target"), None, takes="f", public=False,
                             reference=lambda g, x, target: g * (sigmoid(x) - target),
                             numpy=lambda g, x, target: g * (1 / (1 + np.exp(-x)) - target))
