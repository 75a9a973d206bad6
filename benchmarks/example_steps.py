"""A training step of each example (examples/), with Volta or PyTorch: its networks and its losses as they are written there, on random
data. What the example does besides (its data, its pictures) is left out."""
from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NEEDED = ("nn", "nn.functional", "distributions")
LEFT_OUT = ("common", "volta.vision", "volta.vision.datasets", "volta.vision.transforms", "volta.vision.utils")


class Anything(types.ModuleType):
    """A module with every name that is asked for, of which nothing is used."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


def load(lib, name: str) -> types.ModuleType:
    """The example's module, in which `volta` means `lib`."""
    if lib.__name__ != "volta":
        sys.modules.update({"volta": lib} | {f"volta.{part}": importlib.import_module(f"{lib.__name__}.{part}") for part in NEEDED})
        sys.modules.update({part: Anything(part) for part in LEFT_OUT})
    sys.path.insert(0, str(EXAMPLES))
    return importlib.import_module(name.removesuffix(".py"))


def sentences(example, lib, batch: int, model, length: int) -> tuple:
    text = lib.tensor(np.random.default_rng(0).integers(0, 90, (batch, length + 1)))
    return model, lambda: example.cost(model, text)


def char_gpt(example, lib, batch: int) -> tuple:
    return sentences(example, lib, batch, example.GPT(4, 128, 4, 128), 128)


def char_lstm(example, lib, batch: int) -> tuple:
    return sentences(example, lib, batch, example.CharLSTM(256), 64)


def regression(example, lib, batch: int) -> tuple:
    (x, y), model = example.draw(500, lib.device("cpu")), example.Curve()

    def cost():
        mean, variance = model(x)
        return lib.nn.functional.gaussian_nll_loss(mean, y, variance)
    return model, cost


def reinforce(example, lib, batch: int) -> tuple:
    nn, functional = lib.nn, lib.nn.functional
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))

    def cost():
        states, pushes, alive = example.play(policy, batch, 60, lib.device("cpu"))
        chance = functional.binary_cross_entropy_with_logits(policy(states)[..., 0], pushes, reduction="none")
        return (chance * example.returns(alive)).sum() / alive.sum()
    return policy, cost


def super_resolution(example, lib, batch: int) -> tuple:
    model, images, functional = example.SubPixelNet(32), lib.rand(batch, 3, 64, 64), lib.nn.functional
    return model, lambda: functional.mse_loss(model(functional.avg_pool2d(images, example.SCALE)), images)


def classes(lib, batch: int, model, *shape: int) -> tuple:
    images, labels = lib.rand(batch, *shape), lib.tensor(np.random.default_rng(0).integers(0, 10, batch))
    return model, lambda: lib.nn.functional.cross_entropy(model(images), labels, label_smoothing=0.05)


def resnet_cifar(example, lib, batch: int) -> tuple:
    return classes(lib, batch, example.ResNet18(16, 10), 3, 32, 32)


def train_digits(example, lib, batch: int) -> tuple:
    return classes(lib, batch, example.DigitNet(), 1, 8, 8)


def vae(example, lib, batch: int) -> tuple:
    model, images = example.VAE(2), lib.rand(batch, 1, 8, 8)
    return model, lambda: example.negative_bound(model, images)


def dcgan(example, lib, batch: int) -> tuple:
    draws, tells = (make(32).apply(example.initialize) for make in (example.generator, example.discriminator))
    real = lib.rand(batch, 1, 16, 16)

    def costs() -> Iterator:
        drawn = draws(lib.randn(batch, example.NOISE, 1, 1))
        yield example.judged(tells(real), 0.9) + example.judged(tells(drawn.detach()), 0.0)
        yield example.judged(tells(drawn), 1.0)
    return (tells, draws), costs


def example_step(lib, name: str, batch: int) -> Callable[[], None]:
    """A function that does one step of the example with Adam, or the SGD of its own: of each of its networks, for each of its losses."""
    example = load(lib, name)
    models, costs = globals()[name.removesuffix(".py")](example, lib, batch)
    models = models if isinstance(models, tuple) else (models,)
    make = lib.optim.SGD if name == "resnet_cifar.py" else lib.optim.Adam
    options = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4, "nesterov": True} if make is lib.optim.SGD else {"lr": 1e-3}
    optimizers = [make(model.parameters(), **options) for model in models]

    def step() -> None:
        found = costs()
        for optimizer, cost in zip(optimizers, found if len(models) > 1 else (found,)):
            optimizer.zero_grad()
            cost.backward()
            optimizer.step()
    return step
