"""Calls that the CPU's table times: label, arguments, function(library, *tensors). Of the arguments, a shape stands for random numbers,
an array for indices."""
from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

# How fast an operation should at least be, as torch's time over Volta's, by the beginning of its label.
GOALS = {"layer_norm": 1.0, "rms_norm": 1.0, "group_norm": 1.0, "instance_norm": 1.0, "var": 1.0, "std": 1.0, "attention": 1.0,
         "cumsum": 0.9, "embedding": 0.9, "avg_pool": 0.9, "adaptive": 0.9, "gather": 0.9, "scatter": 0.9, "pad": 0.9, "cat": 0.9,
         "interpolate": 0.9, "sort": 0.8, "topk": 0.8, "conv1d": 0.8, "conv3d": 0.8, "conv_transpose2d": 0.8}
SIDES = (64, 512, 2048)                 # of square matrices: 4 thousand elements, a quarter of a million, and four millions
Call = tuple[str, list, Callable]


def goal(label: str) -> float | None:
    return next((value for name, value in GOALS.items() if label.startswith(name)), None)


def elementwise() -> Iterator[Call]:
    for side in SIDES:
        shape = (side, side)
        for name in ("add", "mul", "div", "maximum"):
            yield f"{name} {shape}", [shape, shape], lambda lib, x, y, name=name: getattr(lib, name)(x, y)
        for label, other in (("row", (side,)), ("column", (side, 1)), ("number", ())):
            yield f"add {shape} and a {label}", [shape, other], lambda lib, x, y: x + y
        for name in ("exp", "log1p", "tanh", "sigmoid", "sin", "erf", "sqrt"):
            yield f"{name} {shape}", [shape], lambda lib, x, name=name: getattr(lib, name)(x.abs() if name in ("log1p", "sqrt") else x)
        for name in ("relu", "gelu", "silu", "softplus", "elu"):
            yield f"{name} {shape}", [shape], lambda lib, x, name=name: getattr(lib.nn.functional, name)(x)
        yield f"gelu {shape} tanh", [shape], lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh")
        yield f"where {shape}", [shape, shape], lambda lib, x, y: lib.where(x > 0, x, y)
        yield f"masked_fill {shape}", [shape], lambda lib, x: x.masked_fill(x > 0, 1.0)
        yield f"dropout {shape}", [shape], lambda lib, x: lib.nn.functional.dropout(x, 0.5) * 0


def reductions() -> Iterator[Call]:
    for side in SIDES:
        shape = (side, side)
        yield f"sum {shape} of all", [shape], lambda lib, x: x.sum()
        for dim in (0, 1):
            for name in ("sum", "mean", "amax", "std", "softmax", "log_softmax", "logsumexp"):
                yield f"{name} {shape} dim {dim}", [shape], lambda lib, x, name=name, d=dim: getattr(lib, name)(x, d)
    yield "cross_entropy (512, 1000)", [(512, 1000)], lambda lib, x: lib.nn.functional.cross_entropy(x, lib.arange(512))
    yield "softmax (1000,)", [(1000,)], lambda lib, x: lib.softmax(x, 0)


def scans_and_sorts() -> Iterator[Call]:
    for shape, dim in (((1000, 1000), 1), ((1000, 1000), 0), ((1000000,), 0)):
        for name in ("cumsum", "cumprod"):
            yield f"{name} {shape} dim {dim}", [shape], lambda lib, x, name=name, d=dim: getattr(lib, name)(x, d)
        for name, options in (("cummax", {}), ("cummin", {}), ("sort", {"stable": True}), ("topk", {"k": 10})):
            yield f"{name} {shape} dim {dim}", [shape], lambda lib, x, name=name, d=dim, o=options: getattr(lib, name)(x, dim=d, **o)[0]


def layouts() -> Iterator[Call]:
    """Copies of views, and calls that make views or small tensors alone."""
    for side in SIDES:
        shape = (side, side)
        yield f"contiguous {shape} transposed", [shape], lambda lib, x: x.t().contiguous()
        yield f"contiguous {shape} columns", [shape], lambda lib, x: x[:, 1::2].contiguous()
        yield f"contiguous {shape} rows", [shape], lambda lib, x: x[1::2].contiguous()
        yield f"clone {shape}", [shape], lambda lib, x: x.clone()
        yield f"add {shape} transposed", [shape, shape], lambda lib, x, y: x + y.t()
    yield "zeros (4,)", [], lambda lib: lib.zeros(4)
    yield "zeros (512, 512)", [], lambda lib: lib.zeros(512, 512)
    yield "views", [(8, 6, 4)], lambda lib, x: x.transpose(0, 1).reshape(6, 32)[1:3].unsqueeze(0).permute(2, 0, 1)
    yield "contiguous (64, 32, 28, 28) channels last", [(64, 32, 28, 28)], lambda lib, x: x.permute(0, 2, 3, 1).contiguous()


def random_numbers() -> Iterator[Call]:
    for side in SIDES:
        for name in ("rand", "randn"):
            yield f"{name} {(side, side)}", [], lambda lib, name=name, s=side: getattr(lib, name)(s, s) * 0
        yield f"bernoulli {(side, side)}", [], lambda lib, s=side: lib.bernoulli(lib.full((s, s), 0.5)) * 0
    yield "randperm 100000", [], lambda lib: lib.randperm(100000) * 0


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


def matmuls() -> Iterator[Call]:
    for side in (64, 128, 256, 512, 1024):
        yield f"matmul {side}", [(side, side)] * 2, lambda lib, x, y: x @ y
    yield "matmul 256 nt", [(256, 256)] * 2, lambda lib, x, y: x @ y.t()
    yield "matmul 256 tn", [(256, 256)] * 2, lambda lib, x, y: x.t() @ y
    for batch, m, k, n in ((64, 256, 64, 256), (64, 64, 64, 64), (8, 512, 64, 512)):
        yield f"matmul {batch} x ({m} x {k} x {n})", [(batch, m, k), (batch, k, n)], lambda lib, x, y: x @ y
    for m, k, n in ((64, 16384, 64), (4096, 64, 64), (16, 512, 4096), (1, 2048, 2048), (2048, 2048, 1), (1000, 300, 7)):
        yield f"matmul {m} x {k} x {n}", [(m, k), (k, n)], lambda lib, x, y: x @ y
    yield "matrix by vector 2048", [(2048, 2048), (2048,)], lambda lib, x, y: x @ y
    for batch, narrow, wide in ((64, 784, 512), (256, 784, 512), (64, 512, 10), (2048, 128, 512), (2048, 512, 128), (1, 512, 512)):
        yield (f"linear {batch} x {narrow} x {wide}", [(batch, narrow), (wide, narrow), (wide,)],
               lambda lib, x, w, b: lib.nn.functional.linear(x, w, b))


def products() -> Iterator[Call]:
    for name, x, w, options in (
            ("conv2d", (16, 64, 32, 32), (64, 64, 3, 3), {"padding": 1}), ("conv2d", (16, 128, 16, 16), (128, 128, 3, 3), {"padding": 1}),
            ("conv2d", (16, 256, 8, 8), (256, 256, 3, 3), {"padding": 1}), ("conv2d", (16, 64, 32, 32), (256, 64, 1, 1), {}),
            ("conv2d", (8, 3, 128, 128), (64, 3, 7, 7), {"stride": 2, "padding": 3}),
            ("conv2d", (16, 64, 32, 32), (64, 1, 3, 3), {"padding": 1, "groups": 64}),
            ("conv2d", (16, 64, 32, 32), (64, 16, 3, 3), {"padding": 1, "groups": 4}),
            ("conv2d", (64, 1, 28, 28), (32, 1, 3, 3), {"padding": 1}),
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


def short_calls() -> Iterator[Call]:
    """Calls of which most of the time is that of calling."""
    for side in (4, 64):
        shape = (side, side)
        for name in ("median", "count_nonzero", "diagonal", "flipud", "rot90", "tril", "trace", "diff", "max", "t"):
            yield f"short {name} {shape}", [shape], lambda lib, x, name=name: getattr(lib, name)(x)
        yield f"short aminmax {shape}", [shape], lambda lib, x: lib.aminmax(x.detach())[0]        # not every PyTorch derives it
        for name in ("inner", "lerp", "kron" if side < 64 else "cdist", "outer"):
            yield (f"short {name} {shape}", [shape if name != "outer" else (side,)] * 2,
                   lambda lib, x, y, name=name: getattr(lib, name)(x, y, *[0.3] * (name == "lerp")))
        for name in ("cosine_similarity", "pairwise_distance", "mse_loss"):
            yield f"short {name} {shape}", [shape, shape], lambda lib, x, y, name=name: getattr(lib.nn.functional, name)(x, y)
        yield (f"short binary_cross_entropy {shape}", [shape],
               lambda lib, x: lib.nn.functional.binary_cross_entropy(x.sigmoid(), (x.detach() > 0).float()))
        yield f"short addcmul {shape}", [shape] * 3, lambda lib, x, y, z: lib.addcmul(x, y, z)
        yield f"short sum {shape} dim -1", [shape], lambda lib, x: lib.sum(x, -1)
        yield f"short movedim {shape}", [shape], lambda lib, x: lib.movedim(x, 0, 1)
        yield f"short stack {shape} dim -1", [shape] * 4, lambda lib, *x: lib.stack(x, -1)
        yield f"short interpolate {shape}", [(1, 2, *shape)], lambda lib, x: lib.nn.functional.interpolate(x, scale_factor=2)
        at = np.arange(side)
        for name, given in (("index_fill", (1.0,)), ("index_select", ())):
            yield f"short {name} {shape}", [shape, at], lambda lib, x, i, name=name, given=given: getattr(lib, name)(x, 0, i, *given)
        for name in ("index_add", "index_copy"):
            yield f"short {name} {shape}", [shape, at, shape], lambda lib, x, i, y, name=name: getattr(lib, name)(x, 0, i, y)


def matrices() -> Iterator[Call]:
    """Inverses and decompositions, of what is well-conditioned."""
    for side in (4, 64, 256):
        shape, right = (side, side), (side, 3)
        for name in ("inv", "det", "slogdet", "cholesky", "svdvals", "eigvalsh"):
            def made(lib, x, name=name, side=side):
                y = lib.eye(side) + x @ x.mT / (4 * side)
                return lib.linalg.slogdet(y)[1] if name == "slogdet" else getattr(lib.linalg, name)(y)
            yield f"linalg.{name} {shape}", [shape], made
        yield f"linalg.solve {shape}", [shape, right], lambda lib, x, y, n=side: lib.linalg.solve(x + 2 * n * lib.eye(n), y)
        yield f"linalg.lstsq {shape}", [shape, right], lambda lib, x, y, n=side: lib.linalg.lstsq(x + 2 * n * lib.eye(n), y)[0]
    for shape in ((4, 4), (32, 32), (256, 256), (1000, 4, 4), (100, 16, 16), (32, 64, 64), (200, 20)):
        for name in ("qr", "svd"):
            yield (f"linalg.{name} {shape}", [shape],
                   lambda lib, x, name=name: getattr(lib.linalg, name)(x, *(() if name == "qr" else (False,)))[1])
        if shape[-1] == shape[-2]:
            def definite(lib, x, side=shape[-1]):
                return lib.eye(side) + x @ x.mT / (4 * side)
            yield f"linalg.eigh {shape}", [shape], lambda lib, x, made=definite: lib.linalg.eigh(made(lib, x))[0]
            yield f"cholesky_inverse {shape}", [shape], lambda lib, x, made=definite: lib.cholesky_inverse(made(lib, x).tril())
            yield (f"linalg.solve_triangular {shape}", [shape, shape],
                   lambda lib, x, y, made=definite: lib.linalg.solve_triangular(made(lib, x), y, upper=False))
    yield "linalg.lstsq (1000, 10)", [(1000, 10), (1000, 1)], lambda lib, x, y: lib.linalg.lstsq(x, y)[0]
    for rows, width in ((64, 16), (128, 64)):
        yield f"pdist {(rows, width)}", [(rows, width)], lambda lib, x: lib.nn.functional.pdist(x)


def bags(rng: np.random.Generator) -> Iterator[Call]:
    index = rng.integers(0, 2000, (256, 16))
    for width in (64, 256, 2048):
        for mode in ("sum", "mean"):
            yield (f"embedding_bag {(2000, width)} {mode}", [index, (2000, width)],
                   lambda lib, i, w, mode=mode: lib.nn.functional.embedding_bag(i, w, mode=mode))


def doubles(rng: np.random.Generator) -> Iterator[Call]:
    for side in (64, 512):
        x = rng.random((side, side)) * 0.9 + 0.05
        for name in ("log", "log2", "log10", "exp", "asin", "atan", "cosh", "sigmoid"):
            yield f"float64 {name} {x.shape}", [x], lambda lib, x, name=name: getattr(lib, name)(x)
        yield f"float64 atan2 {x.shape}", [x, x.T.copy()], lambda lib, x, y: lib.atan2(x, y)


def families() -> dict[str, list[Call]]:
    """All calls by the name of their family."""
    return {"elementwise": [*elementwise()], "reductions": [*reductions()], "matmuls": [*matmuls()], "products": [*products()],
            "scans and sorts": [*scans_and_sorts()], "short calls": [*short_calls()], "matrices": [*matrices()],
            "bags": [*bags(np.random.default_rng(2))], "float64": [*doubles(np.random.default_rng(3))],
            "movement and indices": [*movement(np.random.default_rng(1))],
            "layouts": [*layouts()], "random numbers": [*random_numbers()]}
