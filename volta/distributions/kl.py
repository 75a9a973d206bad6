"""Divergences between distributions, by pairs of classes."""
from __future__ import annotations

import math
from collections.abc import Callable

from volta.distributions.continuous import Cauchy, Exponential, Laplace, Normal, Uniform
from volta.distributions.counts import Binomial
from volta.distributions.derived import ContinuousBernoulli, Gumbel, HalfNormal
from volta.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from volta.distributions.distribution import Distribution
from volta.distributions.exp_family import ExponentialFamily
from volta.distributions.gamma import Beta, Dirichlet, Gamma
from volta.distributions.joint import Independent, MultivariateNormal
from volta.distributions.matrix import LowRankMultivariateNormal
from volta.distributions.tails import Pareto
from volta.distributions.transformed import TransformedDistribution
from volta.distributions.utils import euler_constant
from volta.errors import ArgumentError
from volta.linalg import solve_triangular
from volta.nn.functional import softplus
from volta.ops.creation import full_like
from volta.ops.math import where
from volta.ops.records.chain import fused
from volta.special import digamma
from volta.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable:
    """Decorator: the function computes the divergence of a `type_p` from a `type_q`."""
    def enter(function):
        _KL_REGISTRY[type_p, type_q] = function
        return function
    return enter


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Kullback and Leibler's divergence of `p` from `q`. Units: nats. Shape: batch_shape.

    Raises: NotImplementedError for a pair of classes without a formula.
    """
    for type_p in type(p).__mro__:
        for type_q in type(q).__mro__:
            if (type_p, type_q) in _KL_REGISTRY:
                return _KL_REGISTRY[type_p, type_q](p, q)
    raise NotImplementedError(f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}; enter one by register_kl")


@register_kl(Normal, Normal)
def _normal(p, q):
    return fused(_gaussian, p.loc, p.scale, q.loc, q.scale)


def _gaussian(loc, scale, other_loc, other_scale):
    ratio = (scale / other_scale) ** 2
    return 0.5 * (ratio + ((loc - other_loc) / other_scale) ** 2 - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    return fused(_double_exponential, p.loc, p.scale, q.loc, q.scale)


def _double_exponential(loc, scale, other_loc, other_scale):
    ratio, distance = scale / other_scale, (loc - other_loc).abs()
    return -ratio.log() + distance / other_scale + ratio * (-distance / scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    return fused(_ratio_of_normals, p.loc, p.scale, q.loc, q.scale)


def _ratio_of_normals(loc, scale, other_loc, other_scale):
    return (((scale + other_scale) ** 2 + (loc - other_loc) ** 2) / (4 * scale * other_scale)).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    return fused(_extreme, p.loc, p.scale, q.loc, q.scale)


def _extreme(loc, scale, other_loc, other_scale):
    ratio, distance = scale / other_scale, (loc - other_loc) / other_scale
    return distance - ratio.log() + ratio * euler_constant + ((1 + ratio).lgamma() - distance).exp() - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    return fused(_decay, p.rate, q.rate)


def _decay(rate, other):
    ratio = other / rate
    return ratio - ratio.log() - 1


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    return where((q.low > p.low) | (q.high < p.high), math.inf, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    return fused(_of_both, p.probs, p.logits, q.probs, q.logits)


def _of_both(p, p_logits, q, q_logits):
    return _of_one(p, p_logits, q, q_logits) + _of_one(1 - p, -p_logits, 1 - q, -q_logits)


def _of_one(p, p_logits, q, q_logits):
    return where(p == 0, 0.0, where(q == 0, math.inf, p * (softplus(-q_logits) - softplus(-p_logits))))


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return fused(_events, p.rate, q.rate)


def _events(rate, other):
    return rate * (rate.log() - other.log()) - (rate - other)


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p, q):
    if isinstance(p, OneHotCategorical) is not isinstance(q, OneHotCategorical):
        raise NotImplementedError(f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}")
    return fused(_of_each, p.probs, p.logits, q.probs, q.logits).sum(-1)


def _of_each(p, p_logits, q, q_logits):
    return where(p == 0, 0.0, where(q == 0, math.inf, p * (p_logits - q_logits)))


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p, q):
    size = p._event_shape[0]
    shape = (p.loc + q.loc).shape[:-1]
    factor = q.scale_tril.expand(*shape, size, size)
    spread = solve_triangular(factor, p.scale_tril.expand(*shape, size, size), upper=False)
    distance = solve_triangular(factor, (q.loc - p.loc).expand(*shape, size).unsqueeze(-1), upper=False)
    return q._half_log_det() - p._half_log_det() + 0.5 * ((spread ** 2).sum((-2, -1)) + (distance ** 2).sum((-2, -1)) - size)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise ArgumentError("kl_divergence: the two Independent have different reinterpreted_batch_ndims")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p._event_shape != q._event_shape or p.transforms != q.transforms:
        raise NotImplementedError(f"kl_divergence: {type(p).__name__} and {type(q).__name__} differ in their transforms, and there is a "
                                  "formula for equal ones alone; enter one by register_kl")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _families(p, q):
    if type(p) is not type(q):
        raise NotImplementedError(f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}")
    natural, normaliser, slopes = p._normalised()
    theirs = q._natural_params
    return q._log_normalizer(*theirs) - normaliser - sum(p._inner(b - a, g) for a, b, g in zip(natural, theirs, slopes))


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("kl_divergence: there is no formula for Binomials where q.total_count > p.total_count")
    same = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return where(p.total_count > q.total_count, math.inf, same)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    return q._normaliser() - p._normaliser() + ((a - b) * (digamma(a) - digamma(a.sum(-1, keepdim=True)))).sum(-1)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p, q):
    return q.rate - p.entropy() - p.probs * q.rate.log()


# Where two classes differ, a divergence is -(the entropy of p) - (the mean of q's log-density under p). That mean is of x, x ** 2,
# log(x), log(1 - x) or exp(x), and each class of p gives what it knows.

def _mean_log(p):
    """The mean of log(x)."""
    if isinstance(p, Beta):
        return digamma(p.concentration1) - digamma(p._total)
    if isinstance(p, Gamma):
        return digamma(p.concentration) - p.rate.log()
    if isinstance(p, Exponential):
        return -p.rate.log() - euler_constant
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low, high):
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


def _mean_exp(p, k):
    """The mean of exp(-x / k)."""
    if isinstance(p, Exponential):
        return p.rate * k / (p.rate * k + 1)
    if isinstance(p, Gamma):
        return (1 + 1 / (p.rate * k)) ** -p.concentration
    if isinstance(p, Normal):
        return (0.5 * (p.scale / k) ** 2 - p.loc / k).exp()
    return k / (p.high - p.low) * ((-p.low / k).exp() - (-p.high / k).exp())


def _for_all(type_q, *types_p):
    def enter(mean_log_density):
        for type_p in types_p:
            _KL_REGISTRY[type_p, type_q] = lambda p, q: _constant_infinity(-p.entropy() - mean_log_density(p, q))
        return mean_log_density
    return enter


def _constant_infinity(found):
    return where(found == math.inf, math.inf, found)


def _unless(outside, found):
    return where(outside, -math.inf, found)


@_for_all(Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform)
def _under_normal(p, q):
    return -0.5 * ((p.variance + (p.mean - q.loc) ** 2) / q.scale ** 2 + math.log(2 * math.pi)) - q.scale.log()


@_for_all(Exponential, Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)
def _under_exponential(p, q):
    found = q.rate.log() - q.rate * p.mean
    return _unless(p.low < 0, found) if isinstance(p, Uniform) else found


@_for_all(Gamma, Beta, Exponential, Gamma, Pareto, Uniform)
def _under_gamma(p, q):
    a, b = q.concentration, q.rate
    found = a * b.log() - a.lgamma() + (a - 1) * _mean_log(p) - b * p.mean
    return _unless(p.low < 0, found) if isinstance(p, Uniform) else found


@_for_all(Gumbel, Exponential, Gamma, Normal, Uniform)
def _under_gumbel(p, q):
    return -q.scale.log() - (p.mean - q.loc) / q.scale - (q.loc / q.scale).exp() * _mean_exp(p, q.scale)


@_for_all(Beta, Beta, Uniform)
def _under_beta(p, q):
    if isinstance(p, Beta):
        rest = digamma(p.concentration0) - digamma(p._total)
    else:
        rest = _mean_log_between(1 - p.high, 1 - p.low)
    found = (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * rest - q._normaliser()
    return _unless((p.low < 0) | (p.high > 1), found) if isinstance(p, Uniform) else found


@_for_all(ContinuousBernoulli, Beta, ContinuousBernoulli, Uniform)
def _under_continuous_bernoulli(p, q):
    found = p.mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()
    return _unless((p.low < 0) | (p.high > 1), found) if isinstance(p, Uniform) else found


@_for_all(Uniform, Beta, ContinuousBernoulli)
def _under_uniform(p, q):
    return _unless((q.low > 0) | (q.high < 1), -(q.high - q.low).log())


@_for_all(Pareto, Pareto, Uniform)
def _under_pareto(p, q):
    least = p.scale if isinstance(p, Pareto) else p.low
    return _unless(least < q.scale, q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p))


@_for_all(Laplace, Normal)
def _under_laplace(p, q):
    apart = (p.loc - q.loc) / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * apart ** 2).exp() + (p.loc - q.loc) * (apart * math.sqrt(0.5)).erf()
    return -(2 * q.scale).log() - distance / q.scale


def _infinite(p, q):                # p draws what q cannot
    return full_like(p.mean, math.inf)


_ON_THE_LINE = (Gumbel, Laplace, Normal)
for _q, _types in {
        Beta: (Exponential, Gamma, Pareto, *_ON_THE_LINE), ContinuousBernoulli: (Exponential, Gamma, Pareto, *_ON_THE_LINE),
        Uniform: (Exponential, Gamma, Pareto, *_ON_THE_LINE), Pareto: (Beta, ContinuousBernoulli, Exponential, Gamma, *_ON_THE_LINE),
        Exponential: _ON_THE_LINE, Gamma: _ON_THE_LINE, Bernoulli: (Poisson,), Binomial: (Poisson,)}.items():
    for _p in _types:
        _KL_REGISTRY[_p, _q] = _infinite
