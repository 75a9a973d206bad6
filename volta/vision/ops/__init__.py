"""Layers of vision models, and boxes, under torchvision's names."""
from volta.vision.ops.boxes import *  # noqa: F403 (as its __all__ says)
from volta.vision.ops.boxes import __all__ as _boxes
from volta.vision.ops.layers import *  # noqa: F403 (as its __all__ says)
from volta.vision.ops.layers import __all__ as _layers
from volta.vision.ops.pyramid import *  # noqa: F403 (as its __all__ says)
from volta.vision.ops.pyramid import __all__ as _pyramid
from volta.vision.ops.regions import *  # noqa: F403 (as its __all__ says)
from volta.vision.ops.regions import __all__ as _regions

__all__ = _boxes + _layers + _pyramid + _regions
