"""Volta against PyTorch on the CPU, same threads: per-op overhead, training steps (beside JAX where it is installed), optimizers, single
operations, a table of other shapes, how times grow with sizes, threads and company, and a summary. Operations under the floor take AGAIN
times as many turns more at the end, when what else the machine did is over; all turns count.

    python benchmarks/cpu_table.py [--threads N] [--part NAME ...] [--family NAME ...] [--only TEXT] [--rounds N] [--seed N]
"""
from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import cpu_optimizers
import cpu_sizes
import cpu_steps
import held_out
import numpy as np
import torch
from layers import both_ways, calls, sampled
from operations import families, goal
from timing import ASLEEP, least_row

import volta

PARTS = ("overhead", "steps", "optimizers", "operations", "held-out", "sizes", "scaling", "crowded")
TURN = 0.004                            # seconds
LEAST = 3                               # calls in a turn: a thread that wakes up beside the one that waits for it takes a whole turn
AGAIN = 3


@dataclass(slots=True)
class Row:
    """A call of both libraries and the least times of its turns. Units: seconds."""
    label: str
    functions: tuple | None             # ours, theirs; None once they are timed enough, for they hold their arguments
    times: dict[str, list[float]]

    @property
    def ratio(self) -> float:
        return min(self.times["torch"]) / min(self.times["volta"])

    def print(self) -> None:
        print(least_row(self.label, self.times, goal(self.label)), flush=True)


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
            least, end, calls = float("inf"), time.perf_counter() + TURN, 0
            while (start := time.perf_counter()) < end or calls < LEAST:
                function()
                least, calls = min(least, time.perf_counter() - start), calls + 1
            times[name].append(least)
    return times


def print_title(title: str) -> None:
    print(f"\n{title + ': least times, ratio torch / volta':42s} {'volta ms':>9s} {'torch ms':>9s}  ratio  [thirds]")


def timed_row(label: str, ours, theirs, rounds: int, floor: float) -> Row:
    row = Row(label, (ours, theirs), compare(label, ours, theirs, rounds))
    row.print()
    if row.ratio >= floor:
        row.functions = None
    return row


def time_again(rows: list[Row], rounds: int) -> None:
    """More turns for the rows that are under the floor."""
    low = [row for row in rows if row.functions]
    if low:
        print_title("once more")
    for row in low:
        for name, seconds in compare(row.label, *row.functions, AGAIN * rounds).items():
            row.times[name] += seconds
        row.print()


def chosen_families(found: dict, names: list[str] | None) -> dict:
    """The families whose titles have one of the names; all for None."""
    return {title: family for title, family in found.items() if names is None or any(name in title for name in names)}


def operations(found: dict, wanted: str, rounds: int, floor: float) -> list[Row]:
    """Single operations, and those with their backward (+b). Units: milliseconds; ratios of speeds, with what is aimed at."""
    rows: list[Row] = []
    for title, family in found.items():
        chosen = [call for call in family if wanted in call[0]]
        if chosen:
            print_title(title)
        for label, arguments, function in chosen:
            ours, theirs = both_ways(volta, "cpu", arguments, function), both_ways(torch, "cpu", arguments, function)
            rows += [timed_row(label + way, ours[i], theirs[i], rounds, floor) for way, i in (("", 0), (" +b", 1))[:len(ours)]]
    return rows


def optimizers(wanted: str, rounds: int, floor: float) -> list[Row]:
    chosen = [found for found in cpu_optimizers.optimizers(volta) if wanted in found[0]]
    if chosen:
        print_title("optimizers, one step")
    return [timed_row(label, *(cpu_optimizers.stepping(lib, name, shapes) for lib in (volta, torch)), rounds, floor)
            for label, name, shapes in chosen]


def summary(title: str, ratios: dict[str, float], floor: float) -> None:
    """The geometric mean of the ratios, and the rows below the floor."""
    low = sorted((ratio, label) for label, ratio in ratios.items() if ratio < floor)
    print(f"\n{title}: {len(ratios)} rows, geometric mean {np.exp(np.mean(np.log([*ratios.values()]))):.2f}; {len(low)} below {floor}:")
    for ratio, label in low:
        print(f"{ratio:6.2f}  {label}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--part", nargs="+", choices=PARTS, help="only these parts")
    parser.add_argument("--family", nargs="+", help="of operations and the held-out table, only families with these words in their titles")
    parser.add_argument("--only", default="", help="only steps, optimizers and operations whose label has this text")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each row, at least 3")
    parser.add_argument("--seed", type=int, default=0, help="of the held-out table's shapes")
    options = parser.parse_args()
    options.rounds = max(3, options.rounds)
    torch.set_num_threads(options.threads)
    volta.set_num_threads(options.threads)
    print(f"threads: {options.threads}; volta {volta.__version__}; torch {torch.__version__}")
    parts = options.part or (("steps", "optimizers", "operations", "held-out") if options.only else PARTS)
    floor = 0.9 if options.threads <= 2 else 0.7
    rows: dict[str, list[Row]] = {}
    steps: dict[str, float] = {}
    if "overhead" in parts:
        cpu_sizes.overhead(options.rounds)
    if "steps" in parts:
        steps = dict(cpu_steps.steps(options.threads, options.rounds, options.only))
    if "optimizers" in parts:
        rows["optimizers"] = optimizers(options.only, options.rounds, floor)
    if "operations" in parts:
        every = {"layers": calls(large=False), "sampling": sampled(large=False)} | families()
        rows["operations"] = operations(chosen_families(every, options.family), options.only, options.rounds, floor)
    if "held-out" in parts:
        rows["held out"] = operations(chosen_families(held_out.families(options.seed), options.family), options.only, options.rounds, floor)
    if "sizes" in parts:
        cpu_sizes.sizes()
    if "scaling" in parts:
        cpu_sizes.scaling(options.threads)
    if "crowded" in parts:
        cpu_steps.crowded(options.threads, options.rounds)
    time_again([row for part in rows.values() for row in part], options.rounds)
    ratios = {"training steps": steps} | {title: {row.label: row.ratio for row in part} for title, part in rows.items()}
    for title in filter(ratios.get, ratios):
        summary(title, ratios[title], floor)


if __name__ == "__main__":
    main()
