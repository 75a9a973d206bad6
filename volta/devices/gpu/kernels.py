"""The GPU's kernels by name: WGSL from `shaders/`, dispatched by the modules beside this one. Imported when a GPU is first used."""
from volta.devices.gpu import conv, copy, elementwise, index, linalg, loss, norm, pool, random, reduce, softmax, update
from volta.devices.gpu.limits.large import guard
from volta.ops.table import bind

KERNELS: dict = {}
for _module in (elementwise, copy, reduce, linalg, softmax, index, conv, pool, norm, loss,
                random):
    KERNELS.update({name: guard(name, kernel) for name, kernel in _module.KERNELS.items()})
_cat = KERNELS["cat"]
KERNELS["cat"] = lambda *tensors, dim: _cat(tensors, dim)
KERNELS.update(update.KERNELS)          # they take float16, and cut by themselves

bind(KERNELS, "gpu")
