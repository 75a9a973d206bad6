"""Uploads, downloads and what they convert."""
import struct
import threading
import tracemalloc

import numpy as np
import pytest
from gpu_runtime import down, run_python, scale, up

import volta.gpu
from volta.devices.gpu import copy
from volta.errors import ArgumentError, DeviceError, TransferError


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


# ---- how a read waits: asleep, by a few looks and then asleep, by looks alone

LOOKS = pytest.mark.parametrize("looks", [0, 3, 1 << 30])


def test_only_a_gpu_of_its_own_is_looked_at(ctx):
    assert (ctx.batch.looks == 0) == ctx.info.is_software


@LOOKS
def test_a_read_waits_for_long_work(ctx, looks, monkeypatch):
    monkeypatch.setattr(ctx.batch, "looks", looks)
    n = 1 << 20
    x, y = up(ctx, np.ones(n, np.float32)), ctx.alloc(4 * n)
    for turn in range(3):
        for _ in range(10):
            scale(ctx, x, y, n, 2.0)
            scale(ctx, y, x, n, 0.5 if turn else 1.0)
        last = ctx.download(x, np.empty(1, np.float32), 4 * n - 4)[0]
        assert last == 2.0**10
        assert ctx.download(y, np.empty(1, np.float32), 4)[0] == 2.0**(11 if turn else 10)


@LOOKS
def test_reads_after_an_error(ctx, looks, monkeypatch):
    """Neither a batch that the device refuses nor a read that is refused leaves anything behind that the next one waits for."""
    monkeypatch.setattr(ctx.batch, "looks", looks)
    x, y = up(ctx, np.arange(64, dtype=np.float32)), ctx.alloc(256)
    for turn in range(3):
        ctx.launch(ctx.pipeline("matrix"), ((x, 0, 16), y), struct.pack("<If", 1, 2.0), 1)
        with pytest.raises(DeviceError, match="refused 2 recorded operations, which are dropped"):
            down(ctx, x)
        with pytest.raises(ArgumentError, match="download: 8 bytes at byte 252"):
            ctx.download(x, np.empty(2, np.float32), 252)
        scale(ctx, x, y, 64, turn + 1.0)
        np.testing.assert_array_equal(down(ctx, y), np.arange(64, dtype=np.float32) * (turn + 1))


@LOOKS
def test_threads_read_at_once(ctx, looks, monkeypatch):
    """Each thread reads what it wrote last, while others write, send and read."""
    monkeypatch.setattr(ctx.batch, "looks", looks)
    wrong = []

    def work(number):
        try:
            x, y = up(ctx, np.full(300, number, np.float32)), ctx.alloc(1200)
            for turn in range(40):
                scale(ctx, x, y, 300, turn)
                got = ctx.download(y, np.empty(1, np.float32), 4 * (turn % 300))[0]
                if got != number * turn:
                    wrong.append((number, turn, got))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[:3]


def test_a_read_of_a_lost_device_ends(ctx, folder):
    out = run_python(f"""
        import struct, numpy as np, volta.gpu
        from pathlib import Path
        from volta.errors import DeviceError
        from volta.gpu import shaders
        shaders.FOLDERS = (*shaders.FOLDERS, Path({str(folder)!r}))
        ctx = volta.gpu.context()
        ctx.batch.looks = 1 << 30
        x = ctx.alloc(64)
        ctx.upload(x, np.ones(16, np.float32))
        assert ctx.download(x, np.empty(16, np.float32)).sum() == 16
        ctx.launch(ctx.pipeline("in_place"), (x,), struct.pack("<If", 16, 1.0), 1)
        ctx._device.destroy()
        for _ in range(2):
            try:
                ctx.download(x, np.empty(16, np.float32))
            except DeviceError as error:
                print("raised", error)
    """)
    assert out.count("raised") == 2, out
