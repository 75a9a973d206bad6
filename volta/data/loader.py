"""DataLoader: batches of a dataset, in the order of a sampler, assembled ahead by threads or processes where wanted.

Workers touch host memory only. A batch goes up to a GPU in a thread of its own while the caller works with the one before, or in the
caller's thread where it comes too late for that, so that the body of a training step needs no transfer. Samplers are asked in the
caller's thread.
"""
from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack, overload

import numpy as np

from volta._kernels import core
from volta.data.collate import default_collate, default_convert, mapped
from volta.data.dataset import Dataset, IterableDataset, TensorDataset
from volta.data.fetch import Fetcher, rng
from volta.data.position import Batches, begin, from_state, generators, state_of
from volta.data.processes import Processes
from volta.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, check_generator, draw_seed
from volta.data.workers import END, Epoch, Pass, Threads
from volta.device import as_device
from volta.dtypes import float32, float64
from volta.errors import ArgumentError, AssertedError, CallError, DTypeError, NumberError
from volta.ops.copy import clone
from volta.ops.creation import empty
from volta.ops.from_data import as_tensor, tensor, upload_into
from volta.ops.parts import narrow
from volta.ops.records.index import index_select_op

if TYPE_CHECKING:
    from volta.random import Generator
    from volta.tensor import Tensor
    from volta.types import DeviceLike

    Array = Tensor | np.ndarray[Any, Any]
    Transform = Callable[[Any, np.random.Generator], Any]

B = TypeVar("B")
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers", "multiprocessing_context")


class _Options(TypedDict, total=False):
    """For type checkers: what every form of DataLoader takes by name."""
    sampler: Iterable[Any] | None
    batch_sampler: Iterable[Any] | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    worker_init_fn: Callable[[int], Any] | None
    multiprocessing_context: Any
    generator: Generator | None
    prefetch_factor: int | None
    persistent_workers: bool
    pin_memory_device: str
    in_order: bool
    seed: int | None
    device: DeviceLike
    prefetch: int | None
    transform: Transform | None


class _DatasetKind:
    """The numbers that PyTorch has for kinds of datasets."""

    Map, Iterable = 0, 1


class DataLoader(Generic[B]):
    """Batches of `dataset`: map-style or a stream, or an array, a tensor, or a tuple of them (rows belong together). A list of arrays holds
    samples.

    num_workers  how many threads fetch samples; each draws from a random stream of its own (`get_worker_info().seed`). Volta's and NumPy's
                 functions run beside one another in threads; Python's `random` and `numpy.random` are shared by them.
    multiprocessing_context  "spawn", "forkserver", "fork" or a context: the workers are processes, for datasets whose Python code holds
                 the interpreter's lock. Batches come back in shared memory. Processes touch host memory only; a forked one cannot use a
                 GPU that was opened before.
    pin_memory   accepted for PyTorch's sake, like pin_memory_device: an upload reads any host memory.
    batch_size   None gives single samples, as `default_convert` makes them.

    Beyond PyTorch's, by keyword:
    seed         the order of an epoch depends on it and the epoch alone; without it, orders are drawn as in PyTorch.
    device       where batches are put, on a GPU float64 as float32; None leaves host data on the CPU and device tensors where they are.
    prefetch     batches that one thread assembles ahead without workers; 0 assembles each when it is asked for. The default is 2 for
                 arrays and tensors, 0 where a dataset's own code runs.
    transform    `transform(batch, rng)` changes an assembled host batch (a tuple of NumPy arrays of a TensorDataset, or what `collate_fn`
                 gave); `rng` is a numpy.random.Generator that depends on seed, epoch and batch alone.

    Raises: ArgumentError for options that exclude one another or are out of range.

    Example:
        >>> loader = volta.data.DataLoader((np.zeros((10, 4), np.float32), np.arange(10)), batch_size=4, shuffle=True, seed=0)
        >>> [tuple(x.shape) for x, y in loader]
        [(4, 4), (4, 4), (2, 4)]
    """
    _ready = False

    @overload
    def __init__(self: DataLoader[Tensor], dataset: Array, batch_size: int = 1, shuffle: bool | None = None,
                 **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: DataLoader[list[Tensor]], dataset: TensorDataset | tuple[Array, ...], batch_size: int = 1,
                 shuffle: bool | None = None, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: DataLoader[B], dataset: Dataset[Any] | Sequence[Any], batch_size: int | None = 1, shuffle: bool | None = None, *,
                 collate_fn: Callable[[list[Any]], B], **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: DataLoader[Any], dataset: Dataset[Any] | Sequence[Any], batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Any] | None = None, num_workers: int = 0,
                 collate_fn: Callable[[list[Any]], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0, worker_init_fn: Callable[[int], Any] | None = None, multiprocessing_context: Any = None,
                 generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True, seed: int | None = None, device: DeviceLike = None,
                 prefetch: int | None = None, transform: Transform | None = None) -> None: ...
    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                 pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None, *,
                 prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True, seed=None, device=None,
                 prefetch=None, transform=None):
        for name, value, least in (("batch_size", batch_size, 1), ("prefetch", prefetch, 0), ("num_workers", num_workers, 0),
                                   ("prefetch_factor", prefetch_factor, 1)):
            if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__") or value < least):
                error = ArgumentError if hasattr(value, "__index__") else CallError
                raise error(f"DataLoader: {name} must be an integer >= {least}, got {value!r}")
        check_generator("DataLoader", generator)
        if timeout < 0:
            raise ArgumentError(f"DataLoader: timeout option should be non-negative, got {timeout}")
        if not num_workers and (prefetch_factor is not None or persistent_workers):
            raise ArgumentError("DataLoader: prefetch_factor and persistent_workers need num_workers > 0")
        if num_workers and num_workers > (os.cpu_count() or num_workers):
            warnings.warn(f"DataLoader: {num_workers} workers are more than the {os.cpu_count()} processors, which may make loading slower",
                          stacklevel=2)
        if num_workers and prefetch is not None:
            raise ArgumentError("DataLoader: prefetch is for loading without workers; with num_workers give prefetch_factor")
        self._single = isinstance(dataset, (core.TensorBase, np.ndarray))
        if self._single:
            dataset = TensorDataset(dataset)
        elif isinstance(dataset, tuple) and dataset and all(isinstance(a, (core.TensorBase, np.ndarray)) for a in dataset):
            dataset = TensorDataset(*dataset)
        self._stream = isinstance(dataset, IterableDataset)
        if not self._stream and not hasattr(dataset, "__getitem__"):
            raise CallError(f"DataLoader: needs arrays, or a dataset with __len__ and __getitem__, got {type(dataset).__name__}")
        _check_exclusive(self._stream, batch_size, shuffle, sampler, batch_sampler, drop_last, seed)
        if batch_sampler is not None:
            batch_size = None
        self.dataset, self.batch_size, self.drop_last, self.shuffle = dataset, batch_size, bool(drop_last), bool(shuffle)
        self.num_workers, self.pin_memory, self.pin_memory_device = int(num_workers), pin_memory, pin_memory_device
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.timeout, self.worker_init_fn, self.in_order, self.generator = timeout, worker_init_fn, in_order, generator
        self.multiprocessing_context, self.persistent_workers = _context(multiprocessing_context, num_workers), persistent_workers
        self.seed, self.epoch, self.transform = None if seed is None else int(seed), 0, transform
        self.device = None if device is None else as_device(device)
        self.sampler = sampler if sampler is not None else self._own_sampler()
        self.batch_sampler = batch_sampler if batch_sampler is not None or batch_size is None else BatchSampler(
            self.sampler, int(batch_size), self.drop_last)
        self._arrays = collate_fn is None and type(dataset) is TensorDataset and self.batch_sampler is not None
        self._on_device = self._arrays and any(isinstance(t, core.TensorBase) and t.device.is_gpu for t in dataset.tensors)
        if self._on_device and transform is not None:
            raise ArgumentError("DataLoader: transform works on host arrays, these tensors are on a GPU; transform the batches")
        self.prefetch = (2 if self._arrays else 0) if prefetch is None else int(prefetch)
        self._small = prefetch is None and self._arrays and transform is None and not (self.device and self.device.is_gpu) and _bytes_of(
            dataset.tensors, batch_size or 1) < 1 << 16
        self.collate_fn = collate_fn or (default_convert if self.batch_sampler is None else default_collate)
        self._fetcher = Fetcher(dataset, self.num_workers, self.worker_init_fn, self.collate_fn, transform, self._stream, self.drop_last,
                                self._arrays, self._single, self.batch_sampler is not None)
        self._workers = self._running = self._resumed = None
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in _FIXED:
            raise ArgumentError(f"DataLoader: {name} attribute should not be set after DataLoader is initialized; make another")
        super().__setattr__(name, value)

    @property
    def _dataset_kind(self) -> int:             # this and the next two are read by packages
        return _DatasetKind.Iterable if self._stream else _DatasetKind.Map

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        """Batches in an epoch. Raises: TypeError where the dataset or the sampler has no length."""
        if not self._stream:
            return len(self._index_sampler)
        samples = len(self.dataset)
        return samples if self.batch_size is None else samples // self.batch_size if self.drop_last else math.ceil(
            samples / self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration is, for orders by `seed`; it counts on from there."""
        self.epoch = int(epoch)

    def order(self, epoch: int) -> np.ndarray[Any, Any]:
        """The sample numbers in the order of an epoch. Raises: ArgumentError without a seed, where orders are drawn."""
        if self.shuffle and self.seed is None:
            raise ArgumentError("DataLoader.order: without a seed, orders are drawn as they are needed")
        n = len(self.dataset)
        return rng(self.seed, epoch, 0).permutation(n) if self.shuffle else np.arange(n)

    def _own_sampler(self):
        if self._stream:
            return _Endless()
        if self.shuffle and self.seed is not None:
            return _Seeded(self)
        return RandomSampler(self.dataset, generator=self.generator) if self.shuffle else SequentialSampler(self.dataset)

    def state_dict(self) -> dict[str, Any]:
        """The epoch, how many of its batches have been given out, and what its order is drawn from: what another loader of the same data
        and options needs to give the rest of the epoch, and all later ones."""
        return state_of(self._running or self._resumed, self.epoch, self._generators(), self.length())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next iteration give what was left of the epoch of a state. A stream is read again from its beginning for that, without
        giving out what was given.

        Raises: StateDictError for a state of a loader with another number of batches or generators, or of another form.
        """
        position = from_state(state_dict, self._generators(), self.length())
        self.epoch, self._running, self._resumed = position.epoch, None, None if position.random is None else position
        for generator, state in zip(self._generators(), position.generators):
            generator.set_state(state)

    def _generators(self):
        return generators(self, self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None))

    def length(self) -> int | None:
        """`len`, or None where there is none."""
        try:
            return len(self)
        except TypeError:
            return None

    def __iter__(self) -> Iterator[B]:
        return self._get_iterator()

    def _get_iterator(self) -> Iterator[B]:
        """What packages' loaders change."""
        if self.timeout and not self.num_workers:
            raise AssertedError(f"DataLoader: timeout={self.timeout} is for workers; give num_workers > 0, or leave it out")
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            position = begin(self.epoch, self._generators(), self._stream or not all(
                type(s) in _OWN for s in (self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None))))
            return Batches(self, self._counted(position, self._begin(position)))
        with resumed.replayed(self._generators()):
            return Batches(self, self._counted(resumed, self._begin(resumed)))

    def _begin(self, position):
        """The batches of an epoch from a position on. Samplers draw here, not when the first batch is asked for."""
        self.epoch, self._running = position.epoch, position
        seed = draw_seed(self.generator)
        epoch = Epoch(seed, self.epoch, seed if self.seed is None else self.seed, 0 if self._stream else position.given)
        if isinstance(self.sampler, _Seeded):
            order = self.order(self.epoch).tolist()
            plan = iter(order if self.batch_size is None else BatchSampler(order, self.batch_size, self.drop_last))
        else:
            plan = iter(self._index_sampler)
        plan = enumerate(plan)
        begun = list(itertools.islice(plan, epoch.skipped + 1))
        plan = itertools.chain(begun[epoch.skipped:], plan)
        self.epoch += 1
        batches = self._device_batches(plan) if self._on_device else self._host_batches(epoch, plan)
        for _ in range(position.given if self._stream else 0):
            next(batches, None)
        return batches

    def _counted(self, position, batches):
        """The batches, counted as they are given out."""
        try:
            for batch in batches:
                position.given += 1
                yield batch
                del batch
        finally:
            batches.close()
            if self._running is position:
                self._running = None

    # ------------------------------------------------------------ data on the host
    def _host_batches(self, epoch, plan):
        if not self.num_workers and (not self.prefetch or self._small):
            fetch = self._fetcher.start(None, epoch, True)
            for task in plan:
                if (batch := fetch(task)) is END:
                    return
                yield self._placed(batch)
                del batch
            return
        workers = self._begun()
        ahead = self.num_workers * self.prefetch_factor if self.num_workers else self.prefetch
        batches = Pass(workers, plan, ahead, epoch, self.in_order, self.timeout)
        try:
            yield from self._uploaded(batches) if self.device is not None and self.device.is_gpu else map(self._placed, batches)
        finally:                            # ends the workers now, not when the generator happens to be collected
            batches.close()
            if not self.persistent_workers:
                workers.close()

    def _uploaded(self, batches):
        """The batches on a GPU. The next one, where it is there, goes up in a thread while the caller works with this one; its memory is
        taken here, so that equal steps get equal memory."""
        with ThreadPoolExecutor(1, "volta-upload") as uploads:
            following = None
            while following is not None or (batch := next(batches, END)) is not END:
                placed, filled = following or self._sent(batch, uploads)
                following = self._sent(next(batches), uploads) if batches.has_next() else None
                batch = None
                filled.result()
                yield placed

    def _sent(self, batch, uploads):
        """A batch on the GPU, and what tells when its contents are."""
        pairs = []

        def place(value):
            value = self._host(value)
            if not isinstance(value, core.TensorBase) or value.device.is_gpu:
                return self._moved(value)
            out = empty(value.shape, dtype=float32 if value.dtype is float64 else value.dtype, device=self.device)
            pairs.append((out, value.detach().to(out.dtype)))
            return out
        return mapped(place, batch), uploads.submit(lambda: [upload_into(*pair) for pair in pairs])

    def _begun(self):
        """Workers, which are those of the last pass where they stay."""
        if self._workers is not None and not self._workers.closed:
            return self._workers
        workers = Threads(self.num_workers or 1, self._fetcher.start) if self.multiprocessing_context is None else Processes(
            self.num_workers, self._fetcher.start, self.multiprocessing_context, self.num_workers * self.prefetch_factor)
        if self.persistent_workers:
            self._workers = workers
            weakref.finalize(self, workers.dismiss)
        return workers

    def _placed(self, batch):
        """The batch as tensors on the loader's device."""
        if self._arrays or self.transform is not None:
            return mapped(self._tensor, batch)
        return batch if self.device is None else mapped(self._tensor, batch)

    def _tensor(self, value):
        return self._moved(self._host(value))

    def _host(self, value):
        """An array as a tensor."""
        if not isinstance(value, (np.ndarray, np.generic)):
            return value
        own = self.device is not None and self.device.is_gpu or self._arrays and self.transform is None         # else a user's array
        return _shared(value) if own else tensor(value, device="cpu")

    def _moved(self, value):
        if self.device is None or not isinstance(value, core.TensorBase):
            return value
        return value.to(self.device, float32 if self.device.is_gpu and value.dtype is float64 else value.dtype)

    # ------------------------------------------------------------ data on a GPU
    def _device_batches(self, plan):
        """Gathered where the data lives; the order goes up once an epoch."""
        tensors = self.dataset.tensors
        home = self.device or next(t.device for t in tensors if isinstance(t, core.TensorBase) and t.device.is_gpu)
        tensors = [(t if isinstance(t, core.TensorBase) else tensor(t)).detach().to(home) for t in tensors]
        batches = [indices for _, indices in plan]
        in_rows = type(self.sampler) is SequentialSampler and type(self.batch_sampler) is BatchSampler
        order = None if in_rows or not batches else tensor(np.concatenate(batches), device=home)
        start = batches[0][0] if in_rows and batches else 0
        for indices in batches:
            if order is None:
                batch = [clone(narrow(t, 0, start, len(indices))) for t in tensors]     # a view could be written to
            else:
                rows = narrow(order, 0, start, len(indices))
                batch = [index_select_op(t, rows, dim=0) for t in tensors]
            start += len(indices)
            yield batch[0] if self._single else batch


class _Seeded(Sampler[int]):
    """Orders by a loader's seed and epoch, as the loader's next pass has them."""

    def __init__(self, loader: DataLoader) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[int]:
        return iter(self.loader.order(self.loader.epoch).tolist())

    def __len__(self) -> int:
        return len(self.loader.dataset)


class _Endless(Sampler[None]):
    """What streams are asked by, until they end."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


_OWN = (type(None), BatchSampler, RandomSampler, SequentialSampler, _Seeded)        # draw from no generator of Python's or NumPy's


def _bytes_of(tensors, rows):
    """How large a batch is: a small one is made before a thread would have begun with it."""
    return sum((t.element_size() if isinstance(t, core.TensorBase) else t.itemsize) * math.prod(t.shape[1:]) for t in tensors) * rows


def _shared(array):
    """A tensor of the array's memory where it can be one, else of a copy."""
    try:
        return as_tensor(array, device="cpu")
    except (DTypeError, NumberError):                      # small and unsigned integers become larger ones
        return tensor(array, device="cpu")


def _context(given, num_workers):
    """The context that starts processes, None for threads. Raises: ArgumentError, TypeError."""
    if given is None:
        return None
    if not num_workers:
        raise ArgumentError("DataLoader: multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                            "num_workers=0")
    methods = multiprocessing.get_all_start_methods()
    if isinstance(given, str) and given not in methods:
        raise ArgumentError(f"DataLoader: multiprocessing_context option should specify a valid start method in {methods}, but got "
                            f"multiprocessing_context={given!r}")
    if not isinstance(given, (str, BaseContext)):
        raise TypeError("DataLoader: multiprocessing_context option should be a valid context object or a string specifying the start "
                        f"method, but got multiprocessing_context={given!r}")
    return multiprocessing.get_context(given) if isinstance(given, str) else given


def _check_exclusive(stream, batch_size, shuffle, sampler, batch_sampler, drop_last, seed):
    """Raise where options exclude one another."""
    for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler), ("seed", seed)):
        if stream and value is not None:
            raise ArgumentError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}")
    if sampler is not None and shuffle:
        raise ArgumentError("DataLoader: sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ArgumentError("DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_size is None and drop_last:
        raise ArgumentError("DataLoader: batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
