"""The functions behind the layers, under PyTorch's names: the only home of functions of networks. Public by the modules' `__all__`."""
# ruff: noqa: F403  (each module's __all__ says what)
from volta.nn.functional import activation, conv, criteria, ctc, distribution, loss, norm, other, resample, windows
from volta.nn.functional.activation import *
from volta.nn.functional.conv import *
from volta.nn.functional.criteria import *
from volta.nn.functional.ctc import *
from volta.nn.functional.distribution import *
from volta.nn.functional.loss import *
from volta.nn.functional.norm import *
from volta.nn.functional.other import *
from volta.nn.functional.resample import *
from volta.nn.functional.windows import *
from volta.ops.distance import cosine_similarity, pairwise_distance, pdist
from volta.ops.join import pad

__all__ = ["cosine_similarity", "pad", "pairwise_distance", "pdist"]
__all__ += activation.__all__
__all__ += conv.__all__
__all__ += criteria.__all__
__all__ += ctc.__all__
__all__ += distribution.__all__
__all__ += loss.__all__
__all__ += norm.__all__
__all__ += other.__all__
__all__ += resample.__all__
__all__ += windows.__all__
