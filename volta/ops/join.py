"""Joining: tensors to one, rolled, and padded by a constant (`place`) or by what comes from the input itself."""
from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import graph, reshaped
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import all_bare, as_columns, bare
from volta._kernels.core.order import alike, alike_but, by_pixels
from volta.dtypes import as_integer, check_held, promote_types, uint8
from volta.errors import ArgumentError, IndexRangeError, RankError, ShapeError
from volta.ops.copy import pixels_as
from volta.ops.parts import slice_view
from volta.ops.records.copy import cast, cat_op
from volta.ops.records.join import extend_op, roll_op, triangle_op
from volta.ops.records.view import clone_op, contiguous_op, place, reshape_op, tied
from volta.ops.table import Many, case, composed
from volta.ops.view import movedim
from volta.shapes import as_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta._kernels.core import DType
    from volta.tensor import Tensor


def result_dtype(tensors: Sequence[Tensor]) -> DType:
    """The dtype that all of them promote to."""
    dtype = tensors[0].dtype
    for x in tensors:
        dtype = promote_types(dtype, x.dtype)
    return dtype


@composed(out="cast", apart=0, samples=(case(Many(((2, 3), (2, 1))), dim=1), case(Many(((2, 3), (0, 3), (4, 3))))), kinds="fib",
          method=False, aliases=("concat", "concatenate"), numpy=lambda tensors, dim=0: np.concatenate(tensors, dim))
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along `dim`; their dtypes are promoted. A tensor of shape (0,) fits any others, and adds nothing.

    A 1-D tensor without elements is left out, whatever the rank of the others (its dtype counts).

    Raises: ShapeError where other sizes differ; ArgumentError for no tensors.

    >>> volta.cat((volta.arange(2), volta.ones(1))).tolist()
    [0.0, 1.0, 1.0]
    """
    tensors = tuple(tensors)
    if not tensors:
        raise ArgumentError("cat: needs at least one tensor")
    if alike(tensors):
        return _joined(tensors, as_dim("cat", dim, len(tensors[0]._shape)))
    if len(tensors[0]._shape) > 1 and alike_but(tensors, d := as_dim("cat", dim, len(tensors[0]._shape))):
        return _joined(tensors, d)
    dtype = result_dtype(tensors)
    first = next((x for x in tensors if x._shape != (0,)), tensors[0])
    d = as_dim("cat", dim, first.ndim)
    if first._shape != (0,):         # a vector of nothing wants its gradient, too
        nothing = first._shape[:d] + (0,) + first._shape[d + 1:]
        tensors = tuple(reshape_op(x, shape=nothing) if x._shape == (0,) else x for x in tensors if x._shape != (0,) or x.requires_grad)
    for i, x in enumerate(tensors):
        if x.ndim != first.ndim or x.ndim == 0 or x._shape[:d] + x._shape[d + 1:] != first._shape[:d] + first._shape[d + 1:]:
            raise ShapeError(f"cat: tensor {i} has shape {x.shape}, which differs from {first.shape} outside dimension {d}")
    return _joined([cast(x, dtype) for x in tensors], d)


def _joined(tensors, d):
    """Joined along d, and pixel by pixel where all of them lie so."""
    if len(tensors[0]._shape) < 4:
        return graph.call(cat_op, tuple(tensors), {"dim": d})
    for x in tensors:
        if not by_pixels(x):
            return cat_op(*tensors, dim=d)
    at = tensors[0].ndim - 1 if d == 1 else d - 1 if d else 0
    return movedim(cat_op(*[movedim(x, 1, -1) for x in tensors], dim=at), -1, 1)


@composed(out="cast", apart=0, samples=(case(Many(((2, 3), (2, 3))), dim=1), case(Many(((), ())))), kinds="fib", method=False,
          numpy=lambda tensors, dim=0: np.stack(tensors, dim))
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension.

    Raises: ArgumentError without tensors; ShapeError for different shapes.

    >>> volta.stack((volta.arange(2), volta.ones(2))).tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """
    tensors = tuple(tensors)
    if not tensors:
        raise ArgumentError("stack: needs at least one tensor")
    shape = tensors[0]._shape
    d = as_dim("stack", dim, len(shape) + 1)
    if d < len(shape) and alike(tensors):          # joined along d, the parts seen as a dimension of their own
        if len(shape) < 4 and all_bare(tensors):
            made = run_kernel(cat_op, tensors[0].device, tensors, {"dim": d})
            return reshaped(made, shape[:d] + (len(tensors),) + shape[d:])
        return graph.call(reshape_op, (_joined(tensors, d),), {"shape": shape[:d] + (len(tensors),) + shape[d:]})
    if d == len(shape) and shape and alike(tensors):
        if all_bare(tensors):
            return run_kernel(cat_op, tensors[0].device, as_columns(tensors), {"dim": d})
        return cat_op(*[reshape_op(x, shape=(*shape, 1)) for x in tensors], dim=d)
    if not shape and all_bare(tensors) and not any(x._shape or x.dtype is not tensors[0].dtype for x in tensors):
        return run_kernel(cat_op, tensors[0].device, as_columns(tensors), {"dim": 0})
    if any(x._shape != shape for x in tensors):
        raise ShapeError(f"stack: shapes differ: {', '.join(str(x.shape) for x in tensors)}")
    return cat([reshape_op(x, shape=shape[:d] + (1,) + shape[d:]) for x in tensors], d)


@composed(out="cast", apart=0, samples=(case(Many(((2, 3), (2, 1)))), case(Many(((), (2,))))), kinds="fib", method=False, numpy=np.hstack)
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """`cat` along dimension 1, of vectors along dimension 0.

    >>> volta.hstack((volta.arange(2), volta.arange(2))).tolist()
    [0, 1, 0, 1]
    """
    tensors = tuple(tensors)
    if tensors and tensors[0]._shape and alike(tensors):
        return _joined(tensors, 0 if len(tensors[0]._shape) == 1 else 1)
    tensors = [reshape_op(t, shape=(1,)) if t.ndim == 0 else t for t in tensors]
    return cat(tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


@composed(out="cast", apart=0, samples=(case(Many(((2, 3), (3,)))), case(Many(((), ())))), kinds="fib", method=False,
          aliases=("row_stack",), numpy=np.vstack)
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """`cat` along dimension 0, vectors being rows.

    >>> volta.vstack((volta.arange(2), volta.arange(2))).tolist()
    [[0, 1], [0, 1]]
    """
    tensors = tuple(tensors)
    if tensors and len(tensors[0]._shape) > 1 and alike(tensors):
        return _joined(tensors, 0)
    return cat([reshape_op(t, shape=(1, t._size)) if t.ndim < 2 else t for t in tensors], 0)


@composed(out="cast", apart=0, samples=(case(Many(((3,), (3, 2)))), case(Many(((), ())))), kinds="fib", method=False, numpy=np.column_stack)
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """`cat` along dimension 1, vectors being columns.

    >>> volta.column_stack((volta.arange(2), volta.arange(2))).tolist()
    [[0, 0], [1, 1]]
    """
    tensors = tuple(tensors)
    if tensors and len(tensors[0]._shape) > 1 and alike(tensors):
        return _joined(tensors, 1)
    return cat([reshape_op(t, shape=(t._size, 1)) if t.ndim < 2 else t for t in tensors], 1)


@composed(samples=(case((2, 3), shifts=2), case((2, 3), shifts=(1, -1), dims=(0, 1)), case((), shifts=1)), kinds="fib",
          numpy=lambda x, shifts, dims=None: np.roll(x, shifts, dims))
def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """The elements moved along `dims`, those that leave at the end coming in at the start; without `dims`, as one dimension.

    Raises: ArgumentError unless there are as many shifts as `dims`, or one without; IndexRangeError for `dims` of a 0-d tensor.

    >>> volta.roll(volta.arange(4), 1).tolist()
    [3, 0, 1, 2]
    """
    shifts = (shifts,) if hasattr(shifts, "__index__") else tuple(shifts)
    if dims is None or not hasattr(dims, "__index__") and not len(dims):
        if len(shifts) != 1:
            raise ArgumentError(f"roll: without dims there can be one shift, got {shifts}")
        n = input._size
        if not n or not shifts[0] % n:
            return contiguous_op(input)
        return reshape_op(roll_op(reshape_op(input, shape=(n,)), shift=shifts[0] % n, dim=0), shape=input._shape)
    dims = (dims,) if hasattr(dims, "__index__") else tuple(dims)
    if len(shifts) != len(dims):
        raise ArgumentError(f"roll: {len(shifts)} shifts for {len(dims)} dims")
    if not input._size:
        return clone_op(input)                              # whatever the dimensions, as in PyTorch
    if not input.ndim:
        raise IndexRangeError(f"roll: a 0-d tensor has no dimension {dims[0]}; leave dims out")
    out = input
    for shift, dim in zip(shifts, dims):
        d = as_dim("roll", dim, input.ndim)
        n = input._shape[d]
        if n and shift % n:
            out = roll_op(out, shift=shift % n, dim=d)
    return contiguous_op(input) if out is input else pixels_as(input, out)


# ---------------------------------------------------------------- padding
def _np_pad(x, pad, mode="constant", value=0):
    sizes = [(0, 0)] * (x.ndim - len(pad) // 2) + [pad[i:i + 2] for i in range(len(pad) - 2, -1, -2)]
    options = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, sizes, {"replicate": "edge", "circular": "wrap"}.get(mode, mode), **options)


@composed(samples=(case((2, 3), pad=(1, 2), value=3), case((2, 3), pad=(1, 0, 0, 2)), case((2, 3), pad=(1, 2), mode="reflect"),
                   case((1, 2, 3), pad=(1, 2, 1, 0), mode="replicate"), case((2, 3), pad=(1, 2), mode="circular")), kinds="fib",
          numpy=_np_pad)
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Padding; `pad` = (left, right) of the last dimension, then of the one before it, and so on. Negative cuts. The mode says with
    what: "constant" (`value`), "reflect" (the neighbours mirrored at the edge), "replicate" (the edge), "circular" (the other end);
    but for "constant" it is for one dimension of 2 or 3, two of 3 or 4 and three of 4 or 5.

    Raises: ArgumentError for another mode, an odd number of sizes, or a value with a mode that has none; ShapeError for more than
    the input can give, RankError for other dimensions than the mode takes.

    >>> volta.pad(volta.arange(2), (1, 2)).tolist()
    [0, 0, 1, 0, 0]
    """
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise ArgumentError(f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}")
    if mode != "constant" and value is not None:
        raise ArgumentError(f"pad: mode {mode!r} takes no value, got {value}")
    if mode != "constant":
        return _extended(input, tuple([int(p) for p in pad]), mode)
    return _framed(input, tuple([int(p) for p in pad]), value)


def _sides(rank, pad):
    """(more before, more after) of each dimension."""
    if len(pad) % 2 or len(pad) > 2 * rank:
        raise ArgumentError(f"pad: needs two sizes for each of up to {rank} dimensions, got {tuple(pad)}")
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = int(pad[2 * i]), int(pad[2 * i + 1])
    return before, after


@functools.lru_cache(maxsize=256)
def _frame(shape, pad):
    """Of an input of this shape (the slices that negative sizes leave, None for all of it; what `place` is told, None for nothing)."""
    before, after = _sides(len(shape), pad)
    if any(n + min(a, 0) + min(b, 0) < 0 for n, a, b in zip(shape, before, after)):
        raise ShapeError(f"pad: {pad} cuts more than shape {shape} has")
    left = tuple([slice(max(-a, 0), n + min(b, 0)) for n, a, b in zip(shape, before, after)]) if min(pad, default=0) < 0 else None
    if max(pad, default=0) <= 0:
        return left, None
    return left, {"shape": tuple([n + a + b for n, a, b in zip(shape, before, after)]), "starts": tuple([max(a, 0) for a in before]),
                  "steps": (1,) * len(shape)}


def _framed(x, pad, value):
    """x with so many of one value along each dimension; images that lie pixel by pixel stay so."""
    left, where = _frame(x._shape, pad)
    if by_pixels(x):
        pairs = pad + (0,) * (2 * x.ndim - len(pad))            # the last dimension first: those of the channels come to the front
        return movedim(_framed(movedim(x, 1, -1), pairs[-4:-2] + pairs[:-4] + pairs[-2:], value), -1, 1)
    if left is not None:
        x = slice_view(x, left)
    if where is None:
        return clone_op(x)
    if value is not None and not -65504.0 <= value <= 65504.0:
        check_held("pad", value, x.dtype)
    if x.dtype.code == 0:
        return cast(place(cast(x, uint8), value=bool(value), **where), x.dtype)
    return place(x, value=float(value or 0.0) if x.dtype.is_floating_point else as_integer("pad", value or 0, x.dtype), **where)


def _extended(x, pad, mode):
    """x with more of its own elements along each dimension; images that lie pixel by pixel stay so."""
    cut, steps = _extension(x._shape, pad, mode)
    if steps is None:
        return _framed(x, pad, None)
    if mode != "circular" and len(pad) == 4 and x.ndim == 4 and by_pixels(x) and x._shape[1] >= 16:         # pixels as they are
        return movedim(_extended(movedim(x, 1, -1), (0, 0, *pad), mode), -1, 1)
    if cut:
        x = slice_view(x, cut)
    out = x if steps else contiguous_op(x)
    if steps and x._contiguous and bare(x):
        for planes, window, shape in steps:
            given = out if planes is None else reshaped(out, planes)
            out = run_kernel(extend_op, x.device, (given,), {"mode": mode, **window})
            out = out if planes is None else reshaped(out, shape)
        return out if mode == "circular" else pixels_as(x, out)
    if mode != "circular":              # which in PyTorch is made of copies alone
        out = tied(out)
    for planes, window, shape in steps:
        out = extend_op(out if planes is None else reshape_op(out, shape=planes), mode=mode, **window)
        out = out if planes is None else reshape_op(out, shape=shape)
    return out if mode == "circular" else pixels_as(x, out)


@functools.lru_cache(maxsize=256)
def _extension(shape, pad, mode):
    """(what is cut off first, steps: the shape to extend if it is another, the record's parameters, the shape that the result has; None
    where a dimension is cut off whole, which PyTorch allows beside another that is not). Kept, since small images take no longer than this.

    Raises: ShapeError for more than there is to be had.
    """
    rank, cut = len(shape), None
    before, after = _sides(rank, pad)
    if not 1 <= rank - len(pad) // 2 <= 2 or not 2 <= len(pad) <= 6:
        raise RankError(f"pad: mode {mode!r} takes 2 sizes for 2 or 3 dimensions, 4 for 3 or 4, 6 for 4 or 5, got {len(pad)} for shape "
                        f"{shape}")
    if mode in ("reflect", "replicate") and 0 in shape[max(rank - len(pad) // 2 - 1, 0):]:
        raise ShapeError(f"pad: mode {mode!r} needs an input of which only the batch may have a size of 0, got {shape}")
    outs = [n + low + high for n, low, high in zip(shape, before, after)]
    if mode == "circular" and min(outs) < 0:
        raise ShapeError(f"pad: {pad} cuts more than shape {shape} has")
    nothing = mode != "circular" and 0 in outs[-len(pad) // 2:] and max(outs[-len(pad) // 2:]) > 0
    if mode == "circular" and min(before + after, default=0) < 0:       # what is cut does not come back at the other end
        cut = tuple(slice(max(-low, 0), n + min(high, 0)) for n, low, high in zip(shape, before, after))
        before, after = [max(low, 0) for low in before], [max(high, 0) for high in after]
        shape = tuple(len(range(*s.indices(n))) for n, s in zip(shape, cut))
    for d, (n, low, high) in enumerate(zip(shape, before, after)):
        most = {"reflect": n - 1, "replicate": max(low, high, 0) if n else 0, "circular": n}[mode]
        cut_off = mode != "replicate" and max(-low, -high) > n
        if (low or high) and (max(low, high) > most or cut_off or n + low + high < (mode != "circular" and not nothing)):
            raise ShapeError(f"pad: mode {mode!r} cannot extend dimension {d} of size {n} by ({low}, {high})")
    if nothing:
        return None, None
    steps = []
    while any(before + after):          # up to three dimensions at a time, from the last on; what lies inside of them stays whole
        last = max(d for d in range(rank) if before[d] or after[d])
        inner = shape[last + 1:]
        whole = rank <= 4 and not (before[0] or after[0])                   # planes as they are
        first, inner = (1, ()) if whole else (max(last - (1 if math.prod(inner) > 1 else 2), 0), inner)
        axes = shape[first:] if whole else shape[first:last + 1]
        outs = tuple(n + low + high for n, low, high in zip(axes, before[first:], after[first:]))
        behind = () if whole or len(axes) == 3 else (math.prod(inner),)
        missing = 0 if whole else 3 - len(axes + behind)
        planes = (math.prod(shape[:first]), *(1,) * missing, *axes, *behind)
        window = {"outs": (1,) * missing + outs + behind,
                  "before": (0,) * missing + tuple(before[first:first + len(axes)]) + (0,) * len(behind)}
        done = shape[:first] + outs + inner
        steps.append((None if planes == shape else planes, window, done))
        shape = done
        before[first:], after[first:] = [0] * (rank - first), [0] * (rank - first)
    return cut, tuple(steps)


@composed(samples=(case((3, 4), diagonal=1), case((2, 3, 3))), kinds="fib", inplace=True, numpy=lambda x, diagonal=0: np.tril(x, diagonal))
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two dimensions; zeros above `diagonal`.

    >>> volta.tril(volta.ones(2, 2)).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle("tril", input, diagonal, False)


@composed(samples=(case((3, 4), diagonal=-1), case((2, 3, 3))), kinds="fib", inplace=True, numpy=lambda x, diagonal=0: np.triu(x, diagonal))
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two dimensions; zeros below `diagonal`.

    >>> volta.triu(volta.ones(2, 2)).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle("triu", input, diagonal, True)


def _triangle(op, input, diagonal, upper):
    shape = input._shape
    if len(shape) < 2:
        raise ShapeError(f"{op}: needs at least 2 dimensions, got shape {input.shape}")
    if diagonal:
        diagonal = min(max(diagonal, -shape[-2]), shape[-1])
    return triangle_op(input, diagonal=diagonal, upper=upper)         # beyond the corners nothing changes
