"""What recorded calls keep for their derivatives, and other ways to keep it. Public as `volta.autograd.graph`."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from volta._kernels.core import hooks
from volta._kernels.core.graph import Node

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["Node", "save_on_cpu", "saved_tensors_hooks"]


class saved_tensors_hooks:
    """Inside a `with` block, calls keep `pack_hook(tensor)` in place of each tensor that their derivatives need, but for leaves, which live
    on anyway; `unpack_hook` makes it a tensor of the same values again when backward needs it. Of this thread only."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        hooks.push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc: object) -> None:
        hooks.pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Inside a `with` block, what is kept for backward lies in host memory: downloaded when recorded, uploaded when needed."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda x: (x.device, x.detach().cpu()) if x.device.is_gpu else x, lambda packed: packed[1].to(packed[0]))
