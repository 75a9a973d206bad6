"""Names of the package torch that scripts use and that are no operation: constants and settings."""
from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from volta import cuda, errors
from volta._kernels.core import TensorBase, default_device
from volta.compat import checked, cpu, version
from volta.compat.foreach import FOREACH
from volta.compat.futures import Future
from volta.compat.named_dtypes import NAMES
from volta.cuda import Event, Stream
from volta.device import as_device
from volta.errors import ArgumentError, DTypeError
from volta.jit import ScriptModule
from volta.layout import layout
from volta.ops.linalg import matmul
from volta.storage import UntypedStorage

__all__ = ["are_deterministic_algorithms_enabled", "compile", "e", "get_deterministic_debug_mode", "get_device_module",
           "get_float32_matmul_precision", "get_num_interop_threads", "inf", "is_deterministic_algorithms_warn_only_enabled", "is_storage",
           "is_warn_always_enabled", "nan", "newaxis", "pi", "set_deterministic_debug_mode", "set_float32_matmul_precision",
           "set_flush_denormal", "set_num_interop_threads", "set_warn_always", "typename", "use_deterministic_algorithms", "version"]

F = TypeVar("F", bound=Callable[..., Any])

inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
newaxis = None


def typename(obj: object) -> str:
    """PyTorch's name of the type of a tensor, such as "torch.FloatTensor"; of anything else the name of itself or of its type, behind that
    of its module."""
    if isinstance(obj, TensorBase):
        return obj.type()
    shown = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(shown, "__module__", None)
    return shown.__qualname__ if module in (None, "builtins") else f"{module}.{shown.__qualname__}"


def compile(model: F | None = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: str | None = None,
            mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None, disable: bool = False,
            recompile_limit: int | None = None, isolate_recompiles: bool = False, shapes_spec: Any = None) -> Any:
    """The function or module itself: Volta runs every operation by a kernel that is compiled already. The options choose compilers and
    what these may assume, none of which changes a result. Raises: ArgumentError for a backend of the program's own, which would not be
    called, and as PyTorch."""
    if backend is not None and not isinstance(backend, str):
        raise ArgumentError(f"compile: nothing is traced for a backend, backend={backend!r} would not be called; leave it out")
    if mode is not None and mode not in _MODES:
        raise ArgumentError(f"compile: mode must be one of {', '.join(_MODES)}, got {mode!r}")
    if mode is not None and options is not None:
        raise ArgumentError("compile: give mode or options, not both")
    if model is not None and not callable(model):
        raise ArgumentError(f"compile: needs a function or a module, got {type(model).__name__}")
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


def _need(name: str, what: str, value: object, kind: type = bool) -> Any:
    if not isinstance(value, kind) or kind is not bool and isinstance(value, bool):
        raise DTypeError(f"{name}: {what} must be of type {kind.__name__}, got {value!r}")
    return value


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Operations are deterministic at any setting, which is kept. Raises: DTypeError."""
    global _deterministic
    _need("use_deterministic_algorithms", "warn_only", warn_only)
    _deterministic = (1 if warn_only else 2) if _need("use_deterministic_algorithms", "mode", mode) else 0


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by number or word: 0 or "default", 1 or "warn", 2 or "error". Raises: ArgumentError, DTypeError."""
    global _deterministic
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise ArgumentError(f"set_deterministic_debug_mode: debug_mode must be one of {', '.join(_DEBUG_MODES)}, got {debug_mode!r}")
        debug_mode = _DEBUG_MODES.index(debug_mode)
    if _need("set_deterministic_debug_mode", "debug_mode", debug_mode, int) not in (0, 1, 2):
        raise ArgumentError(f"set_deterministic_debug_mode: debug_mode must be 0, 1 or 2, got {debug_mode}")
    _deterministic = debug_mode


def get_deterministic_debug_mode() -> int:
    """What was set, as a number."""
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether that was set to warn; there is nothing to warn of."""
    return _deterministic == 1


def are_deterministic_algorithms_enabled() -> bool:
    """Whether that was set."""
    return _deterministic > 0


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once in a process are given each time.

    Raises: DTypeError.
    """
    errors.told_again = _need("set_warn_always", "b", b)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` set."""
    return errors.told_again


def get_num_interop_threads() -> int:
    """1: operations run one after another."""
    return 1


def set_num_interop_threads(num: int) -> None:
    """Operations run one after another, each on `get_num_threads()` threads, at any number. Raises: ArgumentError, DTypeError."""
    if _need("set_num_interop_threads", "num", num, int) < 1:
        raise ArgumentError(f"set_num_interop_threads: needs a number above 0, got {num}")


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are computed with. Raises: DTypeError."""
    _need("set_flush_denormal", "mode", mode)
    return False


def get_device_module(device: Any = None) -> Any:
    """The module of a device: `volta.cuda` of a GPU, which has the names that both have; of the CPU the few that PyTorch has there."""
    return cuda if (default_device() if device is None else as_device(device)).is_gpu else cpu


def is_storage(obj: object) -> bool:
    """Whether `obj` is what `x.untyped_storage()` gives."""
    return isinstance(obj, UntypedStorage)


# What the name torch has beside Volta's names.
TORCH = {"__version__": version.__version__, "ScriptModule": ScriptModule, "Stream": Stream, "UntypedStorage": UntypedStorage,
         "Event": Event, "Future": Future, "layout": layout, "dsmm": matmul, **FOREACH, **NAMES, **checked.NAMES,
         **{each.name: each for each in layout},
         "__config__": SimpleNamespace(show=lambda: "Volta in place of PyTorch\n", parallel_info=lambda: "")}

_precision = "highest"
_deterministic = 0
_DEBUG_MODES = ("default", "warn", "error")
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
