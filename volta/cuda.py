"""GPUs under the names of torch.cuda, whoever made them: which there are, their memory, synchronisation, seeds, timing."""
from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

from volta import gpu, random
from volta._kernels.core import Device
from volta.amp import cuda as amp
from volta.device import as_device, current_gpu, set_current_gpu
from volta.errors import ArgumentError, DeviceError, OutOfMemoryError
from volta.random import initial_seed, manual_seed, seed
from volta.tensor import Tensor
from volta.typed import TYPES, Typed
from volta.types import DeviceLike

__all__ = [
    "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "Event", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor",
    "OutOfMemoryError", "ShortTensor", "Stream", "amp", "can_device_access_peer", "current_device", "current_stream", "default_stream",
    "device", "device_count", "device_of", "empty_cache", "get_arch_list", "get_device_capability", "get_device_name",
    "get_device_properties", "get_rng_state", "get_rng_state_all", "init", "initial_seed", "ipc_collect", "is_available",
    "is_bf16_supported", "is_current_stream_capturing", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_stats",
    "memory_summary", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats", "seed", "seed_all",
    "set_device", "set_rng_state", "set_rng_state_all", "stream", "synchronize"]

HalfTensor, FloatTensor, DoubleTensor, ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor, BoolTensor = (
    Typed(n, d, "gpu") for n, d in TYPES.items() if n != "BFloat16Tensor")
is_available, empty_cache = gpu.is_available, gpu.empty_cache
manual_seed_all, seed_all = manual_seed, seed           # one generator serves all devices


def device_count() -> int:
    """Number of usable GPUs."""
    return len(gpu.devices()) if gpu.is_available() else 0


def current_device() -> int:
    """Index of the GPU that "gpu" and "cuda" mean. Raises: DeviceError where there is none."""
    gpu.context(current_gpu())
    return current_gpu()


def _index(name: str, device: Device | str | int | None) -> int:
    """The index of a GPU. Raises: ArgumentError for the CPU, DeviceError for a GPU that does not exist."""
    if device is None:
        return current_gpu()
    found = as_device(device)
    if not found.is_gpu:
        raise ArgumentError(f"cuda.{name}: device must be a GPU, got {device!r}")
    return found.index


def set_device(device: Device | str | int) -> None:
    """Let "gpu" and "cuda" without a number mean this GPU. A negative number changes nothing."""
    if not (isinstance(device, int) and device < 0):
        set_current_gpu(_index("set_device", device))


class device:
    """Context manager: inside, "gpu" and "cuda" without a number mean this GPU. None or a negative number changes nothing."""

    def __init__(self, device: Device | str | int | None) -> None:
        self.idx = -1 if device is None or isinstance(device, int) and device < 0 else _index("device", device)

    def __enter__(self) -> None:
        self.previous = current_gpu()
        if self.idx >= 0:
            set_current_gpu(self.idx)

    def __exit__(self, *exception: object) -> None:
        if self.idx >= 0:
            set_current_gpu(self.previous)


def get_device_name(device: Device | str | int | None = None) -> str:
    """What the driver calls the GPU."""
    return gpu.devices()[_index("get_device_name", device)].name


def get_device_properties(device: Device | str | int | None = None) -> SimpleNamespace:
    """What is known of a GPU: `name`, `backend`, `driver`, `limits`. Its memory and processors are not told by WebGPU."""
    found = gpu.devices()[_index("get_device_properties", device)]
    return SimpleNamespace(name=found.name, backend=found.backend, driver=found.driver, limits=found.limits, major=0, minor=0)


def get_device_capability(device: Device | str | int | None = None) -> tuple[int, int]:
    """(0, 0): no GPU is programmed by CUDA's instruction sets here."""
    _index("get_device_capability", device)
    return 0, 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether tensors of bfloat16 can be on a GPU: they cannot."""
    return False


def synchronize(device: Device | str | int | None = None) -> None:
    """Wait until a GPU has done all that was asked of it; without a device, every GPU in use."""
    if gpu.is_available():
        gpu.synchronize(None if device is None else _index("synchronize", device))


def init() -> None:
    """Open the current GPU now instead of on first use. Raises: DeviceError where there is none."""
    gpu.context(current_gpu())


def is_initialized() -> bool:
    """Whether a GPU is in use."""
    return gpu.in_use()


def ipc_collect() -> None:
    """Does nothing: GPU memory is not shared between processes."""


def _memory(name, device):
    return gpu.memory_stats(_index(name, device)) if gpu.in_use() else gpu.MemoryStats(0, 0, 0)


def memory_allocated(device: Device | str | int | None = None) -> int:
    """Units: bytes in use by tensors on a GPU."""
    return _memory("memory_allocated", device).live


def max_memory_allocated(device: Device | str | int | None = None) -> int:
    """Units: bytes in use at the peak."""
    return _memory("max_memory_allocated", device).peak


def memory_reserved(device: Device | str | int | None = None) -> int:
    """Units: bytes in use and kept for reuse."""
    stats = _memory("memory_reserved", device)
    return stats.live + stats.pooled


def max_memory_reserved(device: Device | str | int | None = None) -> int:
    """Units: bytes in use and kept for reuse at the peak. What is kept shrinks only by `empty_cache`."""
    return max(memory_reserved(device), max_memory_allocated(device))


def memory_summary(device: Device | str | int | None = None, abbreviated: bool = False) -> str:
    """A text: what is in use, was at the peak, and is kept for reuse."""
    figures = {"in use": memory_allocated(device), "at the peak": max_memory_allocated(device), "reserved": memory_reserved(device)}
    lines = [f"{name:>12} {count / 2**20:10.1f} MiB" for name, count in figures.items()]
    return "\n".join([f"Memory of GPU {_index('memory_summary', device)}", *lines])


def reset_peak_memory_stats(device: Device | str | int | None = None) -> None:
    """Let the peak begin at what is in use now."""
    if gpu.in_use():
        gpu.reset_peak(_index("reset_peak_memory_stats", device))


def memory_stats(device: Device | str | int | None = None) -> dict[str, int]:
    """What is in use and reserved, now and at the peak, under PyTorch's names for all pools together. Units: bytes."""
    return {"allocated_bytes.all.current": memory_allocated(device), "allocated_bytes.all.peak": max_memory_allocated(device),
            "reserved_bytes.all.current": memory_reserved(device), "reserved_bytes.all.peak": max_memory_reserved(device)}


# Names of older releases.
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def mem_get_info(device: Device | str | int | None = None) -> tuple[int, int]:
    """Raises: DeviceError. WebGPU tells neither how much memory a GPU has nor how much is free."""
    raise DeviceError("cuda.mem_get_info: WebGPU does not tell how much memory a GPU has; memory_allocated() is what tensors use, and "
                      "volta.gpu.set_memory_limit() bounds it")


def get_arch_list() -> list[str]:
    """None: no GPU is programmed by CUDA's instruction sets here."""
    return []


def is_current_stream_capturing() -> bool:
    """False: there are no graphs of CUDA."""
    return False


def can_device_access_peer(device: Device | str | int, peer_device: Device | str | int) -> bool:
    """False: no GPU reads another's memory."""
    _index("can_device_access_peer", device), _index("can_device_access_peer", peer_device)
    return False


class device_of(device):
    """`device` of the GPU that holds a tensor; of one on the CPU, without effect."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.device.index if obj.device.is_gpu else None)


class Event:
    """A point in time on a GPU. `record` waits for what was asked before it, so that the times between events are true."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, *,
                 device: DeviceLike = None) -> None:
        if interprocess:
            raise ArgumentError("cuda.Event: interprocess events do not exist here")
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Note the time when all work so far is done. There is one queue per GPU, which every stream is."""
        synchronize()
        self._time = time.perf_counter()

    def synchronize(self, stream: Stream | None = None) -> None:
        """Does nothing more: `record` has waited."""

    wait = synchronize

    def query(self) -> bool:
        """Whether what was recorded is done: it is."""
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Units: milliseconds from this event to another. Raises: DeviceError where one was not recorded."""
        if self._time is None or end_event._time is None:
            raise DeviceError("cuda.Event.elapsed_time: record both events first")
        return (end_event._time - self._time) * 1e3


class Stream:
    """The order in which a GPU works. There is one per GPU: what is asked for later is done later, on whichever stream."""

    def __init__(self, device: Device | str | int | None = None, priority: int = 0, **options: Any) -> None:
        self.device = device

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing ends: work goes to the only stream, as everywhere."""

    def synchronize(self) -> None:
        """Wait until all work is done."""
        synchronize(self.device)

    def query(self) -> bool:
        """Wait, and say that all work is done."""
        self.synchronize()
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Does nothing: the order is kept anyway."""

    def wait_event(self, event: Event) -> None:
        """Does nothing: the order is kept anyway."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event, a new one if none is given."""
        event = event or Event()
        event.record()
        return event


def stream(stream: Stream | None) -> AbstractContextManager[None]:
    """A context in which work goes to the only stream, as everywhere."""
    return nullcontext()


def current_stream(device: Device | str | int | None = None) -> Stream:
    """The stream."""
    return Stream(device)


default_stream = current_stream


def get_rng_state(device: DeviceLike = "cuda") -> Tensor:
    """The state of the generator, which is one for all devices."""
    return random.get_rng_state()


def set_rng_state(new_state: Tensor, device: DeviceLike = "cuda") -> None:
    """Continue from what `get_rng_state` gave: one generator serves all devices."""
    random.set_rng_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The state of the generator, which is one for all devices, for each GPU."""
    return [get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Continue from what `get_rng_state_all` gave."""
    for state in new_states:
        set_rng_state(state)
