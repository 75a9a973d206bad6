"""Elementwise functions under PyTorch's argument names: `volta.add(x, other=y, alpha=2)`, and the methods made of them.

The records of `elementwise.py` take their inputs by position, which is what derivatives and operators use; users call these.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta import dtypes
from volta._kernels.core import TensorBase
from volta.dtypes import result_type
from volta.errors import ArgumentError, DTypeError
from volta.ops import elementwise as e
from volta.ops.movement import cast, clone, in_float32, promoted

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


(neg, sign, reciprocal, sqrt, rsqrt, exp, exp2, expm1, log, log2, log1p, sin, cos, tan, tanh, sigmoid, relu, silu, isnan, isinf, isfinite,
 logical_not, erf, abs) = map(_unary, (
    e.neg, e.sign, e.reciprocal, e.sqrt, e.rsqrt, e.exp, e.exp2, e.expm1, e.log, e.log2, e.log1p, e.sin, e.cos, e.tan, e.tanh, e.sigmoid,
    e.relu, e.silu, e.isnan, e.isinf, e.isfinite, e.logical_not, e.erf_, e.abs))
(mul, remainder, fmod, floor_divide, maximum, minimum, eq, ne, lt, le, gt, ge, logical_and, logical_or, logical_xor) = map(_binary, (
    e.mul, e.remainder, e.fmod, e.floor_divide, e.maximum, e.minimum, e.eq, e.ne, e.lt, e.le, e.gt, e.ge, e.logical_and, e.logical_or,
    e.logical_xor))
floor, ceil, trunc = _whole(e.floor), _whole(e.ceil), _whole(e.trunc)
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
        return e.round(input)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    return e.round(input * scale) / scale if decimals > 0 else e.round(input / scale) * scale


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
    return e.add(input, other if alpha == 1 else scaled("add", input, other, alpha))


def sub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """input - alpha * other."""
    return e.sub(input, other if alpha == 1 else scaled("sub", input, other, alpha))


subtract, divide = sub, e.div


def true_divide(input: Tensor, other: Tensor | Number) -> Tensor:
    """input / other."""
    return e.div_(input, other)


def mulacc(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a * b + c in one pass. Volta's own."""
    return e.mulacc(a, b, c)


def bitwise_not(input: Tensor) -> Tensor:
    """Every bit inverted; for bool, logical not.

    Raises: DTypeError for floating point.
    """
    if input.dtype.is_floating_point:
        raise DTypeError(f"bitwise_not: needs a bool or integer tensor, got {input.dtype}")
    if input.dtype.code == 0:
        return e.logical_not(input)
    return e.bitwise_xor_(input, 255 if input.dtype.itemsize == 1 else -1)


def clamp_min(input: Tensor, min: Number | Tensor) -> Tensor:
    """Values not below `min`."""
    return e.clamp(input, min)


def clamp_max(input: Tensor, max: Number | Tensor) -> Tensor:
    """Values not above `max`."""
    return e.clamp(input, None, max)


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
    return e.where(e.abs(weight) < 0.5, input + way * weight, end - way * (1 - weight))


@in_float32
def log10(input: Tensor) -> Tensor:
    """Logarithm to base 10."""
    return e.log2(input) * 0.30102999566398120


def frac(input: Tensor) -> Tensor:
    """The part behind the point, with the sign of the number."""
    return input - trunc(input)


def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN and the infinities replaced; without numbers for these, the largest finite ones of the dtype."""
    if not input.dtype.is_floating_point:
        return clone(input)
    largest = {2: 65504.0, 4: 3.4028234663852886e38, 8: 1.7976931348623157e308}[input.dtype.itemsize]
    out = e.where(e.isnan(input), float(nan), input)
    out = e.where(input == float("inf"), largest if posinf is None else posinf, out)
    return e.where(input == float("-inf"), -largest if neginf is None else neginf, out)


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|; infinities of one sign are close.

    Raises: DTypeError for two dtypes; ArgumentError for a negative tolerance.
    """
    if input.dtype is not other.dtype:
        raise DTypeError(f"isclose: the tensors must have one dtype, got {input.dtype} and {other.dtype}")
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise ArgumentError(f"isclose: {name} must be >= 0, got {tolerance}")
    near = e.eq(input, other)
    if equal_nan and input.dtype.is_floating_point:
        near = e.logical_or(near, e.logical_and(e.isnan(input), e.isnan(other)))
    if not (rtol or atol):
        return near
    a, b = (input, other) if input.dtype.is_floating_point else (cast_default(input), cast_default(other))
    distance = e.abs(a - b)
    return e.logical_or(near, e.logical_and(e.isfinite(distance), distance <= e.abs(b) * rtol + atol))


def cast_default(x: Tensor) -> Tensor:
    """x in the default dtype."""
    return cast(x, dtypes.get_default_dtype())


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close (`isclose`), as a Python bool: reads one value."""
    return isclose(input, other, rtol, atol, equal_nan).all().item()


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are the same, as a Python bool: reads one value."""
    return input.shape == other.shape and e.eq(input, other).all().item()
