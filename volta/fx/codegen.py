"""The Python text of a graph: names that Python allows, and a line for each node."""
from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from volta._kernels import core
from volta._kernels.core.size import package_name
from volta.fx.node import Node, public_name, qualified

if TYPE_CHECKING:
    from volta.fx.graph import Graph

__all__ = ["PythonCode"]

_INFIX = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@", "lshift": "<<",
          "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_PREFIX = {"neg": "-", "pos": "+", "invert": "~"}


class PythonCode(NamedTuple):
    """The text of a function `forward`, and the objects that it names."""
    src: str
    globals: dict[str, Any]


def snake_case(name: str) -> str:
    """A name in small letters: "MaxPool2d" is max_pool2d."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.removeprefix("__").removesuffix("__")).lower()


class Names:
    """Names that are given once each."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.counts: Counter[str] = Counter()

    def create(self, candidate: str) -> str:
        """A name like `candidate` that Python allows and that nothing has."""
        candidate = re.sub(r"[^0-9a-zA-Z_]", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = re.fullmatch(r"(.*)_(\d+)", candidate)
        base, number = (match[1], int(match[2])) if match else (candidate, 0)
        candidate = f"{base}_{number}" if match else base
        number = number or self.counts[base]
        while candidate in self.used or _means(candidate):
            number += 1
            candidate = f"{base}_{number}"
        self.used.add(candidate)
        self.counts[base] = number
        return candidate


def _means(name: str) -> bool:
    """Whether a name has a meaning in the text already."""
    return keyword.iskeyword(name) or hasattr(builtins, name) or name in ("self", "volta", "torch", "operator", "inf", "nan", "device")


class _Writer:
    """Writes arguments and targets, and collects what they name."""

    def __init__(self, root: str) -> None:
        self.root, self.globals = root, {}
        self.names = Names()

    def named(self, hint: str, value: Any) -> str:
        """A global name for an object."""
        if getattr(builtins, hint, None) is value:
            return hint
        for name, held in self.globals.items():
            if held is value:
                return name
        name = self.names.create(hint)
        self.globals[name] = value
        return name

    def public(self, name: str) -> str:
        """A name of a module of Volta, or of Python's operator."""
        top = name.partition(".")[0]
        self.globals[top] = sys.modules[top]
        return name

    def function(self, target: Callable[..., Any]) -> str:
        """How a function is called."""
        name = public_name(target)
        return self.public(name) if name else self.named(getattr(target, "__name__", qualified(target)), target)

    def value(self, x: Any) -> str:
        """An argument."""
        if isinstance(x, Node):
            return x.name
        if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
            inner = ", ".join(map(self.value, x))
            return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' if len(x) == 1 else ''})"
        if type(x) is dict:
            return "{" + ", ".join(f"{key!r}: {self.value(value)}" for key, value in x.items()) + "}"
        if isinstance(x, dict):
            return f"{self.named(type(x).__name__, type(x))}({self.value(dict(x))})"
        if isinstance(x, tuple):
            return f"{self.named(type(x).__name__, type(x))}({', '.join(map(self.value, x))})"
        if isinstance(x, slice):
            return f"slice({', '.join(map(self.value, (x.start, x.stop, x.step)))})"
        if isinstance(x, float) and repr(x) in ("inf", "-inf", "nan"):
            return f"float({repr(x)!r})"
        if isinstance(x, core.DType):
            return self.public(str(x))
        if isinstance(x, core.Device):
            return f"{self.public(f'{package_name()}.device')}({str(x)!r})"
        if x is None or x is ... or type(x) in (bool, int, float, str, bytes):
            return "..." if x is ... else repr(x)
        return self.named(snake_case(qualified(x) if callable(x) else f"{type(x).__name__}_{x}"), x)

    def arguments(self, args, kwargs) -> str:
        return ", ".join([*map(self.value, args), *(f"{key} = {self.value(value)}" for key, value in kwargs.items())])

    def path(self, target: str) -> str:
        """An attribute of the module; a part that is no name is asked for by getattr."""
        text = self.root
        for part in target.split("."):
            text = f"{text}.{part}" if part.isidentifier() and not keyword.iskeyword(part) else f'getattr({text}, "{part}")'
        return text

    def expression(self, node: Node) -> str:
        """What a node is."""
        target: Any = node.target
        if node.op == "get_attr":
            return self.path(target)
        if node.op == "call_module":
            return f"{self.path(target)}({self.arguments(node.args, node.kwargs)})"
        if node.op == "call_method":
            own = self.value(node.args[0])
            return f"{own}.{target}({self.arguments(node.args[1:], node.kwargs)})"
        values = [*map(self.value, node.args)]
        name = target.__name__ if getattr(target, "__module__", "") == "_operator" else ""
        if name in _INFIX and len(values) == 2 and not node.kwargs:
            return f"{values[0]} {_INFIX[name]} {values[1]}"
        if name in _PREFIX and len(values) == 1:
            return f"{_PREFIX[name]}{values[0]}"
        if name == "getitem" and len(values) == 2:
            return f"{values[0]}[{values[1]}]"
        if target is getattr and len(values) == 2 and str(node.args[1]).isidentifier():
            return f"{values[0]}.{node.args[1]}"
        return f"{self.function(target)}({self.arguments(node.args, node.kwargs)})"


def python_code(graph: Graph, root: str) -> PythonCode:
    """The text of a function `forward`. A result is let go as soon as its last user has run."""
    writer, parameters, lines, last = _Writer(root), [], [], {}
    for node in graph.nodes:
        writer.names.used.add(node.name)
        for used in node.all_input_nodes:
            last[used] = node
    for node in graph.nodes:
        over = [used.name for used in node.all_input_nodes if last[used] is node]
        end = f";  {' = '.join(over)} = None" if over else ""
        if node.op == "placeholder":
            raw = str(node.target)
            parameters.append(raw + (f" = {writer.value(node.args[0])}" if node.args else ""))
            lines += [f"{node.name} = {raw.lstrip('*')}"] if raw.lstrip("*") != node.name else []
        elif node.op == "output":
            lines.append(f"return {writer.value(node.args[0])}")
        elif node.users:
            lines.append(f"{node.name} = {writer.expression(node)}{end}")
        else:
            lines.append(f"{writer.expression(node)}{end}")
    body = "".join(f"\n    {line}" for line in lines or ["pass"])
    return PythonCode(f"\n\n\ndef forward({', '.join([root, *parameters])}):{body}\n    ", writer.globals)
