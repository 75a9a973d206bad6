"""Special functions with options, parts of numbers, and membership: over the records of `records/special.py`."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import TensorBase, host_sees, reshaped
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta._kernels.core.inplace import InPlace
from volta.dtypes import HALVES, bool_, finfo, float32, float64, get_default_dtype, int32, result_type
from volta.errors import ArgumentError, CallError, DTypeError
from volta.ops.copy import cast, in_float32, promoted
from volta.ops.creation import arange, full
from volta.ops.records import math as r
from volta.ops.records import special as s
from volta.ops.records.elementwise import BINARY_CASES, UNARY_CASES
from volta.ops.records.index import index_select_op
from volta.ops.records.reduce import any_op
from volta.ops.records.sort import searchsorted_op
from volta.ops.records.view import expand_op, reshape_op, row_major
from volta.ops.reduce import any as any_of
from volta.ops.reduce import sum as sum_of
from volta.ops.sort import sort
from volta.ops.table import Derived, Labels, case, composed
from volta.ops.view import reshape, unsqueeze
from volta.results import Result
from volta.shapes import broadcast_shapes

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number


# ---------------------------------------------------------------- special functions
@composed(out="cast", samples=(*UNARY_CASES, case((7,), eps=0.3)), domain=(0.1, 0.9), elementwise=True, inplace=True,
          numpy=lambda x, eps=None: np.log((x if eps is None else np.clip(x, eps, 1 - eps)) / (1 - (
              x if eps is None else np.clip(x, eps, 1 - eps)))), aliases=("special.logit",))
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(input / (1 - input)); with `eps` of input limited to [eps, 1 - eps], else NaN beyond [0, 1].

    >>> volta.logit(volta.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])
    """
    return s.logit_op(input) if eps is None else _limited_logit(input, float(eps))       # an integer would have to fit into the dtype


@in_float32
def _limited_logit(input, eps):
    if 0 <= eps <= 0.5 and bare(input):
        return s.logit_op(r.clamp_op(input, eps, 1 - eps))
    return s.logit_op(r.where_op(input < eps, eps, r.where_op(input > 1 - eps, 1 - eps, input)))


def _is_whole(x):
    """Whether a tensor is one integer."""
    return not x.ndim and x.dtype.category == 1


@composed(out="cast", samples=(case(1, (3, 4)), case(2, (5,)), case(0, ())), domain=(0.3, 4.0), inplace=True,
          aliases=("special.polygamma",),
          numpy=lambda n, x: s.zeta.details.numpy(n + 1.0, x) * (-1) ** (n + 1) * math.factorial(n) if n else s.digamma.details.numpy(x))
def polygamma(n_or_input: int | Tensor | None = None, n: int | Tensor | None = None, *, input: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma: `volta.polygamma(n, x)` as in PyTorch; as a method, `x.polygamma(n)`. n may be in a tensor.

    Raises: ArgumentError for a negative n; CallError for anything but n and a tensor.

    >>> volta.polygamma(1, volta.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    if type(n_or_input) is int and input is None and isinstance(n, TensorBase):
        given = n, n_or_input
    else:
        given = [x for x in (n_or_input, n, input) if x is not None]
    if len(given) != 2:
        raise CallError("polygamma: takes the order n and a tensor")
    input, n = given if n_or_input is not None else reversed(given)
    if isinstance(n, TensorBase) and not (_is_whole(n) and isinstance(input, TensorBase) and not _is_whole(input)):
        input, n = n, input
    n = n.item() if isinstance(n, TensorBase) and _is_whole(n) else n
    if not isinstance(input, TensorBase) or isinstance(n, TensorBase) or n < 0:
        raise ArgumentError(f"polygamma: n must be >= 0, beside a tensor, got {n} and {input}")
    if n < 2:
        return s.trigamma(input) if n else s.digamma(input)
    factorial = math.gamma(n + 1.0) if n <= 170 else math.inf
    return s.zeta(n + 1.0, input) * (factorial if n % 2 else -factorial)


@composed(out="cast", samples=(case((3, 4), p=3), case((), 1)), domain=(1.3, 4.0), in_float32=True, inplace=True,
          aliases=("special.multigammaln",),
          numpy=lambda x, p: p * (p - 1) / 4 * math.log(math.pi) + sum(s.lgamma.details.numpy(x - j / 2) for j in range(p)))
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the gamma function of `p` dimensions: the sum of lgamma(input - j / 2) over j < p, + p (p - 1) / 4 * log(pi).

    Raises: ArgumentError unless p >= 1; DTypeError for bool.

    >>> volta.mvlgamma(volta.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    if p < 1:
        raise ArgumentError(f"mvlgamma: p must be >= 1, got {p}")
    if input.dtype.code == 0:
        raise DTypeError("mvlgamma: needs a floating point or integer tensor, got bool; convert it with .float()")
    halves = arange(p, dtype=float64 if input.dtype is float64 else float32, device=input.device) * 0.5
    rows = unsqueeze(input, -1) + (0.0 - halves)        # 0 is added, not subtracted, which -0 becomes 0 by
    return sum_of(s.lgamma(rows), -1) + p * (p - 1) / 4 * math.log(math.pi)


@composed(out="cast", samples=UNARY_CASES, numpy=np.deg2rad, elementwise=True, inplace=True)
def deg2rad(input: Tensor) -> Tensor:
    """Radians from degrees.

    >>> volta.deg2rad(volta.tensor([180.0, 90.0]))
    tensor([3.1416, 1.5708])
    """
    return input * (math.pi / 180)


@composed(out="cast", samples=UNARY_CASES, numpy=np.rad2deg, elementwise=True, inplace=True)
def rad2deg(input: Tensor) -> Tensor:
    """Degrees from radians.

    >>> volta.rad2deg(volta.tensor([3.0, -1.0]))
    tensor([171.8873, -57.2958])
    """
    return input * (180 / math.pi)


def _widest(*operands):
    """The dtype of `float_power` where these are: float64 but on a GPU, which has none."""
    on_gpu = any(x.device.is_gpu for x in operands if isinstance(x, TensorBase))
    return float32 if on_gpu else float64


@composed(untested="the dtype depends on the device: tests/test_special_functions.py")
def float_power(input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    """input ** exponent in float64; on a GPU, which has none, in float32.

    >>> volta.float_power(volta.tensor([2, 3]), -1).dtype
    volta.float64
    """
    dtype = _widest(input, exponent)
    return r.pow(*[cast(x, dtype) if isinstance(x, TensorBase) else float(x) for x in (input, exponent)])


_float_power_ = InPlace("float_power_", float_power)


@composed(function=False)
def float_power_(input: Tensor, exponent: Tensor | Number) -> Tensor:
    """`float_power` in place.

    Raises: DTypeError unless the tensor is of its dtype, float64 (float32 on a GPU).

    >>> volta.tensor([2.0], dtype=volta.float64).float_power_(3).item()
    8.0
    """
    if input.dtype is not _widest(input):
        raise DTypeError(f"float_power_: the result is {_widest(input)} and cannot be stored in place in {input.dtype}")
    return _float_power_(input, exponent)


# ---------------------------------------------------------------- parts of numbers
class MantissaExponent(Result):
    """What frexp gives: input = mantissa * 2 ** exponent."""
    mantissa: Tensor
    exponent: Tensor


@composed(samples=UNARY_CASES, numpy=lambda x: tuple(map(np.asarray, np.frexp(x))), smooth=False, takes={"input": "f"},
          dtype=lambda dtype: (dtype, int32))
def frexp(input: Tensor) -> MantissaExponent:
    """(mantissa, exponent): a number in [0.5, 1) with the sign of input, and an int32 power of 2; (x, 0) of 0, NaN and infinities.

    >>> volta.frexp(volta.tensor([3.0, -0.5])).exponent
    tensor([2, 0], dtype=volta.int32)
    """
    return MantissaExponent(s.frexp_mantissa(input), cast(s.frexp_exponent(input), int32))


@promoted
def _times_power(input, other):
    if other.requires_grad and input.shape != other.shape and not (host_sees(other) and np.isfinite(other.detach().numpy()).all()):
        other = expand_op(other, shape=broadcast_shapes(input.shape, other.shape))         # gradients are added as they are, inf - inf
    return input * r.exp2(row_major(other))


@composed(out="cast", samples=(*BINARY_CASES, case((5,), Labels((5,), 9))), elementwise=True, inplace=True,
          numpy=lambda x, other: x * np.exp2(other))
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2 ** other; of floating point numbers and integers without overflow in between.

    Raises: DTypeError for an `other` of bool.

    >>> volta.ldexp(volta.tensor([1.0, 3.0]), volta.tensor([2, -1]))
    tensor([4.0000, 1.5000])
    """
    if input.dtype.is_floating_point and not other.dtype.is_floating_point:
        if other.dtype is bool_:
            raise DTypeError("ldexp: other must be floating point or integer, got bool; convert it with .long()")
        dtype = result_type(input, other)
        return s.ldexp_op(cast(input, dtype), cast(other, dtype))
    if not input.dtype.is_floating_point and not other.dtype.is_floating_point:
        other = cast(other, get_default_dtype())                # an int32 or uint8 beside it would lose what one number of int64 is
    return _times_power(input, other)


@composed(out="cast", inplace=True, untested="a step is the dtype's: tests/test_special_values.py")
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The number of the dtype that follows input towards other; a step from 0 is a denormal number.

    Raises: DTypeError for integers.

    >>> volta.nextafter(volta.tensor([1.0]), volta.tensor([2.0])) > 1
    tensor([True])
    """
    dtype = result_type(input, other)
    if dtype not in HALVES:
        return s.nextafter_op(input, other)
    return cast(_next_half(cast(input, float32), cast(other, float32), finfo(dtype)), dtype)


def _next_half(a, b, info):
    """`nextafter` of a narrow dtype in float32, whose exponents are found in its bits: a step is eps times the power of 2 below |a|, or
    half of that from such a power inwards."""
    size = r.abs(a.detach())
    power = r.bitwise_and(size.view(int32), 0x7F800000).view(float32)
    inwards = r.logical_and(r.eq(b < a, a > 0), r.logical_and(power == size, size > info.tiny))
    step = r.clamp_min(power, info.tiny) * info.eps * r.where_op(inwards, 0.5, 1.0)
    moved = r.where_op(r.isinf(a), r.where_op(a > 0, info.max, -info.max), a + r.where_op(b > a, step, -step))
    moved = r.where_op(a == 0, r.where_op(b > 0, info.tiny * info.eps, -info.tiny * info.eps), s.copysign(moved, a))
    return r.where_op(r.logical_or(a == b, r.isnan(b)), b.detach(), moved)


@composed(samples=BINARY_CASES, numpy=s.heaviside_op.details.numpy, kinds="fib", smooth=False, inplace=True)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 where input < 0 or NaN, `values` where it is 0, else 1.

    Raises: DTypeError for two dtypes.

    >>> volta.heaviside(volta.tensor([-1.0, 0.0, 2.0]), volta.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if input.dtype is not values.dtype:
        raise DTypeError(f"heaviside: input and values must have one dtype, got {input.dtype} and {values.dtype}; convert with .to(dtype)")
    return s.heaviside_op(input, values)


# ---------------------------------------------------------------- membership
def _are_few(elements, tests):
    return tests._size == 1 or 1 < tests._size <= 16 and elements._size <= 256


def _among_few(elements, tests):
    """Whether each element is among a few tests, by comparing all pairs; None unless kernels may be called for these two as they lie."""
    if elements.dtype is not tests.dtype or elements.dtype is bool_ or not (
            _are_few(elements, tests) and elements._contiguous and tests._contiguous and bare(elements, tests)):
        return None
    pairs = run_kernel(r.eq, elements.device, (reshaped(elements, (*elements._shape, 1)), reshaped(tests, (tests._size,))))
    return run_kernel(any_op, elements.device, (pairs,), {"dim": (len(elements._shape),), "keepdim": False})


@composed(samples=(case((3, 4), (5,)), case((7,), Derived(lambda x: x[::2])), case((), (2, 3)), case((2, 3), (0,)), case((4,), 3)),
          numpy=lambda x, tests: np.isin(x, tests), kinds="fi", smooth=False, method=False, dtype=lambda dtype: bool_)
def isin(elements: Tensor | Number, test_elements: Tensor | Number, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among `test_elements`; with `invert`, whether it is not. `assume_unique` promises that neither has an
    element twice, which changes nothing here.

    Raises: DTypeError for bool, and without a tensor.

    >>> volta.isin(volta.tensor([1, 2, 3]), volta.tensor([3, 1]))
    tensor([ True, False,  True])
    """
    if isinstance(elements, TensorBase) and isinstance(test_elements, TensorBase):
        found = _among_few(elements, test_elements)
        if found is not None:
            return r.logical_not(found) if invert else found
    tensors = [x for x in (elements, test_elements) if isinstance(x, TensorBase)]
    if not tensors or any(x.dtype is bool_ for x in tensors) or isinstance(elements, bool) or isinstance(test_elements, bool):
        raise DTypeError("isin: needs a tensor of numbers, got " + ("bool; convert it with .long()" if tensors else "two numbers"))
    if not isinstance(test_elements, TensorBase):
        found = r.eq(elements, test_elements)
    elif not isinstance(elements, TensorBase):
        found = any_of(r.eq(test_elements, elements))
    else:
        tests = test_elements
        if elements.dtype is not tests.dtype or not bare(elements, tests):
            dtype = result_type(elements, tests)
            elements, tests = (cast(x, dtype).detach() for x in (elements, tests))
        if _are_few(elements, tests):
            tests, axes = reshape_op(tests, shape=(tests._size,)), (len(elements._shape),)
            found = any_op(r.eq(reshape_op(elements, shape=(*elements._shape, 1)), tests), dim=axes, keepdim=False)
        elif not tests._size:
            found = full(elements.shape, False, dtype=bool_, device=elements.device)
        else:                       # the first test that is not smaller is the only one that can be equal
            tests = sort(reshape(tests, (-1,))).values
            line = r.where_op(r.isnan(tests), math.inf, tests) if tests.dtype.is_floating_point else tests  # NaN stands last
            place = r.clamp_max(searchsorted_op(line, elements, right=False), tests.shape[0] - 1)
            found = r.eq(reshape(index_select_op(tests, reshape(place, (-1,)), dim=0), elements.shape), elements)
    return r.logical_not(found) if invert else found
