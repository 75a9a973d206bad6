"""An activation of your own, trained on the CPU or a GPU: its WGSL, its NumPy form, its derivative, and the proof that they agree.

    python examples/own_kernel.py --device auto
"""
from __future__ import annotations

import common
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
    options = common.start(common.parser(__doc__, "own-kernel-out", steps=300, quick=300))
    device = options.device
    swish.check(device)                 # values, layouts, first and second derivatives
    x = volta.linspace(-3, 3, 256, device=device)[:, None]
    y = volta.sin(2 * x)
    model = nn.Sequential(nn.Linear(1, 32), Swish(), nn.Linear(32, 1)).to(device)
    optimizer = volta.optim.Adam(model.parameters(), lr=0.02)
    progress = common.Progress(options.steps)
    for _ in progress:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        progress.add(loss)
    progress.finish()
    print(f"{device}: loss {loss.item():.4f}, beta {model[1].beta.item():.3f}")
    volta.save(model.state_dict(), options.out / "swish.safetensors")


if __name__ == "__main__":
    main()
