"""Reductions on the GPU: sum, mean, prod, amax, amin, argmax, argmin, any, all over any dims.

A reduction becomes (outer, reduced, inner) with one stride each; what does not is copied with the reduced dims last. Where
there are too few results to fill the GPU the reduced dim is split, and a second pass reduces the parts.
Must not know the graph.
"""
from __future__ import annotations

import math
import re
from functools import lru_cache, partial

from volta._kernels import core
from volta.devices.gpu.common import BOOL, BYTES, COMPUTED, FLOAT16, FLOAT32, INT64, STORED, THREADS, context, max_binding, pack
from volta.devices.gpu.copy import cat, contiguous, full
from volta.devices.gpu.elementwise import KERNELS as ELEMENTWISE

WORKGROUPS = 2048           # workgroups at which the largest GPUs are full
PART = 2048                 # least units that a split is worth
CACHE_LIMIT = 4096
PAIR = "vec2<i32>"          # accumulator of argmax and argmin


class Rule:
    """What a reduction does to an element, two partial results and the last one, as WGSL.

    `kind` is the scalar type of the accumulator; `{v}` stands for the accumulator's type, `{w}` for u32 as wide.
    """

    def __init__(self, kind: str, initial: str, enter: str, combine: str, leave: str = "x", result=None):
        self.kind, self.initial, self.enter, self.combine, self.leave, self.result = kind, initial, enter, combine, leave, result


def _order(name: str) -> str:
    """Floats as integers of the same order; NaN above or below everything."""
    extreme = "0x7fffffff" if name == "max" else "-0x7fffffff - 1"
    bits = "bitcast<{v}>({f}(x))"
    return (f"select({bits} ^ (({bits} >> {{w}}(31u)) & {{v}}(0x7fffffff)), {{v}}({extreme}), "
            "(bitcast<{w}>({f}(x)) & {w}(0x7fffffffu)) > {w}(0x7f800000u))")


def _rule(name: str, dtype) -> Rule:
    """The rule of a reduction of elements of `dtype`."""
    floating = dtype.code >= 4
    kind = COMPUTED[dtype.code]
    if name in ("sum", "prod", "mean"):
        sign, zero = ("*", "1") if name == "prod" else ("+", "0")
        kind = "f32" if floating or name == "mean" else "i32"
        result = dtype if floating else FLOAT32 if name == "mean" else INT64
        return Rule(kind, f"{{v}}({zero})", "{v}(x)", f"x {sign} y", "x / p.number" if name == "mean" else "x", result)
    if name in ("amax", "amin"):
        short = name[1:]
        if floating:
            low = "-0x7fffffff - 1" if short == "max" else "0x7fffffff"
            return Rule("i32", f"{{v}}({low})", _order(short), f"{short}(x, y)", "from_order(x)", dtype)
        low = {"i32": ("-0x7fffffff - 1", "0x7fffffff"), "u32": ("0u", "0xffffffffu")}[kind][short == "min"]
        return Rule(kind, f"{{v}}({low})", "{v}(x)", f"{short}(x, y)", "x", dtype)
    if name in ("argmax", "argmin"):
        return _argument_rule(name, dtype)
    test = "select({w}(1u), {w}(0u), x == {e}(0))"
    return Rule("u32", "{v}(0u)" if name == "any" else "{v}(1u)", test, "x | y" if name == "any" else "x & y", "x", BOOL)


def _argument_rule(name: str, dtype) -> Rule:
    """Pairs (order, index): the highest order wins, then the lowest index. -0 and 0 are equal."""
    invert = "~" if name == "argmin" else ""
    if dtype.code >= 4:
        order = ("order_max" if name == "argmax" else "order_min") + "(f32(x))"
        order = f"select({order}, 0, {order} == -1)"
    else:
        order = "i32(x)"
    better = "y.x > x.x || (y.x == x.x && y.y < x.y)"
    return Rule(PAIR, "vec2<i32>(-0x7fffffff - 1, 0x7fffffff)", f"vec2<i32>({invert}{order}, i32(r))",
                f"select(x, y, vec2<bool>({better}))", "x.y", INT64)


def _combined(rule: Rule, a: str, b: str) -> str:
    return "(" + re.sub(r"\b[xy]\b", lambda name: a if name[0] == "x" else b, rule.combine) + ")"


def _leave(rule: Rule, width: int, rows: bool, stored: str, last: bool) -> str:
    """Text of `leave`: folds the four parts of a row, converts where this is the last pass."""
    value = "x"
    if width == 4 and rows:
        value = _combined(rule, _combined(rule, "x.x", "x.y"), _combined(rule, "x.z", "x.w"))
    if last and rule.leave == "from_order(x)":
        if width == 4 and not rows:
            parts = ", ".join(f"from_order(x.{c})" for c in "xyzw")
            return f"fn leave(x: V) -> O {{ return O(vec4<f32>({parts})); }}"
        return f"fn leave(x: V) -> O {{ return O(from_order({value})); }}"
    if last and rule.leave != "x":
        value = rule.leave.replace("x", value, 1)
    return f"fn leave(x: V) -> O {{ return O({value}); }}"


def _vector(kind: str, width: int) -> str:
    return f"vec4<{kind}>" if width == 4 else kind


class Pass:
    """One launch: pipeline, parameters, grid, and the shape of what it writes (splits, kept)."""

    __slots__ = ("pipeline", "params", "groups", "splits", "kept", "partial", "nbytes")


def row_lanes(units: int) -> int:
    """Threads for a contiguous row of so many units: a power of two, about four units each."""
    lanes = 1
    while lanes < 256 and lanes * 4 < units:
        lanes *= 2
    return lanes


def column_lanes(kept: int) -> int:
    """Threads along the reduced dim where positions are neighbours: the fewer positions, the more."""
    lanes = 256
    while lanes > 8 and 256 // lanes < kept:
        lanes //= 2
    return lanes


def _splits(kept_groups: int, units: int, lanes: int) -> tuple:
    """(splits, units of a split) that fill the GPU, a multiple of 4 lanes each."""
    wanted = max(1, min(WORKGROUPS // max(kept_groups, 1), units // (8 * lanes)))
    part = -(-units // wanted)
    part = -(-part // (4 * lanes)) * 4 * lanes
    return -(-units // part), part


def _widen(geometry, offset: int):
    """(rows, width, geometry, offset) in units of `width` elements: four where alignment allows."""
    (outer, outer_stride), (count, stride), (inner, inner_stride) = geometry
    rows = stride == 1 and (inner == 1 or inner_stride != 1)
    if offset % 4 or (outer > 1 and outer_stride % 4):
        return rows, 1, geometry, offset
    if rows and count % 4 == 0 and (inner == 1 or inner_stride % 4 == 0):
        return rows, 4, ((outer, outer_stride // 4), (count // 4, 1), (inner, inner_stride // 4)), offset // 4
    if not rows and inner_stride == 1 and inner % 4 == 0 and stride % 4 == 0:
        return rows, 4, ((outer, outer_stride // 4), (count, stride // 4), (inner // 4, 1)), offset // 4
    return rows, 1, geometry, offset


def _make_pass(ctx, rule: Rule, geometry, offset: int, loaded: str, raw: bool, out_stored: str, number: float) -> Pass:
    """The pass over (outer, reduced, inner) as ((n, stride), ...).

    IN: loaded: type of an element of the input; raw: those are the tensor's, else parts of the rule's kind.
    """
    rows, width = geometry[1][1] == 1 and (geometry[2][0] == 1 or geometry[2][1] != 1), 1
    if rule.kind != PAIR:
        rows, width, geometry, offset = _widen(geometry, offset)
    (outer, outer_stride), (count, stride), (inner, inner_stride) = geometry
    kept = outer * inner
    lanes = row_lanes(count) if rows else min(column_lanes(kept), 1 << max(count - 1, 1).bit_length())
    blocks = -(-kept // (THREADS // lanes))
    splits, part = _splits(blocks, count, lanes)
    last = splits == 1
    names = {"v": _vector(rule.kind, width), "w": _vector("u32", width), "e": _vector(loaded, width), "f": _vector("f32", width)}
    enter = rule.enter.format(**names) if raw else "x"
    out = _vector(out_stored if last else rule.kind, 1 if rows else width)
    made = Pass()
    made.pipeline = ctx.pipeline(
        "reduce/reduce", E=names["e"], V=names["v"], W=names["w"], O=out, LANES=lanes, ADJACENT=rows,
        initial=f"fn initial() -> V {{ return {rule.initial.format(**names)}; }}",
        enter=f"fn enter(x: E, r: u32) -> V {{ return {enter}; }}",
        combine=f"fn combine(x: V, y: V) -> V {{ return {rule.combine}; }}",
        leave=_leave(rule, width, rows, out_stored, last))
    made.params = pack(kept, inner, outer_stride, inner_stride, stride, offset, count, part, 0, 0, number, 0)
    made.groups = blocks * splits
    made.splits, made.kept = splits, kept * (4 if width == 4 and not rows else 1)
    made.partial = not last
    made.nbytes = made.splits * made.kept * (8 if rule.kind == PAIR else 4)     # of the parts
    return made


def _make_passes(ctx, rule: Rule, geometry, offset: int, dtype, out_stored: str, number: float) -> list:
    """All passes: the first over the input, each further one over the parts of the one before."""
    passes = [_make_pass(ctx, rule, geometry, offset, STORED[dtype.code], True, out_stored, number)]
    while passes[-1].partial:
        parts, kept = passes[-1].splits, passes[-1].kept
        again = ((1, 0), (parts, kept), (kept, 1)) if kept > 1 else ((1, 0), (parts, 1), (1, 0))
        passes.append(_make_pass(ctx, rule, again, 0, rule.kind, False, out_stored, number))
    return passes


@lru_cache(maxsize=CACHE_LIMIT)
def _groups(shape: tuple, strides: tuple, dim: tuple):
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


class Reduction:
    """Kernel of one reduction."""

    empty = {"sum": 0, "mean": math.nan, "prod": 1, "any": False, "all": True}

    def __init__(self, name: str):
        self.name = name
        self.argument = name.startswith("arg")
        self.plans: dict = {}

    def __repr__(self):
        return f"<GPU kernel {self.name}>"

    def __call__(self, x, dim, keepdim):
        if self.argument:
            dim = (dim,)
        plan = self.plans.get((x.shape, x._strides, x.offset, x.dtype, dim, keepdim, x.storage.device))
        if plan is None:
            plan = self._plan(x, dim, keepdim)
        return plan(x)

    def _plan(self, x, dim, keepdim):
        """A function of x for inputs of this geometry."""
        device = x.storage.device
        limit = max_binding(context(device))
        if x.storage.nbytes > limit:
            if x._size * BYTES[x.dtype.code] > limit:
                return lambda x: self._large(x, dim, keepdim)
            return lambda x: self._call(contiguous(x), dim, keepdim)
        if len(self.plans) >= CACHE_LIMIT:
            self.plans.clear()
        shape = tuple(1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim)
        if x._size == 0:
            plan = partial(self._of_nothing, shape, _rule(self.name, x.dtype).result, device)
        elif _groups(x.shape, x._strides, dim) is None:
            plan = partial(self._permuted, shape, dim)
        else:
            plan = self._direct(x, dim, shape)
        self.plans[(x.shape, x._strides, x.offset, x.dtype, dim, keepdim, device)] = plan
        return plan

    def _of_nothing(self, shape, result, device, x):
        return full(shape, self.empty.get(self.name, 0), result, device)

    def _call(self, x, dim, keepdim):
        return self(x, dim[0] if self.argument else dim, keepdim)

    def _direct(self, x, dim, shape):
        device = x.storage.device
        ctx = context(device)
        rule = _rule(self.name, x.dtype)
        result = rule.result
        count = math.prod(x.shape[d] for d in dim)
        passes = _make_passes(ctx, rule, _groups(x.shape, x._strides, dim), x.offset, x.dtype, STORED[result.code], float(count))
        strides, nbytes = core.strides_of(shape), math.prod(shape) * BYTES[result.code]
        alloc, launch = ctx.alloc, ctx.launch

        def run(x):
            source = x.storage.buffer
            if source.nbytes > max_binding(ctx):
                return self._large(x, dim, len(shape) == len(x.shape))
            for step in passes:
                target = alloc(step.nbytes if step.partial else nbytes)
                launch(step.pipeline, (source, target), step.params, step.groups)
                source = target
            return core.tensor(core.gpu_storage(source, nbytes, device), shape, strides, 0, result)

        return run

    def _permuted(self, shape, dim, x):
        """Over dims that do not collapse: run by run where the parts lose nothing, else of a copy with those dims last."""
        run = dim[-1:]
        while len(run) < len(dim) and dim[-len(run) - 1] == run[0] - 1:
            run = dim[-len(run) - 1:]
        if len(run) < len(dim) and x.dtype is not FLOAT16 and self.name != "mean":
            part = self(x, run, True)
            return core.reshaped(KERNELS[self.name](part, dim[:-len(run)], True), shape)
        count = math.prod(x.shape[d] for d in dim)
        if len(run) < len(dim) and x.dtype is FLOAT32:      # mean
            return core.reshaped(ELEMENTWISE["div"](KERNELS["sum"](x, dim, True), float(count)), shape)
        rows = core.reshaped(_reduced_last(x, dim), (x._size // count, count))
        return core.reshaped(self._call(rows, (1,), False), shape)

    def _large(self, x, dim, keepdim):
        """Of data too large for one binding: by halves along the longest dim, kept ones first."""
        limit = max_binding(context(x.storage.device))
        if x._size * BYTES[x.dtype.code] <= limit:
            return self._call(contiguous(x), dim, keepdim)
        split = max(range(len(x.shape)), key=lambda d: (d not in dim and x.shape[d] > 1, x.shape[d]))
        half = x.shape[split] // 2
        parts = [narrow(x, split, 0, half), narrow(x, split, half, x.shape[split] - half)]
        if split not in dim:
            out = cat(tuple(self._large(part, dim, True) for part in parts), split)
        elif self.argument:
            out = self._better_argument(parts, dim, half)
        else:
            name = "sum" if self.name == "mean" else self.name
            out = KERNELS[name](cat(tuple(KERNELS[name]._large(part, dim, True) for part in parts), split), (split,), True)
            if self.name == "mean":
                out = ELEMENTWISE["div"](out, float(math.prod(x.shape[d] for d in dim)))
        shape = tuple(1 if d in dim else n for d, n in enumerate(x.shape) if keepdim or d not in dim)
        return core.reshaped(out, shape)

    def _better_argument(self, parts, dim, half):
        values = [KERNELS["a" + self.name[3:]]._large(part, dim, True) for part in parts]
        first, second = (self._large(part, dim, True) for part in parts)
        better = ELEMENTWISE["gt" if self.name == "argmax" else "lt"](values[1], values[0])
        nan = ELEMENTWISE["gt"](ELEMENTWISE["isnan"](values[1]), ELEMENTWISE["isnan"](values[0]))
        better = ELEMENTWISE["logical_or"](better, nan)
        return ELEMENTWISE["where"](better, ELEMENTWISE["add"](second, half), first)


def narrow(x, dim: int, start: int, length: int):
    return core.view(x, x.shape[:dim] + (length,) + x.shape[dim + 1:], x._strides, x.offset + start * x._strides[dim])


KERNELS = {name: Reduction(name) for name in ("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "any", "all")}
