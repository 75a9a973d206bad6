"""What a record declares of its inputs' dtypes (`takes`) is what both devices accept and refuse: the same, with one text, before any
kernel runs. Knows no single op."""
import numpy as np
import pytest

import volta
from volta._kernels.core.call import Observer, run_kernel
from volta.ops.table import RECORDS
from volta.selftest import cases as table

DTYPES = {kind: [getattr(volta, name) for name in names] for kind, names in
          {"f": ("float32", "float64", "float16"), "i": ("int64", "int32", "uint8", "int8", "int16"), "b": ("bool",)}.items()}
ALL = [d for dtypes in DTYPES.values() for d in dtypes]
KIND = {d: kind for kind, dtypes in DTYPES.items() for d in dtypes}
DECLARED = [op for op in RECORDS.values() if op.inputs and op.takes is not None and op.name not in table.APART]


def test_every_record_declares_what_it_takes():
    assert [op.name for op in RECORDS.values() if op.inputs and op.takes is None] == []


def declaration(op) -> dict:
    """By input; a string stands for all of them, which are of one dtype where the op does not promote."""
    if isinstance(op.takes, dict):
        return op.takes
    first = op.inputs[0]
    return {name: op.takes if op.promotion or name == first else "=" + first for name in op.inputs}


def required(text, given) -> tuple:
    """The dtypes that "=x", "wide x", "=x or wide" or a dtype's name allow; () for kinds, which are looked up in the text."""
    if text.startswith(("=", "wide ")):
        other = given[text.removeprefix("=").removeprefix("wide ").removesuffix(" or wide")]
        other = other[0] if isinstance(other, list) else other
        wide = volta.float32 if other is volta.float16 else other
        return () if other is None else (wide,) if text[0] == "w" else (other, wide) if text.endswith(" or wide") else (other,)
    return (getattr(volta, text),) if hasattr(volta, text) else ()


def accepted(op, arrays, given: dict) -> bool:
    """Whether these dtypes (None for no tensor; lists of several) are as declared. Numbers among the sample's inputs have no part."""
    takes = {name: text for name, text in declaration(op).items() if name not in numbers(op, arrays)}
    if op.promotion:
        plain = {name: a for name, a in zip(op.inputs, arrays) if name in numbers(op, arrays)}
        common = [given[name] for name in op.inputs if name != "condition" and name not in plain]
        dtype = volta.result_type(*[volta.zeros(1, dtype=d) for d in common], *plain.values())
        if op.promotion == 2 and not dtype.is_floating_point:
            dtype = volta.float32
        if op.no_bool and volta.bool in common:
            return False
        return KIND[dtype] in list(takes.values())[-1] and given.get("condition", volta.bool) is volta.bool
    for name, text in takes.items():
        if isinstance(given[name], list) and len(set(given[name])) > 1:
            return False
        dtypes = given[name] if isinstance(given[name], list) else [given[name]]
        for dtype in dtypes:
            needed = required(text.removesuffix("?"), given)
            if dtype is None:
                if not text.endswith("?"):
                    return False
            elif dtype not in needed if needed else KIND[dtype] not in text:
                return False
    return True


def fitting(op, dtype) -> dict:
    """The dtypes of all inputs where those that are free are `dtype`, or else the first that the declaration has."""
    given = {}
    for name, text in declaration(op).items():
        text = text.removesuffix("?")
        kinds = [k for k in "fib" if k in text]
        given[name] = required(text, given)[0] if required(text, given) else dtype if KIND[dtype] in text else DTYPES[kinds[0]][0]
    return given


def numbers(op, arrays):
    return [name for name, a in zip(op.inputs, arrays) if not hasattr(a, "shape") and not isinstance(a, list)]


def combinations(op, arrays):
    """Dtypes of all inputs: fitting ones of every dtype, all of one dtype, and with one input varied."""
    found = [fitting(op, d) for d in ALL] + [dict.fromkeys(op.inputs, d) for d in ALL]
    for base in (fitting(op, d) for d in (volta.float32, volta.float16, volta.int64) if KIND[d] in "".join(declaration(op).values())):
        for name in set(op.inputs) - set(numbers(op, arrays)):
            found += [{**base, name: d} for d in ALL]
            if not op.promotion:
                found.append({**base, name: None})
    lists = [name for name, a in zip(op.inputs, arrays) if isinstance(a, list)]
    for name in lists + [op.inputs[-1]] * (len(arrays) > len(op.inputs)):               # any number are of one dtype
        found += [{**fitting(op, volta.float32), name: [volta.float32, d]} for d in ALL]
    return {repr(sorted(f.items(), key=str)): f for f in found}.values()


def made(op, arrays, given, device):
    """The sample's inputs of these dtypes; a number stays one."""
    def one(a, dtype):
        if isinstance(a, list):
            dtypes = dtype[:1] + dtype[1:] * (len(a) - 1) if isinstance(dtype, list) else [dtype] * len(a)
            return None if dtype is None else [one(x, d) for x, d in zip(a, dtypes)]
        if dtype is None:
            return None
        if not hasattr(a, "shape"):
            return a
        if a.dtype.kind == "f" and not dtype.is_floating_point:
            a = np.ceil(np.abs(a))              # no divisor is 0
        return volta.tensor(table.as_dtype(a, dtype), device=device)

    names = op.inputs[:-1] + op.inputs[-1:] * (len(arrays) - len(op.inputs) + 1)
    spent = len(op.inputs) - 1
    return [one(a, given[name][min(i - spent, 1)] if isinstance(given[name], list) and not isinstance(a, list) else given[name])
            for i, (a, name) in enumerate(zip(arrays, names))]


class Seen(Observer):
    def __init__(self):
        self.names = []

    def before(self, op, device, inputs, params, out):
        self.names.append(op.name)


def outcome(op, arrays, params, given, device):
    """(whether it was accepted, the text of the refusal). A refused call runs no kernel at all, an accepted one its own."""
    inputs = made(op, arrays, given, device)
    with Seen() as seen, volta.no_grad():
        try:
            if table.family(op) in table.IN_PLACE:
                run_kernel(op, volta.device(device), tuple(inputs), params)
            else:
                op(*inputs, **params)
        except volta.errors.DTypeError as error:
            assert seen.names == [], f"{op.name} of {given} on {device} ran {seen.names} before it was refused: {error}"
            return False, str(error)
    assert op.name in seen.names
    return True, ""


def sample_of(op, rng):
    """The sample with most tensors, so that every input that can be one is."""
    case = max(op.details.cases, key=lambda c: (sum(isinstance(s, (tuple, table.Labels, table.Flags, table.Derived, table.Many))
                                                    for s in c.inputs), 0 not in [n for s in c.inputs if isinstance(s, tuple) for n in s]))
    return table.sample(op, case, rng, volta.float32), case.params


@pytest.mark.parametrize("op", DECLARED, ids=lambda op: op.name)
def test_dtypes(op, gpu, rng):
    arrays, params = sample_of(op, rng)
    wrong = []
    for given in combinations(op, arrays):
        declared = accepted(op, arrays, given)
        on_cpu = outcome(op, arrays, params, given, "cpu")
        names = [d for g in given.values() for d in (g if isinstance(g, list) else [g]) if d is not None]
        there = not op.details.cpu_only and all(table.has_dtype(gpu, d) for d in names)
        on_gpu = outcome(op, arrays, params, given, gpu) if there else on_cpu
        if on_cpu[0] is not declared or on_gpu != on_cpu:
            wrong.append((given, f"declared {declared}, CPU {on_cpu}, GPU {on_gpu}"))
        if not on_cpu[0]:
            assert on_cpu[1].startswith(f"{op.name}: ") and ("convert" in on_cpu[1] or None in given.values()), on_cpu[1]
    assert not wrong, "\n".join(f"{op.name}{ {n: str(d) for n, d in given.items()} }: {text}" for given, text in wrong)


def test_float64_on_a_gpu_is_refused_where_the_tensor_is_made(gpu):
    with pytest.raises(volta.errors.DTypeError) as first:
        volta.zeros(2, dtype=volta.float64, device=gpu)
    for make in (lambda: volta.tensor([1.0], dtype=volta.float64, device=gpu), lambda: volta.ones(2, dtype=volta.float64).to(gpu),
                 lambda: volta.ones(2, device=gpu).double(), lambda: volta.ones(2, device=gpu).to(volta.float64),
                 lambda: volta.arange(3.0, dtype=volta.float64, device=gpu), lambda: volta.rand(3, dtype=volta.float64, device=gpu)):
        with pytest.raises(volta.errors.DTypeError, match="float64"):
            make()
    assert "float64" in str(first.value)
