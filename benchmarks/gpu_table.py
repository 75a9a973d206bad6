"""Volta on the GPU against PyTorch on the same GPU (CUDA), same process: ops at full size and training steps.

    python benchmarks/gpu_table.py [recording] [steps] [matmuls] [bandwidths] [layers] [moving] [scans_and_sorts]

Float32 without TF32. Every result is first compared with PyTorch's. Units as in each table.
"""
from __future__ import annotations

import sys
import time

import numpy as np
import torch
from layers import both_ways, calls, moves, sampled
from models import training_step
from timing import header, row

import volta

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def pair(shape: tuple[int, ...], seed: int = 0):
    """The same numbers on both: (volta tensor, torch tensor)."""
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return volta.tensor(values, device="gpu"), torch.tensor(values, device="cuda")


def check(label: str, ours, theirs, tolerance: float) -> None:
    a, b = ours.numpy().astype(np.float64), theirs.cpu().numpy().astype(np.float64)
    error = np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)
    if not error < tolerance:
        raise SystemExit(f"{label}: differs from PyTorch by {error:.2e} (allowed {tolerance:.0e})")


def compare(label: str, ours, theirs, inner: int | None = None, tolerance: float = 1e-4, rounds: int = 7) -> dict[str, list[float]]:
    """Check, then time in turns; each turn waits for its own device. IN: inner, calls of a turn; None for about 20 ms of PyTorch's."""
    check(label, ours(), theirs(), tolerance)
    torch.cuda.synchronize()
    start = time.perf_counter()
    theirs()
    torch.cuda.synchronize()
    inner = inner or int(min(max(0.02 / (time.perf_counter() - start), 2), 100))
    times: dict[str, list[float]] = {"volta": [], "torch": []}
    for turn in range(rounds + 2):
        for name, function, wait in (("volta", ours, volta.gpu.synchronize), ("torch", theirs, torch.cuda.synchronize)):
            wait()
            start = time.perf_counter()
            for _ in range(inner):
                function()
            wait()
            if turn > 1:
                times[name].append((time.perf_counter() - start) / inner)
    return times


def matmuls() -> None:
    print(header("matmul float32, four transpositions", "TFLOPS") + "   (ratio of speeds: volta / torch)")
    for n, inner in ((1024, 60), (2048, 30), (4096, 8)):
        (a, ta), (b, tb) = pair((n, n)), pair((n, n), 1)
        for layout in ("nn", "nt", "tn", "tt"):
            x, tx = (a.T, ta.T) if layout[0] == "t" else (a, ta)
            y, ty = (b.T, tb.T) if layout[1] == "t" else (b, tb)
            t = compare(f"matmul {n} {layout}", lambda x=x, y=y: x @ y, lambda tx=tx, ty=ty: tx @ ty, inner)
            speed_row(f"{n} {layout}", t, 2 * n ** 3 / 1e12)


def speed_row(label: str, times, amount: float) -> None:
    speeds = {k: [amount / s for s in v] for k, v in times.items()}
    print(row(label, speeds, unit=1.0), flush=True)


def bandwidths() -> None:
    print(header("memory-bound ops", "GB/s") + "   (ratio of speeds: volta / torch)")
    (a, ta), (b, tb) = pair((65536, 1024)), pair((65536, 1024), 1)
    (r, tr) = pair((1024,), 2)
    size = 64 * 1024 * 1024 * 4 / 1e9
    cases = [("add 64M", lambda: a + b, lambda: ta + tb, 3), ("relu 64M", lambda: volta.relu(a), lambda: torch.relu(ta), 2),
             ("exp 64M", lambda: volta.exp(a), lambda: torch.exp(ta), 2), ("row broadcast 64M", lambda: a + r, lambda: ta + tr, 2),
             ("sum of all 64M", lambda: a.sum(), lambda: ta.sum(), 1), ("sum dim 0", lambda: a.sum(0), lambda: ta.sum(0), 1),
             ("sum dim 1", lambda: a.sum(1), lambda: ta.sum(1), 1), ("amax of all", lambda: volta.amax(a), lambda: torch.amax(ta), 1),
             ("amax dim 0", lambda: volta.amax(a, 0), lambda: torch.amax(ta, 0), 1),
             ("amax dim 1", lambda: volta.amax(a, 1), lambda: torch.amax(ta, 1), 1)]
    for label, ours, theirs, passes in cases:
        speed_row(label, compare(label, ours, theirs, 100, 2e-3 if "sum of" in label else 1e-4), passes * size)
    c, tc = pair((8192, 8192))
    for label, ours, theirs in (("softmax 8192x8192", lambda: volta.softmax(c, 1), lambda: torch.softmax(tc, 1)),
                                ("transposing copy 8192x8192", lambda: c.T.contiguous(), lambda: tc.T.contiguous())):
        speed_row(label, compare(label, ours, theirs, 100), 2 * size)


def layers(listed=None) -> None:
    """Normalisations, pooling, variances."""
    print(header("forward, and forward + backward", "ms"))
    for label, arguments, function in listed or calls(large=True):
        ours, theirs = both_ways(volta, "gpu", arguments, function), both_ways(torch, "cuda", arguments, function)
        for way, i in (("", 0), (" +b", 1)):
            print(row(label + way, compare(label + way, ours[i], theirs[i])), flush=True)


def moving() -> None:
    """What moves data, samples at the places of a grid, and the convolutions beside conv2d."""
    layers(moves() + sampled(large=True))


def scans_and_sorts() -> None:
    """Rows side by side, one long line, and what runs along the first dimension."""
    print(header("scans and sorts", "ms"))
    (a, ta), (c, tc), (line, tline) = pair((65536, 1024)), pair((4096, 4096), 1), pair((1 << 24,), 2)
    (rows, trows), (long, tlong) = pair((64, 50257), 3), pair((512, 32768), 4)
    cases = [(f"cumsum {x.shape} dim {d}", lambda x=x, d=d: volta.cumsum(x, d), lambda t=t, d=d: torch.cumsum(t, d))
             for x, t, d in ((a, ta, 1), (a, ta, 0), (line, tline, 0))]
    cases += [(f"sort {x.shape} dim {d}", lambda x=x, d=d: volta.sort(x, d).values, lambda t=t, d=d: torch.sort(t, d).values)
              for x, t, d in ((c[:, :1024].contiguous(), tc[:, :1024].contiguous(), 1), (c, tc, 1), (c, tc, 0), (long, tlong, 1),
                          (line, tline, 0))]
    cases += [(f"topk {k} {x.shape}", lambda x=x, k=k: volta.topk(x, k).values, lambda t=t, k=k: torch.topk(t, k).values)
              for x, t, k in ((a, ta, 10), (rows, trows, 50), (line, tline, 100))]
    for label, ours, theirs in cases:
        print(row(label, compare(label, ours, theirs, tolerance=1e-3)), flush=True)


def steps() -> None:
    print(header("training step", "ms"))
    for name, batch, inner in (("mlp", 256, 50), ("mnist_cnn", 256, 50), ("resnet18 64x64", 64, 20),
                               ("resnet18 64x64 7x7 stem", 64, 20), ("char GPT 6x384", 64, 8), ("GPT-2 124M", 4, 4),
                               ("LSTM 128", 32, 20)):
        ours, theirs = training_step(volta, name, batch, "gpu"), training_step(torch, name, batch, "cuda", fused=True)
        print(row(f"{name} batch {batch}", _steps(ours, theirs, inner)), flush=True)


def _steps(ours, theirs, inner: int) -> dict[str, list[float]]:
    times = {"volta": [], "torch": []}
    for turn in range(9):
        for label, function, wait in (("volta", ours, volta.gpu.synchronize), ("torch", theirs, torch.cuda.synchronize)):
            start = time.perf_counter()
            for _ in range(inner):
                function()
            wait()
            if turn > 1:
                times[label].append((time.perf_counter() - start) / inner)
    return times


def recording(length: int = 200, rounds: int = 15) -> None:
    """`z = z + x` on 32x32 with grad: host time per op, until it is recorded (Volta) or launched (PyTorch); then both wait."""
    times: dict[str, list[float]] = {"volta": [], "torch": []}
    for turn in range(rounds + 3):
        for name, x, wait in (("volta", volta.randn(32, 32, device="gpu", requires_grad=True), volta.gpu.synchronize),
                              ("torch", torch.randn(32, 32, device="cuda", requires_grad=True), torch.cuda.synchronize)):
            wait()
            z = x
            start = time.perf_counter()
            for _ in range(length):
                z = z + x
            if turn > 2:
                times[name].append((time.perf_counter() - start) / length)
            wait()
    print(header("z = z + x, 32x32 with grad, host time per op", "us"))
    print(row("forward", times, unit=1e6))


def main() -> None:
    print(f"{volta.gpu.devices()[0].name}; volta {volta.__version__}; torch {torch.__version__}")
    parts = (recording, steps, matmuls, bandwidths, layers, moving, scans_and_sorts)
    for part in [part for part in parts if part.__name__ in sys.argv[1:]] or parts:
        print()
        before = volta.gpu.stats()
        part()
        used = volta.gpu.stats() - before
        print(f"   ({used.dispatches} dispatches, {used.submits} submits)")


if __name__ == "__main__":
    main()
