"""Devices by name, the rule for tensors on different devices, and the fallback where no GPU is usable."""
from __future__ import annotations

import copyreg
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from volta import gpu
from volta._kernels.core import CPU, Device, TensorBase, default_device
from volta._kernels.core import set_default_device as _set_default_device
from volta.errors import AbsentDeviceError, ArgumentError, CallError, DeviceError, GPUUnavailableWarning, MixedDeviceWarning

__all__ = ["Device", "as_device", "current_gpu", "device", "get_default_device", "mixed_devices", "named", "set_current_gpu",
           "set_default_device", "set_gpu_gaps", "set_mixed_device"]

GPU_WORDS = "'gpu', 'gpu:N', 'metal' or 'cuda' (the same as 'gpu')"
_ABSENT = ("hpu", "ipu", "mps", "mtia", "vulkan", "xla", "xpu")
_devices: dict[tuple[str, int | None], Device] = {}
_mixed = "warn"
_gaps = "error"
_current = 0                            # the GPU that is meant without a number
_warned_unavailable = False
_bind_gpu_kernels: Callable[[], None]


def configure(bind_gpu_kernels: Callable[[], None]) -> None:
    """Give the core what binds the GPU's kernels, called before the first GPU is handed out."""
    global _bind_gpu_kernels
    _bind_gpu_kernels = bind_gpu_kernels


META = type(CPU)("meta", 0)                # whose tensors have a shape and a dtype, and no data


class _Numbered(Device):
    """What "cpu:0" and "meta:1" name: as in PyTorch other than "cpu" and "meta", on which the tensors lie that are made there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"

    def __enter__(self) -> Device:
        return self.place().__enter__()

    def place(self) -> Device:
        """The device of tensors that are made here."""
        return META if self.is_meta else CPU


class _Absent(_Numbered):
    """A device of PyTorch's on which nothing lies here, such as "mps": programs compare others with it."""

    __slots__ = ("index", "type")

    def place(self) -> Device:
        raise AbsentDeviceError(f"device: there is no device {self.type!r} here; a GPU of any maker is {GPU_WORDS}")

    def __repr__(self) -> str:
        return f"device(type={self.type!r})" if self.index is None else super().__repr__()

    def __str__(self) -> str:
        return self.type if self.index is None else super().__str__()


def _absent(kind: str, index: int | None) -> Device:
    made = _Absent("cpu", 0)
    made.type, made.index = kind, index                 # type: ignore[misc, assignment]  # names, where C has none
    return _devices.setdefault((kind, index), made)


if TYPE_CHECKING:
    device = Device     # for type checkers they are one, so that `device: volta.device` fits what volta.device(...) and x.device are
else:
    class _Devices(type):
        """What makes `isinstance(x, volta.device)` hold for every device."""

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, Device)

    class device(metaclass=_Devices):
        """The device of a name: "cpu", "gpu", "gpu:1", "metal"; "cuda" is another name of "gpu"; tensors on "meta" have no data. "cpu:0" is
        a name of its own, of tensors whose device is "cpu". None is the default device, which is another one inside
        `with volta.device("gpu"):`.

        Raises: DeviceError for an unknown name or a GPU number that does not exist. Where no GPU is usable, "gpu" warns once
        and gives the CPU; with VOLTA_REQUIRE_GPU=1 in the environment it raises.
        """

        def __new__(cls, type: str | Device | int | None = None, index: int | None = None) -> Device:
            return named(type, index)


def as_device(name: str | Device | int | None = None) -> Device:
    """The device of tensors that are made on the one of this name."""
    if name is None:
        return default_device()
    found = name if isinstance(name, Device) else CPU if name == "cpu" else named(name)
    return found.place() if isinstance(found, _Numbered) else found


def named(name: str | Device | int | None, index: int | None = None) -> Device:
    """What `device(name, index)` gives."""
    if name is None:
        return default_device()
    if isinstance(name, Device):
        return name
    if index is not None and not (isinstance(index, int) and isinstance(name, str)):
        raise CallError(f"device: takes a name and an integer, got {name!r} and {index!r}")
    if isinstance(name, int) and not isinstance(name, bool):
        name, index = "gpu", name
    if index is not None and index < 0:
        raise DeviceError(f"device: an index is not negative, got {index}")
    if not isinstance(name, str):
        raise DeviceError(f"device: expected a name such as 'cpu' or 'gpu:1', got {name!r}")
    kind, colon, number = name.partition(":")
    if colon:
        if not number.isdigit() or len(number) > 1 and number[0] == "0":
            raise DeviceError(f"device: {name!r} has no valid number after the colon; write 'gpu:0'")
        if index is not None:
            raise DeviceError(f"device: {name!r} has a number of its own, got {index} beside it")
        index = int(number)
    if kind in ("cpu", "meta"):
        if index is None:
            return CPU if kind == "cpu" else META
        if index > 127:
            raise DeviceError(f"device: {kind} has no number {index}; the largest is 127")
        return _devices.setdefault((kind, index), _Numbered(kind, index))
    if kind in _ABSENT:
        return _absent(kind, index)
    index = _current if index is None else index
    if kind not in ("gpu", "cuda", "metal"):
        raise DeviceError(f"device: unknown device {name!r}; use 'cpu', {GPU_WORDS}, or 'meta'")
    return _gpu(kind, index)


def current_gpu() -> int:
    """Index of the GPU that a name without a number means."""
    return _current


def set_current_gpu(index: int) -> None:
    """Choose it. Raises: DeviceError for one that does not exist."""
    global _current
    gpu.context(index)
    _current = index


def _gpu(kind: str, index: int) -> Device:
    found = _devices.get((kind, index))
    if found is not None:
        return found
    if not gpu.is_available():
        return _no_gpu(gpu.unavailable_reason())
    present = gpu.devices()
    if not 0 <= index < len(present):
        raise DeviceError(f"device: gpu:{index} was asked for, but there are {len(present)} GPUs (gpu:0 to gpu:{len(present) - 1})")
    if kind == "metal" and present[index].backend.lower() != "metal":
        return _no_gpu(f"device 'metal' was asked for, but gpu:{index} runs on {present[index].backend}; use 'gpu'")
    _bind_gpu_kernels()
    made = _devices.setdefault(("gpu", index), Device("gpu", index))
    _devices[kind, index] = made
    return made


def _no_gpu(reason: str) -> Device:
    global _warned_unavailable
    text = f"no usable GPU: {reason}"
    if os.environ.get("VOLTA_REQUIRE_GPU") == "1":
        raise DeviceError(text + " (VOLTA_REQUIRE_GPU=1 forbids the fall-back to the CPU)")
    if not _warned_unavailable:
        _warned_unavailable = True
        warnings.warn(text + ". Continuing on the CPU.", GPUUnavailableWarning, stacklevel=4)
    return CPU


def get_default_device() -> Device:
    """The device of new tensors that none is given for, in this thread."""
    return default_device()


def set_default_device(device: str | Device | int | None) -> None:
    """Set the device of new tensors that none is given for, in this thread; None is the CPU.

    It holds for what makes tensors of nothing or of host data (`zeros`, `rand`, `tensor`, layers), not for what follows another tensor
    (`zeros_like`), nor for `from_numpy`.
    """
    _set_default_device(CPU if device is None else as_device(device))


for _class in (Device, type(CPU), _Numbered, _Absent):
    copyreg.pickle(_class, lambda place: (device, (str(place),)))


def set_mixed_device(mode: str) -> str:
    """What an op with tensors on different devices does: "warn" (run on the CPU) or "error". Gives the previous setting.

    Raises: ArgumentError for another mode.
    """
    global _mixed
    if mode not in ("warn", "error"):
        raise ArgumentError(f"set_mixed_device: mode must be 'warn' or 'error', got {mode!r}")
    previous, _mixed = _mixed, mode
    return previous


def set_gpu_gaps(mode: str) -> str:
    """What is done on a GPU of what it cannot do: "error", or "warn": float64 becomes float32, and inverses and decompositions of matrices
    are computed on the CPU and copied back, each with a warning. Gives the previous setting; scripts under `volta.compat` have "warn".

    Raises: ArgumentError for another mode.
    """
    global _gaps
    if mode not in ("warn", "error"):
        raise ArgumentError(f"set_gpu_gaps: mode must be 'warn' or 'error', got {mode!r}")
    previous, _gaps = _gaps, mode
    return previous


def beyond_gpu(error: Exception, instead: str) -> None:
    """Raise the error of what a GPU cannot do, or warn and say what is done instead."""
    if _gaps == "error":
        raise error
    warnings.warn(f"{error}. {instead}", MixedDeviceWarning, stacklevel=4)


def mixed_devices(op, inputs: tuple, params: dict | None):
    """Run `op` on the CPU for inputs on different devices, with a warning, or refuse: the device rule.

    With `params` None it only gives the inputs moved to the device of the first (an in-place op writes there).
    """
    on_gpu = {x.device for x in inputs if isinstance(x, TensorBase) and x.device.is_gpu}
    if len(on_gpu) == 1 and op.promotion and all(x.ndim == 0 or x.device.is_gpu for x in inputs if isinstance(x, TensorBase)):
        return _as_numbers(op, inputs, params, on_gpu.pop())
    places = ", ".join(f"{name} {x._shape} on {x.device}" for name, x in zip(op.names, inputs) if isinstance(x, TensorBase))
    text = f"{op.name}: the tensors are on different devices ({places}); move them to one with .to(device)"
    if _mixed == "error":
        raise DeviceError(text)
    target = CPU if params is not None else inputs[0].device
    warnings.warn(f"{text}. Ran on {'the CPU' if params is not None else target}.", MixedDeviceWarning, stacklevel=3)
    moved = tuple(x.to(target) if isinstance(x, TensorBase) else x for x in inputs)
    return moved if params is None else op(*moved, **params)


def _as_numbers(op, inputs, params, gpu_of_others):
    """As in PyTorch, CPU tensors without dimensions count as numbers beside tensors on a GPU; one that wants a gradient is copied there."""
    def moved(x):
        if not isinstance(x, TensorBase) or x.device.is_gpu:
            return x
        return x.to(gpu_of_others) if x.requires_grad or params is None and x is inputs[0] else x.item()
    inputs = tuple(map(moved, inputs))
    return inputs if params is None else op(*inputs, **params)
