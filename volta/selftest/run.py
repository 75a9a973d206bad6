"""What `python -m volta selftest` does: runs the checks of every op on the devices asked for, shows progress, and reports."""
from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

import volta
from volta.errors import MixedDeviceWarning
from volta.selftest import cases as table
from volta.selftest import checks, special
from volta.utils import collect_env


class Failure(NamedTuple):
    """A check that did not hold."""
    op: str
    device: str
    check: str
    text: str


class Outcome(NamedTuple):
    """What the checks of one op on one device gave."""
    op: str
    device: str
    checks: int
    worst: float                # the largest error. Units: the tolerance of its op and dtype
    failures: list[Failure]


def _ops() -> list:
    return table.records(creation=True, in_place=True) + [op for op in table.composed() if op.details.numpy]


def plan(op, device: str, quick: bool) -> Iterator[tuple[str, Callable]]:
    """(name, check(rng)) of all that is checked of an op on a device. The quick mode takes the first two samples, one layout and no
    large tensors, and leaves finite differences out."""
    cases = [case for case in op.details.cases if checks.fits(case, device)]
    cases = cases[:2] if quick else cases
    for i, case in enumerate(cases):
        for dtype in checks.dtypes_of(op, device):
            yield f"values, {dtype.name}, sample {i}", lambda rng, c=case, d=dtype: checks.forward(op, c, device, d, rng)
        if table.family(op) in table.IN_PLACE | {"creation"}:
            continue
        for name in ("sliced",) if quick else (*table.LAYOUTS, "expanded"):
            yield f"layout {name}, sample {i}", lambda rng, c=case, n=name: checks.layout(op, c, device, rng, n)
        if checks.derivable(op):
            yield f"derivatives, float32, sample {i}", lambda rng, c=case: checks.derivatives_in_float32(op, c, device, rng)
            if op.details.smooth and device == "cpu" and not quick:
                yield f"finite differences, float64, sample {i}", lambda rng, c=case: checks.finite_differences(op, c, rng)
    if special.applies(op):
        yield "special values, float32", lambda rng: special.special_values(op, device)
    if checks.elementwise(op):
        yield "ranks 0 to 8, float32", lambda rng: checks.ranks(op, device, rng)
        if not quick:
            yield f"{checks.LARGE} elements, float32", lambda rng: checks.large(op, device, rng)


def check_op(op, device: str, quick: bool, seed: int) -> Outcome:
    """Run the plan of one op."""
    failures, count = [], 0
    table.ERRORS = []
    try:
        for name, check in plan(op, device, quick):
            count += 1
            try:
                check(np.random.default_rng(seed))
            except Exception as error:                  # whatever it is, the others go on and the report says it
                failures.append(Failure(op.name, device, name, f"{type(error).__name__}: {error}"))
        return Outcome(op.name, device, count, max(table.ERRORS, default=0.0), failures)
    finally:
        table.ERRORS = None


def selftest(devices: Sequence[str], *, quick: bool = False, ops: Sequence[str] = (), seed: int = 0) -> list[Outcome]:
    """Check every op (or those named) on `devices`, with a progress bar on stderr.

    Raises: ArgumentError for an op that there is not.
    """
    chosen = [op for op in _ops() if not ops or op.name in ops]
    if unknown := set(ops) - {op.name for op in chosen}:
        raise volta.errors.ArgumentError(f"selftest: there is no op {sorted(unknown)[0]!r} with samples")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", MixedDeviceWarning)
        jobs = tqdm([(op, device) for device in devices for op in chosen if device == "cpu" or not op.details.cpu_only],
                    unit="op", smoothing=0)
        outcomes = []
        for op, device in jobs:
            jobs.set_postfix_str(f"{device} {op.name}", refresh=False)
            outcomes.append(check_op(op, device, quick, seed))
    return outcomes


# ---------------------------------------------------------------- the report
def _machine(devices: Sequence[str]) -> list[str]:
    return collect_env.versions_and_cpu() + ("gpu" in devices) * collect_env.gpus(full=False)


def report(outcomes: list[Outcome], devices: Sequence[str], seconds: float) -> str:
    """A table by device, the worst errors, and for failures a block for a bug report."""
    lines = [f"{'device':8}{'ops':>6}{'checks':>8}{'failed':>8}   worst error / tolerance"]
    for device in devices:
        own = [o for o in outcomes if o.device == device]
        worst = sorted(own, key=lambda o: -o.worst)[:5]
        lines.append(f"{device:8}{len(own):6}{sum(o.checks for o in own):8}{sum(len(o.failures) for o in own):8}   "
                     + ", ".join(f"{o.op} {o.worst:.2g}" for o in worst))
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    lines.append(f"{sum(o.checks for o in outcomes)} checks in {seconds:.0f} s: {len(failures) or 'none'} failed")
    if failures:
        lines += ["", "-------- for a bug report, copy from here", *_machine(devices)]
        for failure in failures:
            text = "\n    ".join(failure.text.strip().splitlines()[:12])
            lines.append(f"{failure.op} on {failure.device}: {failure.check}\n    {text}")
        lines.append("-------- to here")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit status, 1 where a check failed."""
    parser = argparse.ArgumentParser(prog="python -m volta selftest", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "gpu", "all"), default="all", help="default: the CPU, and a GPU where there is one")
    parser.add_argument("--quick", action="store_true", help="fewer samples and layouts, no large tensors: under a minute")
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="only this op; may be given several times")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs")
    options = parser.parse_args(arguments)
    if options.device == "gpu" and not volta.gpu.is_available():
        print(f"selftest: no GPU can be used: {volta.gpu.unavailable_reason()}", file=sys.stderr)
        return 2
    devices = ["cpu"] * (options.device != "gpu") + ["gpu"] * (options.device != "cpu" and volta.gpu.is_available())
    print("\n".join(_machine(devices)))
    began = time.perf_counter()
    outcomes = selftest(devices, quick=options.quick, ops=options.op, seed=options.seed)
    print(report(outcomes, devices, time.perf_counter() - began))
    return int(any(outcome.failures for outcome in outcomes))
