"""Python's multiprocessing under the names of torch.multiprocessing. Tensors that are sent are copied, but for those that are shared."""
from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403  (what it offers)
from typing import Any

from volta.errors import ArgumentError, VoltaError

__all__ = [*multiprocessing.__all__, "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn"]


def get_all_sharing_strategies() -> set[str]:
    """The names that PyTorch has for ways to share memory; there is one here, whichever is set."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """What was set."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Remember a strategy, which has no effect. Raises: ArgumentError for an unknown one."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise ArgumentError(f"set_sharing_strategy: needs one of {sorted(get_all_sharing_strategies())}, got {new_strategy!r}")
    _strategy = new_strategy


def spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
          start_method: str = "spawn") -> list[Any] | None:
    """Run `fn(i, *args)` in `nprocs` new processes. Gives the processes where they are not joined.

    Raises: VoltaError where a process that was joined failed.
    """
    context = multiprocessing.get_context(start_method)
    processes = [context.Process(target=fn, args=(i, *args), daemon=daemon) for i in range(nprocs)]
    for process in processes:
        process.start()
    if not join:
        return processes
    for process in processes:
        process.join()
    if failed := [i for i, process in enumerate(processes) if process.exitcode]:
        raise VoltaError(f"spawn: process {failed[0]} ended with status {processes[failed[0]].exitcode}; its error is printed above")
    return None


_strategy = "file_descriptor"
