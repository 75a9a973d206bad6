"""Writes elementwise kernels: the WGSL of out[i] = f(inputs at i), for any operations, inputs, outputs and rank.

A thread makes 4 elements: neighbours, written whole as a vector, where every output and the size of rows allow it, else elements
THREADS apart, so that neighbouring threads have neighbouring ones. Sizes and strides are parameters, so that one text serves all shapes
of a rank; where they would not fit, and where the caller asks for it, they are constants in the text. float16 is widened for the
arithmetic. Knows WGSL; must not know tensors.

How an operand lies is one letter:
    d  dense: its elements have the order of the index; in units of a vector, where vectors are whole
    v  vectors: neighbours along the innermost dim, aligned to 4 elements; in units of a vector
    r  one value for all elements of a vector (stride 0 along the innermost dim); in units of an element
    c  one value for all
    g  any strides, a vector being gathered element by element; in units of an element
    s  any strides, in units of an element: then all go element by element, those that are dense or one value as well
"""
from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NamedTuple

from volta.devices.gpu.common import THREADS
from volta.errors import ArgumentError

PARAMS_BYTES = 128
MOST_BUFFERS = 16           # what any implementation binds


class Expression(NamedTuple):
    """What a kernel computes. Texts are WGSL over x0, x1, ... (inputs), o0, o1, ... (what the outputs hold so far), s0, s1, ...
    (numbers), i (the index) and t0, t1, ... (the steps before)."""

    results: tuple              # text of each output
    steps: tuple = ()           # texts of t0, t1, ...
    functions: tuple = ()       # lines that define what the texts call
    numbers: tuple = ()         # dtypes of s0, s1, ...
    user: str = ""              # name of the op whose functions are a user's text, which is not trusted
    fits: tuple = ()            # where numbers have to fit their dtypes: (the op that refuses others, whether floats may become infinite)

    def uses(self, name: str) -> bool:
        """Whether a text names it."""
        return any(name in _names(text) for text in (*self.results, *self.steps))


class Layout(NamedTuple):
    """How the operands lie, the outputs last; all that a text depends on beside what is computed."""

    rank: int
    vectors: bool               # whether vectors are read and written whole
    letters: str                # of each operand
    inputs: int
    stored: tuple               # WGSL type of each operand in memory
    computed: tuple             # in arithmetic
    stores: tuple               # text that makes an element of each output of r, "" for a conversion
    numbers: tuple              # WGSL types
    geometry: tuple | None      # (sizes, strides) as constants, both innermost first; None for parameters


@cache
def _names(text: str) -> frozenset:
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


def strided_dims(letter: str, rank: int) -> range:
    """The dims, innermost first, whose stride an operand's address depends on; that of a `v` is 1 along the innermost."""
    return range(0) if letter in "dc" else range(letter in "vr", rank)


def _walks(layout: Layout) -> bool:
    """Whether an address needs coordinates."""
    return layout.rank > 1 and any(strided_dims(letter, layout.rank) for letter in layout.letters)


def geometry_words(layout: Layout, sizes, strides) -> list:
    """The sizes and strides among the parameters: those that addresses depend on, innermost first."""
    if layout.geometry is not None:
        return []
    found = list(sizes[:-1]) if _walks(layout) else []
    return found + [strides[k][d] for k, letter in enumerate(layout.letters) for d in strided_dims(letter, layout.rank)]


def words(layout: Layout, expression: Expression) -> list[str]:
    """Names of the parameters, in order: n0 ... (sizes), a0_1 ... (strides), count, at0 ... (offsets), first, s0 ... (numbers)."""
    operands, dims = range(len(layout.letters)), range(layout.rank)
    names = geometry_words(layout, [f"n{d}" for d in dims], [[f"a{k}_{d}" for d in dims] for k in operands])
    names += ["count", *(f"at{k}" for k in operands)]
    if expression.uses("i"):
        names.append("first")
    return names + [f"s{k}" for k in range(len(layout.numbers))]


def fits(layout: Layout, expression: Expression) -> bool:
    """Whether the parameters do."""
    return 4 * len(words(layout, expression)) <= PARAMS_BYTES


@lru_cache(maxsize=4096)
def text(expression: Expression, layout: Layout) -> str:
    """The shader, behind the prelude.

    Raises: ArgumentError where there are more operands than a kernel binds, or more numbers than parameters hold.
    """
    if len(layout.letters) > MOST_BUFFERS or not fits(layout, expression):
        raise ArgumentError(f"elementwise: a kernel takes {MOST_BUFFERS} tensors and {PARAMS_BYTES} bytes of parameters, got "
                            f"{len(layout.letters)} and {4 * len(words(layout, expression))}; compute in several steps")
    parts = [*expression.functions,             # first: a message about a user's counts their lines
             "struct Params { " + ", ".join(f"{name}: u32" for name in words(layout, expression)) + " }", "var<immediate> p: Params;"]
    for k, stored in enumerate(layout.stored):
        access = "read" if k < layout.inputs else "read_write"
        parts.append(f"@group(0) @binding({k}) var<storage, {access}> m{k}: array<vec4<{stored}>>;")
    parts.append(_operation(expression, layout))
    for k, store in enumerate(layout.stores):
        stored, computed = layout.stored[layout.inputs + k], layout.computed[layout.inputs + k]
        parts.append(f"fn stored{k}(r: {computed}) -> {stored} {{ return {store or f'{stored}(r)'}; }}")
    parts.append(_coordinates(layout))
    parts.append(_whole_vector(expression, layout) if layout.vectors else _single_elements(expression, layout))
    parts.append(_main(layout.vectors))
    return "\n".join(part for part in parts if part) + "\n"


# ---------------------------------------------------------------- the operation

def _arguments(expression: Expression, layout: Layout) -> list[tuple]:
    """(name, type) of what the operation takes: inputs, the index, old values of outputs."""
    found = [(f"x{k}", layout.computed[k]) for k in range(layout.inputs)]
    if expression.uses("i"):
        found.append(("i", "u32"))
    return found + [(f"o{k}", layout.computed[layout.inputs + k]) for k in _read_outputs(expression)]


def _read_outputs(expression: Expression) -> list[int]:
    return [k for k in range(len(expression.results)) if expression.uses(f"o{k}")]


def _operation(expression: Expression, layout: Layout) -> str:
    """`fn op`, which gives one value, or a struct of one for each output."""
    signature = ", ".join(f"{name}: {kind}" for name, kind in _arguments(expression, layout))
    body = [f"let s{k} = " + (f"p.s{k};" if kind == "u32" else f"bitcast<{kind}>(p.s{k});") for k, kind in enumerate(layout.numbers)]
    body += [f"let t{k} = {step};" for k, step in enumerate(expression.steps)]
    types = layout.computed[layout.inputs:]
    if len(types) == 1:
        return f"fn op({signature}) -> {types[0]} {{ {' '.join(body)} return {expression.results[0]}; }}"
    members = ", ".join(f"r{k}: {kind}" for k, kind in enumerate(types))
    return (f"struct Results {{ {members} }}\n"
            f"fn op({signature}) -> Results {{ {' '.join(body)} return Results({', '.join(expression.results)}); }}")


# ---------------------------------------------------------------- addresses

def _size(layout: Layout, d: int) -> str:
    return f"p.n{d}" if layout.geometry is None else f"{layout.geometry[0][d]}u"


def _coordinates(layout: Layout) -> str:
    """Coordinates of an index, innermost dim first."""
    if not _walks(layout):
        return ""
    lines, rest = [], "index"
    for d in range(layout.rank - 1):
        lines.append(f"    let q{d} = {rest} / {_size(layout, d)};")
        lines.append(f"    let k{d} = {rest} - q{d} * {_size(layout, d)};")
        rest = f"q{d}"
    names = [f"k{d}" for d in range(layout.rank - 1)] + [rest]
    members = ", ".join(f"k{d}: u32" for d in range(layout.rank))
    return "\n".join([f"struct Coordinates {{ {members} }}", "fn coordinates(index: u32) -> Coordinates {", *lines,
                      f"    return Coordinates({', '.join(names)});", "}"])


def _stride(layout: Layout, k: int, d: int) -> str:
    return f"p.a{k}_{d}" if layout.geometry is None else f"{layout.geometry[1][k][d] & 0xFFFF_FFFF}u"


def _address(layout: Layout, k: int, index: str, at: str = "k") -> str:
    """Where operand k lies, `index` being the flat index in units of its loop and `at` its coordinates."""
    letter, terms = layout.letters[k], []
    if letter == "d":
        terms.append(index)
    elif letter == "v":
        terms.append(f"{at}.k0" if layout.rank > 1 else index)
    for d in strided_dims(letter, layout.rank):
        step = "4u * " if letter == "g" and d == 0 else ""
        terms.append(f"{step}{f'{at}.k{d}' if layout.rank > 1 else index} * {_stride(layout, k, d)}")
    return " + ".join([*terms, f"p.at{k}"])


def _element(k: int, at: str) -> str:
    return f"m{k}[{at} >> 2u][{at} & 3u]"


# ---------------------------------------------------------------- the loops

def _whole_vector(expression: Expression, layout: Layout) -> str:
    lines = ["fn whole_vector(v: u32) {"]
    if _walks(layout):
        lines.append("    let k = coordinates(v);")
    for k in range(layout.inputs):
        vector, at = f"vec4<{layout.computed[k]}>", _address(layout, k, "v")
        if layout.letters[k] in "dv":
            lines.append(f"    let x{k} = {vector}(m{k}[{at}]);")
            continue
        lines.append(f"    let at{k} = {at};")
        if layout.letters[k] == "g":
            lines += [f"    let at{k}_{c} = at{k} + {c}u * {_stride(layout, k, 0)};" for c in range(4)]
            lines.append(f"    let x{k} = {vector}(vec4<{layout.stored[k]}>({', '.join(_element(k, f'at{k}_{c}') for c in range(4))}));")
        else:
            lines.append(f"    let x{k} = {vector}({layout.computed[k]}({_element(k, f'at{k}')}));")
    if expression.uses("i"):
        lines.append("    let i = vec4<u32>(4u * v + p.first) + vec4<u32>(0u, 1u, 2u, 3u);")
    outputs = range(layout.inputs, len(layout.letters))
    lines += [f"    let at{k} = {_address(layout, k, 'v')};" for k in outputs]
    for k in _read_outputs(expression):
        lines.append(f"    let o{k} = vec4<{layout.computed[layout.inputs + k]}>(m{layout.inputs + k}[at{layout.inputs + k}]);")
    names = [name for name, _ in _arguments(expression, layout)]
    calls = [f"op({', '.join(f'{name}.{c}' for name in names)})" for c in "xyzw"]
    if len(outputs) > 1:
        lines += [f"    let e{j} = {call};" for j, call in enumerate(calls)]
    for k, m in enumerate(outputs):
        values = calls if len(outputs) == 1 else [f"e{j}.r{k}" for j in range(4)]
        lines.append(f"    let r{k} = vec4<{layout.stored[m]}>({', '.join(f'stored{k}({value})' for value in values)});")
    if layout.rank > 1:                         # rows of whole vectors
        return "\n".join([*lines, *(f"    m{m}[at{m}] = r{k};" for k, m in enumerate(outputs)), "}"])
    writes = " ".join(f"m{m}[at{m}] = r{k};" for k, m in enumerate(outputs))
    lines += ["    let left = p.count - 4u * v;", f"    if (left >= 4u) {{ {writes} return; }}"]
    for c, condition in (("x", ""), ("y", "left > 1u"), ("z", "left > 2u")):
        writes = " ".join(f"m{m}[at{m}].{c} = r{k}.{c};" for k, m in enumerate(outputs))
        lines.append(f"    if ({condition}) {{ {writes} }}" if condition else f"    {writes}")
    return "\n".join([*lines, "}"])


def _single_elements(expression: Expression, layout: Layout) -> str:
    operands, outputs, each = range(len(layout.letters)), range(layout.inputs, len(layout.letters)), range(4)
    lines = ["fn single_elements(j0: u32) {", "    if (j0 >= p.count) { return; }"]
    for c in each:                              # all are on their way before the first is written
        lines.append(f"    let i{c} = min(j0 + {c * THREADS}u, p.count - 1u);")
        if _walks(layout):
            lines.append(f"    let k{c} = coordinates(i{c});")
        lines += [f"    let at{k}_{c} = {_address(layout, k, f'i{c}', f'k{c}')};" for k in operands]
        for name, kind in _arguments(expression, layout):
            k = int(name[1:] or 0) + (layout.inputs if name[0] == "o" else 0)
            lines.append(f"    let {name}_{c} = " + (f"i{c} + p.first;" if name == "i" else f"{kind}({_element(k, f'at{k}_{c}')});"))
    names = [name for name, _ in _arguments(expression, layout)]
    lines += [f"    let r{c} = op({', '.join(f'{name}_{c}' for name in names)});" for c in each]
    for c in each:
        writes = [f"{_element(m, f'at{m}_{c}')} = stored{k}(r{c}{'' if len(outputs) == 1 else f'.r{k}'});" for k, m in enumerate(outputs)]
        lines.append(f"    if (j0 + {c * THREADS}u < p.count) {{ {' '.join(writes)} }}")
    return "\n".join([*lines, "}"])


def _main(vectors: bool) -> str:
    start, function = ("", "if (at < (p.count + 3u) / 4u) { whole_vector(at); }") if vectors else ("4u * ", "single_elements(at);")
    return "\n".join([f"@compute @workgroup_size({THREADS})",
                      "fn main(grid: Grid, @builtin(local_invocation_index) thread: u32) {",
                      f"    let at = {start}{THREADS}u * group_of(grid) + thread;", f"    {function}", "}"])
