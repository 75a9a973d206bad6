"""The GPU's kernels by name: WGSL from `shaders/`, launched by the modules beside this one. Imported when a GPU is first used."""
from math import prod

from volta._kernels.gpu.launch import Limited
from volta.devices.gpu import conv, copy, elementwise, index, linalg, loss, norm, pool, random, reduce, softmax, update
from volta.devices.gpu.limits import rows
from volta.devices.gpu.limits.cut import KERNELS
from volta.ops.table import bind

# ---------------------------------------------------------------- beyond one binding: kernels that keep no plans in launch.pyx

def _drawn(shape, *_, dtype, **place):
    return prod(shape) * 4


for _module in (elementwise, copy, reduce, linalg, softmax, index, conv, pool, norm, loss, random, update):
    KERNELS.update(_module.KERNELS)
for _name in ("scatter_add", "index_add"):
    KERNELS[_name] = Limited(KERNELS[_name], rows.indexed_sum, rows.indexed_sum_bytes)
for _name in ("uniform", "normal", "randint"):
    KERNELS[_name] = Limited(KERNELS[_name], rows.drawn, _drawn)
KERNELS["dropout"] = Limited(KERNELS["dropout"], rows.dropout)

# Kernels that take float16 themselves.
HALF = {name for module in (elementwise, copy, reduce, linalg, softmax, index, update) for name in module.KERNELS}

bind(KERNELS, "gpu", half=HALF)
