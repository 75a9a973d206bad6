"""The norm of many tensors together on the GPU: parts of all of them, a workgroup each, in as few dispatches as bindings allow, then what
the parts come to. By the rules of `reduce.py`, over the table of `many.py`; floats are summed in float32, in a fixed order."""
from __future__ import annotations

import math
from functools import cache

from volta.devices.gpu.common import FLOAT16, FLOAT32, STORED, THREADS, context, new
from volta.devices.gpu.copy import full
from volta.devices.gpu.many import MAIN, Work, cases, packed
from volta.devices.gpu.plans import Plan, remember
from volta.devices.gpu.reduce import Rule, ordered, reduce_parts, rule_of, text_of_leave

TEXT = """// {label}: what the elements of many tensors come to in a norm; a result of each workgroup.
// Launch: x = sum of ceil(units / {part}) workgroups of {threads}; a unit is one S; counts are in elements, offsets in S's.
alias S = {stored};
alias V = {accumulated};
alias F = {floats};
alias O = {kind};
struct Params {{ {params} }}
var<immediate> p: Params;
{bindings}
var<workgroup> sums: array<V, {threads}>;

fn power(x: F) -> F {{ return {power}; }}
fn initial() -> V {{ return {initial}; }}
fn enter(x: S) -> V {{ return {enter}; }}
fn combine(x: V, y: V) -> V {{ return {combine}; }}
{leave}

""" + MAIN + """    let first = (group - start) * {part}u;
    let last = (max(count, 1u) - 1u) / {width}u;
    let i = first + local;
{variables}
    switch slot {{
{loads}
    }}
    var acc = initial();
{sums}
    sums[local] = acc;
    for (var half = {threads}u / 2u; half > 0u; half = half / 2u) {{
        workgroupBarrier();
        if (local < half) {{
            acc = combine(acc, sums[local + half]);
            sums[local] = acc;
        }}
    }}
    if (local == 0u && first * {width}u < count) {{ parts[p.base + group] = leave(acc); }}
}}
"""


class Parts(Work):
    """The parts of a norm: by its order, or for any other number by powers."""

    each = 8
    overhang = True

    def __init__(self, order: float | None) -> None:
        super().__init__(f"total_norm({'p' if order is None else order})", ("m",), ("m",), ("number",), ("base",), 1)
        self.rule = _rule(order)

    @cache                      # noqa: B019 (there are as many as orders that have a rule, for ever)
    def text(self, label: str, count: int, width: int, dtype) -> str:
        """The shader, behind the prelude."""
        rule, wide, units = self.rule, "vec4<{}>".format if width == 4 else str, range(self.each)
        names = {"v": wide(rule.kind), "w": wide("u32"), "f": wide("f32")}
        behind = "vec4<u32>(4u * {0}) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(count)" if width == 4 else "{0} < count"
        at = [f"(i + {THREADS * j}u)" for j in units]
        return TEXT.format(
            label=label, part=self.each * THREADS, width=width, stored=wide("f16" if dtype is FLOAT16 else "f32"), accumulated=names["v"],
            floats=names["f"], kind=rule.kind, **self.table(count, (("read_write", "parts", "O"),)),
            power=f"F({', '.join(f'pow_torch(x.{c}, p.number)' for c in 'xyzw')})" if width == 4 else "pow_torch(x, p.number)",
            initial=rule.initial.format(**names), enter=rule.enter.format(**names), combine=rule.combine,
            leave=text_of_leave(rule, width, True, "", False), variables="\n".join(f"    var x{j}: S;" for j in units),
            loads=cases(count, ["x{} = {};".format(j, self.at("m", count, f"min({at[j]}, last)")) for j in units]),
            sums="\n".join(f"    acc = combine(acc, select(initial(), enter(x{j}), {behind.format(at[j])}));" for j in units))


def _rule(order: float | None) -> Rule:
    if order is not None and math.isinf(order):
        extreme = rule_of("amax" if order > 0 else "amin", FLOAT32)
        return Rule("i32", extreme.initial, ordered("max" if order > 0 else "min", "abs({f}(x))"), extreme.combine, extreme.leave)
    powers = "power(abs({f}(x)))", "pow_torch(x, p.number)"
    enter, leave = {1.0: ("abs({f}(x))", "x"), 2.0: ("{f}(x) * {f}(x)", "sqrt(x)")}.get(order, powers)
    return Rule("f32", "{v}(0)", enter, "x + y", leave)


_WORK = {order: Parts(order) for order in (1.0, 2.0, math.inf, -math.inf, None)}
_ends: dict = {}


def total_norm(*tensors, order):
    """The norm of `order`, which is not 0, of all elements of tensors of one dtype, as a tensor without dimensions."""
    work, device, dtype = _WORK.get(order, _WORK[None]), tensors[0].storage.device, tensors[0].dtype
    ctx, (found, _), total = context(device), work.launches([tensors]), 0
    if not found:
        return full((), 0.0, dtype, device)
    parts = new(device, (sum([groups for _, _, _, groups, _ in found]),), FLOAT32)
    for pipeline, pack, lead, groups, buffers in found:
        ctx.launch(pipeline, (*buffers, parts.storage.buffer), packed(pack, (*lead, total), [order]), groups)
        total += groups
    key = work, ctx, dtype, order, total
    plan = _ends.get(key)
    if plan is None:
        plan = Plan(parts)
        plan.output((), dtype)
        reduce_parts(plan, work.rule, (0, total, 1), STORED[dtype.code], 1.0 / order)
        remember(_ends, key, plan)
    return plan(parts)


KERNELS = {"total_norm": total_norm}
