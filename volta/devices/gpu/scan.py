"""Scans on the GPU: lines side by side; where they are few and long also in parts, whose totals come first."""
from __future__ import annotations

from functools import partial
from math import prod
from typing import NamedTuple

from volta._kernels import core
from volta.devices.gpu.common import INT64, STORED, THREADS, ceil_div
from volta.devices.gpu.copy import cast, cat
from volta.devices.gpu.limits.cut import call, halves, narrow, part, refuse
from volta.devices.gpu.plans import At, Kernel, Plan
from volta.devices.gpu.reduce import fused

WORKGROUPS = 2048           # wanted where lines are long
SHORTEST = 4                # steps of a workgroup that a part of a line has at least
WIDE, WIDE_ITEMS = 1 << 15, 4       # elements of a line from which it is scanned by vectors, and vectors of a thread


class Rule(NamedTuple):
    """What a scan combines: WGSL of the running values, of an element `x` at `i` as one, and of one as a result."""

    kind: str
    size: int               # bytes of a running value
    initial: str
    enter: str
    combine: str
    leave: str
    result: object          # dtype
    ordered: bool = False   # whether combining does not commute
    exact: bool = False     # whether what is rounded off goes along, of which a result is one number (reduce.PRODUCT)


_FOLDS = {"cumsum": ("0", "return a + b;"), "cumprod": ("1", "return a * b;"),
          "logcumsumexp": ("-inf()", "let top = max_nan(a, b); if (!is_finite(top)) { return top; } "
                                     "return top + log1p_accurate(exp_accurate(min(a, b) - top));")}
# The place of the extreme goes along with its rank: the last of equal ones wins, NaN is beyond all, and -0 equals 0.
_RANK = "order_max({}bitcast<f32>(select(bitcast<u32>(f32(x)), 0u, bitcast<u32>(f32(x)) == 0x80000000u)))"
_LINEAR = "return V(b.x * a.x, b.x * a.y + b.y);"            # of two steps y -> factor * y + term; the first element has no factor
_NEXT = "running_product(a, V({0}, 0), exact_next_product(a, {0}, p.zero))"          # of running products
_LAST = "running_product(a, b, V(last_product(a, b), 0)).x"
_LATER = "return select(a, b, b.y >= 0 && (a.y < 0 || b.x > a.x || (b.x == a.x && b.y > a.y)));"


def _rule(name: str, dtype) -> Rule:
    floating = dtype.is_floating_point
    if name == "cumprod" and floating:                  # what was rounded off goes along, as in reduce.PRODUCT
        return Rule("vec2<f32>", 8, "vec2<f32>(1, 0)", "f32(x)", "return running_product(a, b, exact_product(a, b, p.zero));",
                    f"{STORED[dtype.code]}(s)", dtype, exact=True)
    if name in _FOLDS:
        initial, combine = _FOLDS[name]
        kind, result = ("f32", dtype) if floating else ("i32", INT64)
        return Rule(kind, 4, f"{kind}({initial})", f"{kind}(x)", combine, f"{STORED[result.code]}(s)", result)
    if name == "recurrence":
        return Rule("vec2<f32>", 8, "vec2<f32>(1, 0)", "V(f32(select(x.x, 0, i == 0u)), f32(x.y))", _LINEAR,
                    f"{STORED[dtype.code]}(s.y)", dtype, ordered=True)
    rank = _RANK.format("") if floating else "i32(x)"
    if name == "cummin":
        rank = _RANK.format("-") if floating else "~i32(x)"
    return Rule("vec2<i32>", 8, "vec2<i32>(0, -1)", f"vec2<i32>({rank}, i32(i))", _LATER, "s.y", INT64)


def _scan(name: str, x, *, dim):
    """The scan along `dim`; of a recurrence, whose factors and terms lie side by side along the last dimension, of such pairs."""
    rule, stored = _rule(name, x.dtype), STORED[x.dtype.code]
    shape = x.shape
    if name == "recurrence":
        shape, stored = shape[:-1], f"vec2<{stored}>"
    length, inner = (shape[dim], prod(shape[dim + 1:])) if shape else (1, 1)
    plan = Plan(x)
    plan.output(shape, rule.result)
    if not x._size:
        return plan
    lines, lanes, adjacent, items = prod(shape) // length, 1, inner == 1, _items(rule)
    if adjacent and length >= WIDE and not (length % 4 or x.offset % 4) and name in _FOLDS:
        return _add_wide(plan, rule, x.dtype, lines, length // 4)
    while lanes < (THREADS if adjacent or lanes * lines < THREADS else 8) and items * lanes < length:
        lanes *= 2
    step, blocks = items * lanes, ceil_div(lines, THREADS // lanes)
    size = ceil_div(length, min(ceil_div(WORKGROUPS, blocks), max(length // (SHORTEST * step), 1)))
    size = ceil_div(size, step) * step
    launch = partial(_add, plan, rule, lines, inner, lanes, adjacent, items)
    parts = ceil_div(length, size)
    if parts == 1:
        launch(None, 1, stored, length, size, 1, ONCE=size == step)
        return plan
    totals = plan.scratch(rule.size * parts * lines)
    launch(None, totals, stored, length, size, parts, TOTALS=True, ORDERED=rule.ordered)
    launch(totals, 1, stored, length, size, parts, CARRIED=True)
    return plan


def _add_wide(plan: Plan, rule: Rule, dtype, lines: int, length: int) -> Plan:
    """Long lines, by vectors."""
    step = WIDE_ITEMS * THREADS
    size = ceil_div(ceil_div(length, ceil_div(WORKGROUPS, lines)), step) * step
    parts = ceil_div(length, size)
    number = "f32" if rule.exact else rule.kind
    rules = {"N": STORED[dtype.code], "E": f"vec4<{STORED[dtype.code]}>", "V": rule.kind, "S": number, "R": f"vec4<{number}>",
             "F": "mat4x2<f32>" if rule.exact else f"vec4<{number}>", "ITEMS": WIDE_ITEMS,
             "initial": f"fn initial() -> V {{ return {rule.initial}; }}",
             "enter": f"fn enter(x: N) -> V {{ return {'V(f32(x), 0)' if rule.exact else rule.enter}; }}",
             "combine": f"fn combine(a: V, b: V) -> V {{ {rule.combine} }}"}
    if rule.exact:
        rules.update(FUSED=fused(plan.ctx), next_of=_NEXT.format("f32(b)"), last=_LAST)
    totals, words, kind = None, (lines, length, At(0, 4), size, parts, 0), f"vec4<{STORED[rule.result.code]}>"
    if parts > 1:
        totals = plan.scratch(rule.size * parts * lines)
        plan.step("scan/wide", (0, None, totals), words, lines * parts, TOTALS=True, O=rule.kind,
                  leave="O(v[0])" if not rule.exact else "O(v[0], 0)", **rules)
    plan.step("scan/wide", (0, totals, 1), words, lines * parts, CARRIED=parts > 1, O=kind, leave_total="return O();", **rules)
    return plan


def _items(rule: Rule) -> int:
    """Elements of a thread that workgroup memory holds on any adapter; a power of two up to 32."""
    return 32 // (4 if rule.exact else rule.size)


def _add(plan: Plan, rule: Rule, lines: int, inner: int, lanes: int, adjacent: bool, items: int, totals, target: int, stored: str,
         length: int, size: int, parts: int, **overrides) -> None:
    """One dispatch, into running values or the results."""
    last = target == 1
    if rule.exact:
        overrides.update(FUSED=fused(plan.ctx), S="f32", narrow="with_rest(v)", widen="V(s, 0)", next_of=_NEXT.format("b"), last=_LAST)
    else:
        overrides["S"] = rule.kind
    if not last:
        overrides["leave_total"] = "v"
    plan.step("scan/scan", (0, totals, target), (lines, length, inner, At(0), size, parts, 0), ceil_div(lines, THREADS // lanes) * parts,
              E=stored, V=rule.kind, O=STORED[rule.result.code] if last else rule.kind, LANES=lanes, ADJACENT=adjacent, ITEMS=items,
              initial=f"fn initial() -> V {{ return {rule.initial}; }}", enter=f"fn enter(x: E, i: u32) -> S {{ return {rule.enter}; }}",
              combine=f"fn combine(a: V, b: V) -> V {{ {rule.combine} }}",
              leave=f"fn leave(s: S) -> O {{ return {rule.leave if last else 'widen(s)'}; }}", **overrides)


# ---------------------------------------------------------------- beyond one binding

def _cut(name: str, run, x, *, dim):
    """By another dimension; one line alone in halves, the second of which begins with what the first comes to."""
    paired = name == "recurrence"
    other = next((d for d, n in enumerate(x.shape[:-1] if paired else x.shape) if d != dim and n > 1), None)
    if other is not None:
        return halves(run, (x,), {"dim": dim}, (other,), other)
    length, half = x.shape[dim], x.shape[dim] // 2
    if length < 4:
        refuse(x)
    first, rest = run(part(x, dim, 0, half), dim=dim), part(x, dim, half, length)
    last = part(first, dim, half - 1, half)
    if name in _FOLDS or paired:
        rest = run(cat(_pairs(last, last) if paired else last, cast(rest, last.dtype), dim=dim), dim=dim)
        return cat(first, narrow(rest, dim, 1, length - half + 1), dim=dim)
    rest = run(cat(call("gather", part(x, dim, 0, half), last, dim=dim), rest, dim=dim), dim=dim)
    rest = call("where", call("eq", rest, 0), last, call("add", rest, half - 1))
    return cat(first, narrow(rest, dim, 1, length - half + 1), dim=dim)


def _pairs(a, b):
    """Elements of both side by side, along a new last dimension."""
    return cat(*[core.view(x, x.shape + (1,), x._strides + (1,), x.offset) for x in (a, b)], dim=a.ndim)


def _extremes(places, x, *, dim):
    indices = places(x, dim=dim)
    return call("gather", x, indices, dim=dim), indices


_RECURRENCE = Kernel("recurrence", partial(_scan, "recurrence"), cut=partial(_cut, "recurrence"))
_SCANS = {name: Kernel(name, partial(_scan, name), cut=partial(_cut, name)) for name in (*_FOLDS, "cummax", "cummin")}
KERNELS = _SCANS | {name: partial(_extremes, _SCANS[name]) for name in ("cummax", "cummin")}
KERNELS["recurrence"] = lambda a, b, *, dim: _RECURRENCE(_pairs(a, b), dim=dim)
