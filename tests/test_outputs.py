"""`out=` of every function that has it, and NumPy's spellings of arguments."""
import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, AutogradError, DeviceError, DTypeError
from volta.ops.table import FUNCTIONS
from volta.selftest import cases as op_cases


def _results(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


BESIDE = ("argsort", "median", "nanmedian")          # whose `out=` needs another argument


def _ops():
    return [op for name, op in FUNCTIONS.items() if name == op.name and op.has_out and op.details.cases and op.details.numpy
            and op_cases.family(op) != "creation" and name not in BESIDE]


@pytest.mark.parametrize("op", _ops(), ids=lambda op: op.name)
def test_every_op_writes_into_out(op, device):
    case = op.details.cases[min(1, len(op.details.cases) - 1)]
    dtype = op_cases.kind_of(op)
    tensors = op_cases.to_device(op_cases.sample(op, case, np.random.default_rng(0), dtype), device)
    made = op(*tensors, **case.params)
    expected = _results(made)
    for outs in ([volta.empty(0, dtype=each.dtype, device=device) for each in expected],
                 [volta.full(each.shape, 7, dtype=each.dtype, device=device) for each in expected],
                 [volta.zeros(each.shape[::-1], dtype=each.dtype, device=device).permute(range(each.ndim)[::-1]) for each in expected]):
        several = isinstance(made, (tuple, list))
        result = op(*tensors, **case.params, out=tuple(outs) if several else outs[0])
        for given, each, value in zip(outs, outs if result is None else _results(result), expected):     # None: copies of parts
            assert each is given
            np.testing.assert_array_equal(given.numpy(), value.numpy())


def test_out_that_does_not_fit(device):
    x = volta.ones(2, 2, device=device)
    with pytest.raises(DTypeError, match="exp: the result is volta.float32 and cannot be stored in out of volta.int64"):
        volta.exp(x, out=volta.empty(2, 2, dtype=volta.int64, device=device))
    with pytest.raises(DTypeError, match="exp: out must be a tensor, or one for each result, got int"):
        volta.exp(x, out=3)
    with pytest.raises(TypeError, match="out"):
        volta.reshape(x, (4,), out=x)
    with pytest.raises(AutogradError, match="exp: out= is not differentiable"):
        volta.exp(x.requires_grad_(), out=volta.empty(2, 2, device=device))
    x = x.detach()
    out = volta.full((3,), 5.0, device=device)
    with pytest.warns(UserWarning, match=r"mul: out of shape \(3,\) now has that of the result, \(2, 2\)"):
        volta.mul(x, x, out=out)
    assert out.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert volta.exp(x, out=None).shape == (2, 2)
    if device == "gpu":
        with pytest.raises(DeviceError, match="exp: the result is on gpu, out on cpu"):
            volta.exp(x, out=volta.empty(2, 2))


@pytest.mark.parametrize("name, args, taken", [
    ("exp", (), "float16 float32"), ("add", (1,), "float16 float32"), ("abs", (), "float32"), ("amax", (0,), "float32"),
    ("cat", None, "float16 float32"), ("sum", (0,), "bool uint8 int64 float16 float32"), ("all", (0,), "bool uint8"),
    ("eq", (1,), "bool uint8 int64 float16 float32"), ("argmax", (0,), "int64"), ("bernoulli", (), "bool uint8 int64 float16 float32")])
def test_dtypes_of_out(name, args, taken, device):
    x = volta.tensor([[1.0, 0.0], [1.0, 1.0]], device=device)
    function, inputs = getattr(volta, name), ([x],) if args is None else (x, *args)
    expected = function(*inputs)
    for dtype in (volta.bool, volta.uint8, volta.int64, volta.float16, volta.float32):
        out = volta.ones(expected.shape, dtype=dtype, device=device)
        if dtype.name in taken.split():
            assert function(*inputs, out=out) is out
            np.testing.assert_array_equal(out.numpy(), expected.to(dtype).numpy())
        else:
            with pytest.raises(DTypeError, match=f"cannot be stored in out of {dtype}"):
                function(*inputs, out=out)
            assert (out == 1).all()
    with pytest.raises(DTypeError, match="sum: the result is volta.float16 and cannot be stored in out of volta.float32"):
        volta.sum(x, 0, dtype=volta.float16, out=volta.empty(2, device=device))


def test_out_that_is_read_or_given_twice(device):
    x = volta.tensor([[1.0, 2.0], [4.0, 3.0]], device=device)
    with pytest.raises(ArgumentError, match="refer to a single memory location"):
        volta.aminmax(x, dim=0, out=(x[0], x[0]))
    volta.sum(x, 0, out=x[0])                       # which is whole before it is stored
    assert x.tolist() == [[5.0, 5.0], [4.0, 3.0]]


def test_out_of_another_shape_stays_where_it_is(device):
    whole = volta.arange(8.0, device=device)
    with pytest.warns(UserWarning, match="now has that of the result"):
        volta.add(volta.ones(3, device=device), 1, out=whole[2:4])
    assert whole.tolist() == [0.0, 1.0, 2.0, 2.0, 2.0, 5.0, 6.0, 7.0]


def test_out_of_memory_that_is_read(device):
    x = volta.arange(4.0, device=device)
    index = volta.tensor([1, 0, 3, 2], device=device)
    for call in (lambda: volta.add(x[:3], 1, out=x[1:]), lambda: volta.gather(x, 0, index, out=x),
                 lambda: volta.cat([x[:1], x[1:]], out=x)):
        with pytest.raises(ArgumentError, match="some elements of the input tensor and the written-to tensor refer to a single memory"):
            call()
    assert volta.add(x, 1, out=x) is x and volta.exp(x[:2], out=x[2:]).shape == (2,) and volta.mul(x[2:], 0, out=x[2:]) is not x
    assert x.tolist() == [1.0, 2.0, 0.0, 0.0]


def test_out_of_another_kind(device):
    out = volta.empty(3, dtype=volta.float32, device=device)
    assert volta.arange(3, out=out).tolist() == [0.0, 1.0, 2.0]
    assert volta.eq(out, 1, out=out).tolist() == [0.0, 1.0, 0.0]
    assert volta.zeros(3, out=volta.empty(3, dtype=volta.int64)).dtype is volta.int64


def test_the_spellings_of_numpy(device):
    x = volta.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    assert x.sum(axis=1, keepdims=True).tolist() == volta.sum(input=x, dim=1, keepdim=True).tolist() == [[3.0], [7.0]]
    assert volta.add(x1=x, x2=x).tolist() == volta.add(x, other=x).tolist()
    assert volta.exp(x=x).tolist() == x.exp().tolist()
    assert volta.cat([x, x], axis=1).shape == (2, 4)
    assert x.max(axis=0).values.tolist() == [3.0, 4.0]
    with pytest.raises(TypeError):
        volta.sum(x, axis=1, dim=1)


@pytest.mark.parametrize("call", [
    lambda x, out: volta.isnan(x, out=out), lambda x, out: volta.clone(x, out=out), lambda x, out: volta.relu(x, out=out),
    lambda x, out: volta.cdist(x, x, out=out), lambda x, out: volta.flip(x, (0,), out=out), lambda x, out: volta.rand_like(x, out=out),
    lambda x, out: volta.nn.functional.mse_loss(x, x, out=out), lambda x, out: volta.nn.functional.softmax(x, 0, out=out)])
def test_functions_without_out(call):
    """As in PyTorch, and nothing is written."""
    x, out = volta.ones(2, 2), volta.zeros(2, 2)
    with pytest.raises(TypeError, match="out"):
        call(x, out)
    assert (out == 0).all()


@pytest.mark.parametrize("name", ["sum", "prod", "median", "nanmedian"])
def test_out_beside_a_dimension_alone(name):
    x = volta.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(TypeError, match="out= needs 'dim'"):
        getattr(volta, name)(x, out=volta.empty(0))
    expected = getattr(volta, name)(x, 1)
    outs = [volta.empty(0, dtype=each.dtype) for each in _results(expected)]
    found = getattr(volta, name)(x, dim=1, out=tuple(outs) if isinstance(expected, tuple) else outs[0])
    for a, b in zip(_results(found), _results(expected)):
        assert (a == b).all()


def test_out_of_what_is_computed_straight_into_it(device):
    x = volta.arange(4.0, device=device)
    for call in (lambda: volta.cumsum(x[:3], 0, out=x[1:]), lambda: volta.max(x[1:], x[:3], out=x[1:]),
                 lambda: volta.sinc(x[:3], out=x[1:])):
        with pytest.raises(ArgumentError, match="some elements of the input tensor and the written-to tensor refer to a single memory"):
            call()
    assert volta.cumsum(x, 0, out=x).tolist() == [0.0, 1.0, 3.0, 6.0]


def test_out_of_lines_keeps_a_shape_of_as_many_elements(device, recwarn):
    grid = volta.empty(2, 2, device=device)
    assert volta.arange(4, out=grid) is grid and grid.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert volta.linspace(0, 3, 4, out=grid).shape == (2, 2) and volta.zeros(3, out=grid).shape == (3,)
    assert not recwarn.list


def test_out_of_larger_and_smaller(device):
    x, y = volta.tensor([1, 5], device=device), volta.tensor([3, 2], device=device)
    for result, call in ([[3.0, 5.0], lambda out: volta.max(x, y, out=out)], [[1.0, 2.0], lambda out: volta.min(x, other=y, out=out)],
                         [5.0, lambda out: volta.max(x, out=out)]):
        assert call(volta.empty(0, device=device)).tolist() == result
    with pytest.raises(DTypeError, match="max: the result is volta.int64 and cannot be stored"):
        volta.max(x, 0, out=(volta.empty(0, device=device), volta.empty(0, dtype=volta.int64, device=device)))
    assert volta.nn.functional.normalize(volta.tensor([[3.0, 4.0]], device=device), out=volta.empty(0, device=device)).shape == (1, 2)
    for name, args in (("native_layer_norm", ((2,), None, None, 1e-5)), ("native_group_norm", (None, None, 1, 2, 1, 1, 1e-5))):
        with pytest.raises(TypeError, match="out"):
            getattr(volta, name)(volta.ones(1, 2, device=device), *args, out=volta.empty(0, device=device))


def test_out_of_what_has_no_gradient(device):
    """Such results may be stored beside tensors that require grad, and in them."""
    x, y = volta.tensor([1.0, 2.0, 0.0], device=device, requires_grad=True), volta.tensor([2.0, 2.0, 2.0], device=device)
    mask = volta.empty(3, dtype=volta.bool, device=device)
    for result, call in ([[0, 0, 0], lambda: volta.gt(x, y, out=mask)], [[0, 1, 0], lambda: volta.eq(x, y, out=mask)],
                         [[0, 0, 1], lambda: volta.logical_not(x, out=mask)], [[1, 1, 0], lambda: volta.logical_and(x, y, out=mask)],
                         [[0, 1, 0], lambda: volta.isin(x, y, out=mask)], [[0, 0, 0], lambda: volta.signbit(x, out=mask)]):
        assert call().tolist() == [bool(r) for r in result]
    at = volta.empty((), dtype=volta.int64, device=device)
    assert volta.argmax(x, out=at).item() == 1
    assert volta.eq(y, y, out=x) is x and x.tolist() == [1.0, 1.0, 1.0] and x.requires_grad
    with pytest.raises(AutogradError, match="add: out= is not differentiable"):
        volta.add(x, y, out=volta.empty(3, device=device))


def _product_calls(T, a, b, line):
    batches = [x.reshape(1, *x.shape) * T.ones(3, 1, 1, dtype=x.dtype) for x in (a, b)]
    return (("matmul", (a, b)), ("mm", (a, b.T.contiguous().T)), ("bmm", batches), ("matmul", batches), ("addmm", (line, a, b)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
def test_products_straight_into_out(dtype):
    """The numbers of the product, in the memory of `out`, which counts the write; also in a view and beside gaps."""
    rng = np.random.default_rng(0)
    a, b, line = (volta.tensor(rng.integers(-4, 5, shape)).to(getattr(volta, dtype)) for shape in ((5, 7), (7, 4), (4,)))
    for name, args in _product_calls(volta, a, b, line):
        expected = getattr(volta, name)(*args)
        room = volta.full((2, *expected.shape), 9, dtype=expected.dtype)
        gaps = volta.full((*expected.shape[:-1], 9), 9, dtype=expected.dtype)
        for out in (volta.full(expected.shape, 9, dtype=expected.dtype), room[1], gaps[..., :4]):
            place, version = out.data_ptr(), out._version
            assert getattr(volta, name)(*args, out=out) is out and out.data_ptr() == place and out._version > version
            np.testing.assert_array_equal(out.numpy(), expected.numpy(), err_msg=name)
        assert (room[0] == 9).all() and (gaps[..., 4:] == 9).all()


def test_products_into_what_they_read():
    """As if the product had been whole before; also through memory that is borrowed twice."""
    rng = np.random.default_rng(0)
    for name in ("matmul", "mm"):
        a, b = (volta.tensor(rng.standard_normal((6, 6))) for _ in range(2))
        expected = (a @ b).numpy()
        for which in range(2):
            pair = [a.clone(), b.clone()]
            assert getattr(volta, name)(*pair, out=pair[which]) is pair[which]
            np.testing.assert_array_equal(pair[which].numpy(), expected)
        array = a.numpy().copy()
        out = volta.from_numpy(array)
        getattr(volta, name)(volta.from_numpy(array), b, out=out)
        np.testing.assert_array_equal(out.numpy(), expected)
        room = volta.zeros(12, 6, dtype=volta.float64)
        room[:6] = a
        np.testing.assert_array_equal(getattr(volta, name)(room[:6], b, out=room[6:]).numpy(), expected)
    line, out = volta.ones(6), volta.ones(3, 6)
    with pytest.raises(ArgumentError, match="addmm: unsupported operation: some elements of the input tensor and the written-to tensor"):
        volta.addmm(out[0], volta.ones(3, 2), volta.ones(2, 6), out=out)
    with pytest.raises(AutogradError, match="mm: out= is not differentiable"):
        volta.mm(volta.ones(2, 2).requires_grad_(), volta.ones(2, 2), out=volta.empty(2, 2))
    with pytest.warns(UserWarning, match="mm: out of shape"):
        assert volta.mm(volta.ones(2, 3), volta.ones(3, 2), out=volta.empty(3, 3)).shape == (2, 2)
    with pytest.raises(DTypeError, match="addmm: the result is volta.float32 and cannot be stored in out of volta.float64"):
        volta.addmm(line[:2], volta.ones(2, 3), volta.ones(3, 2), out=volta.empty(2, 2, dtype=volta.float64))


@pytest.mark.parametrize("shape", ((3, 4), (200, 300)))
def test_an_operand_as_out(device, shape):
    """It is written where it lies, as in place; integers that are divided by 0 stay."""
    rng = np.random.default_rng(0)
    for name in ("add", "sub", "mul", "maximum"):
        for turned in (False, True):
            a, b = (volta.tensor(rng.standard_normal(shape).astype("float32"), device=device) for _ in range(2))
            a, b = (a.t(), b.t()) if turned else (a, b)
            want = getattr(volta, name)(a, b).numpy()
            version = a.storage.version
            assert getattr(volta, name)(a, b, out=a) is a and a.storage.version == version + 1
            np.testing.assert_array_equal(a.numpy(), want)
    flags = volta.tensor([True, False], device=device)
    assert volta.logical_not(flags, out=flags).tolist() == [False, True]
    with pytest.raises(ArgumentError, match="maximum: unsupported operation: some elements of the input tensor and the written-to tensor"):
        volta.maximum(a.flatten()[1:], a.flatten()[:-1], out=a.flatten()[1:]) if a.is_contiguous() else volta.maximum(
            a.t().flatten()[1:], a.t().flatten()[:-1], out=a.t().flatten()[1:])
    if device == "cpu":
        divisor = volta.tensor([1, 2, 0])
        with pytest.raises(ArgumentError, match="remainder: integer division by zero"):
            volta.remainder(volta.tensor([5, 6, 7]), divisor, out=divisor)
        assert divisor.tolist() == [1, 2, 0]


def test_copies_convert_on_the_way():
    """Between any dtypes, of any strides, as a conversion and then a copy."""
    rng = np.random.default_rng(0)
    kinds = (volta.float32, volta.float64, volta.float16, volta.bfloat16, volta.int64, volta.int32, volta.int16, volta.int8, volta.uint8,
             volta.bool)
    for source in kinds:
        x = volta.tensor(rng.uniform(0, 100, (9, 8))).to(source)
        for target in kinds:
            for shown in (lambda t: t, lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1:, 1:], lambda t: t.flip(1)):
                out = volta.zeros(9, 8, dtype=target)
                view = shown(out) if shown(out).storage is out.storage else out
                given = shown(x)
                if view.shape != given.shape:
                    continue
                version = out.storage.version
                view.copy_(given)
                np.testing.assert_array_equal(view.double().numpy(), given.to(target).double().numpy(), err_msg=f"{source} {target}")
                assert out.storage.version == version + 1
    x = volta.ones(3, dtype=volta.float64, requires_grad=True)
    y = volta.zeros(3).copy_(x * 2)
    y.sum().backward()
    assert y.dtype is volta.float32 and x.grad.tolist() == [2, 2, 2]
