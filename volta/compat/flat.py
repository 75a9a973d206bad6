"""torch._utils: many tensors as one vector, which packages send, sum or step as a whole, and back; modules of devices."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from volta import cuda
from volta._kernels.core import DType
from volta.compat import cpu
from volta.ops.join import cat
from volta.tensor import Tensor


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements in order as one vector; of a single tensor a view where its layout allows one."""
    return tensors[0].reshape(-1) if len(tensors) == 1 else cat([each.reshape(-1) for each in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of such a vector in the shapes of `tensors`."""
    return tuple(part.view(each.shape) for part, each in zip(flat.split([each.numel() for each in tensors]), tensors, strict=True))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """The tensors in groups of one dtype and device, a group ending where the next tensor would take it beyond `size_limit` bytes; those
    that were not full come last."""
    groups: dict[Any, list[Tensor]] = {}
    for x in tensors:
        kind = (x.dtype, x.device)
        if kind in groups and sum(each.nbytes for each in [*groups[kind], x]) > size_limit:
            yield groups.pop(kind)
        groups.setdefault(kind, []).append(x)
    yield from groups.values()


def _element_size(dtype: DType) -> int:
    """How many bytes an element takes."""
    return dtype.itemsize


def _get_available_device_type() -> str | None:
    """The name of the GPUs, where there is one."""
    return "cuda" if cuda.is_available() else None


def _get_device_module(device_type: str) -> ModuleType:
    """The module of the devices of a type. Raises: RuntimeError for another one."""
    if device_type not in ("cpu", "cuda"):
        raise RuntimeError(f"Device '{device_type}' does not have a corresponding module registered as 'torch.{device_type}'.")
    return cpu if device_type == "cpu" else cuda
