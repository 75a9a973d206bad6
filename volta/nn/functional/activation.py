"""Activations in PyTorch's forms for networks, with its `inplace`. What `volta` has under the same name is only named here."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import stands_in
from volta._kernels.core.inplace import InPlace, into
from volta._kernels.core.order import dense_strides, outermost_first
from volta.dtypes import as_integer
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.activation import hardshrink, prelu
from volta.ops.copy import in_float32
from volta.ops.creation import rand_like
from volta.ops.expanded import changed
from volta.ops.math import clamp, gelu
from volta.ops.records import activation as a
from volta.ops.records import math as r
from volta.ops.records.activation import hardsigmoid as hardsigmoid_op
from volta.ops.records.activation import hardswish as hardswish_op
from volta.ops.records.activation import logsigmoid
from volta.ops.records.activation import mish as mish_op
from volta.ops.records.math import sigmoid, tanh
from volta.ops.records.view import part, permute_op, row_major
from volta.ops.table import Places, case, composed, publish
from volta.shapes import as_dim

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import Number

__all__ = ["celu", "celu_", "elu", "elu_", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_", "leaky_relu",
           "leaky_relu_", "logsigmoid", "mish", "prelu", "relu", "relu6", "relu_", "rrelu", "rrelu_", "selu", "selu_", "sigmoid", "silu",
           "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_"]

_SAMPLES = (case((3, 4)), case(()), case((0, 2)))


def _activation(name, samples, numpy, **options):
    """Decorator: an activation in this form alone."""
    return composed(name=f"functional.{name}", samples=(*_SAMPLES, *samples), numpy=numpy, elementwise=True, function=False, method=False,
                    **options)


def _run(record, input, inplace, **numbers):
    """The record on a tensor and numbers, or written into the tensor."""
    values = [float(value) for value in numbers.values()]
    return into(record, input, *values) if inplace else record(input, *values)


# ---------------------------------------------------------------- relu and its kin
@_activation("relu", (), lambda x: np.maximum(x, 0), kinds="fi")
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The larger of 0 and x; the derivative at 0 is 0.

    >>> volta.nn.functional.relu(volta.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return into(r.relu, input) if inplace else r.relu(input)


@_activation("leaky_relu", (case((5,), negative_slope=0.3),), lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope),
             takes={"input": "f"})
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, else negative_slope * x.

    >>> volta.nn.functional.leaky_relu(volta.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5000,  2.0000])
    """
    return _run(a.leaky_relu, input, inplace, negative_slope=negative_slope)


@in_float32
def _with_drawn_slopes(input, lower, upper):
    input = row_major(input)                # the result is, in PyTorch
    return a.leaky_relu(input, rand_like(input) * (upper - lower) + lower)


@composed(samples=(*_SAMPLES, case((3, 4), 0.1, 0.5)), method=False, takes={"input": "f"},
          numpy=lambda x, lower=1 / 8, upper=1 / 3: np.where(x > 0, x, x * (lower + upper) / 2))
def rrelu(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """x where positive, else a slope times x: drawn for each element from [lower, upper) in training, else their mean.

    Raises: ArgumentError for lower > upper.

    >>> volta.nn.functional.rrelu(volta.tensor([-1.0, 2.0]), 0.25, 0.75)
    tensor([-0.5000,  2.0000])
    """
    if not -math.inf < lower <= upper < math.inf:
        raise ArgumentError(f"rrelu: both bounds must be finite, and lower must not be above upper, got {lower} and {upper}")
    if not isinstance(inplace, (bool, int)):
        raise ArgumentError(f"rrelu: inplace must be True or False, got {inplace!r}; slopes are drawn from the default generator")
    if not training:
        return _run(a.leaky_relu, input if inplace else row_major(input), inplace, slope=(lower + upper) / 2)
    return rrelu_(input, lower, upper, True) if inplace else _with_drawn_slopes(input, lower, upper)


@_activation("relu6", (), lambda x: np.clip(x, 0, 6), kinds="fi", domain=(-3.0, 9.0), takes={"input": "fi"})
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x limited to [0, 6]; the derivative is 0 at both.

    >>> volta.nn.functional.relu6(volta.tensor([-1.0, 2.0, 7.0]))
    tensor([0., 2., 6.])
    """
    return hardtanh(input, 0, 6, inplace)


@_activation("hardtanh", (case((5,), -0.5, 1.5), case((5,), min_val=0.0, max_val=0.7)),
             lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val), takes={"input": "fi"})
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]; the derivative is 0 at both. Of integers the limits are rounded towards 0.

    Raises: ArgumentError for min_val > max_val; DTypeError for bool, and for a negative limit of uint8.

    >>> volta.nn.functional.hardtanh(volta.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: min_val must not be above max_val, got {min_val} and {max_val}")
    if input.dtype.is_floating_point:
        if min_val != min_val or max_val != max_val:            # a limit that is NaN gives NaN, which only clamp says
            return into(r.clamp_op, input, min_val, max_val) if inplace else clamp(input, min_val, max_val)
        return _run(a.hardtanh, input, inplace, min_val=min_val, max_val=max_val)
    limits = as_integer("hardtanh", min_val), as_integer("hardtanh", max_val)
    if limits[0] < 0 and input.dtype.name == "uint8":
        raise DTypeError(f"hardtanh: uint8 has no negative limit {min_val}; convert with .long()")
    return into(r.clamp_op, input, *limits) if inplace else clamp(input, *limits)


@_activation("hardsigmoid", (), hardsigmoid_op.details.numpy, domain=(-5.0, 5.0))
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """relu6(x + 3) / 6.

    >>> volta.nn.functional.hardsigmoid(volta.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return _run(hardsigmoid_op, input, inplace)


@_activation("hardswish", (), hardswish_op.details.numpy, domain=(-5.0, 5.0))
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * relu6(x + 3) / 6. Source: Howard et al. 2019.

    >>> volta.nn.functional.hardswish(volta.tensor([-1.0, 4.0]))
    tensor([-0.3333,  4.0000])
    """
    return _run(hardswish_op, input, inplace)


# ---------------------------------------------------------------- exponential ones
@_activation("elu", (case((5,), alpha=0.3),), lambda x, alpha=1.0: a.elu.details.numpy(x, alpha, 1.0),
             takes={"input": "f"})
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else alpha * (exp(x) - 1). Source: Clevert et al. 2016, eq. 15.

    >>> volta.nn.functional.elu(volta.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _run(a.elu, input, inplace, alpha=alpha, inner=1.0)


@composed(samples=(*_SAMPLES, case((5,), alpha=0.3)), takes={"input": "f"}, elementwise=True, method=False,
          numpy=lambda x, alpha=1.0: a.elu.details.numpy(x, alpha, 1 / alpha))
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else alpha * (exp(x / alpha) - 1). Source: Barron 2017.

    Raises: ArgumentError for alpha 0.

    >>> volta.nn.functional.celu(volta.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.4323,  2.0000])
    """
    if alpha == 0:
        raise ArgumentError("celu: alpha must not be 0")
    return _run(a.elu, input, inplace, alpha=alpha, inner=1 / alpha)


@composed(samples=_SAMPLES, takes={"input": "f"}, elementwise=True, method=False, numpy=a.selu.details.numpy)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu of alpha 1.6733, times 1.0507. Source: Klambauer et al. 2017, eq. 2.

    >>> volta.nn.functional.selu(volta.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _run(a.selu, input, inplace)


@_activation("softplus", (case((5,), beta=3.0, threshold=2.0),),
             lambda x, beta=1, threshold=20: np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta), takes={"input": "f"})
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold.

    >>> volta.nn.functional.softplus(volta.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """
    return _run(a.softplus, input, False, beta=beta, threshold=threshold)


@_activation("silu", (), lambda x: x / (1 + np.exp(-x)))
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x).

    >>> volta.nn.functional.silu(volta.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """
    return _run(r.silu, input, inplace)


@_activation("mish", (), mish_op.details.numpy)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)). Source: Misra 2019.

    >>> volta.nn.functional.mish(volta.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])
    """
    return _run(mish_op, input, inplace)


@composed(samples=(case((3, 4)), case((4, 3), dim=0), case((2, 0))), takes={"input": "f"}, in_float32=True, function=False, method=False,
          numpy=lambda x, dim=-1: np.split(x, 2, dim)[0] / (1 + np.exp(-np.split(x, 2, dim)[1])))
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along `dim` times the sigmoid of the second. Source: Dauphin et al. 2017, eq. 1.

    Raises: ShapeError for an odd size, and for a 0-d tensor.

    >>> volta.nn.functional.glu(volta.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    shape = input._shape
    d = as_dim("glu", dim, len(shape)) if shape else 0
    if not shape or shape[d] % 2:
        raise ShapeError(f"glu: needs an even size along dimension {dim}, got shape {input.shape}")
    if not input._contiguous and not stands_in(input) and (strides := dense_strides(part(input, d, 0, shape[d] // 2))) is not None:
        order = outermost_first(strides)            # as the halves lie in memory
        places = tuple(map(order.index, range(len(shape))))
        return permute_op(a.glu_op(permute_op(input, dims=order), dim=places[d]), dims=places)
    return a.glu_op(input, dim=d)


# ---------------------------------------------------------------- shrinking
@_activation("softsign", (), lambda x: x / (1 + np.abs(x)), kinds="fi", in_float32=True, takes={"input": "fi"})
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> volta.nn.functional.softsign(volta.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    if not input.dtype.is_floating_point:
        return input / (abs(input) + 1)             # of the least integer the absolute value is itself
    return a.softsign(input)


@_activation("tanhshrink", (), lambda x: x - np.tanh(x * 1.0), kinds="fi", in_float32=True, takes={"input": "fi"})
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x).

    >>> volta.nn.functional.tanhshrink(volta.tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """
    return input - tanh(input)


@_activation("softshrink", (case((5,), lambd=1.0),), lambda x, lambd=0.5: x - np.clip(x, -lambd, lambd), takes={"input": "f"})
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by `lambd`, and 0 where that would change its sign.

    Raises: ArgumentError for a negative lambd.

    >>> volta.nn.functional.softshrink(volta.tensor([0.25, -2.0]))
    tensor([ 0.0000, -1.5000])
    """
    if not 0 <= lambd < math.inf:
        raise ArgumentError(f"softshrink: lambd must be a finite number >= 0, got {lambd}")
    return a.softshrink(input, lambd)


@composed(out="cast", samples=(case((3, 4), 0.2, 3.0), case((), 0, 1), case((0, 2), 0.5, 0.5)), elementwise=True, kinds="fi",
          takes={"input": "fi"}, numpy=lambda x, threshold, value: np.where(x <= (threshold if x.dtype.kind == "f" else int(threshold)),
                                                     np.asarray(value).astype(x.dtype), x), method=False)
def threshold(input: Tensor, threshold: Number, value: Number, inplace: bool = False) -> Tensor:
    """x where it is above `threshold`, else `value`; of integers both are rounded towards 0.

    >>> volta.nn.functional.threshold(volta.tensor([-1.0, 2.0]), 0.0, 9.0)
    tensor([9., 2.])
    """
    if input.dtype.is_floating_point:
        numbers = float(threshold), float(value)
    else:
        numbers = as_integer("threshold", threshold, input.dtype), as_integer("threshold", value, input.dtype)
    if not inplace:
        return a.threshold(input, *numbers)
    if changed("threshold_", input, lambda whole: into(a.threshold, whole, *numbers)):
        return input
    return into(a.threshold, input, *numbers)


class _Within(InPlace):                                     # of an activation that writes into its input by itself
    __doc__, __module__ = (InPlace.__dict__[each] for each in ("__doc__", "__module__"))

    def __call__(self, input: Tensor, *args: Number, **options: Number) -> Tensor:
        return self.op(input, *args, inplace=True, **options)


celu_, elu_, hardtanh_, leaky_relu_, selu_, threshold_ = [
    _Within(f"{op.__name__}_", op) for op in (celu, elu, hardtanh, leaky_relu, selu, threshold)]
relu_, rrelu_ = InPlace("relu_", relu, r.relu), InPlace("rrelu_", rrelu)
for _form in (celu_, relu_, rrelu_, selu_, threshold_):
    publish(_form.name, _form, Places(method=False))
