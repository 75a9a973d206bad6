"""Iterators of loaders that packages write themselves, with processes and without."""
import itertools

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)


class Own:
    """A loader that is its own stream, as fastai's: it deals the samples to its workers."""
    dataset_kind = _dataset_kind = _DatasetKind.Iterable
    _IterableDataset_len_called, _auto_collation, drop_last, in_order = None, False, False, True
    generator, prefetch_factor, pin_memory, pin_memory_device, timeout, persistent_workers = None, 2, False, "", 0, False
    _get_shared_seed = multiprocessing_context = None

    def __init__(self, num_workers):
        self.dataset, self.num_workers, self.share, self.of = self, num_workers, 0, 1

    @property
    def _index_sampler(self):
        return itertools.count()

    def collate_fn(self, sample):
        return sample

    def worker_init_fn(self, number):
        info = get_worker_info()
        info.dataset.share, info.dataset.of = info.id, info.num_workers

    def __iter__(self):
        return (torch.full((2,), float(i)) for i in range(self.share, 7, self.of))


class Map:
    """A loader of a dataset with places."""
    _dataset_kind, _auto_collation, _IterableDataset_len_called = _DatasetKind.Map, True, None
    dataset, _index_sampler, collate_fn, drop_last = [10, 20, 30], [[2, 0], [1]], torch.tensor, False
    generator, pin_memory, pin_memory_device, timeout, persistent_workers, num_workers = None, False, "", 0, False, 0
    worker_init_fn = None


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(5))


if __name__ == "__main__":
    found = _SingleProcessDataLoaderIter(Own(0))
    assert isinstance(found, _BaseDataLoaderIter) and iter(found) is found
    assert [batch.tolist() for batch in found] == [[float(i)] * 2 for i in range(7)]
    for workers in (1, 3):
        assert sorted(batch[0].item() for batch in _MultiProcessingDataLoaderIter(Own(workers))) == list(range(7))
    found = _SingleProcessDataLoaderIter(Map())
    assert len(found) == 2 and [batch.tolist() for batch in found] == [[30, 10], [20]]
    loader = DataLoader(Stream(), 2, drop_last=True)
    assert [batch.tolist() for batch in _SingleProcessDataLoaderIter(loader)] == [[0, 1], [2, 3]]
    assert isinstance(iter(loader), _BaseDataLoaderIter)

    class Doubled(DataLoader):
        def _get_iterator(self):
            return (2 * batch for batch in super()._get_iterator())

    loader = Doubled(torch.arange(3), 2)
    assert [batch.tolist() for batch in loader] == [[0, 2], [4]] and loader._index_sampler is loader.batch_sampler
    assert loader._auto_collation and not DataLoader(range(3), None)._auto_collation
    print("done")
