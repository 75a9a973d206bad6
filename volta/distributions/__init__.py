"""Probability distributions under the names of torch.distributions: draws on any device, log-probabilities, entropies, divergences."""
from volta.distributions import constraints, continuous, discrete, gamma, joint, kl, transforms
from volta.distributions.continuous import *  # noqa: F403 (as its __all__ says)
from volta.distributions.discrete import *  # noqa: F403 (as its __all__ says)
from volta.distributions.distribution import Distribution
from volta.distributions.gamma import *  # noqa: F403 (as its __all__ says)
from volta.distributions.joint import *  # noqa: F403 (as its __all__ says)
from volta.distributions.kl import *  # noqa: F403 (as its __all__ says)
from volta.distributions.transforms import *  # noqa: F403 (as its __all__ says)

__all__ = ["Distribution", "constraints", "transforms"]
__all__ += continuous.__all__
__all__ += discrete.__all__
__all__ += gamma.__all__
__all__ += joint.__all__
__all__ += kl.__all__
__all__ += transforms.__all__
