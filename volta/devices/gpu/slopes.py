"""The gradient of attention's scores on the GPU, of which that of a mask is a sum: two products, and all else in one elementwise kernel.

It takes the memory of the scores, as nothing else of attention does. Must not know the graph.
"""
from __future__ import annotations

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32
from volta.devices.gpu.copy import cast
from volta.devices.gpu.elementwise import KERNELS as ELEMENTWISE
from volta.devices.gpu.limits.cut import call


def _product(a, b):
    """a[B, H, L, W] times b[B, G, S, W] turned, as [B, H, L, S]; G heads of b are each for H / G of a."""
    (batch, heads, length, width), (_, groups, keys, _) = a.shape, b.shape
    ratio, (x, y, z, w), (s, t, u, v) = heads // max(groups, 1), a._strides, b._strides
    left = core.view(a, (batch, groups, ratio, length, width), (x, y * ratio, y, z, w), a.offset)
    right = core.view(b, (batch, groups, 1, width, keys), (s, t, t, v, u), b.offset)
    return core.reshaped(call("matmul", left, right), (batch, heads, length, keys))


def attention_slopes(g, q, k, v, mask, out, stats, *, causal, scale):
    """[B, H, L, S], computed in float32."""
    dtype = q.dtype
    g, q, k, v, mask, out, stats = [t if t.dtype is FLOAT32 else cast(t, FLOAT32) for t in (g, q, k, v, mask, out, stats)]
    delta = call("sum", call("mul", g, out), (3,), True)
    top, factor = (core.view(stats, (*stats.shape[:3], 1), stats._strides, stats.offset + i * stats._strides[3]) for i in (0, 1))
    slopes = ELEMENTWISE["attention_slopes"](_product(q, k), _product(g, v), mask, top, factor, delta, float(scale))
    slopes = call("triangle", slopes, diagonal=0, upper=False) if causal else slopes
    return slopes if dtype is FLOAT32 else cast(slopes, dtype)


KERNELS = {"attention_slopes": attention_slopes}
