"""volta.data under PyTorch's name."""
from volta.data import *  # noqa: F403 (as its __all__ says)
from volta.data import __all__ as __all__
