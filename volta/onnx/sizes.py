"""Sizes of dynamic axes. A model is traced at several sizes; a number that differs between the traces is a `Size`, and what it is of the
sizes is found by interpolation and checked at sizes that had no part in that."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from volta._kernels.core import TensorBase
from volta.errors import ONNXExportError
from volta.onnx.trace import RANDOM, Entry, Tape, Value


class Size:
    """A whole number by its values in every trace."""

    def __init__(self, values: Sequence[int]) -> None:
        self.values = tuple(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and other.values == self.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __add__(self, other: int | Size) -> int | Size:
        return of([a + b for a, b in zip(self.values, _spread(other, self))])

    def __sub__(self, other: int | Size) -> int | Size:
        return of([a - b for a, b in zip(self.values, _spread(other, self))])

    def __rsub__(self, other: int) -> int | Size:
        return of([other - a for a in self.values])

    def __mul__(self, other: int | Size) -> int | Size:
        return of([a * b for a, b in zip(self.values, _spread(other, self))])

    __radd__, __rmul__ = __add__, __mul__


def _spread(x, like):
    return x.values if isinstance(x, Size) else (x,) * len(like.values)


def never_below(a: int | Size, b: int | Size) -> bool:
    """Whether a >= b in every trace."""
    like = a if isinstance(a, Size) else b
    return all(x >= y for x, y in zip(_spread(a, like), _spread(b, like))) if isinstance(like, Size) else a >= b


def of(values: Sequence[int]) -> int | Size:
    """The number that has these values; an int where they are all the same."""
    return values[0] if len(set(values)) == 1 else Size(values)


class Axes:
    """The dynamic axes by name, and `points`: their sizes in every trace. `run(sizes)` makes a trace; the first are two sizes of every axis
    in all combinations, the last checks what is found by them.

    Raises: ONNXExportError where the model runs at no other sizes; whatever the model raises at those of the sample.
    """

    def __init__(self, sizes: dict[str, int], run: Callable) -> None:
        self.names, self.points = tuple(sizes), []
        if len(sizes) > 3:
            raise ONNXExportError(f"onnx.export: at most 3 dynamic axes of different sizes are possible, got {', '.join(sizes)}")
        base = {name: max(n, 2) for name, n in sizes.items()}               # a size of 1 would broadcast
        self.traces = [run(base)]
        other = {name: self._other(run, base, name, (2 * n, n // 2, n + 1, n - 1)) for name, n in base.items()}
        self.points = list(itertools.product(*[(n, other[name]) for name, n in base.items()]))
        self.traces += [run(dict(zip(self.names, point))) for point in self.points[1:]]
        if sizes:
            checks = {name: self._other(run, base, name, (n + 1, n - 1, n + 2, n + 4, n + 8, 3 * n), other[name])
                      for name, n in base.items()}
            self.points.append(tuple(checks.values()))
            self.traces.append(run(checks))

    def _other(self, run, base, name, candidates, taken=0):
        """Another size of an axis at which the model runs. Raises: ONNXExportError, for what the last one raised, where there is none."""
        cause = None
        for n in candidates:
            if n < 3 or n in (base[name], taken):
                continue
            try:
                run({**base, name: n})
                return n
            except ONNXExportError:
                raise
            except Exception as error:          # of whatever kind: the model's own check, or that of an operation
                cause = error
        raise ONNXExportError(f"onnx.export: the model does not run at other sizes of the dynamic axis {name!r} than {base[name]}; leave "
                              f"it out of dynamic_axes") from cause

    def terms(self, size: Size) -> list[tuple[Fraction, tuple[str, ...]]]:
        """The size as a sum of products of axes: (factor, names). Raises: ONNXExportError where it is none."""
        groups = [names for k in range(len(self.names) + 1) for names in itertools.combinations(range(len(self.names)), k)]
        rows = [[math.prod(point[i] for i in names) for names in groups] for point in self.points]
        corners = 2 ** len(self.names)
        found = np.linalg.solve(np.array(rows[:corners], float), np.array(size.values[:corners], float))
        factors = [Fraction(float(f)).limit_denominator(1024) for f in found]
        if any(sum(f * n for f, n in zip(factors, row)) != value for row, value in zip(rows, size.values)):
            raise ONNXExportError(f"a size that is {size.values} where the dynamic axes {self.names} are {tuple(self.points)} is no sum of "
                                  f"products of them")
        return [(f, tuple(self.names[i] for i in names)) for f, names in zip(factors, groups) if f]


# ---------------------------------------------------------------- several traces as one
def merged(tapes: Sequence[Tape], outputs: Sequence[list[Value]]) -> tuple[list[Entry], list[Value]]:
    """(entries, outputs) of the first trace, with a Size wherever the traces differ. Entries that depend on no input and no size are
    dropped, as their results are constants.

    Raises: ONNXExportError where other operations ran, or other constants were made.
    """
    if len({tuple(e.op for e in tape.entries) for tape in tapes}) > 1:
        a, b = next((a, b) for tape in tapes[1:] for a, b in itertools.zip_longest(*[[e.op for e in t.entries] for t in (tapes[0], tape)])
                    if a != b)
        raise ONNXExportError(f"onnx.export: other operations run at another size of a dynamic axis ({a} or {b}); a choice by a size "
                              f"cannot be exported: leave that axis out of dynamic_axes")
    same = _Same()
    for values in zip(*[tape.inputs for tape in tapes]):
        same.join(values)
    entries = []
    for each in zip(*[tape.entries for tape in tapes]):
        first = each[0]
        fixed = first.op not in RANDOM
        for values in zip(*[e.values() for e in each]):
            fixed = same.constant(first.op, values) and fixed
        first.inputs = tuple(x if isinstance(x, (Value, list)) else same.number(first.op, xs)
                             for x, *_, xs in ((x[0], *x, x) for x in zip(*[e.inputs for e in each])))
        first.params = {name: same.number(first.op, [e.params[name] for e in each]) for name in first.params}
        fixed = fixed and not same.varies(first.inputs) and not same.varies(tuple(first.params.values()))
        for values in zip(*[e.outputs for e in each]):
            same.join(values, fixed)
        if not fixed:
            entries.append(first)
    for values in zip(*outputs):
        same.constant("the result", values)
    return entries, outputs[0]


class _Same:
    """Which values of the traces stand for one another."""

    def __init__(self) -> None:
        self.partners: dict[int, tuple[Value, ...]] = {}
        self.fixed: dict[int, bool] = {}

    def join(self, values: tuple[Value, ...], fixed: bool = False) -> None:
        """Enter values that correspond."""
        self.partners[id(values[0])], self.fixed[id(values[0])] = values, fixed
        values[0].shape = tuple(of(n) for n in zip(*[v.shape for v in values]))

    def constant(self, op: str, values: tuple[Value, ...]) -> bool:
        """Whether corresponding inputs are constant. Raises: ONNXExportError where they do not correspond."""
        first = values[0]
        known = self.partners.get(id(first))
        if known is not None:
            if any(a is not b for a, b in zip(known, values)):
                raise ONNXExportError(f"onnx.export: {op} is given other values at another size of a dynamic axis; leave that axis out of "
                                      f"dynamic_axes")
            return self.fixed[id(first)]
        if first.tensor is None or any(v.tensor is None for v in values):
            raise ONNXExportError(f"onnx.export: {op} is given a value that no operation of this model made")
        if any(v.tensor.storage is not first.tensor.storage and not _equal(first, v) for v in values[1:]):
            raise ONNXExportError(f"onnx.export: {op} is given a constant of shape {first.shape} that was made of the size of a dynamic "
                                  f"axis, by something that is no operation of Volta; make it by arange(), zeros() or full()")
        return True

    def number(self, op: str, values: Sequence) -> object:
        """A parameter of an entry: as it is where it is the same in all traces, with Sizes where whole numbers differ."""
        first = values[0]
        if isinstance(first, np.ndarray):
            equal = all(np.array_equal(first, v) for v in values)
        elif isinstance(first, (tuple, list)):
            if len({len(v) for v in values}) == 1:
                return (list if isinstance(first, list) else tuple)(self.number(op, each) for each in zip(*values))
            equal = False
        else:
            equal = all(type(v) is type(first) and (v == first or v != v) for v in values)
            if not equal and all(type(v) is int for v in values):
                return Size(values)
        if not equal:
            raise ONNXExportError(f"onnx.export: a parameter of {op} depends on the size of a dynamic axis in a way that the graph cannot "
                                  f"express; leave that axis out of dynamic_axes")
        return first

    def varies(self, x: object) -> bool:
        """Whether a Size is in it."""
        return isinstance(x, Size) or isinstance(x, (tuple, list)) and any(self.varies(each) for each in x)


def _equal(a: Value, b: Value) -> bool:
    return a.shape == b.shape and a.dtype is b.dtype and np.array_equal(
        array(a.tensor), array(b.tensor), equal_nan=a.dtype.is_floating_point)


def array(t: TensorBase) -> np.ndarray:
    """The values on the host, downloaded from a GPU."""
    return np.ascontiguousarray(t.detach().cpu().numpy()).reshape(t.shape)


def resized(t: TensorBase, sizes: dict[int, int], arange: Callable) -> TensorBase:
    """t with these sizes of some dimensions: its elements over and over again, so that integers stay in their range."""
    for dim, n in sizes.items():
        t = t.index_select(dim, arange(n, device=t.device) % t.shape[dim])
    return t
