"""An activation of your own, trained on the CPU or a GPU: its WGSL, its NumPy form, its derivative, and the proof that they agree.

    python examples/own_kernel.py --device auto
"""
from __future__ import annotations

import argparse

import numpy as np

import volta
from volta import nn

swish = volta.kernel(
    "fn swish(x: f32, beta: f32) -> f32 { return x / (1.0 + exp_accurate(-beta * x)); }",
    cpu=lambda x, beta: x / (1 + np.exp(-beta * x)),
    grad=lambda g, x, beta, out: (g * volta.sigmoid(beta * x) * (1 + beta * (x - out)), g * out * (x - out)))


class Swish(nn.Module):
    """x * sigmoid(beta * x), with a beta that is learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(volta.ones(()))

    def forward(self, x: volta.Tensor) -> volta.Tensor:
        return swish(x, self.beta)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "gpu"))
    chosen = parser.parse_args().device
    device = volta.device(("gpu" if volta.gpu.is_available() else "cpu") if chosen == "auto" else chosen)

    swish.check(device)                 # values, layouts, first and second derivatives
    volta.manual_seed(0)
    x = volta.linspace(-3, 3, 256, device=device)[:, None]
    y = volta.sin(2 * x)
    model = nn.Sequential(nn.Linear(1, 32), Swish(), nn.Linear(32, 1)).to(device)
    optimizer = volta.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"{device}: loss {loss.item():.4f}, beta {model[1].beta.item():.3f}")


if __name__ == "__main__":
    main()
