"""Numbers that the CPU's loops take by their bits: int64 to floats and back, 16-bit floats by lines, shifts."""
import numpy as np
import pytest

import volta

LENGTHS = (1, 7, 8, 15, 16, 17, 31, 33, 64, 255, 256, 257, 1000)


def wide_integers():
    """int64 about the powers of two, halves of what float32 and float64 round among them, and the ends."""
    rng = np.random.default_rng(0)
    powers = np.int64(1) << np.arange(63)
    near = [sign * (power + step) for power in powers.tolist() for step in (-2, -1, 0, 1, 2) for sign in (1, -1)]
    ties = [(1 << n) + (1 << n - 24) + step for n in range(24, 63) for step in (-1, 0, 1)]
    ties += [(1 << n) + (1 << n - 53) + step for n in range(53, 63) for step in (-1, 0, 1)]
    ties += [(1 << n) + (1 << n - 24) + (1 << n - 53) + step for n in range(54, 63) for step in (-1, 0, 1)]
    some = rng.integers(-2**63, 2**63 - 1, 3000) >> rng.integers(0, 63, 3000)
    return np.concatenate([np.array([*near, *ties, *(-t for t in ties), 2**63 - 1, -2**63], "i8"), some])


@pytest.mark.parametrize("to", ("float32", "float64"))
def test_integers_are_rounded_once(to):
    x = wide_integers()
    found = volta.tensor(x).to(getattr(volta, to)).numpy()
    want = np.array([np.dtype(to).type(v) if to == "float64" else _nearest32(int(v)) for v in x], to)
    np.testing.assert_array_equal(found, want)


def _nearest32(value):
    """The float32 nearest to an integer, ties to even, without a double in between."""
    bits = abs(value).bit_length()
    if bits <= 24:
        return np.float32(value)
    unit = 1 << bits - 24
    whole, rest = divmod(abs(value), unit)
    whole += rest * 2 > unit or rest * 2 == unit and whole & 1
    return np.float32(np.ldexp(float(whole), bits - 24)) * np.float32(-1 if value < 0 else 1)


@pytest.mark.parametrize("mode", (None, "floor", "trunc"))
def test_quotients_of_wide_integers(mode):
    """Within 2**51, where a double holds both, beyond it, and blocks that have both."""
    rng = np.random.default_rng(1)
    edge = np.array([2**51 - 1, 2**51, 2**51 + 1, 2**52 - 1, 2**52, 2**53 + 1, 2**62, -2**51, -2**51 - 1, -2**52, -2**63, 2**63 - 1], "i8")
    a = np.concatenate([np.repeat(edge, 40), rng.integers(-2**51, 2**51, 4000), wide_integers()])
    b = np.concatenate([rng.integers(-50, 50, 4480), wide_integers()])[:len(a)]
    b = np.resize(b, len(a))
    b[b == 0] = 3
    for first, second in ((a, b), (a[500:4400], b[500:4400])):
        x, y = volta.tensor(first), volta.tensor(second)
        if mode is None:
            found, want = volta.remainder(x, y), [p - (p // q) * q for p, q in zip(first.tolist(), second.tolist())]
        else:
            found = volta.div(x, y, rounding_mode=mode)
            want = [p // q if mode == "floor" else abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
                    for p, q in zip(first.tolist(), second.tolist())]
        want = [(v + 2**63) % 2**64 - 2**63 for v in want]               # the least integer by -1 wraps
        assert found.tolist() == want


def test_shifts_by_all_counts():
    a = np.arange(256, dtype="u1")
    counts = np.array([0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 31, 32, 128, 255], "u1")
    x, n = (each.reshape(-1) for each in np.meshgrid(a, counts))
    left = np.where(n < 8, x.astype("u4") << np.minimum(n, 8), 0) & 255
    np.testing.assert_array_equal(volta.bitwise_left_shift(volta.tensor(x), volta.tensor(n)).numpy(), left)
    np.testing.assert_array_equal(volta.bitwise_right_shift(volta.tensor(x), volta.tensor(n)).numpy(), x >> np.minimum(n, 8).astype("u4"))
    for name, width in (("int32", 32), ("int64", 64)):
        x = wide_integers().astype(name)
        n = np.resize(np.array([0, 1, 2, 17, width - 2, width - 1, width, width + 9, -1, -width], name), x.shape)
        outside = (n < 0) | (n >= width)
        right = np.where(outside, np.where(x < 0, -1, 0), x >> np.where(outside, 0, n))
        np.testing.assert_array_equal(volta.bitwise_right_shift(volta.tensor(x), volta.tensor(n)).numpy(), right)


def _brain(x):
    """The bits of bfloat16 nearest to float32, ties to even."""
    bits = x.view("u4").astype("u8")
    return np.where(np.isnan(x), 0x7fc0, (bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("u2")


@pytest.mark.parametrize("n", LENGTHS)
def test_lines_of_16_bits(n):
    """Of any length, NaN, infinities, denormals and ties among them, in casts and in loops that stage blocks."""
    rng = np.random.default_rng(n)
    bits = rng.integers(0, 2**32, n, dtype="u4")
    bits[::3] = bits[::3] & 0xffff0000 | 0x8000                        # ties of bfloat16
    bits[::5] = bits[::5] & 0x8fffffff | 0x38000000                     # what float16 holds
    x = bits.view("f4")
    x[::7], x[3::41] = np.nan, np.inf
    with np.errstate(all="ignore"):
        half = x.astype("f2")
    narrow = volta.tensor(x).to(volta.float16)
    np.testing.assert_array_equal(narrow.numpy(), half)
    np.testing.assert_array_equal(narrow.float().numpy(), half.astype("f4"))
    brain = volta.tensor(x).to(volta.bfloat16)
    np.testing.assert_array_equal(brain.view(volta.int16).numpy().view("u2"), _brain(x))
    with np.errstate(all="ignore"):
        wide = (_brain(x).astype("u4") << 16).view("f4")
        np.testing.assert_array_equal((narrow + narrow).numpy(), (half.astype("f4") * 2).astype("f2"))
        np.testing.assert_array_equal((brain * brain).view(volta.int16).numpy().view("u2"), _brain(wide * wide))
        row = volta.tensor(np.float32(1.5)).to(volta.bfloat16).expand(n)
        found = volta.addcmul(row, brain, row)                          # an operand that repeats, laid out once
        np.testing.assert_array_equal(found.view(volta.int16).numpy().view("u2"), _brain(np.float32(1.5) + wide * np.float32(1.5)))


def test_cubes_of_lines():
    """One operand of three is a number, the others are one tensor."""
    x = np.random.default_rng(0).standard_normal(5000).astype("f4")
    np.testing.assert_array_equal((volta.tensor(x) ** 3).numpy(), x * x * x)
    y = np.broadcast_to(x[:300, None], (300, 513))
    np.testing.assert_array_equal((volta.tensor(x[:300, None]).expand(300, 513) ** 3).numpy(), y * y * y)


def test_gamma_functions_beside_double_precision():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-30, 30, 40000), np.exp(rng.uniform(-80, 80, 5000))]).astype("f4")
    for name in ("lgamma", "digamma"):
        function = getattr(volta, name)
        want, found = function(volta.tensor(x).double()).numpy(), function(volta.tensor(x)).numpy()
        rounded = want.astype("f4")
        finite = np.isfinite(rounded)
        assert (np.isfinite(found) == finite).all(), name
        errors = np.abs(found[finite] - want[finite]) / np.maximum(np.spacing(np.abs(rounded[finite])), 1e-13)
        assert errors.max() < 8, name


def test_integers_are_never_infinite():
    for dtype in ("int64", "int32", "uint8", "bool"):
        x = volta.tensor([0, 1, 1], dtype=getattr(volta, dtype))
        for function in (volta.isposinf, volta.isneginf):
            assert function(x).dtype is volta.bool and function(x).tolist() == [False] * 3


def test_multiples_of_integers_wrap():
    x, y = volta.tensor([1, 2, 2**40]), volta.tensor([5, -7, 2**61])
    assert volta.add(x, y, alpha=-3).tolist() == [-14, 23, 2**40 + (-3 * 2**61 + 2**63) % 2**64 - 2**63]
    assert volta.sub(x, y, alpha=3).tolist() == volta.add(x, y, alpha=-3).tolist()
    small = volta.tensor([2**31 - 1, 5], dtype=volta.int32)
    assert volta.add(small, small, alpha=2).tolist() == [2**31 - 3, 15]


def test_angles():
    for dtype in (volta.float32, volta.float64, volta.float16, volta.bfloat16):
        x = volta.tensor([-1.0, -0.0, 0.0, 2.0, np.nan, np.inf, -np.inf, -1e-40], dtype=dtype).requires_grad_()
        found = volta.angle(x)
        assert found.dtype is dtype
        below = bool(x[-1] < 0)                                          # float16 has no such number
        pi = volta.tensor(np.pi, dtype=dtype).item()
        np.testing.assert_array_equal(found.detach().double().numpy(), [pi, 0, 0, 0, np.nan, 0, pi, pi if below else 0])
        found.sum().backward()
        assert x.grad.tolist() == [0.0] * 8
    assert volta.angle(volta.tensor([3, -3])).tolist() == volta.tensor([0, np.pi]).tolist()
    assert volta.angle(volta.tensor([True, False])).tolist() == [0.0, 0.0]
