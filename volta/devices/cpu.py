"""The CPU's kernels by name: typed Cython from `volta/_kernels`, in the best variant for the running CPU."""
from volta._kernels.core.fallback import Fallback
from volta._kernels.cpu import conv, conv_weight, copy, elementwise, index, linalg, loss, norm, pool, random, reduce, softmax, update
from volta.devices import half
from volta.errors import DTypeError
from volta.ops.table import bind


def _with_half(name: str, kernel):
    """`kernel`, which refuses float16, or float32 in its place."""
    def instead(error, inputs, params):
        if not half.concerns(inputs, params):
            raise error
        return half.compute(name, kernel, KERNELS, inputs, params)
    return Fallback(kernel, (DTypeError,), instead)


KERNELS: dict = {}
for _module in (elementwise, copy, reduce, update):
    KERNELS.update(_module.KERNELS)
for _module in (linalg, softmax, index, conv, conv_weight, pool, norm, loss, random):
    KERNELS.update({name: _with_half(name, kernel) for name, kernel in _module.KERNELS.items()})
for _name in ("gather", "index_select", "index_put"):          # these move any type
    KERNELS[_name] = index.KERNELS[_name]
_cat = KERNELS["cat"]
KERNELS["cat"] = lambda *tensors, dim: _cat(tensors, dim)

bind(KERNELS, "cpu")
