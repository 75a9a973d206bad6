"""volta.data in PyTorch's idiom: datasets of datasets, samplers, workers, collation."""
import threading
import time
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import volta
from volta.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)


class Numbers(Dataset):
    """Samples that are numbers; what is drawn is the default generator's."""

    def __init__(self, count=10, draws=False):
        self.count, self.draws = count, draws

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if self.draws:
            time.sleep(0.002 * (i % 3))
            return volta.rand(2)
        return i


class Stream(IterableDataset):
    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.count) if info is None else range(info.id, self.count, info.num_workers))


def values(loader):
    return [batch.tolist() for batch in loader]


@pytest.fixture(autouse=True)
def no_thread_stays():
    yield
    for thread in threading.enumerate():
        if thread.name.startswith("volta"):
            thread.join(10)                 # told to end, it still has to be given a processor
            assert not thread.is_alive(), thread.name


def test_datasets_of_datasets():
    a, b = Numbers(3), TensorDataset(volta.arange(2))
    both = a + b
    assert isinstance(both, ConcatDataset) and len(both) == 5 and both[1] == 1 and both[4][0] == both[-1][0] == 1
    with pytest.raises(IndexError, match="index 5 is out of range for 5 samples"):
        both[5]
    assert list(ChainDataset([Stream(2), Stream(1)])) == [0, 1, 0] == list(Stream(2) + Stream(1)) and len(Stream(2) + Stream(1)) == 3
    assert StackDataset(a, Numbers(3))[2] == (2, 2) and StackDataset(x=a, y=a)[1] == {"x": 1, "y": 1} and len(StackDataset(a)) == 3
    parts = random_split(range(10), [0.33, 0.33, 0.34], volta.Generator(1))
    assert [len(p) for p in parts] == [4, 3, 3] and sorted(i for p in parts for i in p.indices) == list(range(10))
    assert random_split(range(10), [4, 6], volta.Generator(1))[0].indices == parts[0].indices
    assert Subset(range(5, 10), [3, 1])[0] == 8
    for call, text in [(lambda: StackDataset(a, Numbers(4)), "Size mismatch"), (lambda: StackDataset(a, x=a), "by position or by name"),
                       (lambda: StackDataset(), "At least one"), (lambda: ConcatDataset([]), "empty iterable"),
                       (lambda: ConcatDataset([Stream()]), "does not support IterableDataset"),
                       (lambda: list(ChainDataset([a])), "only supports IterableDataset"),
                       (lambda: random_split(range(10), [4, 5]), "Sum of input lengths does not equal"),
                       (lambda: random_split(range(10), [1.5, -0.5]), "between 0 and 1")]:
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.warns(UserWarning, match="split at index 1 is 0"):
        random_split(range(1), [0.5, 0.5])


def test_samplers():
    def generator():
        return volta.Generator().manual_seed(3)
    assert list(SequentialSampler(range(3))) == [0, 1, 2]
    order = list(RandomSampler(range(100), generator=generator()))
    assert sorted(order) == list(range(100)) and order == list(RandomSampler(range(100), generator=generator())) != sorted(order)
    assert len(list(RandomSampler(range(4), num_samples=10))) == 10
    assert set(RandomSampler(range(3), replacement=True, num_samples=50)) == {0, 1, 2}
    assert sorted(SubsetRandomSampler([7, 8, 9], generator())) == [7, 8, 9]
    assert set(WeightedRandomSampler([0, 1, 0, 3.0], 20)) <= {1, 3}
    assert sorted(WeightedRandomSampler([1, 2], 2, replacement=False)) == [0, 1]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]] and len(BatchSampler(range(5), 2, False)) == 3
    parts = [list(DistributedSampler(range(10), 4, rank, seed=5)) for rank in range(4)]
    assert [len(p) for p in parts] == [3] * 4 and set(sum(parts, [])) == set(range(10))
    assert [list(DistributedSampler(range(10), 3, r, shuffle=False, drop_last=True)) for r in range(3)] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    sampler = DistributedSampler(range(10), 2, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    for call, text in [(lambda: RandomSampler([]), "num_samples should be a positive integer value, but got num_samples=0"),
                       (lambda: WeightedRandomSampler([1.0], 0), "num_samples should be"),
                       (lambda: WeightedRandomSampler([[1.0]], 1), "weights should be a 1d sequence"),
                       (lambda: BatchSampler([], 0, False), "batch_size should be"),
                       (lambda: BatchSampler([], 1, 2), "drop_last should be"),
                       (lambda: DistributedSampler(range(3)), "give num_replicas and rank"),
                       (lambda: DistributedSampler(range(3), 2, 2), "Invalid rank 2")]:
        with pytest.raises(ValueError, match=text):
            call()


def test_collation_has_pytorchs_types():
    Pair = namedtuple("Pair", "a b")
    batch = default_collate([{"f": 0.5, "i": 1, "b": True, "s": "x", "p": Pair(1, [2.0]), "t": (1, b"y"), "n": np.float32(1)}] * 2)
    assert {k: v.dtype for k, v in batch.items() if isinstance(v, volta.Tensor)} == {
        "f": volta.float64, "i": volta.int64, "b": volta.bool, "n": volta.float32}
    assert batch["s"] == ["x", "x"] and type(batch["p"]) is Pair and batch["p"].b[0].dtype is volta.float64
    assert type(batch["t"]) is list and batch["t"][1] == (b"y", b"y")
    assert type(default_collate([OrderedDict(a=1)])) is OrderedDict
    assert default_collate([np.zeros(2, np.uint8), np.ones(2, np.uint8)]).tolist() == [[0, 0], [1, 1]]
    assert default_collate([volta.ones(2), volta.zeros(2)]).shape == (2, 2)
    mixed = default_collate([np.ones(2, np.float32), np.full(2, 0.1)])
    assert mixed.dtype is volta.float64 and mixed[1, 0].item() == 0.1 and default_collate([np.int16(-3)] * 2).tolist() == [-3, -3]
    for sample in (object(), None, np.array(["a"]), np.array([None])):
        with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found"):
            default_collate([sample, sample])
    converted = default_convert((np.arange(2), [np.float32(1)], "a", {"k": np.zeros(1)}, 3))
    assert type(converted) is list and converted[0].tolist() == [0, 1] and converted[1][0].dtype is volta.float32
    assert converted[2:] == ["a", {"k": volta.zeros(1, dtype=volta.float64)}, 3]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_orders_and_batches(workers):
    data = Numbers()
    assert values(DataLoader(data, 4, num_workers=workers)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert values(DataLoader(data, 4, False, [5, 3, 1], None, workers)) == [[5, 3, 1]]
    assert values(DataLoader(data, batch_sampler=[[1], [3, 2]], num_workers=workers)) == [[1], [3, 2]]
    assert list(DataLoader(data, batch_size=None, num_workers=workers)) == list(range(10))
    assert len(DataLoader(data, 4, drop_last=True)) == 2 and len(DataLoader(data, batch_size=None)) == 10
    loader = DataLoader(data, 4, shuffle=True, num_workers=workers)
    volta.manual_seed(1)
    first, second = values(loader), values(loader)
    volta.manual_seed(1)
    assert first == values(loader) != second and sorted(sum(second, [])) == list(range(10))
    drawn = DataLoader(data, 4, shuffle=True, generator=volta.Generator(2), num_workers=workers)
    volta.manual_seed(7)
    state = volta.get_rng_state()
    list(drawn)
    assert volta.equal(volta.get_rng_state(), state), "a generator of its own leaves the default one alone"


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_streams(workers):
    assert sorted(sum(values(DataLoader(Stream(), 3, num_workers=workers)), [])) == list(range(10))
    assert len(DataLoader(Stream(), 3)) == 4 and sorted(DataLoader(Stream(), None, num_workers=workers)) == list(range(10))
    assert all(len(b) == 2 for b in values(DataLoader(Stream(), 2, drop_last=True, num_workers=workers)))
    if workers == 2:
        assert values(DataLoader(Stream(), 3, num_workers=2)) == [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]


def test_workers_draw_reproducibly_and_apart_from_the_caller():
    def pass_over():
        volta.manual_seed(3)
        out = [batch.tolist() for batch in DataLoader(Numbers(12, draws=True), 2, num_workers=3)]
        return out, volta.rand(2).tolist()
    first = pass_over()
    assert first == pass_over() and len({str(b) for b in first[0]}) == 6


def test_workers_know_themselves():
    seen, data = {}, Numbers(8)

    def init(number):
        info = get_worker_info()
        seen[number] = (info.id, info.num_workers, type(info.dataset) is Numbers and info.dataset is not data,
                        info.seed == volta.initial_seed(), threading.current_thread().name)
    list(DataLoader(data, 2, num_workers=2, worker_init_fn=init))
    assert seen == {i: (i, 2, True, True, "volta-data") for i in range(2)} and get_worker_info() is None


def test_workers_of_a_stream_change_their_own():
    class Range(IterableDataset):
        start, stop = 3, 7

        def __iter__(self):
            return iter(range(self.start, self.stop))

    def part(number):
        dataset = get_worker_info().dataset
        dataset.start, dataset.stop = 3 + 2 * number, 5 + 2 * number
    loader = DataLoader(Range(), num_workers=2, worker_init_fn=part, persistent_workers=True)
    for _ in range(2):
        assert sorted(int(x) for x in loader) == [3, 4, 5, 6]
    assert loader.dataset.start == 3


def test_persistent_workers_stay_until_the_loader_goes():
    starts = []
    loader = DataLoader(Numbers(), 2, num_workers=2, persistent_workers=True, worker_init_fn=lambda i: starts.append(threading.get_ident()))
    assert values(loader) == values(loader) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]] and len(set(starts)) == 2
    for _ in loader:
        break
    first = iter(loader)
    next(first)
    assert len(values(loader)) == 5
    with pytest.raises(ValueError, match="another pass over its persistent workers has begun"):
        list(first)
    threads = loader._workers.threads
    del loader, first
    for thread in threads:
        thread.join(5)


def test_an_error_in_a_worker_has_its_traceback():
    class Broken(Numbers):
        def __getitem__(self, i):
            return [][i] if i == 5 else i
    seen = []
    with pytest.raises(IndexError) as error:
        for batch in DataLoader(Broken(), 2, num_workers=2):
            seen.append(batch.tolist())
    assert seen == [[0, 1], [2, 3]] and "in worker 0 of a DataLoader" in error.value.__notes__[0]
    assert error.traceback[-1].name == "__getitem__"
    with pytest.raises(ZeroDivisionError):
        list(DataLoader(Numbers(), num_workers=1, worker_init_fn=lambda i: 1 / 0))
    for workers in (0, 1):
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            list(DataLoader(Numbers(), num_workers=workers, collate_fn=lambda batch: next(iter([]))))


def test_leaving_early_and_timeouts():
    class Slow(Numbers):
        def __getitem__(self, i):
            time.sleep(0.3 if i > 1 else 0)
            return i
    for _ in DataLoader(Numbers(1000), 1, num_workers=3, prefetch_factor=5):
        break
    with pytest.raises(RuntimeError, match="timed out after 0.05 seconds"):
        list(DataLoader(Slow(), 1, num_workers=1, timeout=0.05))
    assert sorted(sum(values(DataLoader(Slow(3), 1, num_workers=3, in_order=False)), [])) == [0, 1, 2]


def test_samples_on_a_gpu(gpu):
    data = [volta.ones(2, device=gpu)] * 3
    assert next(iter(DataLoader(Subset(data, [0, 1]), 2))).device.is_gpu
    with pytest.raises(RuntimeError, match="workers touch host memory only"):
        list(DataLoader(Subset(data, [0, 1]), 2, num_workers=1))
    resident = DataLoader(TensorDataset(volta.arange(4, device=gpu)), sampler=[3, 0, 1], batch_size=2)
    assert [b[0].tolist() for b in resident] == [[3, 0], [1]]


@pytest.mark.parametrize("options, text", [
    (dict(num_workers=-1), "num_workers must be an integer >= 0"), (dict(timeout=-1), "timeout option should be non-negative"),
    (dict(prefetch_factor=2), "need num_workers > 0"), (dict(persistent_workers=True), "need num_workers > 0"),
    (dict(sampler=[1], shuffle=True), "sampler option is mutually exclusive with shuffle"),
    (dict(batch_sampler=[[1]], batch_size=2), "batch_sampler option is mutually exclusive"),
    (dict(batch_size=None, drop_last=True), "mutually exclusive with drop_last"),
    (dict(multiprocessing_context="spawn"), "can only be used with multi-process loading"),
    (dict(multiprocessing_context="thread", num_workers=1), "should specify a valid start method in"),
    (dict(num_workers=1, prefetch=2), "prefetch is for loading without workers")])
def test_options_that_exclude_one_another(options, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(Numbers(), **options)


def test_streams_take_no_order_and_loaders_stay_as_they_are():
    for options in (dict(shuffle=True), dict(sampler=[1]), dict(batch_sampler=[[1]])):
        with pytest.raises(ValueError, match="DataLoader with IterableDataset: expected unspecified"):
            DataLoader(Stream(), **options)
    loader = DataLoader(Numbers())
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 3


def test_the_batches_of_an_epoch_have_a_length():
    loader = DataLoader(TensorDataset(volta.arange(10)), batch_size=4)
    batches = iter(loader)
    assert next(batches)[0].tolist() == [0, 1, 2, 3] and len(batches) == len(loader) == 3 and iter(batches) is batches
    assert [len(b[0]) for b in batches] == [4, 2] and len(batches) == 3
    with pytest.raises(StopIteration):
        next(batches)


class Squares(volta.data.Dataset):
    """Gives several samples at once, and says so."""

    def __init__(self):
        self.calls = []

    def __getitem__(self, index):
        raise AssertionError("one by one")

    def __getitems__(self, indices):
        self.calls.append(list(indices))
        return [i * i for i in indices]

    def __len__(self):
        return 6


def test_parts_of_what_gives_several_samples_at_once_do_so():
    squares = Squares()
    part = volta.data.Subset(squares, [5, 3, 1])
    assert [batch.tolist() for batch in volta.data.DataLoader(part, batch_size=2)] == [[25, 9], [1]] and squares.calls == [[5, 3], [1]]
    beside = volta.data.StackDataset(part, range(3))
    assert beside.__getitems__([2, 0]) == [(1, 2), (25, 0)]
    assert volta.data.StackDataset(a=part, b=[7, 8, 9]).__getitems__([1]) == [{"a": 9, "b": 8}]
    assert volta.data.Subset([4, 5, 6], [2, 0]).__getitems__([0, 1]) == [6, 4]
