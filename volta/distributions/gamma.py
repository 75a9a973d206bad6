"""Distributions made of gamma-distributed numbers. Draws have no gradients.

Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000: a proposal is taken with a probability above 0.95.
"""
from __future__ import annotations

import math

from volta.distributions.distribution import Distribution, broadcast, positive, real, simplex, unit_interval
from volta.ops.creation import empty
from volta.ops.math import where
from volta.special import digamma
from volta.tensor import Tensor

__all__ = ["Beta", "Chi2", "Dirichlet", "Gamma", "StudentT"]

_PROPOSALS = 10                 # that all fail once in 10**13 draws


def _standard_gamma(concentration, shape):
    """Draws of rate 1: for a concentration below 1, of one more, times u ** (1 / concentration)."""
    alpha = concentration.expand(shape)
    small = alpha < 1
    d = where(small, alpha + 1, alpha) - 1 / 3
    noise = empty((2, _PROPOSALS, *shape), dtype=alpha.dtype, device=alpha.device)
    x, u = noise[0].normal_(), noise[1].uniform_()
    v = (1 + x / (9 * d).sqrt()) ** 3
    taken = (v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * v.clamp(min=1e-30).log())
    found = d * v.gather(0, taken.long().argmax(0, keepdim=True)).squeeze(0)
    boost = empty(shape, dtype=alpha.dtype, device=alpha.device).uniform_() ** (1 / alpha)
    return where(small, found * boost, found)


class Gamma(Distribution):
    """The gamma distribution of a concentration and a rate."""

    arg_constraints = {"concentration": positive, "rate": positive}
    support = positive

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    mean = property(lambda self: self.concentration / self.rate, doc="The mean.")
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0), doc="The most likely value.")
    variance = property(lambda self: self.concentration / self.rate ** 2, doc="The variance.")

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        drawn = _standard_gamma(self.concentration.detach(), self._extended(sample_shape)) / self.rate.detach()
        return drawn.clamp(min=1e-30)

    def log_prob(self, value: Tensor) -> Tensor:
        value, alpha = self._validated(value), self.concentration
        return alpha * self.rate.log() + (alpha - 1) * value.log() - self.rate * value - alpha.lgamma()

    def entropy(self) -> Tensor:
        alpha = self.concentration
        return alpha - self.rate.log() + alpha.lgamma() + (1 - alpha) * digamma(alpha)


class Chi2(Gamma):
    """The sum of `df` squares of normal numbers."""

    arg_constraints = {"df": positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        self.df, = broadcast(df)
        super().__init__(0.5 * self.df, 0.5, validate_args)


class Dirichlet(Distribution):
    """The Dirichlet distribution of probabilities, by the last dimension of `concentration`."""

    arg_constraints = {"concentration": positive}
    support = simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, keepdim=True), doc="The mean.")

    @property
    def variance(self) -> Tensor:
        """The variance of each probability."""
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total ** 2 * (total + 1))

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        drawn = _standard_gamma(self.concentration.detach(), self._extended(sample_shape)).clamp(min=1e-30)
        return drawn / drawn.sum(-1, keepdim=True)

    def _normaliser(self):
        return self.concentration.lgamma().sum(-1) - self.concentration.sum(-1).lgamma()

    def log_prob(self, value: Tensor) -> Tensor:
        return ((self.concentration - 1) * self._validated(value).log()).sum(-1) - self._normaliser()

    def entropy(self) -> Tensor:
        alpha, total = self.concentration, self.concentration.sum(-1)
        return self._normaliser() + (total - alpha.shape[-1]) * digamma(total) - ((alpha - 1) * digamma(alpha)).sum(-1)


class Beta(Distribution):
    """The beta distribution of numbers between 0 and 1."""

    arg_constraints = {"concentration1": positive, "concentration0": positive}
    support = unit_interval

    def __init__(self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    _total = property(lambda self: self.concentration1 + self.concentration0)
    mean = property(lambda self: self.concentration1 / self._total, doc="The mean.")
    mode = property(lambda self: (self.concentration1 - 1) / (self._total - 2), doc="The most likely value, of concentrations above 1.")
    variance = property(lambda self: self.mean * (1 - self.mean) / (self._total + 1), doc="The variance.")

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        shape = self._extended(sample_shape)
        a, b = (_standard_gamma(c.detach(), shape).clamp(min=1e-30) for c in (self.concentration1, self.concentration0))
        return a / (a + b)

    def _normaliser(self):
        return self.concentration1.lgamma() + self.concentration0.lgamma() - self._total.lgamma()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validated(value)
        return (self.concentration1 - 1) * value.log() + (self.concentration0 - 1) * (-value).log1p() - self._normaliser()

    def entropy(self) -> Tensor:
        a, b, total = self.concentration1, self.concentration0, self._total
        return self._normaliser() - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (total - 2) * digamma(total)


class StudentT(Distribution):
    """Student's t distribution of `df` degrees of freedom."""

    arg_constraints = {"df": positive, "loc": real, "scale": positive}

    def __init__(self, df: Tensor | float, loc: Tensor | float = 0.0, scale: Tensor | float = 1.0,
                 validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    mean = property(lambda self: where(self.df > 1, self.loc, math.nan), doc="The mean; NaN where there is none.")
    mode = property(lambda self: self.loc, doc="The most likely value.")

    @property
    def variance(self) -> Tensor:
        """The variance; infinite or NaN where there is none."""
        found = where(self.df > 2, self.scale ** 2 * self.df / (self.df - 2), math.inf)
        return where(self.df > 1, found, math.nan)

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        shape = self._extended(sample_shape)
        chi2 = 2 * _standard_gamma(0.5 * self.df.detach(), shape)
        noise = empty(shape, dtype=self.loc.dtype, device=self.loc.device).normal_()
        return self.loc.detach() + self.scale.detach() * noise * (chi2 / self.df.detach()).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        y, df = (self._validated(value) - self.loc) / self.scale, self.df
        normaliser = self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi) + (0.5 * df).lgamma() - (0.5 * (df + 1)).lgamma()
        return -0.5 * (df + 1) * (y ** 2 / df).log1p() - normaliser
