"""Reductions on the GPU: sum, mean, prod, norm2, amax, amin, argmax, argmin, any, all over any dims.

A reduction becomes (outer, reduced, inner) with one stride each; what does not is copied with the reduced dims last. Where
there are too few results to fill the GPU the reduced dim is split, and a second pass reduces the parts.
Must not know the graph.
"""
from __future__ import annotations

import math
import re
from functools import partial

from volta._kernels import core
from volta.devices.gpu.common import BOOL, COMPUTED, FLOAT16, FLOAT32, INT64, STORED, THREADS
from volta.devices.gpu.copy import contiguous, full
from volta.devices.gpu.elementwise import KERNELS as ELEMENTWISE
from volta.devices.gpu.limits import reductions as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, unsigned

WORKGROUPS = 2048           # workgroups at which the largest GPUs are full
SHORT = 8                   # units that a thread adds up sooner than a second pass begins
MOST_LANES = 128            # threads along a reduced dim, of which two columns beside each other are read at once
MANY = 1 << 20              # elements of which narrow columns take longer to read than a second pass
PAIR = "vec2<i32>"          # accumulator of argmax and argmin
PRODUCT = "vec2<f32>"       # accumulator of products: what was rounded off goes along, else products of numbers near 1 lose digits


class Rule:
    """What a reduction does to an element, two partial results and the last one, as WGSL.

    `kind` is the scalar type of the accumulator; `{v}` stands for the accumulator's type, `{w}` for u32 as wide.
    """

    def __init__(self, kind: str, initial: str, enter: str, combine: str, leave: str = "x", result=None):
        self.kind, self.initial, self.enter, self.combine, self.leave, self.result = kind, initial, enter, combine, leave, result


def ordered(name: str, value: str = "{f}(x)") -> str:
    """Floats as integers of the same order; NaN above or below everything."""
    extreme = "0x7fffffff" if name == "max" else "-0x7fffffff - 1"
    bits = f"bitcast<{{v}}>({value})"
    return (f"select({bits} ^ (({bits} >> {{w}}(31u)) & {{v}}(0x7fffffff)), {{v}}({extreme}), "
            f"(bitcast<{{w}}>({value}) & {{w}}(0x7fffffffu)) > {{w}}(0x7f800000u))")


def rule_of(name: str, dtype) -> Rule:
    """The rule of a reduction of elements of `dtype`."""
    floating = dtype.is_floating_point
    kind = COMPUTED[dtype.code]
    if name == "prod" and floating:
        return Rule(PRODUCT, "V({f}(1), {f}(0))", "V({f}(x), {f}(0))", "exact_product(x, y, p.zero)", "with_rest(x)", dtype)
    if name in ("sum", "prod", "mean"):
        sign, zero = ("*", "1") if name == "prod" else ("+", "0")
        kind = "f32" if floating or name == "mean" else "i32"
        result = dtype if floating else FLOAT32 if name == "mean" else INT64
        return Rule(kind, f"{{v}}({zero})", "{v}(x)", f"x {sign} y", "x / p.number" if name == "mean" else "x", result)
    if name == "norm2":
        return Rule(kind, "{v}(0)", "{v}(x) * {v}(x)", "x + y", "sqrt(x)", dtype)
    if name in ("amax", "amin"):
        short = name[1:]
        if floating:
            low = "-0x7fffffff - 1" if short == "max" else "0x7fffffff"
            return Rule("i32", f"{{v}}({low})", ordered(short), f"{short}(x, y)", "from_order(x)", dtype)
        low = {"i32": ("-0x7fffffff - 1", "0x7fffffff"), "u32": ("0u", "0xffffffffu")}[kind][short == "min"]
        return Rule(kind, f"{{v}}({low})", "{v}(x)", f"{short}(x, y)", "x", dtype)
    if name in ("argmax", "argmin"):
        return _argument_rule(name, dtype)
    test = "select({w}(1u), {w}(0u), x == {e}(0))"
    return Rule("u32", "{v}(0u)" if name == "any" else "{v}(1u)", test, "x | y" if name == "any" else "x & y", "x", BOOL)


def _argument_rule(name: str, dtype) -> Rule:
    """Pairs (order, index): the highest order wins, then the lowest index. -0 and 0 are equal."""
    invert = "~" if name == "argmin" else ""
    if dtype.is_floating_point:
        order = ("order_max" if name == "argmax" else "order_min") + "(f32(x))"
        order = f"select({order}, 0, {order} == -1)"
    else:
        order = "i32(x)"
    better = "y.x > x.x || (y.x == x.x && y.y < x.y)"
    return Rule(PAIR, "vec2<i32>(-0x7fffffff - 1, 0x7fffffff)", f"vec2<i32>({invert}{order}, i32(r))",
                f"select(x, y, vec2<bool>({better}))", "x.y", INT64)


def _combined(rule: Rule, a: str, b: str) -> str:
    return "(" + re.sub(r"\b[xy]\b", lambda name: a if name[0] == "x" else b, rule.combine) + ")"


def text_of_leave(rule: Rule, width: int, rows: bool, stored: str, last: bool) -> str:
    """Text of `leave`: folds the four parts of a row, converts where this is the last pass."""
    value = "x"
    if width == 4 and rule.kind == PRODUCT:
        if rows:
            value = "product_of_four(x, p.zero)"
        elif last:
            return "fn leave(x: V) -> O { return O(with_rests(x)); }"
        else:
            value = "transpose(x)"
    elif width == 4 and rows:
        value = _combined(rule, _combined(rule, "x.x", "x.y"), _combined(rule, "x.z", "x.w"))
    if last and rule.leave == "from_order(x)":
        if width == 4 and not rows:
            parts = ", ".join(f"from_order(x.{c})" for c in "xyzw")
            return f"fn leave(x: V) -> O {{ return O(vec4<f32>({parts})); }}"
        return f"fn leave(x: V) -> O {{ return O(from_order({value})); }}"
    if last and rule.leave != "x":
        value = rule.leave.replace("x", value, 1)
    return f"fn leave(x: V) -> O {{ return O({value}); }}"


def fused(ctx) -> bool:
    """Whether fma rounds once: processors that make it of two operations are those of software adapters."""
    return not ctx.info.is_software


def _vector(kind: str, width: int) -> str:
    """The type of so many elements beside each other in memory."""
    if kind == PRODUCT and width == 4:
        return "mat4x2<f32>"
    return f"vec4<{kind}>" if width == 4 else kind


def summing_lanes(units: int) -> int:
    """Threads for a contiguous row that is read once."""
    return row_lanes(units, 8 if units > 512 else 4)


def row_lanes(units: int, each: int = 4) -> int:
    """Threads for a contiguous row of so many units: a power of two, about `each` units a thread."""
    lanes = 1
    while lanes < 256 and lanes * each < units:
        lanes *= 2
    return lanes


def column_lanes(kept: int) -> int:
    """Threads along the reduced dim where positions are neighbours: the fewer positions, the more."""
    lanes = 256
    while lanes > 8 and 256 // lanes < kept:
        lanes //= 2
    return lanes


def splits(kept_groups: int, units: int, lanes: int) -> tuple:
    """(splits, units of a split) that fill the GPU, a multiple of 4 lanes each."""
    wanted = max(1, min(WORKGROUPS // max(kept_groups, 1), units // (8 * lanes)))
    part = -(-units // wanted)
    part = -(-part // (4 * lanes)) * 4 * lanes
    return -(-units // part), part


def widen(geometry, offset: int):
    """(rows, width, geometry) in units of `width` elements: four where alignment allows."""
    (outer, outer_stride), (count, stride), (inner, inner_stride) = geometry
    rows = stride == 1 and (inner == 1 or inner_stride != 1)
    if offset % 4 or (outer > 1 and outer_stride % 4):
        return rows, 1, geometry
    if rows and count % 4 == 0 and (inner == 1 or inner_stride % 4 == 0):
        return rows, 4, ((outer, outer_stride // 4), (count // 4, 1), (inner, inner_stride // 4))
    if not rows and inner_stride == 1 and inner % 4 == 0 and stride % 4 == 0:
        return rows, 4, ((outer, outer_stride // 4), (count, stride // 4), (inner // 4, 1))
    return rows, 1, geometry


def _add_pass(plan: Plan, rule: Rule, geometry, offset: int, loaded: str, out_stored: str, number: float, source: int | None = None):
    """The pass over (outer, reduced, inner) as ((n, stride), ...), which writes the output unless it leaves parts.

    IN: loaded, type of an element of the input; source, the buffer of parts that an earlier pass left, None for the operand.
    Gives (buffer, parts, results of a part) of what it leaves, None where it is the last.
    """
    raw = source is None
    rows, width = geometry[1][1] == 1 and (geometry[2][0] == 1 or geometry[2][1] != 1), 1
    if rule.kind != PAIR:
        rows, width, geometry = widen(geometry, offset)
    (outer, outer_stride), (count, stride), (inner, inner_stride) = geometry
    kept = outer * inner
    lanes = summing_lanes(count) if rows else min(column_lanes(kept) if raw else THREADS, 1 << max(count - 1, 1).bit_length())
    blocks = -(-kept // (THREADS // lanes))
    several, part = splits(blocks, count, lanes)
    if several > 1 and not rows and count <= SHORT * MOST_LANES and kept * count * width <= MANY:
        lanes, several, part = 1 << (-(-count // SHORT) - 1).bit_length(), 1, count
        blocks = -(-kept // (THREADS // lanes))
    last = several == 1
    results = kept * (4 if width == 4 and not rows else 1)
    target = 1 if last else plan.scratch(several * results * (8 if rule.kind in (PAIR, PRODUCT) else 4))
    products = rule.kind == PRODUCT and width == 4
    names = {"v": "mat2x4<f32>" if products else _vector(rule.kind, width), "w": _vector("u32", width), "e": _vector(loaded, width),
             "f": _vector("f32", width)}
    enter = rule.enter.format(**names) if raw else "transpose(x)" if products else "x"
    combine = rule.combine.replace("exact_product", "exact_products") if products else rule.combine
    special = {}
    if rule.kind == PRODUCT:
        special["FUSED"] = fused(plan.ctx)
        if raw:
            special["two"] = "exact_first_product{s}({f}(x), {f}(y), p.zero)".format(s="s" * products, **names)
    plan.step(
        "reduce/reduce", (0 if raw else source, target),
        (kept, inner, *unsigned((outer_stride, inner_stride, stride)), At(0, width) if raw else 0, count, part, 0, 0, number, 0),
        blocks * several, E=names["e"], V=names["v"], W=names["w"], LANES=lanes, ADJACENT=rows,
        O=_vector(out_stored if last else rule.kind, 1 if rows else width),
        initial=f"fn initial() -> V {{ return {rule.initial.format(**names)}; }}",
        enter=f"fn enter(x: E, r: u32) -> V {{ return {enter}; }}",
        combine=f"fn combine(x: V, y: V) -> V {{ return {combine}; }}",
        leave=text_of_leave(rule, width, rows, out_stored, last), **special)
    return None if last else (target, several, results)


def groups(shape: tuple, strides: tuple, dim: tuple):
    """((outer, stride), (reduced, stride), (inner, stride)), or None where the dims do not collapse so."""
    sections: list = []             # (is reduced, size, stride)
    for d, (n, s) in enumerate(zip(shape, strides)):
        if n == 1:
            continue
        reduced = d in dim
        if sections and sections[-1][0] == reduced and sections[-1][2] == s * n:
            sections[-1] = (reduced, sections[-1][1] * n, s)
        else:
            sections.append((reduced, n, s))
    kinds = [reduced for reduced, _, _ in sections]
    if kinds.count(True) > 1 or len(kinds) > 3 or (len(kinds) == 2 and True not in kinds) or (len(kinds) == 3 and not kinds[1]):
        return None
    if True not in kinds:
        if len(kinds) > 1:
            return None
        sections.append((True, 1, 1))
        kinds.append(True)
    at = kinds.index(True)
    outer = sections[at - 1][1:] if at else (1, 0)
    inner = sections[at + 1][1:] if at + 1 < len(sections) else (1, 0)
    return outer, sections[at][1:], inner


def _reduced_last(x, dim: tuple):
    """Contiguous copy with the reduced dims last."""
    order = [d for d in range(len(x.shape)) if d not in dim] + list(dim)
    return contiguous(core.view(x, tuple(x.shape[d] for d in order), tuple(x._strides[d] for d in order), x.offset))


EMPTY = {"sum": 0, "mean": math.nan, "prod": 1, "any": False, "all": True}


def _plan(name: str, x, *, dim, keepdim):
    dims = dim if type(dim) is tuple else (dim,)
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims)
    rule = rule_of(name, x.dtype)
    if x._size == 0:
        return lambda x, dim, keepdim: full(shape, EMPTY.get(name, 0), rule.result, x.storage.device)
    geometry = groups(x.shape, x._strides, dims)
    if geometry is None:
        return partial(_permuted, name)
    plan = Plan(x)
    plan.output(shape, rule.result)
    stored, number = STORED[rule.result.code], float(math.prod(x.shape[d] for d in dims))
    reduce_parts(plan, rule, _add_pass(plan, rule, geometry, x.offset, STORED[x.dtype.code], stored, number), stored, number)
    return plan


def reduce_parts(plan: Plan, rule: Rule, left: tuple | None, stored: str, number: float) -> None:
    """The passes over what a pass left: (buffer, parts, results of a part), None where it was the last."""
    while left is not None:
        source, parts, kept = left
        again = ((1, 0), (parts, kept), (kept, 1)) if kept > 1 else ((1, 0), (parts, 1), (1, 0))
        left = _add_pass(plan, rule, again, 0, rule.kind, stored, number, source)


def _permuted(name: str, x, dim, keepdim):
    """Over dims that do not collapse: run by run where the parts lose nothing, else of a copy with those dims last."""
    dims = dim if type(dim) is tuple else (dim,)
    shape = tuple(1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims)
    run = dims[-1:]
    while len(run) < len(dims) and dims[-len(run) - 1] == run[0] - 1:
        run = dims[-len(run) - 1:]
    if len(run) < len(dims) and x.dtype is not FLOAT16 and name != "mean":
        part = KERNELS[name](x, run, True)
        return core.reshaped(KERNELS[name](part, dims[:-len(run)], True), shape)
    count = math.prod(x.shape[d] for d in dims)
    if len(run) < len(dims) and x.dtype is FLOAT32:      # mean
        return core.reshaped(ELEMENTWISE["div"](KERNELS["sum"](x, dims, True), float(count)), shape)
    rows = core.reshaped(_reduced_last(x, dims), (x._size // count, count))
    return core.reshaped(KERNELS[name](rows, 1 if dim is not dims else (1,), False), shape)


KERNELS = {name: Kernel(name, partial(_plan, name), strided=(0,), cut=partial(cuts.reduction, name))
           for name in ("sum", "mean", "prod", "norm2", "amax", "amin", "any", "all")}
KERNELS.update({name: Kernel(name, partial(_plan, name), strided=(0,), cut=partial(cuts.argument, name)) for name in ("argmax", "argmin")})
