"""Launching shaders: specialisation, parameters, grids, windows, order; the prelude."""
import math
import re
import struct

import numpy as np
import pytest
from gpu_runtime import down, scale, up

import volta.gpu
from volta.errors import DeviceError
from volta.gpu import shaders


def test_launch_and_overrides(ctx):
    a = np.arange(1000, dtype=np.float32)
    x, y = up(ctx, a), ctx.alloc(a.nbytes)
    scale(ctx, x, y, 1000, 2.0)
    np.testing.assert_array_equal(down(ctx, y), 2 * a)
    scale(ctx, x, y, 1000, 2.0, SHIFT=1, op="x * x")
    np.testing.assert_array_equal(down(ctx, y), 2 * a * a + 1)
    scale(ctx, x, y, 1000, 2.0, op="let z = x + 1.0; return z;")
    np.testing.assert_array_equal(down(ctx, y), 2 * (a + 1))
    scale(ctx, x, y, 1000, 2.0, op="fn op(x: T) -> T { return -x; }")
    np.testing.assert_array_equal(down(ctx, y), -2 * a)
    i = up(ctx, np.arange(1000, dtype=np.int32))
    scale(ctx, i, y, 1000, 3.0, T="i32")
    np.testing.assert_array_equal(down(ctx, y, np.int32), 3 * np.arange(1000))
    assert ctx.pipeline("scale", T="i32") is ctx.pipeline("scale", T="i32")


def test_float16(ctx):
    if not ctx.has_f16:
        with pytest.raises(DeviceError, match="float16"):
            ctx.pipeline("scale", T="f16")
        return
    a = np.arange(101, dtype=np.float16)
    x, y = up(ctx, a), ctx.alloc(a.nbytes)
    scale(ctx, x, y, 101, 2.0, T="f16")
    np.testing.assert_array_equal(down(ctx, y, np.float16), 2 * a)


def test_params_layout(ctx):
    pipeline = ctx.pipeline("mixed")
    assert (pipeline.params_size, pipeline.params_format) == (64, "<I12x4if12x4f")
    x, y = up(ctx, np.zeros(4, np.float32)), ctx.alloc(16)
    ctx.launch(pipeline, (x, y), struct.pack(pipeline.params_format, 4, 1, 0, 0, 20, 300.0, 0, 0, 4000.0, 0), 1)
    np.testing.assert_array_equal(down(ctx, y), [4321.0] * 4)


def test_grid_folding(ctx):
    n = 70_001
    x, y = up(ctx, np.array([7], np.uint32)), ctx.alloc(4 * n)
    ctx.clear(y)
    ctx.launch(ctx.pipeline("groups"), (x, y), struct.pack("<II", n, 0), n)
    np.testing.assert_array_equal(down(ctx, y, np.uint32), np.arange(n) + 7)
    top = ctx.limits["max-compute-workgroups-per-dimension"]
    for grid in ((top + 1, 2, 1), (1, top + 1, 1), (1, 1, top + 1), (top * top + 1, 1, 1)):
        with pytest.raises(DeviceError, match="too large"):
            ctx.launch(ctx.pipeline("groups"), (x, y), struct.pack("<II", n, 0), *grid)


def test_windows(ctx):
    a = np.arange(512, dtype=np.float32)
    x, y = up(ctx, a), ctx.alloc(a.nbytes)
    ctx.clear(y)
    ctx.launch(ctx.pipeline("scale"), ((x, 1024, 256), (y, 512, 256)), struct.pack("<If", 64, 1.0), 1)
    expected = np.zeros(512, np.float32)
    expected[128:192] = a[256:320]
    np.testing.assert_array_equal(down(ctx, y), expected)


def test_order_of_upload_launch_copy_download(ctx):
    n = 1 << 18
    x, y, z = ctx.alloc(4 * n), ctx.alloc(4 * n), ctx.alloc(4 * n)
    for size in (n, 300):            # a staged and a written upload
        for k in range(5):
            ctx.upload(x, np.full(size, k, np.float32))
            scale(ctx, x, y, size, 10.0)
            ctx.copy(y, 0, z, 0, 4 * size)
            ctx.upload(x, np.full(size, -1, np.float32))       # after the launch that reads it
            scale(ctx, x, y, size, 1.0)
            np.testing.assert_array_equal(down(ctx, z)[:size], np.full(size, 10.0 * k, np.float32))
            np.testing.assert_array_equal(down(ctx, y)[:size], np.full(size, -1.0, np.float32))


def test_copy_inside_one_buffer_and_clear(ctx):
    a = np.arange(64, dtype=np.float32)
    x = up(ctx, a)
    ctx.copy(x, 0, x, 4, 4 * 32)
    a[1:33] = np.arange(32)
    np.testing.assert_array_equal(down(ctx, x), a)
    ctx.clear(x, 8, 16)
    a[2:6] = 0
    np.testing.assert_array_equal(down(ctx, x), a)


def test_more_operations_than_a_batch(ctx):
    x = up(ctx, np.zeros(10, np.float32))
    volta.gpu.synchronize()
    before = volta.gpu.stats()
    for _ in range(1000):
        ctx.launch(ctx.pipeline("in_place"), (x,), struct.pack("<If", 10, 1.0), 1)
    assert (volta.gpu.stats() - before).submits == 6        # of 4, 16, 64, 256, 256 and 256
    np.testing.assert_array_equal(down(ctx, x), np.full(10, 1000.0, np.float32))
    ctx.launch(ctx.pipeline("in_place"), (x,), struct.pack("<If", 10, 1.0), 0)      # an empty grid records nothing
    assert (volta.gpu.stats() - before).dispatches == 1000


def test_shader_errors(ctx):
    with pytest.raises(DeviceError, match=r"broken.wgsl line \d+: .*nonsense"):
        ctx.pipeline("broken")
    with pytest.raises(DeviceError, match="scale.wgsl has no single-line alias, const or fn named OTHER"):
        ctx.pipeline("scale", OTHER=3)
    with pytest.raises(DeviceError, match="no literal for inf"):
        ctx.pipeline("scale", SHIFT=float("inf"))
    with pytest.raises(DeviceError, match="scale.wgsl has no binding 7 to leave out"):
        ctx.pipeline("scale", absent=(7,))
    with pytest.raises(DeviceError, match="no shader missing.wgsl"):
        ctx.pipeline("missing")
    with pytest.raises(DeviceError, match=r"scale.wgsl line 3"):
        ctx.pipeline("scale", op="x + wrong")
    assert ctx.pipeline("scale")


def test_bindings_left_out(ctx):
    text = """const OTHERS: bool = true;
@group(0) @binding(0) var<storage, read> a: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(3) var<storage, read_write> d: array<f32>;
@compute @workgroup_size(1)
fn main() {
    if (OTHERS) { c[0] = a[0].y; }
    d[0] = b[0] + 1.0;
}
"""
    a, b, c, d = (up(ctx, np.float32([n, 2 * n])) for n in (1, 2, 3, 4))
    whole = ctx.pipeline("left_out", text=text)
    ctx.launch(whole, (a, b, c, d), b"", 1)
    assert down(ctx, c)[0] == 2 and down(ctx, d)[0] == 3
    few = ctx.pipeline("left_out", text=text, absent=(0, 2), OTHERS=False)
    assert whole.access == ("read", "read", "read_write", "read_write") and few.access == ("read", "read_write")
    ctx.launch(few, (a, d), b"", 1)
    assert down(ctx, d)[0] == 2


def test_every_shader_compiles(ctx):
    for name in shaders.files():
        for entry in shaders.entries(name):
            ctx.pipeline(name, entry=entry)


# ---- the prelude


def test_a_shader_gets_what_it_uses_of_the_prelude():
    code = shaders.source("softmax/softmax", {}, text="@compute @workgroup_size(1) fn main() { var x = tanh_accurate(1.0); }")
    assert {d.name for d in code.prelude} == {"tanh_accurate", "exp_tail", "is_nan", "LN2_HIGH", "LN2_LOW", "LOG2_E"}
    lines = code.text.split("\n")
    for number, line in enumerate(lines, 1):       # an error is told with the file and line that it really lies in
        head = shaders.locate(code, f"wgsl:{number}:1").split("\n")[0]
        file, at = re.search(r"(\w+/\w+)\.wgsl line (\d+):", head).groups()
        if file.startswith("prelude/"):
            assert shaders.read(file).split("\n")[int(at) - 1].split("//")[0].rstrip() == line
        else:
            assert (file, at, number) == ("softmax/softmax", "1", len(lines))
    assert shaders.source("softmax/softmax", {}, text="@compute @workgroup_size(1) fn main() { }").prelude == ()


def test_philox_known_answers(ctx):
    # Random123's known-answer vectors have all-zero and all-one counters; ours end in two zero words.
    def reference(key, counter):
        key, counter = list(key), list(counter)
        for _ in range(10):
            p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
            counter = [(q >> 32) ^ counter[1] ^ key[0], q & 0xFFFFFFFF, (p >> 32) ^ counter[3] ^ key[1], p & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        return counter

    assert reference((0, 0), (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    rows = np.random.default_rng(0).integers(0, 1 << 32, (64, 4), dtype=np.uint32)
    rows[0] = 0
    x, y = up(ctx, rows), ctx.alloc(rows.nbytes)
    ctx.launch(ctx.pipeline("words"), (x, y), struct.pack("<If", 64, 0), 1)
    expected = [reference(map(int, r[:2]), (int(r[2]), int(r[3]), 0, 0)) for r in rows]
    np.testing.assert_array_equal(down(ctx, y, np.uint32).reshape(64, 4), expected)


def apply(ctx, op, values):
    values = np.asarray(values, np.float32)
    x, y = up(ctx, values), ctx.alloc(values.nbytes)
    scale(ctx, x, y, values.size, 1.0, op=f"{op}(x)")
    return down(ctx, y)


POSITIVE = np.exp(np.random.default_rng(2).uniform(-87, 88, 4000))
AROUND = np.random.default_rng(3).uniform(-1, 1, 4000) * np.exp(np.random.default_rng(4).uniform(-15, 4.4, 4000))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1.2e-38, 3e38, -3e38])


ERF, ERFC = np.vectorize(math.erf, otypes=[float]), np.vectorize(math.erfc, otypes=[float])


@pytest.mark.parametrize("op, reference, values", [
    ("exp_accurate", np.exp, AROUND), ("exp2_accurate", np.exp2, AROUND), ("expm1_accurate", np.expm1, AROUND),
    ("log_accurate", np.log, POSITIVE), ("log2_accurate", np.log2, POSITIVE), ("log1p_accurate", np.log1p, np.abs(AROUND)),
    ("tanh_accurate", np.tanh, AROUND), ("sqrt_nan", np.sqrt, POSITIVE), ("sin_accurate", np.sin, AROUND),
    ("cos_accurate", np.cos, AROUND), ("erf_accurate", ERF, AROUND),
    ("x * normal_cdf", lambda x: 0.5 * x * ERFC(-x * np.sqrt(0.5)), np.linspace(-4, 6, 4000)),
    ("sigmoid_accurate", lambda x: np.exp(-np.logaddexp(0, -x)), AROUND),
])
def test_accuracy(ctx, op, reference, values):
    values = np.concatenate([values, SPECIAL]).astype(np.float32)
    with np.errstate(all="ignore"):
        expected = reference(values.astype(np.float64)).astype(np.float32)
    # 2e-6 relative; denormal results may be flushed.
    np.testing.assert_allclose(apply(ctx, op, values), expected, rtol=2e-6, atol=1.2e-38)


def test_nan_helpers(ctx):
    values = np.array([np.nan, np.inf, -np.inf, 0, 1, -1], np.float32)
    np.testing.assert_array_equal(apply(ctx, "relu_nan", values), [np.nan, np.inf, 0, 0, 1, 0])
    y = np.array([0, np.nan, 5], np.float32)
    for name, numpy_op in (("max_nan", np.maximum), ("min_nan", np.minimum)):
        for k in y:
            x, out = up(ctx, values), ctx.alloc(values.nbytes)
            scale(ctx, x, out, values.size, float(k), op=f"{name}(x, p.a)")
            got = down(ctx, out)
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(got, numpy_op(values, k) * k)
