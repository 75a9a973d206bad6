"""The record of a chain, which is elementwise records one after another: a GPU computes it in one dispatch, and each of its derivatives,
which are chains too, in one. A chain is found once, by watching which records a function calls: one of tensors (`fused`), or what a record
has for its `derivative`."""
from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache

from volta import autograd
from volta._kernels.core import TensorBase, check_word, graph
from volta._kernels.core.call import Observer
from volta._kernels.core.engine import fuse_by
from volta.device import META
from volta.dtypes import float32
from volta.errors import AutogradError, ShapeError
from volta.ops.records.create import full_op
from volta.ops.table import BINARY_SHAPES, RECORDS, case, create, register
from volta.shapes import broadcast_shapes

TENSORS = "a", "b", "c", "d", "e", "f"          # as many as a chain may have; one alone is given twice
_PLACES = len(TENSORS)
_SAME = ("mul", ("x0", 1.0)),                   # the first tensor as it is


class Chain:
    """IN: steps as (record, operands), an operand being the name of a tensor (x0, x1, ...), of a number (s0, ...), of what a step before
    gave (t0, ...), or a number that is the same in all calls; tensors, how many there are."""
    __slots__ = ("numbers", "slopes", "steps", "tensors")

    def __init__(self, steps: tuple, tensors: int, numbers: int) -> None:
        self.steps, self.tensors, self.numbers = steps, tensors, numbers
        self.slopes: dict[int, tuple[Chain, tuple[int, ...]] | None] = {}

    def run(self, call: Callable, tensors: tuple, numbers: tuple) -> object:
        """The last step's result, each step being made by `call(record, *operands)`."""
        known = {f"x{i}": x for i, x in enumerate(tensors)} | {f"s{i}": x for i, x in enumerate(numbers)}
        for i, (name, operands) in enumerate(self.steps):
            values = [known[x] if isinstance(x, str) else x for x in operands]
            of_numbers = all(isinstance(x, (int, float)) for x in values)
            known[f"t{i}"] = float(RECORDS[name].details.numpy(*values)) if of_numbers else call(name, *values)
        return known[f"t{len(self.steps) - 1}"]

    def varies(self, place: int) -> bool:
        """Whether there is a derivative by that tensor, be it one that raises."""
        try:
            return self.slope(place) is not None
        except AutogradError:
            return True

    def trimmed(self) -> tuple[Chain, tuple[int, ...]]:
        """(The same of those tensors alone that its steps take, and of the first; their places) in the order in which the last step comes
        to them: what records one by one give lies as the first of these does, and depends on no other."""
        met, left = [], [f"t{len(self.steps) - 1}"]
        while left:
            name = left.pop()
            if isinstance(name, str) and name not in met:
                met.append(name)
                left += reversed(self.steps[int(name[1:])][1] if name[0] == "t" else ())
        places = [int(name[1:]) for name in met if name[0] == "x"]
        places += [] if 0 in places else [0]
        names = {f"x{place}": f"x{i}" for i, place in enumerate(places)}
        renamed = tuple([(name, tuple([names.get(x, x) for x in operands])) for name, operands in self.steps])
        return Chain(renamed, len(places), self.numbers), tuple(places)

    def slope(self, place: int) -> tuple[Chain, tuple[int, ...]] | None:
        """The chain from the gradient and the tensors to the gradient of one of these, and which of those it takes; None where there is
        none."""
        if place not in self.slopes:
            def derivative(g, *rest):
                tensors, numbers = rest[:self.tensors], rest[self.tensors:]
                x = tensors[place].requires_grad_()
                out = self.run(lambda name, *operands: RECORDS[name](*operands), tensors, numbers)
                return autograd.grad(out, x, g, create_graph=True, allow_unused=True)[0] if out.requires_grad else None
            found = _watched(derivative, self.tensors + 1, self.numbers)
            self.slopes[place] = None if found is None else found.trimmed()
        return self.slopes[place]


class _OtherRecord(Exception):
    """A function calls other records than elementwise ones, which have no parameters."""


class _Watch(Observer):
    """Writes down the records that a thread calls, by the memory of their operands."""
    def __init__(self, given):
        self.thread, self.steps = threading.get_ident(), []
        self.names = {x.storage: name for name, x in given.items()}
        self.varying = {name for name in given if name[0] == "x"}          # what follows from tensors

    def after(self, op, device, inputs, params, out, result):
        if threading.get_ident() != self.thread or result.storage in self.names:            # or a view
            return
        if op is full_op:
            self.names[result.storage] = float(inputs[1])
            return
        if params:
            raise _OtherRecord
        operands = [self.names[x.storage] if isinstance(x, TensorBase) else float(x) for x in inputs]
        self.names[result.storage] = self.add(op.name.rpartition(".")[2], operands)

    def add(self, name, operands):
        """The name of one more step."""
        self.steps.append((name, tuple(operands)))
        made = f"t{len(self.steps) - 1}"
        if not self.varying.isdisjoint(operands):
            self.varying.add(made)
        return made

    def needed(self, last):
        """The steps that this one needs, and itself at the end."""
        if last not in self.varying:                            # a number, which gets the shape of the tensors
            last = self.add("where", (self.add("isnan", ("x0",)), last, last))
        elif last[0] == "x":
            last = self.add("mul", (last, 1.0))
        wanted, names, steps = {last}, {}, []
        for i in reversed(range(int(last[1:]) + 1)):
            wanted.update(self.steps[i][1] if f"t{i}" in wanted else ())
        for i, (name, operands) in enumerate(self.steps[:int(last[1:]) + 1]):
            if f"t{i}" in wanted:
                names[f"t{i}"] = f"t{len(steps)}"
                steps.append((name, tuple([names.get(x, x) for x in operands])))
        return tuple(steps)


def _watched(function, tensors, numbers, recorded=True):
    """The chain that a function of so many tensors and numbers is, None where it gives None. `recorded`: with a graph of its own."""
    shapes = {f"x{i}": (2,) for i in range(tensors)} | {f"s{i}": () for i in range(numbers)}
    given = {name: create(full_op, shape, 0, dtype=float32, device=META) for name, shape in shapes.items()}
    with autograd.set_grad_enabled(recorded), _Watch(given) as watch:
        result = function(*given.values())
        return None if result is None else Chain(watch.needed(watch.names[result.storage]), tensors, numbers)


@cache
def chain_of(function: Callable, tensors: int, numbers: int, **flags: object) -> Chain:
    """The chain that `function(*tensors, *numbers, **flags)` is, a function of elementwise records."""
    return _watched(lambda *operands: function(*operands, **flags), tensors, numbers)


def fused(function: Callable, *operands: object, flags: dict | None = None) -> object:
    """function(*operands, **flags) of tensors and behind them numbers: a function of a module, which calls nothing but elementwise records
    detaches nothing, and is recorded as one of tensors of float32 on a GPU, unless a tensor stands behind a number. `flags` are what it
    decides by; its numbers take no part in that."""
    first = operands[0]
    if isinstance(first, TensorBase) and first.storage.device.is_gpu:
        count = sum(isinstance(x, TensorBase) for x in operands)
        tensors, numbers = operands[:count], operands[count:]
        if not any(isinstance(x, TensorBase) for x in numbers) and _may_be_one(tensors):
            for number in numbers:
                if isinstance(number, int):
                    check_word(function.__name__.strip("_"), number)
            numbers = tuple(map(float, numbers))
            return apply(chain_of(function, count, len(numbers), **flags or {}), tensors, numbers)
    return function(*operands) if flags is None else function(*operands, **flags)


@cache
def _derivative_chain(function, tensors, recorded):
    """(chain, places) of `function`, a derivative of so many tensors: the chain takes those at these places. None where the function is no
    chain, or too short to gain by it. `recorded`: as it is while gradients are recorded."""
    def derivative(g, *rest):
        return function(g.requires_grad_(recorded), *rest)      # so that a record without derivative is what it is made of

    try:
        chain = _watched(derivative, tensors, 0, recorded)
    except _OtherRecord:
        return None
    return None if chain is None or len(chain.steps) == 1 else chain.trimmed()


def derivative(function: Callable, g: TensorBase, operands: list) -> object:
    """function(g, *operands), the derivative of an elementwise record by one of its inputs, on a GPU in one dispatch. Those that are given
    numbers decide by these."""
    tensors = (g, *operands)
    if all(isinstance(x, TensorBase) and x.dtype is float32 for x in tensors) and not g.storage.device.is_meta:
        found = _derivative_chain(function, len(tensors), autograd.is_grad_enabled())
        if found is not None and _may_be_one(tensors):
            chain, places = found
            leads_on = autograd.is_grad_enabled() and any(tensors[x].requires_grad and chain.varies(i) for i, x in enumerate(places))
            with autograd.set_grad_enabled(leads_on):
                return _of(tensors, chain, places, ())
    return function(g, *operands)


fuse_by(derivative)


def _may_be_one(tensors):
    device = tensors[0].device
    if not all(x.dtype is float32 and x.device is device for x in tensors):
        return False
    try:
        return broadcast_shapes(*[x._shape for x in tensors]) is not None
    except ShapeError:                          # which the first record to meet it says better
        return False


def _reference(a, b, c, d, e, f, chain, numbers):
    return chain.run(lambda name, *operands: RECORDS[name](*operands), (a, b, c, d, e, f)[:chain.tensors], numbers)


def _vjp(g, a, b, c, d, e, f, needs, chain, numbers):
    given, found = (g, a, b, c, d, e, f)[:chain.tensors + 1], []
    for place in range(_PLACES):
        slope = chain.slope(place) if needs[place] and place < chain.tensors else None
        found.append(None if slope is None else g if slope[0].steps == _SAME else _of(given, *slope, numbers))
    return tuple(found)


def _of(tensors, chain, places, numbers):
    """The chain of the tensors at these places."""
    return apply(chain, tuple([tensors[place] for place in places]), numbers)


def apply(chain: Chain, tensors: tuple, numbers: tuple):
    """What a chain makes of tensors; of more than the record has places for, record by record."""
    if len(tensors) > _PLACES:
        return chain.run(lambda name, *operands: RECORDS[name](*operands), tensors, numbers)
    tensors = tensors * 2 if len(tensors) == 1 else tensors
    return graph.call(chain_op, tensors + (None,) * (_PLACES - len(tensors)), {"chain": chain, "numbers": numbers})


def _numpy(a, b, c, d, e, f, chain, numbers):
    return chain.run(lambda name, *operands: RECORDS[name].details.numpy(*operands), (a, b, c, d, e, f)[:chain.tensors], numbers)


_GIVEN = Chain((("log", ("x1",)), ("mul", ("x0", "t0")), ("clamp_min", ("t1", "s0")), ("mul", ("t2", 0.5))), 2, 1)
CASES = tuple(case(*shapes, None, None, None, None, chain=_GIVEN, numbers=(0.3,)) for shapes in BINARY_SHAPES)
chain_op = register("chain", TENSORS, family="chain", takes={"a": "f", "b": "=a", **dict.fromkeys(TENSORS[2:], "=a?")}, vjp=_vjp,
                    cases=CASES, reference=_reference, numpy=_numpy, domain=(0.2, 3.0))
chain_op.pointwise = True
