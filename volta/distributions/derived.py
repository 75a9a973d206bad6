"""Distributions that transforms make of others, and choices relaxed to numbers with gradients.

Source: Maddison et al., "The concrete distribution", 2017; Jang et al., "Categorical reparameterization with Gumbel-softmax", 2017.
"""
from __future__ import annotations

import math
from typing import Any

from volta._kernels import core
from volta.distributions.constraints import nonnegative, positive, real, real_vector, simplex, unit_interval
from volta.distributions.continuous import Normal, Uniform, gaussian
from volta.distributions.discrete import Binary, Categorical
from volta.distributions.distribution import Distribution
from volta.distributions.elementwise_transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform, SigmoidTransform
from volta.distributions.gamma import Gamma
from volta.distributions.transformed import TransformedDistribution, of_base
from volta.distributions.utils import broadcast_all, clamp_probs, euler_constant
from volta.distributions.vector_transforms import StickBreakingTransform
from volta.dtypes import finfo
from volta.nn.functional import logsigmoid
from volta.ops.creation import full_like, ones_like
from volta.ops.math import where
from volta.ops.records.chain import fused
from volta.ops.reduce import logsumexp
from volta.special import digamma
from volta.tensor import Tensor

__all__ = ["ContinuousBernoulli", "ExpRelaxedCategorical", "Gumbel", "HalfNormal", "InverseGamma", "LogNormal", "LogisticNormal",
           "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]


def _log_gaussian(value, loc, scale):
    logarithm = value.log()
    return gaussian(logarithm, loc, scale) - logarithm


def _half_gaussian(value, loc, scale):
    return where(value >= 0, gaussian(value, loc, scale) + math.log(2), -math.inf)


def _gumbel(value, loc, scale):
    y = (loc - value) / scale
    return y - y.exp() - scale.log()


class LogNormal(TransformedDistribution):
    """exp of a normal variable."""

    arg_constraints = {"loc": real, "scale": positive}
    support = positive
    loc, scale = of_base("loc"), of_base("scale")

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    mean = property(lambda self: (self.loc + self.scale ** 2 / 2).exp(), doc="The mean.")
    mode = property(lambda self: (self.loc - self.scale ** 2).exp(), doc="The most likely value.")
    variance = property(lambda self: (self.scale ** 2).expm1() * (2 * self.loc + self.scale ** 2).exp(), doc="The variance.")

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_log_gaussian, self._validate_sample(value), self.loc, self.scale)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class HalfNormal(TransformedDistribution):
    """The absolute value of a normal variable with mean 0."""

    arg_constraints = {"scale": positive}
    support = nonnegative
    scale = of_base("scale")

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0.0, scale, validate_args), AbsTransform(), validate_args)

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi), doc="The mean.")
    mode = property(lambda self: full_like(self.scale, 0.0), doc="0.")
    variance = property(lambda self: self.scale ** 2 * (1 - 2 / math.pi), doc="The variance.")

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_half_gaussian, self._validate_sample(value), self.base_dist.loc, self.base_dist.scale)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._validate_sample(value)) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class Gumbel(TransformedDistribution):
    """The largest of many exponential variables."""

    arg_constraints = {"loc": real, "scale": positive}
    support = real

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)                      # between these draws are finite
        base = Uniform(full_like(self.loc, limits.tiny), full_like(self.loc, 1 - limits.eps), validate_args)
        logarithm = ExpTransform().inv
        super().__init__(base, [logarithm, AffineTransform(0, -ones_like(self.scale)), logarithm, AffineTransform(self.loc, -self.scale)],
                         validate_args)

    mean = property(lambda self: self.loc + self.scale * euler_constant, doc="The mean.")
    mode = property(lambda self: self.loc, doc="The most likely value.")
    variance = property(lambda self: (math.pi * self.scale) ** 2 / 6, doc="The variance.")

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_gumbel, self._validate_sample(value), self.loc, self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        return (-((self.loc - self._validate_sample(value)) / self.scale).exp()).exp()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class InverseGamma(TransformedDistribution):
    """1 / x of a gamma variable."""

    arg_constraints = {"concentration": positive, "rate": positive}
    support = positive
    concentration, rate = of_base("concentration"), of_base("rate")

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Gamma(concentration, rate, validate_args), PowerTransform(-1.0), validate_args)

    mode = property(lambda self: self.rate / (self.concentration + 1), doc="The most likely value.")

    @property
    def mean(self) -> Tensor:
        """The mean; infinite where concentration is at most 1."""
        return where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def variance(self) -> Tensor:
        """The variance; infinite where concentration is at most 2."""
        a = self.concentration
        return where(a > 2, self.rate ** 2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * digamma(a)


class LogisticNormal(TransformedDistribution):
    """Probabilities that sticks broken at sigmoids of normal variables give: one more than the last dimension of `loc`."""

    arg_constraints = {"loc": real, "scale": positive}
    support = simplex
    loc, scale = (property(lambda self, name=name: getattr(self.base_dist.base_dist, name), doc=f"The normal variables' {name}.")
                  for name in ("loc", "scale"))

    def __init__(self, loc: Tensor, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), StickBreakingTransform(), validate_args)


class LogitRelaxedBernoulli(Binary):
    """The logits of RelaxedBernoulli."""

    support = real

    def __init__(self, temperature: Tensor | float, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        self.temperature = _like(temperature, self._given)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        probs = clamp_probs(self.probs.expand(self._extended_shape(sample_shape)))
        u = clamp_probs(probs.new_empty(probs.shape).uniform_())
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        difference = self.logits - self._validate_sample(value) * self.temperature
        return self.temperature.log() + difference - 2 * difference.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, the nearer to either the lower the temperature; draws have gradients."""

    has_rsample = True
    arg_constraints = {"probs": unit_interval, "logits": real}
    support = unit_interval
    temperature, probs, logits = of_base("temperature"), of_base("probs"), of_base("logits")

    def __init__(self, temperature: Tensor | float, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits, validate_args), SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(Distribution):
    """The logarithms of RelaxedOneHotCategorical."""

    has_rsample = True
    arg_constraints = {"probs": simplex, "logits": real_vector}
    support = real_vector
    _parts = ("_choice",)

    def __init__(self, temperature: Tensor | float, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        self._choice = Categorical(probs, logits, validate_args)
        self.temperature = _like(temperature, self._choice.logits)
        super().__init__(self._choice._batch_shape, (self._choice._num_events,), validate_args)

    probs = property(lambda self: self._choice.probs, doc="The probability of each choice.")
    logits = property(lambda self: self._choice.logits, doc="Its logarithm.")
    param_shape = property(lambda self: self._choice.param_shape, doc="The shape of the parameter.")

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        u = clamp_probs(self.logits.new_empty(self._extended_shape(sample_shape)).uniform_())
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - logsumexp(scores, -1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        count = self._choice._num_events
        score = self.logits - self._validate_sample(value) * self.temperature
        score = (score - logsumexp(score, -1, keepdim=True)).sum(-1)
        return score + math.lgamma(count) + (count - 1) * self.temperature.log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Probabilities of choices, the nearer to one-hot the lower the temperature; draws have gradients."""

    arg_constraints = {"probs": simplex, "logits": real_vector}
    support = simplex
    temperature, probs, logits = of_base("temperature"), of_base("probs"), of_base("logits")

    def __init__(self, temperature: Tensor | float, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args), ExpTransform(), validate_args)


def _like(value, tensor):
    return value if isinstance(value, core.TensorBase) else tensor.new_full((), value)


class ContinuousBernoulli(Binary):
    """Numbers between 0 and 1 with the density probs ** x * (1 - probs) ** (1 - x), normalised. Between `lims`, series are used.

    Source: Loaiza-Ganem and Cunningham, "The continuous Bernoulli", 2019.
    """

    has_rsample = True
    support = unit_interval

    def __init__(self, probs: Tensor | float | None = None, logits: Tensor | float | None = None,
                 lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        self._lims = lims
        p = self.probs if logits is None else clamp_probs(self.probs)
        self._p = clamp_probs(p)
        self._stable = (p <= lims[0]) | (p > lims[1])
        self._cut = where(self._stable, self._p, lims[0])

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> ContinuousBernoulli:
        new = super().expand(batch_shape, _instance)
        new._p, new._stable, new._cut = (t.expand(batch_shape) for t in (self._p, self._stable, self._cut))
        return new

    def _odds(self):
        return (-self._cut).log1p() - self._cut.log()

    def _cont_bern_log_norm(self):
        found = self._odds().abs().log() - (1 - 2 * self._cut).abs().log()
        x = (self._p - 0.5) ** 2
        return where(self._stable, found, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        x = self._p - 0.5
        return where(self._stable, self._cut / (2 * self._cut - 1) + 1 / self._odds(), 0.5 + (1 / 3 + 16 / 45 * x ** 2) * x)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        x, cut = (self._p - 0.5) ** 2, self._cut
        found = cut * (cut - 1) / (1 - 2 * cut) ** 2 + 1 / self._odds() ** 2
        return where(self._stable, found, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return self.icdf(self._p.new_empty(self._extended_shape(sample_shape)).uniform_())

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        return value * self.logits + logsigmoid(-self.logits) + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        value, cut = self._validate_sample(value), self._cut
        found = (cut ** value * (1 - cut) ** (1 - value) + cut - 1) / (2 * cut - 1)
        return where(value <= 0, 0.0, where(value >= 1, 1.0, where(self._stable, found, value)))

    def icdf(self, value: Tensor) -> Tensor:
        cut = self._cut
        found = ((-cut + value * (2 * cut - 1)).log1p() - (-cut).log1p()) / -self._odds()
        return where(self._stable, found, value)

    def entropy(self) -> Tensor:
        low, high = (-self._p).log1p(), self._p.log()
        return self.mean * (low - high) - self._cont_bern_log_norm() - low
