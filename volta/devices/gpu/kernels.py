"""The GPU's kernels by name: WGSL from `shaders/`, launched by the modules beside this one. Every one that has a table `KERNELS` is a
family; nothing else has to name it. Imported when a GPU is first used."""
from importlib import import_module
from pkgutil import iter_modules

from volta.devices import gpu
from volta.devices.gpu import copy, elementwise, index, linalg, reduce, scan, softmax, sort, update
from volta.devices.gpu.limits.cut import KERNELS
from volta.ops.table import bind

for _module in iter_modules(gpu.__path__):
    if not _module.ispkg and _module.name != "kernels":
        KERNELS.update(getattr(import_module(f"volta.devices.gpu.{_module.name}"), "KERNELS", {}))

# Kernels that take float16 themselves.
HALF = {name for module in (elementwise, copy, reduce, linalg, softmax, index, scan, sort, update) for name in module.KERNELS}

bind(KERNELS, "gpu", half=HALF)
