"""Calls that the CPU's table times: label, arguments, function(library, *tensors). Of the arguments, a shape stands for random numbers,
an array for indices."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

# How fast an operation should at least be, as torch's time over Volta's, by the beginning of its label.
GOALS = {"layer_norm": 1.0, "rms_norm": 1.0, "group_norm": 1.0, "instance_norm": 1.0, "var": 1.0, "std": 1.0, "attention": 1.0,
         "cumsum": 0.9, "embedding": 0.9, "avg_pool": 0.9, "adaptive": 0.9, "gather": 0.9, "scatter": 0.9, "pad": 0.9, "cat": 0.9,
         "interpolate": 0.9, "sort": 0.8, "topk": 0.8, "conv1d": 0.8, "conv3d": 0.8, "conv_transpose2d": 0.8}
SIDES = (512, 2048)                     # of square matrices: a quarter of a million elements, and four millions
Call = tuple[str, list, Callable]


def goal(label: str) -> float | None:
    return next((value for name, value in GOALS.items() if label.startswith(name)), None)


def elementwise() -> Iterator[Call]:
    for side in SIDES:
        shape = (side, side)
        for name in ("add", "mul"):
            yield f"{name} {shape}", [shape, shape], lambda lib, x, y, name=name: getattr(lib, name)(x, y)
        for name in ("exp", "tanh", "sigmoid", "sin"):
            yield f"{name} {shape}", [shape], lambda lib, x, name=name: getattr(lib, name)(x)
        for name in ("relu", "gelu", "silu", "softplus"):
            yield f"{name} {shape}", [shape], lambda lib, x, name=name: getattr(lib.nn.functional, name)(x)
        yield f"gelu {shape} tanh", [shape], lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh")


def reductions() -> Iterator[Call]:
    for side in SIDES:
        shape = (side, side)
        yield f"sum {shape} of all", [shape], lambda lib, x: x.sum()
        for dim in (0, 1):
            for name in ("sum", "amax", "std", "softmax"):
                yield f"{name} {shape} dim {dim}", [shape], lambda lib, x, name=name, d=dim: getattr(lib, name)(x, d)


def scans_and_sorts() -> Iterator[Call]:
    for shape, dim in (((1000, 1000), 1), ((1000, 1000), 0), ((1000000,), 0)):
        for name in ("cumsum", "cumprod"):
            yield f"{name} {shape} dim {dim}", [shape], lambda lib, x, name=name, d=dim: getattr(lib, name)(x, d)
        for name, options in (("cummax", {}), ("cummin", {}), ("sort", {"stable": True}), ("topk", {"k": 10})):
            yield f"{name} {shape} dim {dim}", [shape], lambda lib, x, name=name, d=dim, o=options: getattr(lib, name)(x, dim=d, **o)[0]


def movement(rng: np.random.Generator) -> Iterator[Call]:
    for side in SIDES:
        shape, index, line = (side, side), rng.integers(0, side, (side, side)), rng.integers(0, side, side)
        yield f"cat {shape} dim 0", [shape, shape], lambda lib, x, y: lib.cat([x, y], 0)
        yield f"cat {shape} dim 1", [shape, shape], lambda lib, x, y: lib.cat([x, y], 1)
        yield f"pad {shape}", [shape], lambda lib, x: lib.nn.functional.pad(x, (1, 2, 3, 4))
        for dim in (0, 1):
            yield f"gather {shape} dim {dim}", [shape, index], lambda lib, x, i, d=dim: lib.gather(x, d, i)
            yield f"scatter {shape} dim {dim}", [shape, index, shape], lambda lib, x, i, y, d=dim: lib.scatter(x, d, i, y)
            yield f"scatter_add {shape} dim {dim}", [shape, index, shape], lambda lib, x, i, y, d=dim: lib.scatter_add(x, d, i, y)
            yield f"index_select {shape} dim {dim}", [shape, line], lambda lib, x, i, d=dim: lib.index_select(x, d, i)
    for entries, width in ((1000, 64), (50000, 256)):
        index = rng.integers(0, entries, (32, 128))
        yield f"embedding {(entries, width)}", [index, (entries, width)], lambda lib, i, w: lib.nn.functional.embedding(i, w)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        for factor in (2, 0.5):
            yield (f"interpolate {mode} x {factor}", [(16, 16, 64, 64)],
                   lambda lib, x, m=mode, f=factor: lib.nn.functional.interpolate(x, scale_factor=f, mode=m))


def products() -> Iterator[Call]:
    for name, x, w, options in (
            ("conv1d", (16, 64, 1024), (128, 64, 3), {"padding": 1}), ("conv2d", (16, 32, 28, 28), (64, 32, 3, 3), {"padding": 1}),
            ("conv2d", (8, 512, 4, 4), (512, 512, 3, 3), {"padding": 1}),
            ("conv3d", (4, 16, 16, 32, 32), (32, 16, 3, 3, 3), {"padding": 1}),
            ("conv_transpose1d", (16, 64, 256), (64, 32, 4), {"stride": 2, "padding": 1}),
            ("conv_transpose2d", (16, 64, 16, 16), (64, 32, 4, 4), {"stride": 2, "padding": 1}),
            ("conv_transpose3d", (2, 32, 8, 16, 16), (32, 16, 4, 4, 4), {"stride": 2, "padding": 1})):
        yield f"{name} {x} {w}", [x, w], lambda lib, x, w, name=name, o=options: getattr(lib.nn.functional, name)(x, w, **o)
    for length in (256, 512, 1024):
        for width in (32, 64, 128):
            for causal in (False, True):
                yield (f"attention {length} x {width}{' causal' * causal}", [(2, 4, length, width)] * 3,
                       lambda lib, q, k, v, c=causal: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=c))


def families() -> dict[str, list[Call]]:
    """All calls by the name of their family."""
    return {"elementwise": [*elementwise()], "reductions": [*reductions()], "scans and sorts": [*scans_and_sorts()],
            "movement and indices": [*movement(np.random.default_rng(1))], "products": [*products()]}
