"""Workers that fetch batches ahead: how tasks are dealt and results put in order, and threads that work. Knows nothing of datasets: a
worker calls what it was given for each task. Processes that work are in `processes`.
"""
from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from volta.errors import ArgumentError, WorkerError, WorkerTimeoutError
from volta.random import default_generator

END = object()              # what a worker gives instead of a batch when its stream is over
_here = threading.local()


@dataclass
class WorkerInfo:
    """What a worker may ask of itself: its number, how many there are, the seed of its draws, and its dataset."""
    id: int
    num_workers: int
    seed: int
    dataset: Any


def be(info: WorkerInfo | None) -> None:
    """Say what `get_worker_info` gives in this thread."""
    _here.info = info


def get_worker_info() -> WorkerInfo | None:
    """What is known of the DataLoader's worker that calls; None outside of workers."""
    return getattr(_here, "info", None)


@dataclass
class Epoch:
    """One pass over an epoch: the seed of its workers' draws, the number and seed of its transform's, how many tasks it leaves out; its
    number among all passes of the workers, their number of task 0, and whether it has been left."""
    seed: int
    number: int
    chosen: int
    skipped: int = 0
    serial: int = 0
    zero: int = 0
    left: bool = False


class Workers:
    """What works beside the caller. Worker i takes tasks i, i + count, ..., so that who fetches what, and what it draws, does not depend
    on time."""

    def __init__(self, count: int) -> None:
        self.count, self.passes, self.dealt = count, 0, 0           # tasks dealt in all passes
        self.current: Pass | None = None
        self.closed = False

    def put(self, worker: int, epoch: Epoch, number: int, task: Any) -> None:
        """Give a worker a task."""
        raise NotImplementedError

    def take(self, timeout: float | None) -> tuple[int, Any, BaseException | None] | None:
        """The number of a task with its value or its error; None where none comes within some seconds."""
        raise NotImplementedError

    def dismiss(self) -> None:
        """Let the workers end, after what they are doing now."""
        raise NotImplementedError

    def close(self) -> None:
        """End the workers."""
        raise NotImplementedError


class Pass(Iterator[Any]):
    """The batches of the tasks in `plan`, of which `ahead` are worked on at any time. An exception in a worker reaches the caller in the
    place of its result."""

    def __init__(self, workers: Workers, plan: Iterator[Any], ahead: int, epoch: Epoch, in_order: bool = True, timeout: float = 0) -> None:
        if workers.current is not None:
            workers.current.close()
        workers.passes += 1
        workers.current, epoch.serial, epoch.zero = self, workers.passes, workers.dealt - epoch.skipped
        self._workers, self._plan, self._epoch, self._in_order, self._timeout = workers, plan, epoch, in_order, timeout
        self._working = list(range(workers.count))
        self._given: dict[int, int] = {}            # the worker of each task
        self._ready: dict[int, Any] = {}
        for _ in range(ahead):
            self._give()

    def __next__(self) -> Any:
        while self._given:
            while (wanted := self._wanted()) not in self._ready:
                if not self._receive(self._timeout or None):
                    raise WorkerTimeoutError(f"DataLoader timed out after {self._timeout} seconds")
            (value, error), worker = self._ready.pop(wanted), self._given.pop(wanted)
            if isinstance(error, StopIteration):        # which would end the loop in silence
                raise WorkerError(f"DataLoader: the dataset raised StopIteration in worker {worker}") from error
            if error is not None:
                raise error
            if value is END:
                self._working.remove(worker) if worker in self._working else None
            self._give()
            if value is not END:
                return value
        raise StopIteration

    def has_next(self) -> bool:
        """Whether the next batch can be had without waiting."""
        while self._given:
            if (wanted := self._wanted()) in self._ready:
                value, error = self._ready[wanted]
                return value is not END and error is None
            if not self._receive(0):
                return False
        return False

    def close(self) -> None:
        """Drop what has not been given out."""
        self._epoch.left = True
        self._ready.clear()

    def _give(self) -> None:
        workers = self._workers
        if self._working and (task := next(self._plan, END)) is not END:
            worker = self._working[(workers.dealt - self._epoch.zero) % len(self._working)]
            self._given[workers.dealt] = worker
            workers.put(worker, self._epoch, workers.dealt, task)
            workers.dealt += 1

    def _wanted(self) -> int:
        return next(iter(self._given if self._in_order or not self._ready else self._ready))

    def _receive(self, timeout: float | None) -> bool:
        if self._epoch.left:
            raise ArgumentError("DataLoader: another pass over its persistent workers has begun; this one cannot go on")
        if (result := self._workers.take(timeout)) is None:
            return False
        number, *found = result
        if number in self._given:                   # else it is late, of a pass that was left
            self._ready[number] = found
        return True


class Threads(Workers):
    """Workers that are threads. `start(number, epoch, new)` is called in each when an epoch begins, and gives what fetches the batch of
    a task."""

    def __init__(self, count: int, start: Callable[[int, Epoch, bool], Callable[[Any], Any]]) -> None:
        super().__init__(count)
        self.tasks: list[queue.SimpleQueue] = [queue.SimpleQueue() for _ in range(count)]
        self.results: queue.SimpleQueue = queue.SimpleQueue()
        self.threads = [threading.Thread(target=work, args=(i, tasks.get, self.results.put, start), name="volta-data", daemon=True)
                        for i, tasks in enumerate(self.tasks)]
        for thread in self.threads:
            thread.start()

    def put(self, worker: int, epoch: Epoch, number: int, task: Any) -> None:
        self.tasks[worker].put((epoch, number, task))

    def take(self, timeout: float | None) -> tuple[int, Any, BaseException | None] | None:
        try:
            return self.results.get(timeout != 0, timeout)
        except queue.Empty:
            return None

    def dismiss(self) -> None:
        for tasks in self.tasks:
            tasks.put(None)

    def close(self) -> None:
        self.closed = True
        self.dismiss()
        for thread in self.threads:
            thread.join()


def work(number: int, get: Callable[[], Any], put: Callable[[Any], None],
         start: Callable[[int, Epoch, bool], Callable[[Any], Any]]) -> None:
    """What a worker does: tasks are got until None comes, results put."""
    current = fetch = None
    while (given := get()) is not None:
        epoch, task_number, task = given
        if epoch.left:
            continue
        try:
            if epoch.serial != current:
                default_generator.own(epoch.seed + number)
                fetch, current = start(number, epoch, current is None), epoch.serial
            default_generator.offset = task_number - epoch.zero + 1 << 32      # what a task draws depends on its number in the epoch alone
            put((task_number, fetch(task), None))
        except BaseException as error:      # everything, or the caller would wait for ever
            error.add_note(f"(in worker {number} of a DataLoader)")
            put((task_number, None, error))
        del given, task
