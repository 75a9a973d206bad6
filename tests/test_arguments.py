"""Functions and methods under PyTorch's argument names, forms and defaults, on each device, against NumPy or written-out values."""
import inspect
import math

import numpy as np
import pytest
from arrays import host

import volta
from volta.errors import ArgumentError, AutogradError, DTypeError, IndexRangeError, ShapeError
from volta.testing import assert_close


@pytest.fixture
def x(device):
    return volta.tensor([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]], device=device)


@pytest.fixture
def i(device):
    return volta.tensor([3, -1, 2], device=device)


X = np.float32([[1, -2, 3], [4, 0.5, -6]])


# ---------------------------------------------------------------- elementwise
def test_named_arguments(x):
    assert_close(volta.add(input=x, other=x), 2 * X)
    assert_close(volta.exp(input=x), np.exp(X))
    assert_close(x.mul(other=2), 2 * X)
    assert_close(volta.pow(x, exponent=3), X ** 3, rtol=1e-4, atol=1e-5)
    assert host(volta.lt(x, other=0)).tolist() == (X < 0).tolist()
    with pytest.raises(ArgumentError, match="exp: takes input, got 0 of 1"):
        volta.exp()
    with pytest.raises(TypeError):
        volta.add(x, x, 2)


def test_signatures_can_be_inspected(each):
    def check(name):
        parameters = list(inspect.signature(volta.ops.table.FUNCTIONS[name]).parameters)
        assert "others" not in parameters and "a" not in parameters[:name not in ("mulacc", "tensordot")]
    each(check, sorted(volta.ops.table.FUNCTIONS))


def test_alpha(x, i):
    assert_close(x.add(x, alpha=2), 3 * X)
    assert_close(volta.sub(x, 1, alpha=2), X - 2)
    assert host(i.add(i, alpha=2)).tolist() == [9, -3, 6]
    with pytest.raises(DTypeError, match="add: alpha=1.5 is no integer"):
        i.add(1, alpha=1.5)
    y = x.clone()
    assert y.add_(x, alpha=-0.5) is y
    assert_close(y, X / 2)
    assert_close(y.sub_(x, alpha=2), X * -1.5)
    assert_close(x.clone().div_(0.75, rounding_mode="floor"), np.floor(X / np.float32(0.75)))


def test_gradients_of_alpha_and_in_place_compositions(device):
    x, y = (volta.tensor([1.0, 2.0], device=device, requires_grad=True) for _ in range(2))
    z = x * 1
    z.add_(y, alpha=3).addcmul_(x, y, value=2).addcdiv_(x, y).lerp_(y, 0.25)
    z.sum().backward()
    assert_close(z, 0.75 * (np.float32([4, 8]) + 2 * np.float32([1, 4]) + 1) + 0.25 * np.float32([1, 2]))
    assert_close(x.grad, 0.75 * (1 + 2 * np.float32([1, 2]) + 1 / np.float32([1, 2])))
    assert_close(y.grad, 0.75 * (3 + 2 * np.float32([1, 2]) - 1 / np.float32([1, 2])) + 0.25)
    with pytest.raises(AutogradError, match="lerp_: a leaf tensor that requires grad"):
        x.lerp_(y, 0.5)


def test_rounding_of_integers_and_decimals(device, i):
    for name in ("round", "floor", "ceil", "trunc"):
        out = getattr(i, name)()
        assert out.dtype is volta.int64 and host(out).tolist() == [3, -1, 2]
    assert_close(volta.tensor([1.234, -5.678], device=device).round(decimals=1), [1.2, -5.7])
    assert_close(volta.round(volta.tensor([1234.0, 5678.0], device=device), decimals=-2), [1200.0, 5700.0])
    with pytest.raises(DTypeError, match="floor: needs floating point or integer tensors, got bool"):
        (i > 0).floor()
    with pytest.raises(DTypeError, match="round: decimals=1 needs a floating point tensor"):
        i.round(decimals=1)


def test_invert_is_bitwise(device, i):
    assert host(~i).tolist() == [-4, 0, -3] and host(~(i > 0)).tolist() == [False, True, False]
    assert host(~volta.tensor([1, 255], dtype=volta.uint8, device=device)).tolist() == [254, 0]
    with pytest.raises(DTypeError, match="bitwise_not: needs integer or bool tensors, got float32"):
        ~i.float()


def test_clamp_by_nan_and_tensors(device, x):
    assert np.isnan(host(x.clamp(min=math.nan))).all() and np.isnan(host(x.clamp(math.nan, 1))).all()
    bound = volta.tensor([0.0, math.nan, 1.0], device=device)
    assert_close(x.clamp(max=bound), [[0.0, math.nan, 1.0], [0.0, math.nan, -6.0]], equal_nan=True)
    assert_close(x.clone().clip_(0, 3), np.clip(X, 0, 3))
    assert_close(x.clamp_min(0.5), np.maximum(X, 0.5))


def test_integer_to_a_float_power(i):
    assert i.pow(2.0).dtype is volta.float32 and i.pow(2).dtype is volta.int64


def test_masked_fill_keeps_the_dtype(device, i):
    assert host(i.masked_fill(i > 0, 1.5)).tolist() == [1, -1, 1]
    assert host((i > 0).masked_fill(i > 2, False)).tolist() == [False, False, True]
    value = volta.tensor(7.0, device=device, requires_grad=True)
    out = i.float().masked_fill(i > 0, value)
    out.sum().backward()
    assert value.grad.item() == 2 and host(out).tolist() == [7, -1, 7]
    with pytest.raises(ShapeError, match="masked_fill: value must be a number or a 0-d tensor"):
        i.masked_fill(i > 0, i)


def test_comparisons_that_give_a_bool(device, x):
    a = volta.tensor([1.0, math.inf, math.nan, -math.inf], device=device)
    b = volta.tensor([1.000001, math.inf, math.nan, math.inf], device=device)
    assert host(volta.isclose(a, b)).tolist() == [True, True, False, False]
    assert host(volta.isclose(a, b, equal_nan=True)).tolist() == [True, True, True, False]
    assert volta.allclose(x, x + 1e-7) is True and x.allclose(x + 1) is False
    assert x.equal(x.clone()) is True and volta.equal(x, x[:1]) is False


def test_small_compositions(device, x):
    assert_close(x.frac(), X - np.trunc(X))
    assert_close(x.abs().log10(), np.log10(abs(X)), rtol=1e-4, atol=1e-5)
    assert_close(x.tan(), np.tan(X), rtol=1e-4, atol=1e-5)
    odd = volta.tensor([math.nan, math.inf, -math.inf, 1.0], device=device)
    assert_close(odd.nan_to_num(2.0, posinf=5.0), [2.0, 5.0, -3.4028234663852886e38, 1.0])


# ---------------------------------------------------------------- reductions
@pytest.mark.parametrize("call, ddof", [
    (lambda f, x: f(x, 1, unbiased=False), 0), (lambda f, x: f(x, 1, False), 0), (lambda f, x: f(x, 1), 1),
    (lambda f, x: f(x, 1, correction=0), 0), (lambda f, x: f(x, dim=1, unbiased=True), 1)])
def test_forms_of_var_and_std(x, call, ddof):
    assert_close(call(volta.var, x), X.var(1, ddof=ddof), rtol=1e-4, atol=1e-5)
    assert_close(call(volta.std, x), X.std(1, ddof=ddof), rtol=1e-4, atol=1e-5)
    assert_close(call(volta.var_mean, x)[1], X.mean(1), rtol=1e-4, atol=1e-5)
    assert_close(call(volta.std_mean, x)[0], X.std(1, ddof=ddof), rtol=1e-4, atol=1e-5)


def test_var_of_everything_and_its_corrections(x):
    assert_close(x.var(False), X.var(), rtol=1e-4, atol=1e-5)
    assert x.var(1, True, True).shape == (2, 1)
    assert np.isinf(host(x.var(1, correction=4))).all() and np.isnan(host(x[:, :1].var(1))).all()
    with pytest.raises(ArgumentError, match="var: give unbiased or correction, not both"):
        x.var(1, unbiased=True, correction=1)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, math.inf, -math.inf, "fro", None])
@pytest.mark.parametrize("dim", [None, 1, (0, 1)])
def test_norms(x, p, dim):
    order = 2 if p in ("fro", None) else p
    axis = (0, 1) if dim is None else dim
    size = abs(X.astype(np.float64))
    expected = (size.max(axis) if order == math.inf else size.min(axis) if order == -math.inf else (X != 0).sum(axis).astype(float)
                if order == 0 else (size ** order).sum(axis) ** (1 / order))
    assert_close(x.norm(p, dim), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [lambda z: z.norm(), lambda z: z.norm(3), lambda z: z.norm(2, 0), lambda z: z.std(),
                                  lambda z: z.norm(1), lambda z: z.norm(math.inf)])
def test_gradients_of_norms_at_zero(device, make):
    z = volta.zeros(3, device=device, requires_grad=True)
    make(z).backward()
    assert host(z.grad).tolist() == [0, 0, 0]


def test_gradient_of_a_general_norm(device, x):
    z = x.clone().requires_grad_()
    z.norm(3).backward()
    assert_close(z.grad, np.sign(X) * X ** 2 / (abs(X) ** 3).sum() ** (2 / 3), rtol=1e-4, atol=1e-5)


def test_prod_dtype_and_count_nonzero(device, i):
    assert i.prod(dtype=volta.float32).dtype is volta.float32 and i.prod(0, dtype=volta.float32).item() == -6
    assert i.count_nonzero().item() == 3 and host(volta.tensor([[0, 1], [2, 3]], device=device).count_nonzero(0)).tolist() == [1, 2]


# ---------------------------------------------------------------- movement and indexing
def test_sizes_by_name(device, x):
    assert volta.reshape(x, shape=(3, 2)).shape == x.view(size=(3, 2)).shape == (3, 2)
    assert volta.permute(x, dims=(1, 0)).shape == x.permute(dims=(1, 0)).shape == (3, 2)
    assert_close(x.flip(dims=[1]), X[:, ::-1])
    assert x[0].expand(size=(2, 3)).shape == x[0].repeat(repeats=(2, 1)).shape[:1] + (3,) == (2, 3)
    assert_close(x.flip(()), X)
    assert [t.shape for t in x.split(split_size=2, dim=1)] == [(2, 2), (2, 1)]
    for make in (volta.zeros, volta.ones, volta.empty, volta.rand, volta.randn):
        assert make(size=(2, 3), device=device).shape == (2, 3)
    with pytest.raises(ArgumentError, match=r"reshape: the sizes were given twice, as \(6,\) and by name as \(3, 2\)"):
        x.reshape(6, shape=(3, 2))


def test_cat_passes_over_tensors_of_no_elements(device, x):
    none = volta.tensor([], device=device)
    assert_close(volta.cat([none, x, x]), np.concatenate([X, X]))
    assert volta.cat([none, none]).shape == (0,)
    assert volta.cat([none, volta.tensor([1], device=device)]).dtype is volta.float32


def test_odd_lengths(device, x):
    assert [t.shape for t in volta.zeros(0, 3, device=device).chunk(3)] == [(0, 3)] * 3
    assert_close(x.narrow(1, -2, 2), X[:, 1:])
    with pytest.raises(IndexRangeError, match="unbind: a 0-d tensor has no dimension"):
        volta.tensor(1.0, device=device).unbind()
    with pytest.raises(IndexRangeError, match="size: dim 2 is out of range"):
        x.size(2)
    with pytest.raises(ShapeError, match=r"outer: needs two vectors, got \(2, 3\) and \(3,\)"):
        volta.outer(x, x[0])


def test_take_along_dim(device, x):
    best = x.argmax(1, keepdim=True)
    assert_close(volta.take_along_dim(x, best, 1), X.max(1, keepdims=True))
    assert_close(volta.take_along_dim(x, indices=volta.tensor([[0, 2]], device=device), dim=1), X[:, [0, 2]])
    assert_close(x.take_along_dim(volta.tensor([5, 0], device=device)), [-6.0, 1.0])


def test_index_forms(device, x):
    mask = volta.tensor([True, False, True], device=device)
    assert_close(x.masked_select(mask), X[:, [0, 2]].ravel())
    rows, columns = volta.nonzero(x > 1, as_tuple=True)
    assert host(rows).tolist() == [0, 1] and host(columns).tolist() == [2, 0]
    assert [host(t).tolist() for t in volta.where(x > 1)] == [[0, 1], [2, 0]]
    assert_close(x.index_select(0, volta.tensor(1, device=device)), X[1:])
    index = volta.tensor([[0, 0]], device=device)
    assert_close(x.scatter_add(1, index, volta.ones(2, 3, device=device)), X + np.float32([[2, 0, 0], [0, 0, 0]]))
    assert volta.triu(x > 0).dtype is volta.bool
    with pytest.raises(IndexRangeError, match="one_hot: index -1 is out of range for a dimension of size 3"):
        volta.nn.functional.one_hot(volta.tensor([-1], device=device), 3)


def test_linear_with_a_vector(device, x):
    w = volta.tensor([1.0, 2.0, 3.0], device=device)
    assert_close(volta.nn.functional.linear(x, w, volta.tensor(1.0, device=device)), X @ np.float32([1, 2, 3]) + 1)
    assert_close(x.mv(w), X @ np.float32([1, 2, 3]))


def test_to_the_cpu_in_a_dtype_that_the_device_may_lack(x):
    moved = x.to("cpu", volta.float64)
    assert moved.dtype is volta.float64 and moved.device.type == "cpu"
    assert moved.to(x.device, volta.float32).equal(x) and x.to(x.device, volta.int64).dtype is volta.int64
    y = x.clone().requires_grad_()
    y.to("cpu", volta.float64).sum().backward()
    assert y.grad.dtype is volta.float32 and y.grad.device is y.device


# ---------------------------------------------------------------- creation
def test_creation_forms(device, x):
    place = {"device": device}
    assert volta.arange(end=3, **place).tolist() == [0, 1, 2] and volta.arange(start=1, end=3, **place).tolist() == [1, 2]
    assert volta.linspace(0, 1, 0, **place).shape == (0,) and volta.linspace(0, 1, 3, requires_grad=True, **place).requires_grad
    assert volta.eye(2, requires_grad=True, **place).requires_grad
    assert volta.full_like(x, fill_value=3).tolist() == [[3.0] * 3] * 2
    assert volta.randint(5, size=(4,), **place).max().item() < 5 and volta.randint(high=5, size=(2,), **place).shape == (2,)
    assert volta.randint(low=3, high=4, size=(2,), **place).tolist() == [3, 3]
    assert volta.randint(0, 5, (2,), dtype=volta.float32, **place).dtype is volta.float32
    assert volta.randint_like(x, 1, high=2).tolist() == [[1.0] * 3] * 2
    assert volta.randperm(4, dtype=volta.int32, **place).dtype is volta.int32
    same = [volta.rand_like(x, generator=volta.Generator(3)) for _ in range(2)]
    assert same[0].equal(same[1])
    for text, call in (("arange: needs the end", lambda: volta.arange()), (r"randint: needs \(low, high, size\)", lambda: volta.randint(3)),
                       ("uniform_: needs low <= high, got 2 and 1", lambda: x.uniform_(2, 1)),
                       ("normal_: std must be >= 0, got -1", lambda: x.normal_(0, -1))):
        with pytest.raises(ArgumentError, match=text):
            call()


def test_new_tensors_like_this_one(device, i):
    for t in (i.new_zeros(2, 3), i.new_ones((2,)), i.new_full((2,), 7), i.new_empty(2), i.new_tensor([1, 2])):
        assert t.dtype is volta.int64 and t.device is i.device
    assert i.new_tensor([1.5], dtype=volta.float32).tolist() == [1.5]


def test_integers_that_do_not_fit():
    with pytest.raises(DTypeError, match="tensor: 300 does not fit into volta.uint8"):
        volta.tensor([1, 300], dtype=volta.uint8)
    assert volta.tensor([-1], dtype=volta.uint8).tolist() == [255]
    assert volta.tensor(np.array([300]), dtype=volta.uint8).tolist() == [44]


def test_limits_of_dtypes():
    x = volta.finfo(volta.float32)
    assert (x.eps, x.bits, x.dtype, type(x.min)) == (2.0 ** -23, 32, "float32", float)
    assert x.max == -x.min == float(np.finfo(np.float32).max)
    assert volta.finfo().bits == 32 and volta.finfo(volta.float16).tiny == volta.finfo(volta.float16).smallest_normal == 2.0 ** -14
    assert (volta.iinfo(volta.uint8).max, volta.iinfo(volta.int32).min) == (255, -2 ** 31) and "max=255" in repr(volta.iinfo(volta.uint8))
    assert repr(x).startswith("finfo(resolution=1e-06, min=-3.40282e+38")
    for call, text in ((lambda: volta.finfo(volta.int64), "finfo: needs a floating point dtype, got volta.int64"),
                       (lambda: volta.iinfo(volta.bool), "iinfo: needs an integer dtype, got volta.bool")):
        with pytest.raises(DTypeError, match=text):
            call()
    assert volta.promote_types(type1=volta.int32, type2=volta.float16) is volta.float16
    assert volta.manual_seed(7).initial_seed() == volta.initial_seed() == 7


@pytest.mark.parametrize("call, text", [
    (lambda: volta.isclose(volta.ones(2), volta.ones(2), rtol=-1.0), "isclose: rtol must be >= 0, got -1.0"),
    (lambda: volta.isclose(volta.ones(2), volta.ones(2), atol=-1.0), "isclose: atol must be >= 0, got -1.0"),
    (lambda: volta.allclose(volta.ones(2), volta.ones(2), atol=-1.0), "isclose: atol must be >= 0, got -1.0"),
    (lambda: volta.randint(0, 300, (2,), dtype=volta.uint8), "randint: 0 to 299 do not fit into volta.uint8"),
    (lambda: volta.randint(-1, 2, (2,), dtype=volta.bool), "randint: -1 to 1 do not fit into volta.bool"),
    (lambda: volta.linspace(0, 1, 3, dtype=volta.bool), "linspace: needs a dtype of numbers, got volta.bool"),
    (lambda: volta.linspace(-3, 1, 3, dtype=volta.uint8), "linspace: -3 to 1 do not fit into volta.uint8"),
    (lambda: volta.linspace(0, float("inf"), 3, dtype=volta.int64), "linspace: end must be a finite number, got inf"),
    (lambda: volta.inner(volta.ones(2, 3), volta.ones(4, 1)), r"inner: the last dimensions of \(2, 3\) and \(4, 1\) differ"),
    (lambda: volta.nn.functional.softplus(volta.tensor([1], dtype=volta.uint8)), "softplus: input must be floating point, got uint8"),
    (lambda: volta.pad(volta.ones(3, 1), (-2, 0), mode="replicate"), "pad: mode 'replicate' cannot extend dimension 1 of size 1"),
])
def test_refused_as_in_pytorch(call, text):
    with pytest.raises(volta.errors.VoltaError, match=text):
        call()


@pytest.mark.parametrize("function", [volta.as_strided, volta.Tensor.as_strided_], ids=["as_strided", "as_strided_"])
def test_an_offset_that_is_a_tensor_means_its_number(function, device):
    """It is neither changed by the check of the bounds nor, changed, taken as another offset than the one that was checked."""
    offset = volta.tensor(1)
    assert function(volta.arange(6, device=device), (2, 2), (1, 2), offset).tolist() == [[1, 3], [2, 4]] and offset.item() == 1
    with pytest.raises(ArgumentError, match="reach element 7, the storage has 6"):
        function(volta.arange(6, device=device), (2, 2), (1, 2), volta.tensor(4))


def test_no_form_in_place_takes_an_argument_that_it_does_not_know(device, each):
    def check(name):
        x = volta.ones(2, 2, device=device)
        with pytest.raises((TypeError, ArgumentError)):
            getattr(x, name)(unknown=1)
        assert x.tolist() == [[1, 1], [1, 1]]
    each(check, sorted(name for name in dir(volta.Tensor) if name.endswith("_") and not name.startswith("_")))


def test_calls_of_records_with_other_counts_are_type_errors():
    """And ArgumentErrors, as they were."""
    x = volta.ones(1)
    for call in (lambda: volta.erf(), lambda: x.erf(3), lambda: volta.special.zeta(x), lambda: volta.mul(x)):
        with pytest.raises(TypeError, match="takes .*, got"):
            call()


def test_fill_takes_one_number():
    x = volta.zeros(2)
    assert x.fill_(volta.tensor(3)).tolist() == [3, 3]
    with pytest.raises(volta.errors.ShapeError, match="no dimensions"):
        x.fill_(volta.ones(2))
    assert x.tolist() == [3, 3]


@pytest.mark.parametrize("reduction, expected", [((), [1.0, 3.0]), ((0,), [1.0, 3.0]), ((1,), 2.0), ((2,), 4.0), ((-1,), [1.0, 3.0])])
def test_reductions_by_number(reduction, expected):
    """Without one, the functions of `torch` reduce nothing."""
    found = volta.margin_ranking_loss(volta.tensor([1.0, 1.0]), volta.tensor([2.0, 4.0]), volta.tensor([1, 1]), 0.0, *reduction)
    assert found.tolist() == expected
