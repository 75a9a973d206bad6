"""Loaders that go on where another stood, and training runs that are killed in the middle of an epoch."""
import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

import volta
from volta.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)
from volta.errors import StateDictError
from volta.random_states import random_states, set_random_states


class Noisy(Dataset):
    """Samples with noise from all generators."""

    def __len__(self):
        return 23

    def __getitem__(self, i):
        return i, volta.rand(1).item(), np.random.rand(), random.random()


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info() or type("", (), {"id": 0, "num_workers": 1})
        for i in range(info.id, 17, info.num_workers):
            yield i, volta.rand(1).item()


class Odd(volta.data.Sampler):
    """A user's sampler, which draws as it likes."""

    def __len__(self):
        return 12

    def __iter__(self):
        yield from np.random.permutation(6).tolist() + random.sample(range(6), 6)


def _noise(batch, rng):
    return batch[0], batch[1] + rng.random(batch[1].shape)


X = np.arange(23.0)
LOADERS = {
    "shuffled": lambda: DataLoader(Noisy(), 4, shuffle=True),
    "seeded": lambda: DataLoader((X, X), 4, shuffle=True, seed=3, transform=_noise),
    "arrays": lambda: DataLoader((X, X), 4, shuffle=True, transform=_noise, prefetch=0),
    "own generator": lambda: DataLoader(Noisy(), 4, shuffle=True, generator=volta.Generator(5)),
    "drawn often": lambda: DataLoader(Noisy(), sampler=RandomSampler(range(5), num_samples=23, generator=volta.Generator(6)), batch_size=4),
    "weights": lambda: DataLoader(Noisy(), sampler=WeightedRandomSampler([1.0] * 23, 30), batch_size=4),
    "batches": lambda: DataLoader(Noisy(), batch_sampler=BatchSampler(RandomSampler(range(23)), 5, True)),
    "user's": lambda: DataLoader(Noisy(), 2, sampler=Odd()),
    "single": lambda: DataLoader(TensorDataset(X, X), None, shuffle=True),
    "processes": lambda: DataLoader(Noisy(), 4, shuffle=True, num_workers=2, multiprocessing_context="fork"),
    "persistent": lambda: DataLoader(Noisy(), 4, shuffle=True, num_workers=2, multiprocessing_context="fork", persistent_workers=True),
    "stream": lambda: DataLoader(Stream(), 3),
    "stream in threads": lambda: DataLoader(Stream(), 3, num_workers=2),
}


def _listed(batch):
    return [v.tolist() for v in batch]


def _epochs(loader, count, stop=None):
    """Batches of epochs, each followed by a draw; at `stop` the states, too."""
    batches, states = [], None
    for epoch in range(count):
        for i, batch in enumerate(loader):
            batches.append((_listed(batch), volta.rand(1).item()))
            if stop == (epoch, i):
                states = loader.state_dict(), random_states(), len(batches)
    return batches, states


def _seed():
    volta.manual_seed(9)
    np.random.seed(9)
    random.seed(9)


@pytest.mark.parametrize("stop", [(0, 0), (0, 3), (1, 1), (1, -1)], ids=str)
@pytest.mark.parametrize("name", LOADERS)
def test_the_rest_is_the_same(name, stop, tmp_path):
    if not hasattr(os, "fork") and name in ("processes", "persistent"):
        pytest.skip("nothing forks here")
    _seed()
    loader = LOADERS[name]()
    stop = (stop[0], sum(1 for _ in LOADERS[name]()) - 1 if stop[1] < 0 else stop[1])
    _seed()
    whole, (state, states, done) = _epochs(loader, 3, stop)
    volta.save(state, tmp_path / "state.pt")
    volta.rand(7), np.random.rand(3)
    other = LOADERS[name]()
    other.load_state_dict(volta.load(tmp_path / "state.pt"))
    assert other.state_dict()["given"] == stop[1] + 1
    set_random_states(states)
    assert _epochs(other, 3 - stop[0])[0] == whole[done:]


def test_between_epochs_and_on_a_gpu(gpu):
    data = TensorDataset(volta.arange(10, device=gpu))
    for options in ({}, {"shuffle": True}):
        volta.manual_seed(2)
        loader, other = (DataLoader(data, 3, **options) for _ in range(2))
        first = iter(loader)
        next(first)
        other.load_state_dict(loader.state_dict())
        assert [b[0].tolist() for b in first] == [b[0].tolist() for b in other]
        state = loader.state_dict()
        assert state["epoch"] == 1 and state["given"] == 0 and state["random"] is None
        other.load_state_dict(state)
        assert sorted(sum((b[0].tolist() for b in other), [])) == list(range(10))


def test_states_that_do_not_fit():
    loader = DataLoader(range(10), 2, shuffle=True)
    next(iter(loader))
    state = loader.state_dict()
    for other, text in ((DataLoader(range(10), 5), "with 5 batches in an epoch and 0 generators, this one has 2 and 0"),
                        (DataLoader(range(10), 2, generator=volta.Generator(1)), "has 5 and 1")):
        with pytest.raises(StateDictError, match=text):
            other.load_state_dict(state)
    iterator = iter(loader)
    next(iterator)
    state, before = loader.state_dict(), random_states()
    for wrong in ({}, None, {**state, "given": -1}, {**state, "random": {"volta": 3}}, {**state, "generators": [3]}):
        with pytest.raises(StateDictError, match="needs what state_dict"):
            loader.load_state_dict(wrong)
    assert random_states()["python"] == before["python"] and loader.state_dict() == state


_RUN = """
import os, random, sys, time, numpy as np, volta
from volta import nn
from volta.io import load_checkpoint, save_checkpoint
device, workers, method, path, stop = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])

class Noisy(volta.data.Dataset):
    def __len__(self):
        return 26
    def __getitem__(self, i):
        return volta.rand(6) + np.random.RandomState(i).rand(6).astype(np.float32), i % 3

volta.manual_seed(1), np.random.seed(1), random.seed(1)
net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3)).to(device)
optimizer = volta.optim.Adam(net.parameters(), lr=0.02)
parts = {"model": net, "optimizer": optimizer, "scheduler": volta.optim.lr_scheduler.StepLR(optimizer, 3, 0.8),
         "scaler": volta.amp.GradScaler(device, init_scale=256.0, growth_interval=4),
         "loader": volta.data.DataLoader(Noisy(), 4, shuffle=True, num_workers=workers, multiprocessing_context=method or None,
                                         device=device)}
first, step = 0, 0
if os.path.exists(path):
    step, first = load_checkpoint(path, **parts)
for epoch in range(first, 3):
    for x, y in parts["loader"]:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        parts["scaler"].scale(loss).backward()
        parts["scaler"].step(optimizer)
        parts["scaler"].update()
        parts["scheduler"].step()
        step += 1
        save_checkpoint(path, **parts, step=step, extra=epoch)
        print(step, flush=True)
        if stop and step >= stop + 4:           # the kill is late, on a busy machine
            time.sleep(60)
"""


def _train(path, device, workers, method, stop=0):
    """Run the program, to its end or until a kill after some steps."""
    process = subprocess.Popen([sys.executable, "-c", _RUN, device, str(workers), method, str(path), str(stop)], stdout=subprocess.PIPE)
    for line in process.stdout:
        if stop and int(line) >= stop:
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.close()
    return process.wait()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("workers, method", [(0, ""), (2, ""), (2, "fork")])
def test_a_run_killed_in_the_middle_of_an_epoch(device, workers, method, tmp_path):
    assert _train(tmp_path / "whole.pt", device, workers, method) == 0
    assert _train(tmp_path / "killed.pt", device, workers, method, 4) == -signal.SIGKILL
    assert _train(tmp_path / "killed.pt", device, workers, method, 11) == -signal.SIGKILL
    assert _train(tmp_path / "killed.pt", device, workers, method) == 0
    whole, killed = (volta.load(tmp_path / name) for name in ("whole.pt", "killed.pt"))
    assert whole["step"] == killed["step"] == 21
    assert _plain(whole) == _plain(killed)


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value.cpu().numpy().tobytes() if isinstance(value, volta.Tensor) else value
