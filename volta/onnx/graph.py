"""An ONNX graph in the making: nodes, constants, and the sizes of dynamic axes as tensors. Only `Graph.model` needs the package onnx."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy

import numpy as np

from volta._kernels.core import DType
from volta.dtypes import bool_, float16, float32, float64, int8, int16, int32, int64, to_numpy, uint8
from volta.errors import ONNXExportError
from volta.onnx.sizes import Axes, Size, array
from volta.onnx.trace import Entry, Value
from volta.ops.table import RECORDS

TYPES = {float32: 1, uint8: 2, int8: 3, int16: 5, int32: 6, int64: 7, bool_: 9, float16: 10, float64: 11}         # codes of TensorProto
TO_THE_END = 2 ** 63 - 1
SMALL = (int8, int16)
MOVES = ("cast", "contiguous", "clone", "cat", "roll", "gather", "index_select")            # what takes elements of every type

TRANSLATIONS: dict[str, Callable[[Graph, Call], object]] = {}


def translates(*names: str) -> Callable:
    """Decorator: `function(graph, call)` gives the name of the result of these records (a tuple for several)."""
    def enter(function):
        TRANSLATIONS.update(dict.fromkeys(names, function))
        return function
    return enter


class Call:
    """An entry to be translated. `call[i]` names input i in the graph ("" for None); a number becomes a constant of `dtype`."""

    def __init__(self, graph: Graph, entry: Entry, used: Sequence[bool]) -> None:
        self.graph, self.op, self.inputs, self.params, self.outputs = graph, entry.op, entry.inputs, entry.params, entry.outputs
        self.used = used                                    # which outputs are
        tensors = [v for v in entry.values() if v.dtype is not bool_] or entry.values()
        self.dtype = tensors[0].dtype if tensors else None
        self.out = entry.outputs[0]

    def __getattr__(self, name: str) -> object:
        """A parameter."""
        try:
            return self.params[name]
        except KeyError:
            raise AttributeError(name) from None

    def __getitem__(self, i: int) -> str:
        x = self.inputs[i]
        return "" if x is None else self.graph.name(x) if isinstance(x, Value) else self.graph.scalar(x, self.dtype)

    def __len__(self) -> int:
        return len(self.inputs)

    def shape(self, i: int = 0) -> tuple:
        """Of an input."""
        return self.inputs[i].shape

    def fixed(self, value: object, what: str) -> object:
        """The value. Raises: ONNXExportError where it depends on a dynamic axis."""
        if isinstance(value, Size) or isinstance(value, (tuple, list)) and any(isinstance(v, Size) for v in value):
            raise ONNXExportError(f"onnx.export: {self.op} needs {what} that does not depend on a dynamic axis")
        return value

    def refuse(self, why: str) -> ONNXExportError:
        """The error that says so."""
        return ONNXExportError(f"onnx.export: {self.op}: {why}")


class Graph:
    """Nodes in order; constants by name."""

    def __init__(self, opset: int, axes: Axes) -> None:
        self.opset, self.axes = opset, axes
        self.nodes: list[tuple[str, tuple, tuple, dict]] = []
        self.initializers: dict[str, np.ndarray] = {}
        self.makers: dict[int, Entry] = {}                  # of values
        self.names: dict[int, str] = {}                     # of values
        self.lengths: dict[str, tuple[str, int]] = {}       # per dynamic axis an input and its dimension
        self._known: dict[tuple, str] = {}                  # constants and sizes
        self._kept: list[Value] = []                        # what `names` has beside the values of the trace
        self._count = 0

    # ------------------------------------------------------------ names
    def fresh(self, kind: str) -> str:
        """A name that is not taken."""
        self._count += 1
        return f"{kind.lower()}_{self._count}"

    def name(self, value: Value) -> str:
        """Of a value: of a node's result, or of an initializer, which is made here."""
        known = self.names.get(id(value))
        if known is None:
            if value.tensor is None:
                raise ONNXExportError("onnx.export: a value is used that nothing made")
            known = self.names[id(value)] = self.constant(array(value.tensor), value.name)
        return known

    def constant(self, data: np.ndarray, name: str | None = None) -> str:
        """An initializer; equal small ones are one."""
        key = (name, data.dtype.str, data.shape, data.tobytes()) if data.size <= 64 else None
        if key in self._known:
            return self._known[key]
        name = name or self.fresh("constant")
        self.initializers[name] = data
        if key is not None:
            self._known[key] = name
        return name

    # ------------------------------------------------------------ nodes
    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> str | tuple[str, ...]:
        """The name of the result of a new node; of several outputs a tuple. Attributes that are None are left out."""
        while inputs and inputs[-1] == "":
            inputs = inputs[:-1]
        results = tuple(self.fresh(op) for _ in range(outputs))
        self.nodes.append((op, inputs, results, {k: v for k, v in attributes.items() if v is not None}))
        return results[0] if outputs == 1 else results

    def chain(self, x: str, *ops: str) -> str:
        """Nodes of one input, one after the other."""
        for op in ops:
            x = self.node(op, x)
        return x

    def cast(self, x: str, dtype: DType) -> str:
        """x as another element type."""
        return self.node("Cast", x, to=TYPES[dtype])

    def reshape(self, x: str, shape: Sequence[int | Size], old: Sequence[int | Size] = ()) -> str:
        """x under another shape. Sizes that stay where they are in the `old` one, and one more, need not be computed."""
        if 0 in shape:
            return self.node("Reshape", x, self.ints(shape), allowzero=1)
        kept = list(_stays(shape, old))
        given = [0 if same and isinstance(n, Size) else n for n, same in zip(shape, kept)]
        if sum(isinstance(n, Size) for n in given) == 1:
            given = [-1 if isinstance(n, Size) else n for n in given]
        return self.node("Reshape", x, self.ints(given))

    # ------------------------------------------------------------ numbers
    def scalar(self, x: object, dtype: DType) -> str:
        """A number of the host as a constant without dimensions."""
        if isinstance(x, Size):
            return self.cast(self.node("Squeeze", self.length(x), self.ints([0])), dtype)
        return self.constant(np.array(x, to_numpy(dtype)))

    def ints(self, values: Sequence[int | Size]) -> str:
        """A vector of int64, computed as far as it depends on sizes."""
        if not any(isinstance(v, Size) for v in values):
            return self.constant(np.array(values, np.int64).reshape(len(values)))
        parts = [self.length(v) for v in values]
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def length(self, size: int | Size) -> str:
        """A size as a vector of one element."""
        if not isinstance(size, Size):
            return self.ints([size])
        if ("size", size) in self._known:
            return self._known["size", size]
        try:
            terms = self.axes.terms(size)
        except ONNXExportError as error:
            raise ONNXExportError(f"onnx.export: {error}; leave an axis out of dynamic_axes") from None
        below = math.lcm(*[factor.denominator for factor, _ in terms])
        total = None
        for factor, names in terms:
            parts = [self._axis(name) for name in names] + [self.ints([int(factor * below)])] * (factor * below != 1 or not names)
            product = parts[0]
            for part in parts[1:]:
                product = self.node("Mul", product, part)
            total = product if total is None else self.node("Add", total, product)
        if below != 1:
            total = self.node("Div", total, self.ints([below]))
        self._known["size", size] = total
        return total

    def _axis(self, name):
        if ("axis", name) not in self._known:
            source, dim = self.lengths[name]
            self._known["axis", name] = self.node("Shape", source, start=dim, end=dim + 1)
        return self._known["axis", name]

    # ------------------------------------------------------------ entries
    def producer(self, value: Value) -> Entry | None:
        """The entry that made it."""
        return self.makers.get(id(value))

    def add(self, entry: Entry, used: Sequence[bool]) -> None:
        """The nodes of a record. Raises: ONNXExportError for one that has no translation."""
        translation = TRANSLATIONS.get(entry.op)
        if translation is None:
            raise ONNXExportError(f"onnx.export: ONNX has no operator for {entry.op}, and there is no translation of it; the result "
                                  f"depends on the model's inputs, so it cannot be a constant")
        record = RECORDS.get(entry.op.rpartition(".")[2])           # the trace's own entries, which show parts of a storage, have none
        wide = entry if record is None or record.family == "view" or entry.op in MOVES else self._widened(entry)
        names = translation(self, Call(self, wide, used))
        for value, computed, name in zip(entry.outputs, wide.outputs, names if isinstance(names, tuple) else (names,)):
            name = name if value.dtype is computed.dtype or not name else self.cast(name, value.dtype)
            self.names[id(value)], self.makers[id(value)] = name, entry

    def _widened(self, entry: Entry) -> Entry:
        """The entry with int32 in place of int8 and int16, which few operators of ONNX take: it is computed so here too."""
        if not any(v.dtype in SMALL for v in entry.values()):
            return entry

        def wide(x):
            if isinstance(x, (list, tuple)):
                return [wide(each) for each in x]
            if not isinstance(x, Value) or x.dtype not in SMALL:
                return x
            found = copy(x)
            found.dtype = int32
            self._kept.append(found)
            return found

        inputs = tuple(map(wide, entry.inputs))
        made = type(entry)(entry.op, inputs, entry.params, [wide(v) for v in entry.outputs])
        for old, new in zip(entry.values(), made.values()):
            if old is not new:
                self.names[id(new)] = self.cast(self.name(old), int32)
        return made

    def drop_unused(self, outputs: Sequence[str]) -> None:
        """Leave out the nodes and initializers that the outputs do not need."""
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if needed & set(node[2]):
                needed |= set(node[1])
                kept.append(node)
        self.nodes = kept[::-1]
        self.initializers = {name: data for name, data in self.initializers.items() if name in needed}


def _stays(shape: Sequence, old: Sequence) -> list[bool]:
    """Where a shape has the size that the old one has at the same place."""
    return [i < len(old) and n == old[i] for i, n in enumerate(shape)]
