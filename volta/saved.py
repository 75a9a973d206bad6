"""What recorded calls keep for their derivatives, and other ways to keep it. Public as `volta.autograd.graph`."""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from volta._kernels.core import TensorBase, hooks
from volta._kernels.core.graph import Node
from volta.errors import AutogradError

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["Node", "disable_saved_tensors_hooks", "increment_version", "save_on_cpu", "saved_tensors_hooks"]


_disabled = threading.local()


class saved_tensors_hooks:
    """Inside a `with` block, calls keep `pack_hook(tensor)` in place of each tensor that their derivatives need, but for leaves, which live
    on anyway; `unpack_hook` makes it a tensor of the same values again when backward needs it. Of this thread only."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if getattr(_disabled, "message", None) is not None:
            raise AutogradError(_disabled.message)
        hooks.push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc: object) -> None:
        hooks.pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Inside a `with` block, what is kept for backward lies in host memory: downloaded when recorded, uploaded when needed."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda x: (x.device, x.detach().cpu()) if x.device.is_gpu else x, lambda packed: packed[1].to(packed[0]))


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside a `with` block, or a function decorated, `saved_tensors_hooks` raise an AutogradError of this text in this thread."""
    before, _disabled.message = getattr(_disabled, "message", None), error_message
    try:
        yield
    finally:
        _disabled.message = before


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a change that was made past Volta, as through `numpy()`: backward then refuses saved values from before it."""
    for t in [tensor] if isinstance(tensor, TensorBase) else tensor:
        t.storage.version += 1
