"""What the op table cannot say of special functions and activations: draws, dtypes by device, shifts beyond the width, refusals."""
import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError, DTypeError, ShapeError


def test_float_power_is_computed_in_the_widest_dtype(device):
    wide = volta.float64 if device == "cpu" else volta.float32
    for x in (volta.tensor([2, 3], device=device), volta.tensor([2.0, 3.0], dtype=volta.float16, device=device)):
        assert volta.float_power(x, -1).dtype is wide and volta.float_power(2, x).tolist() == [4, 8]
    assert volta.tensor([2.0], dtype=wide, device=device).float_power_(3).tolist() == [8]
    x = volta.tensor([2.0], dtype=volta.float16, device=device)
    with pytest.raises(DTypeError, match="float_power_: the result is"):
        x.float_power_(2)
    assert x.tolist() == [2]


@pytest.mark.parametrize("dtype, bits", [(volta.int64, 64), (volta.int32, 32), (volta.uint8, 8)], ids=str)
def test_shifts(dtype, bits, device):
    """As wide as the dtype or negative: 0, or -1 of negative numbers to the right. A GPU keeps 32 bits of int64."""
    x = volta.tensor([1, 3, 100] if dtype is volta.uint8 else [1, -3, 100], dtype=dtype, device=device)
    assert (x << 2).tolist() == [4, 12, 400 & 255] if dtype is volta.uint8 else [4, -12, 400]
    for shift in (bits, 200) if dtype is volta.uint8 else (bits, -1, 200):
        assert (x << shift).tolist() == [0, 0, 0] and (x >> shift).tolist() == [0, 0 if dtype is volta.uint8 else -1, 0]
    assert (2 << volta.tensor([1, 3], device=device)).tolist() == [4, 16] and (x << 1).dtype is dtype
    x >>= 1
    assert x.tolist() == [0, 1 if dtype is volta.uint8 else -2, 50]
    with pytest.raises(DTypeError, match="bitwise_left_shift"):
        x.float() << 1


def test_gcd_and_lcm_at_the_edges(device):
    low = -2 ** 31
    x = volta.tensor([0, 0, -4, low, 12], dtype=volta.int32, device=device)
    y = volta.tensor([0, -5, 6, 0, -18], dtype=volta.int32, device=device)
    assert volta.gcd(x, y).tolist() == [0, 5, 2, low, 6] and volta.lcm(x, y).tolist() == [0, 0, 12, 0, 36]


def test_zeta_just_below_whole_numbers(device):
    """The distance to the whole number above decides, and is exact."""
    q = np.array([-0.00031592566, -1.0002, -2.00005], np.float32)
    gap = np.ceil(q.astype(np.float64)) - q
    for s in (2.0, 3.0):
        found = volta.special.zeta(s, volta.tensor(q, device=device)).numpy()
        np.testing.assert_allclose(found, (-gap) ** -s, rtol=2e-6)


def test_isin(device):
    a, b = np.arange(40).reshape(5, 8) % 17, np.arange(0, 60, 4)
    x, y = volta.tensor(a, device=device), volta.tensor(b, device=device)
    np.testing.assert_array_equal(volta.isin(x, y).numpy(), np.isin(a, b))
    np.testing.assert_array_equal(volta.isin(x, y, invert=True).numpy(), ~np.isin(a, b))
    assert volta.isin(3, x).item() and not volta.isin(99, x).item()
    with pytest.raises(DTypeError, match="isin: needs a tensor of numbers"):
        volta.isin(x > 1, x)


def test_rrelu_draws_a_slope_for_each_element(device):
    x = volta.full((2000,), -2.0, device=device, requires_grad=True)
    volta.manual_seed(3)
    out = F.rrelu(x, 0.25, 0.75, training=True)
    out.sum().backward()
    slopes = out.detach().numpy() / -2
    assert slopes.min() >= 0.25 and slopes.max() < 0.75 and abs(slopes.mean() - 0.5) < 0.02
    np.testing.assert_allclose(x.grad.numpy(), slopes, 1e-6)
    volta.manual_seed(3)
    assert F.rrelu_(x.detach().clone(), 0.25, 0.75, True).tolist() == out.tolist()
    assert F.rrelu(volta.ones(3, device=device), training=True).tolist() == [1, 1, 1]
    with pytest.raises(ArgumentError, match="rrelu: .* lower must not be above upper"):
        F.rrelu(x, 0.5, 0.25)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gumbel_softmax(dim, device):
    logits = volta.tensor(np.log([[0.1, 0.2, 0.7]] * 4000), dtype=volta.float32, device=device)
    logits = logits if dim else logits.t().contiguous()
    logits.requires_grad_()
    soft, hard = F.gumbel_softmax(logits, tau=0.5, dim=dim), F.gumbel_softmax(logits, hard=True, dim=dim)
    np.testing.assert_allclose(soft.sum(dim).detach().numpy(), 1, 1e-5)
    values = hard.detach().numpy()
    assert set(np.unique(np.round(values, 6))) == {0, 1} and (np.round(values.sum(dim), 5) == 1).all()
    np.testing.assert_allclose(values.mean(1 if dim == 0 else 0), [0.1, 0.2, 0.7], atol=0.03)
    (hard * hard.detach()).sum().backward()
    assert np.abs(logits.grad.numpy()).max() > 0
    with pytest.warns(UserWarning, match="`eps` parameter"):
        F.gumbel_softmax(logits, eps=1e-5)


@pytest.mark.parametrize("call, error, text", [
    (lambda x: F.elu(x, volta.ones(3)), DTypeError, "elu: alpha must be a number, got Tensor"),
    (lambda x: F.leaky_relu(x, "a"), DTypeError, "leaky_relu: negative_slope must be a number, got 'a'"),
    (lambda x: F.celu(x, 0.0), ArgumentError, "celu: alpha must not be 0"),
    (lambda x: F.hardtanh(x, 1.0, 0.0), ArgumentError, "hardtanh: min_val must not be above max_val"),
    (lambda x: F.hardtanh(x.to(volta.uint8)), DTypeError, "hardtanh: uint8 has no negative limit"),
    (lambda x: F.softshrink(x, -1.0), ArgumentError, "softshrink: lambd must be a finite number >= 0"),
    (lambda x: F.glu(x), ShapeError, "glu: needs an even size along dimension -1"),
    (lambda x: F.prelu(x, volta.ones(2)), ShapeError, "prelu: needs one weight, or one for each of 1 channels"),
    (lambda x: F.elu(x.long()), DTypeError, "elu: input must be floating point, got int64"),
    (lambda x: volta.heaviside(x, x.long()), DTypeError, "heaviside: input and values must have one dtype"),
    (lambda x: volta.hypot(x.long(), x.long()), DTypeError, "hypot: needs floating point tensors"),
    (lambda x: volta.polygamma(-1, x), ArgumentError, "polygamma: n must be >= 0"),
    (lambda x: +(x > 0), DTypeError, "positive: needs a tensor of numbers")])
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call(volta.tensor([1.0, -2.0, 0.5]))


def test_roots_are_exact_and_logarithms_close():
    """Over all exponents, also of denormal numbers, in whole vectors and in their rests."""
    bits = np.arange(1, 0x7F800000, 9973, dtype=np.uint32)
    x = np.concatenate([bits.view("f4"), np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -1e-42])])
    with np.errstate(all="ignore"):
        for n in (x.size, x.size - 13):
            part = x[-n:]
            assert volta.tensor(part).sqrt().numpy().tobytes() == np.sqrt(part).tobytes()
            for name in ("log", "log2", "log10"):
                ours, exact = getattr(volta, name)(volta.tensor(part)).numpy(), getattr(np, name)(part.astype("f8"))
                np.testing.assert_allclose(ours, exact, rtol=3e-7, atol=1e-12, equal_nan=True, err_msg=name)
