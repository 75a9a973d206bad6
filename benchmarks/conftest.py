"""Backends of the comparison: Volta on the CPU and on the GPU, and, where installed, PyTorch and NumPy."""
from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import volta

sys.path.insert(0, str(Path(__file__).parent))
BACKENDS = ["volta-cpu", "volta-gpu", "numpy", *(["torch"] if importlib.util.find_spec("torch") else [])]


class Backend:
    """Where a case runs: a module with PyTorch's names (or NumPy), a device, and how to wait for the results."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.device = "gpu" if name == "volta-gpu" else "cpu"
        if name == "torch":
            import torch
            self.lib = torch
        else:
            self.lib = np if name == "numpy" else volta

    def array(self, shape: tuple[int, ...], seed: int = 0):
        """Normal float32 numbers."""
        values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        return values if self.lib is np else self.lib.tensor(values).to(self.device)

    def wait(self) -> None:
        """Return when everything launched is done."""
        if self.device == "gpu":
            volta.gpu.synchronize()


@pytest.fixture(params=BACKENDS)
def backend(request) -> Backend:
    if request.param == "volta-gpu" and not volta.gpu.is_available():
        pytest.skip(f"no usable GPU: {volta.gpu.unavailable_reason()}")
    return Backend(request.param)


@pytest.fixture
def run(benchmark, backend):
    """`run(function)`: measure `function()` with the GPU's work included; one table per test."""
    def measure(function):
        def call():
            out = function()
            backend.wait()
            return out
        call()
        benchmark.pedantic(call, rounds=5, iterations=1, warmup_rounds=1)
        benchmark.extra_info["backend"] = backend.name
    return measure
