"""State on disk: safetensors files, written atomically. Knows dicts of tensors; never a module or an optimizer.

A flat dict of tensors (a module's state dict) becomes a plain safetensors file, which other frameworks read. Nested dicts and lists
(an optimizer's state, a whole checkpoint) are kept too: their structure and plain values go as JSON into the file's metadata, each
tensor under the path of its keys. Nothing in a file is ever executed.
"""
from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta.device import device as as_device
from volta.errors import ArgumentError, DTypeError, StateDictError
from volta.ops.creation import tensor

if TYPE_CHECKING:
    from volta.types import DeviceLike

_PLAIN = (str, int, float, bool, type(None))
_TENSOR, _PAIRS, _TUPLE = "$tensor", "$pairs", "$tuple"


def save(obj: Mapping, f: str | os.PathLike) -> None:
    """Write a state dict, or nested dicts and lists of tensors and plain values, as safetensors.

    The file appears whole or not at all: it is written beside its place and then renamed.

    Example:
        save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, "run.safetensors")

    Raises: ArgumentError for a value that is neither tensor, array, number, string, None, dict nor list.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save as encode
    if not isinstance(obj, Mapping):
        raise ArgumentError(f"save: needs a dict (such as model.state_dict()), got {type(obj).__name__}")
    tensors: dict[str, np.ndarray] = {}
    try:
        structure = _describe(obj, "", tensors)
    except RecursionError:
        raise ArgumentError("save: the object contains itself, or is nested too deeply") from None
    flat = len(tensors) == len(obj) and all(structure.get(key) == {_TENSOR: key} for key in obj)
    metadata = None if flat else {"volta.structure": json.dumps(structure)}
    path = _as_path("save", f)
    if "__metadata__" in tensors:
        raise ArgumentError("save: '__metadata__' is a reserved name in safetensors files; rename the key")
    try:
        data = encode(tensors, metadata)
    except (SafetensorError, UnicodeError) as error:
        raise ArgumentError(f"save: safetensors cannot hold this: {error}") from None
    _write(path, data)


def _as_path(op, path):
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"{op}: needs a path, got {type(path).__name__}")
    return Path(path)


def load(f: str | os.PathLike, map_location: DeviceLike = None, *, weights_only: bool = True) -> dict:
    """Read what `save` wrote, or any safetensors file, with the tensors on the device `map_location` (the CPU where not given).

    Raises: StateDictError for a file that is damaged, cut short or of another format; FileNotFoundError; ArgumentError for
    weights_only=False, since nothing but tensors and plain values is ever read.
    """
    from safetensors import SafetensorError, safe_open
    if not weights_only:
        raise ArgumentError("load: weights_only=False is not available: a file holds tensors and plain values, never objects")
    path, device = _as_path("load", f), as_device(map_location)
    if not path.is_file():
        raise FileNotFoundError(f"load: there is no file {str(path)!r}")
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}
        structure = json.loads(metadata["volta.structure"]) if "volta.structure" in metadata else None
    except (SafetensorError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StateDictError(f"load: {str(path)!r} is no whole safetensors file, or has a dtype that Volta lacks: "
                             f"{error}") from None
    try:
        tensors = {name: tensor(array, device=device) for name, array in arrays.items()}
    except DTypeError as error:
        raise StateDictError(f"load: {str(path)!r} has a dtype or a value that Volta lacks: {error}") from None
    if structure is None:
        return tensors
    try:
        if not isinstance(structure, dict):
            raise TypeError(f"a dict is needed, got {type(structure).__name__}")
        return _restore(structure, tensors)
    except KeyError as error:
        raise StateDictError(f"load: {str(path)!r} lacks the tensor {error} that its structure names") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise StateDictError(f"load: {str(path)!r} has a structure that Volta did not write: {error}") from None


def _describe(value, path, tensors):
    """JSON that stands for `value`; its tensors are put into `tensors` as host arrays."""
    if isinstance(value, (core.TensorBase, np.ndarray)):
        array = value.detach().cpu().numpy() if isinstance(value, core.TensorBase) else value
        if path in tensors:
            raise ArgumentError(f"save: two tensors have the name {path!r}; rename a key")
        tensors[path] = np.ascontiguousarray(array).reshape(array.shape)
        return {_TENSOR: path}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        entries = {key: _describe(entry, f"{path}.{key}" if path else str(key), tensors) for key, entry in value.items()}
        if all(isinstance(key, str) and key not in (_TENSOR, _PAIRS, _TUPLE) for key in entries):
            return entries
        if all(isinstance(key, (str, int)) for key in entries):
            return {_PAIRS: [[key, entry] for key, entry in entries.items()]}
        raise ArgumentError(f"save: the keys of {path or 'the dict'} must be strings or integers")
    if isinstance(value, (list, tuple)):
        entries = [_describe(entry, f"{path}.{i}" if path else str(i), tensors) for i, entry in enumerate(value)]
        return {_TUPLE: entries} if isinstance(value, tuple) else entries
    raise ArgumentError(f"save: {path or 'the object'} is {type(value).__name__}; needs tensors, numbers, strings, None, dicts "
                        f"and lists")


def _restore(value, tensors):
    """The inverse of `_describe`."""
    if isinstance(value, list):
        return [_restore(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        return tensors[value[_TENSOR]]
    if _PAIRS in value:
        return {key: _restore(entry, tensors) for key, entry in value[_PAIRS]}
    if _TUPLE in value:
        return tuple(_restore(entry, tensors) for entry in value[_TUPLE])
    return {key: _restore(entry, tensors) for key, entry in value.items()}


def _write(path, data):
    """Whole file or none: a temporary one in the same folder is flushed to the disk and renamed."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: there is no folder {str(path.parent)!r}")
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The permissions that new files lack (mkstemp gives none to others)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
