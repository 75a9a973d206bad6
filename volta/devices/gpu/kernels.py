"""The GPU's kernels by name: WGSL from `shaders/`, launched by the modules beside this one. Imported when a GPU is first used."""
from math import prod

from volta._kernels.gpu.launch import Limited
from volta.devices.gpu import conv, copy, elementwise, index, linalg, loss, norm, pool, random, reduce, softmax, update
from volta.devices.gpu.limits import rows
from volta.devices.gpu.limits.cut import KERNELS, limit_of
from volta.ops.table import RECORDS, bind

# ---------------------------------------------------------------- beyond one binding: kernels that keep no plans in launch.pyx

def _drawn(shape, *_, dtype, **place):
    return prod(shape) * 4


def _each(name: str):
    """An update of many parameters: at once, one by one where any is too large."""
    many, single = update.KERNELS[name + "_many"], KERNELS[name]

    def run(*lists, **params):
        limit = limit_of(lists[0][0])
        if any(t.storage.nbytes > limit for t in lists[0]):
            for tensors in zip(*lists):
                single(*tensors, **params)
        else:
            many(*lists, **params)
    return run


for _module in (elementwise, copy, reduce, linalg, softmax, index, conv, pool, norm, loss, random):
    KERNELS.update(_module.KERNELS)
for _name in ("scatter_add", "index_add"):
    KERNELS[_name] = Limited(KERNELS[_name], rows.indexed_sum, rows.indexed_sum_bytes)
for _name in ("uniform", "normal", "randint"):
    KERNELS[_name] = Limited(KERNELS[_name], rows.drawn, _drawn)
KERNELS["dropout"] = Limited(KERNELS["dropout"], rows.dropout)
for _name in ("sgd", "adam", "amsgrad"):
    _writes = RECORDS[_name].writes
    KERNELS[_name] = Limited(update.KERNELS[_name], rows.updated(_writes), writes=_writes)
    KERNELS[_name + "_many"] = _each(_name)

# Kernels that take float16 themselves.
HALF = {name for module in (elementwise, copy, reduce, linalg, softmax, index) for name in module.KERNELS}

bind(KERNELS, "gpu", half=HALF)
