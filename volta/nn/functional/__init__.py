"""The functions behind the layers, under PyTorch's names: the only home of functions of networks. Public by the modules' `__all__`."""
import sys as _sys

from volta.ops.distance import cosine_similarity, pairwise_distance, pdist
from volta.ops.join import pad
from volta.ops.table import import_all as _import_all

__all__ = ["cosine_similarity", "pad", "pairwise_distance", "pdist"]
for _module in _import_all(_sys.modules[__name__]):
    __all__ += _module.__all__
    globals().update({_name: getattr(_module, _name) for _name in _module.__all__})
