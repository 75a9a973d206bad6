"""Layers, losses, initialisation and the functions behind them, under PyTorch's names. A layer is public by its module's `__all__`."""
# ruff: noqa: F403  (each module's __all__ says what)
from volta.late import modules_of as _modules_of
from volta.nn import (
    activation,
    adaptive,
    attention,
    container,
    conv,
    criteria,
    dropouts,
    functional,
    init,
    lazy,
    linear,
    lookup,
    loss,
    norm,
    padding,
    parallel,
    pool,
    recurrent,
    resample,
    utils,
)
from volta.nn.activation import *
from volta.nn.adaptive import *
from volta.nn.attention import *
from volta.nn.container import *
from volta.nn.conv import *
from volta.nn.criteria import *
from volta.nn.dropouts import *
from volta.nn.lazy import *
from volta.nn.linear import *
from volta.nn.lookup import *
from volta.nn.loss import *
from volta.nn.module import Module
from volta.nn.norm import *
from volta.nn.padding import *
from volta.nn.parallel import DataParallel
from volta.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from volta.nn.pool import *
from volta.nn.recurrent import *
from volta.nn.resample import *

__all__ = ["Buffer", "DataParallel", "Module", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional", "init",
           "parallel", "utils"]
__all__ += activation.__all__
__all__ += adaptive.__all__
__all__ += attention.__all__
__all__ += container.__all__
__all__ += conv.__all__
__all__ += criteria.__all__
__all__ += dropouts.__all__
__all__ += lazy.__all__
__all__ += linear.__all__
__all__ += lookup.__all__
__all__ += loss.__all__
__all__ += norm.__all__
__all__ += padding.__all__
__all__ += pool.__all__
__all__ += recurrent.__all__
__all__ += resample.__all__

__getattr__ = _modules_of(__name__)
