"""Files of weights that PyTorch's projects publish: downloaded once, when a program asks for them, and checked by their hash.

They are kept where PyTorch keeps them, so that what is there already is used. Code is never downloaded: there is no `load`.
"""
from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from volta.errors import DownloadError
from volta.io import load

if TYPE_CHECKING:
    from volta.io.location import MapLocation

__all__ = ["download_url_to_file", "get_dir", "load_state_dict_from_url", "load_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]+)\.")
_folder: str | None = None


def __getattr__(name: str) -> Any:
    """The progress bar that scripts take from here, where its package is installed."""
    if name == "tqdm":
        from tqdm import tqdm
        return tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_dir() -> str:
    """The folder of downloads: that of `set_dir`, else hub/ in $TORCH_HOME, $XDG_CACHE_HOME/torch or ~/.cache/torch."""
    return _folder or os.path.join(_get_torch_home(), "hub")


def _get_torch_home() -> str:
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache")), "torch")
    return os.path.expanduser(os.environ.get("TORCH_HOME", cache))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep downloads in this folder."""
    global _folder
    _folder = os.path.expanduser(d)


def download_url_to_file(url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file, which appears whole or not at all.

    Raises: DownloadError where it cannot be had, or its sha256 does not begin with `hash_prefix`.
    """
    dst = os.path.expanduser(dst)
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(dst)), suffix=".partial")
    try:
        digest = hashlib.sha256()
        with os.fdopen(handle, "wb") as file:
            for block in _blocks(url, progress):
                file.write(block)
                digest.update(block)
        if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
            raise DownloadError(f"download: the sha256 of {url} begins with {digest.hexdigest()[:len(hash_prefix)]}, not {hash_prefix}")
        os.replace(partial, dst)
    except BaseException:
        os.unlink(partial)
        raise


def _blocks(url: str, progress: bool) -> Iterator[bytes]:
    """The bytes of a file, told of on stderr."""
    done = 0
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            total = int(answer.headers.get("Content-Length", 0))
            while block := answer.read(1 << 20):
                done += len(block)
                if progress:
                    print(f"\r{url.rpartition('/')[2]}: {done / 1e6:.1f} of {total / 1e6:.1f} MB", end="", file=sys.stderr)
                yield block
    except (OSError, ValueError) as error:          # what urllib raises
        raise DownloadError(f"download: {url}: {error}") from None
    if progress:
        print(file=sys.stderr)


def load_state_dict_from_url(url: str, model_dir: str | os.PathLike[str] | None = None, map_location: MapLocation = None,
                             progress: bool = True, check_hash: bool = False, file_name: str | None = None,
                             weights_only: bool = True) -> Any:
    """What a file of torch.save holds: read from `model_dir` (checkpoints/ in `get_dir()`) where it is there, else downloaded to it.

    `check_hash` compares a download with the hash in its name, as in resnet18-f37072fd.pth. Nothing in a file is ever executed.

    Raises: DownloadError, which says where the file could be put by hand.
    """
    folder = os.fspath(model_dir or os.path.join(get_dir(), "checkpoints"))
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        found = HASH_REGEX.search(os.path.basename(path)) if check_hash else None
        try:
            download_url_to_file(url, path, found and found[1], progress)
        except DownloadError as error:
            raise DownloadError(f"{error}. Put the file at {path}, or build the model without weights and give its load_state_dict what "
                                "volta.load reads from a file of yours") from None
    return load(path, map_location, weights_only=weights_only)


load_url = load_state_dict_from_url
