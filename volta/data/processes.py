"""Workers that are processes, for Python code that holds the interpreter's lock. They touch host memory only.

Each has a pipe of its own in each direction, so that one that is killed breaks nothing of the others; a pipe carries few bytes, batches
lie in shared memory (`shared`).
"""
from __future__ import annotations

import os
import pickle
import queue
import random
import signal
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection, parent_process, resource_tracker
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np

from volta._kernels.core.threads import set_num_threads
from volta.data.shared import drop, pack, unpack
from volta.data.workers import END, Epoch, Workers, work
from volta.errors import ArgumentError, WorkerError

_PATIENCE = 5.0             # seconds that workers have to end what they are doing


class Processes(Workers):
    """Workers that are processes, started as `context` does it. `start` is as for threads; `ahead` results may lie unread.

    Raises: ArgumentError where something cannot be sent to them; WorkerError for one that died.
    """

    def __init__(self, count: int, start: Callable[[int, Epoch, bool], Callable[[Any], Any]], context: BaseContext, ahead: int) -> None:
        super().__init__(count)
        self._token = f"volta{os.getpid():x}{os.urandom(4).hex()}"       # with a task's number at most 30 characters: macOS takes no more
        self._unread: set[int] = set()
        self._tasks: list[connection.Connection] = []
        self._results: list[connection.Connection] = []
        self.processes: list[Any] = []
        if os.name == "posix":
            resource_tracker.ensure_running()           # before a fork: all processes are to share it
        self._end = weakref.finalize(self, _end, os.getpid(), self.processes, self._tasks, self._results, self._unread, self._token)
        for i in range(count):
            tasks, self_tasks = context.Pipe(duplex=False)
            self_results, results = context.Pipe(duplex=False)
            process = context.Process(  # type: ignore[attr-defined]  (typeshed's BaseContext has none, each of its kinds has)
                target=_main, args=(i, tasks, results, start, self._token, ahead), name=f"volta-data-{i}", daemon=True)
            try:
                process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                self.close()
                raise ArgumentError(f"DataLoader: processes started by {context.get_start_method()!r} need a dataset, collate_fn, "
                                    f"worker_init_fn and transform that can be pickled, and one cannot: {error}; define it at the top of "
                                    "a module, or leave multiprocessing_context out, for threads") from error
            finally:
                tasks.close()
                results.close()
            self.processes.append(process)
            self._tasks.append(self_tasks)
            self._results.append(self_results)

    def put(self, worker: int, epoch: Epoch, number: int, task: Any) -> None:
        self._unread.add(number)
        with suppress(BrokenPipeError):                 # `take` tells of a worker that died
            self._tasks[worker].send((epoch, number, task))

    def take(self, timeout: float | None) -> tuple[int, Any, BaseException | None] | None:
        ready = connection.wait([*self._results, *(process.sentinel for process in self.processes)], timeout)
        for results in self._results:
            if results in ready:
                with suppress(EOFError, ConnectionError):
                    number, kind, message = results.recv()
                    self._unread.discard(number)
                    value = unpack(message, f"{self._token}{number:x}")
                    return (number, END if kind == "end" else None, None) if kind == "end" else (
                        (number, None, value) if kind == "error" else (number, value, None))
        for process in self.processes:
            if process.sentinel in ready:
                raise self._died(process)
        return None

    def dismiss(self) -> None:
        self.close()

    def close(self) -> None:
        self.closed = True
        self._end()

    def _died(self, process: Any) -> WorkerError:
        process.join()
        self.close()
        if process.exitcode >= 0:
            return WorkerError(f"DataLoader worker (pid {process.pid}) exited unexpectedly with exit code {process.exitcode}")
        name = signal.strsignal(-process.exitcode) or str(-process.exitcode)
        hint = " Its shared memory may be too small: enlarge /dev/shm, or use threads." if "us error" in name else ""
        return WorkerError(f"DataLoader worker (pid {process.pid}) is killed by signal: {name}.{hint}")


def _end(owner, processes, tasks, results, unread, token):
    """End the processes and remove what they have left. In a forked child they are not its own."""
    if os.getpid() != owner:
        return
    for pipe in tasks:
        with suppress(OSError):
            pipe.send(None)
    deadline = time.monotonic() + _PATIENCE
    for process in processes:
        process.join(max(deadline - time.monotonic(), 0))
        if process.exitcode is None:
            process.terminate()
            process.join(1)
        if process.exitcode is None:
            process.kill()
            process.join()
    for pipe in (*tasks, *results):
        pipe.close()
    for number in unread:
        drop(f"{token}{number:x}")


# ---------------------------------------------------------------- in a worker
def _main(number, tasks, results, start, token, ahead):
    signal.signal(signal.SIGINT, signal.SIG_IGN)        # the caller is interrupted too, and ends its workers
    set_num_threads(1)
    inbox = _Inbox(tasks)
    kept: deque = deque(maxlen=ahead if os.name == "nt" else 0)     # Windows drops blocks that nobody has open

    def begin(number, epoch, new):
        _seed(epoch, number, 0)
        fetch = start(number, epoch, new)

        def seeded(task):
            _seed(epoch, number, 1 + task[0])
            return fetch(task)
        return seeded

    def send(result):
        task, value, error = result
        kind = "error" if error is not None else "end" if value is END else "batch"
        name = f"{token}{task:x}"
        message, block = pack(_portable(error, number) if error is not None else None if value is END else value, name)
        with suppress(BrokenPipeError):                 # nobody waits for it
            results.send((task, kind, message))
        if block is not None:
            kept.append(block)

    work(number, inbox.get, send, begin)


def _seed(epoch, number, purpose):
    """Seed Python's and NumPy's generators by the worker and the task."""
    words = np.random.SeedSequence([epoch.seed, number, purpose]).generate_state(4)
    random.seed(words.tobytes())
    np.random.seed(words)


class _Inbox:
    """Tasks as they come, read by a thread: the caller never waits until a worker reads, and its death ends the worker."""

    def __init__(self, tasks: connection.Connection) -> None:
        self._tasks, self._queue, self._newest = tasks, queue.SimpleQueue(), 0
        threading.Thread(target=self._read, daemon=True).start()

    def get(self) -> Any:
        """The next task of the newest pass; None is the end."""
        while (given := self._queue.get()) is not None and given[0].serial < self._newest:
            pass
        return None if self._newest < 0 else given

    def _read(self):
        parent = parent_process()
        while True:
            connection.wait([self._tasks, parent.sentinel])
            try:
                given = self._tasks.recv() if self._tasks.poll() else os._exit(1)
            except (EOFError, OSError):
                os._exit(1)
            self._newest = -1 if given is None else given[0].serial
            self._queue.put(given)
            if given is None:
                return


def _portable(error, number):
    """The error with its traceback as a note, as another process can read it."""
    text = f"Caught {type(error).__name__} in DataLoader worker process {number}.\nOriginal " + "".join(traceback.format_exception(error))
    try:
        error.add_note(text)
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:           # whatever a class of errors does
        return WorkerError(text)
