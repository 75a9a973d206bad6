"""Files of weights that PyTorch's projects publish: downloaded once, when a program asks for them, and checked by their hash.

They are kept where PyTorch keeps them, so that what is there already is used. Code is never downloaded: `load` runs what lies in a
folder.
"""
from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from volta import io
from volta.errors import ArgumentError, DownloadError

if TYPE_CHECKING:
    from volta.io.location import MapLocation

__all__ = ["download_url_to_file", "get_dir", "load", "load_state_dict_from_url", "load_url", "set_dir"]

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
    return io.load(path, map_location, weights_only=weights_only)


def load(repo_or_dir: str | os.PathLike[str], model: str, *args: Any, source: str = "github", trust_repo: bool | str | None = "check",
         force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any) -> Any:
    """What the function `model` of the file hubconf.py in a folder gives for these arguments, with source="local". That file is run.

    Raises: DownloadError for another source: code is not downloaded; ArgumentError where the file, the function or a package that it
    depends on is not there.
    """
    if source != "local":
        raise DownloadError(f"hub.load: code is not downloaded from {source}; get {repo_or_dir} by git and call hub.load with its folder "
                            "and source='local', or build the model and use load_state_dict_from_url")
    folder = os.path.expanduser(repo_or_dir)
    path = os.path.join(folder, "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise ArgumentError(f"hub.load: there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
        missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
        if missing:
            raise ArgumentError(f"hub.load: {path} needs {', '.join(missing)}, which is not installed")
        entry = getattr(module, model, None)
        if not callable(entry) or model.startswith("_"):
            raise ArgumentError(f"hub.load: {path} has no function {model!r}")
        return entry(*args, **kwargs)
    finally:
        sys.path.remove(folder)


load_url = load_state_dict_from_url
