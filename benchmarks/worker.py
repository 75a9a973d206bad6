"""A process that does training steps when it is told to: python benchmarks/worker.py LIBRARY STEP BATCH OPTIMIZER THREADS

After "ready", or "none" where the library has no such step, every line of the input asks for so many steps and is answered by the seconds
of one; after the last one comes the most memory that the process has had beyond what it had after its imports. Units: MiB.
"""
from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path


def own_cores(count: int) -> set[int]:
    """The first `count` processors that this process may use, on cores of their own as long as there are such."""
    def twins(cpu: int) -> str:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        return path.read_text() if path.exists() else str(cpu)
    found = sorted(os.sched_getaffinity(0))
    first = {twins(cpu): cpu for cpu in reversed(found)}
    return set(sorted(found, key=lambda cpu: (first[twins(cpu)] != cpu, cpu))[:count])


def memory(kind: str) -> float:
    """What the process has now (VmRSS), or the most that it has had (VmHWM). Units: MiB."""
    found = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(kind))
    return int(found.split()[1]) / 1024


def make(library: str, name: str, batch: int, optimizer: str, threads: int) -> tuple[Callable | None, float]:
    """(the step, the memory before it was made)"""
    if library == "jax":
        os.sched_setaffinity(0, own_cores(threads))           # the only limit that XLA's threads know; before they are started
        os.environ["JAX_PLATFORMS"] = "cpu"
        try:
            steps = importlib.import_module("jax_steps")
        except ImportError:
            return None, 0.0
        return steps.jitted_step(name, batch, optimizer), memory("VmRSS")
    lib = importlib.import_module(library)
    lib.set_num_threads(threads)
    lib.manual_seed(0)
    example = name.endswith(".py")
    steps = importlib.import_module("example_steps" if example else "models")
    before = memory("VmRSS")
    return (steps.example_step(lib, name, batch) if example else steps.training_step(lib, name, batch, "cpu", optimizer)), before


def main() -> None:
    library, name, batch, optimizer, threads = sys.argv[1:]
    step, before = make(library, name, int(batch), optimizer, int(threads))
    if step is None:
        print("none", flush=True)
        return
    step()
    print("ready", flush=True)
    for line in sys.stdin:
        step()                          # wakes the threads, which have slept while others had their turn
        count, start = int(line), time.perf_counter()
        for _ in range(count):
            step()
        print((time.perf_counter() - start) / count, flush=True)
    print(memory("VmHWM") - before)


if __name__ == "__main__":
    main()
