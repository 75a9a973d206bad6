"""One step of each optimizer over the parameters of ResNet-18 and over many small tensors."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from models import resnet18

OPTIMIZERS = {"SGD": ("SGD", {"lr": 0.01}), "SGD momentum": ("SGD", {"lr": 0.01, "momentum": 0.9}),
              "SGD Nesterov, decay": ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}),
              "Adam": ("Adam", {"lr": 1e-3}), "AdamW": ("AdamW", {"lr": 1e-3}), "RMSprop": ("RMSprop", {"lr": 1e-3}),
              "Adagrad": ("Adagrad", {"lr": 1e-3}), "NAdam": ("NAdam", {"lr": 1e-3})}
SMALL = [(64,), (64, 64)] * 100


def parameters(lib, shapes: list[tuple[int, ...]]) -> list:
    rng = np.random.default_rng(0)
    found = [lib.nn.Parameter(lib.tensor(rng.standard_normal(shape, dtype=np.float32))) for shape in shapes]
    for p in found:
        p.grad = lib.tensor(rng.standard_normal(tuple(p.shape), dtype=np.float32))
    return found


def stepping(lib, name: str, shapes: list[tuple[int, ...]]) -> Callable:
    """A function that does one step and gives the first parameter."""
    held = parameters(lib, shapes)
    kind, options = OPTIMIZERS[name]
    optimizer = getattr(lib.optim, kind)(held, **options)

    def step():
        optimizer.step()
        return held[0].detach()
    return step


def optimizers(lib) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """(label, name of the optimizer, shapes of the parameters)"""
    sets = {"ResNet-18": [tuple(p.shape) for p in resnet18(lib).parameters()], "200 small": SMALL}
    for name in OPTIMIZERS:
        for title, shapes in sets.items():
            yield f"{name}, {title}", name, shapes
