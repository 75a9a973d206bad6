"""The GPU runtime: memory, recording, transfers, errors. Needs a GPU or VOLTA_ADAPTER=software; VOLTA_REQUIRE_GPU=1 forbids skipping."""
import gc
import math
import os
import re
import struct
import subprocess
import sys
import textwrap
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import volta.gpu
from volta.devices.gpu import copy
from volta.errors import ArgumentError, DeviceError, OutOfMemoryError, TransferError
from volta.gpu import shaders

ROOT = Path(__file__).resolve().parent.parent

HEAD = """
@group(0) @binding(0) var<storage, read> x: array<T>;
@group(0) @binding(1) var<storage, read_write> y: array<T>;
struct Params { count: u32, a: f32, }
var<immediate> p: Params;
"""
MAIN = """
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let i = group_index(group, groups) * 64u + local;
    if (i < p.count) { %s }
}
"""
SHADERS = {
    "scale": "alias T = f32;\nconst SHIFT: f32 = 0.0;\nfn op(x: T) -> T { return x; }" + HEAD
    + MAIN % "y[i] = op(x[i]) * T(p.a) + T(SHIFT);",
    "in_place": HEAD.replace("@group(0) @binding(0) var<storage, read> x: array<T>;\n", "alias T = f32;")
    .replace("binding(1)", "binding(0)")
    + MAIN % "y[i] = y[i] + p.a;",
    "groups": "alias T = u32;" + HEAD.replace("a: f32,", "a: u32,") + """
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = group_index(group, groups);
    if (i < p.count) { y[i] = y[i] + i + x[0]; }
}""",
    "words": "alias T = vec4<u32>;" + HEAD + MAIN % "y[i] = philox(x[i].xy, vec4<u32>(x[i].zw, 0u, 0u));",
    "broken": "alias T = f32;" + HEAD + MAIN % "y[i] = nonsense(x[i]);",
    "matrix": "alias T = mat4x4<f32>;" + HEAD + MAIN % "y[i] = x[i] * p.a;",
    "mixed": "alias T = f32;" + HEAD.replace("count: u32, a: f32,", "count: u32, s: vec4<i32>, a: f32, t: vec4<f32>,")
    + MAIN % "y[i] = f32(p.s.x + p.s.w) + p.a + p.t.z;",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shaders")
    for name, text in SHADERS.items():
        (path / f"{name}.wgsl").write_text(text)
    return path


@pytest.fixture
def ctx(folder, monkeypatch):
    if not volta.gpu.is_available():
        why = volta.gpu.unavailable_reason()
        if os.environ.get("VOLTA_REQUIRE_GPU") == "1":
            pytest.fail(f"VOLTA_REQUIRE_GPU=1 and no GPU: {why}")
        pytest.skip(why)
    monkeypatch.setattr(shaders, "FOLDERS", (*shaders.FOLDERS, folder))
    return volta.gpu.context()


def run_python(code, **env):
    """Run code in a fresh interpreter; gives its output. Fails on a hang or an abort."""
    full = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **env}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=full, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def up(ctx, array):
    buffer = ctx.alloc(array.nbytes)
    ctx.upload(buffer, array)
    return buffer


def down(ctx, buffer, dtype=np.float32):
    return ctx.download(buffer, np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype))


def scale(ctx, source, target, count, a, **overrides):
    ctx.launch(ctx.pipeline("scale", **overrides), (source, target), struct.pack("<If", count, a), -(-count // 64))


# ---- launching


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
    before = volta.gpu.stats()
    for _ in range(1000):
        ctx.launch(ctx.pipeline("in_place"), (x,), struct.pack("<If", 10, 1.0), 1)
    assert (volta.gpu.stats() - before).submits == 3
    np.testing.assert_array_equal(down(ctx, x), np.full(10, 1000.0, np.float32))
    ctx.launch(ctx.pipeline("in_place"), (x,), struct.pack("<If", 10, 1.0), 0)      # an empty grid records nothing
    assert (volta.gpu.stats() - before).dispatches == 1000


# ---- transfers


@pytest.mark.parametrize("nbytes", [1, 2, 3, 4, 100, 4099, 1 << 20, (1 << 20) + 2, (40 << 20) + 1, 64 << 20])
def test_round_trip(ctx, nbytes):
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, dtype=np.uint8)
    buffer = up(ctx, data)
    np.testing.assert_array_equal(down(ctx, buffer, np.uint8), data)
    part = ctx.download(buffer, np.empty((nbytes + 1) // 2, np.uint8), nbytes // 2)
    np.testing.assert_array_equal(part, data[nbytes // 2:])


def test_transfer_arguments(ctx):
    buffer = ctx.alloc(64)
    with pytest.raises(ArgumentError, match="upload: 68 bytes at byte 0 lie outside a buffer of 64 bytes"):
        ctx.upload(buffer, bytes(68))
    with pytest.raises(ArgumentError, match="download: 4 bytes at byte 64"):
        ctx.download(buffer, np.empty(1, np.float32), 64)
    with pytest.raises(ArgumentError, match="multiples of 4"):
        ctx.upload(buffer, bytes(3))
    with pytest.raises(ArgumentError, match="multiples of 4"):
        ctx.copy(buffer, 2, ctx.alloc(64), 0, 4)
    with pytest.raises(ArgumentError, match="outside"):
        ctx.upload(buffer, bytes(4), -4)
    with pytest.raises((ValueError, BufferError)):
        ctx.download(buffer, np.empty((4, 4), np.float32).T[::2])
    with pytest.raises((ValueError, BufferError)):
        ctx.download(buffer, b"0123")
    ctx.upload(buffer, b"")
    assert down(ctx, ctx.alloc(0)).size == 0


def test_forbid_transfers_and_stats(ctx):
    x, y = up(ctx, np.ones(100, np.float32)), ctx.alloc(400)
    before = volta.gpu.stats()
    with volta.gpu.forbid_transfers():
        scale(ctx, x, y, 100, 2.0)
        with pytest.raises(TransferError, match="download of 400 bytes"):
            down(ctx, y)
        with volta.gpu.forbid_transfers():
            pass
        with pytest.raises(TransferError, match="upload of 400 bytes"):
            ctx.upload(x, np.ones(100, np.float32))
    np.testing.assert_array_equal(down(ctx, y), np.full(100, 2, np.float32))
    ctx.upload(x, np.ones(7, np.float32))
    used = volta.gpu.stats() - before
    assert (used.uploads, used.upload_bytes, used.downloads, used.download_bytes) == (1, 28, 1, 400)
    assert (used.dispatches, used.submits) == (1, 1)
    assert "dispatches=1" in str(used)


def sample(dtype, shape):
    values = np.random.default_rng(len(shape)).integers(-100, 100, shape)
    return np.asarray(values > 0 if dtype == "bool" else values.astype(dtype))


LAYOUTS = {"whole": lambda x: x, "rows": lambda x: x[:, 1:], "every other": lambda x: x[::2, ::3], "transposed": lambda x: x.T,
           "backwards": lambda x: x[::-1, ::-1], "broadcast": lambda x: np.broadcast_to(x[:1], x.shape)}


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (7,), (30, 41), (800, 1601)])
def test_elements_arrive_and_come_back(gpu, dtype, shape):
    """Queue writes and staged uploads of arrays and tensors of every layout; integers tell their extremes."""
    device, whole = volta.device(gpu), sample(dtype, shape)
    if dtype == "float16" and not volta.gpu.context().has_f16:
        pytest.skip("this adapter has no float16")
    for name, layout in LAYOUTS.items():
        if name != "whole" and not (len(shape) == 2 and whole.size):
            continue
        array = layout(whole)
        for x in (copy.upload(array, getattr(volta, dtype), device), volta.from_numpy(np.array(whole))[..., 1:].to(gpu)
                  if name == "rows" else volta.from_numpy(array.copy(order="K")).to(gpu)):
            back = x.cpu().numpy()
            assert back.dtype == array.dtype and back.shape == array.shape
            np.testing.assert_array_equal(back, array)
            if dtype in ("int32", "int64") and array.size:
                assert x.storage.bounds == (array.min(), array.max())


@pytest.mark.parametrize("source, dtype", [("float64", "float32"), ("int64", "uint8"), ("float32", "bool"), ("int32", "int64"),
                                           (">i4", "int32"), ("uint8", "bool")])
def test_uploads_convert(gpu, source, dtype):
    for shape in ((5,), (600, 700)):
        array = np.random.default_rng(1).integers(0, 200, shape).astype(source)
        got = copy.upload(array, getattr(volta, dtype), volta.device(gpu)).cpu().numpy()
        np.testing.assert_array_equal(got, array.astype(dtype))


def test_int64_beyond_32_bits_records_nothing(gpu):
    device, ctx = volta.device(gpu), volta.gpu.context()
    for size in (4, 1 << 19, 9 << 20):            # a queue write, one piece of staging memory, several
        for value in (1 << 31, -(1 << 31) - 1, 1 << 40):
            array = np.zeros((size, 1), np.int64)
            array[-1] = value
            for source in (array, np.repeat(array, 2, 1)[:, :1] if size < 1 << 20 else array):
                before, recorded = volta.gpu.stats(), ctx.batch.count
                with pytest.raises(ArgumentError, match=f"int64 on the GPU holds 32 bits, got {value}; keep such values on the CPU"):
                    copy.upload(source, volta.int64, device)
                used = volta.gpu.stats() - before
                assert (ctx.batch.count, used.submits, used.uploads) == (recorded, 0, 0)
    fits = np.array([2**31 - 1, -2**31])
    assert copy.upload(fits, volta.int64, device).tolist() == fits.tolist()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32"])
def test_transfers_copy_once(gpu, dtype):
    """No array beside the caller's own: neither for another element type nor for rows that lie apart."""
    whole = volta.from_numpy(sample(dtype, (2048, 1025)))
    for x in (whole, whole[:, 1:], whole[::2]):
        y = x.to(gpu)
        tracemalloc.start()
        try:
            z = x.to(gpu)
            uploaded = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            back = y.cpu()
            downloaded = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        nbytes = back.numpy().nbytes
        assert uploaded < nbytes / 4 and nbytes <= downloaded < nbytes * 1.25, (uploaded, downloaded, nbytes)
        assert bool((z.cpu() == x).all())


def test_an_upload_fills_its_buffer(ctx):
    for size in (1 << 8, 1 << 19):
        buffer = ctx.alloc(4 * size)
        for count, word in ((size - 1, "fewer"), (size + 1, "more")):
            parts = np.nditer(np.ones(count, np.float32), ["external_loop", "buffered"], [["readonly", "contig"]], buffersize=1000)
            with pytest.raises(ArgumentError, match=f"upload: the data have {word} elements than the buffer"):
                ctx.upload(buffer, parts)
        ctx.upload(buffer, iter([np.full(size // 2, 1, np.float32), np.full(size // 2, 2, np.float32)]))
        np.testing.assert_array_equal(down(ctx, buffer), np.repeat(np.float32([1, 2]), size // 2))


# ---- memory


def test_steady_state_makes_nothing(ctx):
    p = struct.pack("<If", 100, 1.5)
    x = up(ctx, np.ones(100, np.float32))

    def step():
        held = [ctx.alloc(400) for _ in range(5)]
        for source, target in zip([x, *held], held):
            ctx.launch(ctx.pipeline("scale"), (source, target), p, 2)
        ids = [b.block for b in held]
        ctx.flush()
        return ids

    gc.collect()            # what earlier tests left must not come back to the pool between the steps
    first = [step() for _ in range(2)]
    before = volta.gpu.stats()
    assert [step() for _ in range(20)] == [first[1]] * 20
    used = volta.gpu.stats() - before
    assert (used.buffers_created, used.bind_groups_created, used.pipelines_created) == (0, 0, 0)


def test_memory_comes_back(ctx):
    live = volta.gpu.memory_stats().live
    buffers = [ctx.alloc(n) for n in (0, 1, 256, 257, 1000, 1 << 20)]
    assert [b.capacity for b in buffers] == [256, 256, 256, 320, 1024, 1 << 20]
    assert volta.gpu.memory_stats().live == live + sum(b.capacity for b in buffers)
    assert volta.gpu.memory_stats().peak >= volta.gpu.memory_stats().live
    scale(ctx, buffers[3], buffers[4], 64, 1.0)     # pending work does not keep a Buffer
    del buffers
    assert volta.gpu.memory_stats().live == live
    assert volta.gpu.memory_stats().pooled > 0
    volta.gpu.empty_cache()
    assert volta.gpu.memory_stats().pooled == 0
    x = up(ctx, np.ones(64, np.float32))
    y = ctx.alloc(256)
    scale(ctx, x, y, 64, 3.0)
    np.testing.assert_array_equal(down(ctx, y), np.full(64, 3, np.float32))


def test_lowest_block_first(ctx):
    volta.gpu.empty_cache()
    buffers = [ctx.alloc(5000) for _ in range(40)]
    ids = [b.block for b in buffers]
    order = np.random.default_rng(1).permutation(40)
    for k in order:
        buffers[k] = None
    assert [b.block for b in [ctx.alloc(5000) for _ in range(40)]] == sorted(ids)


def test_out_of_memory(ctx):
    volta.gpu.empty_cache()
    held = volta.gpu.memory_stats().live
    x = up(ctx, np.ones(64, np.float32))
    try:
        volta.gpu.set_memory_limit(held + (4 << 20))
        pooled = ctx.alloc(3 << 20)
        del pooled                                   # in the way, until the pool is emptied
        big = ctx.alloc(2 << 20)
        with pytest.raises(OutOfMemoryError, match=r"out of GPU memory, 3 MiB asked .* live .* limit .*largest live buffers: 2 MiB"):
            ctx.alloc(3 << 20)
        del big
        assert ctx.alloc(3 << 20).nbytes == 3 << 20
    finally:
        volta.gpu.set_memory_limit(None)
    with pytest.raises(OutOfMemoryError, match="largest buffer"):
        ctx.alloc(1 << 50)
    with pytest.raises(ArgumentError, match="negative"):
        ctx.alloc(-1)
    np.testing.assert_array_equal(down(ctx, x), np.ones(64, np.float32))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a limit on address space")
def test_device_out_of_memory(ctx):
    if not ctx.info.is_software:
        pytest.skip("would fill the memory of a GPU that others may be using")
    out = run_python("""
        import resource, numpy as np, volta.gpu
        from volta.errors import OutOfMemoryError
        ctx = volta.gpu.context()
        size = 512 << 20
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 6 * size, resource.RLIM_INFINITY))
        taken = []
        try:
            for _ in range(20):
                taken.append(ctx.alloc(size))
        except OutOfMemoryError as error:
            print(error)
        count = len(taken)
        assert 1 <= count < 20
        del taken[0]
        small = [ctx.alloc(size // 4)]          # only after the pool's free block has gone back
        del taken, small
        again = [ctx.alloc(size) for _ in range(count)]
        x = ctx.alloc(20)
        ctx.upload(x, np.ones(5, np.float32))
        assert ctx.download(x, np.empty(5, np.float32)).sum() == 5
    """)
    assert "out of GPU memory, 512 MiB asked for" in out


def test_bind_group_cache_is_bounded(ctx, folder):
    out = run_python(f"""
        import struct, numpy as np, volta.gpu
        from pathlib import Path
        from volta.gpu import shaders, runtime
        from volta._kernels.gpu import stream
        shaders.FOLDERS = (*shaders.FOLDERS, Path({str(folder)!r}))
        start = runtime.Context.start
        runtime.Context.start = lambda self, link, limits: start(self, link, limits, 20)
        ctx = volta.gpu.context()
        p = ctx.pipeline("in_place")
        buffers = [ctx.alloc(4) for _ in range(100)]
        for b in buffers: ctx.clear(b)
        for _ in range(3):
            for b in buffers: ctx.launch(p, (b,), struct.pack("<If", 1, 1.0), 1)
        assert ctx.groups.count <= 20 and ctx.groups.created == 300, (ctx.groups.count, ctx.groups.created)
        assert all(ctx.download(b, np.empty(1, np.float32))[0] == 3.0 for b in buffers)
        print("ok")
    """)
    assert "ok" in out


# ---- errors leave the context usable


def test_bad_launches(ctx):
    x, y = up(ctx, np.ones(64, np.float32)), ctx.alloc(256)
    good = struct.pack("<If", 64, 2.0)
    pipeline = ctx.pipeline("scale")
    recorded = ctx.batch.count
    with pytest.raises(ArgumentError, match=r"scale: params must have 8 bytes \(struct format '<If'\), got 4"):
        ctx.launch(pipeline, (x, y), b"1234", 1)
    with pytest.raises(ArgumentError, match="scale: 2 buffers needed"):
        ctx.launch(pipeline, (x,), good, 1)
    with pytest.raises(ArgumentError, match="must not be negative"):
        ctx.launch(pipeline, (x, y), good, -1)
    with pytest.raises(DeviceError, match="same memory, one read and one written"):
        ctx.launch(pipeline, (x, x), good, 1)
    with pytest.raises(ArgumentError, match="must be a Buffer"):
        ctx.launch(pipeline, (x, "y"), good, 1)
    for window in ((y, 4, 64), (y, -256, 64), (y, 0, 1 << 20), (y, 0, 0)):
        with pytest.raises(DeviceError, match="window of buffer 1"):
            ctx.launch(pipeline, (x, window), good, 1)
    with pytest.raises(DeviceError, match="needs at least 16 bytes, got 8"):
        ctx.launch(ctx.pipeline("scale", T="vec4<f32>"), (x, (y, 0, 8)), good, 1)
    with pytest.raises(TypeError):
        ctx.launch(pipeline, [x, y], good, 1)
    with pytest.raises(TypeError):
        ctx.launch(None, (x, y), good, 1)
    assert ctx.batch.count == recorded
    ctx.launch(pipeline, (x, y), good, 1)
    np.testing.assert_array_equal(down(ctx, y), np.full(64, 2, np.float32))


def test_refused_batch_is_dropped(ctx):
    # A matrix is more than the runtime knows of types, so only the device finds this window too small.
    x, y = up(ctx, np.ones(64, np.float32)), ctx.alloc(256)
    ctx.clear(y)
    ctx.flush()
    ctx.launch(ctx.pipeline("matrix"), ((x, 0, 16), y), struct.pack("<If", 1, 2.0), 1)
    with pytest.raises(DeviceError, match="refused 1 recorded operations, which are dropped"):
        ctx.flush()
    ctx.launch(ctx.pipeline("matrix"), ((x, 0, 64), y), struct.pack("<If", 1, 2.0), 1)
    np.testing.assert_array_equal(down(ctx, y), np.r_[np.full(16, 2.0), np.zeros(48)].astype(np.float32))


def test_large_binding_needs_windows(ctx):
    size = ctx.limits["max-storage-buffer-binding-size"] + 1024
    if size > 1 << 30:
        pytest.skip("this device binds gigabytes at once")
    big, y = ctx.alloc(size), ctx.alloc(256)
    with pytest.raises(DeviceError, match="can be bound at once"):
        ctx.launch(ctx.pipeline("scale"), (big, y), struct.pack("<If", 64, 2.0), 1)
    ctx.upload(big, np.ones(64, np.float32), size - 256 & ~255)
    ctx.launch(ctx.pipeline("scale"), ((big, size - 256 & ~255, 256), y), struct.pack("<If", 64, 2.0), 1)
    np.testing.assert_array_equal(down(ctx, y), np.full(64, 2, np.float32))
    del big
    volta.gpu.empty_cache()


def test_shader_errors(ctx):
    with pytest.raises(DeviceError, match=r"broken.wgsl line \d+: .*nonsense"):
        ctx.pipeline("broken")
    with pytest.raises(DeviceError, match="scale.wgsl has no single-line alias, const or fn named OTHER"):
        ctx.pipeline("scale", OTHER=3)
    with pytest.raises(DeviceError, match="no literal for inf"):
        ctx.pipeline("scale", SHIFT=float("inf"))
    with pytest.raises(DeviceError, match="no shader missing.wgsl"):
        ctx.pipeline("missing")
    with pytest.raises(DeviceError, match=r"scale.wgsl line 3"):
        ctx.pipeline("scale", op="x + wrong")
    assert ctx.pipeline("scale")


def test_every_shader_compiles(ctx):
    for name in shaders.files():
        for entry in shaders.entries(name):
            ctx.pipeline(name, entry=entry)


def test_lost_device_does_not_abort(ctx, folder):
    out = run_python(f"""
        import struct, numpy as np, volta.gpu
        from pathlib import Path
        from volta.errors import DeviceError
        from volta.gpu import shaders
        shaders.FOLDERS = (*shaders.FOLDERS, Path({str(folder)!r}))
        ctx = volta.gpu.context()
        x = ctx.alloc(64)
        ctx.upload(x, np.ones(16, np.float32))
        ctx.launch(ctx.pipeline("in_place"), (x,), struct.pack("<If", 16, 1.0), 1)
        ctx._device.destroy()          # the driver's loss callback runs as after a reset
        for call in (ctx.flush, ctx.synchronize, lambda: ctx.download(x, np.empty(16, np.float32)), lambda: ctx.alloc(1 << 24),
                     lambda: ctx.upload(x, bytes(4)), ctx.empty_cache):
            try:
                call()
            except DeviceError as error:
                assert "lost" in str(error) or "dropped" in str(error), error
                print("raised")
    """)
    assert out.count("raised") >= 5, out


# ---- threads, processes


def test_threads(ctx):
    failures = []

    def work(seed):
        try:
            rng = np.random.default_rng(seed)
            for _ in range(30):
                n = int(rng.integers(1, 5000))
                a = rng.standard_normal(n).astype(np.float32)
                x, y = up(ctx, a), ctx.alloc(a.nbytes)
                for _ in range(20):
                    scale(ctx, x, y, n, 2.0)
                np.testing.assert_array_equal(down(ctx, y), 2 * a)
        except BaseException as error:
            failures.append(error)

    live = volta.gpu.memory_stats().live
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]
    assert volta.gpu.memory_stats().live == live


EXERCISE = """
    import struct, sys, os, numpy as np, volta.gpu
    from pathlib import Path
    from volta.gpu import shaders
    shaders.FOLDERS = (*shaders.FOLDERS, Path({folder!r}))
    ctx = volta.gpu.context()
    a = np.arange(5000, dtype=np.float32)
    x, y = ctx.alloc(a.nbytes), ctx.alloc(a.nbytes)
    ctx.upload(x, a)
    for k in range(300):
        ctx.launch(ctx.pipeline("scale"), (x, y), struct.pack("<If", 5000, float(k)), 79)
        if k % 50 == 0: ctx.copy(y, 0, x, 0, 0)
"""


def test_uniform_ring(ctx, folder):
    out = run_python(textwrap.dedent(EXERCISE.format(folder=str(folder))) + textwrap.dedent("""
        assert not ctx.uses_immediates
        assert (ctx.download(y, np.empty_like(a)) == a * 299).all()
        z = ctx.alloc(a.nbytes)
        for k in range(600):
            ctx.launch(ctx.pipeline("in_place"), (x,), struct.pack("<If", 5000, 1.0), 79)
        assert (ctx.download(x, np.empty_like(a)) == a + 600).all()
        print("ok")
    """), VOLTA_GPU_IMMEDIATES="0")
    assert "ok" in out


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "ctx.flush()", "del ctx", "ctx.flush(); raise SystemExit",
                                    "volta.keep = ctx, x, y"])
def test_exit_does_not_hang(ctx, folder, ending):
    run_python(textwrap.dedent(EXERCISE.format(folder=str(folder))) + ending)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork(ctx, folder):
    out = run_python(textwrap.dedent(EXERCISE.format(folder=str(folder))) + textwrap.dedent("""
        from volta.errors import DeviceError
        pid = os.fork()
        if pid == 0:
            try:
                ctx.download(y, a)
            except DeviceError as error:
                assert "fork" in str(error)
                del x, y
                sys.exit(7)            # runs every exit handler
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert (ctx.download(y, np.empty_like(a)) == a * 299).all()
        print("ok")
    """))
    assert "ok" in out


def test_import_is_lazy_and_missing_wgpu_is_reported():
    run_python("import volta.gpu, sys; assert sys.modules.get('wgpu') is None")
    out = run_python("""
        import sys
        sys.modules["wgpu"] = None
        import volta.gpu
        assert not volta.gpu.is_available() and volta.gpu.devices() == []
        print(volta.gpu.unavailable_reason())
        try:
            volta.gpu.context()
        except volta.errors.DeviceError as error:
            print(error)
        print(volta.gpu.stats(), volta.gpu.memory_stats())
        volta.gpu.synchronize(); volta.gpu.empty_cache(); volta.gpu.set_memory_limit(None)
        with volta.gpu.forbid_transfers():
            pass
    """)
    assert out.count("pip install") == 2


def test_adapter_choice():
    if subprocess.run([sys.executable, "-c", "import wgpu"], capture_output=True).returncode:
        pytest.skip("wgpu cannot be imported, so there is nothing to choose from")
    out = run_python("import volta.gpu as g; print(g.is_available(), g.unavailable_reason())", VOLTA_ADAPTER="no such adapter")
    assert "False" in out and "no adapter fits VOLTA_ADAPTER='no such adapter'" in out
    out = run_python("import volta.gpu as g; print([d.is_software for d in g.devices()])", VOLTA_ADAPTER="")
    assert "True" not in out


def test_index_out_of_range(ctx):
    with pytest.raises(DeviceError, match="gpu:99 does not exist"):
        volta.gpu.context(99)


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


def test_threads_fill_the_batch_together(gpu):
    """A batch that is full again when a thread comes back from sending it must not be written past its end."""
    previous = sys.getswitchinterval()
    wrong = []

    def work(k):
        for i in range(400):
            x = volta.full((50 + i,), float(k), device=gpu) * 2 + 1
            if i % 50 == 49 and x.cpu().tolist() != [2.0 * k + 1] * (50 + i):
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(previous)
    assert not wrong


def test_threads_that_ask_for_the_gpu_first_at_once(gpu):
    script = """if True:
        import threading, volta
        found = []
        threads = [threading.Thread(target=lambda: found.append(volta.ones(3, device="gpu").sum().item())) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(found)"""
    run = subprocess.run([sys.executable, "-c", script], env=os.environ | {"VOLTA_REQUIRE_GPU": "1"}, capture_output=True, text=True)
    assert run.stdout.strip() == str([3.0] * 8), run.stderr


def test_more_bytes_than_64_bits_count(gpu):
    x = volta.ones(2, device=gpu)
    for call in (lambda: volta.gpu.context(0).alloc(2 ** 70), lambda: volta.nn.functional.pad(x, (2 ** 62, 2 ** 62))):
        with pytest.raises(OutOfMemoryError, match="this device's largest buffer is"):
            call()
