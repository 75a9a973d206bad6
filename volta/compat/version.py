"""torch.version and torch.torch_version: the release of PyTorch whose names are here, and that there is no CUDA."""
from __future__ import annotations

import re
from typing import Any

from volta.compat.modules import VERSIONS

_PARTS = re.compile(r"v?(\d+(?:\.\d+)*)[-_.]?(?:(dev|a|b|c|rc|alpha|beta|post)[-_.]?(\d*))?[^+]*(?:\+(.*))?$")
_STAGES = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "post": 1}


def _order(version: str) -> tuple[Any, ...] | None:
    """What says which version is later; None of a text that is no version."""
    found = _PARTS.match(version)
    if found is None:
        return None
    release = [int(part) for part in found[1].split(".")]
    while len(release) > 1 and not release[-1]:
        release.pop()
    return release, _STAGES.get(found[2] or "", 0), int(found[3] or 0), found[4] or ""


class TorchVersion(str):
    """A version, which is compared with texts and with tuples of numbers as versions are: "2.13" comes after "2.2"."""

    def _compared(self, other: object) -> tuple[Any, Any] | None:
        if isinstance(other, (tuple, list)) and all(isinstance(part, int) for part in other):
            other = ".".join(map(str, other))
        if not isinstance(other, str):
            return None
        pair = _order(self), _order(other)
        return pair if None not in pair else (str(self), str(other))

    def __eq__(self, other: object) -> bool:
        pair = self._compared(other)
        return pair is not None and pair[0] == pair[1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        pair = self._compared(other)
        return NotImplemented if pair is None else pair[0] < pair[1]

    def __le__(self, other: Any) -> bool:
        pair = self._compared(other)
        return NotImplemented if pair is None else pair[0] <= pair[1]

    def __gt__(self, other: Any) -> bool:
        pair = self._compared(other)
        return NotImplemented if pair is None else pair[0] > pair[1]

    def __ge__(self, other: Any) -> bool:
        pair = self._compared(other)
        return NotImplemented if pair is None else pair[0] >= pair[1]

    __hash__ = str.__hash__


__version__ = TorchVersion(VERSIONS["torch"])
cuda = hip = rocm = xpu = git_version = None
debug = False
