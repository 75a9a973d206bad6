"""Activations as layers: functions of `nn.functional` with their settings kept."""
from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

from volta.errors import ArgumentError, AssertedError, ShapeError
from volta.nn import functional
from volta.nn.linear import sizes
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.ops.creation import full
from volta.tensor import Tensor

__all__ = ["CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
           "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin",
           "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold"]


class Activation(Module):
    """A function of one tensor. Its settings are those of the function, under the same names and with the same defaults."""

    _function: Callable[..., Tensor]
    _called: str                        # its name in nn.functional, where a program may have put another
    _settings: inspect.Signature

    def __init_subclass__(cls, **options) -> None:
        super().__init_subclass__(**options)
        if "_function" in cls.__dict__:
            parameters = list(inspect.signature(cls._function).parameters.values())[1:]
            cls._settings = inspect.Signature([p for p in parameters if p.name not in ("_stacklevel", "dtype", "training")])
            cls._called = cls._function.__name__
            if "__init__" not in cls.__dict__:
                cls.__signature__ = cls._settings       # what help() shows

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()
        try:
            settings = self._settings.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}; it takes {self._settings}") from None
        settings.apply_defaults()
        for name, value in settings.arguments.items():
            setattr(self, name, value)

    def forward(self, input: Tensor) -> Tensor:
        return getattr(functional, self._called)(input, **{name: getattr(self, name) for name in self._settings.parameters})

    def extra_repr(self) -> str:
        shown = [f"{name}={getattr(self, name)}" for name in self._settings.parameters if name != "inplace"]
        return ", ".join(shown + ["inplace=True"] * bool(getattr(self, "inplace", False)))


class ReLU(Activation):
    """The larger of 0 and x."""
    _function = functional.relu


class LeakyReLU(Activation):
    """x where positive, else negative_slope * x."""
    _function = functional.leaky_relu


class RReLU(Activation):
    """x where positive, else x times a slope: in training drawn for each element, in evaluation the mean of `lower` and `upper`."""
    _function = functional.rrelu

    def forward(self, input: Tensor) -> Tensor:
        return functional.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(Module):
    """x where positive, else x times a learned slope: one, or one for each channel (dimension 1)."""

    _shown = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device=None, dtype=None) -> None:
        super().__init__()
        (self.num_parameters,) = sizes("PReLU", num_parameters=num_parameters)
        self.init = init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Every slope as at the start."""
        self.weight.data.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return functional.prelu(input, self.weight)


class ELU(Activation):
    """x where positive, else alpha * (exp(x) - 1)."""
    _function = functional.elu


class SELU(Activation):
    """ELU with the scale and alpha that keep mean 0 and variance 1. Source: Klambauer et al. 2017."""
    _function = functional.selu


class CELU(Activation):
    """x where positive, else alpha * (exp(x / alpha) - 1)."""
    _function = functional.celu


class GELU(Activation):
    """x * Phi(x), exact or with approximate="tanh"."""
    _function = functional.gelu

    def __init__(self, approximate: str = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise ArgumentError(f"GELU: approximate must be 'none' or 'tanh', got {approximate!r}")
        super().__init__(approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Activation):
    """x * sigmoid(x)."""
    _function = functional.silu


class Mish(Activation):
    """x * tanh(softplus(x))."""
    _function = functional.mish


class Softplus(Activation):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above `threshold`."""
    _function = functional.softplus


class Softsign(Activation):
    """x / (1 + |x|)."""
    _function = functional.softsign


class Softshrink(Activation):
    """x moved towards 0 by `lambd`, 0 within it."""
    _function = functional.softshrink

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(Softshrink):
    """x, 0 within `lambd` of 0."""
    _function = functional.hardshrink


class Tanhshrink(Activation):
    """x - tanh(x)."""
    _function = functional.tanhshrink


class Hardtanh(Activation):
    """x between min_val and max_val."""
    _function = functional.hardtanh

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False, min_value: float | None = None,
                 max_value: float | None = None) -> None:
        for old, value in (("min_value", min_value), ("max_value", max_value)):
            if value is not None:
                warnings.warn(f"Hardtanh: {old} is the old name of {old[:7]}", FutureWarning, stacklevel=2)
        min_val, max_val = min_val if min_value is None else min_value, max_val if max_value is None else max_value
        if not max_val > min_val:
            raise AssertedError(f"Hardtanh: max_val must be above min_val, got {min_val} and {max_val}")
        super().__init__(min_val, max_val, inplace)


class ReLU6(Hardtanh):
    """x between 0 and 6."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Hardsigmoid(Activation):
    """x / 6 + 1 / 2, between 0 and 1."""
    _function = functional.hardsigmoid

    def extra_repr(self) -> str:
        return ""


class Hardswish(Activation):
    """x * Hardsigmoid(x)."""
    _function = functional.hardswish

    def extra_repr(self) -> str:
        return ""


class LogSigmoid(Activation):
    """log(1 / (1 + exp(-x)))."""
    _function = functional.logsigmoid


class GLU(Activation):
    """The first half of x along `dim` times the sigmoid of the second."""
    _function = functional.glu


class Threshold(Activation):
    """x where it is above `threshold`, else `value`."""
    _function = functional.threshold


class Sigmoid(Activation):
    """1 / (1 + exp(-x))."""
    _function = functional.sigmoid


class Tanh(Activation):
    """Hyperbolic tangent."""
    _function = functional.tanh


class Softmax(Activation):
    """exp(x) normalised to sum 1 along `dim`; without it as in `functional.softmax`."""
    _function = functional.softmax


class LogSoftmax(Softmax):
    """The logarithm of Softmax."""
    _function = functional.log_softmax


class Softmin(Softmax):
    """Softmax of -x."""
    _function = functional.softmin


class Softmax2d(Module):
    """Softmax over the channels of images (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ShapeError(f"Softmax2d: needs an input (N, C, H, W) or (C, H, W), got {input.shape}")
        return functional.softmax(input, -3)
