"""Names of the package torch that scripts use and that are no operation: constants and settings."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from volta._kernels.core import TensorBase
from volta.amp import get_autocast_dtype, is_autocast_enabled
from volta.compat.foreach import FOREACH
from volta.compat.modules import VERSIONS
from volta.compat.named_dtypes import NAMES
from volta.cuda import Event, Stream
from volta.errors import ArgumentError
from volta.jit import ScriptModule
from volta.layout import layout
from volta.storage import UntypedStorage

__all__ = ["are_deterministic_algorithms_enabled", "compile", "e", "get_float32_matmul_precision", "get_num_interop_threads", "inf",
           "nan", "newaxis", "pi", "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads",
           "typename", "use_deterministic_algorithms", "version"]

F = TypeVar("F", bound=Callable[..., Any])

inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
newaxis = None


class version:
    """What scripts ask of torch.version: the release of PyTorch whose names are here, and that there is no CUDA."""
    __version__ = VERSIONS["torch"]
    cuda = hip = xpu = None
    debug = False


def typename(obj: object) -> str:
    """PyTorch's name of the type of a tensor, such as "torch.FloatTensor"; of anything else the name of itself or of its type, behind that
    of its module."""
    if isinstance(obj, TensorBase):
        return obj.type()
    shown = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(shown, "__module__", None)
    return shown.__qualname__ if module in (None, "builtins") else f"{module}.{shown.__qualname__}"


def compile(model: F | None = None, **options: Any) -> Any:
    """The function or module itself: Volta runs every operation by a kernel that is compiled already. The options choose compilers and
    have no meaning here."""
    return model if model is not None else lambda function: function


def set_float32_matmul_precision(precision: str) -> None:
    """Which precision products of float32 may have. They have that of float32 at any setting. Raises: ArgumentError."""
    global _precision
    if precision not in ("highest", "high", "medium"):
        raise ArgumentError(f"set_float32_matmul_precision: precision must be 'highest', 'high' or 'medium', got {precision!r}")
    _precision = precision


def get_float32_matmul_precision() -> str:
    """What was set."""
    return _precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Operations are deterministic at any setting."""
    global _deterministic
    _deterministic = bool(mode)


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """False: nothing needs a warning."""
    return False


def are_deterministic_algorithms_enabled() -> bool:
    """What was set."""
    return _deterministic


def get_num_interop_threads() -> int:
    """1: operations run one after another."""
    return 1


def set_num_interop_threads(num: int) -> None:
    """Operations run one after another, each on `get_num_threads()` threads, at any number."""


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are computed with."""
    return False


# What the name torch has beside Volta's names.
TORCH = {"__version__": version.__version__, "get_autocast_cpu_dtype": functools.partial(get_autocast_dtype, "cpu"),
         "is_autocast_cpu_enabled": functools.partial(is_autocast_enabled, "cpu"), "ScriptModule": ScriptModule, "Stream": Stream,
         "UntypedStorage": UntypedStorage,
         "Event": Event, "layout": layout,
         "is_deterministic_algorithms_warn_only_enabled": is_deterministic_algorithms_warn_only_enabled, **FOREACH, **NAMES,
         **{each.name: each for each in layout},
         "__config__": SimpleNamespace(show=lambda: "Volta in place of PyTorch\n", parallel_info=lambda: "")}

_precision = "highest"
_deterministic = False
