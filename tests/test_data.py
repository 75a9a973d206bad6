"""Datasets and the loader: order, prefetch, errors, and data on a GPU."""
import io
import multiprocessing
import threading
import time
from collections import namedtuple

import numpy as np
import pytest

import volta
from volta.data import DataLoader, Dataset, Subset, TensorDataset, progress
from volta.errors import ArgumentError, ShapeError


def labels_of(loader):
    return [batch[1].tolist() for batch in loader]


X, Y = np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10)


class Squares(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, i):
        return {"x": np.full(2, i, np.float32), "y": i * i, "name": f"n{i}", "f": i / 2}


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_batches_in_order(device, prefetch):
    loader = DataLoader((X, Y), 4, device=device, prefetch=prefetch)
    batches = list(loader)
    assert len(loader) == 3 and [b[0].shape for b in batches] == [(4, 2), (4, 2), (2, 2)]
    assert all(isinstance(b, list) and b[0].device.type == device for b in batches)
    assert batches[0][0].dtype is volta.float32 and batches[0][1].dtype is volta.int64
    np.testing.assert_array_equal(np.concatenate([b[0].numpy() for b in batches]), X)
    short = DataLoader((X, Y), 4, drop_last=True)
    assert len(short) == 2 and labels_of(short) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_shuffle_depends_on_seed_and_epoch_alone(device):
    a, b = (DataLoader((X, Y), 3, shuffle=True, seed=5, device=d) for d in (device, "cpu"))
    first, second = labels_of(a), labels_of(a)
    assert first != second and sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(10))
    assert [labels_of(b), labels_of(b)] == [first, second]
    assert labels_of(DataLoader((X, Y), 3, shuffle=True, seed=6)) != first
    b.set_epoch(0)
    assert labels_of(b) == first


def test_without_a_seed_manual_seed_decides():
    def draw():
        volta.manual_seed(4)
        return labels_of(DataLoader((X, Y), 3, shuffle=True)), labels_of(DataLoader((X, Y), 3, shuffle=True))
    first, other = draw()
    assert first != other and draw() == (first, other)


def test_arrays_alone_and_tensors(device):
    assert [b.tolist() for b in DataLoader(Y, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    pair = (volta.tensor(X, device=device), volta.tensor(Y, device=device))
    for data in (pair, TensorDataset(*pair)):
        plain = DataLoader(data, 4)
        assert all(b[0].device.type == device for b in plain) and labels_of(plain) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        mixed = DataLoader(data, 4, shuffle=True, seed=1)
        assert labels_of(mixed) == labels_of(DataLoader((X, Y), 4, shuffle=True, seed=1))
        for x, y in mixed:
            np.testing.assert_array_equal(x.numpy()[:, 0], 2 * y.numpy())


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_are_copies(device, shuffle):
    x = volta.tensor(X, device=device)
    for data in (x, X):
        for batch in DataLoader(data, 4, shuffle=shuffle, seed=0, device=device):
            batch.mul_(0.0)
    np.testing.assert_array_equal(x.numpy(), X)
    assert X.any()


def test_device_data_goes_up_once_an_epoch(gpu):
    loader = DataLoader((volta.tensor(X, device=gpu), volta.tensor(Y, device=gpu)), 2, shuffle=True, seed=0)
    list(loader)
    before = volta.gpu.stats()
    list(loader)
    assert (volta.gpu.stats() - before).uploads == 1


def test_step_body_makes_no_transfer(gpu):
    model = volta.nn.Linear(2, 1, device=gpu)
    for x, _ in DataLoader((X, Y), 4, shuffle=True, seed=0, device=gpu):
        with volta.gpu.forbid_transfers():
            model(x).sum().backward()


@pytest.mark.parametrize("prefetch", [0, 2])
def test_map_style(device, prefetch):
    batches = list(DataLoader(Squares(), 4, device=device, prefetch=prefetch))
    assert batches[1]["x"].shape == (3, 2) and batches[1]["y"].tolist() == [16, 25, 36] and batches[1]["name"] == ["n4", "n5", "n6"]
    assert batches[0]["x"].device.type == device and batches[0]["f"].dtype is (volta.float64 if device == "cpu" else volta.float32)
    assert [b["y"].tolist() for b in DataLoader(Subset(Squares(), [6, 1]), 2)] == [[36, 1]]


def test_collate():
    Pair = namedtuple("Pair", "a b")
    batch = volta.data.default_collate([Pair(1, [2, volta.ones(2)]), Pair(3, [4, volta.zeros(2)])])
    assert type(batch) is Pair and batch.a.tolist() == [1, 3] and batch.b[1].shape == (2, 2)
    doubled = DataLoader(Squares(), 7, collate_fn=lambda samples: np.array([2 * s["y"] for s in samples]))
    assert [b.tolist() for b in doubled] == [[0, 2, 8, 18, 32, 50, 72]]
    for samples, text in [([np.zeros(2), np.zeros(3)], r"samples of shapes \[\(2,\), \(3,\)\] do not stack"),
                          ([(1, 2), (1,)], "each element in list of batch should be of equal size")]:
        with pytest.raises(ShapeError, match=text):
            volta.data.default_collate(samples)


def test_transform_is_reproducible():
    def noise(batch, rng):
        return batch[0] + rng.standard_normal(batch[0].shape).astype(np.float32), batch[1]
    loader, again = (DataLoader((X, Y), 4, seed=3, transform=noise, prefetch=p) for p in (0, 2))
    first = [b[0].tolist() for b in loader]
    assert first == [b[0].tolist() for b in again] and first != [b[0].tolist() for b in loader]


def test_batches_are_assembled_ahead_and_bounded():
    calls, others = [], set(threading.enumerate())
    iterator = iter(DataLoader(np.arange(100), 1, prefetch=3,
                               transform=lambda batch, rng: calls.append(threading.current_thread().name) or batch))
    next(iterator)
    deadline = time.monotonic() + 5
    while len(calls) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(calls) == 4 and set(calls) == {"volta-data"}     # one given out, three made ahead
    iterator.close()
    assert set(threading.enumerate()) <= others


class Slow(Dataset):
    """Samples that take 50 ms."""

    def __len__(self):
        return 10

    def __getitem__(self, i):
        time.sleep(0.05)
        return np.full(16, i, np.float32)


@pytest.mark.parametrize("options", [{"prefetch": 2}, {"num_workers": 1}, {"num_workers": 1, "multiprocessing_context": "fork"}], ids=str)
def test_an_epoch_takes_as_long_as_the_slower_of_loading_and_steps(device, options):
    if "multiprocessing_context" in options and "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("nothing forks here")

    def epoch():
        start = time.perf_counter()
        for batch in DataLoader(Slow(), 2, device=device, **options):
            time.sleep(0.1)                 # the step
            assert batch.shape == (2, 16)
        return time.perf_counter() - start
    assert any(epoch() < 0.88 for _ in range(6))        # 0.6 where they overlap, 1.0 one after the other


def test_the_next_batch_goes_up_during_the_step(gpu):
    uploads = []
    for batch in DataLoader(np.zeros((6, 512, 1024), np.float32), 1, device=gpu):
        with volta.gpu.forbid_transfers():
            before = volta.gpu.stats().uploads
            time.sleep(0.1)                 # the step
            uploads.append(volta.gpu.stats().uploads - before)
        assert batch[0, 0, 0].item() == 0
    assert sum(uploads) >= 3 and uploads[-1] == 0


def test_what_cannot_go_up_is_told_of_in_its_place(gpu):
    data, seen = np.array([[1], [2], [1 << 40], [4]]), []
    with pytest.raises(ArgumentError, match="int64 on the GPU holds 32 bits"):
        for batch in DataLoader(data, 1, device=gpu):
            time.sleep(0.01)
            seen.append(batch.item())
    assert seen == [1, 2]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_reaches_the_caller_in_its_place(prefetch):
    class Broken(Squares):
        def __getitem__(self, i):
            if i == 4:
                raise KeyError("sample 4 is broken")
            return super().__getitem__(i)
    seen, others = [], set(threading.enumerate())
    with pytest.raises(KeyError, match="sample 4 is broken"):
        for batch in DataLoader(Broken(), 2, prefetch=prefetch):
            seen.append(batch["y"].tolist())
    assert seen == [[0, 1], [4, 9]]
    assert set(threading.enumerate()) <= others


@pytest.mark.parametrize("call, text", [
    (lambda: DataLoader((X, Y), 0), "DataLoader: batch_size must be an integer >= 1, got 0"),
    (lambda: DataLoader((X, Y), 2, prefetch=-1), "DataLoader: prefetch must be an integer >= 0, got -1"),
    (lambda: DataLoader(3, 2), "DataLoader: needs arrays, or a dataset with __len__ and __getitem__, got int"),
    (lambda: DataLoader((X, Y[:9]), 2), "TensorDataset: the first sizes differ: (10, 2), (9,)"),
    (lambda: TensorDataset(), "TensorDataset: give at least one tensor or array"),
    (lambda: TensorDataset(np.float32(1)), "TensorDataset: needs tensors or arrays of 1 dimension or more, got shape ()"),
])
def test_errors(call, text):
    with pytest.raises((ArgumentError, ShapeError)) as error:
        call()
    assert text in str(error.value)


def test_index_of_a_dataset():
    data = TensorDataset(X, Y)
    assert data[-1][1] == 9 and len(data) == 10
    with pytest.raises(IndexError, match="index 10 is out of range for 10 samples"):
        data[10]


def test_empty_and_wide_data():
    assert list(DataLoader((X[:0], Y[:0]), 4)) == [] and list(DataLoader((X, Y), 20, drop_last=True)) == []


def test_progress_counts_samples():
    text = io.StringIO()
    loader = DataLoader(np.arange(10), 4)
    bar = progress(loader, "epoch 1", file=text, mininterval=0)
    for _ in bar:
        bar.set_postfix(loss=0.5)
    shown = text.getvalue()
    assert "epoch 1" in shown and "8/12" in shown and "samples/s" in shown and "loss=0.5" in shown
    batch = next(iterator := iter(loader))
    assert batch.tolist() == [0, 1, 2, 3]
    again = DataLoader(np.arange(10), 4)
    again.load_state_dict(loader.state_dict())
    assert progress(again, file=io.StringIO()).initial == 1
    assert [b.tolist() for b in progress(again, file=io.StringIO())] == [[4, 5, 6, 7], [8, 9]] == [b.tolist() for b in iterator]
    assert list(progress([1, 2], file=io.StringIO())) == [1, 2]


def test_rows_of_tensors_at_several_places():
    data = TensorDataset(volta.arange(6), volta.arange(6.0))
    assert [x.tolist() for x in data[volta.tensor([1, 2])]] == [x.tolist() for x in data[1:3]] == [[1, 2], [1.0, 2.0]]
    with pytest.raises(IndexError):
        data[6]
