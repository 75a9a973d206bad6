"""Records of what makes tensors without tensors (empty, full, arange, random numbers), and of dropout."""
from __future__ import annotations

import math

import numpy as np

from volta import random
from volta.ops.table import case, register


def _np_uniform(shape, low, high, seed, offset, dtype):
    return low + (high - low) * random.unit(seed, offset, math.prod(shape), dtype).reshape(shape)


def _np_normal(shape, mean, std, seed, offset, dtype):
    count = math.prod(shape)
    u = random.unit(seed, offset, count + count % 2, dtype).reshape(-1, 2)
    r, t = np.sqrt(-2 * np.log(1 - u[:, 0])), 2 * np.pi * u[:, 1]
    return mean + std * np.stack([r * np.cos(t), r * np.sin(t)], 1).reshape(-1)[:count].reshape(shape)


def _np_randint(shape, low, high, seed, offset, dtype):
    words = random.bits(seed, offset, math.prod(shape)).astype(np.uint64)
    return int(low) + (words * np.uint64(high - low) >> np.uint64(32)).astype(np.int64).reshape(shape)


def _np_shuffled(shape, low, high, seed, offset, dtype):
    words = random.bits(seed, offset, math.prod(shape)).reshape(shape)
    return low + np.argsort(words, axis=-1, kind="stable")


def _np_bernoulli(shape, p, _, seed, offset, dtype):
    return (_np_uniform(shape, 0, 1, seed, offset, dtype) < np.asarray(p, dtype)).astype(dtype)


def _np_exponential(shape, factor, _, seed, offset, dtype):
    return factor * np.log1p(-_np_uniform(shape, 0, 1, seed, offset, dtype))


def _np_dropout(x, p, seed, offset):
    mask = random.unit(seed, offset, x.size, np.float32).reshape(x.shape) >= p
    return np.where(mask, x / (1 - p), 0.0)


def _np_geometric(shape, a, _, seed, offset, dtype):
    return np.maximum(np.ceil(_np_exponential(shape, 1 / a, 0, seed, offset, dtype)), 1)


def _np_cauchy(shape, median, sigma, seed, offset, dtype):
    return median + sigma * np.tan((_np_uniform(shape, 0, 1, seed, offset, dtype) - dtype.type(0.5)) * dtype.type(math.pi))


def _np_chances(out, seed, offset):
    return (_np_uniform(out.shape, 0, 1, seed, offset, out.dtype) < out).astype(out.dtype)


_STREAMS = ({"seed": 0, "offset": 0}, {"seed": 0x1234_5678_9ABC_DEF0, "offset": (1 << 32) - 2})
_INTO = {"uniform": _np_uniform, "normal": _np_normal, "bernoulli": _np_bernoulli, "exponential": _np_exponential,
         "cauchy": _np_cauchy, "geometric": _np_geometric, "log_normal": lambda *args, **stream: np.exp(_np_normal(*args, **stream)),
         "integers": lambda shape, low, count, **stream: _np_randint(shape, low, low + count, **stream).astype(stream["dtype"]),
         "chances": None}
empty_op = register("empty", (), family="creation", cases=(case((3, 4)), case(()), case((0, 2))), kinds="fib",
                           numpy=lambda shape, dtype: np.empty(shape))
full_op = register("full", (), family="creation", cases=(case((3, 4), 2), case((), 1), case((0, 2), 1), case((130, 3), 7)),
                          kinds="fib", numpy=lambda shape, value, dtype: np.full(shape, value))
arange_op = register("arange", (), family="creation", cases=(case(0, 1, 7), case(5, -2, 300), case(-3, 4, 0), case(0, 1, 101, end=100),
                                                              case(4, 1, 1, end=4)), kinds="fi",
                            numpy=lambda start, step, count, dtype, end=None: start + step * np.arange(count))
uniform_op = register(
    "uniform", (), family="creation", numpy=_np_uniform, rtol=1e-6,
    cases=tuple(case(shape, -1.0, 3.0, **s) for shape in ((5, 3), (), (0, 4), (301,)) for s in _STREAMS))
normal_op = register(
    "normal", (), family="creation", numpy=_np_normal, rtol=1e-5,
    cases=tuple(case(shape, 1.0, 0.5, **s) for shape in ((5, 3), (), (0, 4), (302,)) for s in _STREAMS))
randint_op = register(
    "randint", (), family="creation", numpy=_np_randint, kinds="i",
    cases=tuple(case(shape, -3, 1000, **s) for shape in ((5, 3), (), (0, 4), (303,)) for s in _STREAMS))
shuffled_op = register(
    "shuffled", (), family="creation", numpy=_np_shuffled, kinds="i",
    cases=tuple(case(shape, low, low + shape[-1], **s)
                for shape, low in (((5, 3), -3), ((0,), 2), ((4, 20), 0), ((100,), 1)) for s in _STREAMS))
draw_into_op = register(
    "draw_into", ("out",), writes=("out",), takes={"out": "f"}, family="inplace", kinds="f", rtol=1e-5,
    numpy=lambda out, kind, a, b, **stream: _np_chances(out, **stream) if kind == "chances" else _INTO[kind](
        out.shape, a, b, **stream, dtype=out.dtype),
    cases=tuple(case(shape, kind=kind, a=a, b=0.5 if kind == "log_normal" else 3.0, **s) for shape in ((6, 4), (5, 3), (0, 4))
                for kind, a, s in zip(_INTO, (-1.0, -1.0, 0.25, -0.5, 1.0, -0.3, -1.0, -2.0, 0.0), 5 * _STREAMS)))
dropout_op = register(
    "dropout", ("x",), family="random", takes="f", vjp=(lambda g, p, seed, offset: dropout_op(g, p=p, seed=seed, offset=offset),),
    numpy=_np_dropout, cases=(case((7, 3), p=0.5, **_STREAMS[0]), case((), p=0.25, **_STREAMS[0]),
                              case((0, 2), p=0.5, **_STREAMS[0]), case((150,), p=0.75, **_STREAMS[1])))
