"""Checkpoints that resume to the bit, mappers of state dicts, sharded files, and kills while a file is written."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import ArgumentError, StateDictError
from volta.io import StateDictMapper, load_checkpoint, save_checkpoint


class _Loader:
    """A position in shuffled data, as a loader with a state has it."""

    def __init__(self):
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]

    def batch(self, device):
        self.position += 1
        return volta.arange(self.position, self.position + 12.0).reshape(3, 4).to(device).sin()


def _run(device):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 2)).to(device)
    optimizer = volta.optim.AdamW(net.parameters(), lr=0.05)
    return {"model": net, "optimizer": optimizer, "loader": _Loader(),
            "scheduler": volta.optim.lr_scheduler.MultiStepLR(optimizer, [3, 12, 15], gamma=0.7)}


def _train(run, steps, device):
    for _ in range(steps):
        run["optimizer"].zero_grad()
        noise = float(np.random.rand()) + random.random()
        (run["model"](run["loader"].batch(device)) + noise + volta.randn(3, 2, device=device)).square().mean().backward()
        run["optimizer"].step()
        run["scheduler"].step()


def _seed():
    volta.manual_seed(3)
    random.seed(3)
    np.random.seed(3)


@pytest.mark.parametrize("name", ["run.pt", "run.safetensors"])
def test_a_resumed_run_is_the_same_to_the_bit(device, tmp_path, name):
    _seed()
    whole = _run(device)
    _train(whole, 20, device)
    _seed()
    half = _run(device)
    _train(half, 10, device)
    save_checkpoint(tmp_path / name, **half, step=10, extra={"best": 0.5})
    volta.manual_seed(99)
    resumed = _run(device)
    random.random(), np.random.rand()
    assert load_checkpoint(tmp_path / name, **resumed) == (10, {"best": 0.5})
    _train(resumed, 10, device)
    for key, value in whole["model"].state_dict().items():
        assert value.tolist() == resumed["model"].state_dict()[key].tolist(), key
    assert whole["scheduler"].get_last_lr() == resumed["scheduler"].get_last_lr() and resumed["loader"].position == 20
    assert volta.rand(2).tolist() == _after(whole, device)


def _after(run, device):
    """What the generator gives after 20 steps from the seed."""
    _seed()
    _train(_run(device), 20, device)
    return volta.rand(2).tolist()


def test_several_models_and_parts_that_nobody_asks_for(tmp_path):
    models = {"g": nn.Linear(2, 2), "d": nn.Linear(2, 1)}
    save_checkpoint(tmp_path / "x.pt", model=models, optimizer=volta.optim.SGD(models["g"].parameters(), lr=1))
    fresh = {"g": nn.Linear(2, 2), "d": nn.Linear(2, 1)}
    before = volta.get_rng_state().tolist()
    load_checkpoint(tmp_path / "x.pt", model=fresh, rng=False)
    assert fresh["d"].weight.tolist() == models["d"].weight.tolist() and volta.get_rng_state().tolist() == before


def test_a_checkpoint_that_does_not_fit_changes_nothing(tmp_path):
    path, net = tmp_path / "x.pt", nn.Linear(2, 2)
    save_checkpoint(path, model=net, optimizer=volta.optim.SGD(net.parameters(), lr=1))
    other = nn.Linear(2, 2)
    wrong = volta.optim.SGD([{"params": [p]} for p in other.parameters()], lr=2)
    before, state = other.weight.tolist(), volta.get_rng_state().tolist()
    for parts, text in (({"optimizer": wrong}, "has groups of"),
                        ({"scaler": _Loader()}, "the file has no scaler; it has model, optimizer")):
        with pytest.raises(StateDictError, match=text):
            load_checkpoint(path, model=other, **parts)
        assert other.weight.tolist() == before and volta.get_rng_state().tolist() == state
    volta.save({"a": 1}, path)
    with pytest.raises(StateDictError, match="is no checkpoint of save_checkpoint"):
        load_checkpoint(path, model=other)
    with pytest.raises(ArgumentError, match="save_checkpoint: loader is int, which has no state_dict"):
        save_checkpoint(path, loader=5)


# ---------------------------------------------------------------- mapper
def test_mapper():
    given = {"module.h.0.attn.w": volta.ones(2, 3), "module.h.0.attn.bias": volta.ones(3), "module.wte": volta.ones(5, 2), "module.mask": 1}
    mapper = (StateDictMapper().strip("module.").rename(re.compile(r"^h\.(\d+)\.attn"), r"blocks.\1.attention").rename("wte", "tokens")
              .rename({"nothing": "x"}).exclude("mask", re.compile("bias$"))
              .prefix("net.").transpose(re.compile(r"\.w$")).transpose("none"))
    mapped, report = mapper(given)
    assert {name: value.shape for name, value in mapped.items()} == {"net.blocks.0.attention.w": (3, 2), "net.tokens": (5, 2)}
    assert report.names == {"module.h.0.attn.w": "net.blocks.0.attention.w", "module.wte": "net.tokens"}
    assert report.dropped == ["module.h.0.attn.bias", "module.mask"] and report.transposed == ["net.blocks.0.attention.w"]
    assert report.unmatched == ["rename({'nothing': 'x'})", "transpose('none')"] and "module.wte -> net.tokens" in str(report)
    assert list(StateDictMapper().select(re.compile("attn"))(given).state_dict) == list(given)[:2] and len(given) == 4
    with pytest.raises(StateDictError, match="both come to the name 'a'"):
        StateDictMapper().rename(re.compile(".*b$"), "a")({"b": 1, "bb": 2})
    with pytest.raises(ArgumentError, match="select: needs names or compiled"):
        StateDictMapper().select()
    with pytest.raises(ArgumentError, match="rename: needs the new name"):
        StateDictMapper().rename("a")


# ---------------------------------------------------------------- sharded
def _shards(folder, index):
    volta.save({"a": volta.ones(2), "b": volta.zeros(1)}, folder / "m-1.safetensors")
    volta.save({"c": volta.ones(3)}, folder / "m-2.safetensors")
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return path


def test_sharded_files(tmp_path, device):
    path = _shards(tmp_path, {"metadata": {"total_size": 24}, "weight_map": {
        "a": "m-1.safetensors", "c": "m-2.safetensors", "b": "m-1.safetensors"}})
    found = volta.load(path, device)
    assert {name: value.tolist() for name, value in found.items()} == {"a": [1, 1], "b": [0], "c": [1, 1, 1]}
    assert list(found) == ["a", "c", "b"] and found["c"].device.type == device


@pytest.mark.parametrize("index, text", [
    ({"weight_map": {"a": "m-2.safetensors"}}, "lacks the tensor 'a'"), ({"weight_map": {"a": "m-3.safetensors"}}, "there is no file"),
    ({"weight_map": {"a": "../m-1.safetensors"}}, "names a file outside its folder"), ({"weight_map": {"a": "/etc/passwd"}}, "outside"),
    ({"weight_map": {"a": 5}}, "is no index"), ({"weight_map": []}, "is no index"), ({}, "is no index"), ([], "no whole safetensors"),
    ({"weight_map": {"a": "model.safetensors.index.json"}}, "is no whole safetensors file"), ({"weight_map": {"a": ""}}, "outside")])
def test_damaged_indices(tmp_path, index, text):
    with pytest.raises((StateDictError, FileNotFoundError), match=text):
        volta.load(_shards(tmp_path, index))


# ---------------------------------------------------------------- kills
_SAVER = """
import sys, volta
base = volta.arange(200_000.0)
for n in range(10_000):
    volta.save({"a": base + n, "n": n}, sys.argv[1])
    print(n, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("name", ["x.pt", "x.safetensors"])
def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path, name):
    generator = random.Random(1)
    for least in range(3):
        process = subprocess.Popen([sys.executable, "-c", _SAVER, str(tmp_path / name)], stdout=subprocess.PIPE)
        for _ in range(least + 1):
            process.stdout.readline()
        time.sleep(generator.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = volta.load(tmp_path / name)
        assert found["n"] >= least and found["a"][0].item() == found["n"] and found["a"][-1].item() == found["n"] + 199_999
