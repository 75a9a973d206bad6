"""Kernels on tensors too large for one binding: the work is halved along some dimension until the pieces fit.

A launch that would bind too much raises BindingLimitError before anything is recorded; `guard` then cuts the operands into
copies, runs the kernel on each, and joins the results. Elementwise kernels, copies, reductions, softmax and reading at indices cut by themselves.
Knows which dimension of each operand may be cut; must not know how a kernel computes.
"""
from __future__ import annotations

from volta._kernels import core
from volta.backends.gpu_common import BYTES, context, max_binding
from volta.backends.gpu_copy import cat, contiguous, copy_into
from volta.backends.gpu_elementwise import KERNELS as ELEMENTWISE
from volta.errors import BindingLimitError


def _limit(t) -> int:
    return max_binding(context(t.storage.device))


def _bytes(t) -> int:
    return t._size * BYTES[t.dtype.code]


def _part(t, dim, start, stop):
    """Copy of t[start:stop] along dim; all of t where dim is None."""
    if t is None or dim is None:
        return t
    shape = t.shape[:dim] + (stop - start,) + t.shape[dim + 1:]
    return contiguous(core.view(t, shape, t._strides, t.offset + start * t._strides[dim]))


def _join(first, second, dims):
    """The results of two pieces as one; dims None adds them."""
    if isinstance(first, tuple):
        return tuple(_join(a, b, d) for a, b, d in zip(first, second, dims))
    return ELEMENTWISE["add"](first, second) if dims is None else cat((first, second), dims)


def _halves(run, inputs, params, dims, joined):
    """run on both halves of the inputs along dims[i]. Raises: BindingLimitError where there is nothing left to cut."""
    n = next(x.shape[d] for x, d in zip(inputs, dims) if x is not None and d is not None)
    if n < 2:
        raise BindingLimitError(f"a slice of shape {inputs[0].shape} alone is larger than one binding of this GPU "
                                f"({_limit(inputs[0])} bytes); use smaller tensors")
    pieces = [run(*[_part(x, d, a, b) for x, d in zip(inputs, dims)], **params) for a, b in ((0, n // 2), (n // 2, n))]
    return _join(*pieces, joined)


def along(dims, joined):
    """A cut along fixed dimensions of the inputs; `joined` is the dimension of the result (a tuple for several, None to add)."""
    return lambda run, *inputs, **params: _halves(run, inputs, params, dims, joined)


def _linear(run, x, weight, bias):
    if x.shape[0] < 2 or _bytes(weight) > _limit(x):
        return _halves(run, (x, weight, bias), {}, (None, 0, 0), 1)
    return _halves(run, (x, weight, bias), {}, (0, None, None), 0)


def _matmul(run, a, b):
    rank = max(len(a.shape), len(b.shape))
    for d in range(rank - 2):                                   # a batch: cut it
        at, bt = d - rank + len(a.shape), d - rank + len(b.shape)
        da = at if at >= 0 and a.shape[at] > 1 else None
        db = bt if bt >= 0 and b.shape[bt] > 1 else None
        if da is not None or db is not None:
            return _halves(run, (a, b), {}, (da, db), d)
    rows, columns = len(a.shape) - 2, len(b.shape) - 1
    if a.shape[rows] > 1 and (_bytes(a) >= _bytes(b) or b.shape[columns] < 2):
        return _halves(run, (a, b), {}, (rows, None), rank - 2)
    if b.shape[columns] > 1:
        return _halves(run, (a, b), {}, (None, columns), rank - 1)
    return _halves(run, (a, b), {}, (rows + 1, columns - 1), None)


def _indexed_sum(run, g, index, dim, size):
    """Along the longest dimension that is not indexed, else by the entries: the sums of both halves are added then."""
    full = len(index.shape) == len(g.shape)
    others = [d for d, n in enumerate(g.shape) if d != dim and n > 1]
    if not others or not full and _bytes(index) + 1024 > _limit(g):
        return _halves(run, (g, index), {"dim": dim, "size": size}, (dim, dim if full else 0), None)
    other = max(others, key=lambda d: g.shape[d])
    return _halves(run, (g, index), {"dim": dim, "size": size}, (other, other if full else None), other)


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
    first = run(_part(flat, 0, 0, half), p=p, seed=seed, offset=offset)
    second = run(_part(flat, 0, half, x._size), p=p, seed=seed, offset=offset + half // 4)
    return core.reshaped(cat((first, second), 0), x.shape)


def _updated(run, *tensors, **params):
    """An optimizer step on copies of both halves, written back."""
    flat = [None if t is None else core.reshaped(t if t._contiguous else contiguous(t), (t._size,)) for t in tensors]
    size = flat[0]._size
    for start, stop in ((0, size // 2), (size // 2, size)):
        pieces = [_part(t, None if t is None else 0, start, stop) for t in flat]
        run(*pieces, **params)
        for whole, piece in zip(flat, pieces):
            if whole is not None and whole is not flat[1]:      # the gradient is only read
                copy_into(core.view(whole, (stop - start,), (1,), whole.offset + start), piece)
    for t, whole in zip(tensors, flat):
        if t is not None and not t._contiguous and whole is not flat[1]:
            copy_into(t, core.reshaped(whole, t.shape))


CUTS = {
    "linear": _linear, "matmul": _matmul,
    "conv2d": along((0, None, None), 0), "conv2d_grad_input": along((0, None), 0), "conv2d_grad_weight": along((0, 0), None),
    "max_pool2d": along((0,), (0, 0)), "max_pool2d_grad": along((0, 0), 0),
    "batch_norm": along((1, 0, 0), (1, 0, 0)), "batch_norm_grad": along((1, 1, 0, 0, 0), (1, 0, 0)),
    "cross_entropy": along((0, 0), (0, 0)), "cross_entropy_grad": along((0, 0, 0, 0), 0),
    "scatter_add": _indexed_sum, "index_add": _indexed_sum,
    "uniform": _drawn, "normal": _drawn, "randint": _drawn, "dropout": _dropout,
    "sgd": _updated, "adam": _updated,
}


def guard(name: str, kernel):
    """`kernel`, or a form of it that cuts what does not fit."""
    cut = CUTS.get(name)
    if cut is None:
        return kernel

    def run(*inputs, **params):
        try:
            return kernel(*inputs, **params)
        except BindingLimitError:
            # A small view of a large buffer needs only a copy.
            small = [contiguous(x) if isinstance(x, core.TensorBase) and x.storage.nbytes > _limit(x) >= _bytes(x) else x for x in inputs]
            if cut is not _updated and any(a is not b for a, b in zip(small, inputs)):
                return run(*small, **params)
            return cut(run, *inputs, **params)
    return run


def each(name: str, many, single):
    """`many` over lists of parameters; one by one where any is too large."""
    def run(*lists, **params):
        limit = _limit(lists[0][0])
        if any(t.storage.nbytes > limit for t in lists[0]):
            for tensors in zip(*lists):
                single(*tensors, **params)
        else:
            many(*lists, **params)
    run.__name__ = name
    return run
