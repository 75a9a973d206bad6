"""Writes what follows from the declarations of the op table: the type stubs in volta/, and the reference.

    python docs/make.py               # the stubs, as every build does; tests/test_docs.py checks that they are current
    python docs/make.py --reference   # docs/reference.md as well
"""
from __future__ import annotations

import argparse
import inspect
import re
import types
import typing
from pathlib import Path

from volta._kernels.core.inplace import InPlace

import volta
from volta._kernels.core.record import Op, Primitive
from volta.nn import functional
from volta.ops.table import FUNCTIONS, PLACES, ROOMS

ROOT = Path(volta.__file__).parent
HEAD = '''# ruff: noqa
"""Types of {}. Written by docs/make.py."""
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, overload

import numpy as np

from volta._kernels.core import Device, DType, Storage
from volta.autograd import Node, RemovableHandle
from volta.layout import memory_format as Layout
from volta.ops.decomposition import QR, SVD, USV, CholeskyInfo, Eigen, LeastSquares
from volta.ops.factor import LUFactors, LUInfo, PLU, Reflections, TriangularSolution
from volta.ops.inverse import InverseInfo, ResultInfo, SignLogabsdet
from volta.ops.histogram import Histogram
from volta.ops.reduce import ValuesIndices
from volta.ops.statistics import MinMax
from volta.ops.symmetric import LDLFactors, LDLInfo
from volta.random import Generator as Generator
from volta.shapes import Size
from volta.types import DeviceLike, DTypeLike, Number
'''
# Where an annotation is a union, the signatures by case. The "input" of a method is its `self`.
PICK = ("(input: Tensor) -> Tensor", "(input: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices",
        "(input: Tensor, other: Tensor, /) -> Tensor")
LAYERS = [f"({first}, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool{last})"
          " -> tuple[Tensor, ...]" for first, last in (("input: Tensor, hx: Tensor | Sequence[Tensor]", ", batch_first: bool"),
                                                       ("data: Tensor, batch_sizes: Tensor, hx: Tensor | Sequence[Tensor]", ""))]
CASES = {
    "lstm": LAYERS, "gru": LAYERS, "rnn_tanh": LAYERS, "rnn_relu": LAYERS,
    "max": PICK, "min": PICK, "median": PICK[:2], "nanmedian": PICK[:2],
    "where": ("(condition: Tensor) -> tuple[Tensor, ...]",
              "(condition: Tensor, input: Tensor | Number, other: Tensor | Number) -> Tensor"),
    "nonzero": ("(input: Tensor, *, as_tuple: Literal[False] = False) -> Tensor",
                "(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]"),
}
FIELDS = ("storage: Storage", "shape: Size", "ndim: int", "offset: int", "dtype: DType", "device: Device", "grad: Tensor | None")
HIDDEN = {"__init__", "__new__", "__slots__", "__doc__", "__module__", "__hash__", "__array_priority__", "__reduce_ex__"}
BUILTINS = re.compile(r"(?<![\w.])(bool|int|float|type|str|list|dict|object|slice)(?![\w(:])")
IN_C = [f"__{kind}{name}__" for name in ("add", "sub", "mul", "truediv") for kind in ("", "r", "i")]


def annotated(annotation: object) -> str:
    """The text of an annotation. Builtins are named in full, since methods and dtypes have the names of some."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    text = re.sub(r"\btuple\b(?!\[)", "tuple[Tensor, ...]", text)
    text = re.sub(r"\bnp\.ndarray\b(?!\[)", "np.ndarray[Any, Any]", text)
    return BUILTINS.sub(r"builtins.\1", text)


def parameters(signature: inspect.Signature, method: bool, out: bool = False) -> str:
    """The parameters of a signature, with `out` at the end where the function has it; the first one of a method is `self`."""
    parts, starred = [], False
    for i, p in enumerate(signature.parameters.values()):
        if method and i == 0:
            parts.append("self")
            continue
        simple = isinstance(p.default, (int, float, str, type(None)))
        default = "" if p.default is p.empty else f" = {p.default!r}" if simple else " = ..."
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(f"{stars}{p.name}: {'Any' if p.annotation is p.empty else annotated(p.annotation)}{default}")
    if out:
        parts += ["*"] * (not starred) + ["out: Tensor | tuple[Tensor, ...] | None = None"]
    return ", ".join(parts)


def definition(name: str, function: object, method: bool = False) -> list[str]:
    """`def name(...) -> ...: ...`, or one for each case."""
    overloads = typing.get_overloads(function) if inspect.isfunction(function) else []
    by_hand = isinstance(function, InPlace) or getattr(function, "__module__", None) == "volta.tensor"
    cases = () if by_hand else CASES.get(name, ())
    if cases:
        texts = [annotated(case.replace("(input: Tensor", "(self") if method else case) for case in cases]
    else:
        texts = [_signature(f, method) for f in overloads or (function,)]
    lines = [f"def {name}{text}: ..." for text in texts]
    return lines if len(lines) == 1 else [line for each in lines for line in ("@overload", each)]


def _signature(function, method):
    signature = inspect.signature(function)
    result = signature.return_annotation
    result = "Tensor" if result is signature.empty or isinstance(function, InPlace) else annotated(result)
    return f"({parameters(signature, method, not method and getattr(function, 'has_out', False))}) -> {result}"


def operator(name: str, value: object) -> str:
    """An operator that the op table gives the class, or that is in C."""
    # Comparisons of tensors are tensors, where `object` promises a bool: hence the `type: ignore` in the stub.
    unary = isinstance(value, Op) and not isinstance(value, InPlace) and len(inspect.signature(value).parameters) == 1
    same = name in ("__eq__", "__ne__")
    kind = "builtins.object" if same else "Tensor" if "matmul" in name else "Tensor | Number"
    return f"def {name}(self{'' if unary else f', other: {kind}'}) -> Tensor: ...{'  # type: ignore[override]' if same else ''}"


def tensor_stub() -> str:
    """volta/tensor.pyi."""
    lines = [annotated(line) for line in FIELDS] + [operator(name, None) for name in IN_C]
    for name, value in sorted(vars(volta.Tensor).items()):
        special, here = name.startswith("__"), getattr(value, "__module__", None) == "volta.tensor"
        if name in HIDDEN or name in IN_C or (name.startswith("_") and not special):
            continue
        if isinstance(value, property):
            kind = annotated(inspect.signature(value.fget).return_annotation)
            lines += ["@property", f"def {name}(self) -> {kind}: ..."]
            if value.fset is not None:
                lines += [f"@{name}.setter", f"def {name}(self, value: {kind}) -> None: ..."]
        elif callable(value):
            lines += [operator(name, value)] if special and not here else definition(name, value, method=True)
    lines.append("def __hash__(self) -> builtins.int: ...")
    return HEAD.format("Tensor's attributes and methods") + "\nclass Tensor:\n" + "".join(f"    {line}\n" for line in lines)


def module_stub(module: types.ModuleType, what: str) -> str:
    """The stub of a package: its functions, and what it takes from elsewhere."""
    imports, lines = {"from volta.tensor import Tensor as Tensor"}, []
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            package, _, own = value.__name__.rpartition(".")
            imports.add(f"from {package} import {own} as {name}")
        elif value is volta.Size:
            imports.add("from volta._kernels.core.size import Size as Size")
        elif isinstance(value, volta.dtype):
            lines.append(f"{name}: DType")
        elif value is None or isinstance(value, (str, float)):
            lines.append(f"{name}: {'None' if value is None else 'builtins.' + type(value).__name__}")
        elif isinstance(value, Op) or value.__module__ == module.__name__ or value.__module__.startswith(("volta.ops.", "volta.nn.f")):
            lines += definition(name, value)
        else:
            imports.add(f"from {value.__module__} import {getattr(value, '__name__', name)} as {name}")
    return HEAD.format(what) + "\n".join(sorted(imports)) + "\n\n" + "\n".join(lines) + "\n"


def stubs() -> dict[Path, str]:
    """The text of each stub."""
    return {ROOT / "tensor.pyi": tensor_stub(), ROOT / "linalg.pyi": module_stub(volta.linalg, "linear algebra"),
            ROOT / "special.pyi": module_stub(volta.special, "special functions"),
            ROOT / "__init__.pyi": module_stub(volta, "the package's functions"),
            ROOT / "nn" / "functional" / "__init__.pyi": module_stub(functional, "the functions of networks")}


# ---------------------------------------------------------------- reference
def places(name: str) -> str:
    """Where an op appears."""
    where = PLACES[name]
    in_place = where.inplace or where.geometry
    found = [f"`volta.{name}`" * where.function, f"`Tensor.{name}`" * where.method, f"`Tensor.{name}_`" * in_place,
             f"operator `__{where.operator}__`" if where.operator else "", *(f"alias `{alias}`" for alias in where.aliases)]
    own = name.removeprefix("functional.")
    found.append(f"`volta.nn.functional.{own}`" * (getattr(getattr(functional, own, None), "name", None) == name))
    found.append(f"`volta.{name}`" * name.startswith(ROOMS))
    return ", ".join(filter(None, found))


def reference() -> str:
    """Every op by family: signature, documentation, where it appears."""
    families: dict[str, list[str]] = {}
    for name, op in sorted(FUNCTIONS.items()):
        if name == op.name and places(name):
            text = inspect.cleandoc(op.__doc__ or "")
            text = re.sub(r"(?ms)^( *)>>> .*?(?=\n\n|\Z)", lambda m: f"```python\n{inspect.cleandoc(m[0])}\n```", text)
            title = f"{name}{inspect.signature(op)}".replace("'", "")
            family = op.family if isinstance(op, Primitive) else op.__module__.rpartition(".")[2]
            families.setdefault(family, []).append(f"### {name}\n\n`{title}`\n\n{text}\n\nAs {places(name)}.\n")
    return ("# Reference\n\nWritten by `python docs/make.py --reference` from the declarations. Every operation runs where its tensors "
            "are, on the CPU or on a GPU.\n\n"
            + "\n".join(f"## {family}\n\n" + "\n".join(texts) for family, texts in sorted(families.items())))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--reference", action="store_true", help="write docs/reference.md, too")
    options = parser.parse_args()
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
    if options.reference:
        Path(__file__).with_name("reference.md").write_text(reference(), encoding="utf-8")
