"""Transforms element by element."""
from __future__ import annotations

import math

from volta.distributions.constraints import interval, nonnegative, positive, real, unit_interval
from volta.distributions.distribution import Distribution
from volta.distributions.transform import Transform, widened
from volta.distributions.utils import _sum_rightmost
from volta.dtypes import finfo
from volta.nn.functional import softplus
from volta.ops.creation import zeros
from volta.ops.view import broadcast_shapes
from volta.shapes import Size
from volta.tensor import Tensor

__all__ = ["AbsTransform", "AffineTransform", "CumulativeDistributionTransform", "ExpTransform", "PowerTransform", "SigmoidTransform",
           "SoftplusTransform", "TanhTransform"]


class ExpTransform(Transform):
    """exp(x)."""
    bijective, sign, codomain = True, 1, positive

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
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim, doc="Dimensions of one element.")  # type: ignore[assignment]  # elsewhere a number
    domain = codomain = property(lambda self: widened(real, self._event_dim), doc="Numbers.")

    sign = property(lambda self: self.scale.sign() if isinstance(self.scale, Tensor) else math.copysign(1, self.scale), doc="Of scale.")

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        found = (zeros((), dtype=x.dtype, device=x.device) + self.scale).abs().log().expand(x.shape)
        return _sum_rightmost(found, self.event_dim)

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return Size(broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ())))

    inverse_shape = forward_shape


class PowerTransform(Transform):
    """x ** exponent of positive numbers."""
    bijective, domain, codomain = True, positive, positive

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    sign = property(lambda self: self.exponent.sign() if isinstance(self.exponent, Tensor) else math.copysign(1, self.exponent),
                    doc="Of the exponent.")

    def _call(self, x):
        return x ** self.exponent

    def _inverse(self, y):
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return Size(broadcast_shapes(shape, getattr(self.exponent, "shape", ())))

    inverse_shape = forward_shape


def _inside(y):                 # where the logarithms of y and 1 - y are finite
    limits = finfo(y.dtype)
    return y.clamp(limits.tiny, 1 - limits.eps)


def _clipped_sigmoid(x):
    return _inside(x.sigmoid())


class SigmoidTransform(Transform):
    """sigmoid(x)."""
    bijective, sign, codomain = True, 1, unit_interval

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        y = _inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class TanhTransform(Transform):
    """tanh(x)."""
    bijective, sign, codomain = True, 1, interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * (math.log(2) - x - softplus(-2 * x))


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""
    bijective, sign, codomain = True, 1, positive

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


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution."""

    bijective, sign, codomain = True, 1, unit_interval

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support, doc="The support of the distribution.")

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
