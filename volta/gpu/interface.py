"""What a user's WGSL says of itself: the inputs, outputs and parameters of a function or of a compute shader.

Knows declarations by their text. Must not know tensors or devices.
"""
from __future__ import annotations

import itertools
import math
import re
from typing import NamedTuple

from volta.errors import ArgumentError
from volta.gpu import shaders

_FUNCTION = r"\bfn\s+(\w+)\s*\(([^)]*)\)\s*(?:->\s*([^{]+?)\s*)?\{"
_DECLARED = r"(?:\bfn|\bconst|\boverride|\balias|\bstruct|\bvar(?:<[^>]*>)?)\s+(\w+)"
_ELEMENTS = r"array<(?:(?:vec[24]|atomic)<)?(f32|i32|u32)>+"
_NESTED, _TOKENS = 256, 4000        # what the compiler's recursion bears: brackets in brackets, and the length of a statement
_GENERATED = r"(?:m|stored|at|[ostxakn])\d+|op|i|p|main|Params|[cC]oordinates|whole_vector|single_elements|Results"


class Interface(NamedTuple):
    """The names of inputs, outputs and parameters, in order, with their types."""

    name: str
    inputs: dict
    outputs: dict
    fields: dict = {}
    threads: int | None = None      # of a workgroup; None where it is not a product of numbers
    packed: bool = False            # a function's outputs are the members of a struct
    whole: bool = False             # a compute shader, not a function of elements


def interface(text: str) -> Interface:
    """What `text` declares: a compute shader where it has an entry point, else the last function.

    Raises: ArgumentError for declarations that are not understood, saying which.
    """
    code = re.sub(r"/\*.*?\*/", "", re.sub(shaders._COMMENT, "", text), flags=re.DOTALL)
    depth = max(itertools.accumulate((c in "([{") - (c in ")]}") for c in code), default=0)
    if depth > _NESTED or any(len(re.findall(r"\w+|[^\w\s]", statement)) > _TOKENS for statement in re.split("[;{}]", code)):
        raise ArgumentError(f"kernel: brackets may be nested {_NESTED} deep, and a statement may have {_TOKENS} words and signs; write the "
                            "text in smaller steps")
    return _shader(code) if re.search(r"@compute\b", code) else _function(code)


def _function(code: str) -> Interface:
    found = re.findall(_FUNCTION, code)
    if not found:
        raise ArgumentError("kernel: the text has no function; write fn name(x: f32) -> f32 { ... }, or a shader with an @compute entry "
                            "point")
    name, parameters, result = found[-1]
    if "@group" in code:
        raise ArgumentError(f"kernel: {name} declares buffers, which only a shader with an @compute entry point has")
    _check_names(name, code, _GENERATED)
    structs = {struct: dict(shaders._fields(body)) for struct, body in re.findall(shaders._STRUCT, code)}
    made = Interface(name, dict(shaders._fields(parameters)), structs.get(result, {"out": result}), packed=result in structs)
    for what, types in (("parameter", made.inputs), ("result", made.outputs)):
        for each, kind in types.items() or [("none", "no type")]:
            if kind not in ("f32", "i32", "u32", "bool"):
                raise ArgumentError(f"kernel: {name}: each {what} must be f32, i32, u32 or bool, got {each}: {kind or 'nothing'}")
    return made


def _check_names(name: str, code: str, taken: str = "") -> None:
    """Raises: ArgumentError where the text declares what the code around it does."""
    ours = {declaration.name for declaration in shaders.prelude()}
    depths = itertools.accumulate((c == "{") - (c == "}") for c in code)
    outside = "".join(c for c, depth in zip(code, depths) if not depth)
    for word in re.findall(_DECLARED, outside):
        if word in ours or re.fullmatch(taken, word):
            raise ArgumentError(f"kernel: {name} declares {word}, a name of the code around it; take another")


def _shader(code: str) -> Interface:
    entries = re.findall(shaders._ENTRY, code)
    if len(entries) != 1:
        raise ArgumentError(f"kernel: a shader must have one @compute entry point, got {[name for _, name in entries]}")
    (attributes, name), = entries
    _check_names(name, code)
    inputs, outputs = {}, {}
    for _, _, access, buffer, kind in sorted(re.findall(shaders._BINDING, code), key=lambda found: int(found[1])):
        element = re.fullmatch(_ELEMENTS, re.sub(r"\s", "", kind))
        written = access == "read_write"
        if element is None or written and element[1] == "u32" or outputs and not written:
            raise ArgumentError(f"kernel: {name}: bind the inputs first, as array<f32>, <i32>, <u32> or vec2 or vec4 of these, then the "
                                f"outputs, read_write, of f32 or i32; got {buffer}: {kind}")
        (outputs if written else inputs)[buffer] = element[1]
    if not inputs or not outputs:
        raise ArgumentError(f"kernel: {name} needs an input, @group(0) @binding(0) var<storage, read> x: array<f32>;, and after it an "
                            f"output, read_write; got {[*inputs, *outputs]}")
    structs = {struct: shaders._fields(body) for struct, body in re.findall(shaders._STRUCT, code)}
    immediate = re.findall(shaders._IMMEDIATE, code)
    threads = re.search(r"@workgroup_size\(([\d\s,]+)\)", attributes)
    return Interface(name, inputs, outputs, dict(structs.get(immediate[0][1], ())) if immediate else {},
                     threads and max(1, math.prod(int(n) for n in re.findall(r"\d+", threads[1]))), whole=True)
