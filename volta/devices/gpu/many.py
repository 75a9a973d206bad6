"""Dispatches over many tensors at once: rows of tensors that belong together (a parameter, its gradient, its states), as many rows a
dispatch as the device binds buffers for (one costs a fast GPU about 3 us, more than most rows' arithmetic).

Rows that lie at an offset, or exceed one binding, are dispatched alone; of those with other strides, copies are. A dispatch's text begins
with a table of its rows: how many elements each has and which workgroup begins it. Must not know what is computed: a `Work` does.
"""
from __future__ import annotations

import struct
from functools import cache

from volta.devices.gpu.common import BYTES, FLOAT16, FLOAT32, THREADS, WINDOW_ALIGNMENT, ceil_div, context, max_binding, round_float
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.plans import remember, vectors
from volta.errors import DTypeError

MOST_BUFFERS = 32           # of one dispatch; more were not measured to pay
WORDS = 32                  # of parameters: counts and starts, then factors

_plans: dict = {}


# How the kernels of such tables begin: a workgroup looks for its row.
MAIN = """@compute @workgroup_size({threads})
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {{
    let group = group_of(grid);
    var slot = 0u;
    var start = 0u;
    var count = p.count0;
{slots}
"""


class Work:
    """What is done to rows of tensors. A subclass writes the text of a dispatch over the table below."""

    each = 1                # units that a thread takes
    overhang = False        # whether rows of any size go together by vec4: the text leaves out what lies behind the last element

    def __init__(self, name: str, tensors: tuple, reads: tuple = (), factors: tuple = (), words: tuple = (), beside: int = 0) -> None:
        """IN: tensors of a row by name, those of them that are only read; names of parameters behind the table: words (u32, whose values a
        plan has), factors (f32); beside, buffers that are bound beside the rows."""
        self.name = self.label = name
        self.tensors, self.reads, self.factors, self.words, self.beside = tensors, reads, factors, words, beside
        order = [*reads, *[name for name in tensors if name not in reads]]
        self.order = [(name, tensors.index(name)) for name in order]        # in which they are bound

    @cache                      # noqa: B019 (there are as many as kinds of work, for ever)
    def places(self, buffers: int) -> int:
        """Rows that one dispatch can take on a device that binds so many buffers."""
        most = min(buffers, MOST_BUFFERS) - self.beside
        return max(1, min(most // len(self.tensors), (WORDS + 1 - len(self.factors) - len(self.words)) // 2))

    def pipeline(self, ctx, count: int, width: int, dtype):
        """The kernel for `count` rows; that for one has an offset for each tensor."""
        label = f"update/{self.label} {count} x {dtype.name} x {width}"
        return ctx.pipeline(label, text=self.text(label, count, width, dtype))

    def text(self, label: str, count: int, width: int, dtype) -> str:
        """The shader, behind the prelude."""
        raise NotImplementedError

    def table(self, count: int, bound: tuple = ()) -> dict:
        """What a text begins with, by the names of its fields. IN: bound, (access, name, type) of the buffers beside the rows."""
        geometry = ["count0", *[f"{name}_offset" for name in self.tensors]] if count == 1 else [
            *[f"count{k}" for k in range(count)], *[f"start{k}" for k in range(1, count)]]
        buffers = [b for b in bound if b[0] == "read"]
        buffers += [("read" if name in self.reads else "read_write", f"{name}{k}", "S") for name, _ in self.order for k in range(count)]
        buffers += [b for b in bound if b[0] != "read"]
        return {
            "threads": THREADS,
            "params": ", ".join([f"{name}: u32" for name in (*geometry, *self.words)] + [f"{name}: f32" for name in self.factors]),
            "bindings": "\n".join(f"@group(0) @binding({i}) var<storage, {access}> {name}: array<{kind}>;"
                                  for i, (access, name, kind) in enumerate(buffers)),
            "slots": "\n".join(f"    if (group >= p.start{k}) {{ slot = {k}u; start = p.start{k}; count = p.count{k}; }}"
                               for k in range(1, count))}

    def at(self, name: str, count: int, index: str = "i") -> str:
        """The element of a row's tensor, `#` being the row's number."""
        return f"{name}#[p.{name}_offset + {index}]" if count == 1 else f"{name}#[{index}]"

    def launches(self, lists: list) -> list:
        """(pipeline, pack, lead, groups, buffers) of each dispatch for these lists of tensors; and of those that copies stand for (tensor,
        its number in the row, copy).

        Raises: DTypeError for other dtypes than float32 and float16, and for more than one."""
        first = lists[0][0]
        ctx, dtype = context(first.storage.device), first.dtype
        if dtype is not FLOAT32 and dtype is not FLOAT16:
            raise DTypeError(f"{self.name}: the GPU kernel takes float32 and float16, got {dtype.name}; cast with x.to(volta.float32)")
        itemsize, limit, owned, whole, others = BYTES[dtype.code], max_binding(ctx), [], [], []
        for row in zip(*lists):
            nbytes = itemsize * row[0]._size
            for t in row:
                if t.storage.nbytes != nbytes or not t._contiguous or t.dtype is not dtype:
                    (whole if self._whole(row, dtype, limit) else others).append(row)
                    break
            else:
                (owned if nbytes <= limit else others).append(row)
        # What has its storage to itself, as parameters and states have, may be written over the end by vec4, into the block's padding.
        batches = [(4, owned + whole if self.overhang else owned)]
        if whole and not self.overhang:
            batches += [(4, [row for row in whole if not row[0]._size & 3]), (1, [row for row in whole if row[0]._size & 3])]
        places, found, copied = self.places(ctx.limits["max-storage-buffers-per-shader-stage"]), [], []
        for width, rows in batches:
            for start in range(0, len(rows), places):
                some = rows[start:start + places]
                if len(some) > 1:
                    found.append(self._several(ctx, width, some))
                else:
                    self._one(ctx, some[0], found, width)
        for row in others:
            copies = [t if t._contiguous else contiguous(t) for t in row]
            self._one(ctx, copies, found)
            copied += [(t, i, copy) for i, (t, copy) in enumerate(zip(row, copies)) if copy is not t]
        return found, copied

    def _whole(self, row: tuple, dtype, limit: int) -> bool:
        """Whether tensors start where their buffers do, and one binding holds these. Raises: DTypeError where their dtypes differ."""
        for t in row:
            if t.dtype is not dtype:
                raise DTypeError(f"{self.name}: a list must have one dtype, got {dtype.name} and {t.dtype.name}")
        return all(t._contiguous and not t.offset and t.storage.nbytes <= limit for t in row)

    def _several(self, ctx, width: int, rows: list) -> tuple:
        """One dispatch for rows whose tensors start where their buffers do."""
        dtype = rows[0][0].dtype
        key = (self, ctx, dtype, width, *[row[0]._size for row in rows])
        plan = _plans.get(key)
        if plan is None:
            counts, starts, groups = [], [], 0
            for row in rows:
                counts.append(row[0]._size if self.overhang else ceil_div(row[0]._size, width))
                starts.append(groups)
                groups += ceil_div(row[0]._size, width * self.each * THREADS)
            plan = (*_compiled(self, ctx, len(rows), width, dtype), (*counts, *starts[1:]), groups)
            remember(_plans, key, plan)
        if len(self.order) == 1:
            return (*plan, [row[0].storage.buffer for row in rows])
        buffers = []
        for _, i in self.order[:len(self.reads)]:
            buffers += [row[i].storage.buffer for row in rows]
        for _, i in self.order[len(self.reads):]:
            buffers += [row[i].storage.buffer for row in rows]
        return (*plan, buffers)

    def _one(self, ctx, row, found: list, width: int | None = None) -> None:
        """Dispatches for one row: one, or as many as its largest tensor needs bindings. IN: width, where it is known."""
        size, itemsize, limit = row[0]._size, BYTES[row[0].dtype.code], max_binding(ctx)
        large = any(t.storage.nbytes > limit for t in row)
        length = (limit - WINDOW_ALIGNMENT - 16) // itemsize & ~3 if large else size
        for start in range(0, size, length or 1):
            count, offsets, bound = min(length, size - start), [], []
            for t in row:
                low = (t.offset + start) * itemsize // WINDOW_ALIGNMENT * WINDOW_ALIGNMENT if large else 0
                offsets.append(t.offset + start - low // itemsize)
                end = (t.offset + start + count) * itemsize
                bound.append((t.storage.buffer, low, ceil_div(end - low, 16) * 16) if large else t.storage.buffer)
            unit = vectors(count, *offsets) if large or width is None else width
            key = (self, ctx, row[0].dtype, unit, "one", count, *offsets)
            plan = _plans.get(key)
            if plan is None:
                lead = (count if self.overhang else ceil_div(count, unit), *[offset // unit for offset in offsets])
                plan = (*_compiled(self, ctx, 1, unit, row[0].dtype), lead, ceil_div(count, unit * self.each * THREADS))
                remember(_plans, key, plan)
            found.append((*plan, [bound[i] for _, i in self.order]))


def _compiled(work: Work, ctx, count: int, width: int, dtype) -> tuple:
    pipeline = work.pipeline(ctx, count, width, dtype)
    return pipeline, struct.Struct(pipeline.params_format).pack


def packed(pack, lead: tuple, factors: list) -> bytes:
    """Parameters of a dispatch: its table and words, then factors."""
    try:
        return pack(*lead, *factors)
    except OverflowError:               # beyond float32: infinite
        return pack(*lead, *[round_float(value) for value in factors])


def cases(count: int, lines: list) -> str:
    """The cases of a switch over the rows of a dispatch; `#` in a line is the row's number."""
    return "\n".join(f"        {f'case {k}u' if k else 'default'}: {{ {' '.join(lines).replace('#', str(k))} }}" for k in range(count))
