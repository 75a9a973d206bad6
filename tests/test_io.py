"""Saving and loading: round trips, other programs' files, damage, atomicity."""
import io
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
import safetensors.numpy

import volta
from volta import nn
from volta.errors import ArgumentError, StateDictError


def test_state_dict_round_trip(device, tmp_path):
    net = nn.Sequential(nn.Conv2d(1, 2, 3, device=device), nn.BatchNorm2d(2, device=device))
    path = tmp_path / "net.safetensors"
    volta.save(net.state_dict(), path)
    loaded = volta.load(path, map_location=device)
    assert sorted(loaded) == sorted(net.state_dict()) and all(t.device.type == device for t in loaded.values())
    assert loaded["1.num_batches_tracked"].shape == () and loaded["1.num_batches_tracked"].dtype is volta.int64
    other = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    other.load_state_dict(volta.load(str(path)))
    x = volta.randn(2, 1, 5, 5)
    expected = net.eval()(x.to(device)).detach().cpu().numpy()
    np.testing.assert_allclose(other.eval()(x).detach().numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("format", ["pt", "safetensors"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "int32", "uint8", "bool"])
def test_dtypes(tmp_path, dtype, format):
    array = np.array([[0, 1], [2, 3]]).astype(dtype)
    volta.save({"x": volta.tensor(array), "empty": volta.zeros(0, 3)}, tmp_path / "x", format=format)
    loaded = volta.load(tmp_path / "x")
    np.testing.assert_array_equal(loaded["x"].numpy(), array)
    assert loaded["x"].dtype is volta.dtypes.as_dtype(array.dtype) and loaded["empty"].shape == (0, 3)


def test_plain_safetensors_both_ways(tmp_path):
    volta.save({"a.weight": volta.arange(6).reshape(2, 3).t()}, tmp_path / "ours.safetensors")
    np.testing.assert_array_equal(safetensors.numpy.load_file(tmp_path / "ours.safetensors")["a.weight"], np.arange(6).reshape(2, 3).T)
    safetensors.numpy.save_file({"w": np.ones((2, 2), np.float32)}, tmp_path / "theirs", metadata={"format": "pt"})
    assert volta.load(tmp_path / "theirs")["w"].tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("format", ["pt", "safetensors"])
def test_checkpoint_with_an_optimizer(device, tmp_path, format):
    net = nn.Linear(3, 2, device=device)
    optimizer = volta.optim.Adam(net.parameters(), lr=0.1)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(volta.ones(1, 3, device=device)).sum().backward()
        optimizer.step()
    step(net, optimizer)
    saved = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "note": "a", "best": None,
             "list": [1, (2.5, True)]}
    volta.save(saved, tmp_path / "run", format=format)
    loaded = volta.load(tmp_path / "run", device, weights_only=True)
    assert (loaded["epoch"], loaded["note"], loaded["best"], loaded["list"]) == (3, "a", None, [1, (2.5, True)])
    assert loaded["optimizer"]["param_groups"] == saved["optimizer"]["param_groups"] and set(loaded["optimizer"]["state"]) == {0, 1}
    other = nn.Linear(3, 2, device=device)
    second = volta.optim.Adam(other.parameters(), lr=0.5)
    other.load_state_dict(loaded["model"])
    second.load_state_dict(loaded["optimizer"])
    step(net, optimizer)
    step(other, second)
    assert other.weight.tolist() == net.weight.tolist()


def test_keys_that_look_like_structure(tmp_path):
    for obj in ({"$tensor": 1, "a": 2}, {"a": {"$pairs": [1]}}, {"a": {"$tuple": 3, 4: 5}}, {1: "one", "1": "text"}, {}):
        volta.save(obj, tmp_path / "x.safetensors")
        assert volta.load(tmp_path / "x.safetensors") == obj


@pytest.mark.parametrize("obj, text", [
    ([1], "save: a safetensors file needs a dict (such as model.state_dict()), got list"),
    ({"a": {"b": object()}}, "save: a.b is object; needs tensors, numbers, strings, None, dicts and lists"),
    ({"a": {(1, 2): 3}}, "save: the keys of a must be strings or integers"),
    ({"a": {"b": np.ones(1)}, "a.b": np.ones(1)}, "save: two tensors have the name 'a.b'; rename a key"),
])
def test_what_cannot_be_saved_leaves_no_file(tmp_path, obj, text):
    path = tmp_path / "x.safetensors"
    path.write_bytes(b"old")
    with pytest.raises(ArgumentError) as error:
        volta.save(obj, path)
    assert text in str(error.value) and path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x.safetensors"]


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    volta.save({"a": volta.ones(1)}, path)

    def fail(*_):
        raise OSError("disk full")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        volta.save({"a": volta.zeros(1)}, path)
    assert os.listdir(tmp_path) == ["x"] and volta.load(path)["a"].tolist() == [1]


def test_a_reader_sees_a_whole_file_at_any_time(tmp_path):
    path, values, stop = tmp_path / "x.safetensors", np.arange(2_000_000, dtype=np.float32), threading.Event()
    volta.save({"a": values}, path)
    size, seen, torn = path.stat().st_size, set(), []

    def read():
        while not stop.is_set():
            try:
                data = path.read_bytes()
            except OSError as error:
                data = repr(error).encode()
            last = np.frombuffer(data[-4:], np.float32)[0]
            first = np.frombuffer(data[size - values.nbytes:][:4], np.float32)
            if len(data) != size or last - first[0] != values[-1]:
                torn.append(data[:100])
            seen.add(float(first[0]) if len(first) else None)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for thread in readers:
        thread.start()
    try:
        for i in range(1, 30):
            volta.save({"a": values + np.float32(i)}, path)
    finally:
        stop.set()
        for thread in readers:
            thread.join()
    assert not torn and len(seen) > 3, (torn[:1], seen)


def test_an_open_file_stays_as_it_was(tmp_path):
    """The deterministic half of the test above: no byte of the old file changes, and before the rename no byte of its name."""
    path = tmp_path / "x"
    volta.save({"a": np.arange(1000)}, path)
    old = path.read_bytes()
    with open(path, "rb") as file:
        volta.save({"a": np.arange(2000)}, path)
        assert file.read() == old and os.fstat(file.fileno()).st_nlink == 0
    assert len(path.read_bytes()) > len(old)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_modes(tmp_path, monkeypatch):
    umask = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", None)          # of the whole process: never to be touched
        volta.save({"a": volta.ones(1)}, tmp_path / "new")
        (tmp_path / "opened").touch()
        assert (tmp_path / "new").stat().st_mode == (tmp_path / "opened").stat().st_mode == stat.S_IFREG | 0o640
        for mode in (0o600, 0o666, 0o751):
            os.chmod(tmp_path / "new", mode)
            volta.save({"a": volta.ones(1)}, tmp_path / "new")
            assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode
    finally:
        monkeypatch.undo()
        os.umask(umask)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_the_temporary_file_is_never_more_open_than_the_old_one(tmp_path, monkeypatch):
    path, seen, fsync = tmp_path / "x", [], os.fsync
    path.touch(0o600)

    def look(handle):
        seen.append(stat.S_IMODE(os.fstat(handle).st_mode))
        fsync(handle)
    monkeypatch.setattr(os, "fsync", look)
    volta.save({"a": volta.ones(1)}, path)
    assert seen == [0o600]
    if os.geteuid() != 0:
        path.chmod(0o400)
        with pytest.raises(PermissionError, match="save: .*x' is write-protected"):
            volta.save({"a": volta.ones(1)}, path)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    for link, target in (("link", tmp_path / "real" / "x"), ("chain", tmp_path / "link")):
        (tmp_path / link).symlink_to(target)            # the first dangles
        volta.save({"a": volta.ones(2)}, tmp_path / link)
        assert (tmp_path / link).is_symlink() and os.listdir(tmp_path / "real") == ["x"]
        assert volta.load(tmp_path / link)["a"].tolist() == volta.load(tmp_path / "real" / "x")["a"].tolist() == [1, 1]


def test_what_is_no_file(tmp_path):
    for call in (lambda path: volta.save({}, path), volta.load):
        with pytest.raises(IsADirectoryError, match="(save|load): .* is a directory; give the name of a file"):
            call(tmp_path)
        with pytest.raises(ArgumentError, match=f"(save|load): '{os.devnull}' is a device, a pipe or a socket"):
            call(os.devnull)
    assert not os.listdir(tmp_path)


_KILLED = """
import os, signal, sys, volta
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
volta.save({"a": volta.ones(100)}, sys.argv[1])
"""
_STOPPED = _KILLED.replace("SIGKILL", "SIGSTOP")


@pytest.mark.skipif(os.name == "nt", reason="file locks")
def test_what_killed_saves_left_is_removed_and_nothing_else(tmp_path):
    path, others = tmp_path / "x", [".x.volta-1-0.tmp", ".x.tmp", ".x.y.volta-1-00000000.tmp", "x.volta-1-00000000.tmp"]
    for name in others:
        (tmp_path / name).touch()
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", _KILLED, str(path)]).returncode == -signal.SIGKILL
        assert not path.exists() and len(os.listdir(tmp_path)) == len(others) + 1        # the second removed the first's
    alive = subprocess.Popen([sys.executable, "-c", _STOPPED, str(path)])
    try:
        os.waitid(os.P_PID, alive.pid, os.WSTOPPED | os.WNOWAIT)
        volta.save({"a": volta.ones(1)}, path)
        left = set(os.listdir(tmp_path)) - {"x", *others}
        assert len(left) == 1 and f".x.volta-{alive.pid}-" in left.pop()                # its writer lives
    finally:
        alive.kill()
        alive.wait()
    volta.save({"a": volta.ones(1)}, path)
    assert sorted(os.listdir(tmp_path)) == sorted(["x", *others])


def test_a_name_as_long_as_the_system_allows(tmp_path):
    path = tmp_path / ("ä" * 120)
    volta.save({"a": volta.ones(1)}, path)
    assert volta.load(path)["a"].tolist() == [1] and len(os.listdir(tmp_path)) == 1


@pytest.mark.skipif(os.name == "nt", reason="POSIX sockets")
def test_sockets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)         # a socket's path must be short
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("s")
        with pytest.raises(ArgumentError, match="save: .* is a device, a pipe or a socket"):
            volta.save({}, "s")


@pytest.mark.parametrize("format", ["pt", "safetensors"])
@pytest.mark.parametrize("cut", [0, 4, 20, -1])
def test_a_damaged_file_is_named(tmp_path, cut, format):
    path = tmp_path / "x"
    volta.save({"a": volta.ones(100)}, path, format=format)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(StateDictError, match="x' is no whole (safetensors file|file of torch.save)"):
        volta.load(path)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="load: there is no file"):
        volta.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="save: there is no folder"):
        volta.save({}, tmp_path / "none" / "x")


@pytest.mark.parametrize("structure", ["5", '"x"', '{"$tensor": [1]}', '{"$pairs": 5}', '{"$pairs": [[1]]}', '{"$tuple": 5}', "[" * 100_000,
                                       '{"a":' * 50_000 + "1" + "}" * 50_000])
def test_hostile_structures(tmp_path, structure):
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors.numpy.save({}, {"volta.structure": structure}))
    if structure in ("5", '"x"'):
        with pytest.raises(StateDictError, match="has a structure that Volta did not write"):
            volta.load(path)
    else:
        with pytest.raises(StateDictError, match="load: "):
            volta.load(path)


def test_values_that_volta_lacks(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors.numpy.save({"a": np.array([2 ** 63], np.uint64)}))
    with pytest.raises(StateDictError, match="has a dtype or a value that Volta lacks: tensor: 9223372036854775808 does not fit"):
        volta.load(path)


def test_what_a_file_cannot_hold(tmp_path):
    path, loop = tmp_path / "x.safetensors", {}
    loop["a"] = loop
    for given, text in ((loop, "contains itself"), ({"__metadata__": volta.ones(1)}, "'__metadata__' is a reserved name"),
                        ({"a": np.ones(2, complex)}, "safetensors cannot hold this"), ({"\ud800": volta.ones(1)}, "cannot hold this")):
        with pytest.raises(ArgumentError, match=text):
            volta.save(given, path)
    for call in (lambda: volta.load(None), lambda: volta.save({}, 5)):
        with pytest.raises(ArgumentError, match="(load|save): needs a path or a file object, got"):
            call()
    assert not list(tmp_path.iterdir())


def test_a_file_of_other_dtypes_and_assign(tmp_path):
    """As in PyTorch: what requires grad refuses integers; a buffer takes any dtype, and the ops check it."""
    volta.save({"weight": np.ones((2, 3), np.uint8), "bias": volta.ones(2)}, tmp_path / "x")
    layer = nn.Linear(3, 2)
    before = layer.weight.tolist()
    with pytest.raises(StateDictError, match=r"weight: requires grad, so it cannot take volta\.uint8 values; convert them with"):
        layer.load_state_dict(volta.load(tmp_path / "x"), assign=True)
    assert layer.weight.tolist() == before and layer.weight.dtype is volta.float32
    layer.load_state_dict(volta.load(tmp_path / "x"))
    assert layer.weight.tolist() == [[1, 1, 1], [1, 1, 1]] and layer.weight.dtype is volta.float32
    layer.requires_grad_(False).load_state_dict(volta.load(tmp_path / "x"), assign=True)
    assert layer.weight.dtype is volta.uint8


def test_other_dtypes_and_places_in_a_file(tmp_path):
    """Unsigned types that there are not widen; tensors that do not lie at multiples of their size are copied, also in pages of the file."""
    kinds = {"BF16": (2, b"\xc0\x3f\x80\xff", [1.5, float("-inf")]), "I8": (2, b"\xff\1", [-1, 1]),
             "BOOL": (3, b"\0\1\2", [False, True, True]),
             "U16": (1, b"\xff\xff", [65535]), "F32": (1, b"\0\0\x80\x3f", [1.0]), "I64": (1, b"\5" + bytes(7), [5])}
    header, data = {}, b""
    for kind, (count, content, _) in kinds.items():
        header[kind] = {"dtype": kind, "shape": [count], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    (tmp_path / "x").write_bytes(len(text).to_bytes(8, "little") + text + data)
    for mmap in (False, True):
        found = volta.load(tmp_path / "x", mmap=mmap)
        assert {kind: found[kind].tolist() for kind in kinds} == {kind: values for kind, (_, _, values) in kinds.items()}
    assert [found[kind].dtype.name for kind in kinds] == ["bfloat16", "int8", "bool", "int32", "float32", "int64"]


def test_a_checkpoint_of_an_earlier_release(tmp_path):
    structure = {"model": {"w": {"$tensor": "model.w"}}, "state": {"$pairs": [[0, {"$tuple": [1, None]}]]}}
    safetensors.numpy.save_file({"model.w": np.ones(2, np.float32)}, tmp_path / "run.pt", {"volta.structure": json.dumps(structure)})
    found = volta.load(tmp_path / "run.pt")
    assert found["model"]["w"].tolist() == [1, 1] and found["state"] == {0: (1, None)}


def test_every_changed_bit_of_a_safetensors_file_is_noticed(tmp_path):
    net = volta.nn.Linear(3, 2)
    for state in (net.state_dict(), {"model": net.state_dict(), "epoch": 3}):
        path = tmp_path / "x.safetensors"
        volta.save(state, path)
        data, plain = path.read_bytes(), str(volta.load(path))
        for i in range(len(data)):
            changed = bytearray(data)
            changed[i] ^= 1 << i % 8
            try:
                assert str(volta.load(io.BytesIO(bytes(changed)))) == plain, f"byte {i}"       # the name of the checksum, or white space
            except StateDictError:
                pass
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(StateDictError, match="do not have its checksum"):
        volta.load(path)
    assert volta.load(path, mmap=True)["epoch"] == 3, "pages that are not read are not checked"
