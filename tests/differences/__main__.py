"""python -m tests.differences: compare Volta with PyTorch by PyTorch's own samples, and list what differs."""
from __future__ import annotations

import argparse
import collections
import faulthandler
import os
import subprocess
import sys
import time


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differences", description=__doc__)
    parser.add_argument("--what", choices=("ops", "layers", "optimizers"), default="ops", help="op_db, module_db or optim_db")
    parser.add_argument("--gpu", action="store_true", help="Volta on a GPU (VOLTA_ADAPTER=software for a software one)")
    parser.add_argument("--names", nargs="*", help="only these names of op_db (with /variant where wanted)")
    parser.add_argument("--after", default="", help="only names that come after this one")
    parser.add_argument("--kinds", nargs="*", help="only these kinds of comparison")
    parser.add_argument("--dtypes", nargs="*", default="float32 float64 float16 bfloat16 int64 int32 uint8 bool".split())
    parser.add_argument("--seed", type=int, default=0, help="of samples and variants; others than 0 take samples from all over")
    parser.add_argument("--cap", type=int, default=12, help="samples of a name and dtype")
    parser.add_argument("--few", type=int, default=4, help="samples of which variants are made")
    parser.add_argument("--show", type=int, default=4, help="differences shown of a name")
    parser.add_argument("--all", action="store_true", help="list the clean names, too")
    parser.add_argument("--verbose", action="store_true", help="show all, with the arguments")
    parser.add_argument("--log", default="", help="a file for all differences, with what they are accepted for")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--job", type=int, default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    given = options()
    if given.jobs > 1 and given.job is None:
        command = [sys.executable, "-m", "tests.differences", *sys.argv[1:], "--job"]
        processes = [subprocess.Popen([*command, str(i)]) for i in range(given.jobs)]
        return max([process.wait() for process in processes])
    given.job = given.job or 0
    os.environ.setdefault("PYTORCH_TEST_WITH_SLOW", "0")
    faulthandler.enable()
    from tests.differences import accepted, ops

    if given.kinds is None:
        given.kinds = ops.KINDS
    if given.what != "ops":
        from tests.differences import layers, optimizers
        source = (layers if given.what == "layers" else optimizers).runs(given)
    else:
        source = ops.runs(given)
    clean = total = compared = 0
    start = time.time()
    for run in source:
        total += 1
        compared += run.done
        clean += not run.found
        if given.all and not run.found:
            print(f"{run.name}: clean in {run.done}", flush=True)
        if run.found:
            counts = collections.Counter(text.partition(":")[0] for _, text in run.found)
            print(f"{run.name}: {len(run.found)} of {run.done}: " + ", ".join(f"{k} {n}" for k, n in counts.most_common()), flush=True)
            seen: collections.Counter = collections.Counter()
            for where, text in run.found:
                key = text.partition(":")[0]
                if seen[key] < given.show and not given.verbose:
                    print(f"    {where} | {text}", flush=True)
                seen[key] += 1
    print(f"{clean} of {total} names clean, {compared} comparisons in {time.time() - start:.0f} s; accepted: {dict(accepted.COUNTS)}")
    return clean != total


if __name__ == "__main__":
    sys.exit(main())
