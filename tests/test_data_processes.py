"""DataLoader's workers as processes: the same batches as without, shared memory that goes again, errors, kills, and ends."""
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple

import numpy as np
import pytest

import volta
from volta.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, get_worker_info
from volta.errors import DeviceError, WorkerError, WorkerTimeoutError

METHODS = multiprocessing.get_all_start_methods()
pytestmark = pytest.mark.skipif("fork" not in METHODS, reason="most of these tests fork")
Pair = namedtuple("Pair", "image about")


class Sample(Dataset):
    """Samples of every kind."""

    def __len__(self):
        return 11

    def __getitem__(self, i):
        return Pair(np.full((40, 30), i, np.float32), {"number": i, "name": f"n{i}", "t": volta.arange(3.0) + i, "f": i / 2})


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(10) if info is None else range(info.id, 10, info.num_workers))


class Draws(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        info = get_worker_info()
        return volta.rand(1).item(), random.random(), np.random.rand(), info.id, info.seed, os.getpid(), threading.current_thread().name


class Faulty(Dataset):
    """What goes wrong at sample 4."""

    def __init__(self, fault):
        self.fault = fault

    def __len__(self):
        return 40

    def __getitem__(self, i):
        if i == 4:
            getattr(self, self.fault)()
        return np.full(5000, i, np.float32)

    def error(self):
        return {}["nothing"]

    def odd(self):
        raise OddError(1, 2)

    def kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def leave(self):
        os._exit(3)

    def sleep(self):
        time.sleep(30)


class OddError(Exception):
    def __init__(self, a, b):
        super().__init__("only text")


def named(batches):
    """What can be compared of batches of Sample."""
    return [(type(b), b.image.tolist(), {name: v if isinstance(v, list) else (v.dtype, v.tolist()) for name, v in b.about.items()})
            for b in batches]


def start(number):
    """A worker_init_fn that a process can be given."""
    get_worker_info().dataset.start = number


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    yield
    deadline = time.monotonic() + 5
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not multiprocessing.active_children()
    assert not {name for name in before ^ set(os.listdir("/dev/shm")) if name.startswith(f"volta{os.getpid():x}")} or not before


@pytest.mark.parametrize("method", METHODS)
def test_batches_are_those_of_no_workers(method):
    for options in ({}, {"shuffle": True, "seed": 3}, {"drop_last": True}):
        plain, loader = (DataLoader(Sample(), 3, num_workers=n, multiprocessing_context=m, **options) for n, m in ((0, None), (2, method)))
        assert named(plain) == named(loader)
    batch = next(iter(DataLoader(Sample(), 3, num_workers=1, multiprocessing_context=multiprocessing.get_context(method))))
    batch.image.add_(1)                                 # it is the caller's own
    assert batch.image[2, 0, 0].item() == 3


def test_streams_arrays_and_samples():
    values = [b.tolist() for b in DataLoader(Stream(), 3, num_workers=2, multiprocessing_context="fork")]
    assert values == [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    assert list(DataLoader(range(5), None, num_workers=2, multiprocessing_context="fork")) == list(range(5))
    x = np.arange(60.0).reshape(20, 3)
    data = TensorDataset(x, volta.arange(20))
    for batch, (rows, numbers) in enumerate(DataLoader(data, 5, num_workers=3, multiprocessing_context="fork")):
        assert rows.tolist() == x[5 * batch:5 * batch + 5].tolist() and numbers.tolist() == list(range(5 * batch, 5 * batch + 5))
    strange = DataLoader([np.arange(6.0).reshape(2, 3).T, np.zeros(0), np.float16(2)], None, num_workers=1, multiprocessing_context="fork",
                         collate_fn=start_of)
    assert [b.tolist() for b in strange] == [[[0, 3], [1, 4], [2, 5]], [], 2]


def start_of(sample):
    return sample


def test_workers_draw_reproducibly_and_know_themselves():
    def draw():
        volta.manual_seed(5)
        loader = DataLoader(Draws(), 1, num_workers=2, multiprocessing_context="fork", collate_fn=lambda b: b[0])
        return list(loader)
    first, again = draw(), draw()
    assert [s[:5] for s in first] == [s[:5] for s in again] and len({s[:3] for s in first}) == 8
    assert [s[3] for s in first] == [0, 1] * 4 and first[1][4] == first[0][4] + 1
    assert len({s[5] for s in first} | {os.getpid()}) == 3 and {s[6] for s in first} == {"MainThread"}


class Started(Sample):
    start = None

    def __getitem__(self, i):
        return self.start, os.getpid()


def test_persistent_workers_stay_and_are_started_once():
    loader = DataLoader(Started(), 1, num_workers=2, multiprocessing_context="fork", persistent_workers=True, worker_init_fn=start)
    passes = [[b[0].tolist() + b[1].tolist() for b in loader] for _ in range(2)]
    assert passes[0] == passes[1] and [v[0] for v in passes[0][:4]] == [0, 1, 0, 1]
    first = iter(loader)
    next(first)
    assert len(list(loader)) == 11                      # the pass that was left disturbs none
    with pytest.raises(ValueError, match="another pass over its persistent workers"):
        list(first)
    processes = loader._workers.processes
    os.kill(processes[0].pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="is killed by signal: Killed"):
        list(loader)
    assert len(list(loader)) == 11                      # by new workers
    del loader, first


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_errors_come_with_the_workers_traceback(method):
    seen = []
    with pytest.raises(KeyError, match="nothing") as error:
        for batch in DataLoader(Faulty("error"), 2, num_workers=2, multiprocessing_context=method):
            seen.append(batch[:, 0].tolist())
    assert seen == [[0, 1], [2, 3]]
    note = "".join(error.value.__notes__)
    assert "Caught KeyError in DataLoader worker process 0" in note and 'return {}["nothing"]' in note


def test_errors_that_no_other_process_can_hold():
    with pytest.raises(WorkerError, match="Caught OddError in DataLoader worker process 0.(.|\n)*only text"):
        list(DataLoader(Faulty("odd"), 2, num_workers=2, multiprocessing_context="fork"))


@pytest.mark.parametrize("fault, text", [("kill", r"DataLoader worker \(pid \d+\) is killed by signal: Killed"),
                                         ("leave", r"DataLoader worker \(pid \d+\) exited unexpectedly with exit code 3")])
def test_a_dead_worker_is_told_of(fault, text):
    with pytest.raises(WorkerError, match=text):
        list(DataLoader(Faulty(fault), 2, num_workers=2, multiprocessing_context="fork"))


def test_timeouts_and_leaving_early(monkeypatch):
    monkeypatch.setattr("volta.data.processes._PATIENCE", 0.3)
    with pytest.raises(WorkerTimeoutError, match="timed out after 0.2 seconds"):
        list(DataLoader(Faulty("sleep"), 2, num_workers=1, multiprocessing_context="fork", timeout=0.2))
    for _ in DataLoader(Faulty("sleep"), 2, num_workers=2, multiprocessing_context="fork", prefetch_factor=3):
        break
    iterator = iter(DataLoader(Faulty("sleep"), 2, num_workers=2, multiprocessing_context="fork"))
    kept = next(iterator)
    del iterator
    assert kept.tolist() == [[0.0] * 5000, [1.0] * 5000], "a batch outlives its workers"


def test_what_cannot_be_sent_is_named():
    with pytest.raises(ValueError, match=r"started by 'spawn' need a dataset.*can be pickled.*lambda"):
        list(DataLoader(Sample(), 2, num_workers=1, multiprocessing_context="spawn", collate_fn=lambda b: b))
    with pytest.raises(Exception, match="pickle") as error:
        list(DataLoader(Sample(), 2, num_workers=1, multiprocessing_context="fork", collate_fn=lambda b: (x for x in b)))
    assert "in worker 0 of a DataLoader" in "".join(error.value.__notes__)


class OnDevice(Dataset):
    def __init__(self, device):
        self.device = device

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return volta.ones(3, device=self.device)


def test_no_worker_gives_tensors_of_a_gpu(gpu):
    volta.ones(1, device=gpu).item()
    forked, spawned = (DataLoader(data, None, num_workers=1, multiprocessing_context=method) for data, method in (
        (Subset([volta.ones(2, device=gpu)] * 3, [0, 1]), "fork"), (OnDevice("gpu"), "spawn")))
    with pytest.raises(DeviceError, match="workers touch host memory only"):
        list(forked)
    with pytest.raises(DeviceError, match="workers touch host memory only"):
        list(spawned)
    with pytest.raises(DeviceError, match="a GPU cannot be used in a forked process"):
        list(DataLoader(OnDevice("gpu"), None, num_workers=1, multiprocessing_context="fork"))
    batches = list(DataLoader(Sample(), 4, num_workers=2, multiprocessing_context="fork", device=gpu))
    assert batches[2].image.device.is_gpu and batches[2].image[:, 0, 0].tolist() == [8, 9, 10]


_LEAVES = """
import multiprocessing, os, signal, sys, numpy as np
from volta.data import DataLoader
x = np.zeros((1000, 5000), np.float32)
loader = DataLoader(x, 2, num_workers=2, multiprocessing_context="fork", persistent_workers=sys.argv[1] == "persistent")
iterator = iter(loader)
next(iterator)
print(*(p.pid for p in multiprocessing.active_children()), flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["plain", "persistent", "killed"])
def test_workers_end_with_their_caller(how):
    done = subprocess.run([sys.executable, "-c", _LEAVES, how], capture_output=True, text=True, timeout=60)
    assert done.returncode == (-9 if how == "killed" else 0)
    assert how == "killed" or not done.stderr
    pids, deadline = [int(pid) for pid in done.stdout.split()], time.monotonic() + 10
    while (alive := [pid for pid in pids if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive and len(pids) == 2


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
