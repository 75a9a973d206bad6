"""The CPU kernels of optimizer steps, random numbers and matrix products, against NumPy in float64."""
from __future__ import annotations

import numpy as np
import pytest
from test_cpu_families import FLOATS, KERNELS, close, dtype, strided, tensor, values

import volta
from volta._kernels import core
from volta._kernels.core import threads
from volta._kernels.cpu import random
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.records.update import UPDATES

SEEDS = [(0, 0), (2**64 - 1, 7), (123456789123, 2**32 - 3), (5, 2**64 - 2)]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


# ---------------------------------------------------------------- optimizer steps

@pytest.mark.parametrize("make", [tensor, strided])
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("momentum, dampening, decay, nesterov", [
    (0, 0, 0, False), (0, 0, 0.1, False), (0.9, 0, 0, False), (0.9, 0.3, 0.1, False), (0.9, 0, 0.01, True)])
def test_sgd(momentum, dampening, decay, nesterov, name, make, rng):
    x = rng.standard_normal((7, 11))
    param = make(x.astype(name))
    buffer = make(np.full(x.shape, np.nan, name)) if momentum else None         # undefined before the first step
    kept = None
    for step in range(4):
        g = rng.standard_normal(x.shape).astype(name)
        factors = UPDATES["sgd"].factors(lr=0.1, momentum=momentum, dampening=dampening, weight_decay=decay, first=step == 0)
        KERNELS["sgd"]([param], [strided(g)], [buffer] if momentum else None, **factors, nesterov=nesterov)
        d = g + decay * x
        if momentum:
            kept = d if step == 0 else momentum * kept + (1 - dampening) * d
            d = d + momentum * kept if nesterov else kept
        x = x - 0.1 * d
    close(param, x, 2e-6)


@pytest.mark.parametrize("make", [tensor, strided])
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("decay", [0, 0.1])
@pytest.mark.parametrize("decoupled", [False, True])
def test_adam(decay, decoupled, name, make, rng):
    x, m, v = rng.standard_normal((5, 40)), 0, 0
    state = [make(t.astype(name)) for t in (x, 0 * x, 0 * x)]
    for step in range(1, 5):
        g = rng.standard_normal(x.shape).astype(name)
        corrections = 1 - 0.9**step, 1 - 0.999**step
        factors = UPDATES["adam"].factors(lr=0.01, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=decay, decoupled=decoupled, step=step)
        KERNELS["adam"]([state[0]], [strided(g)], *[[t] for t in state[1:]], None, **factors)
        d = g if decoupled else g + decay * x
        x = x * (1 - 0.01 * decay) if decoupled else x
        m, v = 0.9 * m + 0.1 * d, 0.999 * v + 0.001 * d * d
        x = x - 0.01 / corrections[0] * m / (np.sqrt(v) / np.sqrt(corrections[1]) + 1e-8)
    close(state[0], x, 4e-6)
    close(state[1], m, 2e-6)
    close(state[2], v, 2e-6)


def test_lists_that_do_not_fit_are_refused():
    factors = UPDATES["sgd"].factors(lr=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0)
    one, two, wide, whole = (tensor(np.ones(n, name)) for n, name in ((1, "f4"), (2, "f4"), (2, "f8"), (2, "i4")))
    for params, grads, error, text in (
            ([two, two], [two], ShapeError, "sgd: lists of 2 and 1 tensors"),
            ([two], [one], ShapeError, r"sgd: a parameter of shape \(2,\)"),
            ([two, wide], [two, wide], DTypeError, "sgd: a list must have one dtype, got float32 and float64"),
            ([two], [whole], DTypeError, "sgd: a list must have one dtype, got float32 and int32"),
            ([whole], [whole], DTypeError, "sgd: parameters must be floating point, got int32")):
        with pytest.raises(error, match=text):
            KERNELS["sgd"](params, grads, None, **factors)
    assert values(two).tolist() == [1, 1]


# ---------------------------------------------------------------- random numbers

def philox(n, seed, offset):
    """Words of the stream, in Python integers."""
    words, mask = [], 2**32 - 1
    for block in range((n + 3) // 4):
        at = (offset + block) % 2**64
        c, k = [at & mask, at >> 32, 0, 0], [seed & mask, seed >> 32]
        for _ in range(10):
            p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [q >> 32 ^ c[1] ^ k[0], q & mask, p >> 32 ^ c[3] ^ k[1], p & mask]
            k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
        words += c
    return np.array(words[:n], dtype="u8")


def test_known_answers():
    """The vectors that Random123 publishes for Philox 4x32-10."""
    ones = 2**64 - 1
    assert random.philox_bits(4, 0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert random.philox_bits(4, ones, ones, ones) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    pi = random.philox_bits(4, 0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E)
    assert pi == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


@pytest.mark.parametrize("seed, offset", SEEDS)
@pytest.mark.parametrize("n", [0, 1, 255, 256, 1003])
def test_draws(n, seed, offset):
    bits = philox(n + 3, seed, offset)
    assert random.philox_bits(n, seed, offset) == bits[:n].tolist()
    u32, u64 = (bits >> np.uint64(8)) * 2.0**-24, bits * 2.0**-32
    for name, u in (("float32", u32), ("float64", u64)):
        close(KERNELS["uniform"]((n,), -2.0, 3.0, seed, offset, dtype(name), None), -2 + 5 * u[:n], 4e-7, 1e-15)
        even = u[: n + n % 2]
        radius, angle = np.sqrt(-2 * np.log(1 - even[::2])), 2 * np.pi * even[1::2]
        pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()[:n]
        close(KERNELS["normal"]((n,), 1.0, 3.0, seed, offset, dtype(name), None), 1 + 3 * pairs, 4e-6, 1e-13)
    whole = -5 + (bits[:n] * np.uint64(15) >> np.uint64(32)).astype("i8")
    for name in ("int64", "int32", "float32"):
        close(KERNELS["randint"]((n,), -5, 10, seed, offset, dtype(name), None), whole, 0, 0)


@pytest.mark.parametrize("lines, n", [(1, 1), (1, 256), (3, 301), (1, 4096), (1, 4097), (1, 6144), (2, 6145), (1, 70_001)])
def test_orders_are_those_of_the_words(lines, n):
    want = 7 + np.argsort(philox(lines * n, 5, 3).reshape(lines, n), axis=1, kind="stable")
    before = volta.get_num_threads()
    try:
        for threads in (1, 2, 3):
            volta.set_num_threads(threads)
            close(KERNELS["shuffled"]((lines, n), 7, 7 + n, 5, 3, dtype("int64"), None), want, 0, 0)
    finally:
        volta.set_num_threads(before)
    with pytest.raises(ArgumentError, match="shuffled: 3 integers do not make lines"):
        KERNELS["shuffled"]((2,), 0, 3, 5, 3, dtype("int64"), None)


def test_uniform_of_the_unit_interval_is_exact():
    u = values(KERNELS["uniform"]((1000,), 0.0, 1.0, 1, 0, dtype("float32"), None))
    assert (u == (philox(1000, 1, 0) >> np.uint64(8)).astype("f4") * np.float32(2**-24)).all()


@pytest.mark.parametrize("make", [tensor, strided])
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout(p, name, make, rng):
    x = rng.standard_normal((13, 77)).astype(name)
    bits = philox(x.size, 9, 4).reshape(x.shape)
    u = (bits >> np.uint64(8)) * 2.0**-24 if name == "float32" else bits * 2.0**-32
    kept = u >= np.dtype(name).type(p)
    close(KERNELS["dropout"](make(x), p, 9, 4), x * kept / (1 - p) if p < 1 else 0 * x, 1e-6)


def test_draws_refuse_other_types():
    with pytest.raises(DTypeError, match="normal: the CPU does not draw int64"):
        KERNELS["normal"]((3,), 0.0, 1.0, 0, 0, dtype("int64"), None)


# ---------------------------------------------------------------- matrix products

@pytest.mark.parametrize("make", [tensor, strided])
@pytest.mark.parametrize("name", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("a, b", [
    ((3, 4), (4, 5)), ((3, 0), (0, 5)), ((0, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((1, 1), (1, 1)),
    ((5, 1, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 0), (0, 4)), ((0, 3, 4), (4, 5)), ((70, 90), (90, 33))])
def test_matmul(a, b, name, make, rng):
    x, y = rng.integers(-5, 5, a).astype(name), rng.integers(-5, 5, b).astype(name)
    out = KERNELS["matmul"](make(x), make(y))
    assert out.dtype.name == name and out.contiguous
    np.testing.assert_array_equal(values(out), x @ y)


def test_matmul_takes_transposed_and_repeated_operands(rng):
    a = rng.standard_normal((40, 30))
    t = tensor(a)
    flipped = core.view(t, (30, 40), (1, 30), 0)
    repeated = core.view(t, (3, 40, 30), (0, 30, 1), 0)
    row = core.view(t, (20, 30), (0, 1), 30)
    close(KERNELS["matmul"](flipped, t), a.T @ a)
    close(KERNELS["matmul"](repeated, flipped), np.broadcast_to(a @ a.T, (3, 40, 40)))
    close(KERNELS["matmul"](row, flipped), np.broadcast_to(a[1] @ a.T, (20, 40)))


@pytest.mark.parametrize("make", [tensor, strided])
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("rows, inner, columns", [(64, 30, 50), (0, 3, 4), (5, 0, 4), (1, 1, 1), (300, 20, 400)])
def test_linear(rows, inner, columns, name, make, rng):
    x, weight, bias = (rng.standard_normal(s).astype(name) for s in ((rows, inner), (columns, inner), (columns,)))
    expected = x.astype("f8") @ weight.astype("f8").T
    close(KERNELS["linear"](make(x), make(weight), make(bias)), expected + bias)
    close(KERNELS["linear"](make(x), make(weight), None), expected)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("k", (1, 2, 3, 5, 8, 9, 12, 13, 16, 17))
@pytest.mark.parametrize("m, n", [(4, 1), (5, 3), (37, 4), (33, 16), (20, 48), (19, 49), (40, 20), (50, 131), (700, 7), (300, 300)])
def test_products_of_few_k(m, n, k, name, rng):
    """b in registers: of whole and of broken vectors, by strips; operands as they lie and transposed."""
    from volta._kernels import core
    a, b, bias = (rng.standard_normal(s).astype(name) for s in ((2, m, k), (2, k, n), (n,)))
    expected = a.astype("f8") @ b.astype("f8")
    turned_a = core.view(tensor(a.swapaxes(1, 2).copy()), (2, m, k), (m * k, 1, m), 0)
    turned_b = core.view(tensor(b.swapaxes(1, 2).copy()), (2, k, n), (k * n, 1, k), 0)
    for x in (tensor(a), strided(a), turned_a):
        for y in (tensor(b), strided(b), turned_b):
            close(KERNELS["matmul"](x, y), expected)
    close(KERNELS["linear"](tensor(a[0]), tensor(b[0].T.copy()), tensor(bias)), expected[0] + bias)
    close(KERNELS["linear"](strided(a[0]), strided(b[0].T), None), expected[0])


def test_products_do_not_depend_on_threads(rng):
    """Large ones are dealt out in blocks as the threads come."""
    shapes = ((1, 640, 400, 720), (3, 400, 300, 560), (16, 130, 200, 140), (1, 30, 9000, 40), (2, 500, 3, 300), (1, 3, 5000, 700))
    pairs = [[tensor(rng.standard_normal(s).astype("f4")) for s in ((b, m, k), (b, k, n))] for b, m, k, n in shapes]
    before = threads.get_num_threads()
    try:
        found = []
        for count in (1, 2, 3, 7, 16):
            threads.set_num_threads(count)
            found.append([values(KERNELS["matmul"](*pair)).copy() for pair in pairs])
    finally:
        threads.set_num_threads(before)
    for other in found[1:]:
        assert all((x == y).all() for x, y in zip(found[0], other, strict=True))
    for pair, out in zip(pairs, found[0], strict=True):
        a, b = (values(t).astype("f8") for t in pair)
        assert (abs(out - a @ b) <= 1e-6 * (abs(a) @ abs(b))).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 63, 65, 8191, 8192, 8193, 300001])
def test_products_of_vectors(n, dtype, rng):
    """Whole parts and their ends, of vectors with gaps, too; as many threads as one likes."""
    whole = tensor(rng.standard_normal((n, 2)).astype(dtype))
    x, y = (core.view(whole, (n,), (2,), i) for i in (0, 1))
    before, found = threads.get_num_threads(), set()
    try:
        for count in (1, 2, 7):
            threads.set_num_threads(count)
            found.add(values(KERNELS["dot"](x, y)).item())
    finally:
        threads.set_num_threads(before)
    a, b = values(whole).astype("f8").T
    (out,) = found
    assert abs(out - a @ b) <= (1e-6 if dtype == "f4" else 1e-14) * (abs(a) @ abs(b))


# ---------------------------------------------------------------- float16

@pytest.mark.parametrize("op, arguments", [("conv2d", (None, (1, 1), (0, 0), (1, 1), 1)), ("logsumexp", ())])
def test_half_is_refused(op, arguments):
    x = tensor(np.zeros((1, 1, 1, 1) if op == "conv2d" else (2, 2), "f2"))
    with pytest.raises(DTypeError, match=rf"{op}: .*float16.*cast it with \.float\(\)"):
        KERNELS[op](x, *((0,) if op == "logsumexp" else (x,)), *arguments)
