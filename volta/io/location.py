"""Where the tensors of a file go: `map_location` in PyTorch's forms. Knows no file."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from volta import gpu
from volta._kernels.core import Device
from volta.device import as_device
from volta.errors import ArgumentError, DeviceError, StateDictError

if TYPE_CHECKING:
    from volta.types import DeviceLike

    MapLocation: TypeAlias = DeviceLike | Mapping[str, str] | Callable[["LoadedStorage", str], "LoadedStorage | None"]


class LoadedStorage:
    """What a function given as `map_location` gets and gives: a storage of the file that goes to `device`."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def to(self, device: DeviceLike) -> LoadedStorage:
        """The same storage on another device."""
        return LoadedStorage(as_device(device))

    def cpu(self) -> LoadedStorage:
        """The same storage on the CPU."""
        return self.to("cpu")

    def cuda(self, device: DeviceLike = None) -> LoadedStorage:
        """The same storage on a GPU: the first, or that of a number or a name."""
        return self.to("gpu" if device is None else device)

    gpu = cuda


def placer(map_location: MapLocation) -> Callable[[str], Device]:
    """A function that gives the device for the place ("cpu", "cuda:0") that a file names for a storage."""
    if callable(map_location):
        def place(location):
            found = map_location(LoadedStorage(as_device("cpu")), location)
            if found is not None and not isinstance(found, LoadedStorage):
                raise ArgumentError(f"load: the function map_location must give the storage, moved or not, or None, got {found!r}")
            return _saved_place(location) if found is None else found.device
        return place
    if isinstance(map_location, Mapping):
        return lambda location: as_device(map_location[location]) if location in map_location else _saved_place(location)
    if map_location is None:
        return _saved_place
    device = as_device(map_location)
    return lambda location: device


def _saved_place(location: Any) -> Device:
    """The GPU for what PyTorch had on one, where there is one; else the default device."""
    if location.partition(":")[0] != "cuda" or not gpu.is_available():
        return as_device(None)
    try:
        return as_device(location)
    except DeviceError as error:
        raise StateDictError(f"load: a tensor was saved on {location[:40]!r}; give map_location ({error})") from None
