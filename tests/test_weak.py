"""Weak references to tensors, and tensors that change places, against PyTorch's."""
import copy
import gc
import importlib
import weakref

import pytest

import volta
from volta.errors import ArgumentError
from volta.utils import swap_tensors
from volta.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef, WeakTensorKeyDictionary


def same(program):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    logs = [], []
    for lib, log in zip((volta, torch), logs):
        program(lib, importlib.import_module(f"{lib.__name__}.utils.weak"), log)
    assert logs[0] == logs[1] and logs[0]


def test_dictionaries_as_pytorchs():
    def program(lib, weak, log):
        table = weak.WeakTensorKeyDictionary()
        x, y, z = lib.ones(2), lib.ones(2), lib.ones(2)
        table[x], table[y] = [1], 2
        log.append([len(table), x in table, z in table, table.get(z, "none"), table[x], 5 in table])
        log.append([sum(k is x for k in table), [k is y for k in table.keys()], list(table.values()), [v for _, v in table.items()]])
        log.append([table.setdefault(x, 7), table.setdefault(z, 7), table.pop(z), table.pop(z, "gone"), len(table.keyrefs())])
        for wrong in (lambda: table[z], lambda: table.pop(z), lambda: table.__delitem__(z)):
            try:
                wrong()
            except KeyError:
                log.append("KeyError")
        shallow, deep = copy.copy(table), copy.deepcopy(table)
        log.append([shallow == table, shallow[x] is table[x], deep[x] == table[x], deep[x] is table[x], shallow == {}])
        both = table | {z: 3}
        log.append([type(both).__name__ == type(table).__name__, both[z], len(both), len({z: 3} | table)])
        table |= {z: 4}
        del table[z]
        for _ in table:
            del y                                   # while it is walked through
            break
        gc.collect()
        log.append([len(table), len(shallow)])
        refs = [weak.WeakIdRef(x), weak.WeakIdRef(x), weak.WeakIdRef(z)]
        log.append([refs[0] == refs[1], refs[0] == refs[2], hash(refs[0]) == id(x), refs[0]() is x])
        del x, both
        log.append([refs[0]() is None, refs[0] == refs[1], refs[0] == refs[0]])
    same(program)


def test_an_entry_goes_with_its_key_and_a_dictionary_with_its_last_name():
    x, table = volta.ones(2), WeakIdKeyDictionary()
    assert WeakTensorKeyDictionary is WeakIdKeyDictionary and repr(table).startswith("<WeakIdKeyDictionary")
    table[x] = 1
    seen = weakref.ref(table)
    del table
    assert seen() is None
    table = WeakIdKeyDictionary({x: 2}, ref_type=WeakIdRef)
    del x
    assert len(table) == 0


def test_references_to_tensors():
    x = volta.ones(2)
    reference = TensorWeakRef(x)
    assert reference() is x
    del x
    assert reference() is None
    with pytest.raises(ArgumentError, match="needs a tensor, got int"):
        TensorWeakRef(1)


def test_swapping_as_pytorch():
    def program(lib, weak, log):
        def note(*tensors):
            log.append([[type(t).__name__, t.tolist(), str(t.dtype).split(".")[-1], t.requires_grad,
                         None if t.grad is None else t.grad.tolist(), getattr(t, "mark", None)] for t in tensors])
        layer = lib.nn.Linear(2, 1, bias=False)
        weight, other = layer.weight, lib.tensor([[1, 2, 3]], dtype=lib.int64)
        with lib.no_grad():
            weight.fill_(3)
        layer(lib.ones(1, 2)).sum().backward()
        other.mark = "here"
        lib.utils.swap_tensors(weight, other)
        note(weight, other)
        lib.utils.swap_tensors(weight, other)
        note(weight, other)
        wide = lib.nn.Parameter(lib.full((1, 4), 2.))
        wide.register_hook(lambda g: log.append(["hook", g.tolist()]))
        lib.utils.swap_tensors(weight, wide)
        log.append(layer.weight is weight)
        optimizer = lib.optim.SGD(layer.parameters(), lr=0.5)
        layer(lib.ones(1, 4)).sum().backward()
        optimizer.step()
        note(weight, wide)
        lib.utils.swap_tensors(weight, weight)
        note(weight)
    same(program)


def test_what_cannot_change_places():
    x, y = volta.ones(2, requires_grad=True), volta.zeros(2)
    for wrong in ((x * 2, y), (y, x * 2), (volta.ones(3).requires_grad_()[:2], y)):
        with pytest.raises(ArgumentError, match="must be a leaf that is no view, got one that an op made"):
            swap_tensors(*wrong)
    with pytest.raises(ArgumentError, match="t2 must be a tensor, got int"):
        swap_tensors(x, 1)
    reference = weakref.ref(y)
    with pytest.raises(ArgumentError, match="t2 is named by a weak reference"):
        swap_tensors(x, y)
    assert reference() is y and x.tolist() == [1, 1] and y.tolist() == [0, 0]
