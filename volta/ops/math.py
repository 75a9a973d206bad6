"""Elementwise functions under PyTorch's argument names: `volta.add(x, other=y, alpha=2)`, and the methods made of them.

The records of `records/math.py` take their inputs by position, which is what derivatives and operators use; users call these.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta import dtypes
from volta._kernels.core import TensorBase
from volta.dtypes import result_type
from volta.errors import ArgumentError, DTypeError
from volta.ops.copy import cast, clone, in_float32, promoted
from volta.ops.creation import full_like
from volta.ops.records import math as r

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number


def _named(function, op):
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = f"The op `{op.name}`, element by element."
    return function


def _unary(op):
    def function(input: Tensor) -> Tensor:
        return op(input)
    return _named(function, op)


def _binary(op):
    def function(input: Tensor, other: Tensor | Number) -> Tensor:
        return op(input, other)
    return _named(function, op)


def _whole(op):
    """Rounding: integers are whole already."""
    def function(input: Tensor) -> Tensor:
        return op(input) if input.dtype.is_floating_point else _integers(op.name, input)
    return _named(function, op)


def _integers(name, x):
    if x.dtype.code == 0:
        raise DTypeError(f"{name}: needs numbers, got volta.bool; convert it first")
    return clone(x)


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
        input = full_like(condition, input, dtype=result_type(input, other))
    return r.where_op(condition, input, other)


def div(input: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; integers give a float. `rounding_mode` "floor" or "trunc" rounds the quotient."""
    if rounding_mode is None:
        return r.div_op(input, other)
    if rounding_mode == "floor":
        return r.floor_divide(input, other)
    if rounding_mode == "trunc":
        if result_type(input, other).is_floating_point:
            return r.div_trunc(input, other)
        return r.floor_divide(input - r.fmod(input, other), other)
    raise ArgumentError(f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")


def pow(input: Tensor, exponent: Tensor | Number) -> Tensor:
    """input ** exponent, with PyTorch's rules for zero, negative and infinite values.

    Raises: DTypeError for an integer tensor and a negative integer exponent.
    """
    if isinstance(exponent, (int, float)) and hasattr(input, "dtype"):
        if exponent == 2 and (input.dtype.is_floating_point or input.dtype.category and isinstance(exponent, int)):
            return r.mul(input, input)
        check_exponent("pow", input, exponent)
    return r.pow_op(input, exponent)


def check_exponent(name: str, input: Tensor, exponent: Tensor | Number) -> None:
    """Raise DTypeError for an integer tensor and a negative integer exponent."""
    if isinstance(exponent, int) and exponent < 0 and not input.dtype.is_floating_point:
        raise DTypeError(f"{name}: integers ({input.dtype}) to the negative power {exponent} are no integers; convert to float first")


def need_integers(name: str, *values: object) -> None:
    """Raise DTypeError for a floating point operand."""
    for v in values:
        if isinstance(v, float) or hasattr(v, "dtype") and v.dtype.is_floating_point:
            kind = v.dtype if hasattr(v, "dtype") else "float"
            raise DTypeError(f"{name}: needs bool or integer tensors, got {kind}")


def bitwise_and(input: Tensor, other: Tensor | Number) -> Tensor:
    """Bits set in both; for bool, logical and."""
    need_integers("bitwise_and", input, other)
    return r.bitwise_and_op(input, other)


def bitwise_or(input: Tensor, other: Tensor | Number) -> Tensor:
    """Bits set in either; for bool, logical or."""
    need_integers("bitwise_or", input, other)
    return r.bitwise_or_op(input, other)


def bitwise_xor(input: Tensor, other: Tensor | Number) -> Tensor:
    """Bits set in exactly one; for bool, logical exclusive or."""
    need_integers("bitwise_xor", input, other)
    return r.bitwise_xor_op(input, other)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x), exact or with approximate="tanh". Source: Hendrycks and Gimpel 2016, eq. 1 and 2."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return r.gelu_op(input) if approximate == "none" else r.gelu_tanh(input)


def square(input: Tensor) -> Tensor:
    """input ** 2."""
    return pow(input, 2)


def clamp(input: Tensor, min: Number | Tensor | None = None, max: Number | Tensor | None = None) -> Tensor:
    """Values limited to [min, max] (numbers or tensors), `max` where min > max; the gradient passes where a value is within, bounds
    included. NaN, in the tensor or as a bound, gives NaN and passes none."""
    if min is None and max is None:
        raise ArgumentError("clamp: give min, max or both")
    if max is None:
        return r.clamp_min_op(input, min)
    return r.clamp_max_op(input, max) if min is None else r.clamp_op(input, min, max)


@in_float32
def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where positive, else negative_slope * x."""
    return r.where_op(input > 0, input, input * negative_slope)


@in_float32
def softplus(input: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow.

    Raises: DTypeError for integers.
    """
    if not input.dtype.is_floating_point:
        raise DTypeError(f"softplus: needs a floating point tensor, got {input.dtype}; convert it first")
    return r.relu(input) + r.log1p(r.exp(negative_abs(input)))


def negative_abs(x):
    """-|x| with the derivative of its left branch at 0, so that relu(x) + log1p(exp(-|x|)) has the right derivatives there."""
    return r.where_op(x > 0, -x, x)


@promoted
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    value = value if input.dtype.is_floating_point else int(value)
    return r.mulacc(tensor1 if value == 1 else tensor1 * value, tensor2, input)


# ---------------------------------------------------------------- the records by name
(neg, sign, reciprocal, sqrt, rsqrt, exp, exp2, expm1, log, log2, log1p, sin, cos, tan, tanh, sigmoid, relu, silu, isnan, isinf, isfinite,
 logical_not, erf, abs) = map(_unary, (
    r.neg, r.sign, r.reciprocal, r.sqrt, r.rsqrt, r.exp, r.exp2, r.expm1, r.log, r.log2, r.log1p, r.sin, r.cos, r.tan, r.tanh, r.sigmoid,
    r.relu, r.silu, r.isnan, r.isinf, r.isfinite, r.logical_not, r.erf, r.abs))
(mul, remainder, fmod, floor_divide, maximum, minimum, eq, ne, lt, le, gt, ge, logical_and, logical_or, logical_xor) = map(_binary, (
    r.mul, r.remainder, r.fmod, r.floor_divide, r.maximum, r.minimum, r.eq, r.ne, r.lt, r.le, r.gt, r.ge, r.logical_and, r.logical_or,
    r.logical_xor))
floor, ceil, trunc = _whole(r.floor), _whole(r.ceil), _whole(r.trunc)
recip, mod, cmplt, absolute, negative, multiply = reciprocal, remainder, lt, abs, neg, mul
less, less_equal, greater, greater_equal, not_equal = lt, le, gt, ge, ne


@in_float32
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """To the nearest whole number, halves to the even one; with `decimals` to that many places (negative: tens, hundreds, ...).

    Raises: DTypeError for bool, and for integers with decimals.
    """
    if not input.dtype.is_floating_point:
        if decimals:
            raise DTypeError(f"round: decimals={decimals} needs a floating point tensor, got {input.dtype}")
        return _integers("round", input)
    if not decimals:
        return r.round(input)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    return r.round(input * scale) / scale if decimals > 0 else r.round(input / scale) * scale


def scaled(name: str, input: Tensor, other: Tensor | Number, alpha: Number) -> Tensor | Number:
    """alpha * other, for add and sub.

    Raises: DTypeError for a float alpha between integers.
    """
    if isinstance(alpha, float) and not any(getattr(v, "dtype", None) is not None and v.dtype.is_floating_point or isinstance(v, float)
                                            for v in (input, other)):
        raise DTypeError(f"{name}: alpha={alpha} is no integer, but the tensors are; convert them with .float()")
    return (cast(other, result_type(input, other)) if isinstance(other, TensorBase) else other) * alpha


def add(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """input + alpha * other."""
    return r.add(input, other if alpha == 1 else scaled("add", input, other, alpha))


def sub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """input - alpha * other."""
    return r.sub(input, other if alpha == 1 else scaled("sub", input, other, alpha))


subtract, divide = sub, div


def true_divide(input: Tensor, other: Tensor | Number) -> Tensor:
    """input / other."""
    return r.div_op(input, other)


def mulacc(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a * b + c in one pass. Volta's own."""
    return r.mulacc(a, b, c)


def bitwise_not(input: Tensor) -> Tensor:
    """Every bit inverted; for bool, logical not.

    Raises: DTypeError for floating point.
    """
    if input.dtype.is_floating_point:
        raise DTypeError(f"bitwise_not: needs a bool or integer tensor, got {input.dtype}")
    if input.dtype.code == 0:
        return r.logical_not(input)
    return r.bitwise_xor_op(input, 255 if input.dtype.itemsize == 1 else -1)


def clamp_min(input: Tensor, min: Number | Tensor) -> Tensor:
    """Values not below `min`."""
    return clamp(input, min)


def clamp_max(input: Tensor, max: Number | Tensor) -> Tensor:
    """Values not above `max`."""
    return clamp(input, None, max)


@promoted
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """input + value * tensor1 / tensor2.

    Raises: DTypeError for integers.
    """
    if not input.dtype.is_floating_point:
        raise DTypeError(f"addcdiv: needs floating point tensors, got {tensor1.dtype} / {tensor2.dtype}")
    return input + (tensor1 if value == 1 else tensor1 * value) / tensor2


@promoted
def lerp(input: Tensor, end: Tensor, weight: Number | Tensor) -> Tensor:
    """input + weight * (end - input), counted from the nearer end, so that both are exact."""
    way = end - input
    if isinstance(weight, (int, float)):
        return input + way * weight if -0.5 < weight < 0.5 else end - way * (1 - weight)
    return where(r.abs(weight) < 0.5, input + way * weight, end - way * (1 - weight))


@in_float32
def log10(input: Tensor) -> Tensor:
    """Logarithm to base 10."""
    return r.log2(input) * 0.30102999566398120


def frac(input: Tensor) -> Tensor:
    """The part behind the point, with the sign of the number."""
    return input - trunc(input)


def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN and the infinities replaced; without numbers for these, the largest finite ones of the dtype."""
    if not input.dtype.is_floating_point:
        return clone(input)
    largest = {2: 65504.0, 4: 3.4028234663852886e38, 8: 1.7976931348623157e308}[input.dtype.itemsize]
    out = where(r.isnan(input), float(nan), input)
    out = where(input == float("inf"), largest if posinf is None else posinf, out)
    return where(input == float("-inf"), -largest if neginf is None else neginf, out)


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|; infinities of one sign are close.

    Raises: DTypeError for two dtypes; ArgumentError for a negative tolerance.
    """
    if input.dtype is not other.dtype:
        raise DTypeError(f"isclose: the tensors must have one dtype, got {input.dtype} and {other.dtype}")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise ArgumentError(f"isclose: {name} must be >= 0, got {tolerance}")
    near = r.eq(input, other)
    if equal_nan and input.dtype.is_floating_point:
        near = r.logical_or(near, r.logical_and(r.isnan(input), r.isnan(other)))
    if not (rtol or atol):
        return near
    a, b = (input, other) if input.dtype.is_floating_point else (cast_default(input), cast_default(other))
    distance = r.abs(a - b)
    return r.logical_or(near, r.logical_and(r.isfinite(distance), distance <= r.abs(b) * rtol + atol))


def cast_default(x: Tensor) -> Tensor:
    """x in the default dtype."""
    return cast(x, dtypes.get_default_dtype())


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close (`isclose`), as a Python bool: reads one value."""
    return isclose(input, other, rtol, atol, equal_nan).all().item()


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are the same, as a Python bool: reads one value."""
    return input.shape == other.shape and r.eq(input, other).all().item()
