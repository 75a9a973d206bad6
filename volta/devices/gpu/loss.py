"""Cross-entropy on the GPU: one dispatch forward, one backward."""
from __future__ import annotations

from functools import partial

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, INT64, THREADS, ceil_div
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, unsigned
from volta.errors import DTypeError

MANY = 256                  # classes whose rows are worth making longer


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


def _cross_entropy(name, keep, x, target, *, ignore_index):
    """loss[N] of x[N, C]; with `keep`, which a gradient needs, (loss, softmax(x))."""
    need_float32(name, x)
    rows, classes = x.shape
    ignored = _label(name, target, ignore_index)
    plan = Plan(x, target)
    loss = plan.output((rows,), FLOAT32)
    softmax = plan.output(x.shape, FLOAT32) if keep else plan.scratch(4)
    lanes = _lanes(classes)
    plan.step("loss/cross_entropy", (0, 1, loss, softmax), (rows, classes, At(0), At(1), ignored), ceil_div(rows, THREADS // lanes),
              LANES=lanes, KEEP=keep)
    return plan


def _cross_entropy_grad(g, softmax, target, *, ignore_index):
    """g[n] * (softmax[n] - onehot(target[n])), 0 where ignored; many classes in rows of a multiple of four, of which products read four
    elements at a time."""
    need_float32("cross_entropy_grad", g, softmax)
    rows, classes = softmax.shape
    ignored = _label("cross_entropy_grad", target, ignore_index)
    plan = Plan(g, softmax, target)
    width = ceil_div(classes, 4) * 4 if classes > MANY else classes
    out = plan.output((rows, width), FLOAT32)
    lanes = _lanes(classes)
    values = rows, classes, At(0), *unsigned(g._strides), At(1), At(2), ignored, width
    plan.step("loss/cross_entropy_grad", (0, 1, 2, out), values, ceil_div(rows, THREADS // lanes) if classes else 0, LANES=lanes)
    return plan


_grad = Kernel("cross_entropy_grad", _cross_entropy_grad, strided=(0,), cut=cuts.cross_entropy_grad)


def cross_entropy_grad(g, softmax, target, ignore_index):
    """The gradient of the scores x."""
    made = _grad(g, softmax, target, ignore_index=ignore_index)
    return made if made.shape == softmax.shape else core.view(made, softmax.shape, made._strides, 0)


KERNELS = {
    **{name: Kernel(name, partial(_cross_entropy, name, keep), cut=partial(cuts.cross_entropy, keep))
       for name, keep in (("cross_entropy", False), ("cross_entropy_softmax", True))},
    "cross_entropy_grad": cross_entropy_grad,
}
