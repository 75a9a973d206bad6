"""Where the time of a program goes, after torch.profiler: every kernel that runs, and the parts that `record_function` names.

An observer of the kernels notes when each one begins and ends, on the host's clock. What a GPU does later, when its batch of dispatches is
submitted, is not measured: the time of such a kernel is that of recording it.
"""
from __future__ import annotations

import enum
import functools
import gzip
import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from volta._kernels.core import TensorBase
from volta._kernels.core.call import Observer
from volta.errors import ArgumentError

__all__ = ["EventList", "FunctionEvent", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
           "supported_activities", "tensorboard_trace_handler"]


class ProfilerActivity(enum.Enum):
    """What a profile is asked to see. All of it is seen from the host."""
    CPU, XPU, CUDA = 0, 1, 3


class ProfilerAction(enum.Enum):
    """What a profile does in a step."""
    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


def supported_activities() -> set[ProfilerActivity]:
    """What is measured: what the host does."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """False: PyTorch's library for profiles of GPUs is not here."""
    return False


# ---------------------------------------------------------------- events
class FunctionEvent:
    """A kernel or named part that ran, or several of one name. Units: times are microseconds."""

    def __init__(self, name: str, start: float, end: float, thread: int, shapes: list, inside: float = 0.0, count: int = 1) -> None:
        self.name = self.key = name
        self.start, self.end, self.thread, self.input_shapes = start, end, thread, shapes
        self.cpu_time_total, self.self_cpu_time_total, self.count = end - start, end - start - inside, count
        self.device_time_total = self.self_device_time_total = 0.0

    @property
    def cpu_time(self) -> float:
        """The time of one call, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, other: FunctionEvent) -> None:
        """Count another one of this name."""
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.count += other.count

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name}: {self.count} calls, {_shown(self.cpu_time_total)}, itself {_shown(self.self_cpu_time_total)}>"


def _shown(microseconds):
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f}{unit}"
    return f"{microseconds:.3f}us"


_SORTS = ("cpu_time", "cpu_time_total", "self_cpu_time_total", "count", "device_time_total", "self_device_time_total")
_MEMORY = ("cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage")      # not recorded: all alike


class EventList(list):
    """Events, or the sums of those of one name."""

    def key_averages(self, group_by_input_shape: bool = False) -> EventList:
        """The events of each name together, or of each name and shapes."""
        found: dict[Any, FunctionEvent] = {}
        for event in self:
            key = (event.name, repr(event.input_shapes) if group_by_input_shape else None)
            if key not in found:
                found[key] = FunctionEvent(event.name, 0.0, 0.0, event.thread, event.input_shapes if group_by_input_shape else [], count=0)
            found[key].add(event)
        return EventList(found.values())

    def total_average(self) -> FunctionEvent:
        """All events together; parts inside others count once."""
        total = FunctionEvent("Total", 0.0, 0.0, 0, [], count=0)
        for event in self:
            total.add(event)
        total.cpu_time_total = total.self_cpu_time_total
        return total

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, those inside others once."""
        return sum(event.self_cpu_time_total for event in self)

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_name_column_width: int = 55, header: str | None = None,
              top_level_events_only: bool = False) -> str:
        """The events as text, a row for each; all are of the top level here. Raises: ArgumentError for an unknown column."""
        column = None if sort_by is None else sort_by.replace("cuda_", "device_")
        if column is not None and column not in _SORTS + _MEMORY:
            raise ArgumentError(f"table: sort_by must be one of {', '.join(_SORTS + _MEMORY)}, got {sort_by!r}")
        events = sorted(self, key=lambda event: getattr(event, column), reverse=True) if column in _SORTS else self
        total = self.self_cpu_time_total or 1.0
        rows = [("Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")]
        rows += [(e.name if len(e.name) <= max_name_column_width else e.name[:max_name_column_width - 3] + "...",
                  f"{100 * e.self_cpu_time_total / total:.2f}%", _shown(e.self_cpu_time_total), f"{100 * e.cpu_time_total / total:.2f}%",
                  _shown(e.cpu_time_total), _shown(e.cpu_time), str(e.count)) for e in events[:row_limit if row_limit >= 0 else None]]
        widths = [max(len(row[i]) for row in rows) + 2 for i in range(len(rows[0]))]
        rule = "  ".join("-" * n for n in widths)
        lines = ["  ".join(text.rjust(n) for text, n in zip(row, widths)) for row in rows]
        return "\n".join([*([header] if header else []), rule, lines[0], rule, *lines[1:], rule,
                          f"Self CPU time total: {_shown(self.self_cpu_time_total)}", ""])

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events in the format that chrome://tracing and Perfetto show; compressed where the name ends in ".gz"."""
        trace = {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": e.name, "pid": os.getpid(), "tid": e.thread, "ts": e.start,
                                  "dur": e.end - e.start, "args": {"Input Dims": e.input_shapes}} for e in self]}
        data = json.dumps(trace).encode()
        Path(path).write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)


# ---------------------------------------------------------------- recording
class _Open:
    """What has begun and not ended."""

    def __init__(self, what: object, name: str, shapes: list) -> None:
        self.what, self.name, self.shapes, self.inside, self.start = what, name, shapes, 0.0, time.perf_counter_ns()


class _Recorder(Observer):
    """Notes kernels."""

    def __init__(self, shapes: bool) -> None:
        self.events, self.shapes, self.local = EventList(), shapes, threading.local()

    def begin(self, what: object, name: str, shapes: list) -> None:
        """Something begins in this thread."""
        self._open().append(_Open(what, name, shapes))

    def _open(self) -> list:
        if not hasattr(self.local, "open"):
            self.local.open = []
        return self.local.open

    def end(self, what: object) -> None:
        """It ends; what raised inside it ends too."""
        now, stack = time.perf_counter_ns(), self._open()
        while stack and any(entry.what is what for entry in stack):
            entry = stack.pop()
            event = FunctionEvent(entry.name, entry.start / 1e3, now / 1e3, threading.get_ident(), entry.shapes, entry.inside)
            if stack:
                stack[-1].inside += event.cpu_time_total
            self.events.append(event)
            if entry.what is what:
                return

    def before(self, op, device, inputs, params, out):
        self.begin(op, op.name, [list(x.shape) if isinstance(x, TensorBase) else [] for x in inputs] if self.shapes else [])

    def after(self, op, device, inputs, params, out, result):
        self.end(op)


_recorders: list[_Recorder] = []


class record_function:
    """Names a part of a program for a profile: a context manager and decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        for recorder in _recorders:
            recorder.begin(self, self.name, [])
        return self

    def __exit__(self, *error: object) -> None:
        for recorder in _recorders:
            recorder.end(self)

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def named(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)
        return named


# ---------------------------------------------------------------- steps
def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """What to do in each step: after `skip_first` steps, in turn nothing for `wait` steps (with `skip_first_wait`, not the first time),
    warm up for `warmup`, record `active`; `repeat` times, or without end for 0.

    Raises: ArgumentError for negative numbers, and for active=0.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise ArgumentError(f"schedule: needs wait, warmup, repeat and skip_first of at least 0 and active above 0, got {wait}, {warmup}, "
                            f"{repeat}, {skip_first} and {active}")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        at = step - skip_first
        if at >= 0 and skip_first_wait:
            at += wait
        if at < 0 or repeat and at // length >= repeat:
            return ProfilerAction.NONE
        at %= length
        if at < wait + warmup:
            return ProfilerAction.NONE if at < wait else ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE
    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Callable[[profile], None]:
    """What `on_trace_ready` may be: it writes a trace into a folder, each into a file of its own."""
    def write(finished: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        finished.export_chrome_trace(Path(dir_name) / f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}")
    return write


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """A profile of what runs inside a `with` block, or between `start` and `stop`. With `schedule`, a function of the number of the step,
    only of some steps, which the program counts by `step()`; `on_trace_ready(profile)` is called at the end of each record.

    Memory, stacks, flops and modules are not recorded: where these are asked for, a warning says so.

    >>> with volta.profiler.profile() as prof:
    ...     _ = volta.ones(2).exp()
    >>> [event.count for event in prof.key_averages() if event.key == "exp"]
    [1]
    """

    def __init__(self, *, activities: Iterable[ProfilerActivity] | None = None, schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[..., Any] | None = None, record_shapes: bool = False, profile_memory: bool = False,
                 with_stack: bool = False, with_flops: bool = False, with_modules: bool = False, experimental_config: Any = None,
                 acc_events: bool = False, use_cuda: bool | None = None) -> None:
        asked = {"profile_memory": profile_memory, "with_stack": with_stack, "with_flops": with_flops, "with_modules": with_modules}
        if any(asked.values()):
            warnings.warn(f"profile: {', '.join(name for name, value in asked.items() if value)}: only times and shapes are recorded",
                          stacklevel=2)
        self.activities = set(activities) if activities is not None else supported_activities()
        self.schedule, self.on_trace_ready, self.record_shapes, self.acc_events = schedule, on_trace_ready, record_shapes, acc_events
        self.step_num, self.current_action = 0, ProfilerAction.NONE
        self._recorder: _Recorder | None = None
        self._found = EventList()
        self._step: record_function | None = None

    def start(self) -> None:
        """Begin."""
        self._go(self.schedule(0) if self.schedule else ProfilerAction.RECORD_AND_SAVE)

    def stop(self) -> None:
        """End; what was being recorded is done."""
        self._end_step()
        if self._recorder is not None:
            self._save()

    def step(self) -> None:
        """The next step of the program begins."""
        self._end_step()
        self.step_num += 1
        if self.schedule:
            if self._recorder is not None and self.current_action is ProfilerAction.RECORD_AND_SAVE:
                self._save()
            self._go(self.schedule(self.step_num))
        else:
            self._begin_step()

    def _go(self, action):
        self.current_action = action
        if action in _RECORDING and self._recorder is None:
            self._recorder = _Recorder(self.record_shapes)
            _recorders.append(self._recorder)
            self._recorder.__enter__()
        self._begin_step()

    def _begin_step(self):
        if self._recorder is not None and (self.schedule or self.step_num):
            self._step = record_function(f"ProfilerStep#{self.step_num}").__enter__()

    def _end_step(self):
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _save(self):
        recorder, self._recorder = self._recorder, None
        recorder.__exit__()
        _recorders.remove(recorder)
        self._found = EventList([*(self._found if self.acc_events else ()), *recorder.events])
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def events(self) -> EventList:
        """What was recorded, in the order in which it ended."""
        return self._found

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """The events of each name together; with `group_by_input_shape`, those of one name and shapes, which record_shapes keeps."""
        return self._found.key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events in the format that chrome://tracing and Perfetto show; compressed where the name ends in ".gz"."""
        self._found.export_chrome_trace(path)
