"""torch._C: the few names of PyTorch's inner module that packages use."""
from __future__ import annotations

from types import SimpleNamespace

from volta import accelerator
from volta._kernels import core
from volta._kernels.core import Device
from volta.batching_rules import running
from volta.errors import LinAlgError
from volta.nn.module import parse_to
from volta.ops.taking_over import entered_modes
from volta.random import Generator
from volta.subclasses import as_tensors as DisableTorchFunctionSubclass
from volta.subclasses import takes_nothing_over as _disabled_torch_function_impl
from volta.tensor import Tensor

__all__ = ["DisableTorchFunctionSubclass", "Generator", "_disabled_torch_function_impl"]

_TensorMeta = type(Tensor)
_nn = SimpleNamespace(_parse_to=parse_to)
_LinAlgError = LinAlgError


def is_fake(x: object) -> bool:
    """False: no tensor stands for one that a compiler traces."""
    return False


def is_traceable_wrapper_subclass(t: object) -> bool:
    """False: no class of tensors is made of others for a compiler to look into."""
    return False


def get_proxy_mode() -> None:
    """None: no compiler traces."""


def _are_functorch_transforms_active() -> bool:
    """Whether a `vmap` runs, whose samples have no values to look at."""
    return bool(running())


def active_fake_mode() -> None:
    """None: shapes are found by tensors on the device 'meta', not in a mode."""


def _is_torch_function_mode_enabled() -> bool:
    """Whether the program is inside a `TorchFunctionMode`."""
    return bool(entered_modes())


def _is_alias_of(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors show the same memory."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _log_api_usage_once(event: str) -> None:
    """Counts nothing."""


def _get_accelerator(check: bool | None = None) -> Device:
    """The GPU, or the CPU where none is usable."""
    return accelerator.current_accelerator() or core.CPU


def _get_default_device() -> str:
    """The name of the default device."""
    return str(core.default_device())
