"""State on disk: safetensors files, written atomically. Knows dicts of tensors; never a module or an optimizer.

A flat dict of tensors (a module's state dict) becomes a plain safetensors file, which other frameworks read. Nested dicts and lists
(an optimizer's state, a whole checkpoint) are kept too: their structure and plain values go as JSON into the file's metadata, each
tensor under the path of its keys. Nothing in a file is ever executed.
"""
from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as encode

from volta._kernels import core
from volta.device import as_device
from volta.errors import ArgumentError, DTypeError, StateDictError
from volta.ops.from_data import tensor

try:
    import fcntl
except ImportError:             # Windows
    fcntl = None

if TYPE_CHECKING:
    from volta.types import DeviceLike

__all__ = ["load", "save"]

_PLAIN = (str, int, float, bool, type(None))
_TENSOR, _PAIRS, _TUPLE = "$tensor", "$pairs", "$tuple"


def save(obj: Mapping[Any, Any], f: str | os.PathLike[str]) -> None:
    """Write a state dict, or nested dicts and lists of tensors and plain values, as safetensors.

    The file appears whole or not at all: it is written beside its place and then renamed. It has the mode of the file that it
    replaces, or the one that `open` gives to new files. A symbolic link stays one: the file that it names is replaced. What a
    killed save left beside a file is removed by the next save to it (not on Windows).

    Example:
        save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, "run.safetensors")

    Raises: ArgumentError for a value that is neither tensor, array, number, string, None, dict nor list, and for the path of a
    device; IsADirectoryError, FileNotFoundError (no such folder) and PermissionError (a write-protected file).
    """
    if not isinstance(obj, Mapping):
        raise ArgumentError(f"save: needs a dict (such as model.state_dict()), got {type(obj).__name__}")
    path = _as_path("save", f)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: there is no folder {str(path.parent)!r}")
    tensors: dict[str, np.ndarray] = {}
    try:
        structure = _describe(obj, "", tensors)
    except RecursionError:
        raise ArgumentError("save: the object contains itself, or is nested too deeply") from None
    flat = len(tensors) == len(obj) and all(structure.get(key) == {_TENSOR: key} for key in obj)
    metadata = None if flat else {"volta.structure": json.dumps(structure)}
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
    path = Path(os.path.realpath(os.fsdecode(path)))        # an atomic rename would put a file in the place of a link
    if path.is_dir():
        raise IsADirectoryError(f"{op}: {str(path)!r} is a directory; give the name of a file")
    if path.exists() and not path.is_file():
        raise ArgumentError(f"{op}: {str(path)!r} is a device, a pipe or a socket; give the name of a file")
    return path


def load(f: str | os.PathLike[str], map_location: DeviceLike = None, *, weights_only: bool = True) -> dict[Any, Any]:
    """Read what `save` wrote, or any safetensors file, with the tensors on the device `map_location` (the default device where not given).

    Raises: StateDictError for a file that is damaged, cut short or of another format; FileNotFoundError; ArgumentError for
    weights_only=False, since nothing but tensors and plain values is ever read.
    """
    if not weights_only:
        raise ArgumentError("load: weights_only=False is not available: a file holds tensors and plain values, never objects")
    path, device = _as_path("load", f), as_device(map_location)
    if not path.exists():
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
    old = path.stat() if path.exists() else None
    if old is not None and not os.access(path, os.W_OK):
        raise PermissionError(f"save: {str(path)!r} is write-protected; change its mode, or save under another name")
    _remove_leftovers(path)
    temporary, handle = _create(path, 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o777)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if old is not None:
                _copy_mode(temporary, old)
            if fcntl is not None:
                os.replace(temporary, path)         # while the lock is held
        if fcntl is None:
            os.replace(temporary, path)             # Windows does not rename open files
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _copy_mode(temporary, old):
    """Give a new file the owner, where that is allowed, and the mode of the one that it replaces."""
    new = temporary.stat()
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(OSError):
            os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, stat.S_IMODE(old.st_mode))


def _create(path, mode):
    """(path, handle) of a new temporary file beside `path`, with the permissions that `open` gives to new files but for those
    that `mode` lacks. It is locked, so that other savers see that its writer lives."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        temporary = path.with_name(f".{path.name[:40]}.volta-{os.getpid()}-{os.urandom(4).hex()}.tmp")
        with suppress(FileExistsError):
            handle = os.open(temporary, flags, mode)
            if _lock(handle) is not False and temporary.exists():
                return temporary, handle
            os.close(handle)            # another saver saw it before it was locked, and removes it


def _lock(handle):
    """True: nobody holds the file, it is now ours. False: its writer lives. None: this system has no such locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return None


def _remove_leftovers(path):
    """Remove the temporary files of savers of `path` that were killed: those that nobody holds."""
    pattern = re.compile(re.escape(f".{path.name[:40]}.volta-") + r"[0-9]+-[0-9a-f]{8}\.tmp")
    for name in filter(pattern.fullmatch, os.listdir(path.parent)):
        with suppress(OSError):
            handle = os.open(path.with_name(name), os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _lock(handle) is True:
                    path.with_name(name).unlink()
            finally:
                os.close(handle)
