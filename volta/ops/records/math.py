"""Records of elementwise ops: unary, binary, comparisons, `where`, `mulacc`, and the fused derivatives of activations.

Each line is a record: derivative, NumPy reference, domain of the samples. Derivatives are written in these very ops, so that
they run where the data lives and can be differentiated again; `gg` is the gradient of a gradient.
"""
from __future__ import annotations

import math

import numpy as np

from volta._kernels.core.call import run_kernel
from volta._kernels.core.grad_mode import call_under
from volta.ops.records.copy import copy_into_op
from volta.ops.records.create import full_op
from volta.ops.table import BINARY_SHAPES, TERNARY_SHAPES, UNARY_SHAPES, Flags, case, create, register
from volta.ops.table import erf as np_erf

_UNARY_CASES = tuple(case(s) for s in UNARY_SHAPES)
_BINARY_CASES = tuple(case(*s) for s in BINARY_SHAPES)


def _unary(name, vjp=None, *, numpy, promote="float", family="unary", **options):
    return register(name, ("x",), vjp=(vjp,) if vjp else None, family=family, promote=promote, numpy=numpy,
                    cases=_UNARY_CASES, **options)


def _zero(g):
    return create(full_op, g.shape, 0, dtype=g.dtype, device=g.device)


class Composite:
    """The kernel, on every device, of a record with a derivative of its own and a value that other records' kernels compute."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *inputs):
        return call_under(False, self.function, inputs, {})

    def into(self, out, *inputs):
        """out = the op of the inputs. The caller counts the change."""
        version = out.storage.version
        run_kernel(copy_into_op, out.device, (out, self(*inputs)))
        out.storage.version = version


# ---------------------------------------------------------------- unary
neg = _unary("neg", lambda g: -g, numpy=np.negative, promote="common", kinds="fi")
abs = _unary("abs", lambda g, x: g * sign(x), numpy=np.abs, promote="common", kinds="fi")
sign = _unary("sign", _zero, numpy=np.sign, promote="common", kinds="fi")
reciprocal = _unary("reciprocal", lambda g, out: -g * out * out, numpy=np.reciprocal, domain=(0.3, 3.0))
sqrt = _unary("sqrt", lambda g, out: g * 0.5 / out, numpy=np.sqrt, domain=(0.2, 4.0))
rsqrt = _unary("rsqrt", lambda g, out: g * -0.5 * out * out * out, numpy=lambda x: 1 / np.sqrt(x), domain=(0.2, 4.0))
exp = _unary("exp", lambda g, out: g * out, numpy=np.exp)
exp2 = _unary("exp2", lambda g, out: g * out * math.log(2), numpy=np.exp2)
expm1 = _unary("expm1", lambda g, out: g * (out + 1.0), numpy=np.expm1)
log = _unary("log", lambda g, x: g / x, numpy=np.log, domain=(0.2, 4.0))
log2 = _unary("log2", lambda g, x: g / (x * math.log(2)), numpy=np.log2, domain=(0.2, 4.0))
log1p = _unary("log1p", lambda g, x: g / (x + 1.0), numpy=np.log1p, domain=(-0.6, 3.0))
sin = _unary("sin", lambda g, x: g * cos(x), numpy=np.sin)
cos = _unary("cos", lambda g, x: -g * sin(x), numpy=np.cos)
tan = _unary("tan", lambda g, out: g * (out * out + 1.0), numpy=np.tan, view=Composite(lambda x: sin(x) / cos(x)), domain=(-1.2, 1.2))
tanh = _unary("tanh", lambda g, out: tanh_grad(g, out), numpy=np.tanh)
sigmoid = _unary("sigmoid", lambda g, out: sigmoid_grad(g, out), numpy=lambda x: 1 / (1 + np.exp(-x)))
erf = _unary("erf", lambda g, x: g * exp(-x * x) * (2 / math.sqrt(math.pi)), numpy=np_erf)
relu = _unary("relu", lambda g, out: relu_grad(g, out), numpy=lambda x: np.maximum(x, 0), promote="common", kinds="fi")
gelu_op = _unary("gelu", lambda g, x: gelu_grad(g, x), numpy=lambda x: 0.5 * x * (1 + np_erf(x / math.sqrt(2))))
gelu_tanh = _unary("gelu_tanh", lambda g, x: gelu_tanh_grad(g, x), numpy=lambda x: 0.5 * x * (
    1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))))
silu = _unary("silu", lambda g, x: silu_grad(g, x), numpy=lambda x: x / (1 + np.exp(-x)))
floor = _unary("floor", _zero, numpy=np.floor)
ceil = _unary("ceil", _zero, numpy=np.ceil)
round = _unary("round", _zero, numpy=np.round)
trunc = _unary("trunc", _zero, numpy=np.trunc)
logical_not = _unary("logical_not", numpy=np.logical_not, promote="none", kinds="fib")
isnan = _unary("isnan", numpy=np.isnan, promote="common")
isinf = _unary("isinf", numpy=np.isinf, promote="common")
isfinite = _unary("isfinite", numpy=np.isfinite, promote="common")


# ---------------------------------------------------------------- fused derivatives
def _grad_record(name, second, vjp, *, numpy, reference=None, domain=(-2.0, 2.0)):
    return register(name, ("g", second), vjp=vjp, family="grad", promote="float", numpy=numpy, reference=reference,
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
def _binary(name, vjp=None, *, numpy, promote="common", family="binary", cases=_BINARY_CASES, **options):
    return register(name, ("a", "b"), vjp=vjp, family=family, promote=promote, numpy=numpy, cases=cases, **options)


def _pow_a(g, a, b):
    if isinstance(b, (int, float)):
        return _zero(g) if b == 0 else g * (a ** (b - 1)) * b
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


add = _binary("add", (lambda g: g, lambda g: g), numpy=np.add, kinds="fi")
sub = _binary("sub", (lambda g: g, lambda g: -g), numpy=np.subtract, kinds="fi")
mul = _binary("mul", (lambda g, b: g * b, lambda g, a: g * a), numpy=np.multiply, kinds="fi")
div_op = _binary("div", (lambda g, b: g / b, lambda g, a, b: -g * (a / b) / b), numpy=np.divide, promote="float", domain=(0.3, 3.0))
pow_op = _binary("pow", (_pow_a, _pow_b), numpy=np.power, domain=(0.3, 2.5), rtol=2e-5)
remainder = _binary("remainder", (lambda g: g, lambda g, a, b: -g * floor_divide(a, b)), numpy=np.mod, kinds="fi",
                    domain=(0.6, 3.0), smooth=False)
fmod = _binary("fmod", (lambda g: g, lambda g, a, b: -g * trunc(a / b)), numpy=np.fmod, kinds="fi", domain=(0.6, 3.0),
               smooth=False)
floor_divide = _binary("floor_divide", (_zero, _zero), numpy=np.floor_divide, kinds="fi", domain=(0.6, 3.0), smooth=False)
div_trunc = _binary("div_trunc", (_zero, _zero), numpy=lambda a, b: np.trunc(a / b), kinds="f", domain=(0.6, 3.0), smooth=False,
                    view=Composite(lambda a, b: trunc(a / b)))
maximum = _binary("maximum", (_larger, lambda g, a, b: _larger(g, b, a)), numpy=np.maximum, kinds="fi")
minimum = _binary("minimum", (lambda g, a, b: _larger(g, b, a), _larger), numpy=np.minimum, kinds="fi")
clamp_min_op = _binary("clamp_min", (lambda g, a, b: where_op(a >= b, g, 0.0), lambda g, a, b: where_op(a < b, g, 0.0)), numpy=np.maximum,
                       kinds="fi", view=Composite(lambda a, b: maximum(a, b)))
clamp_max_op = _binary("clamp_max", (lambda g, a, b: where_op(a <= b, g, 0.0), lambda g, a, b: where_op(a > b, g, 0.0)), numpy=np.minimum,
                       kinds="fi", view=Composite(lambda a, b: minimum(a, b)))


def _comparison(name, numpy, **options):
    return _binary(name, numpy=numpy, family="comparison", **options)


eq = _comparison("eq", np.equal, kinds="fib")
ne = _comparison("ne", np.not_equal, kinds="fib")
lt = _comparison("lt", np.less, kinds="fib")
le = _comparison("le", np.less_equal, kinds="fib")
gt = _comparison("gt", np.greater, kinds="fib")
ge = _comparison("ge", np.greater_equal, kinds="fib")
logical_and = _comparison("logical_and", np.logical_and, kinds="fib")
logical_or = _comparison("logical_or", np.logical_or, kinds="fib")
logical_xor = _comparison("logical_xor", np.logical_xor, kinds="fib")
bitwise_and_op = _binary("bitwise_and", numpy=np.bitwise_and, kinds="ib", family="bitwise")
bitwise_or_op = _binary("bitwise_or", numpy=np.bitwise_or, kinds="ib", family="bitwise")
bitwise_xor_op = _binary("bitwise_xor", numpy=np.bitwise_xor, kinds="ib", family="bitwise")

# ---------------------------------------------------------------- ternary
where_op = register(
    "where", ("condition", "a", "b"), family="ternary", promote="common", numpy=np.where, kinds="fib",
    takes={"condition": "b", "a": "fib", "b": "fib"},
    vjp=(None, lambda g, condition: where_op(condition, g, 0.0), lambda g, condition: where_op(condition, 0.0, g)),
    cases=tuple(case(Flags(s[0]), *s[1:]) for s in TERNARY_SHAPES))
clamp_op = register(
    "clamp", ("x", "min", "max"), family="ternary", promote="common", numpy=np.clip, kinds="fi", vjp=(
        _within, lambda g, x, min, max: where_op(logical_and(x < min, min < max), g, 0.0),
        lambda g, x, min, max: where_op(logical_or(x > max, max < min), g, 0.0)),
    view=Composite(lambda x, min, max: minimum(maximum(x, min), max)), cases=tuple(case(*s) for s in TERNARY_SHAPES), smooth=False)
mulacc = register(
    "mulacc", ("a", "b", "c"), family="ternary", promote="common", numpy=lambda a, b, c: a * b + c, kinds="fi",
    vjp=(lambda g, b: g * b, lambda g, a: g * a, lambda g: g), cases=tuple(case(*s) for s in TERNARY_SHAPES), rtol=2e-5)
