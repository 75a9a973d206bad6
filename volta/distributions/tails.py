"""Distributions of positive numbers with heavy or bent tails, which are made of simpler ones."""
from __future__ import annotations

import math

from volta.distributions.constraints import (
    Constraint,
    dependent_property,
    greater_than_eq,
    interval,
    nonnegative,
    positive,
    real,
    unit_interval,
)
from volta.distributions.continuous import Cauchy, Exponential, Uniform
from volta.distributions.distribution import Distribution
from volta.distributions.elementwise_transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from volta.distributions.transformed import TransformedDistribution, of_base
from volta.distributions.utils import broadcast_all, epsilon, euler_constant
from volta.ops.creation import empty, full_like, ones_like, zeros_like
from volta.ops.math import where
from volta.ops.records.chain import fused
from volta.special import digamma
from volta.tensor import Tensor

__all__ = ["GeneralizedPareto", "HalfCauchy", "Kumaraswamy", "Pareto", "Weibull"]


# Logarithms of densities, elementwise as they are: `fused` computes each at once on a GPU.

def _pareto(x, alpha, scale):
    return alpha.log() + alpha * scale.log() - (alpha + 1) * x.log()


def _weibull(value, scale, k):
    x = value / scale
    return k.log() - scale.log() + (k - 1) * x.log() - x ** k


def _kumaraswamy(x, a, b):
    return a.log() + b.log() + (a - 1) * x.log() + (b - 1) * (-x ** a).log1p()


def _half_cauchy(value, scale):
    return where(value >= 0, math.log(2 / math.pi) - scale.log() - ((value / scale) ** 2).log1p(), -math.inf)


class Pareto(TransformedDistribution):
    """Numbers above `scale` with a density that falls as x ** -(alpha + 1)."""

    arg_constraints = {"alpha": positive, "scale": positive}

    def __init__(self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args), [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """Numbers from `scale` on."""
        return greater_than_eq(self.scale)

    mode = property(lambda self: self.scale, doc="The most likely value.")

    @property
    def mean(self) -> Tensor:
        """The mean; infinite where alpha is at most 1."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Tensor:
        """The variance; infinite where alpha is at most 2."""
        a = self.alpha.clamp(min=2)
        return self.scale ** 2 * a / ((a - 1) ** 2 * (a - 2))

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_pareto, self._validate_sample(value), self.alpha, self.scale)

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class Weibull(TransformedDistribution):
    """scale times an exponential variable to the power 1 / concentration."""

    arg_constraints = {"scale": positive, "concentration": positive}
    support = positive

    def __init__(self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(Exponential(ones_like(self.scale), validate_args),
                         [PowerTransform(1 / self.concentration), AffineTransform(0, self.scale)], validate_args)

    def _moment(self, k):
        return (1 + k / self.concentration).lgamma().exp() * self.scale ** k

    mean = property(lambda self: self._moment(1), doc="The mean.")
    variance = property(lambda self: self._moment(2) - self._moment(1) ** 2, doc="The variance.")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** (1 / k)

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_weibull, self._validate_sample(value), self.scale, self.concentration)

    def cdf(self, value: Tensor) -> Tensor:
        return -(-(self._validate_sample(value, nonnegative) / self.scale) ** self.concentration).expm1()

    def entropy(self) -> Tensor:
        return euler_constant * (1 - 1 / self.concentration) + (self.scale / self.concentration).log() + 1


class Kumaraswamy(TransformedDistribution):
    """Numbers between 0 and 1, much like Beta's, by a cdf in closed form."""

    arg_constraints = {"concentration1": positive, "concentration0": positive}
    support = unit_interval

    def __init__(self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(Uniform(zeros_like(self.concentration1), ones_like(self.concentration1), validate_args),
                         [PowerTransform(1 / self.concentration0), AffineTransform(1.0, -1.0), PowerTransform(1 / self.concentration1)],
                         validate_args)

    def _moment(self, n):
        a, b = 1 + n / self.concentration1, self.concentration0
        return (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp() * b

    mean = property(lambda self: self._moment(1), doc="The mean.")
    variance = property(lambda self: self._moment(2) - self._moment(1) ** 2, doc="The variance.")

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN where a concentration is below 1."""
        a, b = self.concentration1, self.concentration0
        found = ((a - 1) / (a * b - 1)) ** (1 / a)
        return where((a < 1) | (b < 1), math.nan, found)

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_kumaraswamy, self._validate_sample(value), self.concentration1, self.concentration0)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return 1 - 1 / b + (1 - 1 / a) * (digamma(b + 1) + euler_constant) - a.log() - b.log()


class HalfCauchy(TransformedDistribution):
    """The absolute value of a Cauchy variable around 0."""

    arg_constraints = {"scale": positive}
    support = nonnegative
    scale = of_base("scale")

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0.0, scale, validate_args), AbsTransform(), validate_args)

    mean = variance = property(lambda self: full_like(self.scale, math.inf), doc="Infinite.")
    mode = property(lambda self: full_like(self.scale, 0.0), doc="0.")

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_half_cauchy, self._validate_sample(value), self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 / math.pi * (self._validate_sample(value) / self.scale).atan()

    def icdf(self, prob: Tensor) -> Tensor:
        return self.scale * (prob * (math.pi / 2)).tan()

    def entropy(self) -> Tensor:
        return math.log(2 * math.pi) + self.scale.log()


class GeneralizedPareto(Distribution):
    """What lies above a high threshold `loc`: exponential at concentration 0, with a heavier tail above and an end below."""

    has_rsample = True
    arg_constraints = {"loc": real, "scale": positive, "concentration": real}

    def __init__(self, loc: Tensor | float, scale: Tensor | float, concentration: Tensor | float,
                 validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """Numbers from `loc` to the end of the tail."""
        return interval(self.loc, where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf))

    mode = property(lambda self: self.loc, doc="The most likely value.")
    mean = property(lambda self: where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), math.nan), doc="The mean.")

    @property
    def variance(self) -> Tensor:
        """The variance; NaN where concentration is at least 1 / 2."""
        c = where(self.concentration < 0.5, self.concentration, 0.25)
        return where(self.concentration < 0.5, self.scale ** 2 / ((1 - c) ** 2 * (1 - 2 * c)), math.nan)

    @property
    def _bend(self):
        exponential = self.concentration.abs() < 1e-8
        return exponential, where(exponential, 1.0, self.concentration)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        u = empty(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device).uniform_()
        return self.icdf(u.clamp(max=1 - epsilon(u)))

    def log_prob(self, value: Tensor) -> Tensor:
        z = (self._validate_sample(value) - self.loc) / self.scale
        exponential, c = self._bend
        return -self.scale.log() - where(exponential, z, (1 / c + 1) * (c * z).log1p())

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than `value`."""
        z = (self._validate_sample(value) - self.loc) / self.scale
        exponential, c = self._bend
        return where(exponential, -z, -(c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of at most `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        exponential, c = self._bend
        left = (-value).log1p()
        return self.loc + self.scale * where(exponential, -left, (-c * left).expm1() / c)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
