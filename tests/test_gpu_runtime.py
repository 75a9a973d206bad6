"""The GPU runtime: memory, errors, threads and processes. Needs a GPU or VOLTA_ADAPTER=software; VOLTA_REQUIRE_GPU=1 forbids skipping."""
import gc
import os
import struct
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from gpu_runtime import down, run_python, scale, up

import volta.gpu
from volta.errors import ArgumentError, DeviceError, OutOfMemoryError

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


def test_more_bytes_than_64_bits_count(gpu):
    x = volta.ones(2, device=gpu)
    for call in (lambda: volta.gpu.context(0).alloc(2 ** 70), lambda: volta.nn.functional.pad(x, (2 ** 58, 2 ** 58))):
        with pytest.raises(OutOfMemoryError, match="this device's largest buffer is"):
            call()


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


# ---- waiting

@pytest.mark.parametrize("looks", [0, 3, 1 << 30])
def test_a_wait_ends_when_the_device_is_done(ctx, looks, monkeypatch):
    """By sleeping, by a few looks and then sleeping, by looks alone."""
    lib, ffi = volta.gpu.adapters.native().lib, volta.gpu.adapters.native().ffi
    p, x, y = struct.pack("<If", 1 << 20, 1.5), up(ctx, np.ones(1 << 20, np.float32)), ctx.alloc(4 << 20)
    monkeypatch.setattr(ctx.batch, "looks", looks)
    for _ in range(20):
        ctx.launch(ctx.pipeline("scale"), (x, y), p, 1 << 14)
    ctx.synchronize()
    assert lib.wgpuDevicePoll(ctx._device._internal, 0, ffi.NULL) & 0xff == 1        # nothing is left to do


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
