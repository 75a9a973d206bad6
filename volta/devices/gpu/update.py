"""Optimizer updates, and clipping, on the GPU: WGSL made of the formulas of `ops/records/update.py`, in place, over many tensors a
dispatch."""
from __future__ import annotations

import re
from functools import cache

from volta.devices.gpu.common import FLOAT16, FLOAT32, context, max_binding
from volta.devices.gpu.copy import cast, contiguous, copy_into
from volta.devices.gpu.many import MAIN, Work, cases, packed
from volta.ops.records.update import UPDATES

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

fn clamped(factor: f32, x: V) -> V {{ // NaN stays
    return select(clamp(x, V(-factor), V(factor)), x, (bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u));
}}

fn scaled(factor: f32, x: V) -> V {{
    return select(V(0.0), factor * x, factor != 0.0);
}}

fn update({arguments}) -> Next {{
{formula}
    return Next({results});
}}

""" + MAIN + """    let i = (group - start) * {threads}u + local;
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


class Variant(Work):
    """One combination of optional states and flags of an update."""

    def __init__(self, update, tensors: tuple, options: frozenset) -> None:
        self.statements, self.assigned, self.scalars = update.statements(options), update.names(options), update.scalars
        read = {name for _, expression in self.statements for name in re.findall(r"\w+", expression)}
        super().__init__(update.name, tensors, tuple([name for name in update.reads if name in tensors]),
                         tuple([name for name in update.factor_names if name in read]), beside=len(update.scalars))
        self.label = f"{update.name}({', '.join(sorted(options))})"

    @cache                      # noqa: B019 (there are as many as updates, for ever)
    def text(self, label: str, count: int, width: int, dtype) -> str:
        """The shader, behind the prelude."""
        wide = "vec4<{}>".format if width == 4 else str
        written = [name for name in self.tensors if name not in self.reads]
        formula = [f"let {name} = p.{name};" for name in self.factors] + [f"let {name} = of_{name}[0];" for name in self.scalars]
        formula += [f"var {name} = old_{name};" for name in self.tensors]
        formula += [f"var {name}: V;" for name in self.assigned if name not in self.tensors]
        formula += [f"{name} = {expression};" for name, expression in self.statements]
        return TEXT.format(
            label=label, stored=wide("f16" if dtype is FLOAT16 else "f32"), computed=wide("f32"), bits=wide("u32"),
            **self.table(count, tuple([("read", f"of_{name}", "f32") for name in self.scalars])),
            fields=", ".join(f"{name}: V" for name in written), results=", ".join(written),
            arguments=", ".join(f"old_{name}: V" for name in self.tensors), formula="\n".join(f"    {line}" for line in formula),
            variables="\n".join(f"    var {name}: S;" for name in self.tensors), converted=", ".join(f"V({name})" for name in self.tensors),
            loads=cases(count, [f"{name} = {self.at(name, count)};" for name in self.tensors]),
            stores=cases(count, [f"{self.at(name, count)} = S(next.{name});" for name in written]))


VARIANTS = {(update.name, *[name for name in update.optional + update.flags if name in options]): Variant(update, tensors, options)
             for update in UPDATES.values() for tensors, options in update.variants()}


def _kernel(update):
    """The kernel of an update: lists of its tensors, those not in use None, and its scalars; factors and flags by keyword."""
    flags, columns, first_optional = update.flags, len(update.tensors), len(update.tensors) - len(update.optional)

    def kernel(*inputs, **values):
        lists = inputs[:columns]
        options = [name for name, column in zip(update.optional, lists[first_optional:]) if column is not None]
        options += [name for name in flags if values.get(name)]
        variant = VARIANTS[update.name, *options]
        if lists[0]:
            _run(variant, [column for column in lists if column is not None], inputs[columns:], [values[name] for name in variant.factors])
    return kernel


def _run(variant: Variant, lists: list, scalars: tuple, factors: list) -> None:
    ctx = context(lists[0][0].storage.device)
    beside = [_alone(t, ctx).storage.buffer for t in scalars]
    found, copied = variant.launches(lists)
    for pipeline, pack, lead, groups, buffers in found:
        ctx.launch(pipeline, (*beside, *buffers), packed(pack, lead, factors), groups)
    for t, i, copy in copied:
        if variant.tensors[i] not in variant.reads:
            copy_into(t, copy)


def _alone(t, ctx):
    """The scalar as float32 at the beginning of a buffer that can be bound."""
    if t.dtype is not FLOAT32:
        return cast(t, FLOAT32)
    return contiguous(t) if t.offset or t.storage.nbytes > max_binding(ctx) else t


KERNELS = {name: _kernel(update) for name, update in UPDATES.items()}
