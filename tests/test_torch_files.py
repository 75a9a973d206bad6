"""PyTorch's zip files: both ways with PyTorch, what they may hold, and files that were damaged or made to do harm."""
import argparse
import io
import os
import pickle
import random
import struct
import warnings
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import ArgumentError, StateDictError
from volta.io import serialization


def _saved(obj, **options):
    file = io.BytesIO()
    volta.save(obj, file, **options)
    return file.getvalue()


def _archive(pickled, records=(), compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in {"data.pkl": pickled, "version": b"3\n", **dict(records)}.items():
            archive.writestr(f"archive/{name}", data)
    return file.getvalue()


def _load(data, *args, **options):
    return volta.load(io.BytesIO(data), *args, **options)


def _same(a, b):
    assert type(a) is type(b)
    if isinstance(a, volta.Tensor):
        assert (a.dtype, a.shape, a.stride(), a.storage_offset(), a.requires_grad) == (
            b.dtype, b.shape, b.stride(), b.storage_offset(), b.requires_grad)
        np.testing.assert_array_equal(np.array(a.tolist()), np.array(b.tolist()))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            _same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            _same(x, y)
    else:
        assert a == b or a != a and b != b


def _values():
    base = volta.arange(10.0)
    return {"plain": [None, True, False, 0, -1, 2 ** 31, -2 ** 80, 0.5, float("nan"), "text ä", b"\0\xff", (), (1, (2, 3)), {1, "a"}],
            "base": base, "view": base[2:8].reshape(2, 3).t(), "expanded": volta.ones(1).expand(4), "empty": volta.zeros(0, 3),
            "number": volta.tensor(3), "parameter": nn.Parameter(volta.ones(2)), "wants": volta.ones(1, requires_grad=True),
            "ordered": OrderedDict(b=1, a=2), "counter": Counter("aab"), 3: "three", (1, "a"): 2, "size": volta.Size((2, 3)),
            "bytearrays": [bytearray(b"\0\xff"), bytearray()], "complex": 1.5 - 2j,
            "dtype": volta.float16, "device": volta.device("cpu"), "dtypes": [volta.ones(3, dtype=d) for d in volta.dtypes.ALL]}


def test_round_trip(tmp_path):
    given = _values()
    found = _load(_saved(given))
    _same(given, found)
    assert found["view"].storage is found["base"].storage
    for name in ("model.pt", "ckpt.tar", "model.bin", "none"):
        volta.save(given, tmp_path / name)
        assert zipfile.is_zipfile(tmp_path / name)
        _same(given, volta.load(tmp_path / name, mmap=name == "none"))


def test_one_object_is_saved_once():
    t, inner = volta.ones(1000), [1]
    data = _saved([t, t, inner, inner])
    found = _load(data)
    assert found[0] is found[1] and found[2] is found[3] and len(data) < 6000


def test_from_a_device(device):
    for dtype in (volta.float32, volta.float16, volta.int64, volta.int32, volta.uint8, volta.bool):
        t = volta.arange(7, device=device).to(dtype)
        found = _load(_saved([t[1:], t[::2]]))
        assert [x.tolist() for x in found] == [t[1:].tolist(), t[::2].tolist()] and found[0].storage is found[1].storage
        assert found[0].device.type == "cpu" and found[0].dtype is dtype


def test_map_location(device):
    for data in (_saved({"a": volta.ones(2)}), _saved({"a": volta.ones(2)}, format="safetensors")):
        seen = []

        def move(storage, location, seen=seen):
            seen.append(location)
            return storage.to(device)
        for place in (device, volta.device(device), {"cpu": device}, move,
                      lambda storage, location: storage.cuda() if device == "gpu" else None):
            assert _load(data, place)["a"].device.type == device
        assert seen == ["cpu"] and _load(data, {"cuda:0": device})["a"].device.type == "cpu"
        with pytest.raises(ZeroDivisionError):
            _load(data, lambda storage, location: 1 / 0)
        with pytest.raises(ArgumentError, match="map_location must give the storage"):
            _load(data, lambda storage, location: 5)


def test_mapped_tensors_leave_the_file_as_it_is(tmp_path):
    for name in ("x.pt", "x.safetensors"):
        volta.save({"a": volta.arange(1000.0)}, tmp_path / name)
        before = (tmp_path / name).read_bytes()
        mapped = volta.load(tmp_path / name, mmap=True)["a"]
        mapped.add_(1)
        volta.save({"a": volta.zeros(1)}, tmp_path / name)
        assert mapped[-1].item() == 1000 and volta.load(tmp_path / name)["a"].tolist() == [0]
        (tmp_path / name).write_bytes(before)
        assert volta.load(tmp_path / name)["a"][-1].item() == 999
    with pytest.raises(ArgumentError, match="mmap=True needs a path"):
        _load(before, mmap=True)


class _Made(nn.Module):
    def __new__(cls, size):
        return super().__new__(cls)

    def __init__(self, size):
        super().__init__()


@pytest.mark.parametrize("obj, text", [
    (lambda: 0, "save: the object is function; needs tensors"), ({"a": [range(1)]}, r"save: a\.0 is range; needs tensors"),
    ({nn.Linear(1, 1): 1}, "save: the keys of the object must be strings, numbers"), ({"a": {frozenset()}}, "save: the keys of a must be"),
    ({"m": _Made(1)}, r"save: m is _Made, whose class makes its objects by code of its own \(__new__\), which no file runs; save its "
     r"state_dict\(\), and load that into a new _Made; needs tensors"),
    ({"a": np.ones(1, complex)}, "save: a: NumPy dtype complex128 holds no real numbers"), (1 << 3000, "is an integer of 376 bytes"),
])
def test_what_cannot_be_saved(obj, text, tmp_path):
    for target in (io.BytesIO(), tmp_path / "x.pt"):
        with pytest.raises(ArgumentError, match=text):
            volta.save(obj, target)
        assert not os.listdir(tmp_path) and (not isinstance(target, io.BytesIO) or not target.getvalue())
    loop = []
    loop.append({"a": (loop,)})
    with pytest.raises(ArgumentError, match="contains itself"):
        volta.save(loop, tmp_path / "x.pt")
    with pytest.raises(ArgumentError, match="format must be"):
        volta.save({}, tmp_path / "x.pt", format="onnx")


# ---------------------------------------------------------------- with PyTorch
def _of_torch(torch):
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(2, 1, 5, 5)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 2])
    base = torch.arange(10.0)
    return {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "base": base,
            "view": base[2:8].reshape(2, 3).t(), "expanded": torch.ones(1).expand(4), "empty": torch.zeros(0, 3),
            "parameter": torch.nn.Parameter(torch.ones(2)), "size": torch.Size((2, 3)), "dtype": torch.int64, "set": {1, 2},
            "bytes": b"ab\0", "device": torch.device("cpu"), "flags": torch.tensor([True, False]), "half": torch.ones(2).half()}


def _same_in_torch(torch, a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b) and (a.dtype, a.stride(), a.storage_offset(), a.requires_grad) == (
            b.dtype, b.stride(), b.storage_offset(), b.requires_grad)
    elif isinstance(a, dict):
        assert list(a) == list(b) and getattr(a, "_metadata", None) == getattr(b, "_metadata", None)
        for key in a:
            _same_in_torch(torch, a[key], b[key])
    else:
        assert a == b


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_through_volta_and_back(tmp_path, protocol):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    given = _of_torch(torch)
    torch.save(given, tmp_path / "a.pt", pickle_protocol=protocol)
    found = volta.load(tmp_path / "a.pt")
    assert found["view"].storage is found["base"].storage and isinstance(found["parameter"], nn.Parameter)
    volta.save(found, tmp_path / "b.pt")
    again = torch.load(tmp_path / "b.pt", weights_only=True)
    _same_in_torch(torch, given, again)
    assert again["view"].untyped_storage().data_ptr() == again["base"].untyped_storage().data_ptr()
    _same_in_torch(torch, given, torch.load(tmp_path / "b.pt", mmap=True))


def test_plain_values_of_torch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    values = [bytearray(b"\0\xff"), bytearray(), 1.5 - 2j, b"\xfe", {1, "a"}, Counter("aab"), 2**100]
    file = io.BytesIO()
    torch.save(values, file)
    assert _load(file.getvalue()) == values == torch.load(io.BytesIO(_saved(values)))


def test_dtypes_of_torch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for name, becomes in (("bfloat16", "bfloat16"), ("int8", "int8"), ("int16", "int16"), ("uint16", "int32"), ("uint32", "int64"),
                          ("uint64", "int64"), ("float64", "float64"), ("float16", "float16"), ("bool", "bool"), ("uint8", "uint8")):
        values = torch.tensor([0, 1, 3]).to(getattr(torch, name))
        file = io.BytesIO()
        torch.save(values, file)
        found = _load(file.getvalue())
        assert found.tolist() == values.tolist() and found.dtype.name == becomes
    for value in (torch.ones(1, dtype=torch.complex64), torch.ones(2).to(torch.float8_e5m2), torch.eye(2).to_sparse(),
                  torch.nn.Linear(1, 1)):
        file = io.BytesIO()
        torch.save(value, file)
        with pytest.raises(StateDictError, match="load: the file object names '.*', which is not in the table"):
            _load(file.getvalue(), weights_only=False)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.LSTM(2, 3), nn.BatchNorm1d(3))
        self.activation, self.kind, self.itself = volta.relu, nn.ReLU, [self]
        self.settings = argparse.Namespace(width=3)


class Copied(nn.Module):
    def __reduce__(self):
        return Copied, ()


def test_whole_modules(tmp_path):
    path, model = tmp_path / "model.pt", Model()
    volta.save(model, path)
    with pytest.raises(StateDictError, match="names '.*Model', .* weights_only=False reads"):
        volta.load(path)
    found = volta.load(path, weights_only=False)
    assert type(found) is Model and found.itself[0] is found and found.activation is volta.relu and found.kind is nn.ReLU
    assert str(found) == str(model) and found.settings == model.settings
    assert all((found.state_dict()[name] == value).all() for name, value in model.state_dict().items())
    with serialization.safe_globals([Model, nn.Sequential, nn.LSTM, nn.BatchNorm1d, nn.ReLU, argparse.Namespace]):
        assert str(volta.load(path)) == str(model)
    assert serialization.get_safe_globals() == []
    with pytest.raises(ArgumentError, match="save: the object is Copied"):
        volta.save(Copied(), path)


@pytest.mark.parametrize("name", ["subprocess\nPopen", "os\nsystem", "builtins\neval", "threading\nThread", "volta.io.files\nwrite",
                                  "collections\nOrderedDict.update", f"{__name__}\nCopied"])
def test_classes_of_others_are_refused(name):
    with pytest.raises(StateDictError):
        _load(_archive(b"\x80\2c" + name.encode() + b"\n)\x81}b."), weights_only=False)


def test_arrays_stay_arrays(tmp_path):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for value in (np.arange(6).reshape(2, 3).T, np.float64([[1, 2]]), np.array(3, ">i2"), np.zeros((0, 2), bool)):
        volta.save({"a": value}, tmp_path / "a.pt")
        for found in (volta.load(tmp_path / "a.pt")["a"], torch.load(tmp_path / "a.pt", weights_only=False)["a"]):
            assert type(found) is np.ndarray and found.dtype.kind == value.dtype.kind
            np.testing.assert_array_equal(found, value)


def test_numpy_in_files_of_torch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for value in (np.float64(0.5), np.arange(6, dtype=">i4").reshape(2, 3).T, np.array([True]), np.ones((0, 2)), np.uint64(2 ** 63)):
        file = io.BytesIO()
        torch.save({"a": value}, file)
        found = _load(file.getvalue())["a"]
        assert type(found) is type(value) and found.dtype.name == value.dtype.name
        np.testing.assert_array_equal(found, value)
    for value in (np.array(["a"]), np.array([object()]), np.zeros(1, "f4,i4"), np.datetime64("2020-01-01")):
        file = io.BytesIO()
        torch.save(value, file)
        with pytest.raises(StateDictError):
            _load(file.getvalue())


def test_old_and_foreign_formats(tmp_path):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    x = torch.randn(4, 5)
    values = {"a": x, "b": x.t()[1:], "i": torch.arange(6), "h": torch.ones(3).half(), "n": [1, "x", None], "empty": torch.empty(0, 3),
              "layer": torch.nn.Linear(2, 3).state_dict()}
    torch.save(values, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    found = volta.load(tmp_path / "old.pt")
    assert found["n"] == values["n"] and found["empty"].shape == (0, 3) and found["layer"]["weight"].shape == (3, 2)
    for name in "abih":
        np.testing.assert_array_equal(found[name].numpy(), values[name].numpy())
    found["a"][0, 1] = 7
    assert found["b"][0, 0].item() == 7                                 # one storage
    data = (tmp_path / "old.pt").read_bytes()
    for broken in (data[:-1], data[:300], data.replace(b"OrderedDict", b"OrderedDicu"), data.replace(b"tensor_v2", b"tensor_vv")):
        with pytest.raises(StateDictError):
            _load(broken)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1, 1)), tmp_path / "script.pt")
    with pytest.raises(StateDictError, match="is a TorchScript program"):
        volta.load(tmp_path / "script.pt")
    storage = io.BytesIO()
    torch.save(torch.ones(2).untyped_storage(), storage)
    with pytest.raises(StateDictError, match="gives _Storage as a value"):
        _load(storage.getvalue())


# ---------------------------------------------------------------- harm
RAN = []


class _Harm:
    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def _text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _storage(kind="torch\nFloatStorage", key="0", place="cpu", count=b"K\4"):
    return b"(" + _text("storage") + b"c" + kind.encode() + b"\n" + _text(key) + _text(place) + count + b"tQ"


def _tensor(storage=None, offset=b"K\0", shape=b"K\4\x85", strides=b"K\1\x85", rest=b"\x89ccollections\nOrderedDict\n)R"):
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + (_storage() if storage is None else storage) + offset + shape + strides + rest + b"tR"


FOUR = {"data/0": np.arange(4, dtype=np.float32).tobytes()}
HUGE = b"\x8a\x09" + b"\xff" * 8 + b"\0"


def test_the_hand_made_form_is_right():
    assert _load(_archive(b"\x80\2" + _tensor() + b".", FOUR)).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("pickled", [
    pickle.dumps(_Harm(os.system, ("echo harm",)), 2), pickle.dumps(_Harm(RAN.append, (1,)), 4), pickle.dumps(_Harm(eval, ("1",)), 2),
    pickle.dumps(_Harm(getattr, ("a", "upper")), 2), b"cos\nsystem\nX\4\0\0\0echo\x85R.", b"c__builtin__\neval\n.", b"cvolta\nTensor\n.",
    b"\x80\4\x8c\2os\x8c\6system\x93.", b"(X\4\0\0\0echoios\nsystem\n.", b"(cos\nsystem\nX\4\0\0\0echoo.", b"\x82\1.", b"cnumpy\nload\n.",
    b"ctorch\nFloatStorage\n}b.", b"ctorch._utils\n_rebuild_tensor_v2\n}X\1\0\0\0aK\1sb.", b"ctorch._utils\n_rebuild_tensor_v2\n.",
    b"ccollections\nOrderedDict\n)R}X\5\0\0\0itemsK\1sb.", b"ccollections\nOrderedDict\n)RK\1b.", b"ccollections\nOrderedDict\n]\x85R.",
    b"ctorch\nSize\n]\x85R.", b"ctorch\nSize\n(J\xff\xff\xff\xfft\x85R.", b"ctorch\ndevice\nX\4\0\0\0diska\x85R.", b"N)R.", b"NNb.", b"Q.",
    b"NQ.", b"(Q.", b".", b"", b"N", b"(N.", b"NN.", b"0.", b"1.", b"t.", b"h\0.", b"j\xff\xff\xff\xff.", b"q\0.", b"Na.", b"]N(e.",
    b"}Ns.", b"}(Nu.",
    b"}]Ns.", b"}(]tNs.", b"]]\x94h\0a.", b"]q\0h\0a.", b"}q\0Nh\0s.", b"X\xff\xff\xff\xffabc.", b"\x8d" + b"\xff" * 8 + b".", b"\x8a\xff.",
    b"cutf\xff\n\n.", b"c", b"cos", b"]" * 1000 + b"a" * 999 + b".", b"N" + b"\x85" * 100_000 + b".", b"}N" + b"\x85" * 100_000 + b"Ns.",
    _text("a" * 100_000) + b"q\0" + (b"c_codecs\nencode\nh\0X\6\0\0\0latin1\x86R0" * 10_000) + b".",
    b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85C\1b\x87R"
    b"(K\1(K\x09tcnumpy\ndtype\nX\2\0\0\0f8\x89\x88\x87R\x89C\4abcdtb.",
    b"cnumpy\ndtype\nX\1\0\0\0O\x89\x88\x87R.", b"cnumpy\ndtype\nX\2\0\0\0f8\x89\x88\x87R.", b"cnumpy\nndarray\n.",
    b"cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nX\2\0\0\0f8\x89\x88\x87RC\1a\x86R.",
    _tensor(shape=b"K\5\x85") + b".", _tensor(offset=b"K\1") + b".", _tensor(strides=b"K\2\x85") + b".",
    _tensor(strides=b"J\xff\xff\xff\xff\x85") + b".", _tensor(shape=b"J\xff\xff\xff\xff\x85") + b".",
    _tensor(offset=b"J\xff\xff\xff\xff") + b".",
    _tensor(shape=HUGE + b"\x85") + b".", _tensor(strides=HUGE + b"\x85") + b".", _tensor(offset=HUGE) + b".", _tensor(shape=b")") + b".",
    _tensor(shape=b"(" + b"K\1" * 40 + b"t", strides=b"(" + b"K\1" * 40 + b"t") + b".", _tensor(shape=b"G" + bytes(8) + b"\x85") + b".",
    _tensor(shape=b"(J\0\0\0\x7fJ\0\0\0\x7fJ\0\0\0\x7ft", strides=b"(K\0K\0K\0t") + b".", _tensor(shape=b"]") + b".",
    _tensor(storage=b"N") + b".", _tensor(_storage("torch\nDoubleStorage")) + b".", _tensor(_storage(key="9")) + b".",
    _tensor(_storage(count=b"K\5")) + b".", _tensor(_storage(place="cuda:99")) + b".",
    _tensor(_storage("torch.storage\nUntypedStorage")) + b".",
    _tensor(_storage("torch\nfloat32")) + b".", _tensor(_storage("torch\nLongStorage", count=b"K\2"), rest=b"\x88N") + b".",
    _tensor(rest=b"\x89]K\1a") + b".", _tensor() + _tensor(_storage("torch\nIntStorage")) + b"\x86.", _tensor() + b"N\x86a.",
    _tensor() + b"}b.",
    *(before + _tensor(shape=b"\x8a\x08\0\0\0\0\0\0\0\x04\x85", strides=b"K\0\x85") + after for before, after in (
        (b"", b"Q."), (b"", b"N\x93."), (b"N", b"\x93."), (b"N", b"R."), (b"ctorch\ndevice\n", b"\x85R."), (b"ctorch\nSize\n", b"\x85R."),
        (b"cnumpy\ndtype\nX\2\0\0\0f8\x89\x88\x87R", b"b."), (b"c_codecs\nencode\n", b"X\6\0\0\0latin1\x86R."), (b"]", b"e."),
        (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n", b"C\1b\x87R."), (b"c__builtin__\nset\n", b"\x85R."),
        (b"ccollections\nCounter\n", b"\x85R."), (b"}", b"b."), (b"c_codecs\nencode\nX\0\0\0\0", b"\x86R."), (b"}", b"Ns."))),
    b"ctorch._utils\n_rebuild_parameter\nK\1\x88N\x87R.", b"}" + _tensor() + b"Ns.",
])
def test_hostile_pickles(pickled):
    if b"cuda:99" in pickled and not volta.gpu.is_available():
        pytest.skip("without a GPU every place is the default device")
    for weights_only in (True, False):
        with pytest.raises(StateDictError, match="load: (the file object|a tensor was saved on) "):
            _load(_archive(pickled, FOUR), weights_only=weights_only)
    assert not RAN


def test_hostile_archives():
    good = b"\x80\2" + _tensor() + b"."
    for data in (_archive(good), _archive(good, FOUR, zipfile.ZIP_DEFLATED), _archive(good, {"data/0": bytes(12)}),
                 _archive(good, {"data/0": bytes(400)}), _archive(good, {**FOUR, "byteorder": b"middle"}), _archive(good, FOUR)[:-1],
                 _archive(good, FOUR)[:100], b"PK\3\4", b"PK\3\4" * 100, b"", b"\x80\2\x8a\nl", b"text",
                 _archive(good, {**FOUR, "data": b""}).replace(b"archive/data.pkl", b"archive/datb.pkl")):
        with pytest.raises(StateDictError, match="load: the file object "):
            _load(data)
    big = {"data/0": np.arange(4, dtype=">f4").tobytes(), "byteorder": b"big"}
    assert _load(_archive(good, big)).tolist() == [0, 1, 2, 3]
    with pytest.raises(ArgumentError, match="opened for reading bytes"):
        volta.load(io.StringIO("text"))


@pytest.mark.parametrize("format", ["pt", "safetensors"])
def test_damage_is_found_or_without_effect(format):
    given = {"a": volta.arange(6.0).reshape(2, 3), "b": [volta.ones(2, dtype=volta.int64), 1, "text"], "c": (None, 2.5)}
    data, generator, refused = _saved(given, format=format), random.Random(0), 0
    for _ in range(400):
        changed = bytearray(data)
        kind = generator.randrange(3)
        if kind == 0:
            changed = changed[:generator.randrange(len(data))]
        else:
            for _ in range(kind):
                changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        try:
            found = _load(bytes(changed))
        except StateDictError:
            refused += 1
        else:
            if format == "pt":
                _same(given, found)         # every record has a checksum
    assert refused > 100


def test_damaged_pickles_raise_one_error():
    """Below the archive's checksums, where any byte may mean something else."""
    with zipfile.ZipFile(io.BytesIO(_saved(_values()))) as archive:
        records = {name.removeprefix("archive/"): archive.read(name) for name in archive.namelist()}
    pickled, generator = records.pop("data.pkl"), random.Random(0)
    for _ in range(1500):
        changed = bytearray(pickled)
        for _ in range(generator.randrange(1, 4)):
            changed[generator.randrange(len(changed))] = generator.choice([generator.randrange(256), *b"(tRQb.hjqruse]})c\x85\x86\x87"])
        try:
            _load(_archive(bytes(changed), records))
        except StateDictError:
            pass


def test_attributes_of_tensors(tmp_path):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    for lib, other in ((torch, volta), (volta, torch)):
        t, p = lib.ones(2), lib.nn.Parameter(lib.ones(3))
        t.tags, p.no_weight_decay = ["a", {"b": 1}], True
        lib.save({"t": t, "p": p}, tmp_path / "a.pt")
        for read in (lib, other):
            found = read.load(tmp_path / "a.pt")
            assert vars(found["t"]) == {"tags": ["a", {"b": 1}]} and vars(found["p"]) == {"no_weight_decay": True}
            assert type(found["t"]) is read.Tensor and type(found["p"]) is read.nn.Parameter and found["p"].requires_grad
    t.tags = [test_attributes_of_tensors, lambda: 1]
    with pytest.raises(ArgumentError, match="save: t.tags.0 is function"):
        volta.save({"t": t} if lib is volta else None, tmp_path / "a.pt")


def test_attributes_hold_plain_values(tmp_path):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    t = torch.ones(2)
    t.tags = torch.nn.functional.relu
    torch.save(t, tmp_path / "a.pt")
    with pytest.raises(StateDictError, match="names 'torch.nn.functional.relu'"):
        volta.load(tmp_path / "a.pt")
    t.tags = torch.FloatStorage
    torch.save(t, tmp_path / "a.pt")
    with pytest.raises(StateDictError, match="the pickle gives _Kind as a value"):
        volta.load(tmp_path / "a.pt")
