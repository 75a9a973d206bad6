"""Whole training steps: forward, cross-entropy, backward, Adam."""
from __future__ import annotations

import numpy as np
import pytest
from models import training_step


@pytest.mark.parametrize("case", [("mlp", 64), ("mnist_cnn", 16)], ids=["mlp-64", "mnist_cnn-16"])
def test_training_step(case, backend, run):
    if backend.lib is np:
        pytest.skip("NumPy has no autograd")
    run(training_step(backend.lib, *case, backend.device))
