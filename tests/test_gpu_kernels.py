"""GPU kernels of movement, creation, transfer, reduce and softmax against NumPy in float64; shaders, declared dtypes, the contract."""
from __future__ import annotations

import inspect
import itertools
import math
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from gpu_arrays import BOOL, CTX, DEVICE, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, SHAPES, UINT8, K, close, data, double, down, up, view_of

from volta._kernels import core
from volta._kernels.gpu import launch
from volta.devices.gpu import copy as gpu_copy
from volta.errors import ArgumentError, DTypeError
from volta.ops.table import RECORDS

pytestmark = pytest.mark.gpu


# ---------------------------------------------------------------- shaders

def test_every_shader_compiles_as_it_lies():
    from volta.gpu import shaders
    for file in ("copy/copy", "reduce/reduce", "softmax/softmax"):
        assert file in shaders.files()
        CTX.pipeline(file)


def test_every_declaration_of_the_prelude_is_used():
    from volta.gpu import shaders
    glue = Path(shaders.PACKAGE, "devices").rglob("*.py")
    texts = [*(d.text for d in shaders.prelude()), *map(shaders.read, shaders.files()), *(path.read_text() for path in glue)]
    words = Counter(re.findall(r"\w+", re.sub(r"//[^\n]*", "", "\n".join(texts))))
    names = [d.name for d in shaders.prelude()]
    assert len(names) == len(set(names)) > 50
    assert [n for n in names if words[n] < 2 and not n.startswith("order_")] == []      # reduce.py: f"order_{way}"


KINDS = {"f": {"float16", "float32", "float64"}, "i": {"uint8", "int32", "int64"}, "b": {"bool"}}
POINTWISE = {name: set().union(*map(KINDS.get, op.takes if isinstance(op.takes, str) else op.takes.get("input", "f")))
             for name, op in RECORDS.items()
             if op.family in ("unary", "grad", "binary", "comparison", "bitwise", "ternary", "gamma", "polynomial", "draw")}
# Those whose operands may be any positive numbers.
TAKES = {name: kinds for name, kinds in POINTWISE.items() if RECORDS[name].family not in ("gamma", "polynomial", "draw")}


def test_kernels_of_both_devices_take_what_is_declared():
    from volta._kernels.cpu import elementwise as cpu
    from volta.devices.gpu import elementwise as gpu
    own = {name: kinds | ({"bfloat16"} if "float16" in kinds else set()) for name, kinds in POINTWISE.items()}
    moved = {"where": own["where"] | {"int8", "int16"}}            # by their size
    assert {name: {d.name for d in kernel.dtypes()} for name, kernel in cpu.KERNELS.items()} == own | moved
    assert set(gpu.KERNELS) - set(POINTWISE) == {"batch_norm_given", "attention_slopes"}      # elementwise there alone
    assert {name: {d.name for d in gpu.KERNELS[name].dtypes()} for name in POINTWISE} == {
        name: kinds - {"float64"} for name, kinds in POINTWISE.items()}


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
    text = re.sub(r"^elementwise .*?^movement", "movement", contract.__doc__.split("stored.py).")[1], flags=re.S | re.M)
    told = {}
    for m in re.finditer(r"\b([a-z]\w+)\(((?:[^()]|\([^()]*\))+)\)", text):
        if m[1] in KERNELS:
            told[m[1]] = re.findall(r"(\*?\w+)(?:\[.*?\])?(?:: [^,(]+|: \(.*?\)|=\w+| or None)*(?:, |$)", m[2])
    for name, kernel in KERNELS.items():
        if isinstance(kernel, Pointwise):
            assert name in POINTWISE
        elif name not in UPDATES:
            if hasattr(kernel, "names"):
                taken = kernel.arity, [n for n in kernel.names if n != "windows"]
                assert told.get(name) in (None, []) or (len(told[name]) - len(taken[1]), told[name][taken[0]:]) == taken, (name, told[name])
            else:
                assert told[name] == [str(p).split("=")[0] for p in inspect.signature(kernel).parameters.values()], name


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
