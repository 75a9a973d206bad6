"""The CPU's kernels by name: typed Cython from `volta/_kernels`, in the best variant for the running CPU."""
from volta._kernels.cpu import conv, conv_weight, copy, elementwise, index, linalg, loss, norm, pool, random, reduce, softmax, update
from volta.ops.table import bind

KERNELS: dict = {}
for _module in (elementwise, copy, reduce, linalg, softmax, index, conv, conv_weight, pool, norm, loss, random, update):
    KERNELS.update(_module.KERNELS)

# Kernels that take float16 themselves.
HALF = {*elementwise.KERNELS, *copy.KERNELS, *reduce.KERNELS, *update.KERNELS, "gather", "index_select", "index_put"}

bind(KERNELS, "cpu", half=HALF)
