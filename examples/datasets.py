"""Data for the examples without a network: handwritten digits, drawn shapes in CIFAR-10's format, Python's standard library as text."""
from __future__ import annotations

import sysconfig
from pathlib import Path

import numpy as np

import volta
from volta.vision.datasets import CIFAR10

TEST_DIGITS = 360
SHAPES = ("circle", "ring", "square", "frame", "triangle", "cross", "bar", "half", "crescent", "star")
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))       # what text is made of here: index i is CHARACTERS[i]


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images (float32 in [0, 1], N x 1 x 8 x 8) and labels (int64) to learn from, then the held-out ones, always the same."""
    with np.load(Path(__file__).with_name("digits.npz")) as file:
        images, labels = file["images"], file["labels"]
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(images))
    images, labels = images[order, None].astype(np.float32) / 16, labels[order].astype(np.int64)
    return images[TEST_DIGITS:], labels[TEST_DIGITS:], images[:TEST_DIGITS], labels[:TEST_DIGITS]


def draw_shapes(count: int, size: int, seed: int, noise: float = 0.03) -> tuple[np.ndarray, np.ndarray]:
    """One of SHAPES an image (uint8, count x 3 x size x size), anywhere, of any size and colour, on a shaded ground; and its number."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(SHAPES), size=count)

    def each(low: float, high: float, channels: int = 1) -> np.ndarray:
        return rng.uniform(low, high, (count, channels, 1, 1))
    y, x = np.mgrid[:size, :size] / size - 0.5
    radius, angle = each(0.22, 0.38), each(-0.4, 0.4)
    moved_x, moved_y = (x - each(-0.1, 0.1)) / radius, (y - each(-0.1, 0.1)) / radius
    u, v = moved_x * np.cos(angle) + moved_y * np.sin(angle), moved_y * np.cos(angle) - moved_x * np.sin(angle)
    r, box, theta = np.hypot(u, v), np.maximum(abs(u), abs(v)), np.arctan2(u, -v)
    bar, post = np.maximum(abs(u) - 1, abs(v) - 0.3), np.maximum(abs(u) - 0.3, abs(v) - 1)
    distances = (r - 1, abs(r - 0.75) - 0.25, box - 0.8, abs(box - 0.7) - 0.2, np.maximum(v - 0.6, 0.87 * abs(u) - 0.5 * v - 0.5),
                 np.minimum(bar, post), bar, np.maximum(r - 1, v), np.maximum(r - 1, 0.8 - np.hypot(u - 0.5, v)),
                 r - 0.7 - 0.3 * np.cos(5 * theta))           # below zero inside
    distance = np.take_along_axis(np.concatenate(distances, 1), labels[:, None, None, None], 1)
    inside = np.clip(0.5 - distance * radius * size, 0, 1)    # edges as soft as a pixel
    ground = each(0, 1, 3) + 0.5 * (each(-1, 1, 3) * x + each(-1, 1, 3) * y)
    colour = (each(0, 1, 3).round() * 0.6 + each(0, 0.4, 3) + ground.mean((2, 3), keepdims=True) + 0.5) % 1
    images = ground + inside * (colour - ground) + rng.normal(0, noise, ground.shape)
    return (np.clip(images, 0, 1) * 255).round().astype(np.uint8), labels


def cifar10(data: Path | None, out: Path, count: int) -> str:
    """The folder with CIFAR-10's files: `data`, or one in `out`, into which drawn shapes are written in CIFAR-10's binary format."""
    if data:
        return str(data)
    folder = out / CIFAR10.binary_folder
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate([*CIFAR10.train_list, *CIFAR10.test_list]):
        images, labels = draw_shapes(count // 5, 32, seed)
        np.column_stack([labels.astype(np.uint8), images.reshape(len(images), -1)]).tofile(folder / f"{name}.bin")
    (folder / CIFAR10.names_file).write_text("\n".join(SHAPES))
    print(f"no --data with CIFAR-10's files: {count} drawn shapes in their format, in {folder}")
    return str(out)


def standard_library(limit: int | None = None) -> np.ndarray:
    """The text of the modules of Python's standard library, as indices into CHARACTERS; at most `limit` of them."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = "\n".join(path.read_text(encoding="utf-8", errors="ignore") for path in files)
    table = np.full(128, -1)
    table[[ord(c) for c in CHARACTERS]] = np.arange(len(CHARACTERS))
    indices = table[np.frombuffer(text.encode("ascii", "ignore"), np.uint8)]
    return indices[indices >= 0][:limit]


def windows(text: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of `length` characters to learn from, and rows of the last tenth of the text, which are held out."""
    rows = text[:len(text) // length * length].reshape(-1, length)
    return rows[:-len(rows) // 10], rows[-len(rows) // 10:]


def encode(text: str, device: volta.device) -> volta.Tensor:
    """The indices of a text's characters."""
    return volta.tensor([CHARACTERS.index(c) for c in text], device=device)


def decode(indices: volta.Tensor) -> str:
    """The text of indices."""
    return "".join(CHARACTERS[i] for i in indices.tolist())
