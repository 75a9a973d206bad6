"""PyTorch scripts as they lie: after `install()`, `import torch` and `import torchvision` give Volta.

A script needs no change where its names exist here; `python -m volta run train.py` does both. A name that does not exist raises an error
that names it: nothing is replaced by something that would change results.
"""
from __future__ import annotations

import importlib
import os
import sys
from multiprocessing import spawn
from typing import Any

from volta._kernels.core.base import call_gpus
from volta._kernels.core.size import call_package
from volta.compat.modules import ROOTS, Finder
from volta.device import set_gpu_gaps
from volta.errors import VoltaError

__all__ = ["install", "uninstall"]

# Libraries choose how to compute by the package of a tensor's class: where it is in PyTorch.
_CLASSES = (("volta.tensor", "Tensor", "torch"), ("volta.nn.parameter", "Parameter", "torch.nn.parameter"),
            ("volta.nn.parameter", "Buffer", "torch.nn.parameter"))
SCRIPT = "VOLTA_SCRIPT"                 # in the environment of processes started anew: what their main module is
_finder = Finder()
_preparation = spawn.get_preparation_data


def install() -> None:
    """Serve `torch`, `torchvision` and `functorch` from Volta in this process, and call GPUs "cuda".

    Raises: VoltaError where the real PyTorch has been imported: two kinds of tensors would meet.
    """
    if _finder in sys.meta_path:
        return
    present = sorted(name for name in ROOTS if name in sys.modules)
    if present:
        raise VoltaError(f"compat.install: {present[0]} is imported already, from {getattr(sys.modules[present[0]], '__file__', None)}; "
                         "call volta.compat.install() before it, or start the script by python -m volta run")
    sys.meta_path.insert(0, _finder)
    spawn.get_preparation_data = _get_preparation_data
    call_gpus("cuda")
    call_package("torch")
    set_gpu_gaps("warn")
    _name_classes(True)


def uninstall() -> None:
    """Undo `install`: what was imported stays usable, new imports find the real packages."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        spawn.get_preparation_data = _preparation
        call_gpus("gpu")
        call_package("volta")
        set_gpu_gaps("error")
        _name_classes(False)
        for name in [n for n in sys.modules if n.partition(".")[0] in ROOTS]:
            del sys.modules[name]


def _name_classes(as_theirs: bool) -> None:
    for module, name, theirs in _CLASSES:
        getattr(importlib.import_module(module), name).__module__ = theirs if as_theirs else module


def _get_preparation_data(name: str) -> dict[str, Any]:
    """What multiprocessing tells a process that it starts anew, which would import the script without the hook."""
    data = _preparation(name)
    for kind, key in (("module", "init_main_from_name"), ("path", "init_main_from_path")):
        script = data.get(key)
        if script and not script.endswith("__main__"):      # a package's, which is not imported again
            del data[key]
            os.environ[SCRIPT] = f"{kind}:{script}"
            data["init_main_from_name"] = "volta.compat.child"
    return data
