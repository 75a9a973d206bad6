"""Attention on the GPU: one dispatch forward; backward one for the rows' stats, one for the gradients and one to add the copies of dq.

Must not know the graph. Widths that are no multiple of four are padded with zeros, which change nothing.
"""
from __future__ import annotations

import math
from heapq import heapreplace
from itertools import pairwise
from typing import NamedTuple

from volta._kernels import core
from volta.devices.gpu.common import FLOAT16, FLOAT32, STORED, ceil_div
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.limits.cut import call, narrow
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, unsigned

FORWARD, BACKWARD = range(2)
UNITS = 132                 # multiprocessors of the GPU that tiles and copies are chosen for
BUSY = 256                  # threads of this shader that keep one of them busy
SUMS = 0.05                 # time to add a tile's part of dq to what there is, in that of its products
LARGEST = 4 * UNITS         # copies of dq, of all pairs together
MOST_SPLITS = 8             # of the tiles of columns
MANY = 6 * UNITS            # workgroups that are not split
START = 0.1                 # time in which a workgroup begins and ends, in that of a tile of columns
APART = 0.16                # of a workgroup's time, by which those that share a multiprocessor end later, forward
CELLS = 7.5e4, 2.8e4        # of a tile, times the width, that a multiprocessor has done in a microsecond, forward and backward
MERGING = 4.0, 3e-6         # microseconds to merge parts, and more for each of their elements


class Tile(NamedTuple):
    """One specialisation of attention.wgsl: what a workgroup owns and how its threads share it."""

    rows: int
    columns: int
    lanes_x: int
    lanes_y: int
    step: int               # elements of a line
    depth: int              # lines
    buffers: int = 1        # for them

    def shared(self, kind: int, width: int) -> int:
        """Bytes of workgroup memory."""
        line = ceil_div(width, 4 * self.lanes_x) * self.lanes_x
        stage = max(self.step * (self.rows + self.columns) // 4 + 16, self.buffers * self.depth * line)
        columns = self.columns if kind == BACKWARD else self.buffers * self.depth
        gaps = columns // 2 if kind == BACKWARD else 4 * columns
        return 16 * (stage + max(columns * self.rows // 4 + gaps, self.lanes_x * self.rows // 4))

    @property
    def together(self) -> int:
        """Workgroups that run on a multiprocessor at once."""
        return max(1, BUSY // (self.lanes_x * self.lanes_y))

    def met(self, kind: int, rows: int, columns: int, causal: bool) -> list[int]:
        """Tiles of columns that each tile of rows meets, in the order of launching."""
        starts = range(0, rows, self.rows)
        if kind == BACKWARD:
            return [max(1, ceil_div(columns - (r if causal else 0), self.columns)) for r in starts]
        return [max(1, ceil_div(min(columns, r + self.rows) if causal else columns, self.columns)) for r in reversed(starts)]

    def copies(self, queries: int, keys: int, pairs: int, causal: bool, most: int) -> int:
        """Of dq, each summed by one workgroup of a pair: the fewest of nearly the least time. IN: most, copies."""
        met = self.met(BACKWARD, keys, queries, causal)
        most = max(1, min(most, LARGEST // pairs))
        times = {}
        for n in sorted({ceil_div(len(met), n) for n in range(1, len(met) + 1)}):
            if n <= most:
                times[n] = time_of(owned(met, n), pairs, self.together) + SUMS * sum(met[:n]) * pairs / UNITS / self.together * (n > 1)
        return next(n for n, t in times.items() if t <= 1.02 * min(times.values()))

    def splits(self, kind: int, width: int, works: list, pairs: int, size: int, most: int) -> int:
        """Workgroups that share the tiles of columns of each of `works`, likewise. IN: size, elements of the result; most, splits."""
        if len(works) * pairs > MANY:
            return 1
        each = self.rows * self.columns * width * self.together / CELLS[kind]           # microseconds of a tile of columns
        apart = APART * (kind == FORWARD and self.together > 1)
        times = {}
        for n in range(1, max(1, min(most, MOST_SPLITS, math.ceil(max(works)))) + 1):
            parts = [max(1.0, work / n) + START for work in works for _ in range(n)]
            merging = (MERGING[0] + MERGING[1] * size * n) / each * (n > 1)
            times[n] = time_of(parts, pairs, self.together) + apart * max(parts) + merging
        return next(n for n, t in times.items() if t <= 1.02 * min(times.values()))


def time_of(works: list, pairs: int, together: int) -> float:
    """Until all are done, by a model of workgroups that begin in order wherever one has ended, in the time of a tile where as many run
    together as can. Fewer are faster, though less than their number: with a part f of them, a multiprocessor does f * (1.75 - 0.75 * f)."""
    ends = [(0.0, place) for place in range(UNITS * together)]
    for work in works:
        for _ in range(pairs):
            end, place = ends[0]
            heapreplace(ends, (end + work, place))
    units = [[0.0] for _ in range(UNITS)]
    for end, place in sorted(ends):
        units[place % UNITS].append(end)
    return max(sum((b - a) / (1 + 0.75 * n / together) for n, (a, b) in enumerate(pairwise(unit))) for unit in units)


def owned(met: list, copies: int) -> list:
    """What the workgroups of a pair have to do that take tiles of rows in turn, to and fro."""
    works = [0.0] * copies
    for t, columns in enumerate(met):
        turn, place = divmod(t, copies)
        works[copies - 1 - place if turn % 2 else place] += columns * (1 + SUMS * (turn > 0))
    return works


# By pass and by the widest head that they serve: the fastest of those tried on an H200 (256: not tried). Where one takes more workgroup
# memory than the adapter has, the first of OTHERS that does not serves instead; WebGPU guarantees 16 KiB.
# All workgroups of a multiprocessor share some 50 KB there (measured), so that two at a time may take 24 each.
TILES = {
    FORWARD: {32: Tile(64, 64, 8, 16, 16, 32), 64: Tile(64, 128, 16, 8, 16, 32), 96: Tile(64, 64, 8, 16, 16, 16),
              128: Tile(128, 128, 16, 16, 16, 32), 256: Tile(32, 64, 16, 8, 16, 16)},
    BACKWARD: {32: Tile(64, 64, 8, 16, 8, 16), 64: Tile(128, 64, 16, 16, 16, 32), 96: Tile(64, 64, 8, 16, 8, 16),
               128: Tile(128, 64, 16, 16, 16, 16), 256: Tile(64, 64, 16, 16, 16, 8)},
}
SHORT = 32                  # queries and keys, with up to which heads of at most 128 elements have tiles of their own:
SMALL = Tile(32, 32, 8, 8, 8, 8)
WIDE = Tile(32, 128, 16, 8, 16, 16)     # of that few queries and more keys, forward; and
LOW = Tile(32, 64, 16, 8, 16, 16)       # of fewer than 256 of both, of which these tiles of rows are few
OTHERS = Tile(64, 64, 16, 8, 16, 16), SMALL


class Few(NamedTuple):
    """Another tile than that of TILES, for few workgroups of it."""

    workgroups: range       # in which the number of those of TILES is
    tile: Tile
    most: int = 0           # tiles of rows of a pair, of TILES; 0 for any number
    causal: bool | None = None


# By the widest head: the first that fits.
FEW = {
    FORWARD: {96: (Few(range(UNITS // 2, 2 * UNITS), Tile(64, 64, 8, 16, 16, 16, 2), 8, True),
                   Few(range(UNITS // 2, 2 * UNITS), Tile(64, 128, 8, 16, 16, 32))),
              128: (Few(range(UNITS // 8 + 1), Tile(32, 64, 16, 8, 16, 16)), Few(range(UNITS // 4 + 1), Tile(32, 256, 16, 8, 16, 32), 2),
                    Few(range(UNITS // 4 + 1), Tile(64, 128, 16, 8, 16, 16)), Few(range(UNITS), Tile(32, 128, 16, 8, 16, 16, 2), 2, True),
                    Few(range(UNITS // 2 + 1), Tile(64, 256, 16, 16, 16, 32), 2),
                    Few(range(UNITS), Tile(64, 64, 8, 16, 16, 8, 2), 8, True))},
    BACKWARD: {128: (Few(range(UNITS // 8 + 1), Tile(64, 64, 16, 16, 16, 16)),)},
}


def tile_of(kind: int, width: int, limit: int, pairs: int, length: int, columns: int, causal: bool = False) -> Tile:
    """The tile for heads of up to `width` elements. IN: limit, bytes of workgroup memory; length, rows of each of the pairs."""
    widest, first = next((widest, tile) for widest, tile in TILES[kind].items() if widest >= width)
    each = ceil_div(length, first.rows)
    fitting = (few.tile for few in FEW[kind].get(widest, ())
               if pairs * each in few.workgroups and (not few.most or each <= few.most) and few.causal in (None, causal))
    first = next(fitting, first)
    if widest <= 128 and length <= SHORT and (columns <= SHORT or kind == FORWARD):
        first = SMALL if columns <= SHORT else WIDE
    elif widest <= 128 and kind == FORWARD and max(length, columns) < 256 and (
            length <= 3 * LOW.rows or pairs * ceil_div(length, LOW.rows) <= 5 * UNITS):
        first = LOW
    return next(t for t in (first, *OTHERS) if t.shared(kind, width) <= limit)


def _attention(q, k, v, mask, *, causal, scale):
    """(out[B, H, L, V], stats[B, H, L, 2])"""
    stored = _stored("attention", q, k, v)
    if q.shape[3] % 4 or v.shape[3] % 4:
        return _padded
    if not all(map(_in_fours, (q, k, v))):
        return lambda q, k, v, mask, **params: KERNELS["attention"](*map(_lined, (q, k, v)), mask, **params)
    batch, heads, queries, _ = q.shape
    plan = Plan(q, k, v, mask)
    out = _output(plan, (batch, heads, queries, v.shape[3]), q.dtype)
    stats = plan.output((batch, heads, queries, 2), FLOAT32)
    step = _Step(plan, FORWARD, (q, k, v, mask, v), (0, 1, 2, 3, 2), causal, scale)
    pairs, tiles = batch * heads, ceil_div(queries, step.tile.rows)
    rows, width = pairs * queries, v.shape[3]
    splits = step.splits(step.tile.met(FORWARD, queries, k.shape[2], causal), pairs, rows * width)
    made = (out, stats) if splits == 1 else (plan.scratch(4 * splits * rows * width), plan.scratch(8 * splits * rows))
    step((0, 1, 2, None if mask is None else 3, None, None, *made), pairs, tiles, splits, F=stored if splits == 1 else "vec4<f32>",
         O="vec2<f32>", put="second[i] = v.xy;", held_second="return V(second[i], 0.0, 0.0);")
    if splits > 1:
        plan.step("attention/merge", (*made, out, stats), (rows * width // 4, width // 4, heads, queries, rows),
                  ceil_div(rows * width // 4, 256), PARTS=splits, F=stored)
    return plan


def _attention_grad(g, q, k, v, mask, out, stats, *, causal, scale):
    """(dq, dv and behind it dk): together, so that no more is bound than any implementation does. Sums of float16 are in float32 first."""
    stored = _stored("attention_grad", g, q, k, v, out)
    if q.shape[3] % 4 or v.shape[3] % 4:
        return _grad_padded
    if not all(map(_in_fours, (g, q, k, v, out))):
        return lambda g, q, k, v, mask, out, stats, **params: attention_grad(
            *map(_lined, (g, q, k, v)), mask, _lined(out), stats, **params)
    batch, heads, queries, _ = q.shape
    groups, keys = k.shape[1:3]
    plan = Plan(g, q, k, v, mask, out, stats)
    dq, both, half = _output(plan, q.shape, q.dtype), plan.output((v._size + k._size,), q.dtype), q.dtype is FLOAT16
    count = batch * queries * heads
    of_rows = plan.scratch(16 * count)
    width = v.shape[3] // 4
    lanes = min(16, 1 << max(1, width).bit_length() - 1)
    plan.step("attention/delta", (0, 5, 6, of_rows), (*_place(g, 0), *_place(out, 5), At(6), heads, queries, count),
              ceil_div(count * lanes, 256), W=width, LANES=lanes, E=stored, C=STORED[stats.dtype.code])
    step = _Step(plan, BACKWARD, (q, k, v, mask, g), (1, 2, 3, 4, 0), causal, scale)
    tile = step.tile
    copies = tile.copies(queries, keys, batch * groups, causal, max(1, plan.limit // max(1, 4 * q._size)))
    rest = v._size + k._size
    works = owned(tile.met(BACKWARD, keys, queries, causal), copies)
    splits = step.splits(works, batch * groups, rest)
    parts = dq if copies == 1 and not half else plan.scratch(4 * copies * q._size)
    sums = both if splits == 1 and not half else plan.scratch(4 * splits * rest)
    bound = (1, 2, 3, None if mask is None else 4, 0, of_rows, sums, parts)
    step(bound, batch * groups, copies, splits)
    if copies > 1 or splits > 1 or half:
        count, rest = q._size // 4 * (parts is not dq), rest // 4 * (sums is not both)
        plan.step("attention/collect", (parts if count else 1, sums if rest else 1, dq, both),
                  (count, rest, heads * q.shape[3] // 4, queries), ceil_div(count + rest, 256),
                  COPIES=copies, PARTS=splits, CAUSAL=causal, TILE_R=tile.rows, TILE_C=tile.columns, F=stored)
    return plan


_grad = Kernel("attention_grad", _attention_grad, strided=(0, 1, 2, 3, 4, 5), cut=lambda run, *tensors, **params: cuts.attention_grad(
    attention_grad, *tensors, **params))


def attention_grad(g, q, k, v, mask, out, stats, causal, scale):
    """(dq, dk, dv)"""
    made = _grad(g, q, k, v, mask, out, stats, causal=causal, scale=scale)
    if len(made) == 3:
        return made
    dq, both = made
    return dq, *[core.view(both, t.shape, _sequence_first(t.shape), at) for t, at in ((k, v._size), (v, 0))]


class _Step:
    """Launches of the shader. IN: tensors q, k, v, mask and g, at these places among the plan's operands."""

    def __init__(self, plan, kind, tensors, places, causal, scale):
        q, k, v, mask, g = tensors
        _, heads, queries, width = q.shape
        groups, keys, values = v.shape[1:]
        owners, rows, columns = (groups, keys, queries) if kind == BACKWARD else (heads, queries, keys)
        self.tile = tile_of(kind, max(width, values), plan.ctx.limits["max-compute-workgroup-storage-size"], q.shape[0] * owners, rows,
                            columns, causal)
        of_mask = (0,) * 5
        if mask is not None:
            strides = [0 if n == 1 else s for n, s in zip(mask.shape, mask._strides)]
            of_mask = At(places[3]), *unsigned(tuple(strides))
        lines = [word for t, i in zip((q, k, v, g), (*places[:3], places[4])) for word in _place(t, i)]
        self.plan, self.scale, self.kind, self.width = plan, float(scale), kind, max(width, values)
        self.sizes = (*lines, *of_mask, heads, groups, queries, keys)
        self.steps = ceil_div(width, self.tile.step), ceil_div(values, self.tile.step)
        self.overrides = dict(E=_vector(q.dtype), M="f32" if mask is None else STORED[mask.dtype.code], HAS_MASK=mask is not None,
                              GRADIENT=kind == BACKWARD, CAUSAL=causal, W1=width // 4, W2=values // 4,
                              **{name.upper(): n for name, n in self.tile._asdict().items() if name not in ("rows", "columns")},
                              TILE_R=self.tile.rows, TILE_C=self.tile.columns)

    def splits(self, works, pairs, size):
        """Workgroups that share what each of `works` is for one, in tiles of columns. IN: size, elements of the result."""
        return self.tile.splits(self.kind, self.width, works, pairs, size, self.plan.limit // max(1, 4 * size))

    def __call__(self, bound, pairs, tiles, splits, **overrides):
        self.plan.step("attention/attention", bound, (*self.sizes, pairs, tiles, self.scale, *self.steps, splits), pairs * tiles * splits,
                       **self.overrides, **overrides)


def _sequence_first(shape):
    """Strides of what has the heads of a place behind one another in memory, [B, L, H, W], as the projections around attention do."""
    _, heads, length, width = shape
    return (length * heads * width, width, heads * width, 1)


def _vector(dtype) -> str:
    """The WGSL type of four elements in memory."""
    return f"vec4<{STORED[dtype.code]}>"


def _stored(name: str, q, *tensors) -> str:
    """The same, of tensors of float32 or of float16. Raises: DTypeError for others."""
    if q.dtype is not FLOAT16 or any(t is not None and t.dtype is not FLOAT16 for t in tensors):
        need_float32(name, q, *tensors)
    return _vector(q.dtype)


def _output(plan, shape, dtype):
    return plan.output(shape, dtype, strides=_sequence_first(shape))


def _place(t, i):
    """Where the lines of t[B, H, L, 4 W], operand i of the plan, lie: offset and strides of B, L and H, in units of four elements."""
    batch, head, row = [s // 4 & 0xFFFF_FFFF for s in t._strides[:3]]
    return At(i, 4), batch, row, head


def _in_fours(t):
    """Whether the lines of t[B, H, L, 4 W] lie in whole units of four elements."""
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
    out, stats = KERNELS["attention"](_wide(q), _wide(k), _wide(v), mask, **params)
    return _cut(out, v.shape[3]), stats


def _grad_padded(g, q, k, v, mask, out, stats, **params):
    made = attention_grad(_wide(g), _wide(q), _wide(k), _wide(v), mask, _wide(out), stats, **params)
    return tuple(_cut(d, t.shape[3]) for d, t in zip(made, (q, k, v)))


KERNELS = {
    "attention": Kernel("attention", _attention, strided=(0, 1, 2, 3), cut=cuts.attention),
    "attention_grad": attention_grad,
}
