"""Which matmul kernels, tile and split a product gets on a GPU, and their parameters. Pure functions of sizes and layouts.

Knows matmul.wgsl, matvec.wgsl and reduce.wgsl of shaders/matmul/. Must not know tensors, buffers or the runtime.
"""
from __future__ import annotations

import struct
from typing import NamedTuple


class Operand(NamedTuple):
    """A matrix in a buffer: unit stride along k (the summed index) or along its other index. Units: elements."""

    along_k: bool
    stride: int                 # of the index that has no unit stride
    batch: int = 0              # from one product of the batch to the next; 0 repeats one matrix
    offset: int = 0
    padded: bool = False        # every row is followed by other elements, of any value
    inner: int = 0              # of a batch of two dimensions, along its last one; `batch` is then along its first


class Windows(NamedTuple):
    """B as the windows of images that have their padding around them: row k is a channel and tap, column n a place of the output. The
    operand's stride is then that of the channels. All of three dimensions; strides in elements."""

    kernel: tuple
    taps: tuple                 # strides from a tap to the next
    places: tuple               # from a window to the next
    outs: tuple                 # sizes of the output

    @property
    def words(self) -> tuple:
        return *self.taps, self.outs[2], *self.places, self.outs[1] * self.outs[2]

    @property
    def overrides(self) -> dict:
        return {"WINDOWS": 1, **{f"TAPS_{axis}": n for axis, n in zip("ZYX", self.kernel)}, **_by_words("b", 1)}


class Tile(NamedTuple):
    """One specialisation of matmul.wgsl: the tile of a workgroup and how its threads share it."""

    m: int
    n: int
    k: int
    rows: int                   # blocks of 4 x 4 that a thread owns
    cols: int
    slices: int = 1             # thread groups that divide each step along k
    lanes_n: int = 8            # threads of a warp along n; along m there are `lanes_m`
    lanes_m: int = 4
    buffers: int = 1

    @property
    def threads(self) -> int:
        return self.m // (4 * self.rows) * (self.n // (4 * self.cols)) * self.slices


class Step(NamedTuple):
    """One launch. `buffers` and `offsets` are indices into (a, b, bias, out, scratch): what is bound, in binding order, and whose
    offsets, one 32-bit word each, `params` begins with."""

    file: str
    overrides: dict
    params: bytes
    groups: int
    buffers: tuple
    offsets: tuple


class Plan(NamedTuple):
    steps: tuple
    scratch: int                # bytes


class Cost(NamedTuple):
    """Measured speed of a tile on a large GPU (132 multiprocessors). Units: microseconds.

    A step is TILE_K along k. `work` is one workgroup's share of a multiprocessor per step, `wait` the least time of a step however
    idle the multiprocessor; `resident` workgroups fit on one. `layouts` multiplies both for no, one and two operands along k; `scalar` and
    `scalar_wait` those in work and wait for each operand that is not and is read by single elements; `edge` that for rows of B and
    out that are no multiple of four; `guard` that of a K which TILE_K does not divide.
    """

    wait: float
    work: float
    resident: int
    layouts: tuple
    scalar: float
    scalar_wait: float
    edge: float
    guard: float
    start: float                # launch, first loads and stores


A, B, BIAS, OUT, SCRATCH = range(5)

LARGE = Tile(128, 128, 8, 2, 2)
WIDE = Tile(64, 128, 8, 2, 2)
MEDIUM = Tile(64, 64, 8, 2, 1)
SMALL = Tile(32, 32, 32, 1, 1, slices=4)
TINY = Tile(16, 16, 128, 1, 1, slices=16, lanes_n=4)

COSTS = {
    LARGE: Cost(0.896, 0.776, 2, (0.93, 1.04, 1.03), 0.32, 0.15, 0.12, 0.04, 2.9),
    WIDE: Cost(0.624, 0.403, 4, (0.93, 0.985, 1.06), 0.25, 0.3, 0.1, 0.05, 2.8),
    MEDIUM: Cost(0.501, 0.233, 5, (0.92, 1.0, 1.08), 0.17, 0.5, 0.08, 0.09, 2.6),
    SMALL: Cost(0.39, 0.284, 4, (0.92, 1.0, 1.08), 0.07, 0.15, 0.0, 0.35, 2.7),
    TINY: Cost(0.65, 0.517, 4, (0.99, 1.0, 1.01), 0.15, 0.15, 0.0, 0.01, 2.9),
}
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)       # that are tried, beside those that just fill some waves of workgroups
WAVES = 4                   # most that parts may make
IDLE = 0.12                 # loss of a multiprocessor with next to no workgroups
SPLIT_COST = 10.0           # microseconds: one more launch, which waits for all of this one
BYTES_PER_US = 3.2e6        # of partial sums written and read again
COPY_START = 3.0            # microseconds: one more launch
COPY_BYTES_PER_US = 1.5e6   # of an operand that is copied to pad its rows, read and written
VECTOR_GROUPS = 512         # workgroups that a matrix-vector product is split into, where k is long enough
VECTOR_STEPS = 8            # shortest loop of such a split
VECTOR_SPLITS = 256         # most of the product of two vectors


def plan(m: int, n: int, k: int, batch: int, a: Operand, b: Operand, bias: int | None = None, element: str = "f32",
         tile: Tile | None = None, splits: int | None = None, units: int = 132, windows: Windows | None = None, inner: int = 1) -> Plan:
    """Launches for out[batch, m, n] = A[batch, m, k] @ B[batch, k, n] + bias[n].

    IN: bias is the offset of the bias in its buffer, None for no bias; element is what memory holds: f32, f16, i32, or u8 (in
    32-bit words).
    `tile` and `splits` overrule the choice made here; `units` is the number of the GPU's multiprocessors; `windows` says that B is
    these, of a product with more than one row and column. `inner` is the last dimension of a batch that has two.
    """
    if m == 0 or n == 0 or batch == 0:
        return Plan((), 0)
    if tile is None and (m == 1 or n == 1) and k > 1:
        return _vector_plan(m, n, k, batch, a, b, bias, element, splits, inner)
    if tile is None and windows and 32 < m <= 64 and batch * (n // 128) >= 4 * units:
        tile = WIDE
    elif tile is None:
        tile, splits = choose(m, n, k, batch, a, b, units)
    chunk, splits = split_k(k, splits or 1, tile.k)
    tiles_m, tiles_n = ceil_div(m, tile.m), ceil_div(n, tile.n)
    groups = splits * batch * tiles_m * tiles_n
    overrides = dict(
        _types(element, splits > 1), TILE_M=tile.m, TILE_N=tile.n, TILE_K=tile.k, ROWS=tile.rows, COLS=tile.cols,
        SLICES=tile.slices, LANES_M=tile.lanes_m, LANES_N=tile.lanes_n, BUFFERS=tile.buffers,
        A_ALONG_K=int(a.along_k), B_ALONG_K=int(b.along_k),
        OUT_WORD=1 if n & 3 else 4, GUARD_K=int(k % tile.k != 0), BIAS=int(bias is not None and splits == 1),
        **_by_words("a", 1 if a.along_k else word(m, a)), **_by_words("b", 1 if b.along_k else word(n, b))) | (
            windows.overrides if windows else {})
    params = struct.pack("<18I8x8I", a.offset, b.offset, bias or 0, m, n, k, batch, a.stride, b.stride, a.batch, b.batch,
                         tiles_m, tiles_n, chunk, groups, inner, a.inner, b.inner, *(windows.words if windows else (0,) * 8))
    return _finish(Step("matmul/matmul", overrides, params, groups, (A, B, None, OUT), (A, B, BIAS)), splits, m, n, batch, bias, element)


def choose(m: int, n: int, k: int, batch: int, a: Operand, b: Operand, units: int = 132) -> tuple[Tile, int]:
    """Fastest tile and number of splits along k by the cost table. IN: units, the multiprocessors of the GPU."""
    return estimate(m, n, k, batch, a, b, units)[1:]


def estimate(m: int, n: int, k: int, batch: int, a: Operand, b: Operand, units: int = 132) -> tuple[float, Tile, int]:
    """(microseconds, tile, splits) of the fastest choice by the cost table."""
    best = None
    for tile in COSTS:
        tiles = batch * ceil_div(m, tile.m) * ceil_div(n, tile.n)
        slots = units * COSTS[tile].resident
        for splits in sorted({*SPLITS, *(min(wave * slots // tiles, SPLITS[-1]) for wave in range(1, WAVES + 1))} - {0}):
            chunk, parts = split_k(k, splits, tile.k)
            if parts != splits or splits > 1 and tiles * splits > WAVES * slots:
                continue
            time = _cost(tile, tiles * splits, chunk // tile.k, a, b, m, n, k, units)
            if splits > 1:
                time += SPLIT_COST + (splits + 1) * batch * m * n * 4 / (BYTES_PER_US if n & 3 == 0 else BYTES_PER_US / 2)
            if best is None or time < best[0]:
                best = time, tile, splits
    return best


def _cost(tile: Tile, groups: int, steps: int, a: Operand, b: Operand, m: int, n: int, k: int, units: int) -> float:
    """Microseconds of one launch by the cost table."""
    cost = COSTS[tile]
    full, rest = divmod(groups, units * cost.resident)      # waves that fill the GPU, and the last one
    scalar = (not a.along_k and word(m, a) == 1) + (not b.along_k and word(n, b) == 1)
    wait, work = cost.wait * (1 + cost.scalar_wait * scalar), cost.work * (1 + cost.scalar * scalar)
    slower = cost.layouts[a.along_k + b.along_k] * (1 + cost.guard * (k % tile.k != 0)) * (1 + cost.edge * (not b.along_k and n & 3 != 0))
    last = ceil_div(rest, units)
    step = full * max(wait, work * cost.resident) + (max(wait, work * last * (1 + IDLE * (1 - last / cost.resident))) if rest else 0)
    return cost.start + steps * slower * step


def _vector_plan(m, n, k, batch, a, b, bias, element, splits, inner) -> Plan:
    """A product with one row or one column: `matrix` is the larger operand, its outer index the output."""
    (outer, matrix, vector) = (n, b, a) if m == 1 else (m, a, b)
    width = word(k if matrix.along_k else outer, matrix._replace(padded=False))
    lanes = (256 if outer == 1 else 32) if matrix.along_k else 16
    outputs = 256 // lanes * (1 if matrix.along_k else width)
    blocks = ceil_div(outer, outputs)
    step = lanes * (width if matrix.along_k else 1)
    if splits is None:
        splits = min(VECTOR_GROUPS // (blocks * batch), k // (step * VECTOR_STEPS), VECTOR_SPLITS if outer == 1 else SPLITS[-1])
    chunk, splits = split_k(k, max(1, splits), step)
    groups = splits * batch * blocks
    overrides = dict(_types(element, splits > 1), ALONG_K=int(matrix.along_k), WORD=width, LANES=lanes,
                     BIAS=int(bias is not None and splits == 1))
    apart = 1 if vector.along_k else vector.stride
    if matrix.along_k and width == 4 and apart == 1 and not (vector.offset | vector.batch | vector.inner) & 3:
        overrides |= {"W": "vec4<S>", "gather": "T4(vector[i / 4u])", "single": "T(vector[i / 4u][i % 4u])"}
    params = struct.pack("<17I", matrix.offset, vector.offset, bias or 0, int(m == 1), outer, k, batch, blocks, matrix.stride,
                         apart, matrix.batch, vector.batch, chunk, groups, inner, matrix.inner, vector.inner)
    inputs = (B, A) if m == 1 else (A, B)
    step = Step("matmul/matvec", overrides, params, groups, (*inputs, None, OUT), (*inputs, BIAS))
    return _finish(step, splits, m, n, batch, bias, element)


def _finish(step: Step, splits: int, m, n, batch, bias, element) -> Plan:
    """The plan of a product: one step, or with splits the step into scratch memory and the reduction."""
    third = None if bias is None else BIAS
    if splits == 1:
        return Plan((step._replace(buffers=(*step.buffers[:2], third, OUT)),), 0)
    size = batch * m * n
    width = 1 if size & 3 else 4
    overrides = dict(_types(element, False), WORD=width, SPLITS=splits, BIAS=int(bias is not None))
    overrides.pop("mad", None)
    reduce = Step("matmul/reduce", overrides, struct.pack("<3I", bias or 0, size // width, n),
                  ceil_div(size // width, 256), (SCRATCH, third, OUT), (BIAS,))
    return Plan((step._replace(buffers=(*step.buffers[:2], None, SCRATCH)), reduce), splits * size * 4)


def word(extent: int, x: Operand) -> int:
    """4 where the operand can be read four elements at a time, else 1. Buffers end with a whole four."""
    return 1 if ((0 if x.padded else extent) | x.stride | x.batch | x.inner | x.offset) & 3 else 4


def align(m: int, n: int, k: int, batch: int, a: Operand, b: Operand, units: int = 132, inner: int = 1) -> tuple[Operand, Operand]:
    """The operands as they are, or as copies with padded rows where those, copies included, take less time."""
    if m == 1 or n == 1 or 0 in (m, n, k, batch):
        return a, b
    left = [(0.0, a)] + _padded(a, k, m, batch, inner)
    right = [(0.0, b)] + _padded(b, k, n, batch, inner)
    return min((ca + cb + estimate(m, n, k, batch, x, y, units)[0], i, j, x, y)
               for i, (ca, x) in enumerate(left) for j, (cb, y) in enumerate(right))[3:]


def is_copied(m: int, n: int, k: int, batch: int, inner: int, a: Operand, b: Operand, units: int = 132) -> bool:
    """Whether A's rows, copied to lie behind one another and multiplied by their one B at once, take less time than as they lie."""
    if n == 1 or 0 in (m, n, k, batch) or not a.batch or not a.inner:
        return False
    copying = COPY_START + 8 * m * k * batch / COPY_BYTES_PER_US
    return copying + estimate(m * batch, n, k, 1, Operand(True, k), b, units)[0] < estimate(m, n, k, batch, a, b, units)[0]


def _padded(x: Operand, rows: int, extent: int, batch: int, inner: int) -> list:
    """[(microseconds of the copy, the operand then)], or nothing where a copy does not help (along k, reading by fours gains next to
    nothing) or the matrices have a memory in common."""
    if x.along_k or word(extent, x) == 4 or x.stride < extent or (x.batch and x.batch < rows * x.stride):
        return []
    if inner > 1 and (x.batch or x.inner) and (x.inner < rows * x.stride or x.batch < inner * x.inner):
        return []
    stride = ceil_div(extent, 4) * 4
    count = rows * extent * (batch if x.batch else 1)
    size = rows * stride
    apart = (size * inner, size if inner > 1 else 0) if x.batch else (0, 0)
    return [(COPY_START + 8 * count / COPY_BYTES_PER_US, Operand(x.along_k, stride, apart[0], 0, True, apart[1]))]


def _by_words(name: str, count: int) -> dict:
    """Overrides by which an operand is read `count` elements at a time."""
    single = {name.upper(): "S", f"word_{name}": f"T4(T({name}[i]))"} if count == 1 else {}
    return {f"{name.upper()}_WORD": count, **single}


def split_k(k: int, splits: int, step: int) -> tuple[int, int]:
    """(chunk, splits): k in at most `splits` chunks of whole steps."""
    chunk = max(1, ceil_div(ceil_div(k, splits), step)) * step
    return chunk, max(1, ceil_div(k, chunk))


def ceil_div(x: int, y: int) -> int:
    return -(-x // y)


def _types(element: str, partial: bool) -> dict:
    """Declarations that change where memory or arithmetic is not float32. IN: partial, out holds partial sums."""
    if element == "f32":
        return {}
    if element == "f16":
        return {"S": "f16"} if partial else {"S": "f16", "R": "f16"}
    kind = "u32" if element == "u8" else element
    types = {"T": kind, "S": kind, "R": kind, "mad": "x * y + z"}
    if element == "u8" and not partial:
        types["stored"] = "v % 256u"
    return types
