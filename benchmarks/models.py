"""Models and training steps written once for Volta and PyTorch: `lib` is either module."""
from __future__ import annotations

import numpy as np


def mlp(lib, **place):
    """784-512-512-10."""
    nn = lib.nn
    return nn.Sequential(nn.Linear(784, 512, **place), nn.ReLU(), nn.Linear(512, 512, **place), nn.ReLU(), nn.Linear(512, 10, **place))


def mnist_cnn(lib, **place):
    """conv 32, conv 64 (3x3), each with BatchNorm, ReLU and 2x2 max pooling, then a classifier."""
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1, **place), nn.BatchNorm2d(32, **place), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1, **place), nn.BatchNorm2d(64, **place), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 10, **place))


MODELS = {"mlp": (mlp, (784,)), "mnist_cnn": (mnist_cnn, (1, 28, 28))}


def training_step(lib, name: str, batch: int, device: str, **adam):
    """A function that does one step (forward, cross-entropy, backward, Adam) on fixed data; gives the loss tensor."""
    make, shape = MODELS[name]
    model = make(lib, device=device)
    rng = np.random.default_rng(0)
    x = lib.tensor(rng.standard_normal((batch, *shape)).astype(np.float32)).to(device)
    y = lib.tensor(rng.integers(0, 10, batch)).to(device)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3, **adam)
    loss_function = lib.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step
