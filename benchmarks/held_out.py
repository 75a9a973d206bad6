"""Calls of the same kind as the table's, with shapes that nobody chose: drawn from a seed."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from operations import Call

UNARY = ("exp", "tanh", "sigmoid", "sin", "erf", "log1p", "sqrt")
ACTIVATIONS = ("relu", "gelu", "silu", "softplus", "elu")
REDUCTIONS = ("sum", "mean", "amax", "logsumexp", "softmax", "log_softmax", "cumsum")


def drawn(rng: np.random.Generator, low: float, high: float) -> int:
    """An integer whose logarithm is spread evenly."""
    return int(np.exp(rng.uniform(np.log(low), np.log(high))))


def elementwise(rng: np.random.Generator, count: int) -> Iterator[Call]:
    for _ in range(count):
        shape, name = (drawn(rng, 10, 2000), drawn(rng, 10, 2000)), str(rng.choice(UNARY + ACTIVATIONS + ("add", "mul", "div", "maximum")))
        if name in UNARY:
            yield f"{name} {shape}", [shape], lambda lib, x, n=name: getattr(lib, n)(x.abs() if n in ("log1p", "sqrt") else x)
        elif name in ACTIVATIONS:
            yield f"{name} {shape}", [shape], lambda lib, x, n=name: getattr(lib.nn.functional, n)(x)
        else:
            other = [shape, (shape[1],), (shape[0], 1)][rng.integers(3)]
            yield f"{name} {shape} {other}", [shape, other], lambda lib, x, y, n=name: getattr(lib, n)(x, y)


def reductions(rng: np.random.Generator, count: int) -> Iterator[Call]:
    for _ in range(count):
        shape, name = (drawn(rng, 4, 60), drawn(rng, 10, 300), drawn(rng, 10, 300)), str(rng.choice(REDUCTIONS))
        dim = int(rng.integers(3))
        yield f"{name} {shape} dim {dim}", [shape], lambda lib, x, n=name, d=dim: getattr(lib, n)(x, d)


def products(rng: np.random.Generator, count: int) -> Iterator[Call]:
    for _ in range(count):
        m, k, n = (drawn(rng, 8, 1500) for _ in range(3))
        yield f"matmul {m} x {k} x {n}", [(m, k), (k, n)], lambda lib, x, y: x @ y
        batch, m, k, n = drawn(rng, 2, 64), *(drawn(rng, 16, 300) for _ in range(3))
        yield f"matmul {batch} x ({m} x {k} x {n})", [(batch, m, k), (batch, k, n)], lambda lib, x, y: x @ y
        m, k, n = drawn(rng, 1, 512), drawn(rng, 30, 1500), drawn(rng, 10, 1500)
        yield f"linear {m} x {k} x {n}", [(m, k), (n, k), (n,)], lambda lib, x, w, b: lib.nn.functional.linear(x, w, b)


def decompositions(rng: np.random.Generator, count: int) -> Iterator[Call]:
    for _ in range(count):
        shape, name = (drawn(rng, 1, 20), drawn(rng, 3, 300), drawn(rng, 3, 300)), str(rng.choice(("qr", "svd", "pinv")))
        options = (False,) if name == "svd" else ()
        yield (f"linalg.{name} {shape}", [shape],
               lambda lib, x, n=name, o=options: lib.linalg.pinv(x) if n == "pinv" else getattr(lib.linalg, n)(x, *o)[1])
        side, name = drawn(rng, 3, 300), str(rng.choice(("eigh", "eigvalsh", "cholesky_inverse")))
        yield (f"{name} {side}", [(side, side)],
               lambda lib, x, n=name, k=side: (lambda y: lib.cholesky_inverse(y.tril()) if n == "cholesky_inverse" else
                                               lib.linalg.eigh(y)[0] if n == "eigh" else lib.linalg.eigvalsh(y))(x @ x.mT / k + lib.eye(k)))


def convolutions(rng: np.random.Generator, count: int) -> Iterator[Call]:
    for _ in range(count):
        size, side = int(rng.choice((1, 3, 5, 7))), drawn(rng, 6, 64)
        groups, stride = int(rng.choice((1, 1, 1, 2, 8))), int(rng.choice((1, 1, 2)))
        inputs, outputs = (groups * max(1, drawn(rng, 4, 200) // groups) for _ in range(2))
        x, w = (drawn(rng, 2, 16), inputs, side, side), (outputs, inputs // groups, size, size)
        options = {"padding": size // 2, "stride": stride, "groups": groups}
        yield f"conv2d {x} {w} / {stride}", [x, w], lambda lib, x, w, o=options: lib.nn.functional.conv2d(x, w, **o)


def layers(rng: np.random.Generator, count: int) -> Iterator[Call]:
    for _ in range(count):
        rows, width, length, heads = drawn(rng, 16, 4000), drawn(rng, 20, 1500), drawn(rng, 30, 900), int(rng.choice((1, 3, 4, 8)))
        yield (f"layer_norm {(rows, width)}", [(rows, width), (width,), (width,)],
               lambda lib, x, w, b, n=width: lib.nn.functional.layer_norm(x, (n,), w, b))
        shape, causal = (2, heads, length, int(rng.choice((16, 40, 64, 96, 128)))), bool(rng.integers(2))
        yield (f"attention {shape}{' causal' * causal}", [shape] * 3,
               lambda lib, q, k, v, c=causal: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=c))
        side, size = drawn(rng, 8, 60), int(rng.choice((2, 3)))
        images = (drawn(rng, 2, 32), drawn(rng, 3, 64), side, side)
        yield f"max_pool2d({size}) {images}", [images], lambda lib, x, n=size: lib.nn.functional.max_pool2d(x, n)
        yield f"avg_pool2d({size}) {images}", [images], lambda lib, x, n=size: lib.nn.functional.avg_pool2d(x, n)
        yield f"batch_norm {images}", [images], lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True)


def movement(rng: np.random.Generator, count: int) -> Iterator[Call]:
    for _ in range(count):
        shape, dim = (drawn(rng, 20, 1500), drawn(rng, 20, 1500)), int(rng.integers(2))
        index, line = rng.integers(0, shape[dim], shape), rng.integers(0, shape[dim], shape[dim])
        yield f"cat {shape} dim {dim}", [shape, shape], lambda lib, x, y, d=dim: lib.cat([x, y], d)
        yield f"gather {shape} dim {dim}", [shape, index], lambda lib, x, i, d=dim: lib.gather(x, d, i)
        yield f"index_select {shape} dim {dim}", [shape, line], lambda lib, x, i, d=dim: lib.index_select(x, d, i)
        yield f"contiguous {shape} transposed", [shape], lambda lib, x: x.t().contiguous()
        yield f"sort {shape} dim {dim}", [shape], lambda lib, x, d=dim: lib.sort(x, dim=d, stable=True)[0]


def families(seed: int) -> dict[str, list[Call]]:
    """All calls of a seed by the name of their family."""
    rng = np.random.default_rng(seed)
    makers = {"elementwise": (elementwise, 24), "reductions": (reductions, 20), "products": (products, 7),
              "convolutions": (convolutions, 16), "decompositions": (decompositions, 6), "layers": (layers, 5), "movement": (movement, 4)}
    return {f"held out, {title}": [*make(rng, count)] for title, (make, count) in makers.items()}
