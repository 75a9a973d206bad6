"""Samplers: in which order a DataLoader asks for samples. Their draws are Volta's, the same on every machine."""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from volta.dtypes import float64
from volta.errors import ArgumentError, CallError, ShapeError
from volta.ops.creation import randint, randperm
from volta.ops.draws import multinomial
from volta.ops.from_data import as_tensor
from volta.random import Generator, block, default_generator

if TYPE_CHECKING:
    from volta.tensor import Tensor

T = TypeVar("T", covariant=True)


class Sampler(Generic[T]):
    """An order of samples: subclasses define `__iter__`, which gives indices or lists of them, and mostly `__len__`."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__}: define __iter__(self)")


class SequentialSampler(Sampler[int]):
    """0, 1, 2 and so on."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A new order every time, drawn from the generator; with `replacement` each index by itself.

    Raises: ArgumentError for a number of samples that is no positive integer; TypeError.
    """

    def __init__(self, data_source: Sized, replacement: bool = False, num_samples: int | None = None,
                 generator: Generator | None = None) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: replacement should be a boolean value, but got replacement={replacement}")
        self.data_source, self.replacement, self._num_samples, self.generator = data_source, replacement, num_samples, generator
        _check_count("RandomSampler", "num_samples", self.num_samples)
        check_generator("RandomSampler", generator)

    @property
    def num_samples(self) -> int:
        """How many indices it gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, count = len(self.data_source), self.num_samples
        if not size and count:
            raise ArgumentError(f"RandomSampler: there are no samples of which {count} could be drawn")
        generator = self.generator or Generator(draw_seed())
        while count > 0:
            part = min(count, size)
            yield from (randint(0, size, (part,), generator=generator, device="cpu") if self.replacement else
                        randperm(size, generator=generator, device="cpu")[:part]).tolist()
            count -= part

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[Any]):
    """These indices in a new order every time."""

    def __init__(self, indices: Sequence[Any], generator: Generator | None = None) -> None:
        check_generator("SubsetRandomSampler", generator)
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[Any]:
        return (self.indices[i] for i in randperm(len(self.indices), generator=self.generator, device="cpu").tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with probabilities in proportion to `weights`.

    Raises: ArgumentError for a number of samples that is no positive integer; ShapeError for weights that are no row.
    """

    def __init__(self, weights: Sequence[float] | Tensor, num_samples: int, replacement: bool = True,
                 generator: Generator | None = None) -> None:
        _check_count("WeightedRandomSampler", "num_samples", num_samples)
        _check_flag("WeightedRandomSampler", "replacement", replacement)
        check_generator("WeightedRandomSampler", generator)
        self.weights = as_tensor(weights, dtype=float64, device="cpu")
        if self.weights.ndim != 1:
            raise ShapeError("WeightedRandomSampler: weights should be a 1d sequence but given weights have shape "
                             f"{tuple(self.weights.shape)}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        return iter(multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; `drop_last` leaves out a shorter last one.

    >>> list(volta.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_count("BatchSampler", "batch_size", batch_size)
        _check_flag("BatchSampler", "drop_last", drop_last)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)                   # type: ignore[arg-type]    # what has no length raises
        return count // self.batch_size if self.drop_last else math.ceil(count / self.batch_size)


class DistributedSampler(Sampler[int]):
    """The part of one of `num_replicas` processes: every sample goes to one of them, and some to two where the number does not divide,
    unless `drop_last`. The order depends on `seed` and on the epoch that `set_epoch` was given.

    Raises: ArgumentError for a rank outside the replicas, or where either is not given: there is no process group to ask.
    """

    def __init__(self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True, seed: int = 0,
                 drop_last: bool = False) -> None:
        if num_replicas is None or rank is None:
            raise ArgumentError("DistributedSampler: give num_replicas and rank; Volta has no process group to ask for them")
        if not 0 <= rank < num_replicas:
            raise ArgumentError(f"DistributedSampler: Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.shuffle = dataset, num_replicas, rank, shuffle
        self.seed, self.drop_last, self.epoch = seed, drop_last, 0
        self.num_samples = len(dataset) // num_replicas if drop_last else math.ceil(len(dataset) / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = (randperm(count, generator=Generator(self.seed + self.epoch), device="cpu").tolist() if self.shuffle else
                 list(range(count)))
        return itertools.islice(itertools.cycle(order), self.rank, self.total_size, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """The epoch that the next iteration is."""
        self.epoch = epoch


def draw_seed(generator: Generator | None = None) -> int:
    """A seed for another generator, drawn from this one (the default generator)."""
    low, high, *_ = block(*(generator or default_generator).advance(2))
    return (high << 32 | low) & 0x7FFF_FFFF_FFFF_FFFF


def check_generator(name: str, generator: object) -> None:
    """Raises: CallError unless it is a generator or None."""
    if generator is not None and not isinstance(generator, Generator):
        raise CallError(f"{name}: generator must be a Generator or None, got {type(generator).__name__}")


def _check_count(name, argument, value):
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ArgumentError(f"{name}: {argument} should be a positive integer value, but got {argument}={value}")


def _check_flag(name, argument, value):
    if not isinstance(value, bool):
        raise ArgumentError(f"{name}: {argument} should be a boolean value, but got {argument}={value}")
