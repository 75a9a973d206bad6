"""Records of views (reshape, permute, expand, slices, diagonals, windows) and of the copies that belong to them: `contiguous`, `clone` and
`place`, the inverse of slicing. A view shares its storage and costs no kernel; its derivative is another view or `place`.
"""
from __future__ import annotations

import numpy as np

from volta._kernels import core
from volta._kernels.core import direct, reshaping
from volta._kernels.core.call import run_kernel
from volta._kernels.core.order import dense_strides, outermost_first
from volta._kernels.core.reshaping import diagonal_view, expand_kernel, permute_view, reshape_kernel, slice_view, unfold_view
from volta.ops.table import case, register


def _np_slice(x, starts, sizes, steps, axes=None):
    out = x[tuple(slice(a, None if a + n * s < 0 else a + n * s, s) for a, n, s in zip(starts, sizes, steps))]
    return out if axes is None else out.reshape([1 if i < 0 else sizes[i] for i in axes])


# ---------------------------------------------------------------- shapes
reshape_op = register(
    "reshape", ("x",), family="view", takes="fib", kinds="fib", view=reshape_kernel,
    vjp=(lambda g, x_shape: reshape_op(g, shape=x_shape),),
    numpy=lambda x, shape: x.reshape(shape), cases=(case((2, 6), shape=(3, 4)), case((), shape=(1, 1)), case((0, 3), shape=(3, 0))))
permute_op = register(
    "permute", ("x",), family="view", takes="fib", kinds="fib", view=permute_view,
    vjp=(lambda g, dims: permute_op(g, dims=tuple(map(dims.index, range(len(dims))))),),
    numpy=lambda x, dims: x.transpose(dims), cases=(case((2, 3, 4), dims=(2, 0, 1)), case((3, 0), dims=(1, 0))))
expand_op = register(
    "expand", ("x",), family="view", takes="fib", kinds="fib", view=expand_kernel, vjp=(lambda g: g,),
    numpy=lambda x, shape: np.broadcast_to(x, shape), cases=(case((3, 1), shape=(2, 3, 4)), case((1,), shape=(0,))))


# ---------------------------------------------------------------- parts
slice_op = register(
    "slice", ("x",), family="view", takes="fib", kinds="fib", view=slice_view,
    vjp=(lambda g, x_shape, starts, sizes, steps, axes: _unslice(g, x_shape, starts, sizes, steps, axes),), numpy=_np_slice,
    cases=(case((5, 6), starts=(1, 4), sizes=(2, 3), steps=(2, -2)), case((4,), starts=(0,), sizes=(0,), steps=(1,)),
           case((3, 4, 5), starts=(1, 0, 2), sizes=(1, 4, 2), steps=(1, 1, -1), axes=(-1, 1, 2))))


def _unslice(g, shape, starts, sizes, steps, axes):
    """The derivative of slicing: g put where it was taken from. A negative step is undone by flipping first."""
    if axes is not None:
        g = reshape_op(g, shape=sizes)
    if sizes == shape and all(s > 0 for s in steps):
        return g
    if sizes == shape:                          # flipped whole
        return contiguous_op(slice_op(g, starts=starts, sizes=sizes, steps=steps))
    if any(s < 0 for s in steps):
        g = contiguous_op(slice_op(g, starts=tuple(n - 1 if s < 0 else 0 for n, s in zip(g.shape, steps)), sizes=g.shape,
                                   steps=tuple(-1 if s < 0 else 1 for s in steps)))
        starts = tuple(a + (n - 1) * s if s < 0 and n else a for a, n, s in zip(starts, g.shape, steps))
        steps = tuple(-s if s < 0 else s for s in steps)
    return place(g, shape=shape, starts=starts, steps=steps, value=0.0)


def part(x, d, start, length):
    """`length` elements along dimension d from `start` on, as a view."""
    shape = x.shape
    return slice_op(x, starts=(0,) * d + (start,) + (0,) * (len(shape) - d - 1), sizes=shape[:d] + (length,) + shape[d + 1:],
                    steps=(1,) * len(shape))


def _np_place(x, shape, starts, steps, value):
    out = np.full(shape, value, x.dtype)
    out[tuple(slice(a, a + (n - 1) * s + 1 if n else a, s) for a, n, s in zip(starts, x.shape, steps))] = x
    return out


contiguous_op = register("contiguous", ("x",), family="movement", takes="fib", vjp=(lambda g: g,), numpy=lambda x: x.copy(), kinds="fib",
                       cases=(case((3, 4)), case(()), case((0, 2))))
reshaping.configure(lambda x: run_kernel(contiguous_op, x.device, (x,)))
clone_op = register("clone", ("x",), family="movement", takes="fib", vjp=(lambda g: g,), numpy=lambda x: x.copy(), kinds="fib",
                    cases=(case((3, 4)), case(()), case((0, 2))))
clone_op.pointwise = clone_op.copies = True # it lies as x does


def flat(x):
    """The elements in their order, as one vector."""
    return x if len(x._shape) == 1 else reshape_op(x, shape=(x._size,))


def row_major(x):
    """x, or a row-major copy of it: for elementwise functions whose results do not lie as the inputs do."""
    return x if x._contiguous else contiguous_op(x)


def as_it_lies(function, x):
    """function(x), which has the shape of x, with the dimensions of x as they lie in memory: the result lies so, too."""
    strides = None if x._contiguous or core.stands_in(x) else dense_strides(x)
    if strides is None:
        return function(x)
    dims = outermost_first(strides)
    return permute_op(function(permute_op(x, dims=dims)), dims=tuple(map(dims.index, range(x.ndim))))


def in_order(x, dims):
    """A copy of x with its dimensions in this order in memory, outermost first."""
    return permute_op(contiguous_op(permute_op(x, dims=dims)), dims=tuple(map(dims.index, range(x.ndim))))


def lies_as(x, out):
    """What was made of x, row-major and of its shape, as x lies."""
    strides = None if x._contiguous or core.stands_in(x) or core.stands_in(out) else dense_strides(x)
    return out if strides is None else in_order(out, outermost_first(strides))


place = register(
    "place", ("x",), family="movement", numpy=_np_place, takes="fib", kinds="fib",
    vjp=(lambda g, x_shape, starts, steps: slice_op(g, starts=starts, sizes=x_shape, steps=steps),),
    cases=(case((2, 3), shape=(4, 7), starts=(1, 0), steps=(2, 3), value=0.5), case((0,), shape=(3,), starts=(0,), steps=(1,), value=1.0)))


uncounted_op = register(                        # of which no gradient comes back, not even zeros
    "uncounted", ("x",), family="movement", takes="f", view=lambda x: core.alias(x), numpy=lambda x: x,
    vjp=(lambda g: None,), cases=(case((3, 4)),), smooth=False)
tied_op = register("tied", ("x",), family="view", takes="fib", tied=True, kinds="fib", numpy=lambda x: x, vjp=(lambda g: g,),
                   view=lambda x: core.view(x, x.shape, x._strides, x.offset), cases=(case((3, 4)), case(()), case((0, 2))))


def tied(x):
    """x as it is; the gradient of what is made of it counts as a function of it even where it is constant, as in PyTorch."""
    return tied_op(x) if x.requires_grad else x


# ---------------------------------------------------------------- diagonals and windows
def on_diagonal(g, shape, offset):
    """Zeros of shape (..., *shape) with g on the diagonal: the derivative of `diagonal`."""
    rows, columns = shape
    found = direct.on_diagonal(g, (rows, columns), offset)
    if found is not None:
        return found
    start = max(offset, 0) + max(-offset, 0) * columns
    lead = (0,) * (g.ndim - 1)
    flat = place(g, shape=g.shape[:-1] + (rows * columns,), starts=lead + (start if g.shape[-1] else 0,),
                 steps=(1,) * len(lead) + (columns + 1,), value=0.0)
    return reshape_op(flat, shape=g.shape[:-1] + (rows, columns))


diagonal_op = register(
    "diagonal", ("x",), family="view", takes="fib", kinds="fib", view=diagonal_view,
    numpy=lambda x, offset: np.diagonal(x, offset, -2, -1),
    vjp=(lambda g, x_shape, offset: on_diagonal(g, x_shape[-2:], offset),),
    cases=(case((3, 5), offset=0), case((2, 4, 3), offset=1), case((4, 3), offset=-2), case((2, 3), offset=5), case((0, 3), offset=0)))


def _np_unfold(x, dim, size, step):
    windows = np.lib.stride_tricks.sliding_window_view(x, size, dim)
    return windows[(slice(None),) * dim + (slice(None, None, step),)]


def fold_windows(g, shape, dim, step):
    """Windows, whose elements lie along the last dimension, added where they were: the derivative of `unfold`."""
    out = None
    inner = g.shape[:-1]
    if not g.shape[-1]:
        return place(reshape_op(g, shape=shape[:dim] + (0,) + shape[dim + 1:]), shape=shape, starts=(0,) * len(shape),
                     steps=(1,) * len(shape), value=0.0)
    if step == g.shape[-1] and g.shape[dim] * step == shape[dim]:        # windows that lie one behind another
        order = (*range(dim + 1), len(inner), *range(dim + 1, len(inner)))
        return reshape_op(permute_op(g, dims=order), shape=shape)
    for k in range(g.shape[-1]):
        starts, steps = (tuple(v if i == dim else default for i in range(len(shape))) for v, default in ((k, 0), (step, 1)))
        window = slice_op(g, starts=(0,) * len(inner) + (k,), sizes=inner + (1,), steps=(1,) * (len(inner) + 1),
                          axes=tuple(range(len(inner))))
        placed = place(window, shape=shape, starts=starts, steps=steps, value=0.0)
        out = placed if out is None else out + placed
    return out


unfold_op = register(
    "unfold", ("x",), family="view", takes="fib", kinds="fib", view=unfold_view, numpy=_np_unfold,
    vjp=(lambda g, x_shape, dim, step: fold_windows(g, x_shape, dim, step),),
    cases=(case((5,), dim=0, size=2, step=1), case((3, 7), dim=1, size=3, step=2), case((4, 3), dim=0, size=1, step=3)))
