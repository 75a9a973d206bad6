"""Attention on the GPU: one dispatch forward; backward one for the rows' stats, one for the gradient of q, one for those of k and v.

Must not know the graph. Widths that are no multiple of four are padded with zeros, which change nothing.
"""
from __future__ import annotations

from typing import NamedTuple

from volta.devices.gpu.common import FLOAT32, ceil_div
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.limits.cut import call, narrow
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, unsigned

FORWARD, OF_QUERIES, OF_KEYS = range(3)         # PASS in the shader


class Tile(NamedTuple):
    """One specialisation of attention.wgsl: what a workgroup owns and how its threads share it."""

    rows: int
    columns: int
    lanes_x: int
    lanes_y: int
    step: int               # of a line, in units of four elements
    depth: int              # columns

    def shared(self, width: int) -> int:
        """Bytes of workgroup memory that heads of this width take."""
        line = ceil_div(width // 4, self.lanes_x) * self.lanes_x
        return 16 * (self.rows * max(self.step + 1, self.columns // 4 + 1) + max(self.columns * (self.step + 1), self.depth * line)
                     + self.rows * self.lanes_x // 4)


# By pass and by the widest head that they serve: the fastest of those tried on an H200.
TILES = {
    FORWARD: {32: Tile(64, 64, 8, 16, 4, 32), 64: Tile(64, 32, 8, 16, 8, 32), 128: Tile(64, 32, 8, 16, 8, 16),
              256: Tile(32, 64, 16, 8, 8, 8)},
    OF_QUERIES: {32: Tile(64, 32, 8, 16, 8, 32), 64: Tile(64, 32, 8, 16, 8, 32), 128: Tile(64, 32, 8, 16, 8, 16),
                 256: Tile(32, 64, 16, 8, 8, 8)},
    OF_KEYS: {32: Tile(64, 32, 8, 16, 8, 32), 64: Tile(64, 32, 8, 16, 8, 32), 128: Tile(32, 64, 16, 8, 8, 16),
              256: Tile(32, 64, 16, 16, 8, 8)},
}
SMALL = Tile(32, 32, 8, 8, 4, 8)        # for adapters with less workgroup memory: 14 KiB


def _attention(q, k, v, mask, *, causal, scale):
    """(out[B, L, H, V], logsumexp[B, H, L])"""
    need_float32("attention", q, k, v, mask)
    if q.shape[3] % 4 or v.shape[3] % 4:
        return _padded
    if not all(map(_in_fours, (q, k, v))):
        return lambda q, k, v, mask, **params: KERNELS["attention"](*map(_lined, (q, k, v)), mask, **params)
    batch, queries, heads, _ = q.shape
    plan = Plan(q, k, v, mask)
    out = plan.output((batch, queries, heads, v.shape[3]), FLOAT32)
    logsumexp = plan.output((batch, heads, queries), FLOAT32)
    _step(plan, FORWARD, (q, k, v, mask, v), (0, 1, 2, 0 if mask is None else 3, 2, 0, out, logsumexp), (0, 1, 2, 3, 2), causal, scale,
          O="f32", put="second[i] = v.x;")
    return plan


def _attention_grad(g, q, k, v, mask, out, logsumexp, *, causal, scale):
    """(dq, dk, dv)"""
    need_float32("attention_grad", g, q, k, v, mask, out, logsumexp)
    if q.shape[3] % 4 or v.shape[3] % 4:
        return _grad_padded
    if not all(map(_in_fours, (g, q, k, v))) or out.offset % 4:
        return lambda g, q, k, v, mask, out, logsumexp, **params: KERNELS["attention_grad"](
            *map(_lined, (g, q, k, v)), mask, contiguous(out) if out.offset % 4 else out, logsumexp, **params)
    batch, queries, heads, _ = q.shape
    plan = Plan(g, q, k, v, mask, out, logsumexp)
    dq, dk, dv = plan.output(q.shape, FLOAT32), plan.output(k.shape, FLOAT32), plan.output(v.shape, FLOAT32)
    count = batch * queries * heads
    stats, spare = plan.scratch(8 * count), plan.scratch(16)
    plan.step("attention/delta", (0, 5, 6, stats), (*_place(g, 0), At(5, 4), At(6), heads, queries, count), ceil_div(count, 256),
              W=v.shape[3] // 4)
    bound = (1, 2, 3, 1 if mask is None else 4, 0, stats)
    for kind, results in ((OF_QUERIES, (spare, dq)), (OF_KEYS, (dv, dk))):
        _step(plan, kind, (q, k, v, mask, g), (*bound, *results), (1, 2, 3, 4, 0), causal, scale)
    return plan


def _step(plan, kind, tensors, bound, places, causal, scale, **overrides):
    """One launch of the shader. IN: tensors q, k, v, mask and g, at these places among the plan's operands."""
    q, k, v, mask, g = tensors
    batch, queries, heads, width = q.shape
    keys, groups, values = v.shape[1:]
    of_mask = (0,) * 5
    if mask is not None:
        strides = [0 if n == 1 else s for n, s in zip(mask.shape, mask._strides)]
        of_mask = At(places[3]), *unsigned(tuple(strides))
    wide = max(width, values)
    tile = next(t for widest, t in TILES[kind].items() if widest >= wide)
    tile = tile if tile.shared(wide) <= plan.ctx.limits["max-compute-workgroup-storage-size"] else SMALL
    pairs, tiles = (batch * groups, ceil_div(keys, tile.rows)) if kind == OF_KEYS else (batch * heads, ceil_div(queries, tile.rows))
    lines = [word for t, i in zip((q, k, v, g), (*places[:3], places[4])) for word in _place(t, i)]
    plan.step("attention/attention", bound, (*lines, *of_mask, heads, groups, queries, keys, pairs, tiles, float(scale)), pairs * tiles,
              PASS=kind, CAUSAL=causal, HAS_MASK=mask is not None, W1=width // 4, W2=values // 4, TILE_R=tile.rows, TILE_C=tile.columns,
              LANES_X=tile.lanes_x, LANES_Y=tile.lanes_y, STEP=tile.step, DEPTH=tile.depth, **overrides)


def _place(t, i):
    """Where the lines of t[B, L, H, 4 W], operand i of the plan, lie: offset and strides in units of four elements."""
    return At(i, 4), *[s // 4 & 0xFFFF_FFFF for s in t._strides[:3]]


def _in_fours(t):
    """Whether the lines of t[B, L, H, 4 W] lie in whole units of four elements."""
    return t._strides[3] == 1 and t.offset % 4 == 0 and not any(s % 4 for s, n in zip(t._strides, t.shape[:3]) if n > 1)


def _lined(t):
    return t if _in_fours(t) else contiguous(t)


# ---------------------------------------------------------------- widths that are no multiple of four
def _wide(t):
    """t with zeros behind each line, up to a multiple of four."""
    shape = (*t.shape[:3], ceil_div(t.shape[3], 4) * 4)
    return t if shape == t.shape else call("place", t, shape=shape, starts=(0,) * 4, steps=(1,) * 4, value=0.0)


def _cut(t, width):
    return t if t.shape[3] == width else contiguous(narrow(t, 3, 0, width))


def _padded(q, k, v, mask, **params):
    out, logsumexp = KERNELS["attention"](_wide(q), _wide(k), _wide(v), mask, **params)
    return _cut(out, v.shape[3]), logsumexp


def _grad_padded(g, q, k, v, mask, out, logsumexp, **params):
    made = KERNELS["attention_grad"](_wide(g), _wide(q), _wide(k), _wide(v), mask, _wide(out), logsumexp, **params)
    return tuple(_cut(d, t.shape[3]) for d, t in zip(made, (q, k, v)))


KERNELS = {
    "attention": Kernel("attention", _attention, strided=(0, 1, 2, 3), cut=cuts.attention),
    "attention_grad": Kernel("attention_grad", _attention_grad, strided=(0, 1, 2, 3, 4), cut=cuts.attention_grad),
}
