"""The gradient of attention's scores, of which that of a mask is a sum: passes of other kernels."""
import math

from volta._kernels import core
from volta._kernels.cpu.elementwise import KERNELS as EACH
from volta._kernels.cpu.join import KERNELS as JOINED
from volta._kernels.cpu.linalg import KERNELS as PRODUCTS
from volta._kernels.cpu.reduce import KERNELS as REDUCED


def _product(a, b):
    """a[B, H, L, W] times b[B, G, S, W] turned, as [B, H, L, S]; G heads of b are each for H / G of a."""
    (batch, heads, length, width), (_, groups, keys, _) = a.shape, b.shape
    ratio, (x, y, z, w), (s, t, u, v) = heads // max(groups, 1), a._strides, b._strides
    left = core.view(a, (batch, groups, ratio, length, width), (x, y * ratio, y, z, w), a.offset)
    right = core.view(b, (batch, groups, 1, width, keys), (s, t, t, v, u), b.offset)
    return core.reshaped(PRODUCTS["matmul"](left, right), (batch, heads, length, keys))


def attention_slopes(g, q, k, v, mask, out, stats, *, causal, scale):
    """[B, H, L, S]"""
    delta = REDUCED["sum"](EACH["mul"](g, out), (3,), True)
    top, factor = (core.view(stats, (*stats.shape[:3], 1), stats._strides, stats.offset + i * stats._strides[3]) for i in (0, 1))
    scores = EACH["mulacc"](_product(q, k), scale / math.log(2), EACH["mul"](mask, 1 / math.log(2)))
    p = EACH["mul"](EACH["exp2"](EACH["sub"](scores, top)), factor)
    slopes = EACH["mul"](p, EACH["sub"](_product(g, v), delta))
    return JOINED["triangle"](slopes, diagonal=0, upper=False) if causal else slopes


KERNELS = {"attention_slopes": attention_slopes}
