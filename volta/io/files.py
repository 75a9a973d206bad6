"""Files as a whole: paths, what is in a file or a file object, and writes that appear whole or not at all. Knows no format."""
from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from volta.errors import ArgumentError

try:
    import fcntl
except ImportError:             # Windows
    fcntl = None


class Contents(NamedTuple):
    """The bytes of a file, its name for messages, and whether tensors may keep and change these bytes."""
    name: str
    memory: bytes | mmap.mmap
    shared: bool


def contents(f: str | os.PathLike[str] | IO[bytes], keep_mapped: bool) -> Contents:
    """What is in a file, mapped, or in a file object from where it stands to its end.

    Raises: FileNotFoundError, IsADirectoryError; ArgumentError for what is no file, or is to be mapped and has no path.
    """
    if hasattr(f, "read"):
        data = f.read()
        if keep_mapped or not isinstance(data, bytes):
            raise ArgumentError("load: mmap=True needs a path" if keep_mapped else
                                f"load: a file object must be opened for reading bytes (mode 'rb'), this one gives {type(data).__name__}")
        return Contents("the file object", data, False)
    path = as_path("load", f)
    if not path.exists():
        raise FileNotFoundError(f"load: there is no file {str(path)!r}")
    with open(path, "rb") as file:
        empty = not os.fstat(file.fileno()).st_size         # which cannot be mapped
        return Contents(repr(str(path)), b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), keep_mapped)


def as_path(op: str, path: str | os.PathLike[str]) -> Path:
    """The file itself, not a link to it. Raises: ArgumentError, IsADirectoryError."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"{op}: needs a path or a file object, got {type(path).__name__}")
    path = Path(os.path.realpath(os.fsdecode(path)))        # an atomic rename would put a file in the place of a link
    if path.is_dir():
        raise IsADirectoryError(f"{op}: {str(path)!r} is a directory; give the name of a file")
    if path.exists() and not path.is_file():
        raise ArgumentError(f"{op}: {str(path)!r} is a device, a pipe or a socket; give the name of a file")
    return path


def write(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Whole file or none: a temporary one in the same folder is filled, flushed to the disk and renamed."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: there is no folder {str(path.parent)!r}")
    old = path.stat() if path.exists() else None
    if old is not None and not os.access(path, os.W_OK):
        raise PermissionError(f"save: {str(path)!r} is write-protected; change its mode, or save under another name")
    _remove_leftovers(path)
    temporary, handle = _create(path, 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o777)
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
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
