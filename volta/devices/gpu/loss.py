"""Cross-entropy, the negative log-likelihood and the margins of labels on the GPU: one dispatch forward, two where very many labels are
reduced, one backward."""
from __future__ import annotations

import math
from functools import partial

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, INT64, THREADS, ceil_div
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, unsigned
from volta.errors import DTypeError

MANY = 256                  # classes whose rows are worth making longer
EACH, ALONE = 4, 8          # labels of a thread at a time, and how often a workgroup alone takes as many
MARGIN_TERMS = 16           # of a row to each of the threads that share it, before these are more
MOST_CLASSES = 0x7fffffff   # where nothing tells how many there are
# Elements one by one, of rows that are no multiple of four.
PUT = ("fn put(at: u32, room: u32, v: vec4<f32>) {{ {0}[at] = v.x; "
       "if (room > 1u) {{ {0}[at + 1u] = v.y; }} if (room > 2u) {{ {0}[at + 2u] = v.z; }} if (room > 3u) {{ {0}[at + 3u] = v.w; }} }}")
WORD = ("let i = at + min(vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(room - 1u)); "
        "return vec4<f32>(softmax[i.x], softmax[i.y], softmax[i.z], softmax[i.w]);")


def _width(classes: int) -> int:
    """What a row of as many classes takes: a multiple of four where there are many."""
    return ceil_div(classes, 4) * 4 if classes > MANY else classes


def _lanes(classes: int) -> int:
    """Threads that share a row: about four classes each, at most a workgroup."""
    lanes = 4
    while lanes < THREADS and lanes * 4 < classes:
        lanes *= 2
    return lanes


def _label(op: str, target, ignore_index: int) -> int:
    """`ignore_index` as the GPU holds labels; what it cannot hold is no label, for which -2**31 stands."""
    if target.dtype is not INT64:
        raise DTypeError(f"{op}: labels must be int64, got {target.dtype.name}; cast them with .long()")
    return ignore_index if -2**31 <= ignore_index < 2**31 else -2**31


def _cross_entropy(name, keep, x, target, *, ignore_index, smoothing=0.0):
    """loss[N] of x[N, C]; with `keep`, which a gradient needs, (loss, softmax(x)), whose rows take `_width`."""
    need_float32(name, x)
    rows, classes = x.shape
    ignored = _label(name, target, ignore_index)
    plan = Plan(x, target)
    loss = plan.output((rows,), FLOAT32)
    width = _width(classes)
    softmax = plan.output((rows, width), FLOAT32) if keep else None
    lanes = _lanes(classes)
    singly = {"E": "f32", "put": PUT.format("softmax")} if width % 4 else {}
    plan.step("loss/cross_entropy", (0, 1, loss, softmax), (rows, classes, At(0), At(1), ignored, width, float(smoothing)),
              ceil_div(rows, THREADS // lanes), LANES=lanes, KEEP=keep, SMOOTH=smoothing != 0.0, **singly)
    return plan


def _cross_entropy_grad(g, softmax, target, *, ignore_index, smoothing=0.0):
    """g[n] * (softmax[n] - onehot(target[n]), smoothed), 0 where ignored; many classes in rows of `_width`, of which products read four
    elements at a time."""
    need_float32("cross_entropy_grad", g, softmax)
    rows, classes = softmax.shape
    ignored = _label("cross_entropy_grad", target, ignore_index)
    stride, unit = softmax._strides
    if unit != 1 or stride < classes:
        return lambda g, softmax, target, **params: _grad(g, contiguous(softmax), target, **params)
    plan = Plan(g, softmax, target)
    width = _width(classes)
    single = (width | stride | softmax.offset) & 3
    out = plan.output((rows, width), FLOAT32)
    lanes = _lanes(classes)
    values = rows, classes, At(0), *unsigned(g._strides), At(1), stride, At(2), ignored, width, 1.0 - smoothing + smoothing / classes, \
        smoothing / classes
    plan.step("loss/cross_entropy_grad", (0, 1, 2, out), values, ceil_div(rows, THREADS // lanes) if classes else 0, LANES=lanes,
              **({"E": "f32", "put": PUT.format("dx"), "word": WORD} if single else {}))
    return plan


_grad = Kernel("cross_entropy_grad", _cross_entropy_grad, strided=(0, 1), cut=cuts.cross_entropy_grad)


_kept = Kernel("cross_entropy_softmax", partial(_cross_entropy, "cross_entropy_softmax", True), cut=partial(cuts.cross_entropy, True))


def _shortened(made, shape):
    """Rows without what they take beyond `shape`."""
    return made if made.shape == shape else core.view(made, shape, made._strides, 0)


def cross_entropy_softmax(x, target, ignore_index, smoothing=0.0):
    """(loss, softmax(x))."""
    loss, softmax = _kept(x, target, ignore_index=ignore_index, smoothing=smoothing)
    return loss, _shortened(softmax, x.shape)


def cross_entropy_grad(g, softmax, target, ignore_index, smoothing=0.0):
    """The gradient of the scores x."""
    return _shortened(_grad(g, softmax, target, ignore_index=ignore_index, smoothing=smoothing), softmax.shape)


# ---------------------------------------------------------------- log-probabilities that labels name

def _classes(shape: tuple, weight, picked: bool) -> tuple:
    """(classes, elements from one class to the next)"""
    if not picked:
        return shape[1], math.prod(shape[2:])
    return MOST_CLASSES if weight is None else weight.shape[0], 1


def _nll(x, target, weight, *, ignore_index, reduction, picked):
    """(loss, sum of the weights that count)."""
    need_float32("nll", x, weight)
    count, (classes, inner) = target._size, _classes(x.shape, weight, picked)
    mean, ignored = reduction == "mean", _label("nll", target, ignore_index)
    plan = Plan(x, target, weight)
    out, total = plan.output(target.shape if reduction == "none" else (), FLOAT32), plan.output((1,) if mean else (0,), FLOAT32)
    threads = THREADS if reduction == "none" else min(4 * THREADS, plan.ctx.limits["max-compute-invocations-per-workgroup"])
    groups, stages = ceil_div(count, threads * EACH), (0,) if reduction == "none" else (2,)
    if groups > ALONE and reduction != "none":
        stages = 1, 3
    parts = plan.scratch(8 * groups) if len(stages) > 1 else None
    for stage in stages if count or reduction != "none" else ():
        plan.step("loss/nll", (0, 1, None if weight is None else 2, out, total if mean else None, parts),
                  (count, classes, inner, At(0), At(1), 0 if weight is None else At(2), ignored, groups), 1 if stage > 1 else groups,
                  PICKED=picked, WEIGHTED=weight is not None, MEAN=mean, STAGE=stage, THREADS=threads, EACH=EACH)
    return plan


def _nll_grad(g, target, weight, total, *, shape, ignore_index, reduction, picked):
    """The gradient of x, of this shape."""
    need_float32("nll_grad", g, weight)
    count, (classes, inner), mean = math.prod(shape), _classes(shape, weight, picked), reduction == "mean"
    plan = Plan(g, target, weight, total)
    out = plan.output(shape, FLOAT32)
    values = (count, classes, inner, At(0), int(reduction == "none"), At(1), 0 if weight is None else At(2), At(3) if mean else 0,
              _label("nll_grad", target, ignore_index))
    plan.step("loss/nll_grad", (0, 1, None if weight is None else 2, 3 if mean else None, out), values, ceil_div(count, 4 * THREADS),
              PICKED=picked, WEIGHTED=weight is not None, MEAN=mean)
    return plan


# ---------------------------------------------------------------- scores within a margin of the label's

def _add_margin(plan, x, at, out, slopes, weight, p, margin):
    """The step for x, the operand number `at`, with labels and weights behind it; `slopes`: what the parameters say of g."""
    rows, classes = x.shape
    width, lanes = 1 if classes % 4 or x.offset % 4 else 4, 4
    while lanes < THREADS and lanes * MARGIN_TERMS < classes:
        lanes *= 2
    weighted = weight is not None
    single = {} if width == 4 else {"E": "f32", "element": "x[at]", "put": "fn put(at: u32, v: vec4<f32>) { dx[at] = v.x; }"}
    if not slopes:
        single.pop("put", None)
    words = (rows, classes // width, float(margin), *slopes, At(at, width), At(at + 1), At(at + 2) if weighted else 0)
    plan.step("loss/multi_margin_grad" if slopes else "loss/multi_margin", (*range(at + 2), at + 2 if weighted else None, out), words,
              ceil_div(rows, THREADS // lanes) if classes else 0, WIDTH=width, LANES=lanes, WEIGHTED=weighted, SQUARED=p == 2, **single)


def _multi_margin(x, target, weight, *, p, margin):
    """loss[N] of x[N, C]."""
    need_float32("multi_margin", x, weight)
    _label("multi_margin", target, 0)
    plan = Plan(x, target, weight)
    _add_margin(plan, x, 0, plan.output(target.shape, FLOAT32), (), weight, p, margin)
    return plan


def _multi_margin_grad(g, x, target, weight, *, p, margin):
    """The gradient of x."""
    need_float32("multi_margin_grad", g, x, weight)
    _label("multi_margin_grad", target, 0)
    plan = Plan(g, x, target, weight)
    _add_margin(plan, x, 1, plan.output(x.shape, FLOAT32), (At(0), *unsigned(g._strides)), weight, p, margin)
    return plan


KERNELS = {
    "multi_margin": Kernel("multi_margin", _multi_margin, cut=cuts.multi_margin),
    "multi_margin_grad": Kernel("multi_margin_grad", _multi_margin_grad, strided=(0,), cut=cuts.multi_margin_grad),
    "nll": Kernel("nll", _nll, cut=cuts.nll), "nll_grad": Kernel("nll_grad", _nll_grad, cut=cuts.nll_grad),
    "cross_entropy": Kernel("cross_entropy", partial(_cross_entropy, "cross_entropy", False), cut=partial(cuts.cross_entropy, False)),
    "cross_entropy_softmax": cross_entropy_softmax, "cross_entropy_grad": cross_entropy_grad,
}
