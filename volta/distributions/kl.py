"""Divergences between distributions, by pairs of classes."""
from __future__ import annotations

import math
from collections.abc import Callable

from volta.distributions.continuous import EULER, Cauchy, Exponential, Gumbel, HalfNormal, Laplace, LogNormal, Normal, Uniform
from volta.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from volta.distributions.distribution import Distribution
from volta.distributions.joint import Independent, MultivariateNormal
from volta.errors import ArgumentError
from volta.linalg import solve_triangular
from volta.ops.math import where
from volta.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]

_TABLE: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable:
    """Decorator: the function computes the divergence of a `type_p` from a `type_q`."""
    def enter(function):
        _TABLE[type_p, type_q] = function
        return function
    return enter


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Kullback and Leibler's divergence of `p` from `q`. Units: nats. Shape: batch_shape.

    Raises: NotImplementedError for a pair of classes without a formula.
    """
    for type_p in type(p).__mro__:
        for type_q in type(q).__mro__:
            if (type_p, type_q) in _TABLE:
                return _TABLE[type_p, type_q](p, q)
    raise NotImplementedError(f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}; enter one by register_kl")


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(Normal, LogNormal)
@register_kl(LogNormal, Normal)
def _mixed(p, q):
    raise NotImplementedError("kl_divergence: there is no formula for Normal and LogNormal")


_TABLE[LogNormal, LogNormal] = _normal


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    return (((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) / (4 * p.scale * q.scale)).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return distance - ratio.log() + ratio * EULER + ((1 + ratio).lgamma() - distance).exp() - (1 + EULER)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p._normal, q._normal)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    return where((q.low > p.low) | (q.high < p.high), math.inf, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    softplus = (-q.logits).exp().log1p() - (-p.logits).exp().log1p()
    return softplus + (1 - p.probs) * (q.logits - p.logits)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p, q):
    t = where(q.probs == 0, math.inf, p.probs * (p.logits - q.logits))
    return where(p.probs == 0, 0.0, t).sum(-1)


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
