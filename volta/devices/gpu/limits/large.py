"""Kernels on tensors too large for one binding: the work is halved along some dimension until the pieces fit.

A launch that would bind too much raises BindingLimitError before anything is recorded; `guard` then cuts the operands into
copies, runs the kernel on each, and joins the results. Elementwise kernels, copies, reductions, softmax and reading at indices
cut by themselves. Where one row or channel alone is too large, its reductions are composed of those.
Knows which dimension of each operand may be cut; must not know how a kernel computes.
"""
from __future__ import annotations

import math

from volta._kernels import core
from volta._kernels.core.fallback import Fallback
from volta.devices import half
from volta.devices.gpu.copy import arange, cast, cat, contiguous, copy_into
from volta.devices.gpu.elementwise import KERNELS as ELEMENTWISE
from volta.devices.gpu.index import gather, scatter_add
from volta.devices.gpu.limits import strips
from volta.devices.gpu.limits.cut import bytes_of, halves, limit_of, part
from volta.devices.gpu.reduce import KERNELS as REDUCE
from volta.errors import BindingLimitError, DTypeError
from volta.ops.table import PRIMITIVES


def _linear(run, x, weight, bias):
    if x.shape[0] > 1 and (bytes_of(weight) <= limit_of(x) or weight.shape[0] < 2):
        return halves(run, (x, weight, bias), {}, (0, None, None), 0)
    if weight.shape[0] > 1:
        return halves(run, (x, weight, bias), {}, (None, 0, 0), 1)
    out = halves(run, (x, weight, None), {}, (1, 1, None), None)
    return out if bias is None else ELEMENTWISE["add"](out, bias)


def _matmul(run, a, b):
    rank = max(len(a.shape), len(b.shape))
    for d in range(rank - 2):                                   # a batch: cut it
        at, bt = d - rank + len(a.shape), d - rank + len(b.shape)
        da = at if at >= 0 and a.shape[at] > 1 else None
        db = bt if bt >= 0 and b.shape[bt] > 1 else None
        if da is not None or db is not None:
            return halves(run, (a, b), {}, (da, db), d)
    rows, columns = len(a.shape) - 2, len(b.shape) - 1
    if a.shape[rows] > 1 and (bytes_of(a) >= bytes_of(b) or b.shape[columns] < 2):
        return halves(run, (a, b), {}, (rows, None), rank - 2)
    if b.shape[columns] > 1:
        return halves(run, (a, b), {}, (None, columns), rank - 1)
    return halves(run, (a, b), {}, (rows + 1, columns - 1), None)


def _indexed_sum(run, g, index, dim, size):
    """Along the longest dimension that is not indexed, else by the entries: the sums of both halves are added then."""
    full = len(index.shape) == len(g.shape)
    others = [d for d, n in enumerate(g.shape) if d != dim and n > 1]
    if not others or not full and bytes_of(index) + 1024 > limit_of(g):
        return halves(run, (g, index), {"dim": dim, "size": size}, (dim, dim if full else 0), None)
    other = max(others, key=lambda d: g.shape[d])
    return halves(run, (g, index), {"dim": dim, "size": size}, (other, other if full else None), other)


def _drawn(run, shape, a, b, *, seed, offset, **place):
    """Random numbers in two draws that continue each other."""
    count = 1
    for n in shape:
        count *= n
    half = count // 2 & ~3
    first = run((half,), a, b, seed=seed, offset=offset, **place)
    second = run((count - half,), a, b, seed=seed, offset=offset + half // 4, **place)
    return core.reshaped(cat((first, second), 0), shape)


def _dropout(run, x, p, seed, offset):
    flat = core.reshaped(contiguous(x), (x._size,))
    half = x._size // 2 & ~3
    first = run(part(flat, 0, 0, half), p=p, seed=seed, offset=offset)
    second = run(part(flat, 0, half, x._size), p=p, seed=seed, offset=offset + half // 4)
    return core.reshaped(cat((first, second), 0), x.shape)


def _updated(run, *tensors, **params):
    """An in-place kernel on copies of both halves; the tensors that it writes get theirs back."""
    written = PRIMITIVES["batch_norm_update"].writes
    flat = [core.reshaped(t if t._contiguous else contiguous(t), (t._size,)) for t in tensors]
    size = flat[0]._size
    for start, stop in ((0, size // 2), (size // 2, size)):
        pieces = [part(t, 0, start, stop) for t in flat]
        run(*pieces, **params)
        for i in written:
            copy_into(core.view(flat[i], (stop - start,), (1,), flat[i].offset + start), pieces[i])
    for i in written:
        if not tensors[i]._contiguous:
            copy_into(tensors[i], core.reshaped(flat[i], tensors[i].shape))


# ---------------------------------------------------------------- one row or channel alone

def _cross_entropy(run, x, target, ignore_index):
    """By rows; one row alone is composed of reductions."""
    if x.shape[0] > 1:
        return halves(run, (x, target), {"ignore_index": ignore_index}, (0, 0), (0, 0))
    e = ELEMENTWISE
    top = REDUCE["amax"](x, (1,), True)
    sums = e["add"](e["log"](REDUCE["sum"](e["exp"](e["sub"](x, top)), (1,), True)), top)
    picked = gather(x, core.reshaped(contiguous(target), (1, 1)), 1)
    sums = core.reshaped(sums, (1,))
    loss = e["sub"](sums, core.reshaped(picked, (1,)))
    loss = e["where"](e["logical_and"](e["ge"](target, 0), e["lt"](target, x.shape[1])), loss, math.nan)
    return e["where"](e["eq"](target, ignore_index), 0.0, loss), sums


def _cross_entropy_grad(run, g, x, logsumexp, target, ignore_index):
    if x.shape[0] > 1:
        return halves(run, (g, x, logsumexp, target), {"ignore_index": ignore_index}, (0, 0, 0, 0), 0)
    e = ELEMENTWISE
    row = (1, 1)
    slope = e["where"](e["eq"](target, ignore_index), 0.0, g)
    hot = e["eq"](arange(0, 1, x.shape[1], target.dtype, target.storage.device), target)
    chance = e["exp"](e["sub"](x, core.reshaped(contiguous(logsumexp), row)))
    return e["mul"](e["sub"](chance, core.reshaped(cast(hot, x.dtype), x.shape)), core.reshaped(slope, row))


def _batch_norm(run, x, weight, bias, eps):
    """By channels; one channel alone is composed of reductions."""
    if x.shape[1] > 1:
        return halves(run, (x, weight, bias), {"eps": eps}, (1, 0, 0), (1, 0, 0))
    e, flat, count = ELEMENTWISE, core.reshaped(contiguous(x), (x._size,)), float(x._size)
    mean = e["div"](REDUCE["sum"](flat, (0,), True), count)
    centred = e["sub"](flat, mean)
    rstd = e["rsqrt"](e["add"](e["div"](REDUCE["sum"](e["mul"](centred, centred), (0,), True), count), eps))
    out = e["mul"](centred, rstd if weight is None else e["mul"](rstd, weight))
    return core.reshaped(out if bias is None else e["add"](out, bias), x.shape), mean, rstd


def _batch_norm_grad(run, g, x, weight, mean, rstd):
    if x.shape[1] > 1:
        return halves(run, (g, x, weight, mean, rstd), {}, (1, 1, 0, 0, 0), (1, 0, 0))
    e, count = ELEMENTWISE, float(x._size)
    slope, flat = (core.reshaped(contiguous(t), (t._size,)) for t in (g, x))
    normal = e["mul"](e["sub"](flat, mean), rstd)
    dweight, dbias = REDUCE["sum"](e["mul"](slope, normal), (0,), True), REDUCE["sum"](slope, (0,), True)
    centred = e["sub"](e["sub"](slope, e["div"](dbias, count)), e["mul"](normal, e["div"](dweight, count)))
    return core.reshaped(e["mul"](centred, rstd if weight is None else e["mul"](rstd, weight)), x.shape), dweight, dbias


def _max_pool2d_grad(run, g, index, height, width, **params):
    """By planes; one plane alone is an addition at its places."""
    for d in (0, 1):
        if g.shape[d] > 1:
            return halves(run, (g, index), {"height": height, "width": width, **params}, (d, d), d)
    flat = [core.reshaped(contiguous(t), (t._size,)) for t in (g, index)]
    return core.reshaped(guard("scatter_add", scatter_add)(*flat, dim=0, size=height * width), (1, 1, height, width))


CUTS = {
    "linear": _linear, "matmul": _matmul,
    "conv2d": strips.conv2d, "conv2d_grad_input": strips.conv2d_grad_input,
    "conv2d_grad_weight": strips.conv2d_grad_weight,
    "max_pool2d": strips.max_pool2d, "max_pool2d_grad": _max_pool2d_grad,
    "batch_norm": _batch_norm, "batch_norm_grad": _batch_norm_grad,
    "cross_entropy": _cross_entropy, "cross_entropy_grad": _cross_entropy_grad,
    "scatter_add": _indexed_sum, "index_add": _indexed_sum,
    "uniform": _drawn, "normal": _drawn, "randint": _drawn, "dropout": _dropout,
    "batch_norm_update": _updated,
}
HALF = {"cast": cast, "copy_into": copy_into, "minimum": ELEMENTWISE["minimum"]}


def guard(name: str, kernel):
    """`kernel`, or a form of it that cuts what does not fit and computes float16 in float32 where the kernel has no own."""
    cut = CUTS.get(name)
    if cut is None:
        return kernel

    def instead(error, inputs, params):
        if isinstance(error, DTypeError):
            if not half.concerns(inputs, params):
                raise error
            return half.compute(name, run, HALF, inputs, params)
        error.__traceback__ = None          # its frames hold what the kernel had allocated
        # A small view of a large buffer needs only a copy.
        small = [contiguous(x) if isinstance(x, core.TensorBase) and x.storage.nbytes > limit_of(x) >= bytes_of(x) else x for x in inputs]
        if cut is not _updated and any(a is not b for a, b in zip(small, inputs)):
            return run(*small, **params)
        return cut(run, *inputs, **params)

    run = Fallback(kernel, (BindingLimitError, DTypeError), instead)
    return run
