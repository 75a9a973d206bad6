"""Work done ahead in one thread. Knows nothing of data."""
from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator


def ahead(work: Callable[[int], object], count: int, depth: int) -> Iterator:
    """work(0), work(1), ... work(count - 1), up to `depth` results made ahead by a thread. An exception in `work` reaches the
    caller in the place of its result. Leaving the loop early stops the thread."""
    if depth == 0 or count == 0:
        yield from map(work, range(count))
        return
    results: queue.Queue = queue.Queue(depth)
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=(work, count, results, stop), name="volta-data", daemon=True)
    thread.start()
    try:
        for _ in range(count):
            value, error = results.get()
            if error is not None:
                raise error
            yield value
            del value
    finally:
        stop.set()
        while not results.empty():
            results.get_nowait()            # room for the result that the thread may be waiting to put
        thread.join()


def _run(work, count, results, stop):
    for number in range(count):
        try:
            result = work(number), None
        except BaseException as error:      # everything, or the caller would wait for ever
            result = None, error
        if stop.is_set():
            return
        results.put(result)
        if result[1] is not None:
            return
