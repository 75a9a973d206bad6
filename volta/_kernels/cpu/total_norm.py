"""The norm of many tensors together: each one's by the kernels of reductions, then what these come to, in double."""
import math

from volta._kernels import core
from volta._kernels.cpu.copy import KERNELS as COPIES
from volta._kernels.cpu.elementwise import KERNELS as EACH
from volta._kernels.cpu.moments import KERNELS as MOMENTS
from volta._kernels.cpu.reduce import KERNELS as REDUCED


def total_norm(*tensors, order):
    """The norm of `order`, which is not 0, of all elements of tensors of one dtype, as a tensor without dimensions."""
    found = [_part(t if t.shape else core.reshaped(t, (1,)), order) for t in tensors]
    if math.isinf(order):
        total = math.nan if any(map(math.isnan, found)) else max(found) if order > 0 else min(found)
    else:
        total = math.sqrt(sum([n * n for n in found])) if order == 2 else sum(found)
    out = COPIES["full"]((), total, tensors[0].dtype, tensors[0].storage.device)
    return out if order in (1, 2) or math.isinf(order) else EACH["pow"](out, 1.0 / order)


def _part(x, order):
    """The 2-norm of one tensor, its largest or smallest element, or the sum of the powers."""
    dims = tuple(range(len(x.shape)))
    if order == 2:
        return core.read_scalar(MOMENTS["norm2"](x, dims, False))
    x = EACH["abs"](x)
    if math.isinf(order):
        return core.read_scalar(REDUCED["amax" if order > 0 else "amin"](x, dims, False))
    return core.read_scalar(REDUCED["sum"](x if order == 1 else EACH["pow"](x, order), dims, False))


KERNELS = {"total_norm": total_norm}
