"""Files of datasets: what is in them, checked by hash, and downloads, which are made only when asked for."""
from __future__ import annotations

import hashlib
import io
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from volta.errors import ArgumentError, DatasetError

_HASHES = {32: "md5", 40: "sha1", 64: "sha256"}
_PIECE = 1 << 20


def read(path: str | os.PathLike[str], digest: str | None = None) -> bytes:
    """What is in a file. Raises: DatasetError where there is none, or its hash (the digits of an md5, sha1 or sha256) is another."""
    try:
        data = Path(path).read_bytes()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise DatasetError(f"{path}: there is no such file ({error.strerror})") from None
    if digest is not None and (found := _hash(digest, data).hexdigest()) != digest.lower():
        raise DatasetError(f"{path}: its {_hash(digest).name} is {found}, not {digest}; it is damaged, or another file")
    return data


def write(path: Path, fill: bytes | Callable[[IO[bytes]], Any]) -> None:
    """Write a file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(fill) if isinstance(fill, bytes) else fill(file)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def download(urls: str | Sequence[str], path: str | os.PathLike[str], digest: str) -> None:
    """The file with this hash (the digits of an md5, sha1 or sha256) from the first address that has it. A file that is there and has it
    stays.

    Raises: DatasetError with what went wrong at each address; then no file appears.
    """
    path = Path(path)
    if not path.is_file() or _of_file(path, digest) != digest.lower():
        _first([urls] if isinstance(urls, str) else urls, lambda url: write(path, lambda file: _fetch(url, file, digest)))


def fetch(urls: Sequence[str], digest: str) -> bytes:
    """What `download` would write. Raises: DatasetError as it does."""
    data = io.BytesIO()
    _first(urls, lambda url: _fetch(url, data, digest))
    return data.getvalue()


def _first(urls, take):
    failures = []
    for url in urls:
        try:
            return take(url)
        except (OSError, urllib.error.URLError, DatasetError) as error:
            failures.append(f"{url}: {error}")
    raise DatasetError("download: " + "; ".join(failures))


def _fetch(url, file, digest):
    hashed = _hash(digest)
    file.seek(0)
    file.truncate()
    with urllib.request.urlopen(url, timeout=60) as answer:
        while piece := answer.read(_PIECE):
            hashed.update(piece)
            file.write(piece)
    if hashed.hexdigest() != digest.lower():
        raise DatasetError(f"the file's {hashed.name} is not {digest}")


def _of_file(path, digest):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: _hash(digest)).hexdigest()


def _hash(digest, data=b""):
    if len(digest) not in _HASHES:
        raise ArgumentError(f"a hash has the digits of {', '.join(_HASHES.values())} ({', '.join(map(str, _HASHES))}), got {len(digest)}")
    return hashlib.new(_HASHES[len(digest)], data, usedforsecurity=False)
