"""Vectors divided by their lengths, and the derivative: a few passes of other kernels, each of which takes vectors and threads."""
from volta._kernels.core import view
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


def cosine(a, b, *, eps):
    """(cosines of the rows of a and b, the squares of their lengths with eps added)."""
    last = a.ndim - 1,
    aa, ab, bb = (REDUCED["sum"](EACH["mul"](x, y), last, False) for x, y in ((a, a), (a, b), (b, b)))
    aa, bb = EACH["add"](aa, eps), EACH["add"](bb, eps)
    return EACH["div"](ab, EACH["sqrt"](EACH["mul"](aa, bb))), aa, bb


def cosine_grad(g, a, b, cosine, aa, bb, *, eps):
    """The gradient of a."""
    across, along = EACH["div"](g, EACH["sqrt"](EACH["mul"](aa, bb))), EACH["div"](EACH["mul"](g, cosine), aa)
    across, along = (view(t, (*t.shape, 1), (*t._strides, 1), t.offset) for t in (across, along))
    return EACH["sub"](EACH["mul"](b, across), EACH["mul"](a, along))


KERNELS = {"unit": unit, "unit_grad": unit_grad, "cosine": cosine, "cosine_grad": cosine_grad}
