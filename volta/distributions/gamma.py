"""Distributions made of gamma-distributed numbers. Draws have gradients by how the cdf changes with the concentration.

Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000: a proposal is taken with a probability above 0.95;
the gradients by the approximations that PyTorch uses (aten/src/ATen/native/Distributions.h).
"""
from __future__ import annotations

import math
from typing import Any

from volta.autograd import is_grad_enabled, no_grad
from volta.distributions.constraints import independent, nonnegative, positive, real, simplex, unit_interval
from volta.distributions.distribution import Distribution
from volta.distributions.utils import broadcast_all
from volta.errors import ShapeError
from volta.nn.functional import one_hot
from volta.ops.creation import empty
from volta.ops.join import stack
from volta.ops.math import where
from volta.ops.records.chain import fused
from volta.random import Generator
from volta.special import digamma, gammainc, xlog1py, xlogy
from volta.tensor import Tensor

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "StudentT"]

_PROPOSALS = 10                 # that all fail once in 10**13 draws


def _near_zero(x, alpha):
    """-d cdf / d alpha / density, by the series for small x."""
    term, plain, squared = 1.0, 1 / alpha, 1 / alpha ** 2
    for i in range(1, 6):
        term = term * -x / i
        plain, squared = plain + term / (alpha + i), squared + term / (alpha + i) ** 2
    return x * x.exp() * (squared - (x.log() - digamma(alpha)) * plain)


def _large(x, alpha):
    """The same for large concentrations, by Rice's saddle point."""
    near = (1 + 24 * alpha * (1 + 12 * alpha)) / (1244160 * alpha ** 4) * (
        1440 * alpha ** 2 + 6 * x * (53 - 120 * x) - 65 * x * x / alpha + alpha * (107 + 3600 * x))
    apart = where((x - alpha).abs() <= 0.1 * alpha, 2 * alpha, x)
    bend, root, distance = (apart / alpha).log(), (8 * alpha).sqrt(), alpha - apart
    power = (apart - alpha - alpha * bend) ** -1.5
    term = bend * (root / distance - power * distance.sign()) - (2 / alpha).sqrt() * (alpha + apart) / distance ** 2
    far = -(1 + (1 + 1 / (24 * alpha)) / (12 * alpha)) * apart * term / root
    return where(apart == x, far, near)


_BETWEEN = (((0.16009398, 0.53487893, 0.040121004), (-0.094634809, 0.1298071, -0.0065914022), (0.025146376, 0.065735949, -0.0026286047),
             (-0.0030648343, -0.0015649758, -0.0013441777)),
            ((1.0, 0.16639465, 0.017050642), (0.32668115, 0.020070113, -0.0021309326), (0.10406089, -0.0035938915, 0.00085092367),
             (0.0014179084, -0.00058392623, -1.5247877e-07)))


def _between(x, alpha):
    """The same elsewhere, by a rational function of log(x / alpha) and log(alpha)."""
    u, v = (x / alpha).log(), alpha.log()
    upper, lower = (sum((a + u * (b + u * c)) * v ** i for i, (a, b, c) in enumerate(rows)) for rows in _BETWEEN)
    return (upper / lower).exp()


def _slope(x, alpha):
    """d x / d alpha of a draw x of rate 1 at a fixed value of the cdf."""
    small = _near_zero(x.clamp(max=0.8), alpha)
    return where(x < 0.8, where(small.isnan(), 0.0, small), where(alpha > 8, _large(x, alpha), _between(x, alpha)))


def _gammas(concentration, shape, generator=None):
    """Draws of rate 1, with gradients."""
    concentration = concentration.expand(shape)
    differentiable = concentration.requires_grad and is_grad_enabled()
    with no_grad():
        drawn = _drawn(concentration, shape, generator)
        slope = fused(_slope, drawn, concentration) if differentiable else None
    return drawn if slope is None else drawn + (concentration - concentration.detach()) * slope


def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """For each concentration a draw of rate 1, with its gradient: what packages ask of PyTorch as `torch._standard_gamma`."""
    return _gammas(input, tuple(input.shape), generator)


def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Draws of Dirichlet distributions whose concentrations are along the last dimension; `torch._sample_dirichlet`."""
    drawn = _standard_gamma(input, generator)
    return drawn / drawn.sum(-1, keepdim=True)


def _drawn(alpha, shape, generator):
    """For a concentration below 1, of one more, times u ** (1 / concentration)."""
    d = fused(_size, alpha)
    noise = empty((2, _PROPOSALS, *shape), dtype=alpha.dtype, device=alpha.device)
    x, u = noise[0].normal_(generator=generator), noise[1].uniform_(generator=generator)
    v = fused(_proposed, x, d)
    first = fused(_taken, x, u, v, d).argmax(0, keepdim=True)
    boost = empty(shape, dtype=alpha.dtype, device=alpha.device).uniform_(generator=generator)
    return fused(_boosted, v.gather(0, first).squeeze(0), d, boost, alpha)


# Steps of drawing, logarithms of densities and entropies, elementwise as they are: `fused` computes each at once on a GPU.

def _size(alpha):
    return where(alpha < 1, alpha + 1, alpha) - 1 / 3


def _proposed(x, d):
    return (1 + x / (9 * d).sqrt()) ** 3


def _taken(x, u, v, d):
    return where((v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * v.clamp(min=1e-30).log()), 1.0, 0.0)


def _boosted(v, d, u, alpha):
    found = d * v
    return where(alpha < 1, found * u ** (1 / alpha), found).clamp(min=1e-30)


def _gamma(value, alpha, rate):
    return alpha * rate.log() + xlogy(alpha - 1, value) - rate * value - alpha.lgamma()


def _gamma_entropy(alpha, rate):
    return alpha - rate.log() + alpha.lgamma() + (1 - alpha) * digamma(alpha)


def _log_beta(a, b):
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


def _beta(value, a, b):
    return xlogy(a - 1, value) + xlog1py(b - 1, -value) - _log_beta(a, b)


def _beta_entropy(a, b):
    total = a + b
    return _log_beta(a, b) - (a - 1) * digamma(a) - (b - 1) * digamma(b) + (total - 2) * digamma(total)


def _fisher_snedecor(value, df1, df2):
    a, b, ratio = 0.5 * df1, 0.5 * df2, df1 / df2
    ways = (a + b).lgamma() - a.lgamma() - b.lgamma()
    return ways + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()


def _student(value, df, loc, scale):
    normaliser = scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi) + (0.5 * df).lgamma() - (0.5 * (df + 1)).lgamma()
    return -0.5 * (df + 1) * (((value - loc) / scale) ** 2 / df).log1p() - normaliser


def _student_entropy(df, scale):
    half, more = 0.5 * df, 0.5 * (df + 1)
    spread = 0.5 * df.log() + half.lgamma() + 0.5 * math.log(math.pi) - more.lgamma()
    return scale.log() + more * (digamma(more) - digamma(half)) + spread


class Gamma(Distribution):
    """The gamma distribution of a concentration and a rate."""

    has_rsample = True
    arg_constraints = {"concentration": positive, "rate": positive}
    support = nonnegative

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    mean = property(lambda self: self.concentration / self.rate, doc="The mean.")
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0), doc="The most likely value.")
    variance = property(lambda self: self.concentration / self.rate ** 2, doc="The variance.")

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return (_gammas(self.concentration, self._extended_shape(sample_shape)) / self.rate).clamp(min=1e-30)

    def log_prob(self, value: Tensor) -> Tensor:
        value = value if isinstance(value, Tensor) else self.rate.new_tensor(value)
        return fused(_gamma, self._validate_sample(value), self.concentration, self.rate)

    def cdf(self, value: Tensor) -> Tensor:
        return gammainc(self.concentration, self.rate * self._validate_sample(value))

    def entropy(self) -> Tensor:
        return fused(_gamma_entropy, self.concentration, self.rate)


class Chi2(Gamma):
    """The sum of `df` squares of normal numbers."""

    _nameless = True
    arg_constraints = {"df": positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        self.df, = broadcast_all(df)
        super().__init__(0.5 * self.df, 0.5, validate_args)

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> Chi2:
        new = super().expand(batch_shape, _instance)
        new.concentration, new.rate = self.concentration.expand(batch_shape), self.rate.expand(batch_shape)
        return new


class Dirichlet(Distribution):
    """The Dirichlet distribution of probabilities, by the last dimension of `concentration`."""

    has_rsample = True
    arg_constraints = {"concentration": independent(positive, 1)}
    support = simplex

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if not concentration.ndim:
            raise ShapeError("Dirichlet: concentration must have at least one dimension, got a 0-d tensor")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, keepdim=True), doc="The mean.")

    @property
    def mode(self) -> Tensor:
        """The likeliest probabilities; where no concentration is above 1, a corner."""
        above = (self.concentration - 1).clamp(min=0)
        found = above / above.sum(-1, keepdim=True)
        corner = one_hot(found.argmax(-1), self.concentration.shape[-1]).to(found.dtype)       # of NaN: the first, as in PyTorch
        return where((self.concentration < 1).all(-1, keepdim=True), corner, found)

    @property
    def variance(self) -> Tensor:
        """The variance of each probability."""
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total ** 2 * (total + 1))

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def _normaliser(self):
        return self.concentration.lgamma().sum(-1) - self.concentration.sum(-1).lgamma()

    def log_prob(self, value: Tensor) -> Tensor:
        return xlogy(self.concentration - 1, self._validate_sample(value)).sum(-1) - self._normaliser()

    def entropy(self) -> Tensor:
        alpha, total = self.concentration, self.concentration.sum(-1)
        return self._normaliser() + (total - alpha.shape[-1]) * digamma(total) - ((alpha - 1) * digamma(alpha)).sum(-1)


class Beta(Distribution):
    """The beta distribution of numbers between 0 and 1."""

    _nameless = True
    has_rsample = True
    arg_constraints = {"concentration1": positive, "concentration0": positive}
    support = unit_interval

    def __init__(self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    _total = property(lambda self: self.concentration1 + self.concentration0)
    mean = property(lambda self: self.concentration1 / self._total, doc="The mean.")
    mode = property(lambda self: Dirichlet(stack([self.concentration1, self.concentration0], -1), False).mode[..., 0],
                    doc="The most likely value.")
    variance = property(lambda self: self.mean * (1 - self.mean) / (self._total + 1), doc="The variance.")

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        both = stack([self.concentration1.expand(shape), self.concentration0.expand(shape)])
        a, b = _gammas(both, tuple(both.shape)).unbind()
        return a / (a + b)

    def _normaliser(self):
        return fused(_log_beta, self.concentration1, self.concentration0)

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_beta, self._validate_sample(value), self.concentration1, self.concentration0)

    def entropy(self) -> Tensor:
        return fused(_beta_entropy, self.concentration1, self.concentration0)


class FisherSnedecor(Distribution):
    """The ratio of two sums of squares of normal numbers, each divided by how many they are."""

    has_rsample = True
    arg_constraints = {"df1": positive, "df2": positive}
    support = positive

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, (), validate_args)

    mean = property(lambda self: where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan), doc="The mean; NaN where there is none.")

    @property
    def mode(self) -> Tensor:
        """The most likely value; NaN where df1 is at most 2."""
        return where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance; NaN where df2 is at most 4."""
        a, b = self.df1, self.df2
        return where(b > 4, 2 * b ** 2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4)), math.nan)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        upper, lower = (_gammas(0.5 * df, shape) / df for df in (self.df1, self.df2))
        return upper / lower

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_fisher_snedecor, self._validate_sample(value), self.df1, self.df2)


class StudentT(Distribution):
    """Student's t distribution of `df` degrees of freedom."""

    has_rsample = True
    arg_constraints = {"df": positive, "loc": real, "scale": positive}

    def __init__(self, df: Tensor | float, loc: Tensor | float = 0.0, scale: Tensor | float = 1.0,
                 validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    mean = property(lambda self: where(self.df > 1, self.loc, math.nan), doc="The mean; NaN where there is none.")
    mode = property(lambda self: self.loc, doc="The most likely value.")

    @property
    def variance(self) -> Tensor:
        """The variance; infinite or NaN where there is none."""
        df = where(self.df > 2, self.df, 3.0)           # elsewhere without gradients of what is not taken
        found = where(self.df > 2, self.scale ** 2 * df / (df - 2), math.inf)
        return where(self.df > 1, found, math.nan)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        chi2 = 2 * _gammas(0.5 * self.df, shape)
        noise = empty(shape, dtype=self.loc.dtype, device=self.loc.device).normal_()
        return self.loc + self.scale * noise * (chi2 / self.df).rsqrt()

    def entropy(self) -> Tensor:
        return fused(_student_entropy, self.df, self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        return fused(_student, self._validate_sample(value), self.df, self.loc, self.scale)
