"""The GPU's kernels by name: WGSL from `shaders/`, dispatched by the `gpu_*` modules. Imported when a GPU is first used."""
from volta.backends import (
    gpu_conv,
    gpu_copy,
    gpu_elementwise,
    gpu_index,
    gpu_linalg,
    gpu_loss,
    gpu_norm,
    gpu_pool,
    gpu_random,
    gpu_reduce,
    gpu_softmax,
    gpu_update,
)
from volta.backends.gpu_large import each, guard
from volta.ops.families import bind

KERNELS: dict = {}
for _module in (gpu_elementwise, gpu_copy, gpu_reduce, gpu_linalg, gpu_softmax, gpu_index, gpu_conv, gpu_pool, gpu_norm, gpu_loss,
                gpu_random, gpu_update):
    KERNELS.update({name: guard(name, kernel) for name, kernel in _module.KERNELS.items()})
_cat = KERNELS["cat"]
KERNELS["cat"] = lambda *tensors, dim: _cat(tensors, dim)
for _name in [name for name in KERNELS if name.endswith("_many")]:
    KERNELS[_name] = each(_name, KERNELS[_name], KERNELS[_name.removesuffix("_many")])

bind(KERNELS, "gpu")
