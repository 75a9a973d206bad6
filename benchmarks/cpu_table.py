"""Volta against PyTorch on the CPU, same threads, same process: per-op overhead, and training steps.

    python benchmarks/cpu_table.py [--threads N]
"""
from __future__ import annotations

import argparse
from functools import partial

import torch
from layers import both_ways, calls
from models import training_step
from timing import alternate, header, row

import volta


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
    for name, batch in (("mlp", 64), ("mlp", 256), ("mnist_cnn", 64)):
        runs = {"volta": training_step(volta, name, batch, "cpu"), "torch": training_step(torch, name, batch, "cpu")}
        print(row(f"{name} batch {batch}", alternate(runs, rounds=25, inner=2)))


def layers() -> None:
    """Normalisations, pooling, variances. Units: milliseconds."""
    print(header("forward, and forward + backward", "ms"))
    for label, shapes, function in calls(large=False):
        ours, theirs = both_ways(volta, "cpu", shapes, function), both_ways(torch, "cpu", shapes, function)
        for way, i in (("", 0), (" +b", 1)):
            print(row(label + way, alternate({"volta": ours[i], "torch": theirs[i]}, rounds=15, inner=3)), flush=True)


def scans_and_sorts() -> None:
    """Along rows, along columns and of one long line. Units: milliseconds."""
    print(header("scans and sorts", "ms"))
    for shape, dim in (((1000, 1000), 1), ((1000, 1000), 0), ((1000000,), 0)):
        x = torch.randn(shape)
        for name, options in (("cumsum", {}), ("sort", {}), ("topk", {"k": 10})):
            runs = {module.__name__: partial(getattr(module, name), tensor, dim=dim, **options)
                    for module, tensor in ((volta, volta.tensor(x.numpy())), (torch, x))}
            print(row(f"{name} {shape} dim {dim}", alternate(runs, rounds=15)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    volta.set_num_threads(arguments.threads)
    print(f"threads: {arguments.threads}; volta {volta.__version__}; torch {torch.__version__}\n")
    overhead()
    print()
    steps()
    print()
    layers()
    print()
    scans_and_sorts()


if __name__ == "__main__":
    main()
