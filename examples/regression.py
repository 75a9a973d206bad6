"""Fit a curve with error bars that know where the data are noisy: a network that gives a mean and a width for every x.

    python examples/regression.py --device cpu

Data are drawn from a sine whose noise grows with x. Ends with the error (0.03, after 2 seconds), with how many unseen points lie in the
band of 95% (95.5%), and with regression.png: data, true curve, fit and band, and the loss.
"""
from __future__ import annotations

import common
import numpy as np

import volta
from volta import nn
from volta.nn import functional as F


def truth(x: volta.Tensor) -> tuple[volta.Tensor, volta.Tensor]:
    """Mean and standard deviation of the data at x."""
    return volta.sin(2 * x) + 0.3 * x, 0.05 + 0.25 * volta.sigmoid(2 * x)


def draw(count: int, device: volta.device) -> tuple[volta.Tensor, volta.Tensor]:
    """Points of the data set. Shape: (count, 1) each."""
    x = volta.rand(count, 1, device=device) * 6 - 3
    mean, width = truth(x)
    return x, mean + width * volta.randn(count, 1, device=device)


class Curve(nn.Module):
    """Mean and variance of y for every x."""

    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(1, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2))

    def forward(self, x: volta.Tensor) -> tuple[volta.Tensor, volta.Tensor]:
        mean, width = self.layers(x).chunk(2, dim=1)
        return mean, F.softplus(width) ** 2


def main() -> None:
    options = common.start(common.parser(__doc__, "regression-out", steps=2000, quick=60))
    device = options.device
    x, y = draw(500, device)
    model = Curve().to(device)
    common.describe(model, device)
    optimizer = volta.optim.Adam(model.parameters(), lr=0.01)
    schedule = volta.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    progress = common.Progress(options.steps)
    for _ in progress:
        optimizer.zero_grad()
        mean, variance = model(x)
        loss = F.gaussian_nll_loss(mean, y, variance)
        loss.backward()
        optimizer.step()
        schedule.step()
        progress.add(loss)
    progress.finish()

    with volta.no_grad():
        new_x, new_y = draw(2000, device)
        mean, variance = model(new_x)
        error = (mean - truth(new_x)[0]).square().mean().sqrt().item()
        covered = ((new_y - mean).abs() < 1.96 * variance.sqrt()).float().mean().item()
        line = volta.linspace(-3, 3, 300, device=device)[:, None]
        fitted, spread = (t[:, 0].cpu().numpy() for t in model(line))
    print(f"the curve is off by {error:.3f} on average; {covered:.1%} of 2000 unseen points lie in the band of 95%")
    volta.save(model.state_dict(), options.out / "regression.safetensors")

    if figure := common.figure(10, 4.2):
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        axis, band = line[:, 0].cpu().numpy(), 1.96 * np.sqrt(spread)
        left.scatter(x.cpu().numpy(), y.cpu().numpy(), s=6, color="#9db8d9", label="data")
        left.plot(axis, truth(line)[0][:, 0].cpu().numpy(), "--", color="#c0392b", label="truth")
        left.plot(axis, fitted, color="#1f4e8c", linewidth=2, label="fit")
        left.fill_between(axis, fitted - band, fitted + band, color="#1f4e8c", alpha=0.15, label="95%")
        left.set(xlabel="x", ylabel="y")
        left.legend(frameon=False)
        right.plot(progress.values, color="#1f4e8c")
        right.set(xlabel="step", ylabel="loss (nats)")
        common.save_figure(figure, options.out / "regression.png")


if __name__ == "__main__":
    main()
