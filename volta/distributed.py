"""The group of one process under the names of torch.distributed: what a training script asks for, and collectives over itself.

A script that is started by hand, or by torchrun with one process, runs as it lies. Groups of several processes are refused.
"""
from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Any

from volta.errors import ArgumentError, VoltaError

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["ReduceOp", "all_gather", "all_reduce", "barrier", "broadcast", "destroy_process_group", "get_backend", "get_rank",
           "get_world_size", "init_process_group", "is_available", "is_initialized", "is_torchelastic_launched", "reduce"]

_backend: str | None = None


class ReduceOp(Enum):
    """How tensors of several processes become one. Of one process, each gives its tensor."""
    SUM, AVG, PRODUCT, MIN, MAX = "sum", "avg", "product", "min", "max"


def is_available() -> bool:
    """False: there are no groups of several processes. Scripts and packages that ask leave theirs out."""
    return False


def is_initialized() -> bool:
    """Whether a group was made."""
    return _backend is not None


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(backend: str | None = None, init_method: str | None = None, timeout: Any = None, world_size: int = -1,
                       rank: int = -1, store: Any = None, group_name: str = "", pg_options: Any = None, device_id: Any = None) -> None:
    """Make the group of this process, whose size is `world_size` or that of the environment. With one process nothing is exchanged,
    so that the backend and its options have no meaning.

    Raises: VoltaError for several processes; ArgumentError where no size is known, or a group was made before.
    """
    global _backend
    if _backend is not None:
        raise ArgumentError("init_process_group: the group was made before")
    size = world_size if world_size > 0 else int(os.environ.get("WORLD_SIZE", "0"))
    if size < 1:
        raise ArgumentError("init_process_group: world_size is needed, as an argument or in the environment variable WORLD_SIZE")
    if size > 1:
        raise VoltaError(f"init_process_group: Volta trains in one process, got a group of {size}; start one process (WORLD_SIZE=1)")
    _backend = backend or "gloo"


def destroy_process_group(group: Any = None) -> None:
    """Forget the group."""
    global _backend
    _needed("destroy_process_group")
    _backend = None


def get_backend(group: Any = None) -> str:
    """The backend that was named. Raises: ArgumentError, a ValueError, without a group, as the functions below."""
    _needed("get_backend")
    return _backend or ""


def get_rank(group: Any = None) -> int:
    """0, the number of the only process."""
    _needed("get_rank")
    return 0


def get_world_size(group: Any = None) -> int:
    """1, the number of processes."""
    _needed("get_world_size")
    return 1


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> None:
    """Waits for nobody."""
    _needed("barrier", async_op)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> None:
    """Reduce over the processes: of one, the tensor stays what it is."""
    _needed("all_reduce", async_op)


def reduce(tensor: Tensor, dst: int = 0, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> None:
    """Reduce to the process `dst`: of one, the tensor stays what it is."""
    _needed("reduce", async_op)


def broadcast(tensor: Tensor, src: int = 0, group: Any = None, async_op: bool = False) -> None:
    """Send from the process `src`: of one, the tensor stays what it is."""
    _needed("broadcast", async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> None:
    """Put every process's tensor into a list of as many."""
    _needed("all_gather", async_op)
    if len(tensor_list) != 1:
        raise ArgumentError(f"all_gather: needs a list of 1 tensor, one for each process, got {len(tensor_list)}")
    tensor_list[0].copy_(tensor)


def _needed(name, async_op=False):
    if _backend is None:
        raise ArgumentError(f"{name}: there is no process group; call init_process_group first")
    if async_op:
        raise ArgumentError(f"{name}: async_op=True has nothing to wait for in a group of one process; leave it out")
