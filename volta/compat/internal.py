"""torch._C: the few names of PyTorch's inner module that packages use."""
from __future__ import annotations

from volta._kernels import core
from volta.errors import LinAlgError
from volta.random import Generator
from volta.tensor import Tensor

__all__ = ["Generator"]

_TensorMeta = type(Tensor)
_LinAlgError = LinAlgError


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _log_api_usage_once(event: str) -> None:
    """Counts nothing."""


def _get_default_device() -> str:
    """The name of the default device."""
    return str(core.default_device())
