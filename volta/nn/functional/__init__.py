"""The functions behind the layers, under PyTorch's names: the only home of functions of networks. Public by the modules' `__all__`."""
# ruff: noqa: F403  (each module's __all__ says what)
from volta.nn.functional import activation, conv, lookup, loss, norm, other
from volta.nn.functional.activation import *
from volta.nn.functional.conv import *
from volta.nn.functional.lookup import *
from volta.nn.functional.loss import *
from volta.nn.functional.norm import *
from volta.nn.functional.other import *
from volta.ops.checks import explain_all
from volta.ops.join import pad

__all__ = ["pad"]
__all__ += activation.__all__
__all__ += conv.__all__
__all__ += loss.__all__
__all__ += lookup.__all__
__all__ += norm.__all__
__all__ += other.__all__

explain_all(globals())
