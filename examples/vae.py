"""Train a variational autoencoder on handwritten digits, and draw the plane of digits that it has learnt.

    python examples/vae.py --device cpu

Every digit becomes a place in a plane (`--latent 2`), every place a digit. Ends with the bound on the log-likelihood of held-out digits
(at most 23.6 nats each, after 30 seconds of processor time), and with reconstructions.png (digits above, what comes back below) and
plane.png (digits by their place in the plane).
"""
from __future__ import annotations

import common
import datasets

import volta
from volta import nn
from volta.distributions import Normal
from volta.nn import functional as F


class VAE(nn.Module):
    """An encoder that gives each image a normal distribution over places, and a decoder that draws a place as logits of pixels."""

    def __init__(self, latent: int) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.GELU(), nn.Conv2d(32, 64, 3, 2, padding=1), nn.GELU(), nn.Flatten(),
                                    nn.Linear(64 * 4 * 4, 128), nn.GELU(), nn.Linear(128, 2 * latent))
        self.decode = nn.Sequential(nn.Linear(latent, 128), nn.GELU(), nn.Linear(128, 64 * 4 * 4), nn.GELU(), nn.Unflatten(1, (64, 4, 4)),
                                    nn.ConvTranspose2d(64, 32, 4, 2, padding=1), nn.GELU(), nn.Conv2d(32, 1, 3, padding=1))

    def forward(self, images: volta.Tensor) -> tuple[volta.Tensor, volta.Tensor, volta.Tensor]:
        mean, log_variance = self.encode(images).chunk(2, dim=1)
        place = mean + (0.5 * log_variance).exp() * volta.randn_like(mean)
        return self.decode(place), mean, log_variance


def negative_bound(model: VAE, images: volta.Tensor) -> volta.Tensor:
    """What the pixels cost, given a place, and what the place costs, in nats an image. Source: Kingma and Welling 2014, eq. 10."""
    logits, mean, log_variance = model(images)
    pixels = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    places = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
    return (pixels + places) / len(images)


def main() -> None:
    parser = common.parser(__doc__, "vae-out", steps=3000, quick=25)
    parser.add_argument("--latent", type=int, default=2, help="dimensions of the space of digits")
    options = common.start(parser)
    device = options.device
    images, _, unseen, _ = datasets.digits()
    test = volta.tensor(unseen, device=device)
    loader = volta.data.DataLoader(images, 64, shuffle=True, seed=options.seed, drop_last=True, device=device)
    model = VAE(options.latent).to(device)
    common.describe(model, device)
    optimizer = volta.optim.Adam(model.parameters(), lr=2e-3)
    schedule = volta.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    progress = common.Progress(options.steps)
    for batch in progress.batches(loader):
        optimizer.zero_grad()
        loss = negative_bound(model, batch)
        loss.backward()
        optimizer.step()
        schedule.step()
        progress.add(loss)
    progress.finish()

    with volta.no_grad():
        print(f"{len(test)} held-out digits: at most {negative_bound(model, test).item():.2f} nats each")
        shown = volta.cat([test[:16], model(test[:16])[0].sigmoid()])
        common.save_grid(shown, options.out / "reconstructions.png", columns=16)
        if options.latent == 2:
            line = Normal(0.0, 1.0).icdf(volta.linspace(0.02, 0.98, 16)).to(device)          # as dense as the places of digits
            plane = volta.cartesian_prod(line, line)
        else:
            plane = volta.randn(256, options.latent, device=device)
        common.save_grid(model.decode(plane).sigmoid(), options.out / "plane.png", columns=16)
    volta.save(model.state_dict(), options.out / "vae.safetensors")


if __name__ == "__main__":
    main()
