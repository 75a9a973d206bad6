"""What the examples share: their options, a progress bar that does not make a GPU wait, the check at the end, and pictures."""
from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from tqdm import tqdm

import volta
from volta import nn
from volta.vision.utils import save_image

T = TypeVar("T")
READ_EVERY = 10         # steps between looks at the loss: a look waits for the GPU


def parser(doc: str, out: str, steps: int = 0, quick: int = 0) -> argparse.ArgumentParser:
    """The options that every example has: `steps` is how many training steps it takes, if it trains, `quick` how many with --quick."""
    options = argparse.ArgumentParser(description=doc.splitlines()[0])
    options.add_argument("--device", choices=("cpu", "gpu", "auto"), default="auto", help="auto takes a GPU where there is one")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--quick", action="store_true", help="a few seconds, to see that it works")
    options.add_argument("--out", type=Path, default=Path(out), metavar="FOLDER", help="where the results go")
    options.set_defaults(sizes={})
    if steps:
        add_size(options, "steps", steps, quick)
    return options


def add_size(options: argparse.ArgumentParser, name: str, full: int, quick: int) -> None:
    """An option --name with a number that is smaller with --quick."""
    options.add_argument(f"--{name}", type=int, help=f"{full} by default, {quick} with --quick")
    options.set_defaults(sizes={**options.get_default("sizes"), name: (full, quick)})


def start(options: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line, with `device` a device and the folder `out` made; every random number follows from the seed."""
    given = options.parse_args()
    for name, sizes in given.sizes.items():
        if getattr(given, name) is None:
            setattr(given, name, sizes[given.quick])
        if getattr(given, name) < 1:
            options.error(f"--{name} must be at least 1, got {getattr(given, name)}")
    if given.out.exists() and not given.out.is_dir():
        options.error(f"--out needs a folder, {given.out} is a file")
    given.out.mkdir(parents=True, exist_ok=True)
    given.device = volta.device("gpu" if given.device == "auto" and volta.gpu.is_available() else given.device.replace("auto", "cpu"))
    volta.manual_seed(given.seed)
    return given


class Progress:
    """Training steps under a bar that shows the loss, or another figure. Figures stay on the device and are read a few at a time."""

    def __init__(self, steps: int, name: str = "loss") -> None:
        self.steps, self.name, self.seconds = steps, name, 0.0
        self.values: list[float] = []
        self._unread: list[volta.Tensor] = []

    def __iter__(self) -> Iterator[int]:
        began = time.perf_counter()
        with tqdm(range(self.steps), unit="step") as bar:
            for step in bar:
                yield step
                if len(self._unread) == READ_EVERY or step == self.steps - 1:
                    self.values += volta.stack(self._unread).tolist()
                    self._unread.clear()
                    bar.set_postfix_str(f"{self.name} {np.mean(self.values[-READ_EVERY:]):.4f}", refresh=False)
        self.seconds = time.perf_counter() - began

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """The loader's batches, epoch after epoch, until the steps are done."""
        def endless() -> Iterator[T]:
            while True:
                yield from loader
        for _, batch in zip(self, endless()):
            yield batch

    def add(self, value: volta.Tensor) -> None:
        """The figure of this step."""
        self._unread.append(value.detach())

    def time(self) -> str:
        """The steps and how long they took."""
        return f"{self.steps} steps, {self.seconds:.1f} s ({self.steps / self.seconds:.1f} steps/s)"

    def finish(self, rises: bool = False) -> None:
        """Say how long it took and what became of the figure. Raises: SystemExit (code 1) where it did not fall, or rise."""
        part = max(1, min(50, self.steps // 4))
        before, after = np.mean(self.values[:part]), np.mean(self.values[-part:])
        print(f"{self.name} {before:.4f} -> {after:.4f} in {self.time()}")
        require(after > before if rises else after < before, f"{self.name} did not {'rise' if rises else 'fall'}")


def require(condition: bool, otherwise: str) -> None:
    """End the program with code 1 where what it should show is not so."""
    if not condition:
        raise SystemExit(f"NOT AS PROMISED: {otherwise}")


def describe(model: nn.Module, device: volta.device) -> None:
    """One line about a model."""
    print(f"{type(model).__name__}: {sum(p.numel() for p in model.parameters()):,} parameters on {device}")


def save_grid(images: volta.Tensor, path: Path, columns: int, enlarge: int = 4) -> None:
    """Images side by side, numbers from 0 to 1, with square pixels that one can see."""
    save_image(nn.functional.interpolate(images.detach(), scale_factor=enlarge, mode="nearest"), path, nrow=columns, pad_value=1.0)
    print(f"picture: {path}")


def figure(width: float, height: float) -> Any:
    """An empty figure of matplotlib, None where that is not installed; `save_figure` writes it."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture, since matplotlib is not installed: pip install 'volta[plot]'")
        return None
    drawn = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawn)
    return drawn


def save_figure(figure: Any, path: Path) -> None:
    """Write what was drawn into a figure of `figure`."""
    figure.savefig(path, dpi=110)
    print(f"picture: {path}")
