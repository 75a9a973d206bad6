"""DataParallel and DistributedDataParallel: a model in the wrappers that PyTorch spreads work with. Here one process computes on one
device."""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from volta import distributed
from volta.errors import ArgumentError, DTypeError
from volta.nn.module import Module
from volta.types import DeviceLike

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls `module`, whose state is saved under "module.". A batch is not split: of several `device_ids` the first is used, with a
    warning, so results are those of PyTorch but for statistics of batches."""

    def __init__(self, module: Module, device_ids: Sequence[DeviceLike] | None = None, output_device: DeviceLike = None,
                 dim: int = 0) -> None:
        super().__init__()
        if not isinstance(module, Module) and device_ids:
            raise DTypeError(f"DataParallel: module must be a Module, got {type(module).__name__}")
        self.dim, self.module = dim, module
        self.device_ids = list(device_ids or [])
        self.output_device = output_device if output_device is not None or not self.device_ids else self.device_ids[0]
        if len(self.device_ids) > 1:
            warnings.warn(f"DataParallel: everything is computed on the first of the devices {self.device_ids}", stacklevel=2)
        if self.device_ids:
            module.to(device=self.device_ids[0])

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes, on `output_device` where one is given."""
        out = self.module(*inputs, **kwargs)
        return out.to(self.output_device) if self.output_device is not None and hasattr(out, "to") else out


def data_parallel(module: Module, inputs: Any, device_ids: Sequence[DeviceLike] | None = None, output_device: DeviceLike = None,
                  dim: int = 0, module_kwargs: dict[str, Any] | None = None) -> Any:
    """`module` called with `inputs`, a tuple or one tensor, as DataParallel does."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Calls `module`, whose state is saved under "module.". In a group of one process, the only one that there is, gradients are its own:
    what says how they would be exchanged has no meaning.

    Raises: ArgumentError, a ValueError, without `distributed.init_process_group`.
    """

    def __init__(self, module: Module, device_ids: Sequence[DeviceLike] | None = None, output_device: DeviceLike = None, dim: int = 0,
                 broadcast_buffers: bool = True, process_group: Any = None, bucket_cap_mb: float | None = None,
                 find_unused_parameters: bool = False, check_reduction: bool = False, gradient_as_bucket_view: bool = False,
                 static_graph: bool = False) -> None:
        super().__init__()
        if not distributed.is_initialized():
            raise ArgumentError("DistributedDataParallel: there is no process group; call torch.distributed.init_process_group first")
        self.module, self.require_backward_grad_sync = module, True
        self.device_ids, self.output_device = list(device_ids or []) or None, output_device

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return self.module(*inputs, **kwargs)

    def no_sync(self) -> AbstractContextManager[None]:
        """Gradients are added up without an exchange, which there is not."""
        return nullcontext()
