"""torch.utils.data.dataloader: iterators over what has the inner names of a DataLoader, which loaders of packages make themselves."""
from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import Any

from volta.data.fetch import Fetcher
from volta.data.loader import DataLoader, _DatasetKind
from volta.data.position import Batches
from volta.data.processes import Processes
from volta.data.sampler import draw_seed
from volta.data.workers import END, Epoch, Pass

__all__: list[str] = []


class _SingleProcessDataLoaderIter(Batches):
    """The batches of a loader, fetched as they are asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader, iter(loader) if isinstance(loader, DataLoader) else self._fetched(loader, *_begun(loader)))

    def __len__(self) -> int:
        return len(self._loader if isinstance(self._loader, DataLoader) else self._loader._index_sampler)

    def _fetched(self, loader: Any, fetcher: Fetcher, epoch: Epoch) -> Iterator[Any]:
        fetch = fetcher.start(None, epoch, True)
        for task in enumerate(loader._index_sampler):
            if (batch := fetch(task)) is END:
                return
            yield batch


class _MultiProcessingDataLoaderIter(_SingleProcessDataLoaderIter):
    """The same, fetched ahead by processes."""

    def _fetched(self, loader: Any, fetcher: Fetcher, epoch: Epoch) -> Iterator[Any]:
        ahead = loader.num_workers * loader.prefetch_factor
        workers = Processes(loader.num_workers, fetcher.start, loader.multiprocessing_context or multiprocessing.get_context(), ahead)
        try:
            yield from Pass(workers, enumerate(loader._index_sampler), ahead, epoch, loader.in_order, loader.timeout)
        finally:
            workers.close()


def _begun(loader: Any) -> tuple[Fetcher, Epoch]:
    """What fetches the batches of such a loader, and a pass over them, whose seed is drawn now."""
    seed = draw_seed(loader.generator)
    fetcher = Fetcher(loader.dataset, loader.num_workers, loader.worker_init_fn, loader.collate_fn, None,
                      loader._dataset_kind == _DatasetKind.Iterable, loader.drop_last, False, False, loader._auto_collation)
    return fetcher, Epoch(seed, 0, seed)
