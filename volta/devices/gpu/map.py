"""Elementwise launches: from the geometry of operands to generated pipelines, parameters and grids.

Serves every kernel that computes out[i] from operands at i (elementwise, casts, copies, fills), which `Pointwise` keeps the plans of.
Tensors beyond one binding are bound by windows, piece by piece. Must not know what an operation computes.
"""
from __future__ import annotations

import math
import struct
from functools import partial

from volta._kernels.gpu.plan import Plan
from volta.devices.gpu import generate
from volta.devices.gpu.common import (
    BOOL,
    BYTES,
    COMPUTED,
    INT8,
    INT16,
    INT32,
    INT64,
    STORED,
    THREADS,
    UINT8,
    WINDOW_ALIGNMENT,
    ceil_div,
    collapse,
    extent,
    pack_number,
    pack_operand,
    row_major,
)
from volta.devices.gpu.generate import Expression, Layout

# How a result becomes an element, where not by conversion.
STORES = {BOOL: "min(r, 1u)", UINT8: "r & 255u", INT8: "(r << 24u) >> 24u", INT16: "(r << 16u) >> 16u"}


class Geometry:
    """Collapsed sizes, with strides and offset (in elements) of every tensor, the outputs last."""

    __slots__ = ("sizes", "strides", "offsets", "first")

    def __init__(self, sizes, strides, offsets, first=0):
        self.sizes, self.strides, self.offsets, self.first = sizes, strides, offsets, first


def make_plan(device, expression: Expression, shape: tuple, inputs: list, outputs: list, large=(), step=None, new=True) -> Plan:
    """Plan of one elementwise computation.

    IN: inputs and outputs as (strides over `shape`, offset, dtype); large: the operands, outputs last, whose whole buffers may
    not be bound; step: what makes a launch of a piece; new: whether the plan makes its outputs, else they are its last operands.
    """
    operands = (*inputs, *outputs)
    plan = Plan(*operands[:len(inputs) if new else None], device=device)
    for _, _, dtype in outputs if new else ():
        plan.output(shape, dtype, True)
    if expression.numbers:
        plan.words = _number_words(expression.numbers, expression.fits)
    if math.prod(shape) == 0:
        return plan
    sizes, merged = collapse(shape, tuple(s for s, _, _ in operands))
    geometry = Geometry(sizes, merged, tuple(o for _, o, _ in operands))
    dtypes = tuple(d for _, _, d in operands)
    for piece, windows in _split(geometry, dtypes, plan.limit, large):
        pipeline, head, groups = (step or elementwise_step)(plan.ctx, expression, piece, dtypes)
        plan.add(pipeline, tuple(i if w is None else (i, *w) for i, w in enumerate(windows)), head, groups)
    return plan


def _number_words(dtypes: tuple, fits: tuple):
    """Function from numbers to their words; IN: fits, as in Expression."""
    floating = all(dtype.is_floating_point for dtype in dtypes)
    pack = partial(pack_number, op=fits[0], infinite=fits[1]) if fits else pack_operand

    def each(numbers):
        return b"".join([pack(number, dtype) for number, dtype in zip(numbers, dtypes)])

    if not floating and not all(dtype in (INT32, INT64) for dtype in dtypes):
        return each
    quick = struct.Struct(f"<{len(dtypes)}{'f' if floating else 'i'}").pack

    def words(numbers):
        try:
            return quick(*numbers)
        except (OverflowError, struct.error):
            return each(numbers)
    return words


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
    """The pieces of both halves, cut along the dim in which `strides` reach farthest."""
    sizes = geometry.sizes
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


def _letters(sizes: tuple, strides: tuple, offsets: tuple, inputs: int) -> tuple[bool, str]:
    """Whether vectors are whole, and how each operand lies (see generate.py)."""
    dense = row_major(sizes)
    if len(sizes) == 1 or sizes[-1] % 4 == 0:
        letters = "".join(_vector_letter(s, o, dense) for s, o in zip(strides, offsets))
        if ("g" not in letters or sizes[-1] % 4 == 0) and set(letters[inputs:]) <= {"d", "v"}:
            return True, letters
    return False, "".join("d" if s == dense else "s" if any(s) else "c" for s in strides)


def _vector_letter(strides: tuple, offset: int, dense: tuple) -> str:
    if strides[-1] == 0:
        return "r" if any(strides) else "c"
    if strides[-1] == 1 and offset % 4 == 0 and not any(v % 4 for v in strides[:-1]):
        return "d" if strides == dense else "v"
    return "g"


def elementwise_step(ctx, expression: Expression, geometry: Geometry, dtypes: tuple):
    """(pipeline, parameters before the numbers, grid) of one piece."""
    sizes, strides, offsets = geometry.sizes, geometry.strides, geometry.offsets
    inputs = len(dtypes) - len(expression.results)
    count = math.prod(sizes)
    vectors, letters = _letters(sizes, strides, offsets, inputs)
    if vectors:
        sizes = sizes[:-1] + (sizes[-1] // 4,)
        whole = [letter in "dv" for letter in letters]
        strides = tuple(tuple(v // 4 for v in s[:-1]) + s[-1:] if w else s for s, w in zip(strides, whole))
        offsets = tuple(o // 4 if w else o for o, w in zip(offsets, whole))
    sizes, strides = sizes[::-1], tuple(s[::-1] for s in strides)
    layout = Layout(len(sizes), vectors, letters, inputs, tuple(STORED[d.code] for d in dtypes), tuple(COMPUTED[d.code] for d in dtypes),
                    tuple(STORES.get(d, "") for d in dtypes[inputs:]), tuple(COMPUTED[d.code] for d in expression.numbers), None)
    if not generate.fits(layout, expression):
        layout = layout._replace(geometry=(sizes, strides))
    values = generate.geometry_words(layout, sizes, strides) + [count, *offsets]
    if expression.uses("i"):
        values.append(geometry.first)
    head = struct.pack(f"<{len(values)}I", *[w & 0xFFFF_FFFF for w in values])
    pipeline = ctx.pipeline(expression.user or "elementwise/generated", text=generate.text(expression, layout), users=bool(expression.user))
    return pipeline, head, ceil_div(count, 4 * THREADS)


def add_elementwise(plan: Plan, text: str, bound: tuple, sizes: tuple, strides: tuple, dtype, offsets: tuple = ()) -> None:
    """A step that computes `text` (generate.Expression) of buffers with elements of one dtype, the last of which it writes. IN: strides, of
    each; offsets, the (buffer, At) of what does not begin its buffer and has no vectors."""
    count = len(bound)
    pipeline, head, groups = elementwise_step(plan.ctx, Expression((text,)), Geometry(sizes, strides, (0,) * count), (dtype,) * count)
    words = len(head) // 4 - count
    plan.add(pipeline, bound, head, groups, tuple((words + k, at) for k, at in offsets))
