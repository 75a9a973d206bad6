"""Which matmul kernels, tile and split a product gets on a GPU, and their parameters. Pure functions of sizes and layouts.

Knows shaders/matmul.wgsl, matmul_reduce.wgsl and matvec.wgsl. Must not know tensors, buffers or the runtime.
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
    """One launch; `buffers` are indices into (a, b, bias, out, scratch), in binding order."""

    file: str
    overrides: dict
    params: bytes
    groups: int
    buffers: tuple


class Plan(NamedTuple):
    steps: tuple
    scratch: int                # bytes


A, B, BIAS, OUT, SCRATCH = range(5)

LARGE = Tile(128, 128, 8, 2, 2)
MEDIUM = Tile(64, 64, 16, 2, 2)
SMALL = Tile(32, 32, 32, 1, 1, slices=4)
TINY = Tile(16, 16, 128, 1, 1, slices=16, lanes_n=4)


def plan(m: int, n: int, k: int, batch: int, a: Operand, b: Operand, bias: int | None = None, element: str = "f32",
         tile: Tile | None = None, splits: int | None = None) -> Plan:
    """Launches for out[batch, m, n] = A[batch, m, k] @ B[batch, k, n] + bias[n].

    IN: bias is the offset of the bias in its buffer, None for no bias; element is what memory holds: f32, f16 or i32.
    `tile` and `splits` overrule the choice made here.
    """
    if m == 0 or n == 0 or batch == 0:
        return Plan((), 0)
    if tile is None and (m == 1 or n == 1) and k > 1:
        return _vector_plan(m, n, k, batch, a, b, bias, element, splits)
    if tile is None:
        tile, splits = choose(m, n, k, batch)
    chunk, splits = split_k(k, splits or 1, tile.k)
    tiles_m, tiles_n = ceil_div(m, tile.m), ceil_div(n, tile.n)
    groups = splits * batch * tiles_m * tiles_n
    overrides = dict(
        _types(element, splits > 1), TILE_M=tile.m, TILE_N=tile.n, TILE_K=tile.k, ROWS=tile.rows, COLS=tile.cols, SLICES=tile.slices,
        LANES_M=tile.lanes_m, LANES_N=tile.lanes_n, BUFFERS=tile.buffers, A_ALONG_K=int(a.along_k), B_ALONG_K=int(b.along_k),
        A_WORD=word(k if a.along_k else m, a), B_WORD=word(k if b.along_k else n, b), OUT_WORD=1 if n & 3 else 4,
        GUARD_K=int(k % tile.k != 0), BIAS=int(bias is not None and splits == 1))
    if element == "i32":
        overrides["mad"] = "fn mad(x: T, y: T4, z: T4) -> T4 { return x * y + z; }"
    params = struct.pack("<16I", m, n, k, batch, a.offset, b.offset, 0, bias or 0, a.stride, b.stride, a.batch, b.batch,
                         tiles_m, tiles_n, chunk, groups)
    return _finish(Step("matmul", overrides, params, groups, (A, B, B, OUT)), splits, m, n, batch, bias, element)


def choose(m: int, n: int, k: int, batch: int) -> tuple[Tile, int]:
    """Tile and number of splits along k for a product."""
    return SMALL, 1


def _vector_plan(m, n, k, batch, a, b, bias, element, splits) -> Plan:
    """A product with one row or one column: `matrix` is the larger operand, its outer index the output."""
    (outer, matrix, vector) = (n, b, a) if m == 1 else (m, a, b)
    width = word(k if matrix.along_k else outer, matrix)
    lanes = 32 if matrix.along_k else 16
    outputs = 256 // lanes * (1 if matrix.along_k else width)
    blocks = ceil_div(outer, outputs)
    step = lanes * (width if matrix.along_k else 1)
    if splits is None:
        splits = min(VECTOR_GROUPS // (blocks * batch), k // (step * VECTOR_STEPS), SPLIT_LIMIT)
    chunk, splits = split_k(k, max(1, splits), step)
    groups = splits * batch * blocks
    overrides = dict(_types(element, splits > 1), ALONG_K=int(matrix.along_k), WORD=width, LANES=lanes, BIAS=int(bias is not None and splits == 1))
    if element == "i32":
        overrides["mad"] = "fn mad(x: T4, y: T4, z: T4) -> T4 { return x * y + z; }"
    params = struct.pack("<14I", outer, k, batch, blocks, matrix.offset, vector.offset, bias or 0, int(m == 1), matrix.stride,
                         1 if vector.along_k else vector.stride, matrix.batch, vector.batch, chunk, groups)
    inputs = (B, A) if m == 1 else (A, B)
    return _finish(Step("matvec", overrides, params, groups, (*inputs, B, OUT)), splits, m, n, batch, bias, element)


VECTOR_GROUPS = 512         # workgroups that a matrix-vector product is split into, where k is long enough
VECTOR_STEPS = 8            # shortest loop of a split
SPLIT_LIMIT = 32


def _finish(step: Step, splits: int, m, n, batch, bias, element) -> Plan:
    """The plan of a product: one step, or with splits the step into scratch memory and the reduction."""
    third = B if bias is None else BIAS
    if splits == 1:
        return Plan((step._replace(buffers=(*step.buffers[:2], third, OUT)),), 0)
    size = batch * m * n
    width = 1 if size & 3 else 4
    overrides = dict(_types(element, False), WORD=width, BIAS=int(bias is not None))
    reduce = Step("matmul_reduce", overrides, struct.pack("<4I", size // width, splits, n, bias or 0),
                  ceil_div(size // width, 256), (SCRATCH, third, OUT))
    return Plan((step._replace(buffers=(*step.buffers[:2], B, SCRATCH)), reduce), splits * size * 4)


def word(extent: int, x: Operand) -> int:
    """4 where the operand can be read four elements at a time, else 1."""
    return 1 if (extent | x.stride | x.batch | x.offset) & 3 else 4


def split_k(k: int, splits: int, step: int) -> tuple[int, int]:
    """(chunk, splits): k in at most `splits` chunks of whole steps."""
    chunk = max(1, ceil_div(ceil_div(k, splits), step)) * step
    return chunk, max(1, ceil_div(k, chunk))


def ceil_div(x: int, y: int) -> int:
    return -(-x // y)


def _types(element: str, partial: bool) -> dict:
    """Aliases where memory or arithmetic is not float32, which the shaders are written in."""
    arithmetic = "i32" if element == "i32" else "f32"
    types = dict(T=arithmetic, S=element, R=arithmetic if partial else element)
    return {name: kind for name, kind in types.items() if kind != "f32"}
