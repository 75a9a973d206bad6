"""Volta against PyTorch on the CPU, same threads, same process: per-op overhead, training steps, and single operations.

    python benchmarks/cpu_table.py [--threads N] [--only TEXT] [--rounds N]
"""
from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from layers import both_ways, calls
from models import training_step
from operations import families, goal
from timing import alternate, header, least_row, row

import volta

TURN, ASLEEP = 0.004, 0.008             # seconds


def chain(x, length: int):
    z = x
    for _ in range(length):
        z = z + x
    return z


def overhead(length: int = 1000) -> None:
    """`z = z + x` on 32x32 float32 with grad, and the backward of that chain. Units: microseconds per op."""
    xs = {"volta": volta.randn(32, 32, requires_grad=True), "torch": torch.randn(32, 32, requires_grad=True)}
    forward = alternate({k: lambda x=x: chain(x, length) for k, x in xs.items()}, rounds=25)

    def backward(x):
        x.grad = None
        chain(x, length).sum().backward()
    both = alternate({k: lambda x=x: backward(x) for k, x in xs.items()}, rounds=25)
    print(header("z = z + x, 32x32 float32 with grad, a chain of 1000", "us"))
    print(row("forward, per op", forward, unit=1e6 / length))
    print(row("forward + backward, per op", both, unit=1e6 / length))
    rest = {k: [b - f for b, f in zip(both[k], forward[k])] for k in both}
    print(row("backward alone, per op", rest, unit=1e6 / length))


def steps() -> None:
    """Whole training steps. Units: milliseconds."""
    print(header("training step (forward, cross-entropy, backward, Adam)", "ms"))
    for name, batch, rounds in (("mlp", 64, 25), ("mlp", 256, 25), ("mnist_cnn", 64, 25), ("resnet18 32x32", 16, 7),
                                ("char GPT 4x128", 16, 7), ("LSTM 128", 32, 15)):
        runs = {"volta": training_step(volta, name, batch, "cpu"), "torch": training_step(torch, name, batch, "cpu")}
        print(row(f"{name} batch {batch}", alternate(runs, rounds, inner=2)), flush=True)


def compare(label: str, ours, theirs, rounds: int) -> dict[str, list[float]]:
    """Check the results, then time in turns of a few milliseconds, the least of a turn. Before a turn, the other library's threads have
    gone to sleep."""
    a, b = ours().numpy(), theirs().detach().numpy()
    close = np.isclose(a, b, rtol=1e-3, atol=1e-4 * max(1.0, abs(b).max()))
    if close.mean() < 0.9999:           # which of equal elements comes first is free
        raise SystemExit(f"{label}: differs from PyTorch by {abs(a - b).max():.2e}")
    times: dict[str, list[float]] = {"volta": [], "torch": []}
    for _ in range(rounds):
        for name, function in (("volta", ours), ("torch", theirs)):
            time.sleep(ASLEEP)
            function()
            least, end = float("inf"), time.perf_counter() + TURN
            while (start := time.perf_counter()) < end:
                function()
                least = min(least, time.perf_counter() - start)
            times[name].append(least)
    return times


def operations(wanted: str, rounds: int) -> None:
    """Single operations, and those with their backward (+b). Units: milliseconds; ratios of speeds, with what is aimed at."""
    ratios: dict[str, float] = {}
    for title, found in ({"layers": calls(large=False)} | families()).items():
        chosen = [call for call in found if wanted in call[0]]
        if chosen:
            print(f"\n{title + ': least times, ratio torch / volta':42s} {'volta ms':>9s} {'torch ms':>9s}  ratio  [thirds]")
        for label, arguments, function in chosen:
            ours, theirs = both_ways(volta, "cpu", arguments, function), both_ways(torch, "cpu", arguments, function)
            for way, i in (("", 0), (" +b", 1))[:len(ours)]:
                times = compare(label + way, ours[i], theirs[i], rounds)
                ratios[label + way] = min(times["torch"]) / min(times["volta"])
                print(least_row(label + way, times, goal(label)), flush=True)
    low = sorted((ratio, label) for label, ratio in ratios.items() if ratio < 0.9)
    print(f"\n{len(ratios)} rows, geometric mean {np.exp(np.mean(np.log([*ratios.values()]))):.2f}; {len(low)} below 0.9:")
    for ratio, label in low:
        print(f"{ratio:6.2f}  {label}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", help="only single operations whose label has this text")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each operation")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    volta.set_num_threads(arguments.threads)
    print(f"threads: {arguments.threads}; volta {volta.__version__}; torch {torch.__version__}\n")
    if arguments.only is None:
        overhead()
        print()
        steps()
        print()
    operations(arguments.only or "", arguments.rounds)


if __name__ == "__main__":
    main()
