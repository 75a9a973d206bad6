"""Shapes, axes, strides and indices as tuples; knows no storage and no op."""
from __future__ import annotations

import operator

from volta._kernels import core
from volta._kernels.core.shapes import (
    as_dim,
    as_dims,
    as_order,
    exchanged,
    expanded,
    infer,
    listed,
    listed_sizes,
    moved,
    moved_one,
    squeezed,
    view_strides,
)
from volta._kernels.core.size import Size
from volta.errors import ArgumentError, CallError, IndexRangeError, ShapeError

__all__ = ["Size", "as_dim", "as_dims", "as_order", "as_shape", "broadcast_shapes", "broadcasts_to", "exchanged", "expanded", "infer",
           "listed", "listed_sizes", "moved", "moved_one", "own_dim", "per_dim", "reduced", "squeezed", "view_strides"]


def as_shape(*sizes: object) -> tuple[int, ...]:
    """A shape from `(2, 3)` or `2, 3`.

    Raises: ShapeError for a negative size, or more dimensions or elements than can be counted; CallError for one that is no integer.
    """
    try:
        if len(sizes) == 1 and not hasattr(sizes[0], "__index__"):
            sizes = tuple(sizes[0])
        shape = tuple(map(operator.index, sizes))
    except TypeError:
        raise CallError(f"shape: sizes must be integers, got {sizes!r}") from None
    if shape and min(shape) < 0:
        raise ShapeError(f"shape: sizes must not be negative, got {shape}")
    core.checked_size(shape)
    return shape


def per_dim(op: str, name: str, value: object, rank: int, least: int = 1, one: bool = True) -> tuple[int, ...]:
    """An int for each of `rank` dimensions, from one int or as many; with `one` also from a sequence of one.

    Raises: ArgumentError for another number of them or a value below `least`; CallError for what is no int.
    """
    if type(value) is int and least <= value < 1 << 31:         # most are
        return (value,) * rank
    if type(value) is tuple and len(value) == rank:             # modules keep these
        for v in value:
            if type(v) is not int or not least <= v < 1 << 31:
                break
        else:
            return value
    values = (value,) if hasattr(value, "__index__") else tuple(value) if isinstance(value, (tuple, list)) else ()
    values = values * rank if len(values) == 1 and (one or hasattr(value, "__index__")) else values
    if len(values) != rank or not all(hasattr(v, "__index__") and least <= v < 1 << 31 for v in values):
        several = {1: "", 2: " or a pair of ints"}.get(rank, f" or {rank} ints")
        given = value if isinstance(value, (tuple, list)) else (value,)
        error = ArgumentError if all(hasattr(v, "__index__") for v in given) else CallError
        raise error(f"{op}: {name} must be an int{several} >= {least}, got {value!r}")
    return tuple(map(int, values))


def reduced(shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> tuple[int, ...]:
    """Shape after reducing `dims`."""
    if keepdim:
        return tuple([1 if i in dims else s for i, s in enumerate(shape)])
    return tuple([s for i, s in enumerate(shape) if i not in dims])


def own_dim(op: str, dim: int, rank: int) -> int:
    """`as_dim`, but for a tensor without dimensions, which has none of its own. Raises: IndexRangeError."""
    if not rank:
        raise IndexRangeError(f"{op}: dim {dim} was given, but a 0-d tensor has no dimensions")
    return as_dim(op, dim, rank)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all of `shapes` broadcast to.

    Raises: ShapeError where sizes differ and neither is 1.
    """
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if out[i] not in (1, size):
                    raise ShapeError(f"broadcast_shapes: {', '.join(map(str, shapes))} do not broadcast at dimension {i - rank}")
                out[i] = size
    return tuple(out)


def broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a tensor of `shape` can be repeated to `target`."""
    lead = len(target) - len(shape)
    if lead < 0:
        return False
    for a, b in zip(shape, target[lead:]):
        if a != b and a != 1:
            return False
    return True
