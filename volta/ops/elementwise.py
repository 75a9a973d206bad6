"""Elementwise ops: unary, binary, comparisons, `where`, `mulacc`, and the fused derivatives of activations.

Each line is a record: derivative, NumPy reference, domain of the samples. Derivatives are written in these very ops, so that
they run where the data lives and can be differentiated again.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta.dtypes import result_type
from volta.errors import DTypeError
from volta.ops.table import BINARY_SHAPES, TERNARY_SHAPES, UNARY_SHAPES, Flags, case, erf, register

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number

_UNARY_CASES = tuple(case(s) for s in UNARY_SHAPES)
_BINARY_CASES = tuple(case(*s) for s in BINARY_SHAPES)


def _unary(name, vjp=None, *, numpy, promote="float", family="unary", **options):
    return register(name, ("x",), vjp=(vjp,) if vjp else None, family=family, promote=promote, numpy=numpy,
                    cases=_UNARY_CASES, **options)


def _zero(g):
    from volta.ops.creation import zeros_like
    return zeros_like(g)


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
tanh = _unary("tanh", lambda g, out: tanh_grad(g, out), numpy=np.tanh)
sigmoid = _unary("sigmoid", lambda g, out: sigmoid_grad(g, out), numpy=lambda x: 1 / (1 + np.exp(-x)))
erf_ = _unary("erf", lambda g, x: g * exp(-x * x) * (2 / math.sqrt(math.pi)), numpy=erf)
relu = _unary("relu", lambda g, out: relu_grad(g, out), numpy=lambda x: np.maximum(x, 0), promote="common", kinds="fi")
gelu_ = _unary("gelu", lambda g, x: gelu_grad(g, x), numpy=lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))))
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
recip = reciprocal


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
    return g * (0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def _np_gelu_tanh_grad(g, x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x ** 3))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x))


def _np_silu_grad(g, x):
    s = 1 / (1 + np.exp(-x))
    return g * s * (1 + x * (1 - s))


relu_grad = _grad_record("relu_grad", "out", (lambda _, out: relu_grad(_, out), None),
                         numpy=lambda g, out: np.where(out > 0, g, 0.0))
sigmoid_grad = _grad_record("sigmoid_grad", "out", (
    lambda _, out: sigmoid_grad(_, out), lambda _, g, out: _ * g * (1.0 - out * 2.0)),
    numpy=lambda g, out: g * out * (1 - out), domain=(0.05, 0.95))
tanh_grad = _grad_record("tanh_grad", "out", (
    lambda _, out: tanh_grad(_, out), lambda _, g, out: _ * g * out * -2.0),
    numpy=lambda g, out: g * (1 - out * out), domain=(-0.95, 0.95))
gelu_grad = _grad_record("gelu_grad", "x", (
    lambda _, x: gelu_grad(_, x),
    lambda _, g, x: _ * g * exp(x * x * -0.5) * (2.0 - x * x) * (1 / math.sqrt(2 * math.pi))), numpy=_np_gelu_grad)
gelu_tanh_grad = _grad_record("gelu_tanh_grad", "x", None, numpy=_np_gelu_tanh_grad, reference=_gelu_tanh_grad)
silu_grad = _grad_record("silu_grad", "x", None, numpy=_np_silu_grad, reference=_silu_grad)


# ---------------------------------------------------------------- binary
def _binary(name, vjp=None, *, numpy, promote="common", family="binary", cases=_BINARY_CASES, **options):
    return register(name, ("a", "b"), vjp=vjp, family=family, promote=promote, numpy=numpy, cases=cases, **options)


def _pow_a(g, a, b):
    if isinstance(b, (int, float)):
        return g * 0.0 if b == 0 else g * (a ** (b - 1)) * b
    return where(b == 0, 0.0, g * b * a ** (b - 1))


def _pow_b(g, a, b, out):
    if isinstance(a, (int, float)):
        return g * 0.0 if a == 0 else g * out * (math.log(a) if a > 0 else math.nan)
    return where(a == 0, 0.0, g * out * log(where(a == 0, 1.0, a)))


def _larger(g, a, b):
    """The gradient of the input that wins; an equal pair shares it, and where one is NaN both get it, as in PyTorch."""
    return where(a < b, 0.0, where(a == b, g * 0.5, g))


add = _binary("add", (lambda g: g, lambda g: g), numpy=np.add, kinds="fi")
sub = _binary("sub", (lambda g: g, lambda g: -g), numpy=np.subtract, kinds="fi")
mul = _binary("mul", (lambda g, b: g * b, lambda g, a: g * a), numpy=np.multiply, kinds="fi")
div_ = _binary("div", (lambda g, b: g / b, lambda g, a, b: -g * (a / b) / b), numpy=np.divide, promote="float", domain=(0.3, 3.0))
pow_ = _binary("pow", (_pow_a, _pow_b), numpy=np.power, domain=(0.3, 2.5), rtol=2e-5)
remainder = _binary("remainder", (lambda g: g, lambda g, a, b: -g * floor_divide(a, b)), numpy=np.mod, kinds="fi",
                    domain=(0.6, 3.0), smooth=False)
fmod = _binary("fmod", (lambda g: g, lambda g, a, b: -g * trunc(a / b)), numpy=np.fmod, kinds="fi", domain=(0.6, 3.0),
               smooth=False)
floor_divide = _binary("floor_divide", numpy=np.floor_divide, kinds="fi", domain=(0.6, 3.0))
maximum = _binary("maximum", (_larger, lambda g, a, b: _larger(g, b, a)), numpy=np.maximum, kinds="fi")
minimum = _binary("minimum", (lambda g, a, b: _larger(g, b, a), _larger), numpy=np.minimum, kinds="fi")
mod = remainder


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
bitwise_and_ = _binary("bitwise_and", numpy=np.bitwise_and, kinds="ib", family="bitwise")
bitwise_or_ = _binary("bitwise_or", numpy=np.bitwise_or, kinds="ib", family="bitwise")
bitwise_xor_ = _binary("bitwise_xor", numpy=np.bitwise_xor, kinds="ib", family="bitwise")
cmplt = lt

# ---------------------------------------------------------------- ternary
_where = register(
    "where", ("condition", "a", "b"), family="ternary", promote="common", numpy=np.where, kinds="fib",
    takes={"condition": "b", "a": "fib", "b": "fib"},
    vjp=(None, lambda g, condition: where(condition, g, 0.0), lambda g, condition: where(condition, 0.0, g)),
    cases=tuple(case(Flags(s[0]), *s[1:]) for s in TERNARY_SHAPES))
mulacc = register(
    "mulacc", ("a", "b", "c"), family="ternary", promote="common", numpy=lambda a, b, c: a * b + c, kinds="fi",
    vjp=(lambda g, b: g * b, lambda g, a: g * a, lambda g: g), cases=tuple(case(*s) for s in TERNARY_SHAPES), rtol=2e-5)


# ---------------------------------------------------------------- functions with options
def where(condition: Tensor, input: Tensor | Number | None = None, other: Tensor | Number | None = None) -> Tensor:
    """Elements of `input` where `condition` (bool) holds, else of `other`; the three broadcast. With the condition alone, the
    positions where it holds, one vector per dimension (`nonzero`).

    Raises: DTypeError where the condition is not bool.
    """
    if input is None and other is None:
        from volta.ops.subscript import nonzero
        return nonzero(condition, as_tuple=True)
    if condition.dtype.code != 0:
        raise DTypeError(f"where: the condition must be bool, got {condition.dtype}; compare it first, as in where(x > 0, ...)")
    if isinstance(input, (int, float)) and isinstance(other, (int, float)):
        from volta.ops.creation import full_like
        input = full_like(condition, input, dtype=result_type(input, other))
    return _where(condition, input, other)


def div(input: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; integers give a float. `rounding_mode` "floor" or "trunc" rounds the quotient."""
    if rounding_mode is None:
        return div_(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode == "trunc":
        input, other = (x.detach() if hasattr(x, "detach") else x for x in (input, other))
        if result_type(input, other).is_floating_point:
            return trunc(div_(input, other))
        return floor_divide(input - fmod(input, other), other)
    from volta.errors import ArgumentError
    raise ArgumentError(f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")


def pow(input: Tensor, exponent: Tensor | Number) -> Tensor:
    """input ** exponent, with PyTorch's rules for zero, negative and infinite values.

    Raises: DTypeError for an integer tensor and a negative integer exponent.
    """
    if isinstance(exponent, (int, float)) and hasattr(input, "dtype"):
        if exponent == 2 and (input.dtype.is_floating_point or input.dtype.category and isinstance(exponent, int)):
            return mul(input, input)
        if exponent < 0 and isinstance(exponent, int) and not input.dtype.is_floating_point:
            raise DTypeError(f"pow: integers ({input.dtype}) to the negative power {exponent} are no integers; convert to float first")
    return pow_(input, exponent)


def _need_integers(name, *values):
    for v in values:
        if isinstance(v, float) or hasattr(v, "dtype") and v.dtype.is_floating_point:
            kind = v.dtype if hasattr(v, "dtype") else "float"
            raise DTypeError(f"{name}: needs bool or integer tensors, got {kind}")


def bitwise_and(input: Tensor, other: Tensor | Number) -> Tensor:
    """Bits set in both; for bool, logical and."""
    _need_integers("bitwise_and", input, other)
    return bitwise_and_(input, other)


def bitwise_or(input: Tensor, other: Tensor | Number) -> Tensor:
    """Bits set in either; for bool, logical or."""
    _need_integers("bitwise_or", input, other)
    return bitwise_or_(input, other)


def bitwise_xor(input: Tensor, other: Tensor | Number) -> Tensor:
    """Bits set in exactly one; for bool, logical exclusive or."""
    _need_integers("bitwise_xor", input, other)
    return bitwise_xor_(input, other)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x), exact or with approximate="tanh". Source: Hendrycks and Gimpel 2016, eq. 1 and 2."""
    if approximate not in ("none", "tanh"):
        from volta.errors import ArgumentError
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return gelu_(input) if approximate == "none" else gelu_tanh(input)


def square(input: Tensor) -> Tensor:
    """input ** 2."""
    return pow(input, 2)


def clamp(input: Tensor, min: Number | Tensor | None = None, max: Number | Tensor | None = None) -> Tensor:
    """Values limited to [min, max] (numbers or tensors); the gradient passes where a value is within, bounds included. NaN as a bound
    gives NaN."""
    if min is None and max is None:
        from volta.errors import ArgumentError
        raise ArgumentError("clamp: give min, max or both")
    out = input
    if min is not None:
        out = where(_beyond(out < min, min), min, out)
    if max is not None:
        out = where(_beyond(out > max, max), max, out)
    return out


def _beyond(flags, bound):
    """Where a bound takes over; a NaN bound does everywhere."""
    if isinstance(bound, (int, float)):
        return flags if bound == bound else logical_or(flags, True)
    return logical_or(flags, isnan(bound)) if bound.dtype.is_floating_point else flags


def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where positive, else negative_slope * x."""
    return where(input > 0, input, input * negative_slope)


def softplus(input: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return relu(input) + log1p(exp(negative_abs(input)))


def negative_abs(x):
    """-|x| with the derivative of its left branch at 0, so that relu(x) + log1p(exp(-|x|)) has the right derivatives there."""
    return where(x > 0, -x, x)


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    return mulacc(tensor1 if value == 1 else tensor1 * value, tensor2, input)
