"""The CPU's kernels by name: typed Cython from `volta/_kernels/cpu`, in the best variant for the running CPU. Every module there that has
a table `KERNELS` is a family; nothing else has to name it."""
from functools import partial

from volta._kernels import cpu
from volta._kernels.cpu import copy, elementwise, reduce, update
from volta.devices import volume
from volta.ops.table import bind, import_all

KERNELS: dict = {}
for _module in import_all(cpu):
    KERNELS.update(getattr(_module, "KERNELS", {}))
KERNELS["conv3d"] = partial(volume.conv3d, KERNELS)

# Kernels that take float16 themselves.
HALF = {*elementwise.KERNELS, *copy.KERNELS, *reduce.KERNELS, *update.KERNELS, "gather", "index_select", "index_put", "extend"}

bind(KERNELS, "cpu", half=HALF)
