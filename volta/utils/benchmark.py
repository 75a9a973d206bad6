"""Timing of small pieces of code, under the names of torch.utils.benchmark: a GPU is waited for, threads are as many as are asked for, and
results print side by side."""
from __future__ import annotations

import math
import statistics
import timeit
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import volta
from volta import gpu
from volta.errors import ArgumentError

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "ordered_unique", "select_unit", "timer", "trim_sigfig", "unit_to_english"]

_CLOCK = 25e-9          # what a clock is uncertain by. Units: seconds
_UNITS = (("ns", "nanosecond", 1e-9), ("us", "microsecond", 1e-6), ("ms", "millisecond", 1e-3), ("s", "second", 1.0))


def timer() -> float:
    """The time when all that was asked of GPUs is done. Units: seconds."""
    if gpu.in_use():
        gpu.synchronize()
    return perf_counter()


def select_unit(t: float) -> tuple[str, float]:
    """The unit that a time reads best in, and how long that is. Units: seconds."""
    place = min(max(math.floor(math.log10(t) / 3) + 3, 0), 3) if t > 0 else 0
    return _UNITS[place][0], _UNITS[place][2]


def unit_to_english(u: str) -> str:
    """The word for a unit's symbol."""
    return {symbol: word for symbol, word, _ in _UNITS}[u]


def trim_sigfig(x: float, n: int) -> float:
    """`x` rounded to `n` significant digits."""
    return float(f"{x:.{n - 1}e}") if x else 0.0


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Each element once, where it comes first."""
    return list(dict.fromkeys(elements))


@dataclass(frozen=True)
class TaskSpec:
    """What was timed."""
    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the code."""
        return f"{self.label or self.stmt}{f': {self.sub_label}' if self.label and self.sub_label else ''}"


@dataclass(init=True, repr=False)
class Measurement:
    """Times of `number_per_run` runs each. Units: seconds."""
    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "task_spec" or not hasattr(self.task_spec, name):
            raise AttributeError(f"a Measurement has no attribute {name!r}")
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Of one run. Units: seconds."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """Units: seconds a run."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """Units: seconds a run."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """How far the middle half of the times spreads. Units: seconds a run."""
        ordered = sorted(self.times)

        def quantile(share):
            place = share * (len(ordered) - 1)
            low = math.floor(place)
            return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (place - low)
        return quantile(0.75) - quantile(0.25)

    @property
    def significant_figures(self) -> int:
        """Digits of the median that are certain with 90 %, by the middle half of the times: 1 to 4."""
        ordered, n = sorted(self.times), len(self.times)
        middle = ordered[n // 4:math.ceil(3 * n / 4)]
        spread = max(1.645 * statistics.pstdev(middle) / math.sqrt(len(middle)), _CLOCK)
        return min(max(math.floor(-math.log10(spread / self.median)), 1), 4)

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread by more than a tenth of their median."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the middle half of the times spreads by less than this share of their median."""
        return self.iqr / self.median < threshold

    @property
    def as_row_name(self) -> str:
        """What stands before its row in a table."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Measurements of the same as one each, of times of one run."""
        tasks: dict[TaskSpec, list[float]] = {}
        for each in measurements:
            tasks.setdefault(each.task_spec, []).extend(each.times)
        return [Measurement(1, times, task) for task, times in tasks.items()]

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        task, runs, several = self.task_spec, len(self.raw_times), self.number_per_run > 1
        lines = [task.title, *[task.description] * bool(task.description), *[f"setup: {task.setup}"] * (task.setup not in ("", "pass")),
                 f"  {'Median: ' * (runs > 1)}{self.median / size:.2f} {unit}"]
        if runs > 1:
            lines.append(f"  IQR:    {self.iqr / size:.2f} {unit}")
        lines.append(f"  {runs} measurement{'s' * (runs > 1)}, {self.number_per_run} run{'s' * several} per measurement, "
                     f"{task.num_threads} thread{'s' * (task.num_threads > 1)}")
        if runs > 1 and self.has_warnings:
            lines.append(f"  WARNING: the middle half of the times spreads by {self.iqr / self.median:.1%} of the median")
        return "\n".join(lines)


class Timer:
    """Times a statement, given as text, with the names of `globals`.

    Raises: ArgumentError for another language than Python's, and for code that is not text.
    """

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
                 globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
                 description: str | None = None, env: str | None = None, num_threads: int = 1, language: str = "python") -> None:
        if str(language).lower() not in ("py", "python"):
            raise ArgumentError(f"Timer: times Python's code only, got language={language!r}")
        if global_setup:
            raise ArgumentError("Timer: global_setup is of C++; put it into setup")
        if not isinstance(stmt, str) or not isinstance(setup, str):
            raise ArgumentError(f"Timer: stmt and setup must be text, got {type(stmt).__name__} and {type(setup).__name__}")
        self._globals = {"volta": volta, "torch": volta, **(globals or {})}
        self._timer = timeit.Timer(stmt, setup, timer, self._globals)
        self._task = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _run(self, number: int) -> float:
        before = volta.get_num_threads()
        volta.set_num_threads(self._task.num_threads)
        try:
            return max(self._timer.timeit(number), 1e-9)
        finally:
            volta.set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """The time of `number` runs, after a few to warm up."""
        self._run(max(int(number // 100), 2))
        return Measurement(number, [self._run(number)], self._task)

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Raises: ArgumentError, as PyTorch's: `blocked_autorange` tells how the times spread."""
        raise ArgumentError("Timer: autorange is not here; use blocked_autorange")

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raises: ArgumentError, as PyTorch's."""
        raise ArgumentError("Timer: repeat is not here; use blocked_autorange")

    def _block(self, least: float) -> int:
        """A number of runs that takes this time, or is large enough for the clock to be of no account. Units: seconds."""
        number = 1
        while True:
            taken = self._run(number)
            if taken >= least or number >= 10_000_000:
                return number
            number *= 10

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2) -> Measurement:
        """Times of blocks of runs for at least `min_run_time`. Units: seconds."""
        number, times = self._block(min(min_run_time / 1000, 1e-2)), []
        while sum(times) < min_run_time:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
                           callback: Callable[[int, float], Any] | None = None) -> Measurement:
        """Times of blocks of runs until they spread by less than `threshold` of their median, or for `max_run_time`. Units: seconds."""
        number, times = self._block(min(min_run_time / 10, 1e-3)), []
        while sum(times) < max_run_time:
            times.append(self._run(number))
            if callback is not None:
                callback(number, times[-1])
            found = Measurement(number, times, self._task)
            if len(times) >= 4 and sum(times) >= min_run_time and found.meets_confidence(threshold):
                break
        return Measurement(number, times, self._task)


class Compare:
    """Measurements as tables: one for each label, with descriptions side by side and threads and sub-labels below each other."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = Measurement.merge(results)
        self._trimmed = self._marked = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results = Measurement.merge([*self._results, *results])

    def trim_significant_figures(self) -> None:
        """Show no more digits than are certain."""
        self._trimmed = True

    def highlight_warnings(self) -> None:
        """Mark times that spread far by "!"."""
        self._marked = True

    def colorize(self, rowwise: bool = False) -> None:
        """Raises: ArgumentError. Tables are plain text."""
        raise ArgumentError("Compare: tables are plain text; leave colorize out")

    def print(self) -> None:
        """Print the tables."""
        print(self)

    def __str__(self) -> str:
        return "\n".join(self._table(label, [m for m in self._results if m.label == label])
                         for label in ordered_unique(m.label for m in self._results))

    def _table(self, label: Hashable, found: list[Measurement]) -> str:
        unit, size = select_unit(min(m.median for m in found))
        columns = ordered_unique(m.description for m in found)
        rows = ordered_unique((m.num_threads, m.env, m.as_row_name) for m in found)
        cells = {((m.num_threads, m.env, m.as_row_name), m.description): m for m in found}
        names = [f"{f'({env}) ' if env else ''}{name}" for _, env, name in rows]
        first = max(map(len, names)) + 6
        texts = [[self._cell(cells.get((row, column)), size) for column in columns] for row in rows]
        heads = [column or "" for column in columns]
        widths = [max(len(head), *(len(line[i]) for line in texts)) for i, head in enumerate(heads)]
        whole = first + sum(w + 5 for w in widths)
        lines = ["[" + f" {label or found[0].stmt} ".center(whole - 2, "-") + "]",
                 " " * first + "".join(f"  |  {head:>{w}}" for head, w in zip(heads, widths))]
        threads = None
        for row, name, line in zip(rows, names, texts):
            if row[0] != threads:
                threads = row[0]
                lines.append(f"{threads} threads: ".ljust(whole, "-"))
            lines.append(f"      {name}".ljust(first) + "".join(f"  |  {text:>{w}}" for text, w in zip(line, widths)))
        return "\n".join([*lines, "", f"Times are in {unit_to_english(unit)}s ({unit}).", ""])

    def _cell(self, found: Measurement | None, size: float) -> str:
        if found is None:
            return ""
        value = found.median / size
        if self._trimmed:
            value = trim_sigfig(value, found.significant_figures)
        text = f"{value:.0f}" if self._trimmed and value == int(value) else f"{value:.1f}"
        return text + "!" * (self._marked and found.has_warnings)
