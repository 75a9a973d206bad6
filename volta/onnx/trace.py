"""One run of a model as a list of records: which kernels ran, on which values, with which parameters.

A value is what a tensor held at one time; what was written in place is another value. Tensors are told apart by their storage and geometry,
so that views and aliases made without a record are found too. Knows nothing of ONNX.
"""
from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Container, Sequence

import numpy as np

from volta._kernels import core
from volta._kernels.core import TensorBase
from volta._kernels.core.call import Observer
from volta.errors import ONNXExportError
from volta.ops.records.view import contiguous_op

RANDOM = {"uniform", "normal", "draw_into", "randint", "dropout", "poisson", "binomial"}
_NO_ENTRIES = {"as_strided", "scale_gradient", "upload"}  # the result is found by its geometry, or holds constants


class Value:
    """What a tensor held. `traced`: it depends on the model's inputs; of one that does not, `tensor` has the data."""

    def __init__(self, t: TensorBase, traced: bool, name: str | None = None) -> None:
        self.shape, self.dtype, self.traced, self.name = t.shape, t.dtype, traced, name
        self.tensor = None if traced else core.alias(t)


class Entry:
    """One record that ran. `inputs` are values, numbers, None or lists of these."""

    def __init__(self, op: str, inputs: tuple, params: dict, outputs: list[Value]) -> None:
        self.op, self.inputs, self.params, self.outputs = op, inputs, params, outputs

    def values(self) -> list[Value]:
        """The values among the inputs."""
        return [v for each in self.inputs for v in (each if isinstance(each, (tuple, list)) else (each,)) if isinstance(v, Value)]


class _Cell:
    """What is known of a storage: the value seen by each geometry, and by the `root`, which shows all that is written."""

    def __init__(self, storage: core.Storage) -> None:
        self.storage, self.version = storage, storage.version
        self.values: dict[tuple, Value] = {}
        self.root: tuple | None = None


def geometry(t: TensorBase) -> tuple:
    """What part of a storage a tensor shows: shape, strides where they count, offset, dtype."""
    strides = tuple([s if n > 1 else 0 for n, s in zip(t.shape, t._strides)])
    return t.shape, strides, t.offset if t._size else 0, t.dtype


def _elements(shown):
    """Where each element of a geometry lies in the storage."""
    shape, strides, offset, _ = shown
    found = np.full(shape, offset, np.int64)
    for d, (n, s) in enumerate(zip(shape, strides)):
        found += (np.arange(n) * s).reshape((n,) + (1,) * (len(shape) - d - 1))
    return found


class Tape(Observer):
    """Records the thread that makes it. `named` are the parameters and buffers of the model, `whole` the composed ops that are one entry:
    by name a function of the arguments by name, which says whether they are. Fused records that are not `known` run as what they are
    made of."""

    def __init__(self, inputs: Sequence[TensorBase], named: dict[str, TensorBase], whole: dict[str, Callable[..., bool]],
                 known: Container[str]) -> None:
        self.entries: list[Entry] = []
        self.known = known
        self.whole, self.depth, self.thread = whole, 0, threading.get_ident()
        self.cells: dict[int, _Cell] = {}
        self.named = {(id(t.storage), geometry(t)): name for name, t in reversed(named.items())}
        self.refused: ONNXExportError | None = None
        self.inputs = [Value(t, True) for t in inputs]
        for t, value in [*zip(inputs, self.inputs), *[(t, Value(t, False, name)) for name, t in named.items()]]:
            if id(t.storage) not in self.cells:
                self._begin(t, value)

    def __enter__(self) -> Tape:
        core.watch_reads(self.reads)
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        core.watch_reads(None)

    def reads(self, storage: core.Storage, refuse: bool) -> bool:
        """Whether values that depend on the inputs would be read, outside kernels; with `refuse` raise then."""
        cell = self.cells.get(id(storage))
        found = not self.depth and self._mine() and cell is not None and any(v.traced for v in cell.values.values())
        if found and refuse:
            last = self.entries[-1].op if self.entries else "the beginning"
            self.refused = ONNXExportError(
                f"onnx.export: the model reads the values of a tensor that depends on its inputs, after {last} (item(), numpy(), bool(), a "
                f"mask as index, or an operation whose result's shape depends on values); in the graph they would be constants. Compute "
                f"with tensors instead, as by where()")
            raise self.refused
        return found

    def _mine(self):
        return threading.get_ident() == self.thread

    # ------------------------------------------------------------ values by tensor
    def value(self, t: TensorBase) -> Value:
        """What a tensor holds now."""
        cell, shown = self.cells.get(id(t.storage)), geometry(t)
        if cell is None:
            return self._begin(t, Value(t, False, self.named.get((id(t.storage), shown))))
        if cell.version != t.storage.version:
            raise ONNXExportError(f"onnx.export: a tensor of shape {t.shape} was changed by something that is no operation of Volta")
        found = cell.values.get(shown)
        if found is None:
            found = self._derived(cell, t, shown)
            cell.values[shown] = found
        return found

    def _begin(self, t, value):
        cell = self.cells[id(t.storage)] = _Cell(t.storage)
        cell.root = geometry(t)
        cell.values[cell.root] = value
        return value

    def _derived(self, cell, t, shown):
        """A part of the root that was made visible without a record."""
        whole = cell.values[cell.root]
        if not whole.traced and not (set(_elements(shown).flat) <= set(_elements(cell.root).flat)):
            return Value(t, False, self.named.get((id(t.storage), shown)))
        places = self._places(cell, shown)
        return self._add("strided", (whole,), {"places": places}, [Value(t, whole.traced)])

    def _places(self, cell, shown):
        """Where the elements of a geometry are among those of the root, in order."""
        root, wanted = _elements(cell.root).reshape(-1), _elements(shown)
        order = np.argsort(root, kind="stable")
        at = np.searchsorted(root, wanted, sorter=order)
        if cell.root[3] is not shown[3] or wanted.size and (at.max() >= root.size or (root[order[at]] != wanted).any()):
            raise ONNXExportError(f"onnx.export: a view of shape {shown[0]} and {shown[3]} shows memory that the tensor of shape "
                                  f"{cell.root[0]} and {cell.root[3]} it was made of does not have")
        return order[at] if wanted.size else wanted

    def _add(self, op, inputs, params, outputs):
        self.entries.append(Entry(op, inputs, params, outputs))
        return outputs[0]

    # ------------------------------------------------------------ watching
    def _resolved(self, x):
        if isinstance(x, TensorBase):
            return self.value(x)
        if isinstance(x, (tuple, list)) and any(isinstance(each, TensorBase) for each in x):
            return [self._resolved(each) for each in x]
        return x

    def before(self, op, device, inputs, params, out) -> None:
        """Take down what a kernel is given."""
        if not self._mine():
            return
        self.depth += 1
        if self.depth == 1:
            self.given = tuple([self._resolved(x) for x in inputs])
            for t in self._written(op, inputs, out):
                self.value(t)
                self._keep(self.cells[id(t.storage)])

    def _keep(self, cell):
        """Copy what is about to be overwritten and does not depend on the inputs."""
        for value in cell.values.values():
            if value.tensor is not None:
                value.tensor = contiguous_op(value.tensor.detach())

    @staticmethod
    def _written(op, inputs, out):
        return [out] if out is not None else [inputs[i] for i in op.writes if inputs[i] is not None]

    def after(self, op, device, inputs, params, out, result) -> None:
        """Take down what a kernel gave."""
        if not self._mine():
            return
        self.depth -= 1
        if self.depth or op.name in _NO_ENTRIES:
            return
        written = self._written(op, inputs, out)
        results = written or (result if isinstance(result, tuple) else [result])
        params = dict(params or {})
        if len(set(params.get("batch_sizes", ()))) == 1:            # of sequences of one length, which may be dynamic
            params["batch_sizes"] = (len(params["batch_sizes"]), params["batch_sizes"][0])
        self._record(op.name, self.given, params, results, written)

    def _record(self, op, given, params, results, written=()):
        """Enter what ran."""
        entry = Entry(op, given, params, [])
        traced = op in RANDOM or any(v.traced for v in entry.values())
        entry.outputs = [Value(t, traced) for t in results if isinstance(t, TensorBase)]
        self.entries.append(entry)
        for t, value in zip([t for t in results if isinstance(t, TensorBase)], entry.outputs):
            if written:
                self._write(t, value)
            elif id(t.storage) in self.cells:
                self.cells[id(t.storage)].values[geometry(t)] = value
            else:
                self._begin(t, value)

    def _write(self, t, value):
        """A tensor was overwritten: other geometries of its storage are known by the root alone from now on."""
        cell, shown = self.cells[id(t.storage)], geometry(t)
        whole = cell.values[cell.root]
        if shown != cell.root and t._size == np.prod(cell.root[0]):
            cell.root = shown
        elif shown != cell.root:
            places = self._places(cell, shown)
            new = Value.__new__(Value)
            new.__dict__.update(whole.__dict__, traced=whole.traced or value.traced, name=None, tensor=None)
            if not new.traced:
                shape, strides, offset, _ = cell.root
                new.tensor = core.view(t, shape, strides, offset)
            self._add("overwrite", (whole, value), {"places": places}, [new])
            cell.values = {cell.root: new}
        else:
            cell.values = {}
        cell.values = {k: v for k, v in cell.values.items() if k == cell.root}
        cell.values[shown] = value
        cell.version = cell.storage.version

    def replace(self, op, inputs, params):
        """What a fused record is made of, where it is not known."""
        if op.reference is None or op.name in self.known or self.depth or not self._mine():
            return NotImplemented
        return op.reference(*inputs, **(params or {}))

    def compose(self, op, args, options):
        """A composed op as one entry, where it is to be one."""
        wanted = self.whole.get(op.name)
        if wanted is None or self.depth or not self._mine():
            return NotImplemented
        bound = inspect.signature(op.function).bind(*args, **options)
        bound.apply_defaults()
        if not wanted(**bound.arguments):
            return NotImplemented
        inputs = tuple([self._resolved(x) for x in bound.arguments.values() if isinstance(x, TensorBase)])
        names = [name for name, x in bound.arguments.items() if isinstance(x, TensorBase)]
        self.depth += 1
        result = op(*args, **options)
        self.depth -= 1
        params = {name: x for name, x in bound.arguments.items() if name not in names}
        self._record(op.name, inputs, {**params, "given": tuple(names)}, [result])
        return result

    # ------------------------------------------------------------ the end
    def finish(self, results: Sequence[TensorBase]) -> list[Value]:
        """The values of the results; entries that they do not need are dropped."""
        if self.refused is not None:
            raise self.refused                              # the model went on after it
        if self.depth:
            raise ONNXExportError("onnx.export: an operation inside the model failed and the model went on; the trace has a gap there")
        outputs = [self.value(t) for t in results]
        needed, kept = {id(v) for v in outputs}, []
        for entry in reversed(self.entries):
            if any(id(v) in needed for v in entry.outputs):
                needed |= {id(v) for v in entry.values()}
                kept.append(entry)
        self.entries, self.cells = kept[::-1], {}
        self.needed = needed
        return outputs
