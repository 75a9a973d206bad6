"""What gives several tensors gives a tuple whose class goes by the function's name, and integers that no element type holds."""
import copy
import pickle

import pytest

import volta


def test_classes_go_by_the_functions():
    x = volta.tensor([[3.0, 1.0, 2.0]])
    found = x.sort()
    assert type(found).__name__ == "sort" and type(found).__module__ == "volta.return_types"
    assert type(found) is type(volta.sort(x, -1)) and type(found) is not type(x.max(0))
    assert [type(r).__name__ for r in (x.max(1), x.topk(1), x.kthvalue(1), x.mode(), x.cummax(0), volta.aminmax(x))] == [
        "max", "topk", "kthvalue", "mode", "cummax", "aminmax"]
    assert type(volta.linalg.qr(x)).__name__ == "linalg_qr"
    one = volta.eye(1)
    assert [type(r).__name__ for r in (volta.linalg.slogdet(one), volta.slogdet(one), one.slogdet())] == [
        "linalg_slogdet", "slogdet", "slogdet"]
    values, indices = found
    assert found.values is values and found.indices is indices and found == (values, indices)


def test_they_are_copied_and_pickled():
    found = volta.tensor([3.0, 1.0]).max(0)
    for again in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found)), found._replace(indices=volta.tensor(1))):
        assert type(again) is type(found) and again.values.item() == 3.0
    assert repr(found).startswith("volta.return_types.max(\nvalues=tensor(3.),\nindices=tensor(0))")
    assert type(volta.func.vmap(lambda row: row.max(0))(volta.ones(2, 3))) is type(found)


def test_integers_beyond_64_bits():
    for function, arguments in [(volta.sum, (2**64,)), (volta.mm, (volta.ones(2, 2), 2**64)), (volta.nn.functional.relu, (2**64,))]:
        with pytest.raises(TypeError, match="must be a tensor, got int"):
            function(*arguments)
    with pytest.raises(TypeError, match="reshape: .* got one of more than 64 bits"):
        volta.ones(2).reshape(2**64)
