"""What makes a batch of a task: the numbers of samples, or the next of a stream. Works in any thread or process; knows of neither."""
from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from volta._kernels import core
from volta.data.workers import END, Epoch, WorkerInfo, be, get_worker_info


@dataclass
class Fetcher:
    """What a DataLoader was told of its batches; `stream` says that samples come in the dataset's own order, `arrays` that whole arrays are
    indexed, `batched` that samples are collated: a task then has a place for each."""
    dataset: Any
    num_workers: int
    worker_init_fn: Callable[[int], Any] | None
    collate_fn: Callable[[Any], Any]
    transform: Callable[[Any, np.random.Generator], Any] | None
    stream: bool
    drop_last: bool
    arrays: bool
    single: bool
    batched: bool

    def start(self, worker: int | None, epoch: Epoch, new: bool) -> Callable[[tuple[int, Any]], Any]:
        """What fetches the batch of a task, its number and indices, in this epoch. Called by the worker that will fetch, which is `new`
        in its first epoch."""
        mine = self._of_worker(worker, epoch, new) if self.num_workers else self
        samples = mine._rows() if self.arrays else mine._following() if self.stream else mine._map

        def fetch(task):
            batch = samples(task[1])
            if batch is END:
                return END
            if self.transform is not None:
                batch = self.transform(batch, rng(epoch.chosen, epoch.number, 1 + task[0]))
            return batch[0] if self.single else list(batch) if self.arrays and self.transform is None else batch
        return fetch

    def _of_worker(self, worker, epoch, new):
        """This with the worker's own dataset. Workers are threads that share one; where each may change its part of it, a stream or by
        worker_init_fn, each has a copy, as PyTorch's processes have. Of what the dataset holds there is one."""
        dataset = self.dataset if new else get_worker_info().dataset
        if new and (self.worker_init_fn is not None or self.stream):
            dataset = copy.copy(dataset)
        be(WorkerInfo(worker, self.num_workers, epoch.seed + worker, dataset))
        if new and self.worker_init_fn is not None:
            self.worker_init_fn(worker)
        return replace(self, dataset=get_worker_info().dataset)

    def _rows(self):
        arrays = [t.detach().numpy() if isinstance(t, core.TensorBase) else t for t in self.dataset.tensors]
        return lambda indices: tuple(a[np.asarray(indices, np.intp)] for a in arrays)

    def _map(self, task):
        if not self.batched:
            return self.collate_fn(self.dataset[task])
        whole = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn([self.dataset[i] for i in task] if whole is None else whole(task))

    def _following(self):
        samples = iter(self.dataset)

        def following(task):
            taken = list(itertools.islice(samples, len(task) if self.batched else 1))
            if not taken or self.batched and self.drop_last and len(taken) < len(task):
                return END
            return self.collate_fn(taken if self.batched else taken[0])
        return following


def rng(seed: int, epoch: int, stream: int) -> np.random.Generator:
    """A NumPy generator for one purpose of one epoch."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed & ((1 << 128) - 1), epoch, stream])))
