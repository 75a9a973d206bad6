"""volta.data under PyTorch's name."""
from volta.data import *  # noqa: F403 (as its __all__ says)
from volta.data import __all__ as __all__
from volta.late import modules_of as _modules_of

__path__: list[str] = []        # PyTorch's modules in it are found by name: volta.compat.deep

__getattr__ = _modules_of(__name__)
