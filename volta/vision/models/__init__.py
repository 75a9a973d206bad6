"""Networks of images under torchvision's names, modules and state-dict keys. Weights are a file of yours, or published ones."""
# ruff: noqa: F403  (each module's __all__ says what)
from importlib import import_module as _import_module

from volta.vision.models.alexnet import *
from volta.vision.models.convnext import *
from volta.vision.models.densenet import *
from volta.vision.models.efficientnet import *
from volta.vision.models.googlenet import *
from volta.vision.models.inception import *
from volta.vision.models.mobilenetv2 import *
from volta.vision.models.mobilenetv3 import *
from volta.vision.models.resnet import *
from volta.vision.models.shufflenetv2 import *
from volta.vision.models.squeezenet import *
from volta.vision.models.vgg import *
from volta.vision.models.vision_transformer import *
from volta.vision.models.weights import *
from volta.vision.models.weights import _WEIGHTS

_MODULES = ("alexnet", "convnext", "densenet", "efficientnet", "googlenet", "inception", "mobilenetv2", "mobilenetv3", "resnet",
            "shufflenetv2", "squeezenet", "vgg", "vision_transformer", "weights")
__all__ = [name for module in _MODULES for name in _import_module(f"{__name__}.{module}").__all__]
__all__ += _WEIGHTS                 # ResNet18_Weights and the like
globals().update(_WEIGHTS)

from volta.vision.models import detection, feature_extraction, segmentation  # noqa: E402 (whose names are not names of this package)

__all__ += ["detection", "feature_extraction", "segmentation"]
