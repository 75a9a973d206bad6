"""Records of the op table under other layouts and operand forms: strided views, stride 0, rank 8, numbers as operands, in place."""
import contextlib

import numpy as np
import pytest
from volta._kernels.core.inplace import InPlace

import volta
from volta._kernels.core import inplace
from volta.ops.table import FUNCTIONS, PLACES, RECORDS
from volta.selftest import cases as table
from volta.selftest import checks

FLOAT = [op for op in table.records() if "f" in op.details.kinds]
BINARY = table.records(family={"binary", "comparison"})
WITH_NUMBERS = [op for op in BINARY if "f" in op.details.kinds and op.tensors < 2]


@pytest.mark.parametrize("op", [op for op in table.records() if op.details.cases], ids=lambda op: op.name)
def test_strided_inputs(op, device, rng, each):
    def check(layout, case):
        arrays = table.sample(op, case, rng, table.kind_of(op))
        views = [table.LAYOUTS[layout](a, device) if isinstance(a, np.ndarray) and a.ndim else x
                 for a, x in zip(arrays, table.to_device(arrays, device))]
        checks.same_results(op, case, arrays, views, device)
    each(check, table.LAYOUTS, op.details.cases)


@pytest.mark.parametrize("op", table.records(family={"inplace", "update"}, in_place=True), ids=lambda op: op.name)
def test_strided_targets(op, device, rng, each):
    """In-place ops write where the strides point; views of one storage stay apart."""
    def check(layout, case):
        arrays = table.sample(op, case, rng, volta.float32)
        references = [before if r is None else r for r, before in zip(table.expected(op, arrays, case.params), arrays)]
        results = table.run(op, checks.placed(arrays, device, table.LAYOUTS[layout]), case.params, device)
        for found, reference in zip(table.flat(results), table.flat(references)):
            if isinstance(found, volta.Tensor):
                table.check(found, reference, op.details.rtol, f"{op.name} on {device}", table.magnitude(table.flat(arrays)))
    each(check, table.LAYOUTS, op.details.cases)


COUNTED = ("true_places", "true_values")       # whose cases count values


@pytest.mark.parametrize("op", [op for op in FLOAT if op.name not in COUNTED], ids=lambda op: op.name)
def test_expanded_inputs(op, device, rng):
    """Stride 0 along the first dimension of every input that has one."""
    case = max(op.details.cases, key=lambda c: sum(len(s) for s in c.inputs if isinstance(s, tuple)))
    arrays = table.sample(op, case, rng, volta.float32)
    arrays = [np.repeat(a[:1], len(a), 0) if isinstance(a, np.ndarray) and a.ndim and len(a) else a for a in arrays]
    views = [x[:1].expand(x.shape) if isinstance(a, np.ndarray) and a.ndim and len(a) else x
             for a, x in zip(arrays, table.to_device(arrays, device))]
    assert any(isinstance(v, volta.Tensor) and 0 in v.stride() for v in views) or not any(
        isinstance(a, np.ndarray) and a.ndim and len(a) > 1 for a in arrays)
    checks.same_results(op, case, arrays, views, device)


@pytest.mark.parametrize("op", table.composed(), ids=lambda op: op.name)
def test_composed(op, device, rng, each):
    """Functions of other ops: transposed, sliced, reversed and expanded inputs."""
    each(lambda case: checks.layouts(op, case, device, rng), [case for case in op.details.cases if checks.fits(case, device)])


@pytest.mark.parametrize("op", table.records(family=table.ELEMENTWISE), ids=lambda op: op.name)
def test_rank_eight(op, device, rng):
    """Permuted tensors of rank 8, broadcast against each other where the op takes several."""
    shape = (2, 1, 3, 2, 1, 2, 2, 3)
    shapes = (shape, (1, 3, 1, 1, 2, 1, 3), (2, 1, 1, 1, 1, 1, 2, 1), (2, 1, 1))
    if op.family in ("grad", "gamma", "draw"):
        shapes = (shape,) * len(op.inputs)
    order = (5, 0, 3, 7, 1, 6, 2, 4)
    arrays, views = [], []
    for i, (s, spec) in enumerate(zip(shapes, op.details.cases[0].inputs)):
        if isinstance(spec, float):
            arrays.append(spec)
            views.append(spec)
            continue
        dtype = volta.bool if op.inputs[i] == "condition" else table.kind_of(op)
        a = np.full(s, True) if dtype is volta.bool else table.values(op, s, rng, dtype)
        if dtype is volta.bool:
            a = rng.random(s) < 0.5
        axes = [k for k in order if k < len(s)]
        arrays.append(a)
        views.append(volta.tensor(np.ascontiguousarray(a.transpose(axes)), device=device).permute(tuple(np.argsort(axes))))
    (found,) = table.run(op, views, {}, device)
    (reference,) = table.expected(op, arrays, {})
    assert len(reference.shape) == 8
    table.check(found, table.on_device(reference, device), op.details.rtol, f"{op.name} on {device}", table.magnitude(arrays))


def test_rank_eight_moves(device, rng):
    a = rng.normal(size=(2, 1, 3, 2, 1, 2, 2, 3)).astype(np.float32)
    x = volta.tensor(a, device=device).permute(7, 2, 5, 0, 3, 1, 4, 6)
    b = a.transpose(7, 2, 5, 0, 3, 1, 4, 6)
    np.testing.assert_array_equal(x.contiguous().numpy(), b)
    np.testing.assert_array_equal(volta.cat([x, x], 3).numpy(), np.concatenate([b, b], 3))
    np.testing.assert_array_equal(volta.pad(x, (1, 2, 0, 1)).numpy(), np.pad(b, [(0, 0)] * 6 + [(0, 1), (1, 2)]))
    volta.testing.assert_close(x.sum((0, 3, 6)), b.sum((0, 3, 6)), 1e-5, 1e-5)
    np.testing.assert_array_equal(x.amax((1, 2)).numpy(), b.max((1, 2)))


# ---------------------------------------------------------------- numbers as operands
@contextlib.contextmanager
def no_transfers(device):
    """On a GPU: an upload or a download inside is an error."""
    if device == "cpu":
        yield
        return
    before = volta.gpu.stats()
    with volta.gpu.forbid_transfers():
        yield
    after = volta.gpu.stats()
    assert after.uploads == before.uploads and after.downloads == before.downloads


@pytest.mark.parametrize("op, side", [(op, side) for op in WITH_NUMBERS for side in ("right", "left")[:2 - op.tensors]])
def test_number_operand(op, side, device, rng):
    """A number behaves as a tensor of the other operand's dtype, on its device, and is not uploaded."""
    array = table.values(op, (3, 5), rng, volta.float32)
    x = volta.tensor(array, device=device)
    volta.tensor(0.0, device=device)
    for number in (1.5, 2):
        filled = np.full_like(array, number)
        with no_transfers(device):
            found = op(number, x) if side == "left" else op(x, number)
        (reference,) = table.expected(op, [filled, array] if side == "left" else [array, filled], {})
        assert found.device == x.device
        assert found.dtype is (volta.bool if reference.dtype.kind == "b" else volta.float32)
        table.check(found, reference, op.details.rtol, f"{op.name} with {number} on the {side}", table.magnitude([array]))


@pytest.mark.parametrize("op", [op for op in WITH_NUMBERS if "i" in op.details.kinds], ids=lambda op: op.name)
def test_number_operand_of_integers(op, device, rng):
    array = rng.integers(1, 9, (3, 5))
    x = volta.tensor(array, dtype=volta.int32, device=device)
    for number, dtype in ((2, volta.int32), (2.5, volta.float32)):
        for operands, arrays in (((x, number), (array, number)), ((number, x), (number, array)))[:2 - op.tensors]:
            found, reference = op(*operands), op.details.numpy(*arrays)
            assert found.dtype is (volta.bool if reference.dtype.kind == "b" else dtype), f"{op.name} with {number}"
            table.check(found, reference, 1e-5, f"{op.name} with {number}")


@pytest.mark.parametrize("op", [op for op in WITH_NUMBERS if op.vjp is not None], ids=lambda op: op.name)
def test_number_operand_derivative(op, device, rng):
    """The gradient with a number is that with a tensor full of it."""
    array = table.values(op, (4,), rng, volta.float32)
    for left in (False, True)[:2 - op.tensors]:
        gradients = []
        for other in (1.5, volta.full((4,), 1.5, device=device)):
            x = volta.tensor(array, device=device, requires_grad=True)
            (op(other, x) if left else op(x, other)).backward(volta.ones(4, device=device))
            gradients.append(x.grad)
        volta.testing.assert_close(gradients[0], gradients[1], 2e-5, 2e-5)


# ---------------------------------------------------------------- in place
IN_PLACE = [op for op in table.records(family=table.ELEMENTWISE - {"grad", "comparison", "ternary"}) if op.promotion != 0
            and not op.name.startswith("is")]


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.name)
def test_into(op, device, rng):
    """`op_` equals `op`, keeps its storage and counts the change, on row-major and strided tensors."""
    dtype = table.kind_of(op)
    arrays = [table.values(op, (4, 6), rng, dtype) for _ in op.inputs]
    (reference,) = table.expected(op, arrays, {})
    for layout in (lambda a, d: volta.tensor(a, device=d), *table.LAYOUTS.values()):
        target, others = layout(arrays[0], device), table.to_device(arrays[1:], device)
        storage, version = target.storage, target.storage.version
        assert inplace.InPlace(op.name + "_", op)(target, *others) is target
        assert target.storage is storage and storage.version == version + 1
        table.check(target, reference, op.details.rtol, f"{op.name}_ on {device}", table.magnitude(arrays))


def forms(geometry):
    """(name, op, in-place form) of the public ops that have one, as the class of tensors has it."""
    return [pytest.param(op, name, id=name + "_") for name, op in FUNCTIONS.items()
            if (PLACES[name].geometry if geometry else PLACES[name].inplace) and op.details.cases]


def with_tensor_first(op, device):
    return [case for case in op.details.cases if case.inputs and isinstance(case.inputs[0], tuple) and checks.fits(case, device)]


@pytest.mark.parametrize("op, name", forms(geometry=False))
def test_in_place(op, name, device, rng, each):
    """`x.op_()` of any op, record or composed: value, storage, version, gradient, and what it refuses."""
    form = getattr(volta.Tensor, name + "_")
    assert isinstance(form, InPlace)
    each(lambda case: checks.in_place(form, op, case, device, rng), with_tensor_first(op, device))
    each(lambda case: checks.refused_in_place(form, op, case, device, rng), with_tensor_first(op, device))


@pytest.mark.parametrize("op, name", forms(geometry=True))
def test_new_geometry(op, name, device, rng, each):
    form = getattr(volta.Tensor, name + "_")
    each(lambda case: checks.new_geometry(form, op, case, device, rng), with_tensor_first(op, device))


def test_into_leaves_the_rest_of_the_storage(device):
    whole = volta.zeros(4, 6, device=device)
    whole[1:3, ::2].add_(2.0)
    whole.t()[5].sub_(1.0)
    expected = np.zeros((4, 6), np.float32)
    expected[1:3, ::2] += 2
    expected.T[5] -= 1
    np.testing.assert_array_equal(whole.numpy(), expected)


def test_into_with_itself_and_with_part_of_it(device):
    x = volta.arange(1.0, 7.0, device=device)
    x.mul_(x)
    np.testing.assert_array_equal(x.numpy(), np.arange(1.0, 7.0, dtype=np.float32) ** 2)
    z = volta.arange(9.0, device=device).reshape(3, 3)
    z[:, 1:].add_(z[:, :2])                     # with gaps: not looked at, and read as it was before
    np.testing.assert_array_equal(z.numpy(), [[0, 1, 3], [3, 7, 9], [6, 13, 15]])


def test_into_with_a_number(device):
    x = volta.tensor([1.0, 2.0, 4.0], device=device)
    with no_transfers(device):
        x.mul_(2).add_(1).div_(2.0).sub_(0.5)
        x += 1
        x /= 2
    np.testing.assert_array_equal(x.numpy(), [1.0, 1.5, 2.5])


def test_every_elementwise_record_is_in_a_family_tested_here():
    """But for users' own, which an example in the docs may have declared in this process: `op.check()` tests those."""
    assert {op.family for op in RECORDS.values() if op.promotion} - {"own"} <= table.ELEMENTWISE
