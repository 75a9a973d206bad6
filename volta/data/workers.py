"""Threads that fetch batches ahead. Knows nothing of datasets: a worker calls what it was given for each task."""
from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from volta.errors import ArgumentError, WorkerTimeoutError
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


class Epoch:
    """One pass: the seed of its workers' draws, the seed and number of its transform's, its results, and whether it has been left."""

    def __init__(self, seed: int, number: int, chosen: int | None) -> None:
        self.seed, self.number, self.chosen = seed, number, seed if chosen is None else chosen
        self.results: queue.SimpleQueue = queue.SimpleQueue()
        self.left = False


class Workers:
    """`count` threads. `start(number, epoch)` is called in each when an epoch begins, and gives what fetches the batch of a task.

    Worker i takes tasks i, i + count, ..., so that who fetches what, and what it draws, does not depend on time.
    """

    def __init__(self, count: int, start: Callable[[int, Epoch], Callable[[Any], Any]]) -> None:
        self.tasks: list[queue.SimpleQueue] = [queue.SimpleQueue() for _ in range(count)]
        self.epoch: Epoch | None = None
        self.threads = [threading.Thread(target=_work, args=(i, tasks, start), name="volta-data", daemon=True)
                        for i, tasks in enumerate(self.tasks)]
        for thread in self.threads:
            thread.start()

    def batches(self, plan: Iterator[Any], ahead: int, epoch: Epoch, in_order: bool = True, timeout: float = 0) -> Iterator[Any]:
        """The batches of the tasks in `plan`, of which `ahead` are worked on at any time. An exception in a worker reaches the caller in
        the place of its result. Leaving the loop early drops the rest."""
        if self.epoch is not None:
            self.epoch.left = True
        self.epoch, working, number, given, ready = epoch, list(range(len(self.tasks))), 0, {}, {}

        def give():
            nonlocal number
            if working and (task := next(plan, END)) is not END:
                worker = working[number % len(working)]
                self.tasks[worker].put((epoch, number, task))
                given[number], number = worker, number + 1

        try:
            for _ in range(ahead):
                give()
            while given:
                wanted = next(iter(given)) if in_order or not ready else next(iter(ready))
                while wanted not in ready:
                    _receive(epoch, ready, timeout)
                    wanted = wanted if in_order else next(iter(ready), wanted)
                (value, error), worker = ready.pop(wanted), given.pop(wanted)
                if error is not None:
                    raise error
                if value is END:
                    working = [w for w in working if w != worker]
                give()
                if value is not END:
                    yield value
                del value
        finally:
            epoch.left = True

    def dismiss(self) -> None:
        """Let the threads end, after what they are doing now."""
        for tasks in self.tasks:
            tasks.put(None)

    def close(self) -> None:
        """End the threads."""
        self.dismiss()
        for thread in self.threads:
            thread.join()


def _receive(epoch, ready, timeout):
    if epoch.left:
        raise ArgumentError("DataLoader: another pass over its persistent workers has begun; this one cannot go on")
    try:
        number, *ready_result = epoch.results.get(timeout=timeout or None)
    except queue.Empty:
        raise WorkerTimeoutError(f"DataLoader timed out after {timeout} seconds") from None
    ready[number] = ready_result


def _work(number, tasks, start):
    current = fetch = None
    while (given := tasks.get()) is not None:
        epoch, task_number, task = given
        if epoch.left:
            continue
        try:
            if epoch is not current:
                default_generator.own(epoch.seed + number)
                fetch, current = start(number, epoch), epoch
            epoch.results.put((task_number, fetch(task), None))
        except BaseException as error:      # everything, or the caller would wait for ever
            error.add_note(f"(in worker {number} of a DataLoader)")
            epoch.results.put((task_number, None, error))
        del given, task
