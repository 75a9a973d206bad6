"""Filling parameters: each function overwrites a tensor in place, unrecorded, and gives it back.

The numbers come from `volta.random`, so that one seed gives the same values on every device.
Every function raises DTypeError for an argument of a wrong type and ArgumentError for a value that makes no sense, both by name.
"""
from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from volta._kernels import core
from volta.autograd import no_grad
from volta.dtypes import float32, float64
from volta.errors import ArgumentError, CallError, DTypeError, ShapeError
from volta.ops import creation
from volta.ops.creation import empty, zeros_like
from volta.ops.decomposition import linalg_qr
from volta.random import Generator
from volta.tensor import Tensor

__all__ = ["calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_",
           "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_"]

_GAINS = {"linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0, "conv_transpose2d": 1.0,
          "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}


def number(name: str, argument: str, value: object, least: float = -math.inf) -> float:
    """An argument as a float.

    Raises: DTypeError for anything but a number (or a tensor of one element); ArgumentError for NaN and what is below `least`.
    """
    one = isinstance(value, (core.TensorBase, np.ndarray)) and math.prod(value.shape) == 1
    if not (one or isinstance(value, (int, float, np.number))):
        raise DTypeError(f"{name}: {argument} must be a number, got {repr(value) if isinstance(value, str) else type(value).__name__}")
    if not float(value) >= least:
        raise ArgumentError(f"{name}: {argument} must be {'a number' if least == -math.inf else f'>= {least:g}'}, got {value}")
    return float(value)


def _check(name, tensor, generator=None, filled=False):
    """Raise unless `tensor` can be filled: with drawn numbers if not `filled`."""
    if not isinstance(tensor, core.TensorBase):
        raise DTypeError(f"{name}: tensor must be a tensor, got {type(tensor).__name__}")
    if not filled and not tensor.dtype.is_floating_point:
        raise DTypeError(f"{name}: tensor must be of a floating point dtype, got {tensor.dtype}")
    if not (generator is None or isinstance(generator, Generator)):
        raise DTypeError(f"{name}: generator must be a volta.Generator or None, got {type(generator).__name__}")


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity; `param` is the slope of leaky_relu.

    Raises: ArgumentError for an unknown name.
    """
    return _gain("calculate_gain", nonlinearity, 0.01 if param is None else _slope(param))


def _slope(param):
    if isinstance(param, bool) or not isinstance(param, (int, float)):
        raise CallError(f"calculate_gain: param must be a number, got {param!r}")
    return param


def _gain(name, nonlinearity, slope):
    if not isinstance(nonlinearity, str):
        raise DTypeError(f"{name}: nonlinearity must be a string, got {type(nonlinearity).__name__}")
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + slope ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"{name}: unknown nonlinearity {nonlinearity!r}; use leaky_relu, {', '.join(_GAINS)}")
    return _GAINS[nonlinearity]


def fans(name: str, tensor: Tensor) -> tuple[int, int]:
    """(fan in, fan out): values that one output sums, and outputs that one input reaches.

    Raises: ShapeError below 2 dimensions.
    """
    if tensor.ndim < 2:
        raise ShapeError(f"{name}: needs a tensor of 2 dimensions or more, got {tensor.shape}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


@no_grad
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform on [a, b)."""
    _check("uniform_", tensor, generator)
    return tensor.uniform_(number("uniform_", "a", a), number("uniform_", "b", b), generator=generator)


@no_grad
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal."""
    _check("normal_", tensor, generator)
    return tensor.normal_(number("normal_", "mean", mean), number("normal_", "std", std, 0), generator=generator)


@no_grad
def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Generator | None = None) -> Tensor:
    """Normal, limited to [a, b]: the inverse of the distribution function on a uniform draw."""
    _check("trunc_normal_", tensor, generator)
    mean, std, a, b = (number("trunc_normal_", *given) for given in (("mean", mean), ("std", std, 0), ("a", a), ("b", b)))
    if std == 0 or a > b:
        raise ArgumentError(f"trunc_normal_: needs std > 0 and a <= b, got std={std}, a={a}, b={b}")
    if not a - 2 * std <= mean <= b + 2 * std:
        warnings.warn("nn.init.trunc_normal_: mean is more than 2 std away from [a, b], where values may be distributed inaccurately",
                      stacklevel=3)
    low, high = (math.erf((v - mean) / (std * math.sqrt(2.0))) for v in (a, b))
    drawn = zeros_like(tensor).uniform_(low, high, generator=generator)
    return tensor.copy_((drawn.erfinv() * (std * math.sqrt(2.0)) + mean).clamp(a, b))


def _fill(name, tensor, value):
    _check(name, tensor, filled=True)
    with no_grad():
        return tensor.fill_(value)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`."""
    if not (isinstance(val, float) and math.isnan(val)):        # a constant like any other
        number("constant_", "val", val)
    return _fill("constant_", tensor, val)


def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    return _fill("zeros_", tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return _fill("ones_", tensor, 1)


def _xavier_std(name, tensor, gain, generator):
    _check(name, tensor, generator)
    return number(name, "gain", gain, 0) * math.sqrt(2.0 / max(sum(fans(name, tensor)), 1))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform with variance gain**2 * 2 / (fan_in + fan_out). Source: Glorot and Bengio 2010, eq. 16."""
    bound = math.sqrt(3.0) * _xavier_std("xavier_uniform_", tensor, gain, generator)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with variance gain**2 * 2 / (fan_in + fan_out). Source: Glorot and Bengio 2010, eq. 12."""
    return normal_(tensor, 0.0, _xavier_std("xavier_normal_", tensor, gain, generator), generator)


def _kaiming_std(name, tensor, a, mode, nonlinearity, generator):
    _check(name, tensor, generator)
    if not isinstance(mode, str) or mode.lower() not in ("fan_in", "fan_out"):
        raise ArgumentError(f"{name}: mode must be 'fan_in' or 'fan_out', got {mode!r}")
    return _gain(name, nonlinearity, number(name, "a", a)) / math.sqrt(max(fans(name, tensor)[mode.lower() == "fan_out"], 1))


def _nothing(tensor):
    warnings.warn("nn.init: a tensor without elements stays as it is", stacklevel=3)
    return tensor


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Generator | None = None) -> Tensor:
    """Uniform with variance gain**2 / fan. Source: He et al. 2015, eq. 10 and 14."""
    if isinstance(tensor, core.TensorBase) and 0 in tensor.shape:
        return _nothing(tensor)
    bound = math.sqrt(3.0) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity, generator)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Generator | None = None) -> Tensor:
    """Normal with variance gain**2 / fan. Source: He et al. 2015, eq. 10 and 14."""
    if isinstance(tensor, core.TensorBase) and 0 in tensor.shape:
        return _nothing(tensor)
    return normal_(tensor, 0.0, _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity, generator), generator)


@no_grad
def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix. Raises: ShapeError unless `tensor` has two dimensions."""
    _check("eye_", tensor, filled=True)
    if tensor.ndim != 2:
        raise ShapeError(f"eye_: needs a matrix, got {tensor.shape}")
    return tensor.copy_(creation.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@no_grad
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The kernel of a convolution that passes as many channels of its input through as it can, in each group.

    Raises: ShapeError for other than 3 to 5 dimensions, and output channels that the groups do not divide.
    """
    _check("dirac_", tensor, filled=True)
    if not isinstance(groups, int):
        raise DTypeError(f"dirac_: groups must be an integer, got {groups!r}")
    if tensor.ndim not in (3, 4, 5) or groups < 1 or tensor.shape[0] % groups:
        raise ShapeError(f"dirac_: needs a kernel of 3 to 5 dimensions whose first divides by groups={groups}, got {tensor.shape}")
    middle = tuple(n // 2 for n in tensor.shape[2:])
    each = tensor.shape[0] // groups
    passed = min(each, tensor.shape[1])
    tensor.zero_()
    for group in range(groups):
        tensor[(slice(group * each, group * each + passed), slice(0, passed), *middle)].diagonal().fill_(1)
    return tensor


@no_grad
def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """A matrix (rows: dimension 0, columns: the others) with orthonormal rows or columns, times `gain`: the orthogonal factor of normal
    numbers, computed on the CPU. Source: Saxe et al. 2013.

    Raises: ShapeError below two dimensions.
    """
    _check("orthogonal_", tensor, generator)
    if tensor.ndim < 2:
        raise ShapeError(f"orthogonal_: needs a tensor of 2 dimensions or more, got {tensor.shape}")
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    if not tensor.numel():
        return tensor
    drawn = empty(rows, columns, dtype=float64 if tensor.dtype is float64 else float32).normal_(0, 1, generator=generator)
    q, r = linalg_qr(drawn.t() if rows < columns else drawn)
    q = q * r.diagonal().sign()
    return tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape).mul(number("orthogonal_", "gain", gain)).to(tensor.device))


@no_grad
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal, with a fraction `sparsity` of each column zero, in rows drawn at random. Source: Martens 2010.

    Raises: ShapeError unless `tensor` has two dimensions.
    """
    _check("sparse_", tensor, generator)
    if tensor.ndim != 2:
        raise ShapeError(f"sparse_: needs a matrix, got {tensor.shape}")
    number("sparse_", "std", std, 0)
    zeros = min(math.ceil(number("sparse_", "sparsity", sparsity, 0) * tensor.shape[0]), tensor.shape[0])
    normal_(tensor, 0.0, std, generator)
    ranks = zeros_like(tensor).uniform_(0, 1, generator=generator).argsort(0).argsort(0)
    return tensor.masked_fill_(ranks < zeros, 0.0)


def default_(weight: Tensor, bias: Tensor | None) -> None:
    """The initialisation of Linear and Conv2d: weight and bias uniform within 1 / sqrt(fan in)."""
    kaiming_uniform_(weight, a=math.sqrt(5.0))
    if bias is not None:
        bound = 1.0 / math.sqrt(max(fans("bias", weight)[0], 1))
        uniform_(bias, -bound, bound)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """`fans`, as programs that make their own initial values call it."""
    return fans("_calculate_fan_in_and_fan_out", tensor)


def __getattr__(name: str) -> Callable[..., Tensor]:
    """The names before PyTorch 0.4, which it still has: `xavier_uniform` is `xavier_uniform_`."""
    if name + "_" in __all__:
        function = globals()[name + "_"]

        @functools.wraps(function)
        def older(*args: Any, **options: Any) -> Tensor:
            warnings.warn(f"nn.init.{name} is deprecated; write nn.init.{name}_", FutureWarning, stacklevel=2)
            return function(*args, **options)
        return older
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
