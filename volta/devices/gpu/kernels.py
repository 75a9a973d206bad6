"""The GPU's kernels by name: WGSL from `shaders/`, dispatched by the modules beside this one. Imported when a GPU is first used."""
from volta.devices.gpu import conv, copy, elementwise, index, linalg, loss, norm, pool, random, reduce, softmax, update
from volta.devices.gpu.limits.large import each, guard
from volta.ops.table import bind

KERNELS: dict = {}
for _module in (elementwise, copy, reduce, linalg, softmax, index, conv, pool, norm, loss,
                random, update):
    KERNELS.update({name: guard(name, kernel) for name, kernel in _module.KERNELS.items()})
_cat = KERNELS["cat"]
KERNELS["cat"] = lambda *tensors, dim: _cat(tensors, dim)
for _name in [name for name in KERNELS if name.endswith("_many")]:
    KERNELS[_name] = each(_name, KERNELS[_name], KERNELS[_name.removesuffix("_many")])

bind(KERNELS, "gpu")
