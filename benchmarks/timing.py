"""Fair timing on noisy machines: candidates take turns, and the table gives ratios with their spread."""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable

ASLEEP = 0.025                          # seconds after which the threads of the library that had its turn have stopped spinning


def alternate(candidates: dict[str, Callable[[], object]], rounds: int = 15, inner: int = 1, warmup: int = 3,
              sync: Callable[[], object] | None = None, asleep: float = 0.0) -> dict[str, list[float]]:
    """Seconds per call of each candidate, in `rounds` turns of `inner` calls; `sync` ends each turn, `asleep` seconds and one call more
    begin it."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for function in candidates.values():
        for _ in range(warmup):
            function()
    if sync:
        sync()
    for _ in range(rounds):
        for name, function in candidates.items():
            if asleep:
                time.sleep(asleep)
                function()
            start = time.perf_counter()
            for _ in range(inner):
                function()
            if sync:
                sync()
            times[name].append((time.perf_counter() - start) / inner)
    return times


def row(label: str, times: dict[str, list[float]], ours: str = "volta", theirs: str = "torch", unit: float = 1e3) -> str:
    """One line: both medians and the ratio ours / theirs (median, and the 10th to 90th percentile over the turns)."""
    a, b = times[ours], times[theirs]
    ratios = sorted(x / y for x, y in zip(a, b))
    low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
    return (f"{label:34s} {statistics.median(a) * unit:10.3f} {statistics.median(b) * unit:10.3f} "
            f"{statistics.median(ratios):7.2f}  [{low:.2f} - {high:.2f}]")


def least_row(label: str, times: dict[str, list[float]], goal: float | None, ours: str = "volta", theirs: str = "torch") -> str:
    """One line: the least times in milliseconds, the ratio theirs / ours of them, those of each third of the turns as its spread, and
    whether it reaches the goal. On a machine that others use, the least is what repeats."""
    a, b = times[ours], times[theirs]
    ratio = min(b) / min(a)
    thirds = sorted(min(b[i::3]) / min(a[i::3]) for i in range(3))
    aim = "" if goal is None else f"  {goal:.1f} {'reached' if ratio >= goal else 'MISSED'}"
    return f"{label:42s} {min(a) * 1e3:9.3f} {min(b) * 1e3:9.3f} {ratio:6.2f}  [{thirds[0]:.2f} - {thirds[2]:.2f}]{aim}"


def header(title: str, unit: str, ours: str = "volta", theirs: str = "torch") -> str:
    """The two lines above a table of `row`s."""
    return f"{title}\n{'':34s} {ours + ' ' + unit:>10s} {theirs + ' ' + unit:>10s} {'ratio':>7s}  [10% - 90%]"
