"""Elementwise launches: from the geometry of operands to pipelines, parameters and grids.

Serves every kernel that computes out[i] from operands at i (elementwise, casts, copies, fills). A plan holds all that a
launch needs but buffers and numbers, and is cached by its caller. Must not know what an operation computes.
"""
from __future__ import annotations

import math
import struct

from volta._kernels import core
from volta.devices.gpu.common import (
    BOOL,
    BYTES,
    COMPUTED,
    MAX_RANK,
    STORED,
    THREADS,
    UINT8,
    WINDOW_ALIGNMENT,
    collapse,
    context,
    extent,
    max_binding,
    number_packer,
    row_major,
)

FILES = ("elementwise/nullary", "elementwise/unary", "elementwise/binary", "elementwise/ternary")
ITEMS = 1                   # vectors of 4 elements a thread


class Geometry:
    """Collapsed sizes, with strides and offset (in elements) of every tensor; `out` is the last."""

    __slots__ = ("sizes", "strides", "offsets", "first")

    def __init__(self, sizes, strides, offsets, first=0):
        self.sizes, self.strides, self.offsets, self.first = sizes, strides, offsets, first


class Plan:
    """What a launch needs but buffers and numbers.

    `words(numbers)` gives the bytes of the numbers that follow `head`. `steps` is None for the usual single launch on
    whole buffers, else a list of (pipeline, windows, head, groups), empty where there is nothing to compute.
    """

    __slots__ = ("pipeline", "head", "groups", "words", "steps", "alloc", "submit", "shape", "strides", "dtype", "nbytes")

    def launch(self, buffers: tuple, tail: bytes) -> None:
        """Record the launches."""
        if self.steps is None:
            self.submit(self.pipeline, buffers, self.head + tail, self.groups)
            return
        for pipeline, windows, head, groups in self.steps:
            bound = tuple(b if w is None else (b, *w) for b, w in zip(buffers, windows))
            self.submit(pipeline, bound, head + tail, groups)

    def run(self, buffers: list, numbers: list, device):
        """Launch into a new tensor."""
        buffer = self.alloc(self.nbytes or 4)
        self.launch((*buffers, buffer), self.words(numbers))
        return core.tensor(core.gpu_storage(buffer, self.nbytes, device), self.shape, self.strides, 0, self.dtype)


class Expression:
    """What an elementwise kernel computes.

    `call` is WGSL text over x, y, z (bound tensors), o (the element of out, where `reads_out`), i (the index, for no
    tensors) and p.s0, p.s1 (numbers); `functions` defines what it calls, and `T` stands for `typed` there.
    `names` are the bound operands; `formats` has a struct letter for each number, of element type `number_dtype`.
    """

    __slots__ = ("text", "typed", "reads_out", "formats", "number_dtype")

    def __init__(self, functions: str, call: str, names: str, typed: str, reads_out=False, formats="", number_dtype=None):
        signature = "".join(f"{n}: {'u32' if n == 'i' else n.upper()}, " for n in names)
        self.text = f"fn op({signature}o: R) -> R {{ return {call}; }} {functions}"
        self.typed, self.reads_out, self.formats, self.number_dtype = typed, reads_out, formats, number_dtype


def stored_text(dtype) -> str:
    """How a result is narrowed to its element type."""
    if dtype is UINT8:
        return "fn stored(r: R) -> O { return r & 255u; }"
    if dtype is BOOL:
        return "fn stored(r: R) -> O { return min(r, 1u); }"
    return "fn stored(r: R) -> O { return O(r); }"


def make_plan(device, expression: Expression, inputs: list, out_geometry: tuple, dtype, large=(), step=None) -> Plan:
    """Plan of one elementwise computation.

    IN: inputs as (strides over the output's shape, offset, dtype); out_geometry (shape, strides, offset); large: the
    operands, counting `out` last, whose whole buffers may not be bound.
    Raises: RankError where there are more dims than the kernel takes; StridedOutput.
    """
    shape, strides, offset = out_geometry
    step = step or elementwise_step
    ctx = context(device)
    plan = Plan()
    plan.alloc, plan.submit = ctx.alloc, ctx.launch
    plan.shape, plan.strides, plan.dtype = shape, strides, dtype
    size = math.prod(shape)
    plan.nbytes = size * BYTES[dtype.code]
    if size == 0:
        plan.pipeline, plan.steps, plan.words = None, [], lambda numbers: b""
        return plan
    sizes, merged = collapse(shape, (*[s for s, _, _ in inputs], strides))
    if len(sizes) > (MAX_RANK if len(inputs) < 3 else 7):
        raise RankError
    if len(inputs) > 1 and merged[-1] != row_major(sizes):
        raise StridedOutput
    geometry = Geometry(sizes, merged, (*[o for _, o, _ in inputs], offset))
    dtypes = (*[d for _, _, d in inputs], dtype)
    pieces = _split(geometry, dtypes, max_binding(ctx), large)
    steps = [step(ctx, expression, piece, dtypes, windows) for piece, windows in pieces]
    plan.pipeline, _, plan.head, plan.groups = steps[0]
    padding = plan.pipeline.params_size - len(plan.head) - 4 * len(expression.formats)
    plan.words = number_packer(expression.formats, expression.number_dtype, padding)
    plan.steps = steps if len(steps) > 1 or any(w is not None for w in steps[0][1]) else None
    return plan


class RankError(Exception):
    """More dims than a kernel takes."""


class StridedOutput(Exception):
    """An output that is not row-major, for a kernel of two or three operands."""


def _split(geometry: Geometry, dtypes: tuple, limit: int, large=()) -> list:
    """Pieces of a geometry in which every tensor fits one binding: [(geometry, windows)]."""
    windows, offsets = [], []
    for i, (strides, offset, dtype) in enumerate(zip(geometry.strides, geometry.offsets, dtypes)):
        itemsize = BYTES[dtype.code]
        low, high = extent(geometry.sizes, strides)
        if i not in large and (offset + high + 4) * itemsize <= limit:
            windows.append(None)
            offsets.append(offset)
            continue
        start = (offset + low) * itemsize // WINDOW_ALIGNMENT * WINDOW_ALIGNMENT
        size = -(-((offset + high + 1) * itemsize - start) // 16) * 16
        if size > limit:
            return _halves(geometry, dtypes, limit, strides)
        windows.append((start, size))
        offsets.append(offset - start // itemsize)
    return [(Geometry(geometry.sizes, geometry.strides, tuple(offsets), geometry.first), tuple(windows))]


def _halves(geometry: Geometry, dtypes: tuple, limit: int, strides: tuple) -> list:
    sizes = geometry.sizes
    if len(dtypes) > 2:         # these write row-major outputs only, so that just the outermost dim can be cut
        d = next(d for d, n in enumerate(sizes) if n > 1)
    else:
        d = max(range(len(sizes)), key=lambda d: abs(strides[d]) * (sizes[d] - 1))
    half = sizes[d] // 2
    if half > 256:
        half = half // 256 * 256
    pieces = []
    for start, length in ((0, half), (half, sizes[d] - half)):
        part = Geometry(sizes[:d] + (length,) + sizes[d + 1:], geometry.strides,
                        tuple(o + start * s[d] for o, s in zip(geometry.offsets, geometry.strides)),
                        geometry.first + start * row_major(sizes)[d])
        pieces += _split(part, dtypes, limit, range(len(dtypes)))
    return pieces


def _kinds(sizes: tuple, strides: tuple, offsets: tuple):
    """Layout kinds of the operands (see unary.wgsl), or None where elements go one by one."""
    if strides[-1][-1] != 1 or (len(sizes) > 1 and sizes[-1] % 4):
        return None
    kinds = []
    for s, offset in zip(strides, offsets):
        if s[-1] == 0:
            kinds.append(1)
        elif s[-1] == 1 and offset % 4 == 0 and not any(v % 4 for v in s[:-1]):
            kinds.append(0)
        else:
            return None
    return kinds


def elementwise_step(ctx, expression: Expression, geometry: Geometry, dtypes: tuple, windows: tuple):
    """(pipeline, windows, parameter head, grid) of one piece."""
    sizes, strides, offsets = geometry.sizes, geometry.strides, geometry.offsets
    count = 1
    for n in sizes:
        count *= n
    kinds = _kinds(sizes, strides, offsets)
    inputs = len(dtypes) - 1
    overrides = {"RANK": len(sizes), "T": expression.typed, "op": expression.text, "stored": stored_text(dtypes[-1]),
                 "O": STORED[dtypes[-1].code], "R": COMPUTED[dtypes[-1].code], "READS_OUT": expression.reads_out,
                 "SINGLE": kinds is None, "ITEMS": ITEMS}
    for i in range(inputs):
        overrides["ABC"[i]] = STORED[dtypes[i].code]
        overrides["XYZ"[i]] = COMPUTED[dtypes[i].code]
        overrides["ABC"[i] + "_KIND"] = kinds[i] if kinds else 2
    if kinds:
        sizes = sizes[:-1] + (sizes[-1] // 4,)
        strides = tuple(tuple(v // 4 for v in s[:-1]) + (1,) if kind == 0 else s for s, kind in zip(strides, kinds))
        offsets = tuple(o // 4 if kind == 0 else o for o, kind in zip(offsets, kinds))
    head = _head(inputs, sizes, strides, offsets, count, geometry.first)
    pipeline = ctx.pipeline(FILES[inputs], **overrides)
    if not expression.formats:
        head += bytes(pipeline.params_size - len(head))
    return pipeline, windows, head, -(-count // (4 * THREADS * ITEMS))


def _eight(values: tuple) -> list:
    """Innermost first, padded to eight words."""
    return list(reversed(values)) + [0] * (8 - len(values))


def _head(inputs: int, sizes, strides, offsets, count: int, first: int) -> bytes:
    """Params up to the numbers, in the order of the .wgsl file."""
    words = _eight(sizes)
    operands = [_eight(s) for s in strides]
    if inputs == 3:
        words[6], words[7] = offsets[3], count
        for operand, offset in zip(operands, offsets[:3]):
            operand[7] = offset
            words += operand
    else:
        for operand in operands if inputs < 2 else operands[:-1]:
            words += operand
        words += [count, *offsets]
        if inputs == 0:
            words.append(first)
    return struct.pack(f"<{len(words)}I", *[w & 0xFFFF_FFFF for w in words])
