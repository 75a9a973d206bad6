"""Elementwise functions with options, over the records of `records/math.py`, and functions of several records."""
from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from volta import dtypes
from volta._kernels import core
from volta._kernels.core import TensorBase
from volta._kernels.core.direct import bare
from volta.dtypes import result_type
from volta.errors import ArgumentError, DTypeError, warn_once
from volta.ops.copy import cast, clone, promoted
from volta.ops.creation import ones_like
from volta.ops.indexing import nonzero
from volta.ops.records import math as r
from volta.ops.records.create import full_op
from volta.ops.records.elementwise import BINARY_CASES, TERNARY_CASES, UNARY_CASES
from volta.ops.table import Derived, case, composed, create

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number


# ---------------------------------------------------------------- arithmetic
def _is_bool(x):
    return isinstance(x, bool) or isinstance(x, TensorBase) and x.dtype is dtypes.bool_


def _is_real(x):
    return isinstance(x, float) or isinstance(x, TensorBase) and x.dtype.is_floating_point


def _scaled(name, input, other, alpha):
    """alpha * other."""
    if type(alpha) is int and alpha == 1 or name != "add" and (_is_bool(input) or _is_bool(other)):       # which no difference takes
        return other
    dtype = result_type(input, other)
    if _is_bool(alpha) and dtype is not dtypes.bool_:
        raise DTypeError(f"{name}: a bool alpha is for bool tensors, got {alpha} beside {dtype}; give a number")
    if _is_real(alpha) and not dtype.is_floating_point:
        raise DTypeError(f"{name}: alpha={alpha} is no integer, but the tensors are; convert them with .float()")
    if isinstance(alpha, TensorBase):
        return other * cast(alpha, dtype)
    if alpha == 1 and alpha is not True:
        return other
    alpha = bool(alpha) if dtype is dtypes.bool_ else dtypes.held(name, alpha, dtype)
    return cast(other, dtype) * alpha if isinstance(other, TensorBase) else other and alpha if dtype is dtypes.bool_ else other * alpha


# What some ops with options are in one pass of a record, which then writes into the tensor: the record and its operands, or None.
def _sum_in_place(input, other, *, alpha=1):
    return (r.mulacc, (other, alpha, input)) if isinstance(other, TensorBase) else None


def _difference_in_place(input, other, *, alpha=1):
    return (r.mulacc, (other, -alpha, input)) if isinstance(other, TensorBase) and type(alpha) in (int, float) else None


def _product_in_place(input, tensor1, tensor2, *, value=1):
    return r.add_product, (input, tensor1, tensor2, value)


def _quotient_in_place(input, tensor1, tensor2, *, value=1):
    return r.add_quotient, (input, tensor1, tensor2, value)


def _check_weight(input, weight):
    """A weight with dimensions has the dtype of what it weighs."""
    if isinstance(weight, TensorBase) and weight.ndim and weight.dtype is not input.dtype:
        raise DTypeError(f"lerp: weight must be {input.dtype.name} as input is, got {weight.dtype.name}; "
                         f"convert it with .to({input.dtype})")


def _lerp_in_place(input, end, weight):
    _check_weight(input, weight)
    return None if end is input else (r.lerp_op, (input, end, weight))      # of which some GPUs' compilers take the difference for 0


def _rounded_in_place(input, other, *, rounding_mode=None):
    return (_DIVISIONS[rounding_mode], (input, other)) if rounding_mode in ("floor", "trunc") else None


def _square_in_place(input):
    return r.pow, (input, 2)


def _are_alike(min, max):
    """Whether bounds are both tensors or both numbers, which a tensor without dimensions is one of, too."""
    one = min if isinstance(min, TensorBase) else max
    return isinstance(min, TensorBase) == isinstance(max, TensorBase) or not one.ndim and not one.requires_grad


def _limited_in_place(input, min=None, max=None):
    if max is None:
        return None if min is None else (r.clamp_min, (input, min))
    if min is None:
        return r.clamp_max, (input, max)
    return (r.clamp_op, (input, min, max)) if _are_alike(min, max) else None


for _each in (_sum_in_place, _difference_in_place, _product_in_place, _quotient_in_place, _lerp_in_place):
    _each.halves = True


def _in_one(input, other, alpha):
    """Whether a multiple is added in one pass: between tensors of one shape and layout, of floating point numbers or of integers that hold
    alpha and its negative."""
    return (type(alpha) in (int, float) and alpha != 1 and isinstance(input, TensorBase) and isinstance(other, TensorBase)
            and input.dtype is other.dtype and input._shape == other._shape and input._strides == other._strides
            and (input.dtype.is_floating_point
                 or input.dtype in (dtypes.int64, dtypes.int32) and type(alpha) is int and -2**31 < alpha < 2**31))


@composed(samples=(*BINARY_CASES, case((3, 4), (4,), alpha=0.5)), numpy=lambda input, other, alpha=1: input + alpha * other,
          inplace=True, record=r.add_op, one=_sum_in_place)
def add(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """input + alpha * other; of bool, logical or.

    Raises: DTypeError for a float alpha between integers.

    >>> volta.add(volta.tensor([1.0, 2.0]), volta.tensor([3.0, 4.0]), alpha=10)
    tensor([31., 42.])
    """
    if _in_one(input, other, alpha):
        return r.mulacc(other, alpha, input)
    return r.add_op(input, _scaled("add", input, other, alpha))


@composed(samples=(*BINARY_CASES, case((3, 4), (4,), alpha=0.5)), numpy=lambda input, other, alpha=1: input - alpha * other,
          inplace=True, record=r.sub_op, one=_difference_in_place, aliases=("subtract",))
def sub(input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """input - alpha * other.

    Raises: DTypeError for a bool operand, and for a float alpha between integers.

    >>> volta.sub(volta.tensor([1.0, 2.0]), volta.tensor([3.0, 4.0]))
    tensor([-2., -2.])
    """
    if _in_one(input, other, alpha):
        return r.mulacc(other, -alpha, input)
    return r.sub_op(input, _scaled("sub", input, other, alpha))


@composed(samples=(*BINARY_CASES, case((3, 4), (4,), alpha=0.5)), numpy=lambda input, other, alpha=1: other - alpha * input, method=False)
def rsub(input: Tensor, other: Tensor | Number, alpha: Number = 1) -> Tensor:
    """other - alpha * input.

    Raises: DTypeError for bool, and for a float alpha between integers.

    >>> volta.rsub(volta.tensor([1.0, 2.0]), 3)
    tensor([2., 1.])
    """
    return r.sub_op(other, _scaled("rsub", other, input, alpha))


@composed(samples=UNARY_CASES, numpy=np.positive, kinds="fi", elementwise=True, operator="pos")
def positive(input: Tensor) -> Tensor:
    """The tensor itself.

    Raises: DTypeError for bool.

    >>> +volta.tensor([1.0, -2.0])
    tensor([ 1., -2.])
    """
    if input.dtype is dtypes.bool_:
        raise DTypeError("positive: needs a tensor of numbers, got bool; convert it with .long()")
    return input


@composed(samples=UNARY_CASES, numpy=lambda x: x, kinds="fib", elementwise=True, aliases=("resolve_conj", "resolve_neg"))
def conj(input: Tensor) -> Tensor:
    """The tensor itself: its numbers are real.

    >>> volta.conj(volta.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    return input


@composed(samples=UNARY_CASES, numpy=lambda x: x, kinds="fib", elementwise=True, method=False)
def real(input: Tensor) -> Tensor:
    """The tensor itself: its numbers are real.

    >>> volta.real(volta.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    return input


@composed(samples=UNARY_CASES, numpy=lambda x: x, kinds="fib", elementwise=True, inplace=True)
def conj_physical(input: Tensor) -> Tensor:
    """The tensor itself: its numbers are real.

    >>> volta.conj_physical(volta.tensor([1.0, -2.0]))
    tensor([ 1., -2.])
    """
    return input


_FEW = 65536                # elements that one thread compares sooner than several kernels do
_DIVISIONS = {None: r.div_op, "floor": r.floor_divide, "trunc": r.div_trunc}


def _np_div(input, other, rounding_mode=None):
    quotient = {None: np.divide, "floor": np.floor_divide, "trunc": lambda a, b: np.trunc(a / b)}[rounding_mode](input, other)
    return quotient if rounding_mode is None else quotient.astype(input.dtype)


@composed(samples=(*BINARY_CASES, case((3, 4), (4,), rounding_mode="floor"), case((3, 4), (4,), rounding_mode="trunc")), numpy=_np_div,
          kinds="fi", domain=(0.3, 3.0), smooth=False, inplace=True, record=r.div_op, one=_rounded_in_place,
          aliases=("divide", "true_divide"))
def div(input: Tensor | Number, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; integers give a float. `rounding_mode` "floor" or "trunc" rounds the quotient, and integers give integers then.

    Raises: ArgumentError for another mode, and for a 0 among the divisors of rounded integers (on a GPU where the host knows them,
    which made them).

    >>> volta.div(volta.tensor([5.0, -5.0]), 2.0, rounding_mode="trunc")
    tensor([ 2., -2.])
    """
    if rounding_mode not in _DIVISIONS:
        raise ArgumentError(f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")
    return _DIVISIONS[rounding_mode](input, other)


@composed(out="cast", samples=UNARY_CASES, numpy=np.square, kinds="fi", elementwise=True, inplace=True, one=_square_in_place)
def square(input: Tensor) -> Tensor:
    """input ** 2.

    >>> volta.square(volta.tensor([3.0, -2.0]))
    tensor([9., 4.])
    """
    return input * input if input.dtype in dtypes.HALVES and bare(input) else r.pow(input, 2)


@composed(out="cast", samples=(*TERNARY_CASES, case((3, 4), (4,), (3, 1), value=2)), kinds="fi", rtol=2e-5, elementwise=True, inplace=True,
          one=_product_in_place,
          numpy=lambda input, tensor1, tensor2, value=1: input + value * tensor1 * tensor2)
@promoted(None, one=True)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """input + value * tensor1 * tensor2.

    Raises: DTypeError for bool.

    >>> volta.addcmul(volta.tensor([1.0]), volta.tensor([2.0]), volta.tensor([3.0]), value=10)
    tensor([61.])
    """
    if isinstance(value, TensorBase):
        value = cast(value, input.dtype)
    elif not input.dtype.is_floating_point:
        if input.dtype is dtypes.bool_:
            raise DTypeError("addcmul: needs floating point or integer tensors, got bool; convert one of them with .float()")
        value = dtypes.as_integer("addcmul", value)
    if tensor1._size < tensor2._size:
        tensor1, tensor2 = tensor2, tensor1                 # what repeats along lines has loops of its own as the last one
    return r.add_product(input, tensor1, tensor2, value)


@composed(out="cast", samples=(*TERNARY_CASES, case((3, 4), (4,), (3, 1), value=2)), domain=(0.3, 3.0), rtol=2e-5, elementwise=True,
          inplace=True, one=_quotient_in_place, numpy=lambda input, tensor1, tensor2, value=1: input + value * tensor1 / tensor2)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """input + value * tensor1 / tensor2.

    Raises: DTypeError for a quotient of integers.

    >>> volta.addcdiv(volta.tensor([1.0]), volta.tensor([6.0]), volta.tensor([3.0]), value=10)
    tensor([21.])
    """
    if not (tensor1.dtype.is_floating_point or tensor2.dtype.is_floating_point):
        raise DTypeError(f"addcdiv: cannot divide {tensor1.dtype.name} by {tensor2.dtype.name}; convert one of them with .to(dtype)")
    return _addcdiv(input, tensor1, tensor2, value=value)


@promoted(None, one=True)
def _addcdiv(input, tensor1, tensor2, *, value: Number):
    return r.add_quotient(input, tensor1, tensor2, cast(value, input.dtype) if isinstance(value, TensorBase) else value)


@composed(out="cast", samples=(*TERNARY_CASES, case((3, 4), (4,), 0.3), case((4,), (4,), 0.7)), rtol=2e-5, elementwise=True, inplace=True,
          one=_lerp_in_place, takes={"input": "f", "end": "=input"}, numpy=lambda input, end, weight: np.where(
              np.abs(weight) < 0.5, input + weight * (end - input), end - (end - input) * (1 - weight)))
def lerp(input: Tensor, end: Tensor, weight: Number | Tensor) -> Tensor:
    """input + weight * (end - input), counted from the nearer end, so that both are exact.

    Raises: DTypeError for integers, and where the tensors differ in dtype, but for a weight without dimensions.

    >>> volta.lerp(volta.tensor([0.0, 10.0]), volta.tensor([4.0, 20.0]), 0.5)
    tensor([ 2., 15.])
    """
    if type(weight) is float and input.dtype.itemsize > 2:
        return r.lerp_op(input, end, weight)
    _check_weight(input, weight)
    return _between(input, end, weight)


@promoted(None, one=True)
def _between(input, end, weight):
    return r.lerp_op(input, end, weight)


# ---------------------------------------------------------------- rounding, limits, choices
@composed(samples=(*UNARY_CASES, case((3, 5), decimals=-1)), numpy=lambda input, decimals=0: np.round(input, decimals),
          domain=(-40.0, 40.0), smooth=False, in_float32=True, inplace=True, record=r.round_op,
          aliases=("special.round",))
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """To the nearest integer, halves to the even one; with `decimals` to that many places (negative: tens, hundreds, ...).

    Raises: DTypeError for bool, and for integers with decimals.

    >>> volta.round(volta.tensor([0.5, 1.5, 2.47]))
    tensor([0., 2., 2.])
    """
    if not decimals:
        return r.round_op(input)
    if not input.dtype.is_floating_point:
        raise DTypeError(f"round: decimals={decimals} needs a floating point tensor, got {input.dtype}")
    scale = float(f"1e{abs(int(decimals))}")           # infinity where it is too large
    return r.round_op(input * scale) / scale if decimals > 0 else r.round_op(input / scale) * scale


@composed(samples=(*TERNARY_CASES, case((3, 4), -0.5, 0.7), case((3, 4), min=1), case((3, 4), max=1)), kinds="fi", smooth=False,
          numpy=lambda input, min=None, max=None: np.clip(input, min, max), elementwise=True, inplace=True, record=r.clamp_op,
          one=_limited_in_place, aliases=("clip",))
def clamp(input: Tensor, min: Number | Tensor | None = None, max: Number | Tensor | None = None) -> Tensor:
    """Values limited to [min, max] (numbers or tensors), `max` where min > max; the gradient passes where a value is within, bounds
    included. NaN, in the tensor or as a bound, gives NaN and passes none.

    Raises: ArgumentError without bounds; DTypeError for a tensor and a number.

    >>> volta.clamp(volta.tensor([-2.0, 0.5, 2.0]), -1.0, 1.0)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min is None and max is None:
        raise ArgumentError("clamp: give min, max or both")
    if max is None:
        return r.clamp_min(input, min)
    if min is None:
        return r.clamp_max(input, max)
    if not _are_alike(min, max):
        raise DTypeError("clamp: min and max must both be tensors or both numbers")
    return r.clamp_op(input, min, max)


@composed(out="same", samples=r.where_op.details.cases, numpy=np.where, kinds="fib", elementwise=True, method=False)
def where(condition: Tensor, input: Tensor | Number | None = None, other: Tensor | Number | None = None) -> Tensor:
    """Elements of `input` where `condition` (bool, with a warning uint8) holds, else of `other`; all broadcast. With the condition alone,
    the positions where it holds, one vector per dimension (`nonzero`).

    Raises: DTypeError where the condition is not bool.

    >>> volta.where(volta.tensor([True, False]), volta.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if condition.dtype is dtypes.uint8:
        warn_once("where: a uint8 condition holds where it is not 0, as in PyTorch; make it bool")
        condition = condition.bool()
    if isinstance(input, (int, float)) and isinstance(other, (int, float)):
        input = create(full_op, (), input, dtype=result_type(input, other), device=condition.device)
    return r.where_op(condition, input, other)


@cache
def _largest(dtype):
    return dtypes.finfo(dtype).max


def _np_nan_to_num(input, nan=0.0, posinf=None, neginf=None):
    largest = _largest(dtypes.float32)
    return np.nan_to_num(input, nan=nan, posinf=largest if posinf is None else posinf, neginf=-largest if neginf is None else neginf)


@composed(samples=(*UNARY_CASES, case((7,), nan=1.0, posinf=2.0, neginf=3.0)), numpy=_np_nan_to_num, kinds="fib", elementwise=True,
          inplace=True)
def nan_to_num(input: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN and the infinities replaced; without numbers for these, the largest finite ones of the dtype.

    >>> volta.nan_to_num(volta.tensor([float("nan"), 1.0, float("inf")]), posinf=9.0)
    tensor([0., 1., 9.])
    """
    if not input.dtype.is_floating_point:
        return clone(input)
    largest = _largest(input.dtype)
    if posinf is None and neginf is None:
        return r.nan_to_num_op(input, float(nan or 0.0), largest)
    out = r.where_op(r.isnan(input), float(nan or 0.0), input)
    out = r.where_op(input == float("inf"), largest if posinf is None else posinf, out)
    return r.where_op(input == float("-inf"), -largest if neginf is None else neginf, out)


# ---------------------------------------------------------------- comparisons
@composed(samples=UNARY_CASES, numpy=np.isposinf, kinds="fi", smooth=False, elementwise=True)
def isposinf(input: Tensor) -> Tensor:
    """Whether input is +infinity.

    >>> volta.isposinf(volta.tensor([1.0, float("inf"), float("-inf")]))
    tensor([False,  True, False])
    """
    return r.eq(input, float("inf")) if input.dtype.is_floating_point else r.isinf(input)


@composed(samples=UNARY_CASES, numpy=np.isneginf, kinds="fi", smooth=False, elementwise=True)
def isneginf(input: Tensor) -> Tensor:
    """Whether input is -infinity.

    >>> volta.isneginf(volta.tensor([1.0, float("inf"), float("-inf")]))
    tensor([False, False,  True])
    """
    return r.eq(input, float("-inf")) if input.dtype.is_floating_point else r.isinf(input)


@composed(samples=UNARY_CASES, numpy=np.isreal, kinds="fib", smooth=False, elementwise=True)
def isreal(input: Tensor) -> Tensor:
    """True for each element: Volta has no complex numbers.

    >>> volta.isreal(volta.tensor([1.0, 2.0]))
    tensor([True, True])
    """
    return ones_like(input, dtype=dtypes.bool_)


_NEAR = Derived(lambda x: x + (x * 1e-6).astype(x.dtype))


@composed(samples=(*BINARY_CASES, case((3, 4), _NEAR), case((6,), (6,), rtol=0.5, atol=0.1)), numpy=np.isclose, kinds="fi", smooth=False,
          elementwise=True)
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|; infinities of one sign are close.

    Raises: DTypeError for two dtypes; ArgumentError for a negative tolerance.

    >>> volta.isclose(volta.tensor([1.0, 2.0]), volta.tensor([1.000001, 2.1]))
    tensor([ True, False])
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
    default = input.dtype if input.dtype.is_floating_point else dtypes.get_default_dtype()
    a, b = cast(input, default), cast(other, default)
    distance = r.abs(a - b)
    return r.logical_or(near, r.logical_and(r.isfinite(distance), distance <= r.abs(b) * rtol + atol))


@composed(samples=(case((3, 4), (3, 4)), case((3, 4), _NEAR)), numpy=np.allclose, kinds="fi", smooth=False, reads=True)
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close (`isclose`), as a Python bool: reads one value.

    >>> volta.allclose(volta.tensor([1.0]), volta.tensor([1.000001]))
    True
    """
    return isclose(input, other, rtol, atol, equal_nan).all().item()


@composed(samples=(case((3, 4), (3, 4)), case((3, 4), (4,)), case((3, 4), Derived(lambda x: x))), numpy=np.array_equal, kinds="fib",
          smooth=False, reads=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are the same, as a Python bool: reads one value.

    >>> volta.equal(volta.tensor([1.0]), volta.tensor([1.0, 2.0]))
    False
    """
    if input._shape != other._shape:
        return False
    if input is other and not input.dtype.is_floating_point and not core.stands_in(input):
        return True
    few = input._size <= _FEW and core.host_sees(input) and core.host_sees(other)
    known = core.same_values(input, other) if few else None
    return r.eq(input, other).all().item() if known is None else known


# ---------------------------------------------------------------- activations
_GELU = {"none": r.gelu_op, "tanh": r.gelu_tanh}


@composed(samples=(*UNARY_CASES, case((7,), approximate="tanh")), function=False, record=r.gelu_op,
          numpy=lambda input, approximate="none": _GELU[approximate].details.numpy(input))
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * Phi(x), exact or with approximate="tanh". Source: Hendrycks and Gimpel 2016, eq. 1 and 2. Raises: ArgumentError for another one.

    >>> volta.tensor([1.0, -1.0]).gelu()
    tensor([ 0.8413, -0.1587])
    """
    if approximate not in _GELU:
        raise ArgumentError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return _GELU[approximate](input)
