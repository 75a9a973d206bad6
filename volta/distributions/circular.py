"""The distribution of angles. Draws have no gradients.

Source: Best and Fisher, "Efficient simulation of the von Mises distribution", 1979; Abramowitz and Stegun, 9.8.1 to 9.8.4.
"""
from __future__ import annotations

import math

from volta.autograd import no_grad
from volta.distributions.constraints import positive, real
from volta.distributions.distribution import Distribution
from volta.distributions.utils import broadcast_all
from volta.ops.creation import empty
from volta.ops.math import where
from volta.special import i0e, i1e
from volta.tensor import Tensor

__all__ = ["VonMises"]

_PROPOSALS = 32                 # of which each is taken with a probability above 0.65


class VonMises(Distribution):
    """The normal distribution's kin on a circle: angles around `loc`, the nearer the larger `concentration`."""

    arg_constraints = {"loc": real, "concentration": positive}

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    mean = mode = property(lambda self: self.loc, doc="The mean direction.")
    variance = property(lambda self: 1 - i1e(self.concentration) / i0e(self.concentration), doc="1 less the mean cosine.")

    def log_prob(self, value: Tensor) -> Tensor:
        turned = (self._validate_sample(value) - self.loc).cos() - 1
        return self.concentration * turned - math.log(2 * math.pi) - i0e(self.concentration).log()

    def sample(self, sample_shape: tuple[int, ...] = ()) -> Tensor:
        with no_grad():
            shape, kappa = self._extended_shape(sample_shape), self.concentration
            tau = 1 + (1 + 4 * kappa ** 2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            width = where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho ** 2) / (2 * rho))
            u = empty((3, _PROPOSALS, *shape), dtype=self.loc.dtype, device=self.loc.device).uniform_(2.0 ** -25, 1)
            z = (math.pi * u[0]).cos()
            f = (1 + width * z) / (width + z)
            c = kappa * (width - f)
            taken = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
            angle = (u[2] - 0.5).sign() * f.clamp(-1, 1).acos()
            chosen = angle.gather(0, taken.long().argmax(0, keepdim=True)).squeeze(0)
            return (chosen + math.pi + self.loc) % (2 * math.pi) - math.pi
