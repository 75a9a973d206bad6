"""DataLoader: shuffled batches of in-memory arrays or of a map-style dataset, assembled ahead in one thread.

The thread touches host memory only. Copies to a GPU are made in the caller's thread just before a batch is given out, so that the
body of a training step needs no transfer.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack, overload

import numpy as np

from volta._kernels import core
from volta.data.dataset import Dataset, TensorDataset
from volta.data.prefetch import ahead
from volta.device import as_device
from volta.errors import ArgumentError
from volta.ops.copy import clone
from volta.ops.from_data import tensor
from volta.ops.parts import narrow
from volta.ops.records.index import index_select_op
from volta.random import default_generator

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DeviceLike

    Array = Tensor | np.ndarray[Any, Any]
    Transform = Callable[[Any, np.random.Generator], Any]

B = TypeVar("B")


class _Options(TypedDict, total=False):
    """For type checkers: what every form of DataLoader takes."""
    seed: int | None
    drop_last: bool
    device: DeviceLike
    prefetch: int
    transform: Transform | None


class DataLoader(Generic[B]):
    """Batches of `dataset`: an array, a tensor, a tuple of them (rows belong together), or a map-style dataset.

    shuffle    a new order every epoch that depends on `seed` and the epoch alone, so it is the same on every device. Without a
               seed one is drawn from the default generator (`volta.manual_seed`).
    device     where batches are put; None leaves host data on the CPU and device tensors where they are.
    prefetch   host batches assembled ahead; 0 assembles each when it is asked for.
    transform  `transform(batch, rng)` changes an assembled host batch (a tuple of NumPy arrays, or what `collate_fn` gave);
               `rng` is a numpy.random.Generator that depends on seed, epoch and batch alone.
    collate_fn list of samples -> batch, for a map-style dataset.

    Example:
        >>> loader = volta.data.DataLoader((np.zeros((10, 4), np.float32), np.arange(10)), batch_size=4, shuffle=True, seed=0)
        >>> [tuple(x.shape) for x, y in loader]
        [(4, 4), (4, 4), (2, 4)]
    """

    @overload
    def __init__(self: DataLoader[Tensor], dataset: Array, batch_size: int = 1, shuffle: bool = False,
                 **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: DataLoader[tuple[Tensor, ...]], dataset: TensorDataset | Sequence[Array], batch_size: int = 1,
                 shuffle: bool = False, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: DataLoader[B], dataset: Dataset | Sequence[Any], batch_size: int = 1, shuffle: bool = False, *,
                 collate_fn: Callable[[list[Any]], B], **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: DataLoader[Any], dataset: Dataset | Sequence[Any], batch_size: int = 1, shuffle: bool = False, *,
                 collate_fn: None = None, **options: Unpack[_Options]) -> None: ...
    def __init__(self, dataset, batch_size: int = 1, shuffle: bool = False, *, seed: int | None = None, drop_last: bool = False,
                 device: DeviceLike = None, prefetch: int = 2, transform: Transform | None = None,
                 collate_fn: Callable[[list[Any]], Any] | None = None) -> None:
        for name, value, least in (("batch_size", batch_size, 1), ("prefetch", prefetch, 0)):
            if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
                raise ArgumentError(f"DataLoader: {name} must be an integer >= {least}, got {value!r}")
        if isinstance(dataset, (core.TensorBase, np.ndarray)):
            self._single, dataset = True, TensorDataset(dataset)
        else:
            self._single = False
        if isinstance(dataset, (tuple, list)) and dataset and all(isinstance(a, (core.TensorBase, np.ndarray)) for a in dataset):
            dataset = TensorDataset(*dataset)
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise ArgumentError(f"DataLoader: needs arrays, or a dataset with __len__ and __getitem__, got "
                                f"{type(dataset).__name__}")
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, int(batch_size), bool(shuffle), bool(drop_last)
        self.seed = default_generator.advance(4)[1] + (default_generator.initial_seed() << 64) if seed is None else int(seed)
        self.device = None if device is None else as_device(device)
        self.prefetch, self.transform, self.collate_fn, self.epoch = int(prefetch), transform, collate_fn, 0
        self._arrays = collate_fn is None and isinstance(dataset, TensorDataset)
        self._on_device = self._arrays and any(isinstance(t, core.TensorBase) and t.device.is_gpu for t in dataset.tensors)
        if self._on_device and transform is not None:
            raise ArgumentError("DataLoader: transform works on host arrays, these tensors are on a GPU; transform the batches")

    def __len__(self) -> int:
        """Batches in an epoch."""
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration is; it counts on from there."""
        self.epoch = int(epoch)

    def order(self, epoch: int) -> np.ndarray[Any, Any]:
        """The sample numbers in the order of an epoch."""
        n = len(self.dataset)
        return _rng(self.seed, epoch, 0).permutation(n) if self.shuffle else np.arange(n)

    def __iter__(self) -> Iterator[B]:
        epoch, self.epoch = self.epoch, self.epoch + 1
        return self._device_batches(epoch) if self._on_device else self._host_batches(epoch)

    def _bounds(self):
        n = len(self.dataset)
        return [(i, min(i + self.batch_size, n)) for i in range(0, len(self) * self.batch_size, self.batch_size)]

    # ------------------------------------------------------------ data on the host
    def _host_batches(self, epoch):
        order, bounds = self.order(epoch), self._bounds()
        arrays = [_host_array(t) for t in self.dataset.tensors] if self._arrays else None

        def assemble(number):
            rows = order[slice(*bounds[number])]
            if arrays is not None:
                batch = tuple(a[rows] for a in arrays)
            else:
                batch = (self.collate_fn or collate)([self.dataset[int(i)] for i in rows])
            return batch if self.transform is None else self.transform(batch, _rng(self.seed, epoch, 1 + number))

        batches = ahead(assemble, len(bounds), self.prefetch)
        try:
            for batch in batches:
                batch = self._placed(batch[0] if self._single else batch)
                yield batch
        finally:
            batches.close()         # ends the thread now, not when the generator happens to be collected

    def _placed(self, batch):
        """The batch as tensors on the loader's device."""
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*map(self._placed, batch))
        if isinstance(batch, (tuple, list)):
            return type(batch)(map(self._placed, batch))
        if isinstance(batch, dict):
            return {key: self._placed(value) for key, value in batch.items()}
        if isinstance(batch, core.TensorBase):
            return batch if self.device is None else batch.to(self.device)
        return tensor(batch, device=self.device or "cpu") if isinstance(batch, (np.ndarray, np.generic)) else batch

    # ------------------------------------------------------------ data on a GPU
    def _device_batches(self, epoch):
        """Gathered where the data lives; the order goes up once an epoch."""
        tensors = self.dataset.tensors
        home = self.device or next(t.device for t in tensors if isinstance(t, core.TensorBase) and t.device.is_gpu)
        tensors = [(t if isinstance(t, core.TensorBase) else tensor(t)).detach().to(home) for t in tensors]
        order = tensor(self.order(epoch), device=home) if self.shuffle else None
        for start, end in self._bounds():
            if order is None:
                batch = tuple(clone(narrow(t, 0, start, end - start)) for t in tensors)     # a view could be written to
            else:
                rows = narrow(order, 0, start, end - start)
                batch = tuple(index_select_op(t, rows, dim=0) for t in tensors)
            batch = batch[0] if self._single else batch
            yield batch


def _rng(seed, epoch, stream):
    """A NumPy generator for one purpose of one epoch."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed & ((1 << 128) - 1), epoch, stream])))


def _host_array(t):
    return t.detach().numpy() if isinstance(t, core.TensorBase) else t


def collate(samples: list):
    """Samples as one batch of NumPy arrays: numbers and arrays are stacked; tuples, lists and dicts entry by entry.

    Raises: ArgumentError for samples of different structure or on a GPU.
    """
    first = samples[0]
    if isinstance(first, dict):
        return {key: collate([s[key] for s in samples]) for key in first}
    if isinstance(first, (tuple, list)):
        if any(len(s) != len(first) for s in samples):
            raise ArgumentError("DataLoader: the samples of a batch have different numbers of entries; give a collate_fn")
        columns = [collate(list(column)) for column in zip(*samples)]
        return type(first)(*columns) if hasattr(first, "_fields") else type(first)(columns)
    if isinstance(first, str):
        return samples
    if isinstance(first, core.TensorBase):
        if first.device.is_gpu:
            raise ArgumentError("DataLoader: the dataset's samples are on a GPU; give whole device tensors (TensorDataset), or "
                                "host samples")
        samples = [s.detach().numpy() for s in samples]
    try:
        batch = np.stack([np.asarray(s) for s in samples])
    except ValueError:
        shapes = sorted({np.shape(s) for s in samples})
        raise ArgumentError(f"DataLoader: samples of shapes {shapes} do not stack; pad them or give a collate_fn") from None
    return batch.astype(np.float32) if isinstance(first, float) and not isinstance(first, np.generic) else batch
