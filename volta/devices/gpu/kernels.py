"""The GPU's kernels by name: WGSL from `shaders/`, launched by the modules beside this one. Imported when a GPU is first used."""
from volta.devices.gpu import conv, copy, elementwise, index, linalg, loss, norm, pool, random, reduce, softmax, update
from volta.devices.gpu.limits.cut import KERNELS
from volta.ops.table import bind

for _module in (elementwise, copy, reduce, linalg, softmax, index, conv, pool, norm, loss, random, update):
    KERNELS.update(_module.KERNELS)

# Kernels that take float16 themselves.
HALF = {name for module in (elementwise, copy, reduce, linalg, softmax, index, update) for name in module.KERNELS}

bind(KERNELS, "gpu", half=HALF)
