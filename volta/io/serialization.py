"""`save` and `load`: which format a file has or gets. Knows tensors and plain values."""
from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Literal

from volta.errors import ArgumentError, StateDictError
from volta.io import safetensors_format, torch_format, torch_writer
from volta.io.files import as_path, contents, write
from volta.io.location import placer
from volta.io.objects import resolve

if TYPE_CHECKING:
    from volta.io.location import MapLocation

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

DEFAULT_PROTOCOL = 2                        # of pickle, for packages that ask
MAP_LOCATION = Any                          # for annotations; type checkers know `volta.io.location.MapLocation`
_allowed: dict[type, None] = {}             # classes that files may name


def save(obj: Any, f: str | os.PathLike[str] | IO[bytes], pickle_module: Any = pickle, pickle_protocol: int = 2,
         _use_new_zipfile_serialization: bool = True, *, format: Literal["pt", "safetensors"] | None = None) -> None:
    """Write tensors, plain values, and dicts, lists, tuples and sets of them, as torch.save does; `torch.load` reads the file.

    A name that ends in ".safetensors" gives a file of that format: a plain one, which other frameworks read, for a flat dict of tensors;
    dicts with more than that, such as checkpoints, have their structure in the metadata. `format` chooses for other names and for
    file objects. Tensors that share memory share it in a .pt file. There, arrays stay arrays, and a whole Module or another object of a
    class that is found by its name is kept as the names of its classes and its attributes; in safetensors, arrays become tensors.

    A file appears whole or not at all: it is written beside its place and then renamed. It has the mode of the file that it
    replaces, or the one that `open` gives to new files. A symbolic link stays one: the file that it names is replaced. What a
    killed save left beside a file is removed by the next save to it (not on Windows). The pickle in a .pt file is of protocol 2 for any
    `pickle_protocol`: readers take all.

    Example:
        save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, "run.pt")

    Raises: ArgumentError for any other value, such as a function, and for the path of a device;
    IsADirectoryError, FileNotFoundError (no such folder) and PermissionError (a write-protected file).
    """
    _no_other_pickle("save", pickle_module)
    if not isinstance(pickle_protocol, int):
        raise ArgumentError(f"save: pickle_protocol must be a number, got {pickle_protocol!r}")
    if not _use_new_zipfile_serialization:
        raise ArgumentError("save: files are of the zip format that PyTorch writes since 1.6; leave _use_new_zipfile_serialization out")
    opened = hasattr(f, "write")
    path = None if opened else as_path("save", f)
    if format not in (None, "pt", "safetensors"):
        raise ArgumentError(f"save: format must be 'pt' or 'safetensors', got {format!r}")
    safe = format == "safetensors" or format is None and not opened and os.fsdecode(f).endswith(".safetensors")
    try:
        fill = (safetensors_format if safe else torch_writer).prepare(obj)
    except RecursionError:
        raise ArgumentError("save: the object contains itself, or is nested too deeply") from None
    if opened:
        fill(f)
    else:
        write(path, fill)


def _no_other_pickle(name, module):
    if module is not None and module is not pickle:
        raise ArgumentError(f"{name}: files are read and written without running what they hold, so pickle_module={module!r} would not be "
                            "used; leave it out")


def load(f: str | os.PathLike[str] | IO[bytes], map_location: MapLocation = None, pickle_module: Any = None, *,
         weights_only: bool | None = True, mmap: bool | None = None, encoding: str = "utf-8") -> Any:
    """Read a file of `save`, of torch.save or a safetensors file: the contents say which, not the name.

    Of a sharded checkpoint, give the path of its index (model.safetensors.index.json): all of its tensors are read, by name.

    `map_location` is where the tensors go: a device, a dict or a function of storage and place as in PyTorch; None is where they were
    saved, the default device for what names none. bfloat16 becomes float32 on a GPU. With `mmap` the tensors on
    the CPU are pages of the file, read when they are used and never written back. `encoding` concerns no file that is read here: it is
    PyTorch's for text of Python 2.

    Nothing in a file is ever executed. By default, what is no tensor, plain value, dict, list, tuple, set or array is refused. With
    weights_only=False, `save`'s Modules and objects are made again where their classes belong to Volta or to the program, that is to
    the script that runs or to a file in its folder; they get their attributes and no method of theirs runs. `safe_globals` allows
    further classes, and these without weights_only=False. Whole Modules that PyTorch saved are refused: save their state dict.

    Raises: StateDictError for a file that is damaged, cut short, of another format, or names a class that would have to be run;
    FileNotFoundError; ArgumentError.
    """
    _no_other_pickle("load", pickle_module)
    place, found = placer(map_location), contents(f, bool(mmap))
    start = bytes(found.memory[:16])
    if start.startswith((b"PK\3\4", torch_format.LEGACY)):
        allowed = frozenset(_allowed)
        return torch_format.read(found, place, lambda module, name: resolve(module, name, allowed, weights_only is False))
    if start.startswith(b"{") and not hasattr(f, "read"):
        return _sharded(found, as_path("load", f).parent, lambda path: safetensors_format.read(contents(path, bool(mmap)), place))
    return safetensors_format.read(found, place)


def add_safe_globals(safe_globals: Iterable[type]) -> None:
    """Let files name these classes: `load` makes objects of them again, without calling a method of theirs."""
    _allowed.update(dict.fromkeys(safe_globals))


def get_safe_globals() -> list[type]:
    """The classes that files may name."""
    return list(_allowed)


def clear_safe_globals() -> None:
    """Let files name no class."""
    _allowed.clear()


@contextmanager
def safe_globals(safe_globals: Iterable[type]) -> Iterator[None]:
    """Let files name these classes, inside the `with`."""
    before = dict(_allowed)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        clear_safe_globals()
        add_safe_globals(before)


def _sharded(index, folder, read):
    """The tensors that an index names, from the files beside it."""
    try:
        files = json.loads(bytes(index.memory))["weight_map"]
        shards = dict.fromkeys(files.values())
        if not all(isinstance(name, str) for name in shards):
            raise TypeError("weight_map must give names of files")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StateDictError(f"load: {index.name} is no index of a sharded checkpoint: {error}") from None
    for name in shards:
        if name in ("", ".", "..") or set(name) & {"/", "\\", "\0", ":"}:
            raise StateDictError(f"load: {index.name} names a file outside its folder: {name[:200]!r}")
        shards[name] = read(folder / name)
    if missing := [name for name, file in files.items() if name not in shards[file]]:
        raise StateDictError(f"load: {index.name} names the file {files[missing[0]]!r}, which lacks the tensor {missing[0]!r}")
    return {name: shards[file][name] for name, file in files.items()}
