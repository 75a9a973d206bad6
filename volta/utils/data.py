"""volta.data under PyTorch's name."""
from volta.data import *  # noqa: F403 (as its __all__ says)
from volta.data import __all__ as __all__

__path__: list[str] = []        # PyTorch's modules in it are found by name: volta.compat.deep
