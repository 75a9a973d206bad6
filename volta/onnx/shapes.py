"""Translations of views, copies, joins, indices and of what makes tensors."""
from __future__ import annotations

import numpy as np

from volta.dtypes import bool_, int32, int64
from volta.onnx.graph import TO_THE_END, TYPES, Call, Graph, translates
from volta.onnx.sizes import Size, never_below
from volta.ops.records.join import np_sources


# ---------------------------------------------------------------- views
@translates("contiguous", "clone", "tied", "transfer", "uncounted")
def _same(g: Graph, c: Call):
    return c[0]


@translates("reshape")
def _reshape(g: Graph, c: Call):
    return c[0] if c.out.shape == c.shape() else g.reshape(c[0], c.out.shape, c.shape())


@translates("permute")
def _permute(g: Graph, c: Call):
    return c[0] if c.dims == tuple(range(len(c.dims))) else g.node("Transpose", c[0], perm=list(c.dims))


@translates("expand")
def _expand(g: Graph, c: Call):
    return c[0] if c.out.shape == c.shape() else expand(g, c[0], c.shape(), c.out.shape)


def expand(g: Graph, x: str, old: tuple, new: tuple) -> str:
    """x repeated where it has size 1."""
    lead = len(new) - len(old)
    return g.node("Expand", x, g.ints([1 if i >= lead and n == old[i - lead] else n for i, n in enumerate(new)]))


@translates("slice")
def _slice(g: Graph, c: Call):
    cut = []
    for d, (start, size, step, n) in enumerate(zip(c.starts, c.sizes, c.steps, c.shape())):
        if start == 0 and step == 1 and size == n:
            continue
        step = 1 if size == 1 else c.fixed(step, "a step")
        end = start + size * step
        if isinstance(start, Size) and not isinstance(start - n, Size):
            start = start - n                               # counted from the end
        if step < 0:
            end = end if isinstance(end, Size) or end >= 0 else -TO_THE_END
        else:
            end = TO_THE_END if never_below(end, n) else end
        cut.append((start, end, d, step))
    x = c[0]
    if cut:
        x = g.node("Slice", x, *[g.ints(each) for each in zip(*cut)])
    axes = c.axes if "axes" in c.params else None
    if axes is None:
        return x
    gone = [d for d in range(len(c.sizes)) if d not in axes]
    new = [i for i, d in enumerate(axes) if d < 0]
    x = g.node("Squeeze", x, g.ints(gone)) if gone else x
    return g.node("Unsqueeze", x, g.ints(new)) if new else x


@translates("diagonal")
def _diagonal(g: Graph, c: Call):
    rows, columns = c.fixed(c.shape()[-2:], "a matrix of a size")
    places = np.diagonal(np.arange(rows * columns).reshape(rows, columns), c.offset)
    return g.node("Gather", g.reshape(c[0], (*c.shape()[:-2], rows * columns), c.shape()), g.constant(places.astype(np.int64)), axis=-1)


@translates("unfold")
def _unfold(g: Graph, c: Call):
    count, rank = c.fixed(c.out.shape[c.dim], "a number of windows"), len(c.shape())
    places = np.arange(count)[:, None] * c.step + np.arange(c.size)
    x = g.node("Gather", c[0], g.constant(places.astype(np.int64)), axis=c.dim)
    order = [d for d in range(rank + 1) if d != c.dim + 1] + [c.dim + 1]
    return g.node("Transpose", x, perm=order)


@translates("strided")
def _strided(g: Graph, c: Call):
    places = c.places
    if places.size == np.prod(c.shape(), dtype=int) and np.array_equal(places.reshape(-1), np.arange(places.size)):
        return g.reshape(c[0], places.shape)
    return g.node("Gather", g.reshape(c[0], (-1,)), g.constant(places.astype(np.int64)), axis=0)


@translates("overwrite")
def _overwrite(g: Graph, c: Call):
    """A part of the first input replaced by the second."""
    places = g.constant(c.places.reshape(-1).astype(np.int64))
    return g.reshape(g.node("ScatterElements", g.reshape(c[0], (-1,)), places, g.reshape(c[1], (-1,)), axis=0), c.shape())


# ---------------------------------------------------------------- copies
@translates("roll")
def _roll(g: Graph, c: Call):
    axis, at = g.ints([c.dim]), g.ints([c.shape()[c.dim] - c.shift])
    parts = g.node("Slice", c[0], at, g.ints([TO_THE_END]), axis), g.node("Slice", c[0], g.ints([0]), at, axis)
    return g.node("Concat", *parts, axis=c.dim)


@translates("cat")
def _cat(g: Graph, c: Call):
    return g.node("Concat", *[c[i] for i in range(len(c))], axis=c.dim)


@translates("triangle")
def _triangle(g: Graph, c: Call):
    return g.node("Trilu", c[0], g.constant(np.int64(c.diagonal)), upper=int(c.upper))


@translates("place")
def _place(g: Graph, c: Call):
    """Padding; elements that come to lie apart are padded one by one first."""
    x, shape = c[0], c.shape()
    for d, step in enumerate(c.steps):
        if step != 1:
            behind = [step - 1 if i == d + 1 else 0 for i in range(len(shape) + 1)]
            x = _padded(g, g.node("Unsqueeze", x, g.ints([d + 1])), [0] * len(behind), behind, c)
            shape = (*shape[:d], shape[d] * step, *shape[d + 1:])
            x = g.reshape(x, shape, shape)
    behind = [n - start - size for n, start, size in zip(c.out.shape, c.starts, shape)]
    return _padded(g, x, c.starts, behind, c)


def _padded(g, x, before, behind, c):
    """With negative numbers elements are left out."""
    given = g.ints([*before, *behind])
    if c.dtype is bool_:
        return g.cast(g.node("Pad", g.cast(x, int32), given, g.scalar(int(c.value), int32)), bool_)
    return g.node("Pad", x, given, g.scalar(c.value, c.dtype))


@translates("extend")
def _extend(g: Graph, c: Call):
    """Padding by own elements; where some are cut, and round the other end, by the places of those that are taken."""
    old, new = c.shape()[1:], c.out.shape[1:]
    behind = [m - n - b for n, m, b in zip(old, new, c.before)]
    if c.mode != "circular" and c.dtype is not bool_ and not any(isinstance(b, Size) or b < 0 for b in (*behind, *c.before)):
        return g.node("Pad", c[0], g.ints([0, *c.before, 0, *behind]), mode={"reflect": "reflect", "replicate": "edge"}[c.mode])
    x = c[0]
    for d, (n, m, b) in enumerate(zip(old, new, c.before), 1):
        if (n, b) != (m, 0):
            c.fixed((n, m), "images of a size")
            x = g.node("Gather", x, g.constant(np_sources(n, m, b, c.mode).astype(np.int64)), axis=d)
    return x


@translates("fill_into")
def _fill(g: Graph, c: Call):
    return _full(g, c.out, c.inputs[1] if len(c) > 1 else c.value)


# ---------------------------------------------------------------- made of nothing
def _full(g, out, value):
    return g.node("Expand", g.scalar(value, out.dtype), g.ints(out.shape)) if out.shape else g.scalar(value, out.dtype)


@translates("full")
def _filled(g: Graph, c: Call):
    return _full(g, c.out, c.inputs[1])


@translates("empty")
def _empty(g: Graph, c: Call):
    return _full(g, c.out, 0)


@translates("arange")
def _arange(g: Graph, c: Call):
    start, step, count = c.inputs
    x = g.node("Range", *[g.scalar(n, int64) for n in (0, count, 1)])
    if not c.out.dtype.is_floating_point:
        x = g.node("Add", g.node("Mul", x, g.scalar(step, int64)), g.scalar(start, int64))
        return x if c.out.dtype is int64 else g.cast(x, c.out.dtype)
    out = g.node("Add", g.node("Mul", g.cast(x, c.out.dtype), g.scalar(step, c.out.dtype)), g.scalar(start, c.out.dtype))
    end = c.params.get("end")
    if end is None or count == 1:
        return out
    behind = g.cast(g.node("Sub", g.scalar(count - 1, int64), x), c.out.dtype)
    back = g.node("Sub", g.scalar(end, c.out.dtype), g.node("Mul", behind, g.scalar(step, c.out.dtype)))
    return g.node("Where", g.node("Less", x, g.scalar(count // 2, int64)), out, back)


@translates("uniform", "normal")
def _random(g: Graph, c: Call):
    return _numbers(g, c.out, c.op, *c.inputs[1:3])


@translates("draw_into")
def _draw_into(g: Graph, c: Call):
    if c.kind not in ("bernoulli", "exponential"):
        return _numbers(g, c.out, c.kind, c.a, c.b)
    u = _numbers(g, c.out, "uniform", 0, 1)
    if c.kind == "bernoulli":
        return g.node("Cast", g.node("Less", u, g.scalar(c.a, c.out.dtype)), to=TYPES[c.out.dtype])
    return g.node("Mul", g.node("Log", g.node("Sub", g.scalar(1.0, c.out.dtype), u)), g.scalar(c.a, c.out.dtype))


def _numbers(g, out, kind, a, b):
    """Other ones in every run."""
    names, op = (("low", "high"), "RandomUniformLike") if kind == "uniform" else (("mean", "scale"), "RandomNormalLike")
    return g.node(op, _full(g, out, 0), dtype=TYPES[out.dtype], **dict(zip(names, map(float, (a, b)))))


@translates("dropout")
def _dropout(g: Graph, c: Call):
    return g.node("Dropout", c[0], g.scalar(c.p, c.dtype), g.scalar(True, bool_))


# ---------------------------------------------------------------- indices
@translates("gather")
def _gather(g: Graph, c: Call):
    return g.node("GatherElements", c[0], c[1], axis=c.dim)


@translates("index_select")
def _index_select(g: Graph, c: Call):
    return g.node("Gather", c[0], c[1], axis=c.dim)


@translates("one_hot")
def _one_hot(g: Graph, c: Call):
    return g.cast(g.node("Equal", g.node("Unsqueeze", c[0], g.ints([-1])), g.ints(range(c.fixed(c.classes, "a number of classes")))), int64)


def _as_elements(g, index, dim, like):
    """A vector of places along `dim` for every element of a tensor of the shape `like`."""
    column = g.node("Unsqueeze", index, g.ints([d for d in range(len(like)) if d != dim])) if len(like) > 1 else index
    return expand(g, column, tuple(like[dim] if d == dim else 1 for d in range(len(like))), like)


@translates("scatter_add", "index_add", "scatter_unique")
def _scattered(g: Graph, c: Call):
    index = _as_elements(g, c[1], c.dim, c.shape()) if c.op == "index_add" else c[1]
    return g.node("ScatterElements", _full(g, c.out, 0), index, c[0], axis=c.dim, reduction=None if c.op == "scatter_unique" else "add")


@translates("scatter_add_into", "index_add_into")
def _added_into(g: Graph, c: Call):
    index = _as_elements(g, c[2], c.dim, c.shape(1)) if c.op == "index_add_into" else c[2]
    return g.node("ScatterElements", c[0], index, c[1], axis=c.dim, reduction="add")


@translates("index_sum")
def _index_sum(g: Graph, c: Call):
    return g.node("ScatterElements", c[0], _as_elements(g, c[2], c.dim, c.shape(1)), c[1], axis=c.dim, reduction="add")


@translates("scatter_reduce", "scatter_sum", "scatter_reduce_into")
def _scatter_reduce(g: Graph, c: Call):
    how = "add" if c.op == "scatter_sum" else {"prod": "mul", "amax": "max", "amin": "min", "last": None}[c.reduce]
    return g.node("ScatterElements", c[0], c[2], c[1], axis=c.dim, reduction=how)


@translates("index_put")
def _index_put(g: Graph, c: Call):
    """Rows replaced: the places count those of the first `rank` dimensions."""
    shape, rest = c.shape(), c.shape()[c.rank:]
    rows = g.reshape(c[0], (-1, *rest) if c.rank != 1 else shape, shape)
    values = c[2] if len(c.shape(2)) else expand(g, c[2], (), (*c.shape(1), *rest))
    out = g.node("ScatterND", rows, g.node("Unsqueeze", c[1], g.ints([1])), values)
    return g.reshape(out, shape) if c.rank != 1 else out


@translates("searchsorted")
def _searchsorted(g: Graph, c: Call):
    """How many elements of the one sorted vector are below (or not above) each value."""
    if len(c.shape()) != 1:
        raise c.refuse("only one sorted vector for all values is exported")
    op = "GreaterOrEqual" if c.params.get("right") else "Greater"
    hit = g.cast(g.node(op, g.node("Unsqueeze", c[1], g.ints([-1])), c[0]), int64)
    return g.node("ReduceSum", hit, g.ints([-1]), keepdims=0)
