"""GPU kernels of elementwise, movement, creation, transfer, reduce and softmax against NumPy in float64.

Runs on any adapter; with VOLTA_REQUIRE_GPU=1 a missing GPU is a failure, never a skip.
"""
import inspect
import itertools
import math
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from volta._kernels import core
from volta.errors import ArgumentError, DTypeError
from volta.ops.table import RECORDS

BOOL, UINT8, INT32, INT64, FLOAT16, FLOAT32, FLOAT64 = (core.dtype_from_code(code) for code in range(7))
DEVICE = core.Device("gpu", 0)
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 2.5, -3.0, 100.0, -100.0, 3e38, -3e38, 1e-30]
SHAPES = [(), (1,), (0,), (7,), (1023,), (4, 5), (3, 0, 2), (2, 3, 4, 5), (2, 1, 3, 1, 2, 2, 1, 3), (5, 1030)]


def _load():
    global gpu_copy
    try:
        from volta.devices.gpu import common as gpu_common
        from volta.devices.gpu import copy as gpu_copy
        from volta.devices.gpu import elementwise as gpu_elementwise
        from volta.devices.gpu import kernels as gpu_kernels  # noqa: F401  (enters what parts are put together by)
        from volta.devices.gpu import reduce as gpu_reduce
        from volta.devices.gpu import softmax as gpu_softmax
        gpu_common.context(DEVICE)
    except Exception:
        if os.environ.get("VOLTA_REQUIRE_GPU") == "1":
            raise
        pytest.skip("no usable GPU", allow_module_level=True)
    kernels = {}
    for module in (gpu_elementwise, gpu_copy, gpu_reduce, gpu_softmax):
        kernels.update(module.KERNELS)
    return kernels, gpu_common.context(DEVICE)


K, CTX = _load()


def up(array, dtype=FLOAT32):
    return K["upload"](np.asarray(array, order="C"), dtype, DEVICE)


def down(t):
    return K["download"](t)


def data(shape, seed=0, scale=3.0):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, np.float32)


def view_of(t, array):
    """The tensor over `t`'s storage that `array`, a view of the uploaded array, is."""
    base = array
    while base.base is not None:
        base = base.base
    offset = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // array.itemsize
    return core.view(t, array.shape, tuple(s // array.itemsize for s in array.strides), offset)


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


def close(got, want, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=rtol, atol=atol)


def double(x):
    return x.astype(np.float64)


# ---------------------------------------------------------------- shaders

def test_every_shader_compiles_as_it_lies():
    from volta.gpu import shaders
    for file in ("copy/copy", "reduce/reduce", "softmax/softmax"):
        assert file in shaders.files()
        CTX.pipeline(file)


def test_every_operation_line_is_found_and_listed_once():
    from volta.devices.gpu.elementwise import FUNCTIONS
    from volta.gpu import shaders
    lines = [line for line in shaders.read("elementwise/functions").split("\n") if line.startswith("fn ")]
    assert len(lines) == len(FUNCTIONS)
    assert set(UNARY) | set(BINARY) | set(SLOPES) <= set(K)


def test_every_declaration_of_the_prelude_is_used():
    from volta.gpu import shaders
    glue = Path(shaders.PACKAGE, "devices").rglob("*.py")
    texts = [*(d.text for d in shaders.prelude()), *map(shaders.read, shaders.files()), *(path.read_text() for path in glue)]
    words = Counter(re.findall(r"\w+", re.sub(r"//[^\n]*", "", "\n".join(texts))))
    names = [d.name for d in shaders.prelude()]
    assert len(names) == len(set(names)) > 50
    assert [n for n in names if words[n] < 2 and not n.startswith("order_")] == []      # reduce.py: f"order_{way}"


KINDS = {"f": {"float16", "float32", "float64"}, "i": {"uint8", "int32", "int64"}, "b": {"bool"}}
TAKES = {name: set().union(*map(KINDS.get, op.takes if isinstance(op.takes, str) else op.takes["input"]))
         for name, op in RECORDS.items() if op.family in ("unary", "grad", "binary", "comparison", "bitwise", "ternary")}


def test_kernels_of_both_devices_take_what_is_declared():
    from volta._kernels.cpu import elementwise as cpu
    from volta.devices.gpu import elementwise as gpu
    assert {name: {d.name for d in kernel.dtypes()} for name, kernel in cpu.KERNELS.items()} == TAKES
    assert {name: {d.name for d in kernel.dtypes()} for name, kernel in gpu.KERNELS.items()} == {
        name: kinds - {"float64"} for name, kinds in TAKES.items()}


@pytest.mark.parametrize("name", TAKES)
def test_both_devices_compute_the_same_of_every_dtype(name):
    """Tensors, and a number in every place where it may stand."""
    from volta._kernels.cpu import copy, elementwise
    from volta.devices.gpu.elementwise import ARITY
    cpu, rng = elementwise.KERNELS[name], np.random.default_rng(0)
    for dtype in K[name].dtypes():
        for numbers in itertools.product((False, True), repeat=ARITY[name]):
            if all(numbers) or name == "where" and numbers[0]:
                continue
            arrays = [rng.random(13) > 0.5 if dtype is BOOL or name == "where" and i == 0 else
                      (rng.random(13) * 3 + 0.1 if dtype.is_floating_point else rng.integers(1, 9, 13)).astype(dtype.name)
                      for i in range(ARITY[name])]
            made = [[a[0].item() if number else upload(a, BOOL if a.dtype == bool else dtype) for a, number in zip(arrays, numbers)]
                    for upload in (copy.upload, up)]
            want, got = copy.download(cpu(*made[0])), down(K[name](*made[1]))
            assert got.dtype == want.dtype
            close(got, want, rtol=2e-3 if dtype is FLOAT16 else 1e-5)


# ---------------------------------------------------------------- contract

def test_the_contract_is_what_kernels_take():
    """Every name and argument of `volta/devices/contract.py`."""
    from volta._kernels.gpu.launch import Pointwise

    from volta.devices import contract
    from volta.devices.gpu.limits.cut import KERNELS
    from volta.ops.records.update import UPDATES
    text = re.sub(r"^elementwise .*?^movement", "movement", contract.__doc__.split("half.py).")[1], flags=re.S | re.M)
    told = {}
    for m in re.finditer(r"\b([a-z]\w+)\(((?:[^()]|\([^()]*\))+)\)", text):
        if m[1] in KERNELS:
            told[m[1]] = re.findall(r"(\*?\w+)(?:\[.*?\])?(?:: [^,(]+|: \(.*?\)|=\w+| or None)*(?:, |$)", m[2])
    for name, kernel in KERNELS.items():
        if isinstance(kernel, Pointwise):
            assert name in TAKES
        elif name not in UPDATES:
            if hasattr(kernel, "names"):
                taken = kernel.arity, [n for n in kernel.names if n != "windows"]
                assert told.get(name) in (None, []) or (len(told[name]) - len(taken[1]), told[name][taken[0]:]) == taken, (name, told[name])
            else:
                assert told[name] == [str(p).split("=")[0] for p in inspect.signature(kernel).parameters.values()], name


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


# ---------------------------------------------------------------- movement, creation, transfer

def test_cast():
    x = np.array([0.0, -0.0, 1.9, -1.9, 200.7, math.nan], np.float32)
    assert (down(K["cast"](up(x), INT32))[:5] == [0, 0, 1, -1, 200]).all()
    assert (down(K["cast"](up(x), BOOL)) == [False, False, True, True, True, True]).all()
    assert (down(K["cast"](up(x[:5]), UINT8)) == np.array([0, 0, 1, 255, 200])).all()
    i = np.array([-1, 0, 1, 300, 70000], np.int32)
    for dtype in (BOOL, UINT8, INT64, FLOAT32):
        got = down(K["cast"](up(i, INT32), dtype))
        assert got.dtype == dtype.name and (got == i.astype(dtype.name)).all()
    for dtype in (INT32, FLOAT32, UINT8):
        assert (down(K["cast"](up([True, False], BOOL), dtype)) == [1, 0]).all()


def test_copies_of_every_permutation():
    x = data((5, 9, 12, 10))
    t = up(x)
    for order in itertools.permutations(range(4)):
        v = x.transpose(order)
        assert (down(K["contiguous"](view_of(t, v))) == v).all(), order
    x = data((130, 75))
    assert (down(K["cast"](view_of(up(x), x.T), INT32)) == x.T.astype(np.int32)).all()


def test_copy_into_and_fill_into():
    x = data((4, 6))
    out = K["full"]((9, 12), -1.0, FLOAT32, DEVICE)
    target = core.view(out, (4, 6), (24, -2), 12 + 11)
    K["copy_into"](target, up(x))
    want = np.full((9, 12), -1.0, np.float32)
    want[1:9:2, 11::-2] = x
    assert (down(out) == want).all()
    K["fill_into"](core.view(out, (9, 3), (12, 4), 1), 5.0)
    want[:, 1::4] = 5
    assert (down(out) == want).all()
    K["copy_into"](core.view(out, (3, 4), (12, 1), 0), core.view(out, (3, 4), (12, 1), 12))       # overlapping
    want[:3, :4] = want[1:4, :4].copy()
    assert (down(out) == want).all()
    K["copy_into"](core.view(out, (4,), (1,), 0), up([1, 2, 3, 4], INT32))
    assert (down(out)[0, :4] == [1, 2, 3, 4]).all()


def test_place_and_cat():
    x = data((3, 4))
    got = down(K["place"](up(x), (8, 7), (1, 2), (3, 1), 0.5))
    want = np.full((8, 7), 0.5, np.float32)
    want[1::3, 2:6] = x
    assert (got == want).all()
    y = data((3, 2), 1)
    assert (down(K["cat"](up(x), up(y), up(x[:, :0]), dim=1)) == np.concatenate([x, y], 1)).all()
    assert (down(K["cat"](up(x), up(x), dim=0)) == np.concatenate([x, x])).all()


def test_creation_uploads_nothing():
    before = CTX.transfers.uploads
    made = [K["full"]((3, 5), 2.5, FLOAT32, DEVICE), K["full"]((), True, BOOL, DEVICE), K["full"]((7,), -3, INT64, DEVICE),
            K["arange"](1.0, 0.5, 1000, FLOAT32, DEVICE), K["arange"](10, -3, 7, INT64, DEVICE),
            K["empty"]((0, 3), FLOAT32, DEVICE), K["arange"](0, 1, 0, INT64, DEVICE), K["full"]((5,), -212, UINT8, DEVICE)]
    assert CTX.transfers.uploads == before
    wants = [np.full((3, 5), 2.5), np.array(True), np.full(7, -3), 1 + 0.5 * np.arange(1000), 10 - 3 * np.arange(7),
             np.empty((0, 3)), np.empty(0), np.full(5, 44)]
    for t, want in zip(made, wants):
        got = down(t)
        assert got.shape == want.shape and (got == want).all()


@pytest.mark.parametrize("dtype", [BOOL, UINT8, INT32, INT64, FLOAT32], ids=lambda d: d.name)
def test_transfer(dtype):
    for shape in SHAPES:
        x = (data(shape) * 10).astype(np.int32).astype(dtype.name)
        got = down(up(x, dtype))
        assert got.dtype == x.dtype and got.shape == x.shape and (got == x).all()
    x = np.arange(24).reshape(4, 6).astype(dtype.name)
    assert (down(view_of(up(x, dtype), x[1:, ::2])) == x[1:, ::2]).all()


def test_what_the_gpu_cannot_hold():
    with pytest.raises(ArgumentError, match="got 2147483648"):
        up(np.array([1, 2**31]), INT64)
    with pytest.raises(ArgumentError, match="got -2147483649"):
        up(np.array([-2**31 - 1]), INT64)
    with pytest.raises(DTypeError, match="float64 is not available on the GPU; use float32"):
        up([1.0], FLOAT64)


# ---------------------------------------------------------------- reductions

REDUCTIONS = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "prod": np.prod}


@pytest.mark.parametrize("shape", [(5,), (1,), (7, 9), (8, 12), (3, 4, 5), (2, 3, 4, 5), (1000, 8), (8, 1000), (3, 600, 4),
                                   (100003,), (30000, 3), (3, 30000)])
def test_reductions_over_every_set_of_dims(shape):
    x = data(shape, scale=1.0)
    t = up(x)
    flipped = core.view(t, shape[::-1], t._strides[::-1], 0)
    dims = [dim for r in range(1, len(shape) + 1) for dim in itertools.combinations(range(len(shape)), r)]
    for dim, name in itertools.product(dims, REDUCTIONS):
        want = REDUCTIONS[name](double(x), axis=dim, keepdims=len(dim) % 2 == 1)
        terms = math.prod(shape[d] for d in dim)
        got = down(K[name](t, dim, len(dim) % 2 == 1))
        assert got.shape == want.shape
        close(got, want, atol=3e-7 * math.sqrt(terms) + 1e-7)
        close(down(K[name](flipped, dim, False)), REDUCTIONS[name](double(x).T, axis=dim), atol=3e-7 * math.sqrt(terms) + 1e-7)


def test_reductions_of_integers_and_bools():
    x = (data((50, 33)) * 10).astype(np.int32)
    for dim in ((0,), (1,), (0, 1)):
        for dtype in (INT32, INT64):
            got = down(K["sum"](up(x, dtype), dim, False))
            assert got.dtype == np.int64 and (got == x.sum(dim)).all()
            assert (down(K["amax"](up(x, dtype), dim, False)) == x.max(dim)).all()
        b = x > 5
        assert (down(K["sum"](up(b, BOOL), dim, False)) == b.sum(dim)).all()
        assert (down(K["any"](up(x > 28, BOOL), dim, False)) == (x > 28).any(dim)).all()
        assert (down(K["all"](up(x > -25, BOOL), dim, False)) == (x > -25).all(dim)).all()
        assert (down(K["any"](up(x.astype(np.float32)), dim, False)) == x.any(dim)).all()
        u = (x & 255).astype(np.uint8)
        assert (down(K["amin"](up(u, UINT8), dim, False)) == u.min(dim)).all()


def test_reductions_of_nothing():
    x = up(np.empty((3, 0), np.float32))
    assert (down(K["sum"](x, (1,), False)) == 0).all() and (down(K["prod"](x, (1,), True)) == 1).all()
    assert np.isnan(down(K["mean"](x, (1,), False))).all()
    assert down(K["sum"](x, (0,), False)).shape == (0,)
    assert not down(K["any"](x, (1,), False)).any() and down(K["all"](x, (1,), False)).all()


def test_reductions_keep_nan_and_infinity():
    for columns in (3, 4, 5):
        x = np.zeros((4, columns), np.float32)
        x[0, 1], x[1, 2], x[1, 0], x[2, 0], x[3] = math.nan, math.inf, -math.inf, -math.inf, -1e30
        for axis in (0, 1):
            for name in ("sum", "amax", "amin"):
                with np.errstate(all="ignore"):
                    close(down(K[name](up(x), (axis,), False)), REDUCTIONS[name](x, axis=axis))
    assert math.isnan(down(K["amax"](up(np.float32([-math.nan, 5])), (0,), False)))


@pytest.mark.parametrize("shape", [(5,), (7, 9), (3, 4, 5), (1000, 8), (8, 1000), (50000,)])
def test_arguments_take_the_first(shape):
    x = np.round(data(shape))
    x.flat[0] = -0.0
    for name, reference in (("argmax", np.argmax), ("argmin", np.argmin)):
        for d in range(len(shape)):
            got = down(K[name](up(x), d, d % 2 == 0))
            assert got.dtype == np.int64 and (got == reference(x, d, keepdims=d % 2 == 0)).all()
        assert (down(K[name](up(x, INT32), 0, False)) == reference(x, 0)).all()
    x.flat[x.size // 2:] = math.nan
    assert (down(K["argmax"](up(x), 0, False)) == x.argmax(0)).all() and (down(K["argmin"](up(x), 0, False)) == x.argmin(0)).all()


# ---------------------------------------------------------------- softmax

@pytest.mark.parametrize("shape", [(5,), (), (7, 9), (3, 4, 5), (3, 8, 8), (1000, 8), (2, 8192), (2, 8193), (2, 20000),
                                   (2, 70000), (0, 3), (5000, 2), (2, 3000, 4)])
def test_softmax(shape):
    x, g = data(shape), data(shape, 1)
    for dim in range(max(len(shape), 1)):
        d = double(x) if shape else double(x)[None]
        e = np.exp(d - d.max(dim, keepdims=True)) if d.size else d
        y = (e / e.sum(dim, keepdims=True)).reshape(shape)
        gd = double(g).reshape(d.shape)
        yd = y.reshape(d.shape)
        out, log = K["softmax"](up(x), dim), K["log_softmax"](up(x), dim)
        close(down(out), y, rtol=2e-5, atol=1e-9)
        close(down(log), np.log(y))
        # g - sum(g y) cancels, so the error is that of a sum of size |g|.
        close(down(K["softmax_grad"](up(g), out, dim)), (yd * (gd - (gd * yd).sum(dim, keepdims=True))).reshape(shape), atol=5e-6)
        close(down(K["log_softmax_grad"](up(g), log, dim)), (gd - yd * gd.sum(dim, keepdims=True)).reshape(shape), atol=1e-5)


def test_softmax_special_values():
    rows = np.float32([[1, math.nan, 2, 3], [1, math.inf, 2, 3], [-math.inf] * 4, [-math.inf, 1, 2, 3], [1e30, -1e30, 3e38, 1]])
    got = down(K["softmax"](up(rows), 1))
    assert np.isnan(got[:3]).all()
    close(got[3], [0, 0.09003057, 0.24472847, 0.66524096])
    assert (got[4] == [0, 0, 1, 0]).all()
    assert np.isnan(down(K["softmax"](up(np.ascontiguousarray(rows.T)), 0))[:, :3]).all()


# ---------------------------------------------------------------- large

def test_more_elements_than_one_grid_dimension_or_binding_holds():
    count = max(17_000_001, CTX.limits["max-storage-buffer-binding-size"] // 4 + 1001)
    if count > 40_000_000:
        count = 17_000_001
    x = np.arange(count, dtype=np.float32) % 1000
    t = up(x)
    y = K["add"](t, t)
    assert (down(y) == 2 * x).all()
    assert (down(K["add"](t, 1.0)) == x + 1).all()
    K["neg"].into(y, t)
    tail = core.view(y, (5,), (-1,), count - 1)
    assert (down(tail) == -x[:-6:-1]).all()
    close(down(K["add"](tail, 1.0)), 1 - x[:-6:-1])
    # Views of the same geometry in a small and in a large buffer share a plan.
    small = up(x[:5])
    head = core.view(t, (5,), (1,), 0)
    for v in (small, head):
        close(down(K["exp2"](v)), np.exp2(x[:5]))
        close(down(K["sub"](v, v)), np.zeros(5))
        close(down(K["sub"](v, 1.0)), x[:5] - 1)
        close(down(K["sum"](v, (0,), False)), x[:5].sum())
        close(down(K["softmax"](v, 0)), np.exp(x[:5]) / np.exp(x[:5]).sum())
    close(down(K["sum"](t, (0,), False)), double(x).sum())
    assert down(K["argmax"](t, 0, False)) == 999
    close(down(K["mean"](t, (0,), True)), [double(x).mean()])
    assert down(K["amax"](core.view(t, (count // 7, 7), (7, 1), 0), (0,), False)).max() == 999


@pytest.fixture
def tiny_bindings(monkeypatch):
    """Pretend that a launch sees 4 KB of a buffer at most, so that everything larger goes in windows."""
    from volta._kernels.gpu import launch
    from volta.devices.gpu.common import context
    plans = [k.plans for k in K.values() if hasattr(k, "plans")] + [k.plans for k in (gpu_copy._copy, gpu_copy._fill, gpu_copy._count)]
    for cache in plans:
        cache.clear()
    with monkeypatch.context() as patch:
        patch.setitem(CTX.limits, "max-storage-buffer-binding-size", 4096)
        launch.configure(gpu_copy.contiguous, gpu_copy.copy_into, context)      # which reads the limits anew
        yield
    launch.configure(gpu_copy.contiguous, gpu_copy.copy_into, context)
    for cache in plans:
        cache.clear()


def test_windows(tiny_bindings):
    x, y = data((60, 101)), data((60, 101), 1)
    a, b = up(x), up(y)
    before = CTX.batch.dispatches
    close(down(K["add"](a, b)), x + y)
    assert CTX.batch.dispatches - before > 5
    close(down(K["mul"](a, 0.5)), x * 0.5)
    close(down(K["mul"](view_of(a, x[::-1]), view_of(b, y[:, :1]))), x[::-1] * y[:, :1])
    close(down(K["where"](K["gt"](a, b), a, b)), np.maximum(x, y))
    close(down(K["exp"](view_of(a, x[30:32]))), np.exp(double(x[30:32])))
    assert (down(K["contiguous"](view_of(a, x.T))) == x.T).all()
    assert (down(K["cast"](view_of(a, x[:, ::-3]), INT32)) == x[:, ::-3].astype(np.int32)).all()
    assert (down(K["arange"](0, 1, 5000, INT64, DEVICE)) == np.arange(5000)).all()
    assert (down(K["full"]((5001,), 2.0, FLOAT32, DEVICE)) == 2).all()
    K["sub"].into(b, b, a)
    close(down(b), y - x)
    for dim in ((0,), (1,), (0, 1)):
        close(down(K["sum"](a, dim, False)), double(x).sum(dim), atol=1e-5)
        close(down(K["mean"](a, dim, True)), double(x).mean(dim, keepdims=True))
        assert (down(K["amax"](a, dim, False)) == x.max(dim)).all()
    for d in (0, 1):
        assert (down(K["argmax"](a, d, False)) == x.argmax(d)).all()
        assert (down(K["argmin"](a, d, True)) == x.argmin(d, keepdims=True)).all()
        e = np.exp(double(x) - x.max(d, keepdims=True))
        close(down(K["softmax"](a, d)), e / e.sum(d, keepdims=True), rtol=2e-5)
    row = data((1, 5000))
    e = np.exp(double(row) - row.max())
    close(down(K["softmax"](up(row), 1)), e / e.sum(), rtol=2e-5)
    long = np.round(data(6000))
    long[5000] = math.nan
    assert down(K["argmax"](up(long), 0, False)) == 5000
