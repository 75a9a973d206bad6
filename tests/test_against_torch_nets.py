"""Extra: reductions, products, normalisations, losses and pooling beside PyTorch's, drawn at random, where it is installed.

Shapes (0-d and empty too), dtypes, arguments and special values are drawn; compared are whether it raises, dtype, shape, values, and
gradients of first and second order. `python tests/test_against_torch_nets.py 600` goes on for ten minutes and prints what differs.
"""
from __future__ import annotations

import sys
import time
import zlib

import numpy as np
import pytest

import volta
import volta.nn.functional as F

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
T = torch.nn.functional
FLOATS, INTEGERS = ("float32", "float32", "float32", "float64", "float16"), ("int64", "int32", "uint8")
SPECIAL = (0.0, 0.0, -0.0, float("nan"), float("inf"), -float("inf"))
RTOL = {"float16": 4e-3, "float32": 2e-4, "float64": 1e-9}
RUNS = 60


class Draw:
    """Random arguments of one call. `special` says whether values may be NaN or infinite."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.special = self.chance(0.25)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def one(self, *values):
        return values[self.rng.integers(len(values))]

    def sizes(self, low: int = 0, high: int = 4) -> tuple[int, ...]:
        return tuple(int(n) for n in self.rng.choice(6, self.rng.integers(low, high + 1), p=[0.05, 0.15, 0.2, 0.2, 0.2, 0.2]))

    def dtype(self, integers: float = 0.2) -> str:
        return self.one(*INTEGERS, "bool") if self.chance(integers) else self.one(*FLOATS)

    def array(self, shape, dtype: str, positive: bool = False, finite: bool = False) -> np.ndarray:
        if dtype in INTEGERS:
            return self.rng.integers(0 if dtype == "uint8" else -4, 5, shape).astype(dtype)
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        out = np.asarray(self.rng.standard_normal(shape))
        out = np.abs(out) + 0.1 if positive else out
        if self.special and not finite:
            out = np.where(self.rng.random(shape) < 0.1, self.rng.choice(SPECIAL, shape), out)
        return out.astype(dtype)

    def dims(self, rank: int, several: bool = True):
        if not rank:
            return self.one(0, -1)
        if several and self.chance(0.4):
            return tuple(int(d) for d in self.rng.permutation(rank)[:self.rng.integers(1, rank + 1)])
        return int(self.rng.integers(-rank, rank))


def _reduce(draw, name, several=True, whole=True, **options):
    shape = draw.sizes()
    x = draw.array(shape, draw.dtype())
    if not whole or draw.chance(0.7):
        options = {"dim": draw.dims(len(shape), several), **({"keepdim": draw.chance(0.5)} if name != "count_nonzero" else {}), **options}
    return lambda lib, fun, x: getattr(lib, name)(x, **options), [x], options


def _typed(draw, name):
    call, arrays, options = _reduce(draw, name, several=name != "prod")
    dtype = draw.one(*INTEGERS, "bool", "float32") if arrays[0].dtype.kind in "iub" else draw.one("float32", "float64")
    return lambda lib, fun, x: getattr(lib, name)(x, dtype=getattr(lib, dtype), **options), arrays, {**options, "dtype": dtype}


def _softmax(draw, name):
    shape = draw.sizes()
    dim = draw.dims(len(shape), False)
    return lambda lib, fun, x: getattr(fun, name)(x, dim), [draw.array(shape, draw.dtype(0.1))], dim


def _norm(draw):
    p = draw.one(0, 1, 2, 3, float("inf"), -float("inf"), 1.5)
    shape = draw.sizes()
    options = {"dim": draw.dims(len(shape)), "keepdim": draw.chance(0.5)}
    return lambda lib, fun, x: lib.norm(x, p, **options), [draw.array(shape, draw.one(*FLOATS))], {"p": p, **options}


def _var(draw, name):
    options, draw.special = {"correction": draw.one(0, 1)}, False       # the mean beside the variance of infinity is NaN in torch
    return _reduce(draw, name, whole=False, **options)


def _matmul(draw, name):
    m, k, n, b = (int(v) for v in draw.rng.integers(0 if draw.chance(0.1) else 1, 5, 4))
    batch = draw.sizes(0, 2)
    other = tuple(draw.one(1, s) for s in batch[draw.rng.integers(len(batch) + 1):])
    shapes = {"mm": ((m, k), (k, n)), "mv": ((m, k), (k,)), "bmm": ((b, m, k), (b, k, n)), "dot": ((k,), (k,)), "outer": ((m,), (n,)),
              "matmul": draw.one((batch + (m, k), other + (k, n)), ((k,), other + (k, n)), (batch + (m, k), (k,)), ((k,), (k,)))}[name]
    dtype = draw.dtype()
    second = draw.dtype() if draw.chance(0.1) and name != "outer" else dtype
    return lambda lib, fun, a, b: getattr(lib, name)(a, b), [draw.array(shapes[0], dtype), draw.array(shapes[1], second)], None


def _addmm(draw, name):
    m, k, n, b = (int(v) for v in draw.rng.integers(0 if draw.chance(0.1) else 1, 5, 4))
    lead = (b,) if name == "baddbmm" else ()
    dtype, options = draw.dtype(), {"beta": draw.one(0, 1, 1, 2, 0.5), "alpha": draw.one(1, 1, -1, 1.5)}
    input = draw.one(lead + (m, n), (n,), (1, n), (m, 1), (), (m + 1, n))
    shapes = (input, lead + (m, k), lead + (k, n))
    other = draw.dtype() if draw.chance(0.1) else dtype
    return (lambda lib, fun, c, a, b: getattr(lib, name)(c, a, b, **options),
            [draw.array(shapes[0], other), *[draw.array(s, dtype) for s in shapes[1:]]], options)


def _linear(draw):
    i, o = (int(v) for v in draw.rng.integers(0 if draw.chance(0.1) else 1, 5, 2))
    dtype = draw.dtype(0.1)
    arrays = [draw.array(draw.sizes(0, 3) + (i,), dtype), draw.array((o, i), draw.dtype() if draw.chance(0.1) else dtype)]
    if draw.chance(0.6):
        arrays.append(draw.array((o,), draw.dtype() if draw.chance(0.1) else dtype))
    return lambda lib, fun, *v: fun.linear(*v), arrays, None


def _conv2d(draw):
    groups = draw.one(1, 1, 2)
    c, o, kernel = groups * draw.one(1, 2), groups * draw.one(1, 2, 3), (draw.one(1, 2, 3), draw.one(1, 2, 3))
    options = {"stride": draw.one(1, 2, (2, 1)), "padding": draw.one(0, 1, (1, 2), "valid"), "dilation": draw.one(1, 1, 2),
               "groups": groups}
    n = draw.one((), (1,), (2,), (0,))
    dtype = draw.one(*FLOATS)
    arrays = [draw.array(n + (c, draw.one(3, 5, 6), draw.one(4, 7)), dtype), draw.array((o, c // groups) + kernel, dtype, finite=True)]
    if draw.chance(0.5):
        arrays.append(draw.array((o,), dtype, finite=True))
    return lambda lib, fun, *v: fun.conv2d(*v, **options), arrays, options


def _pool(draw):
    options = {"kernel_size": draw.one(2, 3, (2, 1)), "stride": draw.one(None, 1, 2, (2, 3)), "padding": draw.one(0, 0, 1),
               "dilation": draw.one(1, 1, 2), "ceil_mode": draw.chance(0.3)}
    x = draw.array(draw.one((), (1,), (2,)) + (draw.one(1, 2), draw.one(4, 5, 6), draw.one(3, 5, 7)), draw.one(*FLOATS))
    x[np.isnan(x)] = 0.0                       # which of several NaN gets the gradient differs
    return lambda lib, fun, x: fun.max_pool2d(x, **options), [x], options


def _batch_norm(draw):
    c, dtype, training = draw.one(1, 2, 3), draw.one(*FLOATS), draw.chance(0.5)
    x = draw.array((draw.one(0, 1, 2, 4), c) + draw.sizes(0, 2), dtype)
    options = {"training": training, "eps": draw.one(1e-5, 1e-3, 0.1, 0.0, -0.1), "momentum": draw.one(0.1, 0.0, 1.0)}
    affine, tracked = draw.chance(0.6), not training or draw.chance(0.5)
    arrays = [x, *[draw.array((c,), dtype, finite=True) for _ in range(2 * affine)]]
    mean, var = draw.array((c,), dtype), draw.array((c,), dtype, True)

    def call(lib, fun, x, weight=None, bias=None):
        statistics = [lib.tensor(v, dtype=getattr(lib, dtype)) for v in (mean, var)] if tracked else [None, None]
        out = fun.batch_norm(x, *statistics, weight, bias, **options)
        return (out, *statistics) if tracked else out
    return call, arrays, options


def _layer_norm(draw):
    shape = draw.sizes(1, 4)
    dims, dtype = shape[-draw.rng.integers(1, len(shape) + 1):], draw.one(*FLOATS)
    arrays = [draw.array(shape, dtype), *[draw.array(dims, dtype, finite=True) for _ in range(draw.one(0, 1, 2))]]
    return lambda lib, fun, x, *v: fun.layer_norm(x, dims, *v), arrays, dims


def _labelled(draw, name):
    n, c, dtype = draw.one(0, 1, 3, 5), draw.one(1, 2, 4), draw.dtype(0.05)
    shape = draw.one((n, c), (n, c), (c,), (n, c, 2), (n, c, 2, 3))
    labels = draw.rng.integers(-1 if draw.chance(0.05) else 0, c, shape[:1] + shape[2:] if len(shape) > 1 else ())
    options = {"ignore_index": draw.one(-100, -100, 0, 1), "reduction": draw.one("mean", "sum", "none")}
    if draw.chance(0.2):
        labels = np.where(draw.rng.random(labels.shape) < 0.4, options["ignore_index"], labels)
    if name == "cross_entropy" and draw.chance(0.3):
        options["label_smoothing"] = 0.2
    target = np.asarray(labels, np.int64)
    if name == "cross_entropy" and draw.chance(0.2):
        target, options["ignore_index"] = draw.array(shape, draw.one("float32", dtype), positive=True), draw.one(-100, -100, 1)
    weight = draw.array((c,), dtype, positive=True) if draw.chance(0.4) else None

    def call(lib, fun, x):
        given = {} if weight is None else {"weight": lib.tensor(weight, dtype=getattr(lib, dtype))}
        return getattr(fun, name)(x, lib.tensor(target), **given, **options)
    return call, [draw.array(shape, dtype)], (options, target.tolist(), weight)


def _pointwise(draw, name):
    shape, dtype, reduction = draw.sizes(0, 3), draw.one(*FLOATS), draw.one("mean", "sum", "none")
    arrays = [draw.array(shape, dtype), draw.array(shape, dtype)]
    if name == "binary_cross_entropy_with_logits":
        arrays = [np.where(arrays[0] == -np.inf, np.inf, arrays[0]).astype(dtype), draw.rng.random(shape).astype(dtype)]
        extra = [draw.array(shape[-1:], dtype, True, True) if draw.chance(0.3) else None for _ in range(2)]

        def call(lib, fun, x, y):
            weight, pos_weight = (None if v is None else lib.tensor(v, dtype=getattr(lib, dtype)) for v in extra)
            return fun.binary_cross_entropy_with_logits(x, y, weight, reduction=reduction, pos_weight=pos_weight)
        return call, arrays, (reduction, extra)
    return lambda lib, fun, x, y: getattr(fun, name)(x, y, reduction=reduction), arrays, reduction


def _activation(draw, name, *args):
    draw.special &= name != "gelu"              # NaN at infinity in torch
    return lambda lib, fun, x: getattr(fun, name)(x, *args), [draw.array(draw.sizes(), draw.one(*FLOATS))], args


def _normalize(draw):
    shape = draw.sizes(1)
    args = draw.one(1.0, 2.0, 3.0), draw.dims(len(shape), False)
    return lambda lib, fun, x: fun.normalize(x, *args), [draw.array(shape, draw.one(*FLOATS))], args


CASES = {
    **{name: lambda d, name=name: _reduce(d, name) for name in ("sum", "amax", "amin", "any", "all", "count_nonzero")},
    "mean": lambda d: _reduce(d, "mean"),
    **{f"{name} of a dtype": lambda d, name=name: _typed(d, name) for name in ("sum", "mean", "prod")},
    **{name: lambda d, name=name: _reduce(d, name, several=False) for name in ("prod", "argmax", "argmin", "max", "min")},
    **{name: lambda d, name=name: _var(d, name) for name in ("var", "std", "var_mean", "std_mean")},
    "logsumexp": lambda d: _reduce(d, "logsumexp", whole=False), "norm": _norm,
    **{name: lambda d, name=name: _softmax(d, name) for name in ("softmax", "log_softmax")},
    **{name: lambda d, name=name: _matmul(d, name) for name in ("matmul", "mm", "mv", "bmm", "dot", "outer")},
    **{name: lambda d, name=name: _addmm(d, name) for name in ("addmm", "baddbmm")},
    "linear": _linear, "conv2d": _conv2d, "max_pool2d": _pool, "batch_norm": _batch_norm, "layer_norm": _layer_norm,
    **{name: lambda d, name=name: _labelled(d, name) for name in ("cross_entropy", "nll_loss")},
    **{name: lambda d, name=name: _pointwise(d, name) for name in ("mse_loss", "l1_loss", "binary_cross_entropy_with_logits")},
    **{name: lambda d, name=name: _activation(d, name) for name in ("relu", "leaky_relu", "silu", "gelu", "softplus", "sigmoid", "tanh")},
    "softplus scaled": lambda d: _activation(d, "softplus", 2.0, 3.0), "normalize": _normalize,
}


def _run(lib, fun, call, arrays):
    """The exception, or all that is compared: values, gradients, gradients of gradients (None where there is no graph)."""
    leaves = [lib.tensor(a, dtype=getattr(lib, a.dtype.name)) for a in arrays]
    wants = [x.requires_grad_() for x in leaves if x.dtype.is_floating_point]
    try:
        out = call(lib, fun, *leaves)
    except Exception as error:
        return error, None, None
    outs = list(out) if isinstance(out, tuple) else [out]
    first = outs[0]
    if not first.dtype.is_floating_point or not first.requires_grad:
        return outs, None, None
    weights = lib.tensor(np.random.default_rng(0).standard_normal(tuple(first.shape)), dtype=first.dtype)
    grads = lib.autograd.grad((first * weights).sum(), wants, create_graph=True, allow_unused=True)
    total = [(g * g).sum() for g in grads if g is not None and g.requires_grad]
    if not total:
        return outs, grads, None
    return outs, grads, lib.autograd.grad(sum(total[1:], total[0]), wants, allow_unused=True)


def _numpy(x):
    return np.asarray(x.detach().resolve_neg().numpy(force=True) if hasattr(x, "resolve_neg") else x.detach())


def _close(a, b, what, rtol):
    """None, or how the lists differ. No gradient and one of zeros are the same."""
    for x, y in zip(a, b):
        if x is None or y is None:
            other = y if x is None else x
            if other is not None and np.abs(_numpy(other)).max(initial=0.0) > 1e-4:
                return f"{what}: {x} and torch {y}"
            continue
        name = str(y.dtype).removeprefix("torch.")
        if str(x.dtype).removeprefix("volta.") != name or tuple(x.shape) != tuple(y.shape):
            return f"{what}: {x.dtype}{tuple(x.shape)} and torch {y.dtype}{tuple(y.shape)}"
        p, q = _numpy(x).astype(np.float64), _numpy(y).astype(np.float64)
        scale = np.abs(q[np.isfinite(q)]).max(initial=0.0)
        if not np.allclose(p, q, rtol, rtol * max(scale, 1.0), equal_nan=True):
            return f"{what}: {p.ravel()[:8].tolist()} and torch {q.ravel()[:8].tolist()}"
    return None


def compare(name: str, seed: int) -> str | None:
    """What differs between Volta and PyTorch in the call that `seed` draws; None where nothing does."""
    draw = Draw(zlib.crc32(f"{name} {seed}".encode()))
    call, arrays, options = CASES[name](draw)
    with np.errstate(all="ignore"):
        ours, theirs = _run(volta, F, call, arrays), _run(torch, T, call, arrays)
    text = f"{name} {[(a.dtype.name, a.shape) for a in arrays]} {options} {'special' if draw.special else ''}"
    failed, wrong = isinstance(ours[0], Exception), isinstance(theirs[0], Exception)
    if failed or wrong:
        if failed and not isinstance(ours[0], volta.errors.VoltaError):
            return f"{text}: {type(ours[0]).__name__}: {ours[0]}"
        if failed and not wrong and 0 in [a.size for a in arrays] and isinstance(ours[0], volta.errors.DTypeError):
            return None                         # torch looks at the dtype only where there is something to compute
        return None if failed and wrong else f"{text}: {ours[0]!r:.300} and torch {theirs[0]!r:.300}"
    dtypes = [a.dtype.name for a in arrays] + [str(y.dtype).removeprefix("torch.") for y in theirs[0]]
    rtol = max(RTOL.get(d, 0.0) for d in dtypes)
    found = _close(ours[0], theirs[0], "value", rtol)
    # Derivatives at infinity and NaN depend on the order of products; float16 ones are less exact in torch (test_float16.py has them).
    if draw.special or "float16" in dtypes:
        return found and f"{text}: {found}"
    if found is None:
        found = _close(ours[1] or [None] * 9, theirs[1] or [None] * 9, "gradient", 4 * rtol)
    if found is None and "float32" not in dtypes:
        found = _close(ours[2] or [None] * 9, theirs[2] or [None] * 9, "second gradient", 20 * rtol)
    return found and f"{text}: {found}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_as_torch(name):
    wrong = [text for seed in range(RUNS) if (text := compare(name, seed))]
    assert not wrong, "\n".join(wrong[:5])


if __name__ == "__main__":
    import warnings
    warnings.simplefilter("ignore")
    end, seed, seen = time.monotonic() + float(sys.argv[1]), 1000, {}
    while time.monotonic() < end:
        for name in sys.argv[2:] or CASES:
            text = compare(name, seed)
            if text and seen.setdefault(name, 0) < 4:
                seen[name] += 1
                print(text[:700], "\n", flush=True)
        seed += 1
    print(seed - 1000, "rounds")
