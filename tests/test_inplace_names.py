"""In-place forms that PyTorch has: each changes its storage, equals the function, keeps the gradient, refuses what it cannot store."""
import numpy as np
import pytest

import volta

X = [[-2.5, 0.25, 1.0], [3.0, -0.5, 2.0]]
Y = [[1.0, 0.25, -2.0], [2.0, 3.0, 2.0]]
UNARY = ("absolute bitwise_not cos erf exp2 expm1 frac log10 log1p log2 logical_not negative rsqrt sign sin square tan trunc "
         "floor ceil round neg abs sqrt exp log sigmoid tanh relu reciprocal nan_to_num").split()
BINARY = ("bitwise_and bitwise_or bitwise_xor divide eq floor_divide fmod ge greater greater_equal gt le less less_equal logical_and "
          "logical_or logical_xor lt multiply ne not_equal subtract true_divide add sub mul div remainder pow").split()
SHAPES = {"squeeze": ((), (1,)), "unsqueeze": ((0,), (-1,)), "t": ((),),
          "transpose": ((0, 1),), "swapaxes": ((0, -1),), "swapdims": ((1, 0),)}
PRODUCTS = {"addmm": ((2, 3), (2, 4), (4, 3)), "baddbmm": ((2, 2, 3), (2, 2, 4), (2, 4, 3))}
DTYPES = ["float32", "int64", "uint8", "bool"]


def operand(lib, numbers, dtype, **place):
    return lib.tensor(np.abs(numbers).tolist() if dtype == "uint8" else numbers, **place).to(getattr(lib, dtype))


def call(function, *arguments):
    """What a call gives, or the words of its refusal."""
    try:
        return function(*arguments)
    except (RuntimeError, TypeError, ZeroDivisionError) as error:
        return error


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_elementwise(name, dtype, device):
    """As in PyTorch, where that takes the dtype at all: the value of the function in the tensor's dtype, or refused."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
    x, theirs = operand(volta, X, dtype, device=device), operand(torch, X, dtype)
    rest, others = ([operand(volta, Y, dtype, device=device)], [operand(torch, Y, dtype)]) if name in BINARY else ([], [])
    before, version, storage = x.tolist(), x._version, x.storage
    expected = call(getattr(theirs, name + "_"), *others)
    found = call(getattr(x, name + "_"), *rest)
    if isinstance(expected, Exception):
        if "can't be cast" in str(expected):
            assert isinstance(found, volta.errors.DTypeError) and f"{getattr(volta, name).name}_" in str(found), found
        if isinstance(found, Exception):
            assert isinstance(found, volta.errors.VoltaError) and x.tolist() == before
        return
    assert found is x and x.storage is storage and x._version == version + 1 and x.dtype is getattr(volta, dtype)
    np.testing.assert_allclose(x.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name, arguments", [(name, a) for name, several in SHAPES.items() for a in several])
def test_shapes(name, arguments, device):
    """The tensor itself gets the shape and strides; nothing is copied."""
    x = volta.tensor([X[0]] if name == "squeeze" else X, device=device)
    if arguments == (1,):
        x = x.t()
    storage, expected = x.storage, getattr(volta, name)(x, *arguments)
    assert getattr(x, name + "_")(*arguments) is x and x.storage is storage
    assert x.shape == expected.shape and x.stride() == expected.stride() and x.tolist() == expected.tolist()


@pytest.mark.parametrize("name, arguments", [(name, a) for name, several in SHAPES.items() for a in several])
def test_gradients_of_shapes(name, arguments, device):
    x = volta.tensor([X[0]], device=device, requires_grad=True)
    h = x.t() * 1 if arguments == (1,) else x * 1
    getattr(h, name + "_")(*arguments)
    (h * h).sum().backward()
    volta.testing.assert_close(x.grad, 2 * np.array([X[0]]), 1e-6, 1e-6)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, device, rng):
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in PRODUCTS[name]]
    x, a, b = (volta.tensor(v, device=device) for v in arrays)
    expected = getattr(volta, name)(x, a, b, beta=0.5, alpha=2)
    storage = x.storage
    assert getattr(x, name + "_")(a, b, beta=0.5, alpha=2) is x and x.storage is storage
    volta.testing.assert_close(x, expected, 1e-6, 1e-6)
    with pytest.raises(volta.errors.ShapeError, match=name):
        getattr(x[:1, ..., :1].clone(), name + "_")(a, b)


@pytest.mark.parametrize("name", UNARY + BINARY)
def test_gradients(name, device):
    """Those of PyTorch; where it has none, of the function."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
    found = []
    for lib, place in ((volta, {"device": device}), (torch, {})):
        leaves = [lib.tensor(np.abs(v).tolist(), requires_grad=True, **place) for v in ((X, Y) if name in BINARY else (X,))]
        if "bitwise" in name:
            assert isinstance(call(getattr(leaves[0] * 1, name + "_"), *leaves[1:]), RuntimeError)
            return
        h = leaves[0] * 1
        result = call(getattr(h, name + "_"), *leaves[1:])
        if isinstance(result, Exception):
            assert lib is torch, result
            return
        failed = call(lambda h=h: (h * h).sum().backward())
        if isinstance(failed, Exception):
            assert lib is torch, failed
            return
        found.append([np.zeros((2, 3)) if v.grad is None else v.grad.cpu().numpy() for v in leaves])
    for ours, theirs in zip(*found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BINARY)
def test_an_operand_that_would_widen_it_is_refused(name, device):
    with pytest.raises((volta.errors.ShapeError, volta.errors.DTypeError), match=f"{getattr(volta, name).name}_"):
        getattr(volta.ones(3, device=device).to(volta.int64), name + "_")(volta.ones(2, 3, device=device).to(volta.int64))


@pytest.mark.parametrize("name", UNARY + BINARY + list(SHAPES) + list(PRODUCTS))
def test_names_and_signatures(name):
    import inspect
    assert hasattr(volta.Tensor, name + "_")
    ours, of = (list(inspect.signature(f).parameters)[1:] for f in (getattr(volta.Tensor, name + "_"), getattr(volta, name)))
    assert ours == of


ONE_PASS = [("add", 1, {"alpha": 0.5}), ("sub", 1, {"alpha": -2}), ("addcmul", 2, {"value": 0.5}), ("addcdiv", 2, {}), ("lerp", 1, 0.25)]
MET = ["alike", "turned", "a row", "float16", "int64", "itself", "half of it", "recorded"]


def changed(lib, name, count, how, met, **place):
    """What `x.name_(...)` makes of a tensor, how often it says that it changed, the gradient of what was recorded; or a refusal."""
    memory = lib.tensor([[1.0, -2.0, np.inf], [np.nan, 0.5, 3.0], [4.0, np.nan, -1.0], [2.0, 6.0, 8.0]], **place)
    x, y = memory[:3], memory[:3] * 2 + 1
    x = x.clone() if met == "recorded" else x
    y = {"turned": lambda: y.t(), "a row": lambda: y[0], "float16": y.half, "int64": lambda: y.nan_to_num(7, 7).long(),
         "itself": lambda: x, "half of it": lambda: memory[1:], "recorded": y.requires_grad_}.get(met, lambda: y)()
    version = x._version
    options = how if isinstance(how, dict) else {"weight": how}
    x = getattr(x, name + "_")(*[y] * count, **options)
    gradients = [lib.autograd.grad(x.nan_to_num(1, 1).sum(), y)[0]] if met == "recorded" else []
    return [x.detach(), *gradients], x._version - version


@pytest.mark.parametrize("met", MET)
@pytest.mark.parametrize("name, count, how", ONE_PASS)
def test_in_one_pass(name, count, how, met, device):
    """What one kernel does in place: as PyTorch, whatever the other operands are, NaN among them, and where they share memory."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
    expected, found = call(changed, torch, name, count, how, met), call(lambda: changed(volta, name, count, how, met, device=device))
    assert isinstance(found, Exception) == isinstance(expected, Exception), found
    if not isinstance(expected, Exception):
        assert found[1] == expected[1]
        for y, theirs in zip(found[0], expected[0], strict=True):
            assert str(y.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1] and y.stride() == theirs.stride()
            np.testing.assert_allclose(y.cpu().numpy(), theirs.numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ["scatter_", "scatter_add_"])
def test_operands_by_name_are_recorded(name, device):
    x, y = volta.zeros(2, 2, device=device), volta.ones(2, 2, device=device, requires_grad=True)
    getattr(x, name)(1, index=volta.tensor([[0, 1], [1, 0]], device=device), src=y)
    assert x.requires_grad
    x.sum().backward()
    assert y.grad.tolist() == [[1, 1], [1, 1]]
