"""The CPU's kernels by name: typed Cython from `volta/_kernels/cpu`, in the best variant for the running CPU. Every module there that has
a table `KERNELS` is a family; nothing else has to name it."""
from importlib import import_module
from pkgutil import iter_modules

from volta._kernels import cpu
from volta._kernels.cpu import copy, elementwise, reduce, update
from volta.ops.table import bind

KERNELS: dict = {}
for _module in iter_modules(cpu.__path__):
    KERNELS.update(getattr(import_module(f"volta._kernels.cpu.{_module.name}"), "KERNELS", {}))

# Kernels that take float16 themselves.
HALF = {*elementwise.KERNELS, *copy.KERNELS, *reduce.KERNELS, *update.KERNELS, "gather", "index_select", "index_put"}

bind(KERNELS, "cpu", half=HALF)
