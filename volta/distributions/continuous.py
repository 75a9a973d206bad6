"""Distributions of real numbers. Draws are functions of the parameters and of fixed noise, so they have gradients."""
from __future__ import annotations

import math

from volta.distributions.constraints import Constraint, dependent_property, greater_than, interval, less_than, nonnegative, positive, real
from volta.distributions.distribution import Distribution
from volta.distributions.utils import broadcast_all
from volta.ops.creation import empty, full_like
from volta.ops.math import where
from volta.ops.records.chain import fused
from volta.tensor import Tensor

__all__ = ["Cauchy", "Exponential", "Laplace", "Normal", "Uniform"]

LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


class _LocationScale(Distribution):
    """loc + scale * noise."""

    has_rsample = True
    arg_constraints = {"loc": real, "scale": positive}

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def _noise(self, shape):
        raise NotImplementedError

    def _empty(self, shape):
        return empty(shape, dtype=self.loc.dtype, device=self.loc.device)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return self.loc + self.scale * self._noise(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(self._density, self._validate_sample(value), self.loc, self.scale)

    def _standard(self, value):
        return (self._validate_sample(value) - self.loc) / self.scale


# Logarithms of densities, elementwise as they are: `fused` computes each at once on a GPU.

def gaussian(value, loc, scale):
    return -0.5 * ((value - loc) / scale) ** 2 - scale.log() - LOG_ROOT_2PI


def _laplace(value, loc, scale):
    return -((value - loc) / scale).abs() - (2 * scale).log()


def _cauchy(value, loc, scale):
    return -math.log(math.pi) - scale.log() - (((value - loc) / scale) ** 2).log1p()


def _exponential(value, rate):
    return rate.log() - rate * value


def _uniform(value, low, high):
    return where((value >= low) & (value < high), 0.0 - (high - low).log(), -math.inf)


class Normal(_LocationScale):
    """The normal distribution."""

    _density = staticmethod(gaussian)

    def _noise(self, shape):
        return self._empty(shape).normal_()

    mean = mode = property(lambda self: self.loc, doc="The mean.")
    stddev = property(lambda self: self.scale, doc="The standard deviation.")
    variance = property(lambda self: self.scale ** 2, doc="The variance.")

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + (self._standard(value) * math.sqrt(0.5)).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + LOG_ROOT_2PI + self.scale.log()


class Laplace(_LocationScale):
    """The double exponential distribution."""

    _density = staticmethod(_laplace)

    def _noise(self, shape):
        u = self._empty(shape).uniform_(2.0 ** -24 - 1, 1)
        return -u.sign() * (-u.abs()).log1p()

    mean = mode = property(lambda self: self.loc, doc="The mean.")
    variance = property(lambda self: 2 * self.scale ** 2, doc="The variance.")

    def cdf(self, value: Tensor) -> Tensor:
        x = self._standard(value)
        return 0.5 - 0.5 * x.sign() * (-x.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        x = value - 0.5
        return self.loc - self.scale * x.sign() * (-2 * x.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The ratio of two normal variables; it has no mean."""

    _density = staticmethod(_cauchy)

    def _noise(self, shape):
        return ((self._empty(shape).uniform_() - 0.5) * math.pi).tan()

    mode = property(lambda self: self.loc, doc="The most likely value.")
    mean = property(lambda self: full_like(self.loc, math.nan), doc="NaN: there is none.")
    variance = property(lambda self: full_like(self.loc, math.inf), doc="Infinite.")

    def cdf(self, value: Tensor) -> Tensor:
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ((value - 0.5) * math.pi).tan()

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Exponential(Distribution):
    """Times between events that come `rate` times in a unit."""

    has_rsample = True
    arg_constraints = {"rate": positive}
    support = nonnegative

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    mean = stddev = property(lambda self: 1 / self.rate, doc="1 / rate.")
    mode = property(lambda self: full_like(self.rate, 0.0), doc="0.")
    variance = property(lambda self: self.rate ** -2, doc="The variance.")

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return empty(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_exponential, self._validate_sample(value), self.rate)

    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (-self.rate * self._validate_sample(value)).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    has_rsample = True
    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, (), validate_args)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:  # type: ignore[override]  (of the object, as in PyTorch)
        """Each bounds the other."""
        return {"low": less_than(self.high), "high": greater_than(self.low)}

    @dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """Numbers between the two."""
        return interval(self.low, self.high)

    mean = property(lambda self: (self.low + self.high) / 2, doc="The mean.")
    mode = property(lambda self: self.high * math.nan, doc="NaN: there is none.")
    stddev = property(lambda self: (self.high - self.low) / math.sqrt(12), doc="The standard deviation.")
    variance = property(lambda self: (self.high - self.low) ** 2 / 12, doc="The variance.")

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        u = empty(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device).uniform_()
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_uniform, self._validate_sample(value), self.low, self.high)

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._validate_sample(value) - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()
