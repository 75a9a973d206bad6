"""Every record on a GPU that binds 4 KiB at once, compared with the CPU; run by test_gpu_large.py in a process of its own.

Prints for each record asked for a line of JSON: the list of its errors, empty where all cases agree.
"""
from __future__ import annotations

import json
import sys
import traceback
import zlib

import numpy as np

import volta
from volta.gpu import runtime
from volta.ops.records.attention import np_attention
from volta.ops.records.chain import CASES as CHAINS
from volta.ops.records.ctc import np_ctc
from volta.ops.table import RECORDS, Case, Derived, Flags, Labels, Many, case
from volta.selftest import cases as table

LIMIT = 4096
SHAPES = ((5000,), (3, 2000), (2500, 2))
REDUCED = (((5000,), (0,)), ((3, 2000), (1,)), ((2500, 2), (0,)), ((10, 11, 30), (0, 2)))
UNPADDED = dict(stride=(1, 1), padding=(0, 0), dilation=(1, 1))
PLAIN = dict(UNPADDED, groups=1)
CONVOLUTIONS = (        # x, weight, parameters, output
    ((40, 3, 6, 5), (4, 3, 3, 3), dict(PLAIN, padding=(1, 1)), (40, 4, 6, 5)),
    ((1, 40, 6, 6), (50, 40, 3, 3), dict(PLAIN, padding=(1, 1)), (1, 50, 6, 6)),
    ((1, 40, 6, 6), (60, 20, 3, 3), dict(PLAIN, groups=2, stride=(2, 2)), (1, 60, 2, 2)),
    ((1, 2, 60, 50), (2, 2, 3, 2), dict(PLAIN, padding=(1, 1), stride=(2, 1)), (1, 2, 30, 51)),
    ((1, 1, 9, 1500), (1, 1, 3, 3), dict(PLAIN, padding=(2, 2), dilation=(2, 2)), (1, 1, 9, 1500)),
    ((3, 8, 10, 12), (8, 1, 3, 3), dict(PLAIN, padding=(1, 1), groups=8), (3, 8, 10, 12)),
    ((1, 4, 9, 300), (8, 1, 3, 3), dict(PLAIN, padding=(1, 1), groups=4, stride=(2, 1)), (1, 8, 5, 300)))
POOLS = (((40, 3, 6, 8), (2, 2), dict(UNPADDED, stride=(2, 2))), ((1, 1, 61, 50), (3, 2), dict(UNPADDED, stride=(2, 1), padding=(1, 1))),
         ((1, 2, 4, 1500), (3, 3), dict(UNPADDED, padding=(1, 1))), ((1, 1, 5000), (5,), dict(stride=(2,), padding=(2,), dilation=(1,))),
         ((1, 1, 6, 30, 20), (2, 3, 3), dict(stride=(2, 1, 2), padding=(0, 1, 1), dilation=(1, 1, 1))))
DILATED = ((1, 1, 61, 50), (3, 2), dict(stride=(2, 1), padding=(1, 1), dilation=(1, 2)))
SAMPLED = tuple((x, grid, {"mode": mode, "padding_mode": padding, "align_corners": False}) for x, grid, mode, padding in (
    ((3, 4, 10, 20), (3, 30, 40, 2), "bilinear", "zeros"), ((1, 9, 10, 20), (1, 5, 7, 2), "bicubic", "reflection"),
    ((1, 1, 6, 7), (1, 3, 900, 2), "bilinear", "border"), ((1, 2, 5, 6, 7), (1, 10, 11, 12, 3), "bilinear", "zeros")))
EXTENDED = (((40, 1, 10, 12), (1, 12, 15), (0, 1, 2)), ((1, 1, 40, 50), (1, 43, 52), (0, 2, 1)), ((2, 10, 10, 12), (12, 10, 12), (1, 0, 0)))
MANY = Many(((5000,), (3, 5), (70, 50)))
# of q, k, v and the mask
HEADS = (((4, 4, 40, 16), (4, 2, 30, 16), (4, 2, 30, 8), (4, 1, 1, 30)), ((1, 6, 40, 16), (1, 1, 30, 16), (1, 1, 30, 8), (1, 6, 40, 1)),
         ((1, 1, 100, 4), (1, 1, 120, 4), (1, 1, 120, 4), (1, 1, 1, 120)))       # parts of keys and queries would take several


def _pooled(shape, kernel, p):
    sizes = [(n + 2 * q - d * (k - 1) - 1) // s + 1 for n, k, s, q, d in
             zip(shape[2:], kernel, p["stride"], p["padding"], p["dilation"])]
    return (*shape[:2], *sizes)


def _average(p):
    return dict(stride=p["stride"], padding=p["padding"], count_padding=False, divisor=None)


def _statistics(name):
    return Derived(lambda g, x, weight, *mean: (x.mean(axis=(0, *range(2, x.ndim))) if name == "mean" else
                                                1 / np.sqrt(x.var(axis=(0, *range(2, x.ndim))) + 1e-5)))


NORMS = ((70, 20, 3), (3000, 2), (1, 1, 5000), (3, 2, 2000))
WITH_INFINITY = Derived(lambda *_: np.where(np.arange(6000) % 700 == 1, np.inf, np.arange(6000) % 97).reshape(3, 2000))
ROWS = ((70, 50), (3, 2000), (1, 5000), (2000, 3))
LOSSES = ((400, 5), (3, 2000), (1, 5000), (5000, 1))
INDEXED = (((5000,), 0, 7000), ((70, 40), 0, 3000), ((70, 40), 1, 100), ((3, 1500, 2), 1, 1000), ((2, 3000), 1, 3), ((1, 5000), 1, 5000),
           ((5000, 1), 0, 1), ((30, 1111), 0, 4))

PUT = (((7000,), 5000, 1), ((7000,), 3, 1), ((30,), 5000, 1), ((70, 40), 3000, 1), ((3, 1500, 2), 100, 2), ((30, 1111), 40, 1),
       ((500, 20), 1, 1))

SEQUENCES = (Labels((4, 5), 9), *(Derived(lambda *_, v=v: np.array(v)) for v in ([30, 20, 9, 30], [5, 3, 0, 4])))

DISTANCES = ((1, 60, None, 30, 2.0), (1, 60, None, 5, 1.0), (1, 70, 50, 3, 3.0), (3, 20, 30, 17, 2.0), (1, 4, 900, 3, 1.0),
             (1, 3, 2, 2000, 2.0))


def _index_cases(name):
    for shape, dim, size in INDEXED:
        n = shape[dim]
        if name == "gather":
            yield case(shape, Labels(shape[:dim] + (size,) + shape[dim + 1:], n), dim=dim)
        elif name == "index_select":
            yield case(shape, Labels((size,), n), dim=dim)
        else:
            yield case(shape, Labels(shape if name == "scatter_add" else (n,), size), dim=dim, size=size)


def _positive(*shape):
    return Derived(lambda *_: np.linspace(0.1, 1.0, int(np.prod(shape))).reshape(shape))


OWN = {
    "total_norm": [case((5000,), (3, 5), (70, 50), order=order) for order in (2.0, np.inf, 3.0)],
    "contiguous": [case(s) for s in SHAPES], "clone": [case(s) for s in SHAPES], "cast": [case(s, dtype=volta.int32) for s in SHAPES],
    "triangle": [case((60, 70), diagonal=3, upper=False), case((2, 40, 50), diagonal=-2, upper=True)],
    "place": [case((1500,), shape=(5000,), starts=(7,), steps=(3,), value=1.5),
              case((30, 40), shape=(70, 50), starts=(3, 2), steps=(2, 1), value=0.0)],
    "windowed_bytes": [case(Derived(lambda *_: np.arange(13_000, dtype=np.uint8).reshape(2, 5, 1300)), Labels((2, 3), 5),
                            Derived(lambda *_: np.arange(6, dtype=np.int32).reshape(2, 3) * 17), dim=1, bits=7)],
    "cat": [case((1500,), (2500,), dim=0), case((3, 700), (3, 800), dim=1)],
    "roll": [case((5000,), shift=1700, dim=0), case((3, 2000), shift=3, dim=1), case((2500, 2), shift=2400, dim=0)],
    "extend": [case(s, outs=o, before=b, mode=m) for s, o, b in EXTENDED for m in ("reflect", "replicate", "circular")],
    "extend_grad": [case(s[:1] + o, size=s[1:], before=b, mode=m) for s, o, b in EXTENDED for m in ("reflect", "replicate", "circular")],
    "copy_into": [case(s, s) for s in SHAPES], "fill_into": [case(s, 2.5) for s in SHAPES],
    "scale_gradient": [case(s, (1,)) for s in SHAPES], "uncounted": [case(s) for s in SHAPES],
    "scatter_reduce": [case((*s[:d], size, *s[d + 1:]), s, Labels(s, size), dim=d, reduce=r)
                       for s, d, size in INDEXED for r in ("amax", "amin", "last")] + [
                           case((7000,), (5000,), Labels((5000,), 7000), dim=0, reduce="prod")],
    "scatter_reduce_into": [case((*s[:d], size, *s[d + 1:]), s, Labels(s[d:d + 1] if r == "prod" else s, size), dim=d, reduce=r)
                            for s, d, size in INDEXED for r in ("amax", "last", "prod")],
    "index_sum": [case((*s[:d], size, *s[d + 1:]), s, Labels(s[d:d + 1], size), dim=d) for s, d, size in INDEXED],
    "scatter_sum": [case((*s[:d], size, *s[d + 1:]), s, Labels(s, size), dim=d) for s, d, size in INDEXED],
    "index_put": [case(s, Labels((n,), int(np.prod(s[:r]))), v and (n, *s[r:]), rank=r) for s, n, r in PUT for v in (True, ())],
    "true_places": RECORDS["true_places"].details.cases, "true_values": RECORDS["true_values"].details.cases,
    "changes": [case(Flags((n,))) for n in (5000, 3001)],
    "one_hot": [case(Labels((1500,), 9), classes=9), case(Labels((2,), 3000), classes=3000)],
    "glu": [case((5000,), dim=0), case((3, 2000), dim=1), case((2500, 2), dim=0)],
    "glu_grad": [case((2500,), (5000,), dim=0), case((3, 1000), (3, 2000), dim=1), case((1250, 2), (2500, 2), dim=0)],
    "empty": [], "full": [case((5000,), 2.5)], "arange": [case(0.5, 0.25, 5000)],
    "uniform": [case((5000,), 0.0, 1.0, seed=3, offset=5)], "normal": [case((5000,), 0.0, 1.0, seed=3, offset=5)],
    "randint": [case((5000,), 0, 100, seed=3, offset=5)], "shuffled": [case((3000,), 0, 3000, seed=3, offset=5)],
    "draw_into": [case((5000,), kind=k, a=0.5, b=3.0, seed=3, offset=5) for k in (
        "uniform", "normal", "bernoulli", "exponential", "geometric", "cauchy", "log_normal", "integers", "chances")],
    "dropout": [case((5000,), p=0.3, seed=3, offset=5), case((70, 50), p=0.3, seed=3, offset=5)],
    "matmul": [case((60, 50), (50, 70)), case((40, 30, 5), (5, 3)), case((2, 3, 1500), (2, 1500, 2)), case((1, 5000), (5000, 1)),
               case((5000, 1), (1, 2)), case((3, 1), (1, 2000))],
    "dot": [case((5000,), (5000,))],
    "linear": [case((500, 30), (4, 30), (4,)), case((3, 30), (500, 30), (500,)),
               case((1, 3000), (1, 3000), (1,)), case((2000, 2), (1500, 2), None)],
    "attention": [case(*s, causal=s[0][0] > 1, scale=0.3) for s in HEADS],
    "attention_slopes": [case(s[0][:3] + s[2][3:], *s, *[Derived(lambda g, *x, i=i, s=s: np_attention(*x[:4], s[0][0] > 1, 0.3)[i])
                                                         for i in (0, 1)], causal=s[0][0] > 1, scale=0.3) for s in HEADS if s[3]],
    "attention_grad": [case(s[0][:3] + s[2][3:], *s, *[Derived(lambda g, *x, i=i, s=s: np_attention(*x[:4], s[0][0] > 1, 0.3)[i])
                                                       for i in (0, 1)], causal=s[0][0] > 1, scale=0.3) for s in HEADS],
    "conv2d": [case(x, w, (w[0],), **p) for x, w, p, _ in CONVOLUTIONS],
    "conv2d_grad_input": [case(out, w, height=x[2], width=x[3], **p) for x, w, p, out in CONVOLUTIONS],
    "conv2d_grad_weight": [case(out, x, kernel=w[2:], **p) for x, w, p, out in CONVOLUTIONS],
    "max_pool": [case(s, size=_pooled(s, k, p)[2:], kernel=k, **p) for s, k, p in (*POOLS, DILATED)],
    "median_all": [case((3000,)), case((60, 70), skip=True)],
    "middle": [case((3, 900), dim=1), case((700, 4), dim=0, skip=True), case((1200,), dim=0, place=700)],
    "longest_run": [case(Derived(lambda: np.sort(np.arange(5400.0).reshape(6, 900) % 7, 1)), dim=1),
                    case(Derived(lambda: np.sort(np.arange(3000.0) % 7)), dim=0)],
    "distances": [case((b, n, m), r and (b, r, m), p=p) for b, n, r, m, p in DISTANCES[:-1]],
    "distances_grad": [case((b, n, r) if r else (b, n * (n - 1) // 2), (b, n, m), r and (b, r, m),
                            Derived(lambda g, x1, x2, p=p: RECORDS["distances"].details.numpy(x1, x2, p)), p=p)
                       for b, n, r, m, p in DISTANCES],
    "fractional_max_pool": [case((20, 13, 15), (20, 2), size=(6, 7), kernel=(3, 2)),
                            case((8, 6, 7, 8), (8, 3), size=(3, 3, 3), kernel=(2, 3, 1))],
    "var": [*(case(s, dim=d, keepdim=False, correction=1.0) for s, d in REDUCED[:3]),
            *(case(WITH_INFINITY, dim=d, keepdim=True, correction=1.0) for d in ((0,), (1,)))],
    "chain": [case(s, s[-1:], *CHAINS[0].inputs[2:], **CHAINS[0].params) for s in SHAPES],
    "cosine": [case(s, s, eps=1e-6) for s in ROWS],
    "cosine_grad": [case(s[:-1], s, s, *[Derived(lambda g, *_: np.full(g.shape, 0.5))] * 3, eps=1e-6)
                    for s in ROWS],
    "unit": [case((70, 50), dim=1, eps=1e-6), case((40, 3, 30), dim=0, eps=1e-6), case((3000,), dim=0, eps=1e-6)],
    "unit_grad": [case(s, s, Derived(lambda g, x, d=d: np.sqrt((x * x).sum(d, keepdims=True))), dim=d, eps=1e-6)
                  for s, d in (((70, 50), 1), ((40, 3, 30), 0), ((3000,), 0))],
    "max_pool_values": [case(s, size=_pooled(s, k, p)[2:], kernel=k, **p) for s, k, p in (*POOLS, DILATED)],
    "max_pool_grad": [case(_pooled(s, k, p), Derived(lambda g, s=s, k=k, p=p: _first_of_windows(s, k, p)), size=s[2:], kernel=k, **p)
                      for s, k, p in (*POOLS, DILATED)],
    "avg_pool": [case(s, size=_pooled(s, k, p)[2:], kernel=k, **_average(p)) for s, k, p in POOLS],
    "grid_sample": [case(x, grid, None, **options) for x, grid, options in SAMPLED],
    "grid_sample_input": [case(x[:2] + grid[1:-1], grid, None, size=x[2:], **options) for x, grid, options in SAMPLED],
    "grid_sample_grid": [case(x[:2] + grid[1:-1], x, grid, None, **options) for x, grid, options in SAMPLED],
    "fold": [case((3, 36, 200), size=(21, 11), kernel=(2, 2), stride=(1, 1), padding=(0, 0), dilation=(1, 1)),
             case((1, 8, 210), size=(14, 15), kernel=(2, 2), stride=(1, 1), padding=(1, 1), dilation=(2, 2))],
    "columns": [case((3, 9, 21, 11), kernel=(2, 2), stride=(1, 1), padding=(0, 0), dilation=(1, 1)),
                case((1, 8, 14, 15), kernel=(2, 1), stride=(1, 1), padding=(1, 1), dilation=(2, 2))],
    "avg_pool_grad": [case(_pooled(s, k, p), size=s[2:], kernel=k, **_average(p)) for s, k, p in POOLS],
    "bag_sum": [case((rows, width), Labels((n,), rows), listed and Derived(lambda *_: np.array([0, 3, 3, 100])), scaled and (n,),
                     bags=4, padding=2, mean=not scaled)
                for rows, width, n in ((700, 7, 200), (3000, 1, 300), (5, 3, 5000)) for listed in (True, None) for scaled in (True, None)],
    "bag_max": [case((rows, width), Labels((n,), rows), listed and Derived(lambda *_: np.array([0, 3, 3, 100])), bags=4, padding=2)
                for rows, width, n in ((700, 7, 200), (3000, 1, 300), (5, 3, 5000)) for listed in (True, None)],
    "batch_norm": [case(s, w and (s[1],), w and (s[1],), eps=1e-5) for s in NORMS for w in (True, None)],
    "batch_norm_given": [case(s, (s[1],), _positive(s[1]), w and (s[1],), w and (s[1],), eps=1e-5) for s in NORMS for w in (True, None)],
    "batch_norm_given_grad": [case(s, s, w and (s[1],), (s[1],), _positive(s[1]), eps=1e-5) for s in NORMS for w in (True, None)],
    "batch_norm_grad": [case(s, s, w and (s[1],), _statistics("mean"), _statistics("rstd")) for s in NORMS for w in (True, None)],
    "batch_norm_update": [case((5000,), _positive(5000), (5000,), _positive(5000), momentum=0.1, eps=1e-5, count=40)],
    **dict.fromkeys(("cross_entropy", "cross_entropy_softmax"),
                    [case(s, Labels(s[:1], s[1]), ignore_index=i, smoothing=e) for s in LOSSES for i, e in ((-100, 0.0), (0, 0.1))]),
    "cross_entropy_grad": [case(s[:1], s, Labels(s[:1], s[1]), ignore_index=i, smoothing=e) for s in LOSSES
                           for i, e in ((-100, 0.0), (0, 0.1))],
    "nll": [case(s if not k else s[:1], Labels(s[:1], s[1]), w and (s[1],), ignore_index=i, reduction=r, picked=k)
            for s in LOSSES for w, i, r, k in ((None, -100, "mean", False), (True, 0, "mean", False), (True, 0, "none", False),
                                               (True, 0, "mean", True), (None, 0, "sum", True))],
    "nll_grad": [case(s[:1], Labels(s[:1], s[1]), w and (s[1],), (0,), shape=s, ignore_index=i, reduction="none", picked=False)
                 for s in LOSSES for w, i in ((None, -100), (True, 0))],
    "multi_margin": [case(s, Labels(s[:1], s[1]), w and (s[1],), p=p, margin=0.5) for s in LOSSES for w, p in ((None, 1), (True, 2))],
    "multi_margin_grad": [case(s[:1], s, Labels(s[:1], s[1]), w and (s[1],), p=p, margin=0.5)
                          for s in LOSSES for w, p in ((None, 2), (True, 1))],
    "ctc": [case((30, 4, 9), *SEQUENCES, blank=0)],
    "ctc_grad": [case((4,), (30, 4, 9), *SEQUENCES, *(Derived(lambda g, *x, i=i: np_ctc(*x[:4], 0)[i]) for i in (0, 1)), blank=0)],
}


for _sizes, _mode, _gates, _back in (((40,) * 3, "lstm", 4, False), ((60, 40, 30, 7), "lstm", 4, True), ((70,), "gru", 3, False),
                                     ((30, 30, 20, 9), "gru", 3, False), ((90, 80, 2), "tanh", 1, True)):
    _given = {"mode": _mode, "batch_sizes": _sizes, "reverse": _back}
    _rows, _state = (sum(_sizes), 5 * _gates), (_sizes[0], 5)
    OWN.setdefault("recurrent", []).append(case(_rows, (5 * _gates, 5), (5 * _gates,), None if _back else _state, None, **_given))
    OWN.setdefault("recurrent_grad", []).append(case(
        _rows, (5 * _gates, 5), (_rows[0], 5 * {4: 7, 3: 5, 1: 2}[_gates]), (_rows[0], 5), None if _back else _state, None, **_given))


def _first_of_windows(shape, kernel, p):
    """Indices as max_pool makes them of an image that falls everywhere: the first pixel of each window that is one."""
    firsts = [np.maximum(np.arange(n) * s - q, (np.arange(n) * s - q) % d) for n, s, q, d in
              zip(_pooled(shape, kernel, p)[2:], p["stride"], p["padding"], p["dilation"])]
    places = np.ravel_multi_index(np.ix_(*firsts), shape[2:])
    return np.broadcast_to(places, _pooled(shape, kernel, p)).astype(np.int64)


def cases(op):
    """Calls with operands of several bindings."""
    if op.name in OWN:
        return OWN[op.name]
    if op.family == "index":
        return list(_index_cases(op.name))
    if op.family == "update":
        return [Case(tuple(MANY if isinstance(x, Many) else x for x in c.inputs), c.params) for c in op.details.cases[::2]]
    if op.family in ("reduce", "arg"):
        return [case(s, dim=d[0] if op.family == "arg" else d, keepdim=False) for s, d in REDUCED if op.family == "reduce" or len(d) == 1]
    if op.family == "softmax":
        return [case(*[s] * len(op.inputs), dim=d[0]) for s, d in REDUCED if len(d) == 1]
    if op.family in table.ELEMENTWISE:
        kinds = op.details.cases[0].inputs
        return [case(*[Flags(s) if isinstance(k, Flags) else s if isinstance(k, tuple) else k for k in kinds]) for s in SHAPES]
    # Another family brings its own: samples of more than one binding.
    return [c for c in op.details.cases if any(isinstance(s, tuple) and 4 * int(np.prod(s)) > LIMIT for s in c.inputs)] or None


def dtypes(op):
    """Those that differ in how wide an element is, or in how it is computed."""
    kinds = op.details.kinds
    floats = [volta.float32] + [volta.float16] * volta.gpu.context().has_f16
    moved = [volta.uint8, volta.bool] if (op.family == "index" or op.name == "index_put") and "b" in kinds else []
    return floats * ("f" in kinds) + [volta.int64] * (kinds in ("i", "ib")) + moved


def compare(op, one, dtype) -> str | None:
    """What differs between the devices, None where nothing does."""
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    arrays = table.sample(op, one, rng, dtype)
    for i, a in enumerate(arrays):                  # Derived gives float64, and labels as floats
        if isinstance(one.inputs[i], Derived) and isinstance(a, np.ndarray) and op.name == "max_pool_grad":
            arrays[i] = a.astype(np.int64)
    found = []
    for device in ("cpu", "gpu"):
        results = table.run(op, table.to_device(arrays, device), one.params, device, dtype)
        found.append([r.numpy() for r in table.flat(results) if isinstance(r, volta.Tensor)])
    for i, (a, b) in enumerate(zip(*found)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {i}: {b.dtype}{b.shape}, the CPU has {a.dtype}{a.shape}"
        scale = max(table.magnitude([a]), 1e-3)
        rtol, atol = (2e-3, 2e-3 * scale) if dtype is volta.float16 else (1e-3, 1e-4 * scale)
        if a.dtype.kind != "f":
            rtol = atol = 0
        wrong = int((~np.isclose(a.astype(float), b.astype(float), rtol=rtol, atol=atol, equal_nan=True)).sum())
        if wrong:
            return f"output {i}: {wrong} of {a.size} elements differ"
    return None


def errors(name) -> list[str]:
    """What differs, or fails, of a record's cases."""
    op, found = RECORDS[name], []
    chosen = cases(op)
    for one, dtype in ((one, dtype) for one in chosen or () for dtype in dtypes(op)):
        try:
            wrong = compare(op, one, dtype)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        if wrong:
            found.append(f"{dtype} {one.inputs} {one.params}: {wrong}"[:400])
    return ["no case"] if chosen is None else found


def main(names):
    """Answer for the named records, or for those asked for on standard input."""
    def start(self, link, limits):
        limits["max-storage-buffer-binding-size"] = LIMIT
        runtime.Stream.start(self, link, limits)

    runtime.Context.start = start
    volta.set_mixed_device("error")
    for name in names or map(str.strip, sys.stdin):
        print(json.dumps(errors(name)), flush=True)
    volta.gpu.synchronize()


if __name__ == "__main__":
    main(sys.argv[1:])
