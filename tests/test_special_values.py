"""Special values of every elementwise op (volta/selftest/special.py), denormals, ties, and special values of other ops."""
import math

import numpy as np
import pytest

import volta
from volta.selftest import cases as table
from volta.selftest import special
from volta.selftest.special import VALUES, compare

NAN, INF = math.nan, math.inf
DENORMALS = np.array([1e-40, -1e-40, 1e-45], np.float32)

UNARY = table.records(family={"unary"})
# nextafter has a neighbour in float32 where its reference has one in float64.
BINARY = [op for op in table.records(family={"binary", "comparison"}) if "f" in op.details.kinds and op.name != "nextafter"]


@pytest.mark.parametrize("op", [op for op in (*table.records(), *table.composed()) if special.applies(op)], ids=lambda op: op.name)
def test_special_values(op, device):
    special.special_values(op, device)


@pytest.mark.parametrize("op, side", [(op, side) for op in BINARY for side in ("right", "left")[:2 - op.tensors]])
def test_binary_with_a_number(op, side, device):
    """A special number as an operand: it reaches the kernel without passing through a tensor."""
    x = volta.tensor(VALUES, device=device)
    for number in (0.0, -0.0, 1.0, -2.5, 2.0, 3.0, INF, -INF, NAN):
        filled = np.full_like(VALUES, number)
        operands = [filled, VALUES] if side == "left" else [VALUES, filled]
        (reference,) = table.expected(op, operands, {})
        found = op(number, x) if side == "left" else op(x, number)
        compare(op, found.numpy(), reference, operands, device)


def test_nextafter(device):
    x, y = (v.ravel() for v in np.meshgrid(np.concatenate([VALUES, DENORMALS]), np.concatenate([VALUES, DENORMALS])))
    found = volta.nextafter(volta.tensor(x, device=device), volta.tensor(y, device=device)).numpy()
    np.testing.assert_array_equal(found, np.nextafter(x, y))
    narrow = np.float16([0.0, -0.0, 1.0, -1.0, 1.5, 65504.0, 6.1e-5, 2.0**-24, -(2.0**-24), -3.3, INF, -INF, NAN])
    x, y = (v.ravel() for v in np.meshgrid(narrow, narrow))
    with np.errstate(over="ignore"):
        expected = np.where(x == y, y, np.nextafter(x, y))
    found = volta.nextafter(volta.tensor(x, device=device), volta.tensor(y, device=device)).numpy()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
def test_denormals(op, device):
    """The CPU keeps denormals; a GPU may take them for zero or for the smallest normal number."""
    (reference,) = table.expected(op, [DENORMALS], {})
    found = op(volta.tensor(DENORMALS, device=device)).numpy()
    allowed = [reference]
    if device == "gpu":
        tiny = np.finfo(np.float32).tiny
        allowed += [table.expected(op, [np.copysign(v, DENORMALS)], {})[0] for v in (0.0, tiny)]
    with np.errstate(over="ignore"):
        allowed = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in allowed]
    for i, value in enumerate(DENORMALS):
        fits = [np.isclose(found[i], a[i], rtol=1e-5, atol=0, equal_nan=True) for a in allowed]
        fits += [device == "gpu" and found[i] == 0 and any(abs(float(a[i])) < 1e-37 for a in allowed)]
        assert any(fits), f"{op.name}({value}) on {device}: {found[i]}, expected one of {[a[i] for a in allowed]}"


# ---------------------------------------------------------------- derivatives at the special points
@pytest.mark.parametrize("function, at, slope", [
    ("relu", 0.0, 0.0), ("relu", -0.0, 0.0), ("abs", 0.0, 0.0), ("sign", 0.0, 0.0), ("sqrt", 0.0, INF), ("tanh", 100.0, 0.0),
    ("sigmoid", -200.0, 0.0), ("sigmoid", 200.0, 0.0), ("exp", -INF, 0.0), ("log", INF, 0.0), ("gelu", 30.0, 1.0),
    ("silu", 100.0, 1.0),
    ("silu", -100.0, 0.0), ("relu", INF, 1.0), ("relu", -INF, 0.0), ("floor", 0.5, 0.0)])
def test_slope(function, at, slope, device):
    x = volta.tensor([at], device=device, requires_grad=True)
    getattr(x, function)().sum().backward()
    assert x.grad.item() == pytest.approx(slope, abs=1e-30, rel=1e-5)


def test_slope_of_softsign_where_it_is_nan(device, each):
    def check(dtype):
        large = 1e30 if dtype is not volta.float16 else 6e4
        x = volta.tensor([INF, -INF, NAN, large, -1.0], device=device, dtype=dtype, requires_grad=True)
        g, = volta.autograd.grad(volta.nn.functional.softsign(x).sum(), x, create_graph=True)
        assert g.isnan().tolist() == [True] * 3 + [False] * 2 and g[4].item() == 0.25 and g[3].item() < 1e-8
        second, = volta.autograd.grad(g.sum(), x)
        assert second.isnan().tolist() == [True] * 3 + [False] * 2 and second[4].item() == 0.25
    each(check, (volta.float32, volta.float16, volta.float64, volta.bfloat16)[:2 if device == "gpu" else 4])


@pytest.mark.parametrize("norm", [
    lambda x: x.norm(0), lambda x: x.norm(0, dim=1), lambda x: volta.linalg.vector_norm(x, 0, keepdim=True),
    lambda x: volta.linalg.norm(x, 0, dim=0), lambda x: volta.dist(x, x.detach() * 0, 0)])
def test_norm_of_order_0_has_no_gradient(norm, device):
    """As in PyTorch, where it is in the graph; beside others it adds nothing."""
    x = volta.tensor([[0.0, INF, NAN], [1.0, -2.0, 0.0]], device=device, requires_grad=True)
    out = norm(x)
    assert out.requires_grad and out.sum().item() == 4
    assert volta.autograd.grad(out.sum(), x, allow_unused=True, retain_graph=True) == (None,)
    out.sum().backward()
    assert x.grad is None
    (norm(x).sum() + x.sum()).backward()
    assert x.grad.tolist() == [[1.0] * 3] * 2


def test_equal_values_share_the_gradient(device):
    a = volta.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True)
    b = volta.tensor([1.0, 3.0, 2.0], device=device, requires_grad=True)
    volta.maximum(a, b).sum().backward()
    assert a.grad.tolist() == [0.5, 0.0, 1.0] and b.grad.tolist() == [0.5, 1.0, 0.0]
    x = volta.tensor([[1.0, 4.0, 4.0], [2.0, 2.0, 2.0]], device=device, requires_grad=True)
    x.amax(1).sum().backward()
    volta.testing.assert_close(x.grad.numpy(), np.array([[0, 0.5, 0.5], [1 / 3, 1 / 3, 1 / 3]], np.float32))
    y = volta.tensor([[1.0, 4.0, 4.0]], device=device, requires_grad=True)
    y.max(1).values.sum().backward()
    assert y.grad.tolist() == [[0.0, 1.0, 0.0]]


# ---------------------------------------------------------------- reductions
@pytest.mark.parametrize("length", [3, 70, 1030])
def test_nan_and_infinity_in_reductions(length, device):
    base = np.linspace(-2, 3, length, dtype=np.float32)
    for at in (0, length // 2, length - 1):
        x = base.copy()
        x[at] = NAN
        t = volta.tensor(np.stack([x, base]), device=device)
        for name in ("sum", "mean", "amax", "amin", "prod"):
            got = getattr(volta, name)(t, 1).numpy()
            assert math.isnan(got[0]) and not math.isnan(got[1]), name
        assert t.argmax(1).tolist() == [at, length - 1] and t.argmin(1).tolist() == [at, 0]
        assert math.isnan(t.max().item()) and math.isnan(t.sum().item())
    low = volta.full((2, length), -INF, device=device)
    assert low.amax(1).tolist() == [-INF, -INF] and low.argmax(1).tolist() == [0, 0] and low.sum(1).tolist() == [-INF, -INF]
    high = volta.full((2, length), INF, device=device)
    assert high.amin(0).tolist() == [INF] * length and math.isnan((high[0] - high[1]).sum().item())


def test_ties_take_the_first(device):
    x = np.zeros((2, 300), np.float32)
    x[0, [17, 40, 299]] = 5
    x[1, [0, 299]] = -5
    t = volta.tensor(x, device=device)
    assert t.argmax(1).tolist() == [17, 1] and t.argmin(1).tolist() == [0, 0]
    assert t.t().argmax(0).tolist() == [17, 1]
    assert t.argmax().item() == 17 and t.argmin().item() == 300
    assert volta.ones(4, 4, device=device).argmax(0).tolist() == [0, 0, 0, 0]


def test_values_below_minus_one_billion_are_not_cut(device):
    t = volta.tensor([-3e9, -2e9], device=device)
    assert t.amax().item() == -2e9 and t.argmax().item() == 1
    pooled = volta.max_pool2d(volta.full((1, 1, 2, 2), -1e30, device=device), 2)
    assert pooled.item() == pytest.approx(-1e30)


def test_empty_reductions(device):
    x = volta.zeros(0, 3, device=device)
    assert x.sum(0).tolist() == [0, 0, 0] and x.prod(0).tolist() == [1, 1, 1]
    assert x.any(0).tolist() == [False] * 3 and x.all(0).tolist() == [True] * 3
    assert x.sum().item() == 0 and x.sum(1).shape == (0,)
    assert all(math.isnan(v) for v in x.mean(0).tolist()) and math.isnan(x.mean().item())


# ---------------------------------------------------------------- softmax and losses
def test_softmax_without_overflow(device):
    x = volta.tensor([[1e4, 1e4 - 1, 0.0], [-INF, 0.0, 0.0], [-1e30, -1e30, -1e30]], device=device)
    e = math.exp(-1)
    expected = np.array([[1 / (1 + e), e / (1 + e), 0], [0, 0.5, 0.5], [1 / 3] * 3], np.float32)
    volta.testing.assert_close(volta.softmax(x, 1).numpy(), expected, 1e-5, 1e-7)
    log = volta.log_softmax(x, 1).numpy()
    assert log[1, 0] == -INF and log[0, 2] == pytest.approx(-1e4, rel=1e-4)
    bad = volta.tensor([[NAN, 0.0], [INF, 0.0], [-INF, -INF], [1.0, 1.0]], device=device)
    for function in (volta.softmax, volta.log_softmax):
        rows = function(bad, 1).numpy()
        assert np.isnan(rows[:3]).any(axis=1).all() and np.isfinite(rows[3]).all()


@pytest.mark.parametrize("shape", [(3, 28, 28), (2, 17, 33), (2, 5, 100), (4, 1, 15), (1, 3, 7)])
def test_windows_of_whole_planes(shape, device, rng):
    """The first of equal elements wins, or the last NaN."""
    x = rng.integers(-9, 9, shape).astype(np.float32)
    x[:, -1, shape[2] // 2] = x[:, 0, 0] = [8, np.nan, 8, 9][shape[0] - 1]
    flat = x.reshape(shape[0], -1)
    place = [row.size - 1 - np.isnan(row)[::-1].argmax() if np.isnan(row).any() else row.argmax() for row in flat]
    for window in (lambda t: volta.nn.functional.adaptive_max_pool2d(t, 1, return_indices=True),
                   lambda t: volta.nn.functional.max_pool2d(t, shape[1:], return_indices=True)):
        out, index = window(volta.tensor(x, device=device, requires_grad=True))
        assert index.flatten().tolist() == place
        np.testing.assert_array_equal(out.detach().cpu().numpy().ravel(), flat[np.arange(shape[0]), place])


def test_max_pool_of_nan_and_infinity(device):
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    x[0, 0, 0, 0], x[0, 0, 3, 2], x[0, 0, :2, 2:] = NAN, INF, -INF
    out, index = volta.max_pool2d(volta.tensor(x, device=device), 2, return_indices=True)
    assert math.isnan(out[0, 0, 0, 0].item()) and out[0, 0, 0, 1].item() == -INF and out[0, 0, 1].tolist() == [13, INF]
    assert index.tolist() == [[[[0, 2], [13, 14]]]]


# ---------------------------------------------------------------- integers divided by zero
DIVISIONS = [volta.floor_divide, volta.remainder, volta.fmod, lambda x, y: volta.div(x, y, rounding_mode="trunc"),
             lambda x, y: x // y, lambda x, y: x % y]


@pytest.mark.parametrize("dtype", [volta.uint8, volta.int32, volta.int64], ids=str)
@pytest.mark.parametrize("divide", DIVISIONS)
def test_integers_divided_by_a_computed_zero_raise_on_the_cpu_and_give_zero_on_a_gpu(divide, dtype, device):
    x = volta.tensor([7, 100, 0, 1], dtype=dtype, device=device)
    zeros = x * 0
    for divisor in (zeros, zeros + volta.tensor([2, 3, 0, 1], dtype=dtype, device=device), zeros.reshape(2, 2).t()):
        if device == "cpu":
            with pytest.raises(volta.errors.ArgumentError, match="integer division by zero"):
                divide(x.reshape(divisor.shape), divisor)
        else:
            with volta.gpu.forbid_transfers():
                out = divide(x.reshape(divisor.shape), divisor)
            assert out.reshape(-1)[2].item() == 0 and out.dtype is dtype


@pytest.mark.parametrize("name", ["floor_divide_", "remainder_", "fmod_"])
def test_a_refused_division_in_place_changes_nothing(name):
    x, divisor = volta.arange(3000) + 7, volta.ones(3000, dtype=volta.int64) * 2
    divisor[-1] = 0
    with pytest.raises(volta.errors.ArgumentError, match="integer division by zero"):
        getattr(x, name)(divisor)
    assert x.tolist() == list(range(7, 3007))


@pytest.mark.parametrize("divide", DIVISIONS)
def test_integers_divided_by_a_zero_that_the_host_knows_raise(divide, device):
    x = volta.tensor([7, -8, 0], device=device)
    for divisor in (0, False, volta.tensor(0, device=device), volta.tensor([1, 0, 3], device=device),
                    volta.tensor([-1, 0, -3], device=device)):
        with pytest.raises(volta.errors.ArgumentError, match="integer division by zero"):
            divide(x, divisor)
    whole = volta.tensor([0, 2, 5, 3], device=device)
    assert divide(x, whole[1:]).shape == (3,)           # a part may have none
    whole += 1
    assert divide(whole, whole).shape == (4,)           # changed since
    assert divide(x.float(), 0).shape == (3,) and divide(x.float(), volta.zeros(3, device=device)).shape == (3,)
    for divisor in (0, volta.tensor(0, device=device), volta.tensor([[0], [3]], device=device)):
        assert divide(x[:0], divisor).shape[-1] == 0        # nothing is divided


@pytest.mark.parametrize("dtype", [volta.float32, volta.float16], ids=str)
def test_whole_quotients_stay_whole(dtype, device):
    """Rounding a quotient is exact where the divisor goes into the number."""
    quotients, divisors = (x.ravel() for x in np.meshgrid(np.arange(-40.0, 41.0), np.arange(1.0, 50.0)))
    a, b = volta.tensor(quotients * divisors, dtype=dtype, device=device), volta.tensor(divisors, dtype=dtype, device=device)
    for mode in ("trunc", "floor"):
        np.testing.assert_array_equal(volta.div(a, b, rounding_mode=mode).numpy(), quotients, err_msg=mode)


def test_truncated_quotients_are_those_of_rounded_ones(device):
    """A quotient that lies below a whole number by less than half of a step is that number, one that lies farther below is not."""
    divisors = np.linspace(0.1, 0.9, 500, dtype=np.float32)
    a = np.arange(1, 501, dtype=np.float32) * divisors
    for x in (a, np.nextafter(a, np.float32(0)), np.nextafter(a, np.float32(INF)), -a):
        found = volta.div(volta.tensor(x, device=device), volta.tensor(divisors, device=device), rounding_mode="trunc")
        np.testing.assert_array_equal(found.numpy(), np.trunc(x / divisors))


@pytest.mark.parametrize("length", [3, 23, 422, 5000])
def test_equal_elements_are_their_mean(length, device):
    x = volta.tensor([[-1.8848643], [0.3], [1e3]], device=device).expand(3, length)
    for spread in (x.var(dim=1), x.std(dim=1), volta.nn.functional.layer_norm(x, (length,)),
                   volta.nn.functional.batch_norm(x.reshape(1, 3, length), None, None, training=True)):
        assert not spread.numpy().any()
