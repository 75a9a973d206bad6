"""DataLoader: what an epoch takes where loading overlaps with the step, and samples a second by threads and processes against PyTorch's.

    python benchmarks/loading.py [--device gpu] [--rounds N]
"""
from __future__ import annotations

import argparse
import time

import numpy as np
import torch

import volta

BATCHES, SIZE = 20, 16
LOAD, STEP = 0.012, 0.015               # seconds


class Sleeping:
    """Samples that take time, as those of a slow disk do."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.sample = np.ones(shape, np.float32)

    def __len__(self) -> int:
        return BATCHES * SIZE

    def __getitem__(self, i: int):
        time.sleep(LOAD / SIZE)
        return self.sample


class Python(Sleeping):
    """Samples that hold the interpreter's lock."""

    def __getitem__(self, i: int):
        return sum(k * k for k in range(i, i + 4000)), self.sample


class Numpy(Sleeping):
    """Samples made by NumPy: normalised and turned."""

    def __getitem__(self, i: int):
        return np.ascontiguousarray(((self.sample - 0.5) / 0.25)[:, ::-1, ::-1].transpose(0, 2, 1))


class Cheap(Sleeping):
    def __getitem__(self, i: int):
        return self.sample, i


def epoch(loader, step: float = 0) -> float:
    """Seconds of a pass over the loader, each batch followed by a step of this many seconds elsewhere."""
    start = time.perf_counter()
    for _ in loader:
        if step:
            time.sleep(step)
    return time.perf_counter() - start


def overlap(device: str, rounds: int) -> None:
    """Milliseconds a batch: loading alone, and with a step; the step alone takes STEP."""
    def volta_loader(**options):
        return lambda: volta.data.DataLoader(Sleeping((3, 96, 96)), SIZE, device=device, **options)
    big = np.ones((64, 3, 224, 224), np.float32)
    kinds = {
        "nothing ahead": volta_loader(), "prefetch=2": volta_loader(prefetch=2), "2 threads": volta_loader(num_workers=2),
        "2 processes": volta_loader(num_workers=2, multiprocessing_context="fork"),
        "torch, 2 processes": lambda: torch.utils.data.DataLoader(Sleeping((3, 96, 96)), SIZE, num_workers=2),
        f"38 MB batches up to {device}": lambda: volta.data.DataLoader(
            volta.data.ConcatDataset([volta.data.TensorDataset(big)] * BATCHES), batch_sampler=[range(64)] * BATCHES, device=device,
            prefetch=2, collate_fn=lambda samples: big)}
    print(f"{'ms a batch':32}{'load':>8}{'step':>8}{'both':>8}{'sum':>8}")
    for name, make in kinds.items():
        load, both = (min(epoch(make(), step) for _ in range(rounds)) / BATCHES * 1e3 for step in (0, STEP))
        print(f"{name:32}{load:8.1f}{STEP * 1e3:8.1f}{both:8.1f}{load + STEP * 1e3:8.1f}", flush=True)


def throughput(rounds: int) -> None:
    """Samples a second."""
    ways = {"volta, none": {}, "2 threads": {"num_workers": 2}, "2 forks": {"num_workers": 2, "multiprocessing_context": "fork"},
            "torch, none": {}, "torch, 2 forks": {"num_workers": 2}}
    print(f"\n{'samples a second':24}" + "".join(f"{name:>16}" for name in ways))
    for kind, shape in ((Cheap, (1, 28, 28)), (Python, (3, 32, 32)), (Numpy, (3, 224, 224)), (Cheap, (3, 224, 224))):
        dataset = volta.data.ConcatDataset([kind(shape)] * 5)
        figures = []
        for name, options in ways.items():
            data = torch.utils.data if name.startswith("torch") else volta.data
            loader = data.DataLoader(torch.utils.data.ConcatDataset(dataset.datasets) if data is torch.utils.data else dataset, 64,
                                     **options, **({"persistent_workers": True} if options else {}))
            epoch(loader)
            figures.append(len(dataset) / min(epoch(loader) for _ in range(rounds)))
        print(f"{kind.__name__ + ' ' + 'x'.join(map(str, shape)):24}" + "".join(f"{v:16,.0f}" for v in figures), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    overlap(options.device, options.rounds)
    throughput(options.rounds)
