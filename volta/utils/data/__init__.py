"""volta.data under PyTorch's name."""
from volta.data import *  # noqa: F403 (as its __all__ says)
from volta.data import __all__ as __all__
from volta.utils.data import dataloader, dataset, distributed, sampler  # noqa: F401 (PyTorch's modules of these)
