"""Invertible functions with the logarithms of their derivatives, and the distributions of what they make of draws."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from volta.distributions.constraints import interval, nonnegative, positive, real, simplex, unit_interval
from volta.distributions.distribution import Constraint, Distribution
from volta.distributions.joint import Independent
from volta.errors import ArgumentError
from volta.nn.functional import softplus
from volta.ops.creation import zeros
from volta.tensor import Tensor

__all__ = ["AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "PowerTransform", "SigmoidTransform", "SoftmaxTransform",
           "SoftplusTransform", "TanhTransform", "Transform", "TransformedDistribution", "identity_transform"]


class Transform:
    """A function from `domain` to `codomain`. Subclasses define `_call`, and where it is `bijective` `_inverse` and
    `log_abs_det_jacobian`; `sign` is that of the derivative. With `cache_size=1` the last pair is kept, so that the inverse of what was
    just made is exact."""

    bijective = False
    sign: Any = 1
    domain: Constraint = real
    codomain: Constraint = real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ArgumentError(f"{type(self).__name__}: cache_size must be 0 or 1, got {cache_size}")
        self._cache_size, self._last = cache_size, (None, None)

    def __call__(self, x: Tensor) -> Tensor:
        if x is self._last[0]:
            return self._last[1]
        return self._kept(x, self._call(x))[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if y is self._last[1]:
            return self._last[0]
        return self._kept(self._inverse(y), y)[0]

    def _kept(self, x, y):
        if self._cache_size:
            self._last = x, y
        return x, y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: define _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the absolute derivative at `x`, where the value is `y`."""
        raise NotImplementedError(f"{type(self).__name__}: has no log_abs_det_jacobian")

    @property
    def inv(self) -> Transform:
        """The inverse."""
        return _Inverse(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Itself, with a cache of this size."""
        self._cache_size = cache_size
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    bijective = True

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._of, self.domain, self.codomain = transform, transform.codomain, transform.domain

    inv = property(lambda self: self._of, doc="What it is the inverse of.")
    sign = property(lambda self: self._of.sign, doc="The sign of the derivative.")

    def _call(self, x):
        return self._of._inv_call(x)

    def _inverse(self, y):
        return self._of(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._of.log_abs_det_jacobian(y, x)


class ExpTransform(Transform):
    """exp(x)."""
    bijective, codomain = True, positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class AffineTransform(Transform):
    """loc + scale * x, whose last `event_dim` dimensions are one event."""
    bijective = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        self.domain = self.codomain = Constraint("be numbers", lambda x: x == x, event_dim)

    sign = property(lambda self: self.scale.sign() if isinstance(self.scale, Tensor) else math.copysign(1, self.scale), doc="Of scale.")

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        found = (zeros((), dtype=x.dtype, device=x.device) + self.scale).abs().log().expand(x.shape)
        return found.flatten(-self.event_dim).sum(-1) if self.event_dim else found


class PowerTransform(Transform):
    """x ** exponent of positive numbers."""
    bijective, domain, codomain = True, positive, positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def _call(self, x):
        return x ** self.exponent

    def _inverse(self, y):
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(Transform):
    """sigmoid(x)."""
    bijective, codomain = True, unit_interval

    def _call(self, x):
        return x.sigmoid()

    def _inverse(self, y):
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """tanh(x)."""
    bijective, codomain = True, interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * (math.log(2) - x - softplus(-2 * x))


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""
    bijective, codomain = True, positive

    def _call(self, x):
        return softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class AbsTransform(Transform):
    """|x|, of which one inverse is x."""
    codomain = nonnegative

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class SoftmaxTransform(Transform):
    """softmax(x) of the last dimension; log(y) is one inverse."""
    domain, codomain = Constraint("be numbers", lambda x: (x == x).all(-1), 1), simplex

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()


class ComposeTransform(Transform):
    """One transform after another."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        if self.parts:
            dims = max(max(part.domain.event_dim, part.codomain.event_dim) for part in self.parts)
            self.domain = self.parts[0].domain._replace(event_dim=dims)
            self.codomain = self.parts[-1].codomain._replace(event_dim=dims)

    bijective = property(lambda self: all(part.bijective for part in self.parts), doc="Whether all are.")
    sign = property(lambda self: math.prod(part.sign for part in self.parts), doc="The product of theirs.")

    def _call(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y):
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total = zeros((), dtype=x.dtype, device=x.device)
        for part in self.parts:
            x, before = part(x), x
            total = total + _summed(part.log_abs_det_jacobian(before, x), self.domain.event_dim - part.domain.event_dim)
        return total if self.parts else total.expand(x.shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts})"


identity_transform = ComposeTransform([])


def _summed(x, dims):
    """Summed over the last dimensions."""
    return x.sum(tuple(range(-dims, 0))) if dims else x


class TransformedDistribution(Distribution):
    """The distribution of what transforms make, one after another, of draws of `base_distribution`."""

    def __init__(self, base_distribution: Distribution, transforms: Transform | Sequence[Transform],
                 validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        whole = ComposeTransform(self.transforms)
        extra = whole.domain.event_dim - len(base_distribution._event_shape)
        self.base_dist = Independent(base_distribution, extra) if extra > 0 else base_distribution
        super().__init__(self.base_dist._batch_shape, self.base_dist._event_shape, validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample, doc="Whether draws have gradients.")
    support = property(lambda self: self.transforms[-1].codomain if self.transforms else self.base_dist.support, doc="What draws fulfil.")

    def _made(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return self._made(self.base_dist.sample(sample_shape)).detach()

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return self._made(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        y, total, dims = self._validated(value), 0.0, len(self._event_shape)
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            total = total - _summed(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + _summed(base, dims - len(self.base_dist._event_shape))

    def cdf(self, value: Tensor) -> Tensor:
        sign = 1
        for transform in reversed(self.transforms):
            value, sign = transform._inv_call(value), sign * transform.sign
        return sign * (self.base_dist.cdf(value) - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        sign = math.prod(transform.sign for transform in self.transforms)
        return self._made(self.base_dist.icdf(sign * (value - 0.5) + 0.5))

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> TransformedDistribution:
        return TransformedDistribution(self.base_dist.expand(batch_shape), self.transforms, False)

    def __repr__(self) -> str:
        return f"TransformedDistribution({self.base_dist}, {self.transforms})"
