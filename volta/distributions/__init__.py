"""Probability distributions under the names of torch.distributions: draws on any device, log-probabilities, entropies, divergences."""
from volta.distributions import (
    circular,
    constraint_registry,
    constraints,
    continuous,
    counts,
    derived,
    discrete,
    gamma,
    joint,
    kl,
    matrix,
    tails,
    transformed,
    transforms,
    utils,
)
from volta.distributions.circular import *  # noqa: F403 (as its __all__ says)
from volta.distributions.constraint_registry import biject_to, transform_to
from volta.distributions.continuous import *  # noqa: F403 (as its __all__ says)
from volta.distributions.counts import *  # noqa: F403 (as its __all__ says)
from volta.distributions.derived import *  # noqa: F403 (as its __all__ says)
from volta.distributions.discrete import *  # noqa: F403 (as its __all__ says)
from volta.distributions.distribution import Distribution
from volta.distributions.exp_family import ExponentialFamily
from volta.distributions.gamma import *  # noqa: F403 (as its __all__ says)
from volta.distributions.joint import *  # noqa: F403 (as its __all__ says)
from volta.distributions.kl import *  # noqa: F403 (as its __all__ says)
from volta.distributions.matrix import *  # noqa: F403 (as its __all__ says)
from volta.distributions.tails import *  # noqa: F403 (as its __all__ says)
from volta.distributions.transformed import *  # noqa: F403 (as its __all__ says)
from volta.distributions.transforms import *  # noqa: F403 (as its __all__ says)
from volta.late import modules_of as _modules_of

__all__ = ["Distribution", "ExponentialFamily", "biject_to", "constraint_registry", "constraints", "kl",
           "transform_to", "transforms", "utils"]
__all__ += circular.__all__
__all__ += continuous.__all__
__all__ += counts.__all__
__all__ += derived.__all__
__all__ += discrete.__all__
__all__ += gamma.__all__
__all__ += joint.__all__
__all__ += kl.__all__
__all__ += matrix.__all__
__all__ += tails.__all__
__all__ += transformed.__all__
__all__ += transforms.__all__

__getattr__ = _modules_of(__name__)
