"""Train a small convolutional network on handwritten digits, on the CPU or a GPU.

    python examples/train_digits.py --device auto

Writes digits.safetensors (the trained weights), and digits.png where matplotlib is installed, to --out. With --check-steps it also
shows from `volta.gpu.stats()` that a training step on a GPU copies nothing, allocates nothing new and submits at most three times.
"""
from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import common
import datasets
import numpy as np
from tqdm import tqdm

import volta
from volta import nn
from volta.nn import functional as F

BATCH = 64
WARM_STEPS = 4      # steps after which a GPU has every buffer and bind group that it needs, but for those where an epoch ends
READ_EVERY = 11     # steps between looks at the loss: a look waits for the GPU


class DigitNet(nn.Module):
    """Three convolutions, each with batch normalisation and GELU, the last two halving the image; then one linear layer.

    Everything is smooth: at the kinks of ReLU and max pooling, the last bit of a number, which differs from device to device,
    decides which way a gradient flows, and two runs drift apart by a percent in 100 steps. Without kinks they agree to 1e-6.
    """

    def __init__(self, device: volta.device | None = None) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *self.block(1, 32, 1, device), *self.block(32, 64, 2, device), *self.block(64, 64, 2, device),
            nn.Flatten(), nn.Dropout(0.3))
        self.classify = nn.Linear(64 * 2 * 2, 10, device=device)

    @staticmethod
    def block(inputs: int, outputs: int, stride: int, device: volta.device | None) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False, device=device),
                nn.BatchNorm2d(outputs, device=device), nn.GELU()]

    def forward(self, x: volta.Tensor) -> volta.Tensor:
        return self.classify(self.features(x))


class History:
    """Loss and accuracy of every step, kept on the device, so that a step has nothing to wait for; read a few steps at a time."""

    def __init__(self, steps: int, device: volta.device) -> None:
        self.losses, self.accuracies = volta.zeros(steps, device=device), volta.zeros(steps, device=device)

    def write(self, step: int, loss: volta.Tensor, logits: volta.Tensor, labels: volta.Tensor) -> None:
        self.losses[step] = loss.detach()
        self.accuracies[step] = (logits.detach().argmax(1) == labels).float().mean()

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        return self.losses.cpu().numpy(), self.accuracies.cpu().numpy()


class StepCheck:
    """Forbids transfers in a step body and counts what the GPU did there."""

    def __init__(self, active: bool) -> None:
        self.active, self.steps = active, list[Any]()

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        if not self.active:
            yield
            return
        volta.gpu.synchronize()
        before = volta.gpu.stats()
        with volta.gpu.forbid_transfers() if self.steps else contextlib.nullcontext():
            yield
        volta.gpu.synchronize()
        self.steps.append(volta.gpu.stats() - before)

    def totals(self) -> tuple[int, int, int, int]:
        """From the step after the warm ones on: new buffers, steps with new bind groups, and the most submits and dispatches of a step."""
        warm = self.steps[WARM_STEPS:]
        return (sum(s.buffers_created for s in warm), sum(s.bind_groups_created > 0 for s in warm),
                max((s.submits for s in warm), default=0), max((s.dispatches for s in warm), default=0))

    def passed(self) -> bool:
        buffers, groups, submits, _ = self.totals()
        # Where an epoch ends, or a batch is late, none goes up ahead, and the next ones lie elsewhere.
        return not buffers and groups * 4 <= len(self.steps) and submits <= 3

    def report(self) -> str:
        buffers, groups, submits, dispatches = self.totals()
        verdict = "ok" if self.passed() else "NOT AS PROMISED"
        return (f"steps: {len(self.steps)} passed without a transfer; from step {WARM_STEPS + 1} on {buffers} new buffers, "
                f"new bind groups in {groups} steps, at most {submits} submits and {dispatches} dispatches a step: {verdict}")


def distort(batch: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Each image slightly turned, stretched, sheared and moved by up to a pixel, with bilinear interpolation."""
    images, labels = batch
    n = len(images)
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(8), indexing="ij"), -1).reshape(1, 64, 2) - 3.5
    matrix = np.eye(2) + rng.uniform(-0.15, 0.15, (n, 2, 2))
    places = np.clip(grid @ matrix + rng.uniform(-1, 1, (n, 1, 2)) + 4.5, 0, 8.999)       # in an image with a border of one pixel
    whole = places.astype(int)
    (y, x), (fy, fx) = np.moveaxis(whole, 2, 0), np.moveaxis(places - whole, 2, 0)
    padded, i = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1))), np.arange(n)[:, None]
    upper = padded[i, y, x] * (1 - fx) + padded[i, y, x + 1] * fx
    lower = padded[i, y + 1, x] * (1 - fx) + padded[i, y + 1, x + 1] * fx
    return (upper * (1 - fy) + lower * fy).reshape(images.shape).astype(np.float32), labels


def train_step(model: nn.Module, optimizer: volta.optim.Optimizer, x: volta.Tensor, y: volta.Tensor, history: History,
               step: int) -> None:
    """One step on one batch. Nothing here reads from the device."""
    optimizer.zero_grad()
    logits = model(x)
    loss = F.cross_entropy(logits, y, label_smoothing=0.05)
    loss.backward()
    optimizer.step()
    history.write(step, loss, logits, y)


def train(model: nn.Module, images: np.ndarray, labels: np.ndarray, options: argparse.Namespace,
          device: volta.device) -> tuple[np.ndarray, StepCheck]:
    """Train in place; gives the loss of every step, and what --check-steps found."""
    loader = volta.data.DataLoader((images, labels), BATCH, shuffle=True, seed=options.seed, drop_last=True, device=device,
                                   transform=distort)
    optimizer = volta.optim.Adam(model.parameters(), lr=2e-3)
    schedule = volta.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.epochs, eta_min=2e-5)
    total = options.epochs * len(loader)
    history, check, step = History(total, device), StepCheck(options.check_steps and device.is_gpu), 0
    model.train()
    with tqdm(total=total, unit="step") as bar:
        for epoch in range(options.epochs):
            bar.set_description(f"epoch {epoch + 1}/{options.epochs}")
            for x, y in loader:
                with check():
                    train_step(model, optimizer, x, y, history, step)
                step += 1
                if step % READ_EVERY == 0 or step == total:
                    losses, accuracies = history.read()
                    recent = slice(max(step - len(loader), 0), step)
                    bar.set_postfix_str(f"loss {losses[recent].mean():.4f}, accuracy {accuracies[recent].mean():.1%}",
                                        refresh=False)
                bar.update()
            schedule.step()
    return history.read()[0], check


@volta.no_grad()
def predict(model: nn.Module, images: np.ndarray, device: volta.device) -> np.ndarray:
    """The most likely digit of each image."""
    model.eval()
    return model(volta.tensor(images, device=device)).argmax(1).cpu().numpy()


def plot(path: Path, losses: np.ndarray, images: np.ndarray, labels: np.ndarray, predictions: np.ndarray, accuracy: float) -> None:
    """Loss curve and a row of test digits with their predictions, as a PNG, where matplotlib is installed."""
    if not (figure := common.figure(10, 5)):
        return
    right = predictions == labels
    shown = [i for digit in range(10) for i in np.flatnonzero(right & (labels == digit))[:1]] + list(np.flatnonzero(~right)[:2])
    figure.suptitle(f"Handwritten digits: {accuracy:.2%} of {len(labels)} test images", fontsize=14)
    grid = figure.add_gridspec(2, len(shown), height_ratios=(2.6, 1))
    axes = figure.add_subplot(grid[0, :])
    width = min(22, len(losses))
    smooth = np.convolve(losses, np.ones(width) / width, "valid")
    axes.plot(np.arange(1, len(losses) + 1), losses, color="#9db8d9", linewidth=0.8, label="each step")
    axes.plot(np.arange(len(smooth)) + 1 + width / 2, smooth, color="#1f4e8c", linewidth=2, label=f"mean of {width} steps")
    axes.set(xlabel="step", ylabel="training loss (nats)", xlim=(1, max(len(losses), 2)), ylim=(0, None))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    for column, i in enumerate(shown):
        axes = figure.add_subplot(grid[1, column])
        axes.imshow(images[i, 0], cmap="gray_r", vmin=0, vmax=1)
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"{predictions[i]}" if right[i] else f"{predictions[i]}, is {labels[i]}", fontsize=13 if right[i] else 10,
                       color="#1f7a3d" if right[i] else "#c0392b")
    common.save_figure(figure, path)


def parse_arguments() -> argparse.Namespace:
    parser = common.parser(__doc__, "digits-out")
    common.add_size(parser, "epochs", 30, 2)
    parser.add_argument("--losses", type=Path, metavar="FILE", help="write the loss of every step to this text file")
    parser.add_argument("--check-steps", action="store_true", help="on a GPU, check that steps copy and allocate nothing")
    options = common.start(parser)
    if options.losses and not options.losses.parent.is_dir():
        parser.error(f"--losses: there is no folder {options.losses.parent}")
    return options


def main() -> None:
    options = parse_arguments()
    device = options.device
    images, labels, test_images, test_labels = datasets.digits()
    model = DigitNet(device)
    size = sum(p.numel() for p in model.parameters())
    print(f"{len(images)} digits to learn from, {len(test_images)} held out; {size:,} parameters on {device}")
    start = time.perf_counter()
    losses, check = train(model, images, labels, options, device)
    seconds = time.perf_counter() - start
    predictions = predict(model, test_images, device)
    accuracy = (predictions == test_labels).mean()
    wrong = (predictions != test_labels).sum()
    print(f"test accuracy {accuracy:.2%} ({wrong} of {len(test_labels)} wrong), trained in {seconds:.1f} s")

    checkpoint = options.out / "digits.safetensors"
    volta.save(model.state_dict(), checkpoint)
    fresh = DigitNet(device)
    fresh.load_state_dict(volta.load(checkpoint))
    if not np.array_equal(predict(fresh, test_images, device), predictions):
        raise SystemExit(f"{checkpoint}: the reloaded model predicts differently")
    print(f"{checkpoint}: reloaded, same predictions")
    plot(options.out / "digits.png", losses, test_images, test_labels, predictions, accuracy)
    if options.losses:
        np.savetxt(options.losses, losses, fmt="%.9g")
    if check.active:
        print(check.report())
        if not check.passed():
            raise SystemExit(1)
    elif options.check_steps:
        print("steps: nothing to check on the CPU; --check-steps looks at a GPU's transfers, buffers and submits")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
