"""Records of reading, adding and writing at the positions of an integer tensor, with their derivatives."""
from __future__ import annotations

import numpy as np

from volta._kernels import core
from volta.dtypes import int64
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op, full_op
from volta.ops.records.math import where_op
from volta.ops.records.view import reshape_op, row_major
from volta.ops.table import Labels, case, create, register


def _np_scatter_add(g, index, dim, size):
    out = np.zeros(g.shape[:dim] + (size,) + g.shape[dim + 1:], g.dtype)
    where_ = list(np.indices(g.shape))
    where_[dim] = index
    np.add.at(out, tuple(where_), g)
    return out


def _np_index_add(g, index, dim, size):
    out = np.zeros(g.shape[:dim] + (size,) + g.shape[dim + 1:], g.dtype)
    np.add.at(np.moveaxis(out, dim, 0), index, np.moveaxis(g, dim, 0))
    return out


def _select_gradient(g, x_shape, index, x_arrived, dim):
    if x_arrived is None:
        return index_add_op(g, index, dim=dim, size=x_shape[dim])
    index_add_into_op(x_arrived, g, index, dim=dim)
    return x_arrived


gather_op = register(
    "gather", ("x", "index"), family="index", kinds="fib", takes={"x": "fib", "index": "int64"},
    numpy=lambda x, index, dim: np.take_along_axis(x, index, dim),
    vjp=(lambda g, x_shape, index, dim: scatter_add_op(g, index, dim=dim, size=x_shape[dim]), None),
    cases=(case((3, 5), Labels((3, 2), 5), dim=1), case((4, 3), Labels((6, 3), 4), dim=0), case((2, 3, 4), Labels((2, 5, 4), 3), dim=1)))
scatter_add_op = register(
    "scatter_add", ("g", "index"), family="index", kinds="fib", takes={"g": "fib", "index": "int64"}, numpy=_np_scatter_add,
    vjp=(lambda gg, index, dim: gather_op(gg, index, dim=dim), None),
    cases=(case((3, 4), Labels((3, 4), 5), dim=1, size=5), case((6, 3), Labels((6, 3), 4), dim=0, size=4)))
scatter_sum_op = register(
    "scatter_sum", ("x", "src", "index"), family="index", kinds="fib", takes={"x": "fib", "src": "=x", "index": "int64"},
    numpy=lambda x, src, index, dim: np.asarray(x + _np_scatter_add(src, index, dim, x.shape[dim]), x.dtype),
    vjp=(lambda g: g, lambda g, index, dim: gather_op(g, index, dim=dim), None),
    cases=(case((3, 5), (3, 4), Labels((3, 4), 5), dim=1), case((4, 3), (90, 3), Labels((90, 3), 4), dim=0),
           case((2, 3, 70), (2, 4, 70), Labels((2, 4, 70), 3), dim=1)))
index_select_op = register(
    "index_select", ("x", "index"), family="index", kinds="fib", takes={"x": "fib", "index": "int64"},
    numpy=lambda x, index, dim: np.take(x, index, dim),
    vjp=(_select_gradient, None),
    cases=(case((5, 3), Labels((7,), 5), dim=0), case((2, 4, 3), Labels((2,), 4), dim=1), case((3, 4), Labels((0,), 4), dim=1)))
index_add_op = register(
    "index_add", ("g", "index"), family="index", kinds="fib", takes={"g": "fib", "index": "int64"}, numpy=_np_index_add,
    vjp=(lambda gg, index, dim: index_select_op(gg, index, dim=dim), None),
    cases=(case((7, 3), Labels((7,), 5), dim=0, size=5), case((2, 6, 3), Labels((6,), 4), dim=1, size=4),
           case((90, 12), Labels((90,), 30), dim=0, size=30), case((2, 130, 4), Labels((130,), 2), dim=1, size=2)))

index_sum_op = register(
    "index_sum", ("x", "src", "index"), family="index", kinds="fib", takes={"x": "fib", "src": "=x", "index": "int64"},
    numpy=lambda x, src, index, dim: np.asarray(x + _np_index_add(src, index, dim, x.shape[dim]), x.dtype),
    vjp=(lambda g: g, lambda g, index, dim: index_select_op(g, index, dim=dim), None),
    cases=(case((5, 3), (7, 3), Labels((7,), 5), dim=0), case((2, 4, 3), (2, 6, 3), Labels((6,), 4), dim=1),
           case((30, 12), (90, 12), Labels((90,), 30), dim=0), case((3, 4), (3, 0), Labels((0,), 4), dim=1)))


def _one_hot(index, classes):
    places = create(arange_op, 0, 1, classes, dtype=int64, device=index.device)
    return cast(reshape_op(row_major(index), shape=(*index.shape, 1)) == places, int64)


one_hot_op = register(
    "one_hot", ("index",), family="index", kinds="i", takes={"index": "int64"}, reference=_one_hot, smooth=False,
    numpy=lambda index, classes: np.eye(classes, dtype=np.int64)[index],
    cases=(case(Labels((4,), 3), classes=3), case(Labels((2, 300), 7), classes=9), case(Labels((), 2), classes=2),
           case(Labels((0,), 1), classes=1)))
index_add_into_op = register(
    "index_add_into", ("out", "g", "index"), writes=("out",), takes={"out": "fib", "g": "=out", "index": "int64"}, family="inplace",
    kinds="fib", numpy=lambda out, g, index, dim: (np.asarray(out + _np_index_add(g, index, dim, out.shape[dim]), out.dtype), None, None),
    cases=(case((5, 3), (7, 3), Labels((7,), 5), dim=0), case((2, 4, 3), (2, 6, 3), Labels((6,), 4), dim=1),
           case((90, 8), (5000, 8), Labels((5000,), 90), dim=0), case((20, 3), (300, 3), Labels((300,), 9), dim=0),
           case((3, 4), (3, 0), Labels((0,), 4), dim=1)))
scatter_add_into_op = register(
    "scatter_add_into", ("out", "g", "index"), writes=("out",), takes={"out": "fib", "g": "=out", "index": "int64"}, family="inplace",
    kinds="fib", numpy=lambda out, g, index, dim: (np.asarray(out + _np_scatter_add(g, index, dim, out.shape[dim]), out.dtype), None, None),
    cases=(case((3, 5), (3, 4), Labels((3, 4), 5), dim=1), case((4, 3), (90, 3), Labels((90, 3), 4), dim=0),
           case((2, 3, 70), (2, 400, 70), Labels((2, 400, 70), 3), dim=1), case((300,), (9000,), Labels((9000,), 300), dim=0),
           case((3, 4), (3, 0), Labels((3, 0), 4), dim=1)))


def _np_index_put(out, index, values, rank, unique=False):
    new = out.reshape((-1,) + out.shape[rank:]).copy()
    for k, place in enumerate(index):
        new[place] = values[k] if values.ndim else values
    return new.reshape(out.shape), None, None


_COMBINE = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _np_scatter_reduce(x, src, index, dim, reduce):
    out, where_ = x.copy(), list(np.indices(src.shape))
    where_[dim] = index if index.ndim == src.ndim else np.expand_dims(index, [*range(1, src.ndim - dim)])
    if reduce in _COMBINE:
        _COMBINE[reduce].at(out, tuple(where_), src)
    else:
        for place in np.ndindex(src.shape):
            out[tuple(w[place] for w in where_)] = src[place]
    return out


def _own_gradient(g, x, src, index, out, dim, reduce):
    """For x: of products, that of the others; of extremes, a share where it is one of those that are equal to the result; of what was
    overwritten, none."""
    if reduce == "last":
        nothing = create(full_op, src.shape, 0, dtype=g.dtype, device=g.device)
        return scatter_reduce_op(g, nothing, index, dim=dim, reduce=reduce)
    if reduce == "prod":
        nonzero = where_op(x == 0, 1, x)
        return g * scatter_reduce_op(nonzero, src, index, dim=dim, reduce=reduce) / nonzero
    return cast(x == out, g.dtype) * _share(g, x, src, index, out, dim)         # NaN where that is the result, as in PyTorch


def _source_gradient(g, x, src, index, out, dim, reduce):
    if reduce == "last":
        return gather_op(g, index, dim=dim)
    if reduce != "prod":
        return cast(src == gather_op(out, index, dim=dim), g.dtype) * gather_op(_share(g, x, src, index, out, dim), index, dim=dim)
    zero = src == 0
    alone = zero & (gather_op(scatter_add_op(cast(zero, int64), index, dim=dim, size=x.shape[dim]), index, dim=dim) == 1)
    others = scatter_reduce_op(x, where_op(alone, 1, src), index, dim=dim, reduce=reduce)       # where a single 0 is among the factors
    return where_op(alone, gather_op(g * others, index, dim=dim), gather_op(g * out, index, dim=dim) / where_op(zero, 1, src))


def _share(g, x, src, index, out, dim):
    """What each of those that are equal to the result gets of its gradient."""
    equal = cast(src == gather_op(out, index, dim=dim), g.dtype)
    return g / (cast(x == out, g.dtype) + scatter_add_op(equal, index, dim=dim, size=x.shape[dim]))


scatter_reduce_op = register(
    "scatter_reduce", ("x", "src", "index"), family="index", kinds="fi", takes={"x": "fib", "src": "=x", "index": "int64"},
    numpy=_np_scatter_reduce, vjp=(_own_gradient, _source_gradient, None),
    cases=tuple(case((3, 5), (3, 4), Labels((3, 4), 5), dim=1, reduce=reduce) for reduce in _COMBINE) + (
        case((4, 3), (90, 3), Labels((90, 3), 4), dim=0, reduce="amax"), case((7,), (300,), Labels((300,), 7), dim=0, reduce="amin"),
        # one entry a line: of several for one place, each gets the gradient of it, which is not that of finite differences
        case((2, 4, 3), (2, 1, 3), Labels((2, 1, 3), 4), dim=1, reduce="last"),
        case((9, 2), (1, 2), Labels((1, 2), 9), dim=0, reduce="last")))
scatter_reduce_into_op = register(
    "scatter_reduce_into", ("out", "src", "index"), writes=("out",), takes={"out": "fib", "src": "=out", "index": "int64"},
    family="inplace", kinds="fi", numpy=lambda out, src, index, dim, reduce: (_np_scatter_reduce(out, src, index, dim, reduce), None, None),
    cases=tuple(case((3, 5), (3, 4), Labels((3, 4), 5), dim=1, reduce=reduce) for reduce in (*_COMBINE, "last")) + (
        case((4, 3), (90, 3), Labels((90, 3), 4), dim=0, reduce="amin"), case((2, 4, 3), (2, 6, 3), Labels((6,), 4), dim=1, reduce="amax"),
        case((3, 4), (3, 0), Labels((3, 0), 4), dim=1, reduce="last")))
index_put_op = register(
    "index_put", ("out", "index", "values"), writes=("out",), takes={"out": "fib", "index": "int64", "values": "=out"},
    family="inplace", numpy=_np_index_put, kinds="fib",
    cases=(case((5, 3), Labels((7,), 5), (7, 3), rank=1), case((4, 3, 2), Labels((20,), 12), (20, 2), rank=2),
           case((3, 4), Labels((0,), 3), (0, 4), rank=1), case((6,), Labels((3,), 6), (), rank=1),
           case((90, 4), Labels((1300,), 90), (1300, 4), rank=1), case((30000,), Labels((1500,), 30000), (1500,), rank=1)))
scale_gradient = register(
    "scale_gradient", ("x", "factor"), family="index", takes={"x": "f", "factor": "=x"}, view=lambda x, factor: core.alias(x),
    numpy=lambda x, factor: x, smooth=False, cases=(case((3, 4), (3, 1)),),
    vjp=(lambda g, factor: where_op(factor == 0, 0.0, g * factor), None))       # x itself, whose gradient is multiplied
