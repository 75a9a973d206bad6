"""Vectors divided by their lengths, and the derivative: a few passes of other kernels, each of which takes vectors and threads."""
from volta._kernels.cpu.elementwise import KERNELS as EACH
from volta._kernels.cpu.moments import KERNELS as MOMENTS
from volta._kernels.cpu.reduce import KERNELS as REDUCED


def unit(x, *, dim, eps):
    """(x divided by its length along dim, or by eps where that is more, the lengths)."""
    size = MOMENTS["norm2"](x, (dim,), True)
    return EACH["mul"](x, EACH["reciprocal"](EACH["clamp_min"](size, eps))), size


def unit_grad(g, x, size, *, dim, eps):
    """The gradient of x."""
    scale = EACH["reciprocal"](EACH["clamp_min"](size, eps))
    along = EACH["mul"](EACH["mul"](REDUCED["sum"](EACH["mul"](g, x), (dim,), True), scale), scale)
    along = EACH["root_grad"](EACH["clamp_grad"](along, size, eps, float("inf")), size)
    return EACH["mulacc"](g, scale, EACH["mul"](x, EACH["mul"](along, -2.0)))


KERNELS = {"unit": unit, "unit_grad": unit_grad}
