"""The GPU's kernels by name: WGSL from `shaders/`, launched by the modules beside this one. Every one that has a table `KERNELS` is a
family; nothing else has to name it. Imported when a GPU is first used."""
from volta.devices import gpu
from volta.devices.gpu import attention, copy, elementwise, index, join, linalg, put, reduce, scan, scatter, softmax, sort, update
from volta.devices.gpu.limits.cut import KERNELS
from volta.dtypes import bfloat16, float16, int8, int16
from volta.ops.table import RECORDS, bind, import_all

for _module in import_all(gpu):
    KERNELS.update(getattr(_module, "KERNELS", {}))

# Kernels that take float16 themselves.
_OWN = attention, elementwise, copy, reduce, linalg, softmax, index, put, join, scan, scatter, sort, update
HALF = {name for module in _OWN for name in module.KERNELS} | {"columns", "total_norm"}

# Those that never see bfloat16, which no GPU has; the others are asked for it when they make a tensor.
NEVER = {name for name in HALF if name != "cast" and RECORDS[name].family != "creation"}

# Those that take int8 and int16 themselves, which lie in 32 bits: all that copies.
MOVES = set(copy.KERNELS)

bind(KERNELS, "gpu", {float16.code: HALF, bfloat16.code: NEVER, int8.code: MOVES, int16.code: MOVES})
