"""Bandwidth of the GPU's elementwise, copy, reduction and softmax kernels against PyTorch CUDA in the same run.

    python benchmarks/h200/bandwidth.py [--size 64] [--side 8192] [--only add,sum] [--tune] [--json file]

Results are checked first. Times are wall-clock per operation, many operations per synchronisation, best of several rounds
taken in turn, Volta and PyTorch one after the other. Units: GB/s of the bytes an operation must move at least.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from volta._kernels import core
from volta.devices.gpu import common as gpu_common
from volta.devices.gpu import copy as gpu_copy
from volta.devices.gpu import elementwise as gpu_elementwise
from volta.devices.gpu import generate as gpu_generate
from volta.devices.gpu import kernels as gpu_kernels  # noqa: F401  (binds the kernels)
from volta.devices.gpu import reduce as gpu_reduce
from volta.devices.gpu import softmax as gpu_softmax

FLOAT32 = gpu_common.FLOAT32
DEVICE = core.Device("gpu", 0)
KERNELS = {**gpu_elementwise.KERNELS, **gpu_copy.KERNELS, **gpu_reduce.KERNELS, **gpu_softmax.KERNELS}
ROUNDS = 5
ROUND_SECONDS = 0.08


def transposed(t, order):
    return core.view(t, tuple(t.shape[d] for d in order), tuple(t._strides[d] for d in order), t.offset)


def cases(torch, size: int, side: int):
    """(name, target ratio or None, bytes, Volta's function, PyTorch's function), functions of (Volta a, b) or (torch a, b)."""
    k = KERNELS
    n, m = 4 * size, 4 * side * side
    row = size // 1024
    relu, softmax, gelu = (torch.relu, torch.softmax, torch.nn.functional.gelu) if torch else (None,) * 3
    square, tsquare = lambda t: core.view(t, (side, side), (side, 1), 0), lambda t: t[:side * side].view(side, side)
    tall, ttall = lambda t: core.reshaped(t, (size // 8, 8)), lambda t: t.view(size // 8, 8)
    rows, trows = lambda t: core.reshaped(t, (row, 1024)), lambda t: t.view(row, 1024)
    yield "add", .85, 3 * n, lambda a, b: k["add"](a, b), lambda a, b: a + b
    yield "relu", .85, 2 * n, lambda a, b: k["relu"](a), lambda a, b: relu(a)
    yield "exp", .85, 2 * n, lambda a, b: k["exp"](a), lambda a, b: torch.exp(a)
    yield "add row [N, 1024] + [1024]", .85, 2 * n, lambda a, b: k["add"](rows(a), core.view(b, (1024,), (1,), 0)), \
        lambda a, b: trows(a) + b[:1024]
    yield "mul number", None, 2 * n, lambda a, b: k["mul"](a, 1.5), lambda a, b: a * 1.5
    yield "gelu", None, 2 * n, lambda a, b: k["gelu"](a), lambda a, b: gelu(a)
    yield "tanh", None, 2 * n, lambda a, b: k["tanh"](a), lambda a, b: torch.tanh(a)
    yield "maximum", None, 3 * n, lambda a, b: k["maximum"](a, b), lambda a, b: torch.maximum(a, b)
    yield "add column [N, 1024] + [N, 1]", None, 2 * n, lambda a, b: k["add"](rows(a), core.view(b, (row, 1), (1, 1), 0)), \
        lambda a, b: trows(a) + b[:row].view(row, 1)
    yield "fill", None, n, lambda a, b: k["full"]((size,), 1.0, FLOAT32, DEVICE), \
        lambda a, b: torch.full((size,), 1.0, device="cuda")
    yield "copy", None, 2 * n, lambda a, b: k["contiguous"](a), lambda a, b: a.clone()
    yield "copy transposed", .7, 2 * m, lambda a, b: k["contiguous"](transposed(square(a), (1, 0))), \
        lambda a, b: tsquare(a).t().contiguous()
    shape = (size // (64 * 64 * 64), 64, 64 * 64)
    yield "copy NCHW to NHWC", None, 2 * n, lambda a, b: k["contiguous"](transposed(core.reshaped(a, shape), (0, 2, 1))), \
        lambda a, b: a.view(shape).permute(0, 2, 1).contiguous()
    for name, reference in (("sum", "sum"), ("amax", "amax")):
        f = getattr(torch, reference) if torch else None
        yield f"{name} of all", .7, n, lambda a, b, name=name: k[name](a, (0,), False), lambda a, b, f=f: f(a)
        yield f"{name} over rows (dim 0)", .7, m, lambda a, b, name=name: k[name](square(a), (0,), False), \
            lambda a, b, f=f: f(tsquare(a), 0)
        yield f"{name} over columns (dim 1)", .7, m, lambda a, b, name=name: k[name](square(a), (1,), False), \
            lambda a, b, f=f: f(tsquare(a), 1)
    yield "sum [N, 8] over dim 0", None, n, lambda a, b: k["sum"](tall(a), (0,), False), lambda a, b: ttall(a).sum(0)
    yield "sum [N, 8] over dim 1", None, n, lambda a, b: k["sum"](tall(a), (1,), False), lambda a, b: ttall(a).sum(1)
    yield "argmax over columns", None, m, lambda a, b: k["argmax"](square(a), 1, False), lambda a, b: tsquare(a).argmax(1)
    for dim, target in ((1, .7), (0, None)):
        yield f"softmax over dim {dim}", target, 2 * m, lambda a, b, d=dim: k["softmax"](square(a), d), \
            lambda a, b, d=dim: softmax(tsquare(a), d)
    yield "log_softmax over dim 1", None, 2 * m, lambda a, b: k["log_softmax"](square(a), 1), \
        lambda a, b: torch.log_softmax(tsquare(a), 1)
    yield "softmax_grad over dim 1", None, 3 * m, lambda a, b: k["softmax_grad"](square(a), square(b), 1), \
        lambda a, b: torch._softmax_backward_data(tsquare(a), tsquare(b), 1, torch.float32)     # b is no softmax: see check

    # Last, as it changes b.
    yield "add in place", None, 3 * n, lambda a, b: k["add"].into(b, b, a) or b, lambda a, b: b.add_(a)

def per_op(run, sync) -> float:
    """Seconds of one operation: enough of them for a round, then a synchronisation."""
    run()
    sync()
    start = time.perf_counter()
    for _ in range(3):
        run()
    sync()
    count = max(3, min(400, int(ROUND_SECONDS / max((time.perf_counter() - start) / 3, 1e-6))))
    start = time.perf_counter()
    for _ in range(count):
        run()
    sync()
    return (time.perf_counter() - start) / count


def check(name: str, got, want) -> str:
    """'' where the results agree, else how far they are apart."""
    got = gpu_copy.download(got).reshape(-1)
    want = want.detach().reshape(-1).cpu().numpy()
    if got.shape != want.shape:
        return f"shape {got.shape} for {want.shape}"
    step = max(1, got.size // 500_000)
    got, want = got[::step].astype(np.float64), want[::step].astype(np.float64)
    scale = np.abs(want) + 1e-3
    if name.startswith("sum"):
        scale = np.abs(want).max() + 100
    elif name.startswith("softmax_grad"):       # of numbers that are no probabilities: its row sums cancel
        scale = np.abs(want).max()
    error = (np.abs(got - want) / scale).max()
    return "" if error < 2e-5 else f"error {error:.1e}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=64, help="millions (2^20) of elements")
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--only", default="", help="comma-separated beginnings of names")
    parser.add_argument("--tune", action="store_true", help="also time add, relu and exp for 1, 2, 4 vectors a thread")
    parser.add_argument("--json", help="write the table there")
    options = parser.parse_args()
    began = time.perf_counter()
    size, side = options.size << 20, options.side
    if side * side > size:
        parser.error(f"--side {side} needs --size {-(-side * side >> 20)} at least")
    try:
        import torch
        torch = torch if torch.cuda.is_available() else None
    except ImportError:
        torch = None
    if torch is None:
        print("PyTorch with CUDA is not here: no checks, no ratios")
    ctx = gpu_common.context(DEVICE)
    print(f"{ctx!r}, {size:,} elements, squares of {side}")
    rng = np.random.default_rng(0)
    hosts = [rng.random(size, np.float32) * 2 - 1 for _ in range(2)]
    a, b = (gpu_copy.upload(host, FLOAT32, DEVICE) for host in hosts)
    ta, tb = (torch.from_numpy(host).cuda() for host in hosts) if torch else (None, None)
    wanted = [word.strip() for word in options.only.split(",") if word.strip()]
    table, failed = [], 0
    print(f"{'operation':32}{'Volta':>9}{'torch':>9}  GB/s{'ratio':>8}  target")
    for name, target, nbytes, ours, theirs in cases(torch, size, side):
        if wanted and not any(name.startswith(word) for word in wanted):
            continue
        try:
            wrong = check(name, ours(a, b), theirs(ta, tb)) if torch else ""
            best, best_torch = 1e9, 1e9
            for _ in range(ROUNDS):
                best = min(best, per_op(partial(ours, a, b), ctx.synchronize))
                if torch:
                    best_torch = min(best_torch, per_op(partial(theirs, ta, tb), torch.cuda.synchronize))
        except Exception as error:          # one broken kernel must not hide the others
            print(f"{name:32} FAILED: {type(error).__name__}: {str(error)[:300]}")
            failed += 1
            continue
        ratio = best_torch / best if torch else float("nan")
        verdict = "" if target is None or not torch else f"{target}  {'ok' if ratio >= target else 'BELOW'}"
        speed, speed_torch = nbytes / best / 1e9, nbytes / best_torch / 1e9 if torch else 0.0
        print(f"{name:32}{speed:9.0f}{speed_torch:9.0f}      {ratio:8.2f}  {verdict} {wrong}", flush=True)
        failed += bool(wrong)
        table.append({"name": name, "gbps": speed, "torch_gbps": speed_torch, "ratio": ratio, "target": target,
                      "wrong": wrong})
    if options.tune:
        tune(ctx, a, b, size)
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1))
    print(f"{time.perf_counter() - began:.0f} s")
    return 1 if failed else 0


def tune(ctx, a, b, size) -> None:
    """Bandwidth by the vectors that a thread takes."""
    usual = gpu_generate.ITEMS
    for items in (1, 2, 4):
        gpu_generate.ITEMS = items
        gpu_generate.text.cache_clear()
        line = []
        for name, moved, run in (("add", 12, lambda: KERNELS["add"](a, b)), ("relu", 8, lambda: KERNELS["relu"](a)),
                                 ("exp", 8, lambda: KERNELS["exp"](a))):
            KERNELS[name].plans.clear()
            line.append(f"{name} {moved * size / min(per_op(run, ctx.synchronize) for _ in range(3)) / 1e9:.0f}")
            KERNELS[name].plans.clear()
        print(f"{items} vectors a thread: {', '.join(line)} GB/s")
    gpu_generate.ITEMS = usual
    gpu_generate.text.cache_clear()


if __name__ == "__main__":
    sys.exit(main())
