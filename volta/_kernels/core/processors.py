"""How many processors this process can keep busy: those it may run on, their cores, and the processor time that its container grants."""
from __future__ import annotations

import math
import os

SYSTEM = "/sys/devices/system/cpu"
GROUPS = "/sys/fs/cgroup"


def _text(path: str) -> str:
    """A small file's content; empty where there is none to read."""
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def _allowed() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _granted(processors: int) -> int:
    """No more than the control group's quota of processor time gives: beyond it, the system stops all threads for the rest of a period."""
    own = next((line[3:] for line in _text("/proc/self/cgroup").splitlines() if line.startswith("0::")), "/")
    for folder in {GROUPS, GROUPS + own.rstrip("/")}:
        quota, _, period = _text(f"{folder}/cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            processors = min(processors, max(1, math.ceil(int(quota) / int(period))))
    return processors


def usable(known: int = 0) -> int:
    """Threads that can run at the same time. `known`: how many processors OpenMP saw before it bound this thread to one (OMP_PROC_BIND)."""
    return _granted(max(known, len(_allowed())))


def cores(known: int = 0) -> int:
    """Threads that can compute at the same time: those of one core share its arithmetic."""
    allowed = _allowed()
    if _text(f"{SYSTEM}/smt/active") != "1":
        return usable(known)
    siblings = {_text(f"{SYSTEM}/cpu{one}/topology/thread_siblings_list") or str(one) for one in allowed}
    if known <= len(allowed):
        return _granted(len(siblings))
    bounds = [part.partition("-") for part in siblings.pop().split(",")]        # the cores that this thread may not see are like its own
    return _granted(math.ceil(known / sum(int(last or first) - int(first) + 1 for first, _, last in bounds)))
