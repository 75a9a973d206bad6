"""Records of elementwise ops: unary, binary, comparisons, ternary, and the fused derivatives of activations.

Each line is a record: derivative, NumPy reference, domain of the samples, and a public function unless one with options stands on it
(`volta/ops/math.py`). Derivatives are written in these very ops, so that they run where the data lives and can be differentiated
again; `gg` is the gradient of a gradient.
"""
from __future__ import annotations

import math

import numpy as np

from volta.ops.records.create import full_op
from volta.ops.table import BINARY_SHAPES, TERNARY_SHAPES, UNARY_SHAPES, Flags, Places, case, create, register
from volta.ops.table import erf as np_erf

UNARY_CASES = tuple(case(s) for s in UNARY_SHAPES)
BINARY_CASES = tuple(case(*s) for s in BINARY_SHAPES)
TERNARY_CASES = tuple(case(*s) for s in TERNARY_SHAPES)

# What `help` says of the public ones: the formula, and an example's result and operands.
_DOCS = {
    "neg": ("-input.", "tensor([-1.,  2.])", "[1.0, -2.0]"),
    "abs": ("The absolute value, |input|.", "tensor([1., 2.])", "[1.0, -2.0]"),
    "sign": ("-1, 0 or 1 by the sign of input; 0 for NaN.", "tensor([ 1.,  0., -1.])", "[3.0, 0.0, -2.0]"),
    "reciprocal": ("1 / input.", "tensor([ 0.5000, -0.2500])", "[2.0, -4.0]"),
    "sqrt": ("The square root; NaN for negative numbers.", "tensor([2., 3.])", "[4.0, 9.0]"),
    "rsqrt": ("1 / sqrt(input).", "tensor([0.5000, 0.2500])", "[4.0, 16.0]"),
    "exp": ("e ** input.", "tensor([1.0000, 2.7183])", "[0.0, 1.0]"),
    "exp2": ("2 ** input.", "tensor([8.0000, 0.5000])", "[3.0, -1.0]"),
    "expm1": ("e ** input - 1, exact near 0.", "tensor([0.0000, 1.7183])", "[0.0, 1.0]"),
    "log": ("The natural logarithm; NaN for negative numbers.", "tensor([0.0000, 2.3026])", "[1.0, 10.0]"),
    "log2": ("The logarithm to base 2.", "tensor([ 3., -1.])", "[8.0, 0.5]"),
    "log10": ("The logarithm to base 10.", "tensor([1., 0.])", "[10.0, 1.0]"),
    "log1p": ("log(1 + input), exact near 0.", "tensor([0.0000, 0.6931])", "[0.0, 1.0]"),
    "sin": ("The sine. Units: radians.", "tensor([0.0000, 0.8415])", "[0.0, 1.0]"),
    "cos": ("The cosine. Units: radians.", "tensor([1.0000, 0.5403])", "[0.0, 1.0]"),
    "tan": ("The tangent. Units: radians.", "tensor([0.0000, 1.5574])", "[0.0, 1.0]"),
    "tanh": ("(e**x - e**-x) / (e**x + e**-x).", "tensor([0.0000, 0.7616])", "[0.0, 1.0]"),
    "sigmoid": ("1 / (1 + e ** -input).", "tensor([0.5000, 0.8808])", "[0.0, 2.0]"),
    "erf": ("The error function, 2 / sqrt(pi) times the integral of e**-t**2 from 0 to input.", "tensor([0.0000, 0.8427])", "[0.0, 1.0]"),
    "relu": ("max(input, 0); NaN stays NaN.", "tensor([1., 0.])", "[1.0, -2.0]"),
    "silu": ("input * sigmoid(input).", "tensor([ 0.7311, -0.2384])", "[1.0, -2.0]"),
    "floor": ("The largest integer that is not above input.", "tensor([ 1., -2.])", "[1.5, -1.5]"),
    "ceil": ("The smallest integer that is not below input.", "tensor([ 2., -1.])", "[1.5, -1.5]"),
    "trunc": ("The integer part: rounded towards 0.", "tensor([ 1., -1.])", "[1.5, -1.5]"),
    "frac": ("input - trunc(input): what follows the point, with the sign of input.", "tensor([ 0.5000, -0.5000])", "[1.5, -1.5]"),
    "logical_not": ("Whether input is 0.", "tensor([ True, False])", "[0.0, 2.0]"),
    "bitwise_not": ("Every bit inverted; for bool, logical not.", "tensor([-1, -6])", "[0, 5]"),
    "isnan": ("Whether input is NaN.", "tensor([False,  True])", "[1.0, float('nan')]"),
    "isinf": ("Whether input is an infinity.", "tensor([False,  True])", "[1.0, float('-inf')]"),
    "isfinite": ("Whether input is neither NaN nor an infinity.", "tensor([ True, False])", "[1.0, float('inf')]"),
    "mul": ("input * other.", "tensor([3., 8.])", "[1.0, 2.0]", "[3.0, 4.0]"),
    "pow": ("input ** exponent, as in C; integers have no negative powers.", "tensor([8., 9.])", "[2.0, 3.0]", "[3.0, 2.0]"),
    "xlogy": ("input * log(other), 0 where input is 0.", "tensor([0.0000, 1.3863])", "[0.0, 2.0]", "[0.0, 2.0]"),
    "remainder": ("input - floor(input / other) * other, with the sign of other.", "tensor([2., 1.])", "[5.0, -5.0]", "[3.0, 3.0]"),
    "fmod": ("input - trunc(input / other) * other, with the sign of input.", "tensor([ 2., -2.])", "[5.0, -5.0]", "[3.0, 3.0]"),
    "floor_divide": ("floor(input / other).", "tensor([ 1., -2.])", "[5.0, -5.0]", "[3.0, 3.0]"),
    "maximum": ("The larger one; NaN where either is NaN.", "tensor([3., 4.])", "[1.0, 4.0]", "[3.0, 2.0]"),
    "minimum": ("The smaller one; NaN where either is NaN.", "tensor([1., 2.])", "[1.0, 4.0]", "[3.0, 2.0]"),
    "clamp_min": ("input, or `min` where that is larger.", "tensor([3., 4.])", "[1.0, 4.0]", "[3.0, 2.0]"),
    "clamp_max": ("input, or `max` where that is smaller.", "tensor([1., 2.])", "[1.0, 4.0]", "[3.0, 2.0]"),
    "eq": ("input == other.", "tensor([ True, False])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "ne": ("input != other.", "tensor([False,  True])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "lt": ("input < other.", "tensor([False,  True])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "le": ("input <= other.", "tensor([True, True])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "gt": ("input > other.", "tensor([False,  True])", "[1.0, 4.0]", "[1.0, 3.0]"),
    "ge": ("input >= other.", "tensor([ True, False])", "[1.0, 2.0]", "[1.0, 3.0]"),
    "logical_and": ("Whether both are other than 0.", "tensor([False,  True])", "[0.0, 2.0]", "[1.0, 3.0]"),
    "logical_or": ("Whether either is other than 0.", "tensor([True, True])", "[0.0, 2.0]", "[1.0, 3.0]"),
    "logical_xor": ("Whether exactly one is other than 0.", "tensor([ True, False])", "[0.0, 2.0]", "[1.0, 3.0]"),
    "bitwise_and": ("The bits set in both; for bool, logical and.", "tensor([2, 4])", "[6, 5]", "[3, 4]"),
    "bitwise_or": ("The bits set in either; for bool, logical or.", "tensor([7, 5])", "[6, 5]", "[3, 4]"),
    "bitwise_xor": ("The bits set in exactly one; for bool, logical exclusive or.", "tensor([5, 1])", "[6, 5]", "[3, 4]"),
    "mulacc": ("a * b + c in one pass. Volta's own.", "tensor([ 8., 14.])", "[1.0, 2.0]", "[3.0, 4.0]", "[5.0, 6.0]"),
}


def _record(name, inputs, names, vjp, *, takes, public=True, promote=None, function=True, inplace=True, operator=None, reflected=False,
            aliases=(), kinds=None, **options):
    """An elementwise record. Where it takes nothing but floating point numbers, integers are converted."""
    doc = places = None
    if public:
        formula, result, *operands = _DOCS[name]
        call = f"{name if function else f'nn.functional.{name}'}({', '.join(f'volta.tensor({x})' for x in operands)})"
        doc, places = f"{formula}\n\n>>> volta.{call}\n{result}", Places(function, True, inplace, None, False, operator, reflected, aliases)
    return register(name, inputs, names=names, vjp=vjp, takes=takes, promote=promote or ("float" if takes == "f" else "common"),
                    kinds=kinds or takes, public=places, doc=doc, **options)


def _unary(name, vjp=None, *, takes="f", family="unary", **options):
    return _record(name, ("x",), ("input",), (vjp,) if vjp else None, takes=takes, family=family, cases=UNARY_CASES, **options)


def _zero(g):
    return create(full_op, g.shape, 0, dtype=g.dtype, device=g.device)


# ---------------------------------------------------------------- unary
neg = _unary("neg", lambda g: -g, numpy=np.negative, takes="fi", operator="neg", aliases=("negative",))
abs = _unary("abs", lambda g, x: g * sign(x), numpy=np.abs, takes="fi", operator="abs", aliases=("absolute",))
sign = _unary("sign", _zero, numpy=np.sign, takes="fib", kinds="fi")
reciprocal = _unary("reciprocal", lambda g, out: -g * out * out, numpy=np.reciprocal, domain=(0.3, 3.0), aliases=("recip",))
sqrt = _unary("sqrt", lambda g, out: g * 0.5 / out, numpy=np.sqrt, domain=(0.2, 4.0))
rsqrt = _unary("rsqrt", lambda g, out: g * -0.5 * out * out * out, numpy=lambda x: 1 / np.sqrt(x), domain=(0.2, 4.0))
exp = _unary("exp", lambda g, out: g * out, numpy=np.exp)
exp2 = _unary("exp2", lambda g, out: g * out * math.log(2), numpy=np.exp2)
expm1 = _unary("expm1", lambda g, out: g * (out + 1.0), numpy=np.expm1)
log = _unary("log", lambda g, x: g / x, numpy=np.log, domain=(0.2, 4.0))
log2 = _unary("log2", lambda g, x: g / (x * math.log(2)), numpy=np.log2, domain=(0.2, 4.0))
log10 = _unary("log10", lambda g, x: g / (x * math.log(10)), numpy=np.log10, domain=(0.2, 4.0))
log1p = _unary("log1p", lambda g, x: g / (x + 1.0), numpy=np.log1p, domain=(-0.6, 3.0))
sin = _unary("sin", lambda g, x: g * cos(x), numpy=np.sin)
cos = _unary("cos", lambda g, x: -g * sin(x), numpy=np.cos)
tan = _unary("tan", lambda g, out: g * (out * out + 1.0), numpy=np.tan, domain=(-1.2, 1.2))
tanh = _unary("tanh", lambda g, out: tanh_grad(g, out), numpy=np.tanh)
sigmoid = _unary("sigmoid", lambda g, out: sigmoid_grad(g, out), numpy=lambda x: 1 / (1 + np.exp(-x)))
erf = _unary("erf", lambda g, x: g * exp(-x * x) * (2 / math.sqrt(math.pi)), numpy=np_erf)
relu = _unary("relu", lambda g, out: relu_grad(g, out), numpy=lambda x: np.maximum(x, 0), takes="fi")
gelu_op = _unary("gelu", lambda g, x: gelu_grad(g, x), numpy=lambda x: 0.5 * x * (1 + np_erf(x / math.sqrt(2))), promote="common",
                 public=False)
gelu_tanh = _unary("gelu_tanh", lambda g, x: gelu_tanh_grad(g, x), numpy=lambda x: 0.5 * x * (
    1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))), promote="common", public=False)
silu = _unary("silu", lambda g, x: silu_grad(g, x), numpy=lambda x: x / (1 + np.exp(-x)), promote="common", function=False, inplace=False)
floor = _unary("floor", _zero, numpy=np.floor, takes="fi")
ceil = _unary("ceil", _zero, numpy=np.ceil, takes="fi")
round_op = _unary("round", _zero, numpy=np.round, takes="fi", public=False)
trunc = _unary("trunc", _zero, numpy=np.trunc, takes="fi")
frac = _unary("frac", lambda g: g, numpy=lambda x: x - np.trunc(x), promote="common")
bitwise_not = _unary("bitwise_not", numpy=np.invert, takes="ib", family="bitwise", operator="invert")
logical_not = _unary("logical_not", numpy=np.logical_not, takes="fib", tests=True)
isnan = _unary("isnan", numpy=np.isnan, takes="fib", tests=True, inplace=False)
isinf = _unary("isinf", numpy=np.isinf, takes="fib", tests=True, inplace=False)
isfinite = _unary("isfinite", numpy=np.isfinite, takes="fib", tests=True, inplace=False)


# ---------------------------------------------------------------- fused derivatives
def _grad_record(name, second, vjp, *, numpy, reference=None, domain=(-2.0, 2.0)):
    return register(name, ("g", second), vjp=vjp, family="grad", promote="float", takes="f", numpy=numpy, reference=reference,
                    domain=domain, cases=(case((6,), (6,)), case((3, 4), (3, 4)), case((0, 2), (0, 2))))


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


relu_grad = _grad_record("relu_grad", "out", (lambda gg, out: relu_grad(gg, out), None),
                         numpy=lambda g, out: np.where(out > 0, g, 0.0))
sigmoid_grad = _grad_record("sigmoid_grad", "out", (
    lambda gg, out: sigmoid_grad(gg, out), lambda gg, g, out: gg * g * (1.0 - out * 2.0)),
    numpy=lambda g, out: g * out * (1 - out), domain=(0.05, 0.95))
tanh_grad = _grad_record("tanh_grad", "out", (
    lambda gg, out: tanh_grad(gg, out), lambda gg, g, out: gg * g * out * -2.0),
    numpy=lambda g, out: g * (1 - out * out), domain=(-0.95, 0.95))
gelu_grad = _grad_record("gelu_grad", "x", (
    lambda gg, x: gelu_grad(gg, x),
    lambda gg, g, x: gg * g * exp(x * x * -0.5) * (2.0 - x * x) * (1 / math.sqrt(2 * math.pi))), numpy=_np_gelu_grad)
gelu_tanh_grad = _grad_record("gelu_tanh_grad", "x", None, numpy=_np_gelu_tanh_grad, reference=_gelu_tanh_grad)
silu_grad = _grad_record("silu_grad", "x", None, numpy=_np_silu_grad, reference=_silu_grad)


# ---------------------------------------------------------------- binary
def _binary(name, vjp=None, *, takes="fi", family="binary", second="other", cases=BINARY_CASES, **options):
    return _record(name, ("a", "b"), ("input", second), vjp, takes=takes, family=family, cases=cases, **options)


def _pow_a(g, a, b):
    if isinstance(b, (int, float)):
        return _zero(g) if b == 0 else g * (a if b == 2 else a ** (b - 1)) * b
    return where_op(b == 0, 0.0, g * b * a ** (b - 1))


def _pow_b(g, a, b, out):
    """At the base 0 the power has the derivative 0 to exponents >= 0; out * log(a) is infinite or NaN for the others."""
    if isinstance(a, (int, float)):
        steep = g * out * (math.log(a) if a > 0 else -math.inf if a == 0 else math.nan)
        return steep if a else where_op(b >= 0, 0.0, steep)
    flat = logical_and(a == 0, b >= 0)
    return where_op(flat, 0.0, g * out * log(where_op(flat, 1.0, a)))


def _within(g, x, min, max):
    return where_op(x >= min, where_op(x <= max, g, 0.0), 0.0)


def _larger(g, a, b):
    """The gradient of the input that wins; an equal pair shares it, and where one is NaN both get it, as in PyTorch."""
    return where_op(a < b, 0.0, where_op(a == b, g * 0.5, g))


add_op = _binary("add", (lambda g: g, lambda g: g), numpy=np.add, takes="fib", public=False)
sub_op = _binary("sub", (lambda g: g, lambda g: -g), numpy=np.subtract, public=False)
mul = _binary("mul", (lambda g, b: g * b, lambda g, a: g * a), numpy=np.multiply, takes="fib", aliases=("multiply",))
div_op = _binary("div", (lambda g, b: g / b, lambda g, a, b: -g * (a / b) / b), numpy=np.divide, takes="f", domain=(0.3, 3.0), public=False)
pow = _binary("pow", (_pow_a, _pow_b), numpy=np.power, second="exponent", kinds="f", domain=(0.3, 2.5), rtol=2e-5, operator="pow",
              reflected=True)
xlogy = _binary("xlogy", (lambda g, a, b: g * xlogy(where_op(a == 0, a, 1.0), b), lambda g, a, b: g * a / b), takes="f",
                domain=(0.3, 3.0), numpy=lambda a, b: np.where((a == 0) & (b == b), 0.0, a * np.log(b)))
remainder = _binary("remainder", (lambda g: g, lambda g, a, b: -g * floor_divide(a, b)), numpy=np.mod, domain=(0.6, 3.0), smooth=False,
                    operator="mod", reflected=True, aliases=("mod",))
fmod = _binary("fmod", (lambda g: g, lambda g, a, b: -g * trunc(a / b)), numpy=np.fmod, domain=(0.6, 3.0), smooth=False)
floor_divide = _binary("floor_divide", (_zero, _zero), numpy=np.floor_divide, domain=(0.6, 3.0), smooth=False, operator="floordiv",
                       reflected=True)
div_trunc = _binary("div_trunc", (_zero, _zero), numpy=lambda a, b: np.trunc(a / b).astype(np.result_type(a, b)), domain=(0.6, 3.0),
                    smooth=False, public=False)
maximum = _binary("maximum", (_larger, lambda g, a, b: _larger(g, b, a)), numpy=np.maximum, takes="fib")
minimum = _binary("minimum", (lambda g, a, b: _larger(g, b, a), _larger), numpy=np.minimum, takes="fib")
clamp_min = _binary("clamp_min", (lambda g, a, b: where_op(a >= b, g, 0.0), lambda g, a, b: where_op(a < b, g, 0.0)), numpy=np.maximum,
                    takes="fib", second="min")
clamp_max = _binary("clamp_max", (lambda g, a, b: where_op(a <= b, g, 0.0), lambda g, a, b: where_op(a > b, g, 0.0)), numpy=np.minimum,
                    takes="fib", second="max")


def _comparison(name, numpy, **options):
    return _binary(name, numpy=numpy, takes="fib", family="comparison", tests=True, **options)


eq = _comparison("eq", np.equal, operator="eq")
ne = _comparison("ne", np.not_equal, operator="ne", aliases=("not_equal",))
lt = _comparison("lt", np.less, operator="lt", aliases=("less", "cmplt"))
le = _comparison("le", np.less_equal, operator="le", aliases=("less_equal",))
gt = _comparison("gt", np.greater, operator="gt", aliases=("greater",))
ge = _comparison("ge", np.greater_equal, operator="ge", aliases=("greater_equal",))
logical_and = _comparison("logical_and", np.logical_and)
logical_or = _comparison("logical_or", np.logical_or)
logical_xor = _comparison("logical_xor", np.logical_xor)
bitwise_and = _binary("bitwise_and", numpy=np.bitwise_and, takes="ib", family="bitwise", operator="and", reflected=True)
bitwise_or = _binary("bitwise_or", numpy=np.bitwise_or, takes="ib", family="bitwise", operator="or", reflected=True)
bitwise_xor = _binary("bitwise_xor", numpy=np.bitwise_xor, takes="ib", family="bitwise", operator="xor", reflected=True)


# ---------------------------------------------------------------- ternary
def _ternary(name, inputs, vjp, *, cases=TERNARY_CASES, **options):
    return _record(name, inputs, ("input", *inputs[1:]) if inputs[0] == "x" else inputs, vjp, family="ternary", cases=cases, **options)


where_op = _ternary("where", ("condition", "input", "other"), (
    None, lambda g, condition: where_op(condition, g, 0.0), lambda g, condition: where_op(condition, 0.0, g)),
    numpy=np.where, takes={"condition": "b", "input": "fib", "other": "fib"}, kinds="fib", public=False,
    cases=tuple(case(Flags(s[0]), *s[1:]) for s in TERNARY_SHAPES))
clamp_op = _ternary("clamp", ("x", "min", "max"), (
    _within, lambda g, x, min, max: where_op(logical_and(x < min, min < max), g, 0.0),
    lambda g, x, min, max: where_op(logical_or(x > max, max < min), g, 0.0)), numpy=np.clip, takes="fi", public=False, smooth=False)
mulacc = _ternary("mulacc", ("a", "b", "c"), (lambda g, b: g * b, lambda g, a: g * a, lambda g: g), numpy=lambda a, b, c: a * b + c,
                  takes="fi", rtol=2e-5, inplace=False)
bce_op = _grad_record("bce", "target", (                    # cross entropy of a probability; not a derivative, but like one two floats
    lambda gg, g, target: gg * (g - target) / clamp_min((1.0 - g) * g, 1e-12), lambda gg, g: gg * (log1p(-g) - log(g))),
    numpy=lambda x, target: -(target * np.maximum(np.log(x), -100) + (1 - target) * np.maximum(np.log1p(-x), -100)), domain=(0.1, 0.9))
