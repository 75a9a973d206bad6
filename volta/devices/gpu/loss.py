"""Cross-entropy on the GPU: one dispatch forward, one backward."""
from __future__ import annotations

from functools import partial

from volta._kernels import core
from volta.devices.gpu.common import FLOAT32, INT64, THREADS, ceil_div
from volta.devices.gpu.copy import contiguous
from volta.devices.gpu.limits import rows as cuts
from volta.devices.gpu.plans import At, Kernel, Plan, need_float32, unsigned
from volta.errors import DTypeError

MANY = 256                  # classes whose rows are worth making longer
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


def _cross_entropy(name, keep, x, target, *, ignore_index):
    """loss[N] of x[N, C]; with `keep`, which a gradient needs, (loss, softmax(x)), whose rows take `_width`."""
    need_float32(name, x)
    rows, classes = x.shape
    ignored = _label(name, target, ignore_index)
    plan = Plan(x, target)
    loss = plan.output((rows,), FLOAT32)
    width = _width(classes)
    softmax = plan.output((rows, width), FLOAT32) if keep else plan.scratch(4)
    lanes = _lanes(classes)
    plan.step("loss/cross_entropy", (0, 1, loss, softmax), (rows, classes, At(0), At(1), ignored, width),
              ceil_div(rows, THREADS // lanes), LANES=lanes, KEEP=keep, **({"E": "f32", "put": PUT.format("softmax")} if width % 4 else {}))
    return plan


def _cross_entropy_grad(g, softmax, target, *, ignore_index):
    """g[n] * (softmax[n] - onehot(target[n])), 0 where ignored; many classes in rows of `_width`, of which products read four elements at a
    time."""
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
    values = rows, classes, At(0), *unsigned(g._strides), At(1), stride, At(2), ignored, width
    plan.step("loss/cross_entropy_grad", (0, 1, 2, out), values, ceil_div(rows, THREADS // lanes) if classes else 0, LANES=lanes,
              **({"E": "f32", "put": PUT.format("dx"), "word": WORD} if single else {}))
    return plan


_grad = Kernel("cross_entropy_grad", _cross_entropy_grad, strided=(0, 1), cut=cuts.cross_entropy_grad)


_kept = Kernel("cross_entropy_softmax", partial(_cross_entropy, "cross_entropy_softmax", True), cut=partial(cuts.cross_entropy, True))


def _shortened(made, shape):
    """Rows without what they take beyond `shape`."""
    return made if made.shape == shape else core.view(made, shape, made._strides, 0)


def cross_entropy_softmax(x, target, ignore_index):
    """(loss, softmax(x))."""
    loss, softmax = _kept(x, target, ignore_index=ignore_index)
    return loss, _shortened(softmax, x.shape)


def cross_entropy_grad(g, softmax, target, ignore_index):
    """The gradient of the scores x."""
    return _shortened(_grad(g, softmax, target, ignore_index=ignore_index), softmax.shape)


KERNELS = {
    "cross_entropy": Kernel("cross_entropy", partial(_cross_entropy, "cross_entropy", False), cut=partial(cuts.cross_entropy, False)),
    "cross_entropy_softmax": cross_entropy_softmax, "cross_entropy_grad": cross_entropy_grad,
}
