"""Probability distributions under the names of torch.distributions: draws on any device, log-probabilities, entropies, divergences."""
from volta.distributions import continuous, discrete, joint, kl
from volta.distributions.continuous import *  # noqa: F403 (as its __all__ says)
from volta.distributions.discrete import *  # noqa: F403 (as its __all__ says)
from volta.distributions.distribution import Distribution
from volta.distributions.joint import *  # noqa: F403 (as its __all__ says)
from volta.distributions.kl import *  # noqa: F403 (as its __all__ says)

__all__ = ["Distribution"]
__all__ += continuous.__all__
__all__ += discrete.__all__
__all__ += joint.__all__
__all__ += kl.__all__
