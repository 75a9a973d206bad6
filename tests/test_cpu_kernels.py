"""The CPU kernels by themselves, below the op records: layouts, special values, overlap, variants, threads.

The op table's tests cover what each operation computes; here is what only the CPU's loops and driver can get wrong.
"""
import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from volta._kernels import core
from volta._kernels.core import processors, threads
from volta._kernels.cpu import copy, elementwise, join, reduce, variant
from volta.errors import ArgumentError, DTypeError, ShapeError

DTYPES = {dtype.name: dtype for dtype in map(core.dtype_from_code, range(7))}
BFLOAT16 = next(dtype for dtype in map(core.dtype_from_code, range(7, 10)) if dtype.name == "bfloat16")
LAYOUTS = ("contiguous", "transposed", "strided", "expanded", "reversed")
SHAPES = ((5,), (1, 1), (0, 4), (7, 33), (3, 5, 40), (70, 90))
KERNELS = elementwise.KERNELS


def upload(array):
    return copy.upload(array, DTYPES[array.dtype.name])


def rounded(x):
    """A tensor of bfloat16, which NumPy does not have, by an array of float32."""
    return copy.cast(upload(x), BFLOAT16)


def random(shape, dtype, rng):
    """Numbers with zeros and, where the dtype has them, NaN and infinities among them."""
    if dtype == "bfloat16":
        return copy.download(copy.cast(rounded(random(shape, "float32", rng)), DTYPES["float32"]))
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if not dtype.startswith("float"):
        return rng.integers(0 if dtype == "uint8" else -20, 100, shape).astype(dtype)
    x = (rng.standard_normal(shape) * 3).astype(dtype)
    flat = x.reshape(-1)
    for start, value in enumerate((0, -0.0, np.nan, np.inf, -np.inf)):
        flat[start * 3 + 1 :: 23] = value
    return x


def laid_out(shape, dtype, layout, rng):
    """A NumPy array and the tensor of the same values in the given layout."""
    made = rounded if dtype == "bfloat16" else upload
    if layout == "transposed":
        base = random(shape[::-1], dtype, rng)
        x = made(base)
        return base.T, core.view(x, shape, x._strides[::-1], 0)
    if layout == "strided":
        base = random(tuple(2 * n + 1 for n in shape), dtype, rng)
        x = made(base)
        view = base[tuple(slice(1, None, 2) for _ in shape)]
        return view, core.view(x, shape, tuple(2 * s for s in x._strides), sum(x._strides))
    if layout == "expanded":
        base = random((1, *shape[1:]), dtype, rng)
        x = made(base)
        return np.broadcast_to(base, shape), core.view(x, shape, (0, *x._strides[1:]), 0)
    base = random(shape, dtype, rng)
    x = made(base)
    if layout == "reversed" and shape[-1]:
        return base[..., ::-1], core.view(x, shape, (*x._strides[:-1], -1), shape[-1] - 1)
    return base, x


def same(x, want, **tolerance):
    got = copy.download(copy.cast(x, DTYPES["float32"]) if x.dtype is BFLOAT16 else x)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, **({"rtol": 0, "atol": 0} | tolerance), equal_nan=True)


# ---------------------------------------------------------------- elementwise: layouts

EXACT = {
    "neg": np.negative, "abs": np.abs, "floor": np.floor, "trunc": np.trunc, "round": np.round, "isnan": np.isnan,
    "logical_not": np.logical_not, "isfinite": np.isfinite, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "maximum": np.maximum, "minimum": np.minimum, "lt": np.less, "ge": np.greater_equal, "eq": np.equal,
    "logical_xor": np.logical_xor, "bitwise_and": np.bitwise_and,
}


@pytest.mark.parametrize("name", EXACT)
def test_layouts_and_dtypes(name):
    kernel, rng = KERNELS[name], np.random.default_rng(0)
    for dtype in kernel.dtypes():
        for shape, layouts in itertools.product(SHAPES, itertools.product(LAYOUTS, repeat=kernel.arity)):
            pairs = [laid_out(shape, dtype.name, layout, rng) for layout in layouts]
            with np.errstate(all="ignore"):
                want = EXACT[name](*[array for array, _ in pairs])
            if want.dtype != bool:               # NumPy rounds integers to floats
                want = copy.download(copy.cast(rounded(want), DTYPES["float32"])) if dtype is BFLOAT16 else want.astype(dtype.name)
            inputs = [x for _, x in pairs]
            same(kernel(*inputs), want)
            base = copy.full(shape[::-1], 0, BFLOAT16 if dtype is BFLOAT16 and want.dtype != bool else DTYPES[want.dtype.name])
            out = core.view(base, shape, base._strides[::-1], 0)
            kernel.into(out, *inputs)
            same(out, want)


@pytest.mark.parametrize("name", ["exp", "tanh", "gelu", "sin", "log", "erf", "pow", "silu_grad"])
def test_value_does_not_depend_on_the_layout(name):
    # The vector part of a loop and its rest, and rows of any length, must round alike.
    rng = np.random.default_rng(1)
    kernel = KERNELS[name]
    arrays = [random((37, 41), "float32", rng) for _ in range(kernel.arity)]
    whole = copy.download(kernel(*[upload(a) for a in arrays]))
    parts = [copy.download(kernel(*[upload(a[i : i + 1, :n]) for a in arrays])) for i in range(37) for n in (1, 5, 41)]
    for i, n in itertools.product(range(37), (1, 5, 41)):
        part = parts.pop(0)
        assert np.array_equal(part[0], whole[i, :n], equal_nan=True)


@pytest.mark.parametrize("a_shape, b_shape", [
    ((64, 10), (10,)), ((2, 3, 8, 8), (3, 1, 1)), ((5, 1), (1, 7)), ((1,), (4, 3)), ((), (3,)), ((3, 0), (1, 1)),
    ((4, 1, 6, 1), (1, 5, 1, 70)),
])
def test_broadcasting(a_shape, b_shape):
    rng = np.random.default_rng(2)
    a, b, c = rng.random(a_shape, "f4"), rng.random(b_shape, "f4"), rng.random(b_shape, "f4")
    same(KERNELS["sub"](upload(a), upload(b)), a - b)
    same(KERNELS["sub"](upload(b), upload(a)), b - a)
    same(KERNELS["where"](upload(a > 0.5), upload(b), upload(c)), np.where(a > 0.5, b, c))
    same(KERNELS["mulacc"](upload(a), upload(b), upload(c)), a * b + c)
    same(KERNELS["where"](upload(a > 0.5), upload(b), -1.0), np.where(a > 0.5, b, np.float32(-1)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_number_operands(dtype):
    x = random((7, 9), dtype, np.random.default_rng(3))
    number = True if dtype == "bool" else 3
    with np.errstate(all="ignore"):
        same(KERNELS["lt"](upload(x), number), x < number)
        same(KERNELS["gt"](number, upload(x)), number > x)
        same(KERNELS["add"](upload(x), number), x + np.array(number, dtype))
        same(KERNELS["maximum"](number, upload(x)), np.maximum(np.array(number, dtype), x))


def test_large_tensors_on_several_threads():
    rng = np.random.default_rng(4)
    x = rng.random((700, 1100), "f4")
    t = upload(x)
    turned = core.view(t, (1100, 700), (1, 1100), 0)
    same(KERNELS["add"](turned, upload(np.ascontiguousarray(x.T))), x.T + x.T)
    same(KERNELS["mul"](t, upload(x[0])), x * x[0])
    same(copy.contiguous(turned), np.ascontiguousarray(x.T))


# ---------------------------------------------------------------- elementwise: values

SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 88.7, 88.8, -87.4, -103,
                    -105, 128, -149, 2e6, -1e30, 0.5, 1e-5], "f4")


@pytest.mark.parametrize("name, function", [
    ("exp", np.exp), ("exp2", np.exp2), ("expm1", np.expm1), ("log", np.log), ("log2", np.log2), ("log1p", np.log1p),
    ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh), ("sqrt", np.sqrt), ("reciprocal", np.reciprocal),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("relu", lambda x: np.where(x <= 0, 0, x)),
    ("sign", lambda x: np.where(np.isnan(x), 0, np.sign(x))),
])
def test_special_values_and_accuracy(name, function):
    rng = np.random.default_rng(5)
    anything = rng.integers(0, 2**32, 20000, "u4").view("f4")
    x = np.concatenate([SPECIAL, anything, rng.standard_normal(20000).astype("f4") * 5])
    with np.errstate(all="ignore"):
        want = function(x.astype("f8")).astype("f4")
    got = copy.download(KERNELS[name](upload(x)))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    np.testing.assert_array_max_ulp(np.nan_to_num(got), np.nan_to_num(want), maxulp=4)


def test_accuracy_of_tables():
    """erf and gelu, which are polynomials by interval: in units in the last place, but for the far tail of gelu."""
    x = np.concatenate([np.linspace(-4.1, 4.1, 100001), np.logspace(-30, 0, 10001)]).astype("f4")
    below = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()])
    for name, want in ("erf", np.array([math.erf(v) for v in x.tolist()])), ("gelu", x * below):
        got = copy.download(KERNELS[name](upload(x)))
        assert (abs(got - want) / np.spacing(abs(want).astype("f4"))).max() < (2.5 if variant == "avx512" else 12), name
    ends = np.float32([-np.inf, np.inf, np.nan, -0.0, 4, -4, 30])
    same(KERNELS["erf"](upload(ends)), np.float32([-1, 1, np.nan, -0.0, 1, -1, 1]))


def test_accuracy_of_gamma_functions():
    """lgamma and digamma to half a unit in the last place nearly, about their roots and poles too; beside float64."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-20, 20, 20000), rng.uniform(0.99, 1.01, 9999), rng.uniform(1.99, 2.01, 9999), [1, 2, 8, 0.5],
                        1 + rng.uniform(-1, 1, 999) * 1e-5, np.exp(rng.uniform(-80, 80, 9999)), -np.exp(rng.uniform(-60, 10, 9999)),
                        rng.uniform(1.45, 1.47, 9999)]).astype("f4")
    for name in ("lgamma", "digamma"):
        want, got = copy.download(KERNELS[name](upload(x.astype("f8")))), copy.download(KERNELS[name](upload(x)))
        finite = abs(want) < 3e38
        assert (np.isfinite(got) == finite).all()
        want, got = want[finite], got[finite]
        errors = abs(got - want) / np.spacing(abs(want).astype("f4"))
        # lgamma without vectors is the C library's, whose own bound is 7
        assert errors.max() < (0.51 if variant == "avx512" or name == "digamma" else 8), name
    ends = np.float32([0, -0.0, 1, np.inf, -np.inf, np.nan, -3, -1e20])
    same(KERNELS["lgamma"](upload(ends)), np.float32([np.inf, np.inf, 0, np.inf, np.inf, np.nan, np.inf, np.inf]))
    same(KERNELS["digamma"](upload(ends[[0, 1, 3, 4, 5, 6, 7]])), np.float32([-np.inf, np.inf, np.inf, np.nan, np.nan, np.nan, np.nan]))


def test_pow_of_special_values():
    values = np.append(SPECIAL, np.float32([2, 3, -2, -3]))
    x, y = (grid.ravel() for grid in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = np.power(x.astype("f8"), y.astype("f8")).astype("f4")
    got = copy.download(KERNELS["pow"](upload(x), upload(y)))
    assert np.array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_max_ulp(np.nan_to_num(got), np.nan_to_num(want), maxulp=1)
    same(KERNELS["pow"](upload(np.int64([-3, 2, 0])), upload(np.int64([3, 62, 0]))), np.int64([-27, 2**62, 1]))


def test_signs_of_division():
    a, b = np.int32([7, -7, 7, -7, 6, -(2**31)]), np.int32([3, 3, -3, -3, 3, -1])
    same(KERNELS["fmod"](upload(a), upload(b)), np.int32([1, -1, 1, -1, 0, 0]))
    same(KERNELS["remainder"](upload(a), upload(b)), np.int32([1, 2, -2, -1, 0, 0]))
    same(KERNELS["floor_divide"](upload(a), upload(b)), np.int32([2, -3, -3, 2, 2, -(2**31)]))
    x, y = np.float32([7.5, -7.5, 1, -1, 0]), np.float32([2, 2, 0, np.inf, -3])
    with np.errstate(all="ignore"):
        same(KERNELS["remainder"](upload(x), upload(y)), np.remainder(x, y))
        same(KERNELS["floor_divide"](upload(x), upload(y)), np.floor_divide(x, y))


def test_float_remainders_are_exact():
    """In vectors while the quotient is below 2**28, one after another beyond: bit for bit what the C library gives."""
    rng = np.random.default_rng(0)
    b = np.ldexp(rng.integers(1, 1 << 24, 20_000), rng.integers(-140, 60, 20_000)).astype(np.float32)
    a = (b.astype(np.float64) * rng.integers(0, (1 << 28) - 1, b.size)).astype(np.float32)
    a = np.where(rng.random(b.size) < 0.5, np.nextafter(a, np.float32(0)), a) * rng.choice(np.float32([-1, 1]), b.size)
    special = np.float32([0, -0.0, 1, -1, 3, -6, 1e-45, 3e38, -3e38, 2.0 ** 28, np.inf, -np.inf, np.nan])
    pairs = [(a, b), (a, -b), *((x.ravel(), y.ravel()) for x, y in [np.meshgrid(special, special)]),
             tuple(rng.integers(0, 1 << 32, (2, 20_000), dtype=np.uint32).view(np.float32))]
    for x, y in pairs:
        with np.errstate(all="ignore"):
            m = np.fmod(x, y)
            wanted = {"fmod": m, "remainder": np.where((m != 0) & ((y < 0) != (m < 0)), m + y, m)}
        for name, expected in wanted.items():
            found = copy.download(KERNELS[name](upload(x), upload(y)))
            nan = np.isnan(expected)
            assert (np.isnan(found) == nan).all(), name
            assert (found.view(np.int32) == expected.view(np.int32))[~nan].all(), name


@pytest.mark.parametrize("name", ["remainder", "floor_divide", "fmod"])
def test_integer_division_by_zero(name):
    for dtype in ("i4", "i8", "u1"):
        x = upload(np.array([7, 9, 0], dtype))
        for divisor in (0, upload(np.zeros(3, dtype)), upload(np.array([1, 2, 0], dtype))):
            with pytest.raises(ArgumentError, match=f"{name}: integer division by zero"):
                KERNELS[name](x, divisor)
        assert KERNELS[name](upload(np.zeros(0, dtype)), 1).shape == (0,)


# ---------------------------------------------------------------- elementwise: overlap and errors

def test_overlap():
    for step in (1, 2, -1):
        want = np.arange(100.0)
        x = upload(want)
        count = 40
        start = 60 if step < 0 else 0
        source, target = want[start::step][:count].copy(), core.view(x, (count,), (step,), start + step)
        KERNELS["add"].into(target, core.view(x, (count,), (step,), start), 1.0)
        same(target, source + 1)
    x, want = upload(np.arange(9.0).reshape(3, 3)), np.arange(9.0).reshape(3, 3)
    KERNELS["add"].into(x, x, core.view(x, (3, 3), (1, 3), 0))
    same(x, want + want.T)
    x = upload(np.arange(100.0))
    copy.copy_into(core.view(x, (99,), (1,), 1), core.view(x, (99,), (1,), 0))
    same(x, np.concatenate([[0.0], np.arange(99.0)]))


@pytest.mark.parametrize("call, error, text", [
    (lambda f, d, i: KERNELS["add"](f, upload(np.zeros((2, 4), "f4"))), ShapeError, r"add: shapes \(2, 3\) and \(2, 4"),
    (lambda f, d, i: KERNELS["add"](f, d), DTypeError, "add: operands are volta.float32 and volta.float64"),
    (lambda f, d, i: KERNELS["div"](i, i), DTypeError, "div: does not take volta.int32; it takes volta.float16"),
    (lambda f, d, i: KERNELS["clamp_min"](i, 2**40), ArgumentError, "clamp_min: 1099511627776 does not fit into volta.int32"),
    (lambda f, d, i: KERNELS["where"](i, f, f), DTypeError, "where: the condition must be a volta.bool tensor"),
    (lambda f, d, i: KERNELS["add"].into(d, f, f), DTypeError, "add: the result is volta.float32"),
    (lambda f, d, i: KERNELS["add"].into(upload(np.zeros(3, "f4")), f, f), ShapeError, "add: the result has shape"),
])
def test_refusals(call, error, text):
    tensors = [upload(np.zeros((2, 3), dtype)) for dtype in ("f4", "f8", "i4")]
    with pytest.raises(error, match=text):
        call(*tensors)


# ---------------------------------------------------------------- copies

@pytest.mark.parametrize("source, target", list(itertools.product(DTYPES, repeat=2)))
def test_cast(source, target):
    rng = np.random.default_rng(6)
    for layout in LAYOUTS:
        array, x = laid_out((13, 90), source, layout, rng)
        if source.startswith("float") and not target.startswith("float") and target != "bool":
            continue                             # NaN and infinity to integers: undefined in C
        with np.errstate(all="ignore"):
            # float64 goes to float16 through float32, as in PyTorch.
            want = array.astype("f4").astype(target) if target == "float16" else array.astype(target)
        same(copy.cast(x, DTYPES[target]), want)
        base = copy.full((90, 13), 0, DTYPES[target])
        out = core.view(base, (13, 90), (1, 13), 0)
        copy.copy_into(out, x)
        same(out, want)
    whole = random((50,), "int32", rng)          # conversions of finite numbers
    same(copy.cast(upload(whole.astype("f8")), DTYPES["int32"]), whole)


def test_permuted_copies():
    rng = np.random.default_rng(7)
    for _ in range(100):
        rank = rng.integers(1, 6)
        shape = tuple(int(n) for n in rng.integers(1, 20, rank))
        array = (np.arange(np.prod(shape)) % 2000).reshape(shape).astype(rng.choice(list(DTYPES)))
        order = rng.permutation(rank)
        x = upload(array)
        view = core.view(x, tuple(shape[i] for i in order), tuple(x._strides[i] for i in order), 0)
        same(copy.contiguous(view), np.ascontiguousarray(array.transpose(order)))


def test_creation_and_movement():
    want = np.full((7, 9), -1.5, "f4")
    want[1:7:3, 2:8:2] = np.arange(6).reshape(2, 3)
    same(copy.place(upload(np.arange(6, dtype="f4").reshape(2, 3)), (7, 9), (1, 2), (3, 2), -1.5), want)
    parts = [np.ones((2, n, 3), "i8") * n for n in (1, 0, 4)]
    same(join.cat(*map(upload, parts), dim=1), np.concatenate(parts, 1))
    same(copy.arange(0.5, 0.25, 5, DTYPES["float16"]), np.arange(0.5, 1.75, 0.25).astype("f2"))
    same(copy.arange(5, -2, 4, DTYPES["int32"]), np.int32([5, 3, 1, -1]))
    zeros = copy.download(copy.full((2,), -0.0, DTYPES["float32"]))
    assert np.signbit(zeros).all()
    same(copy.full((), True, DTYPES["bool"]), np.array(True))
    same(copy.upload(np.uint8([0, 2, 255]).view(bool), DTYPES["bool"]), np.array([False, True, True]))


# ---------------------------------------------------------------- reductions

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions(dtype, layout):
    rng = np.random.default_rng(8)
    real = dtype.startswith("float")
    tolerance = {"float16": 2e-3, "float32": 3e-6, "float64": 1e-12}.get(dtype, 0)
    for shape in ((5,), (2000,), (7, 33), (4, 3, 5, 6), (2, 0, 3), (1500, 3), (3, 1500), (2, 1300, 2)):
        array, x = laid_out(shape, dtype, layout, rng)
        wide = array.astype("f8") if real else array
        for count in range(1, len(shape) + 1):
            for dims, keep in itertools.product(itertools.combinations(range(len(shape)), count), (False, True)):
                options = {"axis": dims, "keepdims": keep}
                with np.errstate(all="ignore"):
                    want = np.asarray(wide.sum(dtype=None if real else "i8", **options), dtype if real else "i8")
                same(reduce.sum(x, dims, keep), want, rtol=tolerance, atol=30 * tolerance)
                same(reduce.any(x, dims, keep), np.asarray((array != 0).any(**options)))
                same(reduce.all(x, dims, keep), np.asarray((array != 0).all(**options)))
                if array.size:
                    same(reduce.amax(x, dims, keep), np.asarray(array.max(**options)))
                    same(reduce.amin(x, dims, keep), np.asarray(array.min(**options)))
        for dim in range(len(shape)) if array.size else ():
            same(reduce.argmax(x, dim, False), np.asarray(array.argmax(dim)))
            same(reduce.argmin(x, dim, True), np.expand_dims(array.argmin(dim), dim))


def test_mean_and_prod():
    x = np.random.default_rng(9).random((40, 50)) + 0.5
    same(reduce.mean(upload(x), (0,), False), x.mean(0), rtol=1e-12)
    same(reduce.prod(upload(x), (1,), True), x.prod(1, keepdims=True), rtol=1e-12)
    same(reduce.prod(upload(np.int32([[2, 3], [-4, 5]])), (0, 1), False), np.array(-120))
    assert np.isnan(copy.download(reduce.mean(upload(np.zeros((0, 2))), (0,), False))).all()
    with pytest.raises(DTypeError, match="mean: does not take volta.int64"):
        reduce.mean(upload(np.zeros(3, "i8")), (0,), False)


def test_float32_sums_are_accurate():
    x = np.random.default_rng(10).random(3_000_001).astype("f4")
    exact = x.sum(dtype="f8")
    assert abs(float(copy.download(reduce.sum(upload(x), (0,), False))) - exact) <= 2e-7 * exact


# ---------------------------------------------------------------- threads and variants

def sample_results():
    """Results of many kernels on inputs large enough for threads."""
    rng = np.random.default_rng(11)
    x, y = (upload(random((301, 1003), "float32", rng)) for _ in range(2))
    finite = upload(rng.standard_normal((301, 1003)).astype("f4"))
    results = {}
    for name, kernel in KERNELS.items():
        if DTYPES["float32"] in kernel.dtypes() and name != "where":
            results[name] = kernel(*(x, y, finite, finite)[: kernel.arity])
    for name in ("sum", "mean", "prod", "amax"):
        for dims in ((0,), (1,), (0, 1)):
            results[f"{name}{dims}"] = getattr(reduce, name)(finite, dims, False)
    results["copy"] = copy.contiguous(core.view(x, (1003, 301), (1, 1003), 0))
    results["half"] = KERNELS["exp"](copy.cast(finite, DTYPES["float16"]))
    return {name: copy.download(result) for name, result in results.items()}


def test_results_do_not_depend_on_the_number_of_threads():
    before = threads.get_num_threads()
    try:
        threads.set_num_threads(1)
        one = sample_results()
        for count in (2, 3, 7):
            threads.set_num_threads(count)
            for name, result in sample_results().items():
                assert result.tobytes() == one[name].tobytes(), name
    finally:
        threads.set_num_threads(before)


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "2"])
def test_set_num_threads_refuses(count):
    with pytest.raises(ArgumentError, match="set_num_threads: needs an integer from 1 to 4096"):
        threads.set_num_threads(count)


@pytest.mark.parametrize("files, usable, cores", [
    ({}, 4, 4),
    ({"smt/active": "1", "cpu0/topology/thread_siblings_list": "0-1", "cpu1/topology/thread_siblings_list": "0-1"}, 4, 3),
    ({"smt/active": "0", "cpu0/topology/thread_siblings_list": "0-1", "cpu1/topology/thread_siblings_list": "0-1"}, 4, 4),
    ({"cpu.max": "150000 100000"}, 2, 2),
    ({"cpu.max": "max 100000", "/proc/self/cgroup": "1:cpu:/\n0::/box", "box/cpu.max": "20000 100000"}, 1, 1),
    ({"cpu.max": "nonsense"}, 4, 4),
])
def test_threads_follow_cores_and_quotas(monkeypatch, files, usable, cores):
    folders = (f"{processors.SYSTEM}/", f"{processors.GROUPS}/")
    monkeypatch.setattr(processors, "_allowed", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(processors, "_text", lambda path: next((files[name] for name in (path, *(
        path.removeprefix(folder) for folder in folders)) if name in files), ""))
    assert (processors.usable(), processors.cores()) == (usable, cores)


@pytest.mark.parametrize("files, known, usable, cores", [
    ({}, 8, 8, 8),
    ({"smt/active": "1", "cpu3/topology/thread_siblings_list": "2-3"}, 8, 8, 4),
    ({"smt/active": "1", "cpu3/topology/thread_siblings_list": "3,19,35,51"}, 6, 6, 2),
    ({"smt/active": "1"}, 8, 8, 8),
    ({"smt/active": "1", "cpu3/topology/thread_siblings_list": "2-3"}, 1, 1, 1),
    ({"cpu.max": "300000 100000"}, 8, 3, 3),
])
def test_a_bound_thread_counts_the_processors_of_all(monkeypatch, files, known, usable, cores):
    folders = (f"{processors.SYSTEM}/", f"{processors.GROUPS}/")
    monkeypatch.setattr(processors, "_allowed", lambda: {3})
    monkeypatch.setattr(processors, "_text", lambda path: next((files[name] for name in (path, *(
        path.removeprefix(folder) for folder in folders)) if name in files), ""))
    assert (processors.usable(known), processors.cores(known)) == (usable, cores)


def test_binding_threads_leaves_their_number():
    """OpenMP binds the thread that loads it to one processor, and volta.set_num_threads comes later."""
    code = ("import volta\nfrom volta._kernels.core import threads\nvolta.zeros(3) + 1\nvolta.set_num_threads(2)\n"
            "print(threads.usable_processors())")
    run = subprocess.run([sys.executable, "-c", code], env=os.environ | {"OMP_PROC_BIND": "true"}, capture_output=True, text=True)
    assert int(run.stdout) == processors.usable(), run.stderr


@pytest.mark.parametrize("variant", ["baseline", "avx2"])
def test_variants_agree(variant, tmp_path):
    code = (f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\nimport numpy, test_cpu_kernels as t\n"
            f"from volta._kernels import cpu\nassert cpu.variant == {variant!r}\n"
            f"numpy.savez({str(tmp_path / 'results.npz')!r}, **t.sample_results())")
    run = subprocess.run([sys.executable, "-c", code], env=os.environ | {"VOLTA_CPU": variant}, capture_output=True,
                         text=True)
    if "this CPU and build have" in run.stderr:
        pytest.skip(f"this machine or build has no {variant}")
    assert run.returncode == 0, run.stderr
    with np.load(tmp_path / "results.npz") as other:
        for name, result in sample_results().items():
            if name in ("poisson", "binomial"):         # whether a number is taken turns on the last bit; of seeds that are none here
                continue
            np.testing.assert_allclose(other[name], result, rtol=3e-6, atol=1e-6, equal_nan=True, err_msg=name)


def test_an_unknown_variant_is_refused():
    run = subprocess.run([sys.executable, "-c", "import volta._kernels.cpu"], env=os.environ | {"VOLTA_CPU": "avx9"},
                         capture_output=True, text=True)
    assert "VOLTA_CPU=avx9: this CPU and build have " in run.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_computes_on():
    """OpenMP's threads do not come along: the child must not wait for them."""
    script = """if True:
        import os, volta
        volta.set_num_threads(2)
        x = volta.ones(1000, 1000)
        (x @ x).exp().sum().item()
        child = os.fork()
        if not child:
            (x @ x).exp().sum().item()
            os._exit(volta.get_num_threads())
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == "1", run.stderr
