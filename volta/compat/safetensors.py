"""safetensors.torch: its functions, which read and write Volta's tensors."""
from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from volta.errors import StateDictError
from volta.io import load as _load
from volta.io.files import as_path, write
from volta.io.safetensors_format import prepare

if TYPE_CHECKING:
    from volta.nn.module import Module
    from volta.tensor import Tensor
    from volta.types import DeviceLike

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model", "storage_ptr", "storage_size"]


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file."""
    file = io.BytesIO()
    prepare(tensors, metadata)(file)
    return file.getvalue()


def save_file(tensors: Mapping[str, Tensor], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Write a file."""
    write(as_path("save", filename), prepare(tensors, metadata))


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors in the bytes of a file."""
    return _load(io.BytesIO(data))


def load_file(filename: str | os.PathLike[str], device: DeviceLike = "cpu", *, backend: str = "mmap") -> dict[str, Tensor]:
    """The tensors of a file, on a device. It is mapped for the time of reading at any `backend`."""
    return _load(filename, map_location=device)


def _shared(state):
    """Names of tensors that are another one of the same module: their names there."""
    first, names = {}, {}
    for name, t in state.items():
        kept = first.setdefault((id(t.storage), t.offset, t.shape), name)
        if kept != name:
            names[name] = kept
    return names


def save_model(model: Module, filename: str, metadata: Mapping[str, str] | None = None, force_contiguous: bool = True) -> None:
    """Write a model's state; of tensors that are the same, one, and in the metadata the names of the others."""
    state = model.state_dict()
    shared = _shared(state)
    save_file({name: t for name, t in state.items() if name not in shared}, filename, {**(metadata or {}), **shared})


def load_model(model: Module, filename: str | os.PathLike[str], strict: bool = True, device: DeviceLike = "cpu", *,
               backend: str = "mmap") -> tuple[list[str], list[str]]:
    """Load a model's state; gives the names that the file lacks and that the model lacks.

    Raises: StateDictError where there are such, with `strict`; nothing has been loaded then.
    """
    state, own = load_file(filename, device), model.state_dict()
    groups = _shared(own)
    missing = [name for name in own if not any(groups.get(other, other) == groups.get(name, name) for other in state)]
    unexpected = [name for name in state if name not in own]
    if strict and (missing or unexpected):
        raise StateDictError(f"Error(s) in loading state_dict for {type(model).__name__}: missing keys {missing}, unexpected {unexpected}")
    model.load_state_dict(state, strict=False)
    return missing, unexpected


def storage_ptr(tensor: Tensor) -> int:
    """A number that tells memories apart."""
    return tensor.untyped_storage().data_ptr()


def storage_size(tensor: Tensor) -> int:
    """Units: bytes of the tensor's memory."""
    return tensor.untyped_storage().nbytes()
