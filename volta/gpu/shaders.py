"""Shader text: where it lies, how it is specialised, and what its declarations say about buffers and parameters.

Knows WGSL declarations by their lines. Must not know devices or wgpu.
"""
from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from volta.errors import DeviceError

PACKAGE = Path(__file__).resolve().parent.parent
FOLDERS = (PACKAGE / "shaders", PACKAGE.parent / "shaders")

# As texts: `re` compiles and keeps them on first use, while importing them compiled would cost every program 2 ms.
_COMMENT = r"//[^\n]*"
_DECLARATION = {
    "alias": r"^\s*alias\s+(\w+)\s*=[^;]*;",
    "const": r"^\s*const\s+(\w+)\s*(?::\s*(\w+))?\s*=[^;]*;",
    "fn": r"^(\s*fn\s+(\w+)\s*\([^{]*\{).*\}\s*$",
}
_BINDING = r"@group\((\d+)\)\s*@binding\((\d+)\)\s*var<storage(?:\s*,\s*(read|read_write))?>\s*(\w+)\s*:\s*([^;]+);"
_IMMEDIATE = r"\bvar<immediate>\s+(\w+)\s*:\s*(\w+)\s*;"
_STRUCT = r"\bstruct\s+(\w+)\s*\{([^}]*)\}"
_ALIAS = r"\balias\s+(\w+)\s*=\s*([^;]+);"
_ENTRY = r"@compute\b([^{]*?)\bfn\s+(\w+)"
_WIDE = "let both = u64(a) * u64(b); return vec2<u32>(u32(both), u32(both >> 32u));"         # of multiply_wide, a quarter of its steps
_SCALARS = {"f32": "f", "i32": "i", "u32": "I"}


class Source(NamedTuple):
    """A specialised shader and what its declarations say."""

    label: str
    file: str
    text: str               # what the file uses of the prelude, then the file line for line
    prelude: tuple          # the declarations of the prelude in `text`, in order
    access: tuple           # of binding 0, 1, ...: "read" or "read_write"
    min_sizes: tuple        # bytes that each binding needs at least
    params_size: int
    params_format: str
    entry: str
    uses_f16: bool


class Declaration(NamedTuple):
    """A function, constant, type or variable of the prelude."""

    name: str
    file: str
    line: int               # in its file, from 1
    text: str
    words: frozenset        # names that it may use


@cache
def read(file: str) -> str:
    """Text of `shaders/<file>.wgsl`. Raises: DeviceError naming the folders that were searched."""
    for folder in FOLDERS:
        path = folder / f"{file}.wgsl"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    searched = " and ".join(str(folder) for folder in FOLDERS)
    raise DeviceError(f"pipeline: no shader {file}.wgsl in {searched}")


def _listed(pattern: str) -> list[str]:
    for folder in FOLDERS:
        if (folder / "prelude").is_dir():
            return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob(pattern))
    return []


def files() -> list[str]:
    """Names of all shader files but the prelude's."""
    return [name for name in _listed("**/*.wgsl") if not name.startswith("prelude/")]


@cache
def prelude() -> tuple[Declaration, ...]:
    """All declarations of `shaders/prelude/`. They begin at the start of a line, and end on it or with a line "}"."""
    found = []
    for file in _listed("prelude/*.wgsl"):
        lines = [re.sub(_COMMENT, "", line).rstrip() for line in read(file).split("\n")]
        for number, line in enumerate(lines):
            match = re.match(r"(?:fn|const|alias|struct|var<workgroup>)\s+(\w+)", line)
            if match:
                end = number if line.endswith((";", "}")) else lines.index("}", number)
                text = "\n".join(lines[number:end + 1]) + "\n"
                found.append(Declaration(match.group(1), file, number + 1, text, frozenset(re.findall(r"\w+", text))))
    return tuple(found)


def _used(code: str) -> tuple[Declaration, ...]:
    """The declarations of the prelude that `code` may use, and those that they use: drivers compile what is not called, too."""
    by_name, chosen, left = {d.name: d for d in prelude()}, set(), set(re.findall(r"\w+", code))
    while left:
        new = {name for name in left if name in by_name} - chosen
        chosen |= new
        left = set().union(*(by_name[name].words for name in new))
    return tuple(d for d in prelude() if d.name in chosen)


def source(file: str, overrides: dict, immediates: bool = True, entry: str | None = None, text: str | None = None,
           wide: bool = False, absent: tuple = ()) -> Source:
    """`file` (or `text` in its place), specialised, behind what it uses of the prelude; `wide`: for an adapter with integers of 64 bits;
    `absent`: numbers of bindings at which this variant does not look.

    Raises: DeviceError naming file and line where an override fits no declaration, or a declaration is not understood.
    """
    text = _without(file, _specialise(file, read(file) if text is None else text, overrides), absent)
    code = re.sub(_COMMENT, "", text)
    used = _used(code)
    if wide:
        used = tuple(d._replace(text=d.text[:d.text.index("{") + 1] + f" {_WIDE} }}\n") if d.name == "multiply_wide" else d for d in used)
    head = "".join(d.text for d in used)
    code = head + code
    aliases = dict(re.findall(_ALIAS, code))
    structs = {name: _fields(body) for name, body in re.findall(_STRUCT, code)}
    access, min_sizes = _bindings(file, code, aliases)
    params_size, params_format = _params(file, code, aliases, structs)
    uses_f16 = re.search(r"\bf16\b|\d\.?\d*h\b", code) is not None
    whole = head + text
    if not immediates:
        whole = re.sub(_IMMEDIATE, r"@group(1) @binding(0) var<uniform> \1: \2;", whole)
    if uses_f16:
        whole = "enable f16; " + whole      # must come first, on the first line to keep the line numbers
    label = file + ("" if not overrides else "[" + ", ".join(f"{k}={v}" for k, v in sorted(overrides.items())) + "]")
    label += f" without {', '.join(map(str, absent))}" * bool(absent)
    return Source(label, file, whole, used, access, min_sizes, params_size, params_format,
                  _entry(file, code, entry), uses_f16)


def _specialise(file: str, text: str, overrides: dict) -> str:
    """Replace the single-line declarations that `overrides` names."""
    left = dict(overrides)
    lines = text.split("\n")
    for number, line in enumerate(lines):
        bare = re.sub(_COMMENT, "", line).rstrip()
        for kind, pattern in _DECLARATION.items():
            match = re.match(pattern, bare)
            name = match and match.group(2 if kind == "fn" else 1)
            if match and name in left:
                lines[number] = _replacement(file, number + 1, kind, name, match, left.pop(name))
    if left:
        raise DeviceError(f"pipeline: {file}.wgsl has no single-line alias, const or fn named {', '.join(sorted(left))}; "
                          "the name must be declared on one line of its own")
    return "\n".join(lines)


def _without(file: str, text: str, absent: tuple) -> str:
    """A private variable in the place of each buffer that is absent; the bindings behind it move up."""
    left = set(absent)

    def declared(match):
        number = int(match.group(2))
        if number not in left:
            return f"@group(0) @binding({number - sum(n < number for n in absent)})" + match.group(0).split(")", 2)[2]
        left.remove(number)
        return f"var<private> {match.group(4)}: {match.group(5).rstrip()[:-1]}, 1>;"
    text = re.sub(_BINDING, declared, text) if absent else text
    if left:
        raise DeviceError(f"pipeline: {file}.wgsl has no binding {', '.join(map(str, sorted(left)))} to leave out")
    return text


def _replacement(file: str, number: int, kind: str, name: str, match, value) -> str:
    if isinstance(value, str) and value.lstrip().startswith(kind + " "):
        return value
    if kind == "alias":
        return f"alias {name} = {value};"
    if kind == "const":
        return f"const {name}{': ' + match.group(2) if match.group(2) else ''} = {_literal(file, number, match.group(2), value)};"
    if not isinstance(value, str):
        raise DeviceError(f"pipeline: {file}.wgsl line {number}: fn {name} must be replaced by a body text, got {value!r}")
    body = value if ";" in value else f"return {value};"
    return f"{match.group(1)} {body} }}"


def _literal(file: str, number: int, declared: str | None, value) -> str:
    """A Python number as a WGSL literal of the declared type."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or declared == "bool":
        return "true" if value else "false"
    if declared in ("u32", "i32") or (declared is None and isinstance(value, int)):
        return f"{int(value)}{'u' if declared == 'u32' else ''}"
    if not math.isfinite(value):
        raise DeviceError(f"pipeline: {file}.wgsl line {number}: WGSL has no literal for {value}; pass it as a parameter")
    return f"{float(value)!r}{'f' if declared == 'f32' else ''}"


def _fields(body: str) -> list[tuple[str, str]]:
    """(name, type) of a struct's members."""
    parts = re.split(r",(?![^<]*>)", re.sub(r"@\w+\([^)]*\)", "", body))
    return [tuple(word.strip() for word in part.split(":", 1)) for part in parts if ":" in part]


def _bindings(file: str, code: str, aliases: dict) -> tuple[tuple, tuple]:
    found = {}
    for group, binding, access, name, kind in re.findall(_BINDING, code):
        if group != "0" or int(binding) in found:
            raise DeviceError(f"pipeline: {file}.wgsl: buffer {name} must have its own binding in @group(0)")
        found[int(binding)] = (access or "read", _least_size(kind, aliases))
    if sorted(found) != list(range(len(found))):
        raise DeviceError(f"pipeline: {file}.wgsl: bindings must be 0, 1, 2, ... without gaps, got {sorted(found)}")
    if code.count("var<storage") != len(found):
        raise DeviceError(f"pipeline: {file}.wgsl: every buffer must be declared on one line, "
                          "@group(0) @binding(k) var<storage, read> name: type;")
    ordered = [found[k] for k in range(len(found))]
    return tuple(access for access, _ in ordered), tuple(max(size, 4) for _, size in ordered)


def _least_size(kind: str, aliases: dict) -> int:
    """Bytes of a type, of an array those of an element; 4 for what is not known."""
    kind = kind.strip()
    if kind in aliases:
        return _least_size(aliases[kind], aliases)
    wrapped = re.fullmatch(r"(?:array|atomic|vec([234]))\s*<(.*)>", kind)
    if wrapped:
        return int(wrapped.group(1) or 1) * _least_size(wrapped.group(2), aliases)
    return 2 if kind == "f16" else 4


def _params(file: str, code: str, aliases: dict, structs: dict) -> tuple[int, str]:
    """(bytes, struct format) of `var<immediate> p: Params;`; (0, "") where there is none."""
    found = re.findall(_IMMEDIATE, code)
    if not found:
        return 0, ""
    name = found[0][1]
    if len(found) > 1 or name not in structs:
        raise DeviceError(f"pipeline: {file}.wgsl: one var<immediate> of a struct type is allowed, got {found}")
    end, align, parts = 0, 4, ["<"]
    for member, kind in structs[name]:
        kind = aliases.get(kind, kind)
        vector = re.fullmatch(r"vec4\s*<\s*(\w+)\s*>", kind)
        scalar = _SCALARS.get(aliases.get(vector.group(1), vector.group(1)) if vector else kind)
        if scalar is None:
            raise DeviceError(f"pipeline: {file}.wgsl: {name}.{member} must be f32, i32, u32 or a vec4 of these, got {kind}")
        padding, align = (-end % 16, 16) if vector else (0, align)
        parts.append(f"{padding}x" * bool(padding) + (f"4{scalar}" if vector else scalar))
        end += padding + (16 if vector else 4)
    total = end + -end % align
    parts.append(f"{total - end}x" * bool(total - end))
    if total > 128:
        raise DeviceError(f"pipeline: {file}.wgsl: {name} takes {total} bytes, at most 128 are allowed")
    return total, "".join(parts)


def _entry(file: str, code: str, wanted: str | None) -> str:
    names = [name for _, name in re.findall(_ENTRY, code)]
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted in names:
        return wanted
    raise DeviceError(f"pipeline: {file}.wgsl has the entry points {names}; "
                      + ("name one with entry=" if wanted is None else f"{wanted!r} is not among them"))


def entries(file: str) -> list[str]:
    """Names of a shader file's entry points."""
    return [name for _, name in re.findall(_ENTRY, re.sub(_COMMENT, "", read(file)))]


def locate(code: Source, message: str) -> str:
    """A compiler's message with its line counted in the file that it lies in, quoting the line."""
    match = re.search(r"wgsl:(\d+):(\d+)|:(\d+):(\d+)", message)
    where = f"{code.file}.wgsl"
    if match:
        line = left = int(match.group(1) or match.group(3))
        quoted = code.text.split("\n")[line - 1].strip() if line <= code.text.count("\n") + 1 else ""
        for declaration in code.prelude:
            length = declaration.text.count("\n")
            if left <= length:
                where, left = f"{declaration.file}.wgsl", declaration.line + left - 1
                break
            left -= length
        where += f" line {left}: {quoted}"
    return f"pipeline {code.label}: {where}\n{message.strip()}"
