"""Cross-entropy on the GPU: one dispatch forward, one backward."""
from __future__ import annotations

from volta.devices.gpu.common import FLOAT32, context
from volta.devices.gpu.plans import THREADS, Plans, ceil_div, dense, floats, need_float32, packer

_plans = Plans()


def _lanes(classes: int) -> int:
    """Threads that share a row: about four classes each, at most a workgroup."""
    lanes = 4
    while lanes < THREADS and lanes * 4 < classes:
        lanes *= 2
    return lanes


def _plan(file: str, key: tuple, x):
    rows, classes = x.shape
    ctx = context(x.device)
    lanes = _lanes(classes)
    pipeline = ctx.pipeline(file, LANES=lanes)
    plan = _plans[key] = (ctx, pipeline, packer(pipeline), ceil_div(rows, THREADS // lanes))
    return plan


def cross_entropy(x, target, ignore_index):
    """(loss[N], logsumexp[N]) of x[N, C]."""
    if x.dtype is not FLOAT32:
        need_float32("cross_entropy", x)
    x, target = dense(x), dense(target)
    storage = x.storage
    device = storage.device
    key = (device, x.shape)
    plan = _plans.get(key) or _plan("loss/cross_entropy", key, x)
    ctx, pipeline, pack, groups = plan
    rows, classes = x.shape
    loss = floats(device, (rows,), 4 * rows)
    sums = floats(device, (rows,), 4 * rows)
    if rows:
        ctx.launch(pipeline, (storage.buffer, target.storage.buffer, loss.storage.buffer, sums.storage.buffer),
                   pack(rows, classes, x.offset, target.offset, _word(ignore_index)), groups)
    return loss, sums


def _word(ignore_index: int) -> int:
    """A label that the GPU cannot hold is no label: -2**31 stands for it."""
    return ignore_index if -2**31 <= ignore_index < 2**31 else -2**31


def cross_entropy_grad(g, x, logsumexp, target, ignore_index):
    """g[n] * (softmax(x)[n] - onehot(target[n])), 0 where ignored."""
    if x.dtype is not FLOAT32:
        need_float32("cross_entropy_grad", x)
    x, target, logsumexp = dense(x), dense(target), dense(logsumexp)
    storage = x.storage
    device = storage.device
    key = (device, x.shape, "grad")
    plan = _plans.get(key) or _plan("loss/cross_entropy_grad", key, x)
    ctx, pipeline, pack, groups = plan
    rows, classes = x.shape
    out = floats(device, x.shape, 4 * rows * classes)
    if rows and classes:
        ctx.launch(pipeline, (g.storage.buffer, storage.buffer, logsumexp.storage.buffer, target.storage.buffer,
                              out.storage.buffer),
                   pack(rows, classes, g.offset, g._strides[0] & 0xFFFF_FFFF, x.offset, logsumexp.offset, target.offset,
                        _word(ignore_index)), groups)
    return out


KERNELS = {"cross_entropy": cross_entropy, "cross_entropy_grad": cross_entropy_grad}
