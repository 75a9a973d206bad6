"""Fine-tune a network from a PyTorch checkpoint: its trunk stays as it was trained, and a new head learns another question from few images.

    python examples/fine_tune.py --device cpu
    python examples/fine_tune.py --checkpoint trunk.pt

A trunk that can tell the ten digits learns another question, whether a digit is odd, from 20 images. The checkpoint is a .pt file as
`torch.save(model.state_dict(), "trunk.pt")` writes it; without --checkpoint it is trained first, and written in that format. `Net` has
the same names in PyTorch, so that a file made there fits. Ends with the accuracy on held-out digits: 95.8%, where the same network
taught from nothing has 66.1%; a few seconds.
"""
from __future__ import annotations

import argparse
from pathlib import Path

import common
import datasets

import volta
from volta import nn
from volta.nn import functional as F


class Net(nn.Module):
    """A trunk, which sees, and a head, which names."""

    def __init__(self, classes: int = 10, width: int = 32) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 2, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(2 * width * 4, classes)

    def forward(self, images: volta.Tensor) -> volta.Tensor:
        return self.head(self.trunk(images))


def teach(model: Net, images: volta.Tensor, labels: volta.Tensor, steps: int, options: argparse.Namespace, frozen: bool = False) -> None:
    """Train what wants a gradient. A frozen trunk also keeps its statistics: it is left in the mode in which it is used."""
    model.train()
    if frozen:
        model.trunk.requires_grad_(False).eval()
    loader = volta.data.DataLoader((images, labels), min(64, len(images)), shuffle=True, seed=options.seed, drop_last=True)
    optimizer = volta.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    progress = common.Progress(steps)
    for x, y in progress.batches(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        progress.add(loss)
    progress.finish()
    model.eval()


@volta.no_grad()
def accuracy(model: Net, images: volta.Tensor, labels: volta.Tensor) -> float:
    """The part of the images whose class is found."""
    return (model(images).argmax(1) == labels).float().mean().item()


def main() -> None:
    parser = common.parser(__doc__, "fine-tune-out", steps=200, quick=20)
    parser.add_argument("--checkpoint", type=Path, metavar="FILE", help="a .pt file with the state dict of a Net")
    common.add_size(parser, "images", 20, 20)
    options = common.start(parser)
    device = options.device
    images, digits, test_images, test_digits = (volta.tensor(array, device=device) for array in datasets.digits())
    checkpoint = options.checkpoint or options.out / "trunk.pt"
    if not options.checkpoint:
        known = Net().to(device)
        teach(known, images, digits, options.steps, options)
        print(f"which digit it is: {accuracy(known, test_images, test_digits):.1%}, saved as {checkpoint}")
        volta.save(known.state_dict(), checkpoint)

    mapper = volta.io.StateDictMapper().exclude("head.weight", "head.bias")
    state, _ = mapper(volta.load(checkpoint, map_location=device))
    tuned, fresh = Net(2).to(device), Net(2).to(device)
    missing, unexpected = tuned.load_state_dict(state, strict=False)
    print(f"{checkpoint}: {len(state)} tensors; new: {', '.join(missing)}")
    common.require(not unexpected and set(missing) == {"head.weight", "head.bias"}, f"the checkpoint does not fit: {unexpected}")
    lesson = images[:options.images], digits[:options.images] % 2
    teach(tuned, *lesson, options.steps, options, frozen=True)
    teach(fresh, *lesson, options.steps, options)
    same = all(volta.equal(value, tuned.state_dict()[name]) for name, value in state.items())
    common.require(same, "the frozen trunk has changed")
    print(f"whether it is odd, from {options.images} images: {accuracy(tuned, test_images, test_digits % 2):.1%} on the frozen trunk, "
          f"{accuracy(fresh, test_images, test_digits % 2):.1%} from nothing ({len(test_digits)} unseen digits)")
    volta.save(tuned.state_dict(), options.out / "fine_tuned.pt")


if __name__ == "__main__":
    main()
