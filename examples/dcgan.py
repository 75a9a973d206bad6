"""Train a DCGAN on handwritten digits: one network draws digits, the other tells them from real ones, and each learns from the other.

    python examples/dcgan.py --device cpu

Ends with the Frechet distance between drawn and real digits, which is 0 where means and covariances of the pixels agree: it falls from 58
to 1.0 in 90 seconds of processor time, and is 0.2 between two sets of real digits. dcgan.png shows what the first network draws.
"""
from __future__ import annotations

import common
import datasets

import volta
from volta import nn
from volta.nn import functional as F

NOISE = 32


def generator(width: int) -> nn.Sequential:
    """Noise (n, NOISE, 1, 1) to images (n, 1, 16, 16) from -1 to 1: each transposed convolution doubles the height and the width."""
    return nn.Sequential(
        nn.ConvTranspose2d(NOISE, 4 * width, 4, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
        nn.ConvTranspose2d(2 * width, 1, 4, 2, padding=1), nn.Tanh())


def discriminator(width: int) -> nn.Sequential:
    """Images to logits of being real."""
    return nn.Sequential(
        nn.Conv2d(1, width, 4, 2, padding=1), nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, 2, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2),
        nn.Conv2d(2 * width, 1, 4), nn.Flatten(0))


def initialize(module: nn.Module) -> None:
    """Source: Radford, Metz and Chintala 2016, section 4."""
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)


def judged(logits: volta.Tensor, truth: float) -> volta.Tensor:
    """What it costs to say these logits where all images are real (1), drawn (0), or mostly real (0.9)."""
    return F.binary_cross_entropy_with_logits(logits, volta.full_like(logits, truth))


def moments(images: volta.Tensor) -> tuple[volta.Tensor, volta.Tensor]:
    """Mean and covariance of the pixels of images made smaller, in float64 on the CPU, where matrices are decomposed."""
    pixels = F.avg_pool2d(images, 2).flatten(1).to("cpu", volta.float64)
    return pixels.mean(0), volta.cov(pixels.T)


def distance(images: volta.Tensor, others: volta.Tensor) -> float:
    """Frechet distance of two normal distributions with the moments of the images. Source: Heusel et al. 2017."""
    (mean, covariance), (other_mean, other) = moments(images), moments(others)
    values, vectors = volta.linalg.eigh(covariance)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    cross = volta.linalg.eigvalsh(root @ other @ root).clamp(min=0).sqrt().sum()
    return ((mean - other_mean).square().sum() + covariance.trace() + other.trace() - 2 * cross).item()


def main() -> None:
    parser = common.parser(__doc__, "dcgan-out", steps=3000, quick=25)
    for name, full, quick in (("width", 32, 8), ("batch", 64, 32)):
        common.add_size(parser, name, full, quick)
    options = common.start(parser)
    device = options.device
    images, _, test, _ = (volta.tensor(array, device=device) for array in datasets.digits())
    images, test = (F.interpolate(x * 2 - 1, size=16, mode="bilinear") for x in (images, test))
    loader = volta.data.DataLoader(images, options.batch, shuffle=True, seed=options.seed, drop_last=True)
    draws, tells = generator(options.width).to(device).apply(initialize), discriminator(options.width).to(device).apply(initialize)
    draw_optimizer = volta.optim.Adam(draws.parameters(), lr=1e-3, betas=(0.5, 0.999))
    tell_optimizer = volta.optim.Adam(tells.parameters(), lr=5e-4, betas=(0.5, 0.999))
    noise = volta.randn(len(test), NOISE, 1, 1, device=device)
    with volta.no_grad():
        before = distance(draws(noise), test)

    progress = common.Progress(options.steps)
    for real in progress.batches(loader):
        drawn = draws(volta.randn(len(real), NOISE, 1, 1, device=device))
        tell_optimizer.zero_grad()
        on_real, on_drawn = tells(real), tells(drawn.detach())              # apart: their batches have statistics of their own
        (judged(on_real, 0.9) + judged(on_drawn, 0.0)).backward()
        tell_optimizer.step()
        draw_optimizer.zero_grad()
        loss = judged(tells(drawn), 1.0)                # what is drawn shall be taken for real
        loss.backward()
        draw_optimizer.step()
        progress.add(loss)

    draws.eval()
    with volta.no_grad():
        drawn = draws(noise)
        after, known = distance(drawn, test), distance(images, test)
    print(f"Frechet distance {before:.2f} -> {after:.2f} in {progress.time()}; of the digits to learn from {known:.2f}")
    common.save_grid(drawn[:128] / 2 + 0.5, options.out / "dcgan.png", columns=16)
    volta.save({"generator": draws.state_dict(), "discriminator": tells.state_dict()}, options.out / "dcgan.pt")
    common.require(after < before, "the Frechet distance did not fall")


if __name__ == "__main__":
    main()
