"""The distributions of what transforms make of draws."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from volta.distributions import constraints
from volta.distributions.constraints import Constraint
from volta.distributions.distribution import Distribution
from volta.distributions.joint import Independent
from volta.distributions.transform import ComposeTransform, Transform, widened
from volta.distributions.utils import _sum_rightmost
from volta.errors import ArgumentError, ShapeError
from volta.tensor import Tensor

__all__ = ["TransformedDistribution"]


def of_base(name: str) -> property:
    """An attribute that is the base's."""
    return property(lambda self: getattr(self.base_dist, name), doc=f"The base's {name}.")


class TransformedDistribution(Distribution):
    """The distribution of what transforms make, one after another, of draws of `base_distribution`."""

    def __init__(self, base_distribution: Distribution, transforms: Transform | Sequence[Transform],
                 validate_args: bool | None = None) -> None:
        if not isinstance(transforms, Transform) and not (isinstance(transforms, (list, tuple)) and all(
                isinstance(t, Transform) for t in transforms)):
            raise ArgumentError(f"TransformedDistribution: transforms must be a Transform or a list of them, got {transforms!r}")
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        whole, base = ComposeTransform(self.transforms), base_distribution
        takes, gives, own = whole.domain.event_dim, whole.codomain.event_dim, len(base._event_shape)
        given = base._batch_shape + base._event_shape
        if len(given) < takes:
            raise ShapeError(f"TransformedDistribution: the transforms take elements of {takes} dimensions, the base has shape {given}")
        made = tuple(whole.forward_shape(given))
        needed = tuple(whole.inverse_shape(made))
        if needed != given:
            base = base.expand(needed[:len(needed) - own])
        self.base_dist = Independent(base, takes - own) if takes > own else base
        split = len(made) - max(gives, own + gives - takes)
        super().__init__(made[:split], made[split:], validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample, doc="Whether draws have gradients.")

    @constraints.dependent_property
    def support(self) -> Constraint:
        """What draws fulfil."""
        return widened(self.transforms[-1].codomain, len(self._event_shape)) if self.transforms else self.base_dist.support

    def _made(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return self._made(self.base_dist.sample(sample_shape)).detach()

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        return self._made(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        y, total, dims = self._validate_sample(value), 0.0, len(self._event_shape)
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            total = total - _sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist._event_shape))

    def cdf(self, value: Tensor) -> Tensor:
        sign = 1
        for transform in reversed(self.transforms):
            value, sign = transform._inv_call(value), sign * transform.sign
        return sign * (self.base_dist.cdf(value) - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        sign = math.prod(transform.sign for transform in self.transforms)
        return self._made(self.base_dist.icdf(sign * (value - 0.5) + 0.5))

    def expand(self, batch_shape: tuple[int, ...], _instance: Any = None) -> TransformedDistribution:
        new = super().expand(batch_shape, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        new.base_dist = self.base_dist.expand(shape[:len(shape) - len(self.base_dist._event_shape)])
        return new
