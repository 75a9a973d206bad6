"""GPU kernels of elementwise functions and of chains of them, against NumPy in float64."""
from __future__ import annotations

import math

import numpy as np
import pytest
from gpu_arrays import BOOL, CTX, DEVICE, FLOAT16, FLOAT32, INT32, INT64, SHAPES, UINT8, K, close, data, double, down, up, view_of

import volta
from volta._kernels import core
from volta.errors import ArgumentError, DTypeError

pytestmark = pytest.mark.gpu
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 2.5, -3.0, 100.0, -100.0, 3e38, -3e38, 1e-30]


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "reciprocal": lambda x: 1 / x, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sigmoid": sigmoid, "erf": erf,
    "relu": lambda x: np.where(x < 0, 0, x), "gelu": lambda x: x * 0.5 * np.vectorize(math.erfc, otypes=[float])(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)), "silu": lambda x: x * sigmoid(x),
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "logical_not": np.logical_not,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "remainder": np.mod,
    "floor_divide": np.floor_divide, "fmod": np.fmod, "maximum": np.maximum, "minimum": np.minimum, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}
POSITIVE = {"sqrt", "rsqrt", "log", "log2", "pow"}
SLOPES = {
    "relu_grad": lambda g, y: np.where(y <= 0, 0, g), "sigmoid_grad": lambda g, y: g * y * (1 - y),
    "tanh_grad": lambda g, y: g * (1 - y * y),
    "gelu_grad": lambda g, x: g * (0.5 * (1 + erf(x / math.sqrt(2))) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    "silu_grad": lambda g, x: g * (sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
}


def test_every_operation_line_is_found_and_listed_once():
    from volta.devices.gpu.elementwise import FUNCTIONS
    from volta.gpu import shaders
    lines = [line for line in shaders.read("elementwise/functions").split("\n") if line.startswith("fn ")]
    assert len(lines) == len(FUNCTIONS)
    assert set(UNARY) | set(BINARY) | set(SLOPES) <= set(K)


# ---------------------------------------------------------------- generated kernels

def composed(expression, shape, operands, results, numbers=()):
    """What an expression gives of NumPy arrays that broadcast to `shape`, in one dispatch."""
    from volta.devices.gpu import common, map
    tensors = [up(a, d) for a, d in operands]
    inputs = [(common.broadcast_strides(t, shape), t.offset, t.dtype) for t in tensors]
    strides = core.strides_of(shape)
    plan = map.make_plan(DEVICE, expression, shape, inputs, [(strides, 0, d) for d in results])
    before = CTX.batch.dispatches
    out = plan(*tensors, numbers=list(numbers))
    assert CTX.batch.dispatches == before + 1
    return [down(t) for t in out] if isinstance(out, tuple) else down(out)


def compose(*calls, **options):
    from volta.devices.gpu.elementwise import compose
    return compose(calls, **options)


@pytest.mark.parametrize("shapes", [[(5, 1030)] * 3, [(6, 8), (8,), (6, 1)], [(3, 1, 5), (7, 1), (1, 5)],
                                    [(2, 1) * 6, (1, 2) * 6, ()]], ids=str)
def test_a_chain_is_one_dispatch(shapes):
    shape = np.broadcast_shapes(*shapes)
    a, b, c = (data(s, i) for i, s in enumerate(shapes))
    chain = compose(("mul", FLOAT32, ("x0", "x1")), ("add", FLOAT32, ("t0", "x2")), ("relu", FLOAT32, ("t1",)))
    close(composed(chain, shape, [(a, FLOAT32), (b, FLOAT32), (c, FLOAT32)], [FLOAT32]), np.maximum(a * b + c, 0), atol=1e-5)


def test_a_chain_of_several_dtypes_and_outputs():
    x, n = data((6, 12)), np.arange(12, dtype=np.uint8) * 20
    chain = compose(("mul", FLOAT32, ("x0", "s0")), ("gt", FLOAT32, ("t0", "s1")), ("add", UINT8, ("x1", "s2")),
                    ("gt", UINT8, ("t2", "x1")), ("logical_and", BOOL, ("t1", "t3")), numbers=(FLOAT32, FLOAT32, UINT8),
                    results=("t0", "t4", "t2"))
    wrapped = n + np.uint8(100)
    for shape, operands in (((6, 12), (x, n)), ((6, 11), (x[:, 1:], n[1:]))):
        operands = list(zip(map(np.ascontiguousarray, operands), (FLOAT32, UINT8)))
        a, b, c = composed(chain, shape, operands, [FLOAT32, BOOL, UINT8], (0.5, 0.25, 100))
        values, sums = operands[0][0] * np.float32(0.5), np.broadcast_to(wrapped[-shape[1]:], shape)
        close(a, values)
        assert b.dtype == bool and (b == ((values > 0.25) & (sums > operands[1][0]))).all()
        assert (c == sums).all()


def test_sizes_are_constants_where_parameters_do_not_fit():
    from volta.devices.gpu import generate
    shape = (2, 3) * 5
    arrays = [data(tuple(n if (d + i) % 2 else 1 for d, n in enumerate(shape)), i) for i in range(9)]
    total = compose(("add", FLOAT32, ("x0", "x1")), *[("add", FLOAT32, (f"t{i}", f"x{i + 2}")) for i in range(7)])
    close(composed(total, shape, [(a, FLOAT32) for a in arrays], [FLOAT32]), sum(map(double, arrays)), atol=1e-5)
    layout = generate.Layout(1, True, "d" * 17, 16, ("f32",) * 17, ("f32",) * 17, ("",), (), None)
    with pytest.raises(ArgumentError, match="elementwise: a kernel takes 16 tensors and 128 bytes of parameters, got 17 and 72"):
        generate.text(total, layout)


def test_common_kernels_take_few_parameters():
    """64 bytes of immediates are what any implementation has."""
    CTX.synchronize()
    x, y = up(data((4, 6, 8))), up(data((8,)))
    for kernel, operands in (("exp", (x,)), ("add", (x, y)), ("mulacc", (x, y, 2.0)), ("where", (K["gt"](x, 0), x, y))):
        K[kernel](*operands)
        assert max(plan.steps[0].pipeline.params_size for key, plan in K[kernel].plans.items() if (4, 6, 8) in key) <= 64


# ---------------------------------------------------------------- elementwise

@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for shape in SHAPES if name in ("neg", "exp") else [(5, 1030)]:
        x = data(shape)
        if name in POSITIVE:
            x = np.abs(x) + 1e-3
        if name == "log1p":
            x = np.abs(x) - 0.5
        got = down(K[name](up(x)))
        assert got.shape == x.shape
        close(got, UNARY[name](double(x)), atol=1e-7)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_far_from_zero(name):
    x = data(5000, scale=4000.0)
    close(down(K[name](up(x))), UNARY[name](double(x)), atol=1e-9)


@pytest.mark.parametrize("name", ["tanh", "expm1", "log1p", "erf", "sin", "gelu", "sigmoid", "silu"])
def test_small_arguments_keep_relative_accuracy(name):
    x = data(5000, scale=1e-4)
    close(down(K[name](up(x))), UNARY[name](double(x)), atol=0)


@pytest.mark.parametrize("name", UNARY)
def test_unary_special_values(name):
    x = np.array(SPECIAL, np.float32)
    with np.errstate(all="ignore"):
        want = UNARY[name](double(x)).astype(np.float32)
    if name == "sign":
        want[0] = 0             # as in PyTorch
    if name in ("sin", "cos"):
        want, x = want[:-3], x[:-3]     # 3e38 has no meaningful angle
    if name in ("gelu_tanh", "silu", "gelu"):
        x, want = np.delete(x, [2]), np.delete(want, [2])       # -inf * 0
    close(down(K[name](up(x))), want)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    for a, b in (((5, 1030), (5, 1030)), ((4, 5), (5,)), ((4, 1), (1, 8)), ((3, 8), (3, 1)), ((), (3,)), ((0, 4), (4,))):
        x, y = data(a), data(b, 1)
        if name == "pow":
            x = np.abs(x) + 0.1
        got = down(K[name](up(x), up(y)))
        want = BINARY[name](double(x), double(y))
        assert got.shape == want.shape
        close(got, want)


@pytest.mark.parametrize("name", BINARY)
def test_binary_special_values(name):
    x, y = (v.ravel().astype(np.float32) for v in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        want = BINARY[name](x, y)
        if name == "floor_divide":
            keep = (y != 0) & np.isfinite(x) & np.isfinite(y)
            x, y, want = x[keep], y[keep], want[keep]
    close(down(K[name](up(x), up(y))), want)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "gt", "remainder"])
def test_number_operands_upload_nothing(name):
    x = np.abs(data((6, 9))) + 0.5
    t = up(x)
    before = CTX.transfers.uploads
    outs = [K[name](t, 2.5), K[name](2.5, t), K[name](t, 3)]
    assert CTX.transfers.uploads == before
    for out, want in zip(outs, (BINARY[name](double(x), 2.5), BINARY[name](2.5, double(x)), BINARY[name](double(x), 3))):
        close(down(out), want)


def test_numbers_beyond_float32_become_infinite():
    assert down(K["add"](up([1.0]), 1e300))[0] == math.inf
    assert math.isnan(down(K["mul"](up([1.0]), math.nan))[0])


@pytest.mark.parametrize("name", SLOPES)
def test_slopes(name):
    g, x = data((7, 33)), data((7, 33), 1)
    close(down(K[name](up(g), up(x))), SLOPES[name](double(g), double(x)))


def test_relu_grad_of_zero_and_nan():
    got = down(K["relu_grad"](up([1.0, 1.0, 1.0, math.nan]), up([0.0, -0.0, math.nan, 1.0])))
    assert got[0] == 0 and got[1] == 0 and got[2] == 1 and math.isnan(got[3])


def test_ternary():
    c, x, y = data((4, 6)) > 0, data((4, 6), 1), data((6,), 2)
    tc, tx, ty = up(c, BOOL), up(x), up(y)
    close(down(K["where"](tc, tx, ty)), np.where(c, x, y))
    close(down(K["where"](tc, tx, -1.5)), np.where(c, x, -1.5))
    close(down(K["where"](tc, 0.5, ty)), np.where(c, 0.5, y))
    close(down(K["where"](tc, 0.5, -0.25)), np.where(c, 0.5, -0.25))
    close(down(K["mulacc"](tx, ty, tx)), x * y + x)
    close(down(K["mulacc"](tx, 2.0, ty)), x * 2 + y)
    assert math.isnan(down(K["where"](up([True], BOOL), up([math.nan]), up([1.0])))[0])


def test_views():
    x = data((4, 6, 8))
    t = up(x)
    views = [x.transpose(2, 0, 1), x[::-1], x[:, ::2, 1::3], x[:, ::-1, ::-2], x[1:3, 2:, 4:], x[2], x[:, 3:4], x[0, 0, 1:]]
    for v in views:
        tv = view_of(t, v)
        close(down(K["exp"](tv)), np.exp(double(v)))
        close(down(K["add"](tv, tv)), 2 * v)
        assert (down(K["contiguous"](tv)) == v).all()
        w = np.broadcast_to(v[..., :1], v.shape)
        close(down(K["mul"](tv, view_of(t, w))), v * w)
        close(down(K["where"](K["gt"](tv, 0), tv, view_of(t, w))), np.where(v > 0, v, w))


def test_rank_eight_and_beyond():
    for rank in (8, 10):
        x, y, z = data((2,) * rank), data((2,) * rank, 1), data((2,) * rank, 2)
        order = tuple(range(0, rank, 2)) + tuple(range(1, rank, 2))[::-1]
        tx, ty = view_of(up(x), x.transpose(order)), up(y)
        tz = view_of(up(z), z.transpose(order[::-1]))
        close(down(K["add"](tx, ty)), x.transpose(order) + y)
        close(down(K["neg"](tx)), -x.transpose(order))
        close(down(K["mulacc"](tx, ty, tz)), x.transpose(order) * y + z.transpose(order[::-1]))
        out = up(np.zeros_like(x))
        K["add"].into(core.view(out, x.shape, tuple(out._strides[d] for d in order), 0), tx, ty)
        close(down(core.view(out, x.shape, tuple(out._strides[d] for d in order), 0)), x.transpose(order) + y)


def test_integers():
    x, y = np.array([7, -7, 7, -7, 0, 2**31 - 1, 5]), np.array([3, 3, -3, -3, 5, 1, 0])
    x, y = x[:6], y[:6]
    for dtype in (INT32, INT64):
        a, b = up(x, dtype), up(y, dtype)
        for name in ("add", "sub", "mul", "remainder", "floor_divide", "fmod", "maximum", "minimum", "lt", "ne"):
            want = BINARY[name](x.astype(np.int32), y.astype(np.int32))
            got = down(K[name](a, b))
            assert (got == want).all(), name
            assert got.dtype == (want.dtype if want.dtype == bool else dtype.name)
        assert (down(K["pow"](a, up(np.full(6, 3), dtype)))[:5] == x[:5]**3).all()
        assert (down(K["bitwise_xor"](a, b)) == (x ^ y)).all()
        assert (down(K["add"](a, -5)) == (x.astype(np.int32) - 5)).all()
    u, v = np.array([250, 3, 255, 0], np.uint8), np.array([10, 5, 255, 1], np.uint8)
    for name in ("add", "sub", "mul", "bitwise_and", "maximum"):
        reference = BINARY.get(name, np.bitwise_and)
        assert (down(K[name](up(u, UINT8), up(v, UINT8))) == reference(u, v)).all(), name
    assert (down(K["neg"](up(u, UINT8))) == np.negative(u)).all()


def test_bools():
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    a, b = up(x, BOOL), up(y, BOOL)
    for name, want in (("add", x | y), ("mul", x & y), ("bitwise_xor", x ^ y), ("eq", x == y), ("logical_and", x & y)):
        got = down(K[name](a, b))
        assert got.dtype == bool and (got == want).all(), name


def test_an_operation_without_such_operands_says_so():
    with pytest.raises(DTypeError, match="sqrt: does not take volta.int32; it takes volta.float16, volta.float32"):
        K["sqrt"](up([1], INT32))


def test_into():
    x, y = data((5, 8)), data((5, 8), 1)
    a, b = up(x), up(y)
    K["add"].into(a, a, b)
    close(down(a), x + y)
    K["mul"].into(a, a, a)
    close(down(a), (x + y)**2)
    K["exp"].into(b, b)
    close(down(b), np.exp(y))
    K["sub"].into(b, 1.0, b)
    close(down(b), 1 - np.exp(y))
    a = up(x)
    K["add"].into(core.view(a, (4, 8), (8, 1), 8), core.view(a, (4, 8), (8, 1), 0), core.view(a, (4, 8), (8, 1), 8))
    close(down(a), np.concatenate([x[:1], x[:-1] + x[1:]]))
    a = up(x)
    K["add"].into(core.view(a, (5, 3), (8, 2), 1), core.view(a, (5, 3), (8, 2), 1), core.view(a, (3,), (1,), 0))
    want = x.copy()
    want[:, 1:7:2] += x[0, :3]
    close(down(a), want)
    a = up(x)
    K["neg"].into(core.view(a, (5, 3), (8, 2), 1), core.view(a, (5, 3), (8, 2), 1))
    want = x.copy()
    want[:, 1:7:2] *= -1
    close(down(a), want)
    mask = K["empty"]((5, 8), BOOL, DEVICE)
    K["gt"].into(mask, up(x), 0.0)
    assert (down(mask) == (x > 0)).all()
    tail = K["full"]((11,), 7.0, FLOAT32, DEVICE)       # a write of 5 elements leaves the sixth alone
    K["add"].into(core.view(tail, (5,), (1,), 4), up(x[0, :5]), 1.0)
    close(down(tail), np.concatenate([[7] * 4, x[0, :5] + 1, [7] * 2]))


@pytest.mark.skipif(not CTX.has_f16, reason="this adapter has no float16")
def test_float16():
    x, y = data((5, 8)).astype(np.float16), data((8,), 1).astype(np.float16)
    got = down(K["add"](up(x, FLOAT16), up(y, FLOAT16)))
    assert got.dtype == np.float16
    close(got, x + y, rtol=1e-3, atol=1e-3)
    close(down(K["sum"](up(x, FLOAT16), (1,), False)), double(x).sum(1), rtol=2e-3, atol=1e-2)
    close(down(K["softmax"](up(x, FLOAT16), 1)), np.exp(double(x)) / np.exp(double(x)).sum(1, keepdims=True), rtol=2e-3)
    odd = x.reshape(-1)[:7]
    assert (down(K["contiguous"](view_of(up(odd, FLOAT16), odd[1:4]))) == odd[1:4]).all()


def test_float16_without_it_says_so():
    if not CTX.has_f16:
        with pytest.raises(DTypeError, match="float16 is not available on this GPU; use float32"):
            up([1.0], FLOAT16)


@pytest.mark.parametrize("exponent", [0.5, -0.5, 2.0, 3.0, -1.0, 1.5])
def test_powers_by_numbers_are_those_of_the_cpu(exponent):
    """As at minus infinity and minus zero, where roots are no powers."""
    values = np.array([-np.inf, np.inf, -0.0, 0.0, np.nan, -2.0, 3.0], np.float32)
    wanted = volta.tensor(values).pow(exponent).numpy()
    x = volta.tensor(values, device="gpu")
    for found in (x.pow(exponent), x.clone().pow_(exponent)):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
        here = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found.numpy()[here]), np.signbit(wanted[here]))
