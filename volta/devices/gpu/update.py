"""Optimizer updates on the GPU: WGSL made of the formulas of `ops/records/update.py`, in place, for one parameter or several a dispatch.

A dispatch takes as many parameters as the device binds buffers for (it costs a fast GPU about 3 us, more than most parameters'
arithmetic). Those that lie at an offset, or exceed one binding, are dispatched alone; of those with other strides, copies are.
"""
from __future__ import annotations

import re
import struct
from functools import cache

from volta.devices.gpu.common import BYTES, FLOAT16, FLOAT32, THREADS, WINDOW_ALIGNMENT, ceil_div, context, max_binding, round_float
from volta.devices.gpu.copy import contiguous, copy_into
from volta.devices.gpu.plans import remember, vectors
from volta.errors import DTypeError
from volta.ops.records.update import UPDATES

MOST_BUFFERS = 32           # of one dispatch; more were not measured to pay
WORDS = 32                  # of parameters: counts and starts, then factors

TEXT = """// {label}: generated from the formula in volta/ops/records/update.py.
// Launch: x = sum of ceil(count / {threads}) workgroups of {threads}; a thread updates one S; counts, starts and offsets are in S's.
alias S = {stored};
alias V = {computed};
alias U = {bits};
struct Params {{ {params} }}
var<immediate> p: Params;
{bindings}
struct Next {{ {fields} }}

fn maximum(a: V, b: V) -> V {{ // NaN where either is
    return select(b, a, (a >= b) | ((bitcast<U>(a) & U(0x7fffffffu)) > U(0x7f800000u)));
}}

fn scaled(factor: f32, x: V) -> V {{
    return select(V(0.0), factor * x, factor != 0.0);
}}

fn update({arguments}) -> Next {{
{formula}
    return Next({results});
}}

@compute @workgroup_size({threads})
fn main(grid: Grid, @builtin(local_invocation_index) local: u32) {{
    let group = group_of(grid);
    var slot = 0u;
    var start = 0u;
    var count = p.count0;
{slots}
    let i = (group - start) * {threads}u + local;
    if (i >= count) {{
        return;
    }}
{variables}
    switch slot {{
{loads}
    }}
    let next = update({converted});
    switch slot {{
{stores}
    }}
}}
"""


class Variant:
    """One combination of optional states and flags of an update."""

    def __init__(self, update, tensors: tuple, options: frozenset) -> None:
        self.name, self.tensors, self.options = update.name, tensors, options
        self.statements, self.assigned = update.statements(options), update.names(options)
        read = {name for _, expression in self.statements for name in re.findall(r"\w+", expression)}
        self.factors = [name for name in update.factor_names if name in read]

    @cache                      # noqa: B019 (there are as many as updates, for ever)
    def places(self, buffers: int) -> int:
        """Parameters that one dispatch can take on a device that binds so many buffers."""
        return max(1, min(min(buffers, MOST_BUFFERS) // len(self.tensors), (WORDS + 1 - len(self.factors)) // 2))

    def pipeline(self, ctx, count: int, width: int, dtype):
        """The kernel for `count` parameters; that for one has an offset for each tensor."""
        label = f"update/{self.name}({', '.join(sorted(self.options))}) {count} x {dtype.name} x {width}"
        return ctx.pipeline(label, text=self.text(label, count, width, dtype))

    @cache                      # noqa: B019 (there are as many as updates, for ever)
    def text(self, label: str, count: int, width: int, dtype) -> str:
        wide = "vec4<{}>".format if width == 4 else str
        written = [name for name in self.tensors if name != "grad"]
        bound = [f"grad{k}" for k in range(count)] + [f"{name}{k}" for k in range(count) for name in written]
        geometry = ["count0", *[f"{name}_offset" for name in self.tensors]] if count == 1 else [
            *[f"count{k}" for k in range(count)], *[f"start{k}" for k in range(1, count)]]
        at = {name: f"{name}#[p.{name}_offset + i]" if count == 1 else f"{name}#[i]" for name in self.tensors}
        formula = [f"let {name} = p.{name};" for name in self.factors] + [f"var {name} = old_{name};" for name in self.tensors]
        formula += [f"var {name}: V;" for name in self.assigned if name not in self.tensors]
        formula += [f"{name} = {expression};" for name, expression in self.statements]
        return TEXT.format(
            label=label, threads=THREADS, stored=wide("f16" if dtype is FLOAT16 else "f32"), computed=wide("f32"), bits=wide("u32"),
            params=", ".join([*[f"{name}: u32" for name in geometry], *[f"{name}: f32" for name in self.factors]]),
            bindings="\n".join(f"@group(0) @binding({i}) var<storage, {'read' if i < count else 'read_write'}> {name}: array<S>;"
                               for i, name in enumerate(bound)),
            fields=", ".join(f"{name}: V" for name in written), results=", ".join(written),
            arguments=", ".join(f"old_{name}: V" for name in self.tensors), formula="\n".join(f"    {line}" for line in formula),
            slots="\n".join(f"    if (group >= p.start{k}) {{ slot = {k}u; start = p.start{k}; count = p.count{k}; }}"
                            for k in range(1, count)),
            variables="\n".join(f"    var {name}: S;" for name in self.tensors), converted=", ".join(f"V({name})" for name in self.tensors),
            loads=_cases(count, [f"{name} = {at[name]};" for name in self.tensors]),
            stores=_cases(count, [f"{at[name]} = S(next.{name});" for name in written]))


def _cases(count: int, lines: list) -> str:
    """The cases of a switch over the parameters of a dispatch; `#` in a line is the parameter's number."""
    return "\n".join(f"        {f'case {k}u' if k else 'default'}: {{ {' '.join(lines).replace('#', str(k))} }}" for k in range(count))


_plans: dict = {}
VARIANTS = {(update.name, *[name for name in update.optional + update.flags if name in options]): Variant(update, tensors, options)
             for update in UPDATES.values() for tensors, options in update.variants()}


def _kernel(update):
    """The kernel of an update: lists of params, grads and states, those not in use None; factors and flags by keyword."""
    flags, first_optional = update.flags, 2 + len(update.states)

    def kernel(*lists, **values):
        options = [name for name, column in zip(update.optional, lists[first_optional:]) if column is not None]
        options += [name for name in flags if values.get(name)]
        variant = VARIANTS[update.name, *options]
        if lists[0]:
            _run(variant, [column for column in lists if column is not None], [values[name] for name in variant.factors])
    return kernel


def _run(variant: Variant, lists: list, factors: list) -> None:
    first = lists[0][0]
    ctx, dtype = context(first.storage.device), first.dtype
    if dtype is not FLOAT32 and dtype is not FLOAT16:
        raise DTypeError(f"{variant.name}: the GPU kernel takes float32 and float16, got {dtype.name}; cast with x.to(volta.float32)")
    itemsize, limit, owned, whole, others = BYTES[dtype.code], max_binding(ctx), [], [], []
    for row in zip(*lists):
        nbytes = itemsize * row[0]._size
        for t in row:
            if t.storage.nbytes != nbytes or not t._contiguous or t.dtype is not dtype:
                (whole if _whole(variant, row, dtype, limit) else others).append(row)
                break
        else:
            (owned if nbytes <= limit else others).append(row)
    # What has its storage to itself, as parameters and states have, may be written over the end by vec4, into the block's padding.
    batches = [(4, owned)] if not whole else [
        (4, owned), (4, [row for row in whole if not row[0]._size & 3]), (1, [row for row in whole if row[0]._size & 3])]
    places = variant.places(ctx.limits["max-storage-buffers-per-shader-stage"])
    for width, rows in batches:
        for start in range(0, len(rows), places):
            some = rows[start:start + places]
            if len(some) > 1:
                _launch_several(ctx, variant, width, some, factors)
            else:
                _launch_one(ctx, variant, some[0], factors, width)
    for row in others:
        copies = [t if t._contiguous else contiguous(t) for t in row]
        _launch_one(ctx, variant, copies, factors)
        for i, (t, copy) in enumerate(zip(row, copies)):
            if copy is not t and i != 1:
                copy_into(t, copy)


def _whole(variant: Variant, row: tuple, dtype, limit: int) -> bool:
    """Whether tensors start where their buffers do, and one binding holds these. Raises: DTypeError where their dtypes differ."""
    for t in row:
        if t.dtype is not dtype:
            raise DTypeError(f"{variant.name}: a list must have one dtype, got {dtype.name} and {t.dtype.name}")
    return all(t._contiguous and not t.offset and t.storage.nbytes <= limit for t in row)


def _launch_several(ctx, variant: Variant, width: int, rows: list, factors: list) -> None:
    """One dispatch for parameters whose tensors start where their buffers do."""
    dtype = rows[0][0].dtype
    key = (variant, ctx, dtype, width, *[row[0]._size for row in rows])
    plan = _plans.get(key)
    if plan is None:
        counts, starts, groups = [], [], 0
        for row in rows:
            counts.append(ceil_div(row[0]._size, width))
            starts.append(groups)
            groups += ceil_div(counts[-1], THREADS)
        pipeline = variant.pipeline(ctx, len(rows), width, dtype)
        plan = pipeline, struct.Struct(pipeline.params_format).pack, (*counts, *starts[1:]), groups
        remember(_plans, key, plan)
    pipeline, pack, lead, groups = plan
    buffers = [row[1].storage.buffer for row in rows]
    for row in rows:
        buffers.append(row[0].storage.buffer)
        for t in row[2:]:
            buffers.append(t.storage.buffer)
    ctx.launch(pipeline, tuple(buffers), _packed(pack, lead, factors), groups)


def _launch_one(ctx, variant: Variant, row, factors: list, width: int | None = None) -> None:
    """Dispatches for one parameter: one, or as many as its largest tensor needs bindings. IN: width, where it is known."""
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
        key = (variant, ctx, row[0].dtype, unit, count, *offsets)
        plan = _plans.get(key)
        if plan is None:
            pipeline = variant.pipeline(ctx, 1, unit, row[0].dtype)
            lead = (ceil_div(count, unit), *[offset // unit for offset in offsets])
            plan = pipeline, struct.Struct(pipeline.params_format).pack, lead, ceil_div(lead[0], THREADS)
            remember(_plans, key, plan)
        pipeline, pack, lead, groups = plan
        ctx.launch(pipeline, (bound[1], bound[0], *bound[2:]), _packed(pack, lead, factors), groups)


def _packed(pack, lead: tuple, factors: list) -> bytes:
    try:
        return pack(*lead, *factors)
    except OverflowError:               # beyond float32: infinite
        return pack(*lead, *[round_float(value) for value in factors])


KERNELS = {name: _kernel(update) for name, update in UPDATES.items()}
