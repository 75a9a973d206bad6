"""Making tensors, their facts, conversion to Python and NumPy, methods and operators, copying and pickling."""
import copy
import inspect
import math
import pickle

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from volta.ops.table import FUNCTIONS, PLACES


# ---------------------------------------------------------------- making them
@pytest.mark.parametrize("data, dtype, shape", [
    (1, "int64", ()), (1.5, "float32", ()), (True, "bool", ()), ([1, 2], "int64", (2,)), ([1, 2.5], "float32", (2,)),
    ([True, False], "bool", (2,)),
    ([[1.0], [2.0]], "float32", (2, 1)), ((1, (2)), "int64", (2,)), ([], "float32", (0,)), ([[], []], "float32", (2, 0)),
    (range(3), "int64", (3,)),
    (np.float64(2), "float64", ()),
    (np.zeros(2, np.int16), "int16", (2,)), (np.zeros(2, np.int8), "int8", (2,)), (np.zeros(2, np.uint16), "int32", (2,)),
    (np.zeros((1, 2), np.float16), "float16", (1, 2)),
    (np.zeros(2, np.uint8), "uint8", (2,)), (np.zeros(2, np.uint32), "int64", (2,)), ([np.float32(1), 2], "float32", (2,))])
def test_tensor(data, dtype, shape):
    x = volta.tensor(data)
    assert x.dtype is getattr(volta, dtype) and x.shape == shape and x.tolist() == np.asarray(data).tolist()


def test_tensor_copies(device):
    source = np.array([1.0, 2.0], np.float32)
    x = volta.tensor(source, device=device)
    source[0] = 9
    y = volta.tensor(x)
    y.add_(1.0)
    assert x.tolist() == [1.0, 2.0] and y.tolist() == [2.0, 3.0] and y.device == x.device
    z = volta.tensor([x[0], x[1] * 2], device=device)
    assert z.tolist() == [1.0, 4.0]
    assert volta.as_tensor(x) is x and volta.tensor(x, dtype=volta.int64).dtype is volta.int64
    shared = np.array([1.0, 2.0], np.float32)
    t, same, other = volta.as_tensor(shared), volta.as_tensor(shared, dtype=volta.float32), volta.as_tensor(shared, dtype=volta.float64)
    shared[0] = 5
    assert t.tolist() == same.tolist() == [5.0, 2.0] and other.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "uint8", "bool"])
def test_rules(dtype, device):
    dtype = getattr(volta, dtype)
    f = {"dtype": dtype, "device": device}
    numpy = dtype.name
    for found, expected in (
            (volta.zeros(2, 3, **f), np.zeros((2, 3))), (volta.ones((2, 3), **f), np.ones((2, 3))),
            (volta.full((2,), 3, **f), np.full(2, 3)),
            (volta.full((), 1, **f), np.ones(())), (volta.arange(5, device=device).to(dtype), np.arange(5)),
            (volta.zeros(0, 3, **f), np.zeros((0, 3))),
            (volta.eye(2, 3, **f), np.eye(2, 3)), (volta.ones([3], **f), np.ones(3)), (volta.zeros((), **f), np.zeros(()))):
        assert found.dtype is dtype and found.device == volta.device(device) and found.is_contiguous()
        np.testing.assert_array_equal(found.numpy(), expected.astype(numpy))
    assert volta.empty(2, 3, **f).shape == (2, 3)


def test_arange_and_linspace(device):
    assert volta.arange(2, 10, 3, device=device).tolist() == [2, 5, 8] and volta.arange(5, 0, -2, device=device).tolist() == [5, 3, 1]
    assert volta.arange(0, 1, 0.25, device=device).tolist() == [0.0, 0.25, 0.5, 0.75]
    assert volta.arange(3.0, device=device).dtype is volta.float32
    assert volta.arange(0, device=device).shape == (0,) and volta.arange(3, device=device).dtype is volta.int64
    np.testing.assert_allclose(volta.linspace(-1, 1, 5, device=device).numpy(), [-1, -0.5, 0, 0.5, 1])
    assert volta.linspace(3, 9, 1, device=device).tolist() == [3.0]
    long = volta.arange(0, 100_000, 1, dtype=volta.float32, device=device)
    np.testing.assert_array_equal(long.numpy(), np.arange(100_000, dtype=np.float32))


def test_like(device):
    x = volta.zeros(2, 3, dtype=volta.int32, device=device).t()
    for y in (volta.zeros_like(x), volta.ones_like(x), volta.full_like(x, 7), volta.empty_like(x)):
        assert y.shape == (3, 2) and y.dtype is volta.int32 and y.device == x.device and y.storage is not x.storage
    assert volta.full_like(x, 7).tolist() == [[7, 7]] * 3
    f = volta.zeros(4, device=device)
    assert volta.rand_like(f).shape == volta.randn_like(f).shape == (4,) and volta.randint_like(x, 3).dtype is volta.int32
    assert volta.ones_like(f, dtype=volta.int64, requires_grad=False).dtype is volta.int64


def test_from_numpy():
    with pytest.raises(DTypeError, match="from_numpy: expected a NumPy array, got list; use volta.tensor"):
        volta.from_numpy([1])
    with pytest.raises(DTypeError, match=r"from_numpy: uint16 cannot be shared; copy it with volta.tensor\(array\)"):
        volta.from_numpy(np.zeros(2, np.uint16))
    for take in (volta.as_tensor, volta.asarray):                   # these copy what cannot be shared
        assert take(np.array([1, 65535], np.uint16)).tolist() == take(np.array([1, 65535], ">u2")).tolist() == [1, 65535]
    backwards = np.arange(4.0)[::-1]
    assert volta.from_numpy(backwards).tolist() == [3, 2, 1, 0]
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    x = volta.from_numpy(fixed)
    x.add_(1.0)
    assert fixed.tolist() == [0, 1, 2] and x.tolist() == [1, 2, 3]
    assert volta.from_numpy(np.zeros((0, 3))).shape == (0, 3)


# ---------------------------------------------------------------- facts
def test_facts(device):
    x = volta.zeros(2, 3, 4, device=device)[:, 1:]
    assert (x.shape, x.size(), x.size(1), x.size(-1)) == ((2, 2, 4), (2, 2, 4), 2, 4)
    assert (x.ndim, x.dim(), x.numel(), len(x)) == (3, 3, 16, 2)
    assert (x.stride(), x.stride(0), x.storage_offset(), x.is_contiguous(), x.itemsize, x.nbytes, x.element_size()) == (
        (12, 4, 1), 12, 4, False, 4, 64, 4)
    assert x.is_floating_point() and not x.long().is_floating_point() and x.is_leaf and x.grad is None and not x.requires_grad
    assert x.is_gpu == (device == "gpu") and volta.is_tensor(x) and not volta.is_tensor(np.zeros(2))
    assert hash(x) == hash(x) and len({x, x.clone()}) == 2


# ---------------------------------------------------------------- to Python
def test_shape_is_a_size(device):
    x = volta.ones(2, 3, device=device)
    shape = x.shape
    assert type(shape) is volta.Size and x.size() is shape and shape == (2, 3) and hash(shape) == hash((2, 3)) and shape.numel() == 6
    assert repr(shape) == str(shape) == "volta.Size([2, 3])" and (x + 1).shape == shape and x.T.shape == shape[::-1]
    for made, expected in ((shape[:1], (2,)), (shape + (1,), (2, 3, 1)), ((1,) + shape, (1, 2, 3)), (shape * 2, (2, 3, 2, 3)),
                           (2 * shape, (2, 3, 2, 3)), (copy.deepcopy(shape), (2, 3)), (volta.Size(), ()), (volta.Size([True, 2]), (1, 2))):
        assert type(made) is volta.Size and made == expected
    assert all(pickle.loads(pickle.dumps(shape, protocol)) == shape for protocol in range(pickle.HIGHEST_PROTOCOL + 1))
    assert volta.zeros(shape, device=device).shape == volta.zeros(*shape, device=device).shape == shape and shape[0] == 2
    for wrong in (lambda: volta.Size([1.5]), lambda: volta.Size(3), lambda: shape + ("x",), lambda: shape + [1], lambda: [1] + shape):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ShapeError, match=r"got \(2, 3\) @ \(2, 3\)"):
        x @ x
    x.squeeze_().unsqueeze_(0)
    assert x.shape == (1, 2, 3)


def test_to_python(device):
    x = volta.tensor([[1.5, -2.0]], device=device)
    assert x.tolist() == [[1.5, -2.0]] and x[0, 0].item() == 1.5 and float(x[0, 1]) == -2.0 and int(x[0, 1]) == -2
    assert isinstance(volta.tensor(3, device=device).item(), int) and volta.tensor(True, device=device).item() is True
    assert [row.tolist() for row in x] == [[1.5, -2.0]] and bool(x[0, 0] > 0) and not bool(volta.zeros(1, device=device))
    assert list(range(5))[volta.tensor(2, device=device)] == 2 and f"{x[0, 0]:.2f}" == "1.50"
    assert 1.5 in x and 7.0 not in x
    for dtype, value in (("float64", 0.1), ("float16", 0.5), ("int32", -5), ("uint8", 200)):
        assert volta.tensor(value, dtype=getattr(volta, dtype)).item() == value


def test_to_numpy(device):
    x = volta.arange(6.0, device=device).reshape(2, 3)
    np.testing.assert_array_equal(np.asarray(x.t()), np.arange(6.0).reshape(2, 3).T)
    assert np.asarray(x).dtype == np.float32 and np.asarray(x, dtype=np.int64).dtype == np.int64
    x.requires_grad_()
    with pytest.raises(AutogradError, match=r"numpy: the tensor requires grad; call detach\(\) first"):
        x.numpy()
    assert x.numpy(force=True).shape == (2, 3) and x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert volta.zeros(0, 3, device=device).numpy().shape == (0, 3)
    np.testing.assert_array_equal(np.add(np.ones(2, np.float32), volta.ones(2)), [2, 2])


# ---------------------------------------------------------------- operators
def test_operators(device):
    a, b = np.array([1.5, -2.0, 7.0], np.float32), np.array([2.0, 3.0, -4.0], np.float32)
    x, y = volta.tensor(a, device=device), volta.tensor(b, device=device)
    for function in (
            lambda p, q: p + q, lambda p, q: p - q, lambda p, q: p * q, lambda p, q: p / q, lambda p, q: p % q,
            lambda p, q: p // q, lambda p, q: p + 2, lambda p, q: 2 - p, lambda p, q: 3 * p, lambda p, q: 1 / p,
            lambda p, q: 2 ** p, lambda p, q: p ** 2, lambda p, q: 5 % q, lambda p, q: 5 // q, lambda p, q: -p,
            lambda p, q: abs(p), lambda p, q: p ** 3, lambda p, q: +(p - 0.5), lambda p, q: p == q, lambda p, q: p != 1.5,
            lambda p, q: p < q, lambda p, q: 2 > p, lambda p, q: p >= q, lambda p, q: p <= 7):
        np.testing.assert_allclose(function(x, y).numpy(), function(a, b), rtol=1e-5)
    m, n = volta.tensor([True, False, True], device=device), volta.tensor([True, True, False], device=device)
    assert (m & n).tolist() == [True, False, False] and (m | n).tolist() == [True] * 3 and (m ^ n).tolist() == [False, True, True]
    assert (~m).tolist() == [False, True, False] and (m & True).tolist() == m.tolist()
    i = volta.tensor([6, 5], device=device)
    assert (i & 3).tolist() == [2, 1] and (i | 1).tolist() == [7, 5] and (i ^ 7).tolist() == [1, 2]


def test_operators_with_numpy_and_none(device):
    x = volta.tensor([1.0, 2.0], device=device)
    assert isinstance(np.float32(2) * x, volta.Tensor) and (np.float32(2) * x).tolist() == [2.0, 4.0]
    assert (x + np.array([1.0, 1.0], np.float32)).tolist() == [2.0, 3.0] and (x * np.float64(2)).dtype is volta.float32
    assert isinstance(np.array([1.0, 1.0], np.float32) + x, volta.Tensor)
    assert (x == None) is False and (x != None) is True and (x == "a") is False  # noqa: E711  (the operator is what is tested)
    assert (x == [1.0, 2.0]) is False and [0] * volta.tensor(2, device=device) == [0, 0] and (x @ np.ones(2, np.float32)).item() == 3.0
    with pytest.raises(TypeError, match="unsupported operand"):
        x + [1, 2]
    assert list(reversed(x)) == [2.0, 1.0]


def test_an_operand_of_another_class_may_answer(device):
    class Other:
        def __radd__(self, other):
            return "added"

        def __rpow__(self, other):
            return "a power"

        def __gt__(self, other):
            return "larger"

    x = volta.tensor([1.0, 2.0], device=device)
    assert (x + Other(), x ** Other(), x < Other()) == ("added", "a power", "larger")
    x += Other()
    assert x == "added"


def test_functions_of_numpy_give_tensors(device):
    x = volta.tensor([1.0, 4.0], device=device)
    assert isinstance(np.sqrt(x), volta.Tensor) and np.sqrt(x).tolist() == [1.0, 2.0]
    assert np.isnan(x).dtype is volta.uint8
    assert isinstance(np.asarray(x), np.ndarray)


def test_tensors_in_sequences_are_numbers(device):
    assert volta.tensor([volta.tensor([1.0], device=device), 2]).tolist() == [1.0, 2.0]
    assert volta.tensor([[np.float64(1)]]).dtype is volta.float64 and volta.tensor([1.0]).dtype is volta.float32
    with pytest.raises(ShapeError, match="a tensor in a sequence must have one element"):
        volta.tensor([volta.ones(2, device=device)])


def test_integer_division_and_remainder_follow_the_divisor(device):
    a, b = np.array([7, -7, 7, -7, 0]), np.array([2, 2, -2, -2, 5])
    x, y = volta.tensor(a, device=device), volta.tensor(b, device=device)
    assert (x // y).tolist() == (a // b).tolist() and (x % y).tolist() == (a % b).tolist()
    assert volta.fmod(x, y).tolist() == np.fmod(a, b).tolist()
    assert volta.div(x, y, rounding_mode="trunc").tolist() == [3, -3, -3, 3, 0]
    assert volta.div(x, y, rounding_mode="floor").tolist() == (a // b).tolist() and (x / y).dtype is volta.float32


def test_in_place_operators_keep_the_tensor(device):
    x = volta.tensor([1.0, 2.0], device=device)
    y, storage = x, x.storage
    x += 1
    x *= volta.tensor([2.0, 3.0], device=device)
    x -= 0.5
    x /= 2
    x **= 2
    assert x is y and x.storage is storage and x.tolist() == [1.75 ** 2, 4.25 ** 2]
    x.zero_()
    assert y.tolist() == [0.0, 0.0] and x.fill_(3).tolist() == [3.0, 3.0]
    assert x.copy_(volta.tensor([1, 2], device=device)).tolist() == [1.0, 2.0] and x.clamp_(1.5).tolist() == [1.5, 2.0]


def test_casts(device):
    x = volta.tensor([-1.7, 0.0, 2.9], device=device)
    assert x.long().tolist() == [-1, 0, 2] and x.int().dtype is volta.int32 and x.bool().tolist() == [True, False, True]
    assert x.float() is x and x.type(volta.int32).tolist() == [-1, 0, 2] and x.type().endswith("FloatTensor")
    other = volta.zeros(1, dtype=volta.int64, device=device)
    assert x.type_as(other).dtype is volta.int64 and x.cpu().type_as(other).device is other.device
    assert volta.tensor([300, 2], device=device).byte().tolist() == [44, 2]
    assert volta.tensor([math.nan], device=device).bool().tolist() == [True]
    assert volta.tensor([True, False], device=device).float().tolist() == [1.0, 0.0]


# ---------------------------------------------------------------- copies and pickles
def test_deepcopy(device):
    x = volta.ones(2, device=device, requires_grad=True)
    y = copy.deepcopy(x)
    assert y.requires_grad and y.is_leaf and y.storage is not x.storage and y.device == x.device and y.tolist() == [1.0, 1.0]
    pair = copy.deepcopy([x, x])
    assert pair[0] is pair[1]
    with pytest.raises(AutogradError, match="deepcopy: only leaves can be copied with their graph"):
        copy.deepcopy(x * 2)


def test_pickle(device):
    for x in (volta.arange(6.0, device=device).reshape(2, 3).t(), volta.ones(2, device=device, requires_grad=True),
              volta.tensor([1, 2], dtype=volta.int32, device=device), volta.zeros(0, 2, device=device)):
        y = pickle.loads(pickle.dumps(x))
        assert y.tolist() == x.tolist() and (y.dtype, y.shape) == (x.dtype, x.shape)
        assert (y.device, y.requires_grad) == (x.device, x.requires_grad)
    for value in (volta.float32, volta.device("cpu")):
        assert pickle.loads(pickle.dumps(value)) is value


def test_data(device):
    x = volta.ones(2, device=device, requires_grad=True)
    assert not x.data.requires_grad and x.data.is_set_to(x)
    other = volta.zeros(2, device=device)
    x.data = other
    assert x.tolist() == [0.0, 0.0] and x.requires_grad
    other.add_(1)
    assert x.tolist() == [1.0, 1.0] and x._version == 0 and other._version == 1
    x.data = volta.zeros(3, device=device)
    assert x.shape == (3,) and x.requires_grad
    with pytest.raises(ArgumentError, match="data: needs a tensor, got int"):
        x.data = 5
    with pytest.raises(DTypeError, match="data: the tensor requires grad, so its data must be floating point, got volta.int64"):
        x.data = volta.tensor([1], device=device)


def test_changes_of_data(device):
    """`.data` counts its changes by itself, `detach()` with the tensor; the memory is one, which in-place ops respect."""
    x = volta.ones(3, device=device, requires_grad=True)
    loss, data = (x * x).sum(), x.data
    data.mul_(5)
    data[:1].add_(1)
    assert x._version == 0 and data._version == 2 and x.tolist() == [6.0, 5.0, 5.0]
    loss.backward()
    assert x.grad.tolist() == [12.0, 10.0, 10.0]                    # of what is there now, as in PyTorch
    loss = (x * x).sum()
    x.detach().mul_(5)
    with pytest.raises(AutogradError, match="was changed in place"):
        loss.backward()
    loss = (x * x).sum()
    x.data = volta.ones(2, device=device)
    with pytest.raises(AutogradError, match="was changed in place"):
        loss.backward()                                             # recorded for another shape
    with pytest.raises(AutogradError, match=r"has shape \(3,\), its gradient \(2,\); set .grad to None"):
        (x * 2).sum().backward()
    y = volta.arange(6.0, device=device)
    for change in (lambda: y[1:].add_(y.data[:-1]), lambda: y[1:].copy_(y.data[:-1]), lambda: y.data[1:].clamp_(y[:-1], None),
                   lambda: volta.exp(y[1:], out=y.data[:-1])):
        with pytest.raises(ArgumentError, match="refer to a single memory location"):
            change()
    y.data.add_(y)
    assert y.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_the_legacy_constructor():
    """Of sizes, of data as the default dtype, of a tensor as it is; a typed one of a tensor of that dtype; nothing else."""
    assert volta.Tensor().shape == (0,) and volta.Tensor(2, 3).shape == (2, 3) and volta.Tensor(volta.ones(4, 1).size()).shape == (4, 1)
    assert volta.Tensor([1, 2]).dtype is volta.float32 and volta.Tensor((2, 3)).tolist() == [2.0, 3.0]
    x = volta.ones(3)
    volta.Tensor(x)[0] = 5
    assert x.tolist() == [5.0, 1.0, 1.0] and volta.IntTensor(2).dtype is volta.int32
    assert volta.Tensor(x.long()).dtype is volta.int64
    with pytest.raises(DTypeError, match=r"FloatTensor: needs a tensor of volta.float32, got one of volta.int64; write x.to"):
        volta.FloatTensor(x.long())
    for bad in ((1.5, 2), (True, 2), ([1], 2)):
        with pytest.raises(ArgumentError, match="Tensor: needs sizes as int, or one sequence"):
            volta.Tensor(*bad)
    with pytest.raises(DTypeError, match="there is no type 'torch.ComplexFloatTensor' here"):
        x.type("torch.ComplexFloatTensor")


def test_numpy_copies_where_it_says_so():
    x = volta.ones(3)
    for copied in (np.array(x), np.array(x, dtype=np.float32), np.array(x, copy=True), np.asarray(x, dtype=np.float64)):
        copied[0] = 9
        assert x.tolist() == [1.0] * 3
    np.asarray(x)[0] = 9
    assert x.tolist() == [9.0, 1.0, 1.0]


def test_deepcopy_takes_the_gradient_along():
    x = volta.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    assert y.grad.tolist() == [3.0, 3.0] and y.grad is not x.grad and type(y) is type(x)


# ---------------------------------------------------------------- in place
@pytest.mark.parametrize("symbol, numbers, other, expected", [
    ("//=", [7.0, -7.0], 2, [3.0, -4.0]), ("//=", [7, -7], 2, [3, -4]), ("&=", [6, 3], 5, [4, 1]), ("|=", [6, 3], 5, [7, 7]),
    ("^=", [6, 3], 5, [3, 6]), ("&=", [True, False], True, [True, False]), ("^=", [True, False], True, [False, True])])
def test_augmented_assignment_changes_the_tensor(device, symbol, numbers, other, expected):
    space = {"x": volta.tensor(numbers, device=device)}
    before, version = space["x"], space["x"]._version
    exec(f"x {symbol} {other}", space)
    assert space["x"] is before and before.tolist() == expected and before._version == version + 1


def test_augmented_assignment_of_what_does_not_fit():
    whole, flags, floats = volta.tensor([6, 3]), volta.tensor([True, False]), volta.ones(2)
    with pytest.raises(volta.errors.DTypeError, match="floor_divide_: the result is volta.float32 and cannot be stored"):
        whole //= 2.0
    with pytest.raises(volta.errors.DTypeError, match="bitwise_and_: the result is volta.int64 and cannot be stored"):
        flags &= 1
    with pytest.raises(volta.errors.DTypeError, match="bitwise_or_: needs integer or bool tensors, got float32"):
        floats |= 1
    with pytest.raises(volta.errors.DTypeError, match="bitwise_left_shift_: .*float32"):
        floats <<= 1
    assert whole.tolist() == [6, 3] and flags.tolist() == [True, False] and floats.tolist() == [1.0, 1.0]


def test_in_place_keeps_the_dtype(device):
    stored = "_: the result is volta.float32 and cannot be stored in place in volta.int64"
    for change, text in (
            (lambda x: x.clamp_(0.5), stored), (lambda x: x.addcmul_(volta.ones(2, device=device), volta.ones(2, device=device)), stored),
            (lambda x: x.lerp_(volta.ones(2, device=device), 0.5), "lerp_: input must be floating point, got int64")):
        x = volta.tensor([1, 2], device=device)
        with pytest.raises(volta.errors.DTypeError, match=text):
            change(x)
        assert x.tolist() == [1, 2]


@pytest.mark.parametrize("name", ["floor_", "ceil_", "round_"])
def test_rounding_integers_in_place_does_nothing(device, name):
    x = volta.tensor([3, -2], dtype=volta.int32, device=device)
    assert getattr(x, name)() is x and x.tolist() == [3, -2] and x.dtype is volta.int32


@pytest.mark.parametrize("name, arguments, text", [
    ("addcdiv_", (volta.ones(2), "a"), "addcdiv_: tensor2 must be a tensor, got 'a'"),
    ("addcmul_", (None, 1), "addcmul_: tensor1 must be a tensor, got NoneType"),
    ("clamp_min_", ("a",), "clamp_min_: min must be a tensor or a number, got str"),
    ("clamp_", ({},), "clamp_: min must be a number or a tensor or None, got dict"),
    ("lerp_", (volta.ones(2), {}), "lerp_: weight must be a number or a tensor, got dict"),
    ("mul_", ("a",), "mul_: other must be a tensor or a number, got str"),
    ("copy_", ("a",), "copy_: src must be a tensor or a number, got 'a'"),
    ("copy_", (volta.ones(5),), "copy_: shape (5,) cannot be repeated to the (2,)"),
    ("tril_", ("a",), "tril_: diagonal must be an integer, got 'a'"),
    ("normal_", (None,), "normal_: mean must be a number, got NoneType"), ("fill_", ([1],), "fill_: value must be a tensor or a number"),
    ("pow_", (None,), "pow_: exponent must be a tensor or a number, got NoneType")])
def test_wrong_calls_in_place_name_the_op(name, arguments, text):
    x = volta.ones(2)
    with pytest.raises((volta.errors.DTypeError, volta.errors.ArgumentError, volta.errors.ShapeError)) as caught:
        getattr(x.reshape(1, 2) if name == "tril_" else x, name)(*arguments)
    assert str(caught.value).startswith(text) and x.tolist() == [1.0, 1.0]


def test_methods_have_the_signatures_of_their_functions():
    in_place = 0
    for name, op in FUNCTIONS.items():
        signature = inspect.signature(op)
        in_its_place = None if name + "_" in FUNCTIONS else getattr(volta.Tensor, name + "_", None)     # else declared by itself
        for method in (getattr(volta.Tensor, name, None), in_its_place):
            if method is not None and PLACES[name].method and name != "where":
                assert inspect.signature(method) == signature, name
        in_place += hasattr(volta.Tensor, name + "_")
        for parameter in signature.parameters.values():
            assert parameter.annotation is not parameter.empty or parameter.name == "self", (name, parameter)
        assert signature.return_annotation is not signature.empty, name
    assert in_place > 80


def test_changing_what_a_derivative_does_not_need(device):
    x = volta.tensor([0.5, 1.0], device=device, requires_grad=True)
    h = x * 1
    y = h.tan()
    h.add_(1)
    y.sum().backward()
    volta.testing.assert_close(x.grad, 1 + np.tan([0.5, 1.0]) ** 2, 1e-5, 1e-6)


def test_result_type_needs_something():
    with pytest.raises(volta.errors.ArgumentError, match="result_type: needs tensors or numbers, got none"):
        volta.result_type()


@pytest.mark.parametrize("name", ["__rsub__", "__rtruediv__", "__rpow__", "__rmod__", "__rmul__", "__radd__", "__rmatmul__"])
def test_reflected_operators_as_methods_keep_both_gradients(device, name):
    x, y = (volta.tensor(v, device=device, requires_grad=True) for v in ([2.0, 3.0], [4.0, 5.0]))
    getattr(x, name)(y).sum().backward()
    assert x.grad is not None and y.grad is not None and y.grad.abs().sum().item() > 0


# ---------------------------------------------------------------- hooks
def test_a_leaf_hook_runs_while_backward_has_other_things_to_do(device):
    seen = []

    class Early(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append("the first node's backward")
            return g * 2

    first, last = volta.ones(2, device=device, requires_grad=True), volta.ones(2, device=device, requires_grad=True)
    for name, leaf in (("first", first), ("last", last)):
        leaf.register_post_accumulate_grad_hook(lambda leaf, name=name: seen.append((name, leaf.grad.tolist())))
    (Early.apply(first) * last).sum().backward()
    assert seen == [("last", [2.0, 2.0]), "the first node's backward", ("first", [2.0, 2.0])]


def test_a_leaf_hook_sees_the_sum_and_can_be_removed(device):
    x, calls = volta.ones(2, device=device, requires_grad=True), []
    handle = x.register_post_accumulate_grad_hook(lambda leaf: calls.append((leaf is x, leaf.grad.tolist())))
    (x * 2 + x).sum().backward()
    x.sum().backward()
    handle.remove()
    x.sum().backward()
    assert calls == [(True, [3.0, 3.0]), (True, [4.0, 4.0])]

    def step(leaf):
        with volta.no_grad():
            leaf -= 0.5 * leaf.grad
        leaf.grad = None

    y = volta.ones(2, device=device, requires_grad=True)
    y.register_post_accumulate_grad_hook(step)
    (y * 2).sum().backward()
    assert y.tolist() == [0.0, 0.0] and y.grad is None


def test_a_leaf_hook_refuses():
    x = volta.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match="register_post_accumulate_grad_hook: only leaves keep gradients, this tensor was computed"):
        (x * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(AutogradError, match="register_post_accumulate_grad_hook: the tensor does not require grad"):
        volta.ones(2).register_post_accumulate_grad_hook(print)
    with pytest.raises(ArgumentError, match="register_post_accumulate_grad_hook: needs a function of the tensor, got int"):
        x.register_post_accumulate_grad_hook(3)


def test_without_gradients_a_leaf_is_read_as_numpy():
    x = volta.tensor([1.0, 2.0], requires_grad=True)
    with volta.no_grad():
        assert x.numpy().tolist() == np.asarray(x).tolist() == [1.0, 2.0] and x.requires_grad
    with pytest.raises(AutogradError, match="numpy: the tensor requires grad"):
        x.numpy()
