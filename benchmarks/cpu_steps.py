"""Training steps of Volta, PyTorch and jitted JAX, each in a process of its own, in turns: their times, and the memory that they take."""
from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from timing import ASLEEP

LIBRARIES = ("volta", "torch", "jax")
STEPS = (("mlp", 64, "adam"), ("mlp", 256, "adam"), ("mnist_cnn", 64, "adam"), ("resnet18 32x32", 16, "adam"),
         ("char GPT 4x128", 16, "adam"), ("LSTM 128", 32, "adam"), ("mlp", 64, "sgd"), ("mnist_cnn", 64, "sgd"),
         ("resnet18 32x32", 16, "sgd"), ("char_gpt.py", 32, "adam"), ("char_lstm.py", 32, "adam"), ("dcgan.py", 64, "adam"),
         ("regression.py", 64, "adam"), ("reinforce.py", 64, "adam"), ("resnet_cifar.py", 32, "sgd"), ("super_resolution.py", 16, "adam"),
         ("train_digits.py", 64, "adam"), ("vae.py", 64, "adam"))
TURN = 0.08                             # seconds


class Worker:
    """A process with one training step of one library (worker.py)."""

    def __init__(self, library: str, step: tuple[str, int, str], threads: int) -> None:
        arguments = [sys.executable, str(Path(__file__).with_name("worker.py")), library, *map(str, step), str(threads)]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
        self.process = subprocess.Popen(arguments, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.count = 1

    def begin(self) -> bool:
        """Wait for it; false if its library has no such step."""
        answer = self.process.stdout.readline().strip()
        if answer not in ("ready", "none"):
            raise SystemExit(f"{' '.join(self.process.args[1:])} failed")
        if answer == "ready":
            self.turn()
            self.count = max(1, min(50, round(TURN / self.turn())))
        return answer == "ready"

    def ask(self) -> None:
        self.process.stdin.write(f"{self.count}\n")
        self.process.stdin.flush()

    def turn(self) -> float:
        """Seconds of one step, in a turn of some."""
        time.sleep(ASLEEP)
        self.ask()
        return self.answer()

    def answer(self) -> float:
        return float(self.process.stdout.readline())

    def end(self) -> float:
        """The most memory that it has had. Units: MiB."""
        return float(self.process.communicate()[0] or "nan")


def started(libraries: tuple[str, ...], step: tuple[str, int, str], threads: int) -> dict[str, Worker]:
    """Those of the libraries that have such a step, ready."""
    workers = {library: Worker(library, step, threads) for library in libraries}
    return {library: worker for library, worker in workers.items() if worker.begin()}


def ratio(times: dict[str, list[float]], library: str) -> str:
    """How many times as long the other library takes, by the least times, with the spread over thirds of the turns."""
    ours, theirs = times["volta"], times.get(library)
    if not theirs:
        return f"{'-':>6s}{'':15s}"
    thirds = sorted(min(theirs[i::3]) / min(ours[i::3]) for i in range(3))
    return f"{min(theirs) / min(ours):6.2f}  [{thirds[0]:.2f} - {thirds[2]:.2f}]"


def label_of(step: tuple[str, int, str]) -> str:
    name, batch, optimizer = step
    return f"{name} batch {batch}" + (" SGD" if optimizer == "sgd" and not name.endswith(".py") else "")


def steps(threads: int, rounds: int, wanted: str) -> Iterator[tuple[str, float]]:
    """Print a row for each step; gives (label, ratio to PyTorch)."""
    print("training steps: least times in ms, ratios of theirs to ours, most memory beyond the imports in MiB\n"
          f"{'':30s} {'volta':>9s} {'torch':>9s} {'jax':>9s} {'torch / volta':>20s} {'jax / volta':>21s}"
          f" {'volta':>8s} {'torch':>6s} {'jax':>6s}")
    for step in STEPS:
        label = label_of(step)
        if wanted not in label:
            continue
        workers = started(LIBRARIES, step, threads)
        times: dict[str, list[float]] = {library: [] for library in workers}
        for _ in range(rounds):
            for library, worker in workers.items():
                times[library].append(worker.turn())
        memory = {library: worker.end() for library, worker in workers.items()}
        least = [f"{min(times[library]) * 1e3:9.3f}" if library in times else f"{'-':>9s}" for library in LIBRARIES]
        taken = [f"{memory[library]:6.0f}" if library in memory else f"{'-':>6s}" for library in LIBRARIES]
        print(f"{label:30s} {' '.join(least)} {ratio(times, 'torch')} {ratio(times, 'jax')}   {' '.join(taken)}", flush=True)
        yield label, min(times["torch"]) / min(times["volta"])


def crowded(threads: int, rounds: int) -> None:
    """More threads than processors, and two processes side by side: how many times as long as alone with as many threads as asked for."""
    processors = len(os.sched_getaffinity(0))
    print(f"\ncrowded: median times over those of one process with {threads} threads\n{'':52s} {'volta':>7s} {'torch':>7s}")
    for step in (("mlp", 64, "adam"), ("mnist_cnn", 64, "adam"), ("char GPT 4x128", 16, "adam")):
        lost: dict[str, list[float]] = {}
        for library in ("volta", "torch"):
            alone = median(started((library,), step, threads), rounds)
            lost[library] = [median(started((library,), step, count), rounds) / alone for count in (2 * processors, 4 * processors)]
            pair = {str(i): started((library,), step, threads)[library] for i in range(2)}
            lost[library].append(median(pair, rounds) / alone)
        for title, ours, theirs in zip((f"{2 * processors} threads", f"{4 * processors} threads", "two processes"), *lost.values()):
            print(f"{label_of(step) + ', ' + title + f' on {processors} processors':52s} {ours:7.2f} {theirs:7.2f}", flush=True)


def median(workers: dict[str, Worker], rounds: int) -> float:
    """Median seconds of a step while all of these work at once."""
    times = []
    for _ in range(rounds):
        for worker in workers.values():
            worker.ask()
        times += [worker.answer() for worker in workers.values()]
    for worker in workers.values():
        worker.end()
    return statistics.median(times)
