"""Saving and loading: round trips, other programs' files, damage, atomicity."""
import os

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


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "int32", "uint8", "bool"])
def test_dtypes(tmp_path, dtype):
    array = np.array([[0, 1], [2, 3]]).astype(dtype)
    volta.save({"x": volta.tensor(array), "empty": volta.zeros(0, 3)}, tmp_path / "x")
    loaded = volta.load(tmp_path / "x")
    np.testing.assert_array_equal(loaded["x"].numpy(), array)
    assert loaded["x"].dtype is volta.dtypes.as_dtype(array.dtype) and loaded["empty"].shape == (0, 3)


def test_plain_safetensors_both_ways(tmp_path):
    volta.save({"a.weight": volta.arange(6).reshape(2, 3).t()}, tmp_path / "ours")
    np.testing.assert_array_equal(safetensors.numpy.load_file(tmp_path / "ours")["a.weight"], np.arange(6).reshape(2, 3).T)
    safetensors.numpy.save_file({"w": np.ones((2, 2), np.float32)}, tmp_path / "theirs", metadata={"format": "pt"})
    assert volta.load(tmp_path / "theirs")["w"].tolist() == [[1, 1], [1, 1]]


def test_checkpoint_with_an_optimizer(device, tmp_path):
    net = nn.Linear(3, 2, device=device)
    optimizer = volta.optim.Adam(net.parameters(), lr=0.1)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(volta.ones(1, 3, device=device)).sum().backward()
        optimizer.step()
    step(net, optimizer)
    saved = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "note": "a", "best": None,
             "list": [1, (2.5, True)]}
    volta.save(saved, tmp_path / "run")
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
        volta.save(obj, tmp_path / "x")
        assert volta.load(tmp_path / "x") == obj


@pytest.mark.parametrize("obj, text", [
    ([1], "save: needs a dict (such as model.state_dict()), got list"),
    ({"a": {"b": object()}}, "save: a.b is object; needs tensors, numbers, strings, None, dicts and lists"),
    ({"a": {(1, 2): 3}}, "save: the keys of a must be strings or integers"),
    ({"a": {"b": np.ones(1)}, "a.b": np.ones(1)}, "save: two tensors have the name 'a.b'; rename a key"),
])
def test_what_cannot_be_saved_leaves_no_file(tmp_path, obj, text):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(ArgumentError) as error:
        volta.save(obj, path)
    assert text in str(error.value) and path.read_bytes() == b"old" and os.listdir(tmp_path) == ["x"]


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    volta.save({"a": volta.ones(1)}, path)

    def fail(*_):
        raise OSError("disk full")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        volta.save({"a": volta.zeros(1)}, path)
    assert os.listdir(tmp_path) == ["x"] and volta.load(path)["a"].tolist() == [1]


@pytest.mark.parametrize("cut", [0, 4, 20, -1])
def test_a_damaged_file_is_named(tmp_path, cut):
    path = tmp_path / "x"
    volta.save({"a": volta.ones(100)}, path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(StateDictError, match="x' is no whole safetensors file"):
        volta.load(path)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="load: there is no file"):
        volta.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="save: there is no folder"):
        volta.save({}, tmp_path / "none" / "x")


@pytest.mark.parametrize("structure", ["5", '"x"', '{"$tensor": [1]}', '{"$pairs": 5}', '{"$pairs": [[1]]}', '{"$tuple": 5}', "[" * 100_000,
                                       '{"a":' * 50_000 + "1" + "}" * 50_000])
def test_hostile_structures(tmp_path, structure):
    path = tmp_path / "x"
    path.write_bytes(safetensors.numpy.save({}, {"volta.structure": structure}))
    if structure in ("5", '"x"'):
        with pytest.raises(StateDictError, match="has a structure that Volta did not write"):
            volta.load(path)
    else:
        with pytest.raises(StateDictError, match="load: "):
            volta.load(path)


def test_values_that_volta_lacks(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(safetensors.numpy.save({"a": np.array([2 ** 63], np.uint64)}))
    with pytest.raises(StateDictError, match="has a dtype or a value that Volta lacks: tensor: 9223372036854775808 does not fit"):
        volta.load(path)


def test_what_a_file_cannot_hold(tmp_path):
    path, loop = tmp_path / "x", {}
    loop["a"] = loop
    for given, text in ((loop, "contains itself"), ({"__metadata__": volta.ones(1)}, "'__metadata__' is a reserved name"),
                        ({"a": np.ones(2, complex)}, "safetensors cannot hold this"), ({"\ud800": volta.ones(1)}, "cannot hold this")):
        with pytest.raises(ArgumentError, match=text):
            volta.save(given, path)
    for call in (lambda: volta.load(None), lambda: volta.save({}, 5)):
        with pytest.raises(ArgumentError, match="(load|save): needs a path, got"):
            call()
    assert not list(tmp_path.iterdir())


def test_only_weights_are_read(tmp_path):
    volta.save({"x": volta.ones(1)}, f=tmp_path / "x")
    with pytest.raises(ArgumentError, match="load: weights_only=False is not available"):
        volta.load(f=tmp_path / "x", weights_only=False)
