"""GPU devices: which there are, what they did, how much memory they hold.

wgpu is imported on first use (adapters), never by `import volta.gpu`.
"""
from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from volta.errors import DeviceError

if TYPE_CHECKING:
    from volta.gpu.adapters import Device

__all__ = [
    "MemoryStats", "Stats", "begin_steps", "context", "devices", "empty_cache", "end_step", "forbid_transfers", "in_use", "is_available",
    "lasting", "memory_stats", "reset_peak", "set_memory_limit", "stats", "synchronize", "unavailable_reason",
]

_contexts: dict = {}
_lock = threading.RLock()
_limit: int | None = None


class Stats(NamedTuple):
    """Counters of all devices since the start; the difference of two is what happened between."""

    uploads: int = 0
    downloads: int = 0
    upload_bytes: int = 0
    download_bytes: int = 0
    dispatches: int = 0
    submits: int = 0
    buffers_created: int = 0
    bind_groups_created: int = 0
    pipelines_created: int = 0

    def __sub__(self, other: Stats) -> Stats:
        return Stats(*(a - b for a, b in zip(self, other)))

    def __add__(self, other: Stats) -> Stats:
        return Stats(*(a + b for a, b in zip(self, other)))


class MemoryStats(NamedTuple):
    """Device memory. Units: bytes."""

    live: int
    pooled: int
    peak: int


def _adapters():
    """The module that lists them, with the native calls: loaded when a GPU is first asked for, for `import volta` to be short."""
    from volta.gpu import adapters
    return adapters


def is_available() -> bool:
    """Whether a GPU can be used here."""
    return bool(_adapters().find()[0])


def unavailable_reason() -> str | None:
    """Why no GPU can be used and what to install; None where one can."""
    return _adapters().find()[1]


def devices() -> list[Device]:
    """The usable GPUs; `gpu:i` is the one with index i."""
    adapters = _adapters()
    return [adapters.describe(i, adapter) for i, adapter in enumerate(adapters.find()[0])]


def context(index: int = 0):
    """The runtime of GPU `index`, made on first use. Raises: DeviceError where there is no such GPU."""
    found = _contexts.get(index)
    return found if found is not None else _make_context(index)


def _make_context(index: int):
    from volta.gpu.runtime import Context  # with the shader compiler: of use with wgpu only
    usable, reason = _adapters().find()
    if not usable:
        raise DeviceError(f"gpu: none is usable: {reason}")
    if not 0 <= index < len(usable):
        raise DeviceError(f"gpu:{index} does not exist, there are {len(usable)} (gpu:0 to gpu:{len(usable) - 1})")
    with _lock:
        if index not in _contexts:
            made = Context(index, usable[index])
            if _limit is not None:
                made.set_memory_limit(_limit)
            _contexts[index] = made
        return _contexts[index]


def stats() -> Stats:
    """Counters of all devices since the start."""
    total = Stats()
    for c in list(_contexts.values()):
        total += Stats(c.transfers.uploads, c.transfers.downloads, c.transfers.upload_bytes, c.transfers.download_bytes,
                       c.batch.dispatches, c.batch.submits, c.pool.created, c.groups.created, c.pipelines_created)
    return total


def memory_stats(index: int | None = None) -> MemoryStats:
    """Memory of one GPU, or of all."""
    every = list(_contexts.values()) if index is None else [context(index)]
    sums = [sum(column) for column in zip(*(c.memory for c in every))] or [0] * 4
    return MemoryStats(*sums[:3])


def set_memory_limit(nbytes: int | None) -> None:
    """Let each GPU hold at most `nbytes` (live and pooled); None lifts the limit."""
    global _limit
    with _lock:
        for c in _contexts.values():
            c.set_memory_limit(nbytes)
        _limit = nbytes


def empty_cache() -> None:
    """Give pooled memory back to the devices."""
    for c in list(_contexts.values()):
        c.empty_cache()


def in_use() -> bool:
    """Whether a GPU has been opened."""
    return bool(_contexts)


def reset_peak(index: int | None = None) -> None:
    """Let the peak of the memory statistics begin at what is in use now, on one GPU or on all."""
    for c in list(_contexts.values()) if index is None else [context(index)]:
        c.pool.reset_peak()


def synchronize(index: int | None = None) -> None:
    """Wait until everything recorded has been done, on one GPU or on all."""
    for c in list(_contexts.values()) if index is None else [context(index)]:
        c.synchronize()


def begin_steps() -> None:
    """Say that training steps of a new kind begin here; a new optimizer does."""
    for c in list(_contexts.values()):
        c.pool.forget_steps()


def end_step() -> None:
    """Say that a training step ends here; optimizers do. The next step's tensors then get the same memory as this one's."""
    for c in list(_contexts.values()):
        c.pool.end_step()


@contextlib.contextmanager
def lasting():
    """Tensors that this thread makes inside outlive many training steps (an optimizer's state), or belong to none: they stay away from
    the memory of a step."""
    pools, thread = [c.pool for c in list(_contexts.values())], threading.get_ident()
    for pool in pools:
        pool.lasting.add(thread)
    try:
        yield
    finally:
        for pool in pools:
            pool.lasting.discard(thread)


@contextlib.contextmanager
def forbid_transfers():
    """Raise TransferError at every upload or download that this thread makes inside."""
    from volta._kernels.gpu.transfer import forbid
    forbid(1)
    try:
        yield
    finally:
        forbid(-1)


def _at_exit() -> None:
    # Let running work end while the driver is whole; afterwards nothing may reach the queue.
    for c in list(_contexts.values()):
        try:
            c.batch.drain()
        finally:
            c.batch.abandon("the interpreter is shutting down")


def _after_fork() -> None:
    # The child has the driver's memory but not its threads: any call may hang, releasing included.
    global _lock
    _lock = threading.RLock()
    module = sys.modules.get("volta.gpu.adapters")
    if module is None or not module.find.cache_info().currsize or not module.find()[0]:
        return
    module.protect_forked_child((module.find(), dict(_contexts)))
    for c in _contexts.values():
        c.batch.abandon("a GPU cannot be used in a forked process; start workers with the 'spawn' method, or keep them to the CPU")


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
