"""Calls of layers and of what moves data that both tables time: label, arguments (shapes, or an Index), function(library, *tensors)."""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

IMAGES, WIDE = (32, 64, 28, 28), (64, 128, 56, 56)


class Index(NamedTuple):
    """Integers in [0, below); with `once` none of them twice along `dim`."""

    shape: tuple[int, ...]
    below: int
    once: bool = False
    dim: int = 1

    def draw(self, rng) -> np.ndarray:
        return rng.random(self.shape, dtype=np.float32).argsort(self.dim) if self.once else rng.integers(0, self.below, self.shape)


def calls(large: bool) -> list[tuple[str, list[tuple[int, ...]], Callable]]:
    """The table's rows; `large` for a GPU."""
    images, rows = (WIDE if large else IMAGES), ((64, 512), (4096, 768)) + ((16384, 1024), (4096, 8192)) * large
    channels = images[1:2]
    found = []
    for shape in rows:
        last = shape[-1:]
        found += [(f"layer_norm {shape}", [shape, last, last], lambda lib, x, w, b, s=last: lib.nn.functional.layer_norm(x, s, w, b)),
                  (f"rms_norm {shape}", [shape, last], lambda lib, x, w, s=last: lib.nn.functional.rms_norm(x, s, w)),
                  *[(f"var {shape} dim {d}", [shape], lambda lib, x, d=d: lib.var(x, d)) for d in (0, 1)]]
    found += [(f"group_norm {images}, {n} groups", [images, channels, channels],
               lambda lib, x, w, b, n=n: lib.nn.functional.group_norm(x, n, w, b)) for n in (8, 32)]
    found += [(f"instance_norm {images}", [images, channels, channels],
               lambda lib, x, w, b: lib.nn.functional.instance_norm(x, None, None, w, b)),
              (f"var {images} dim (0, 2, 3)", [images], lambda lib, x: lib.var(x, (0, 2, 3)))]
    line, volume = (images[0], images[1], images[2] * images[3]), (images[0] // 4, images[1] // 4, 16, *images[2:])
    for name, shape, arguments in (("max_pool2d", images, (2,)), ("max_pool2d", images, (3, 2, 1)), ("avg_pool2d", images, (2,)),
                                   ("avg_pool2d", images, (3, 2, 1)), ("adaptive_avg_pool2d", images, (7,)),
                                   ("adaptive_avg_pool2d", images, (1,)), ("adaptive_max_pool2d", images, (7,)),
                                   ("adaptive_max_pool2d", images, (1,)),
                                   ("max_pool1d", line, (3, 2, 1)), ("avg_pool1d", line, (3, 2, 1)), ("max_pool3d", volume, (2,)),
                                   ("avg_pool3d", volume, (2,))):
        found.append((f"{name}{arguments} {shape}", [shape],
                      lambda lib, x, name=name, a=arguments: getattr(lib.nn.functional, name)(x, *a)))
    return found


def sampled(large: bool) -> list[tuple[str, list, Callable]]:
    """Rows of grid_sample: images turned a little, and places at random."""
    found, rng = [], np.random.default_rng(0)
    for shape in ((32, 64, 56, 56), (16, 3, 224, 224)) if large else ((1, 3, 64, 64), (8, 32, 32, 32), (4, 64, 56, 56)):
        y, x = np.meshgrid(np.linspace(-1, 1, shape[2]), np.linspace(-1, 1, shape[3]), indexing="ij")
        turned = np.stack([0.9 * x - 0.3 * y, 0.3 * x + 0.9 * y], -1, dtype=np.float32)[None].repeat(shape[0], 0)
        for mode, grid, label in (("bilinear", turned, "turned"), ("nearest", turned, "turned"), ("bicubic", turned, "turned"),
                                  ("bilinear", rng.uniform(-1, 1, turned.shape).astype(np.float32), "at random")):
            found.append((f"grid_sample {mode} {shape} {label}", [shape, grid],
                          lambda lib, x, grid, m=mode: lib.nn.functional.grid_sample(x, grid, m, align_corners=False)))
    volume = (2, 8, 16, 16, 16)
    found.append((f"grid_sample bilinear {volume} at random", [volume, rng.uniform(-1, 1, (2, 16, 16, 16, 3)).astype(np.float32)],
                  lambda lib, x, grid: lib.nn.functional.grid_sample(x, grid, align_corners=False)))
    return found


def moves() -> list[tuple[str, list, Callable]]:
    """Rows of what moves data, and of the convolutions beside conv2d, on a GPU."""
    images, rows, vocabulary = (64, 128, 28, 28), (65536, 1024), (50257, 768)
    found = [(f"gather {rows} dim {d}", [rows, Index(rows, rows[d])], lambda lib, x, i, d=d: lib.gather(x, d, i)) for d in (0, 1)]
    found += [(f"{name} {rows} dim 1", [rows, Index(rows, 1024, once=name == "scatter"), rows],
               lambda lib, x, i, s, name=name: getattr(lib, name)(x, 1, i, s)) for name in ("scatter", "scatter_add")]
    found += [("scatter_add (65536, 64) dim 0", [(50000, 64), Index((65536, 64), 50000), (65536, 64)],
               lambda lib, x, i, s: lib.scatter_add(x, 0, i, s)),
              (f"index_select {rows} dim 0", [rows, Index((65536,), 65536)], lambda lib, x, i: lib.index_select(x, 0, i)),
              (f"embedding {vocabulary} (16, 1024)", [vocabulary, Index((16, 1024), 50257)],
               lambda lib, w, i: lib.nn.functional.embedding(i, w))]
    for mode in ("constant", "reflect", "replicate"):
        found.append((f"pad {mode} {images}", [images], lambda lib, x, m=mode: lib.nn.functional.pad(x, (1, 1, 1, 1), m)))
    found += [(f"cat dim {d} {images}", [images, images], lambda lib, x, y, d=d: lib.cat([x, y], d)) for d in (0, 1, 3)]
    for mode in ("nearest", "bilinear", "bicubic"):
        found.append((f"interpolate {mode} {images} x2", [images],
                      lambda lib, x, m=mode: lib.nn.functional.interpolate(x, scale_factor=2, mode=m)))
    for name, x, w, options in (("conv1d", (64, 128, 1024), (128, 128, 3), {"padding": 1}),
                                ("conv3d", (8, 32, 16, 56, 56), (64, 32, 3, 3, 3), {"padding": 1}),
                                ("conv_transpose2d", images, (128, 64, 4, 4), {"stride": 2, "padding": 1}),
                                ("conv_transpose2d", images, (128, 64, 2, 2), {"stride": 2})):
        found.append((f"{name} {x} {w}", [x, w], lambda lib, x, w, name=name, o=options: getattr(lib.nn.functional, name)(x, w, **o)))
    return found


def both_ways(lib, device: str, arguments: list, function: Callable) -> tuple[Callable, ...]:
    """(forward, forward and backward) of a call on tensors of a fixed seed, the latter where it has a derivative; an argument is a shape,
    an array, which has one if its elements are floats, or an Index."""
    rng = np.random.default_rng(0)
    arguments = [a.draw(rng) if isinstance(a, Index) else a for a in arguments]
    inputs = [lib.tensor(a, device=device, requires_grad=a.dtype.kind == "f") if isinstance(a, np.ndarray) else
              lib.tensor(rng.standard_normal(a, dtype=np.float32), device=device, requires_grad=True) for a in arguments]
    plain, wanted = [x.detach() for x in inputs], [x for x in inputs if x.requires_grad]
    if not (wanted and function(lib, *inputs).requires_grad):
        return (lambda: function(lib, *plain),)
    out = function(lib, *plain)
    g = lib.tensor(rng.standard_normal(tuple(out.shape), dtype=np.float32), device=device).to(out.dtype)

    def backward():
        return lib.autograd.grad(function(lib, *inputs), wanted, g)[0]
    return lambda: function(lib, *plain), backward
