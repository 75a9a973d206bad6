"""Filling parameters: each function overwrites a tensor in place, unrecorded, and gives it back.

The numbers come from `volta.random`, so that one seed gives the same values on every device.
"""
from __future__ import annotations

import math

from volta.autograd import no_grad
from volta.errors import ArgumentError, ShapeError
from volta.tensor import Tensor

_GAINS = {"linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0, "conv_transpose2d": 1.0,
          "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity; `param` is the slope of leaky_relu.

    Raises: ArgumentError for an unknown name.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else float(param)) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"calculate_gain: unknown nonlinearity {nonlinearity!r}; use leaky_relu, {', '.join(_GAINS)}")
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
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator=None) -> Tensor:
    """Uniform on [a, b)."""
    return tensor.uniform_(float(a), float(b), generator=generator)


@no_grad
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator=None) -> Tensor:
    """Normal."""
    return tensor.normal_(float(mean), float(std), generator=generator)


@no_grad
def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator=None) -> Tensor:
    """Normal, limited to [a, b]: the inverse of the distribution function on a uniform draw, found by bisection of erf."""
    from volta.ops.creation import zeros_like
    from volta.ops.elementwise import erf_, where
    low, high = (0.5 * (1 + math.erf((v - mean) / (std * math.sqrt(2.0)))) for v in (a, b))
    goal = zeros_like(tensor).uniform_(low, high, generator=generator)
    left, right = zeros_like(tensor) + (a - mean) / std, zeros_like(tensor) + (b - mean) / std
    for _ in range(24):                                         # to the resolution of float32
        middle = (left + right) * 0.5
        below = (erf_(middle * math.sqrt(0.5)) + 1.0) * 0.5 < goal
        left, right = where(below, middle, left), where(below, right, middle)
    return tensor.copy_((left + right) * (0.5 * std) + mean)


@no_grad
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element `val`."""
    return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return constant_(tensor, 1)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator=None) -> Tensor:
    """Uniform with variance gain**2 * 2 / (fan_in + fan_out). Source: Glorot and Bengio 2010, eq. 16."""
    bound = gain * math.sqrt(6.0 / max(sum(fans("xavier_uniform_", tensor)), 1))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator=None) -> Tensor:
    """Normal with variance gain**2 * 2 / (fan_in + fan_out). Source: Glorot and Bengio 2010, eq. 12."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / max(sum(fans("xavier_normal_", tensor)), 1)), generator)


def _kaiming_std(name, tensor, a, mode, nonlinearity):
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"{name}: mode must be 'fan_in' or 'fan_out', got {mode!r}")
    fan = fans(name, tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator=None) -> Tensor:
    """Uniform with variance gain**2 / fan. Source: He et al. 2015, eq. 10 and 14."""
    bound = math.sqrt(3.0) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator=None) -> Tensor:
    """Normal with variance gain**2 / fan. Source: He et al. 2015, eq. 10 and 14."""
    return normal_(tensor, 0.0, _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


def default_(weight: Tensor, bias: Tensor | None) -> None:
    """The initialisation of Linear and Conv2d: weight and bias uniform within 1 / sqrt(fan in)."""
    kaiming_uniform_(weight, a=math.sqrt(5.0))
    if bias is not None:
        bound = 1.0 / math.sqrt(max(fans("bias", weight)[0], 1))
        uniform_(bias, -bound, bound)
