"""`volta.func.rearrange`: dimensions moved, split and joined as a pattern says, in the notation of einops."""
from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence

from volta._kernels.core import TensorBase
from volta.errors import ArgumentError, ShapeError
from volta.ops.join import stack
from volta.ops.view import permute, reshape
from volta.tensor import Tensor

__all__ = ["rearrange"]

_TOKEN = re.compile(r"\s*(?:(\.\.\.)|([A-Za-z](?:\w*[A-Za-z0-9])?(?!\w))|(\d+)|([()])|(\S))")
_REST = "..."


def _groups(pattern: str, side: str) -> list[list[str] | str]:
    """The dimensions that one side names, each a list of the axes that it consists of, of which those of size 1 are nameless; `_REST`
    outside of parentheses stands for itself."""
    groups: list[list[str] | str] = []
    inside = False
    seen: set[str] = set()
    for dots, name, number, bracket, other in _TOKEN.findall(side.rstrip()):
        if other or number not in ("", "1"):
            raise ArgumentError(f"rearrange: {other or number!r} in {pattern!r} is no axis: a name, '1', '...' or a group in parentheses")
        if bracket:
            if inside == (bracket == "("):
                raise ArgumentError(f"rearrange: the parentheses of {pattern!r} must be closed, and hold none")
            inside = not inside
            if inside:
                groups.append([])
            continue
        if (dots or name) in seen:
            raise ArgumentError(f"rearrange: {dots or name!r} is named twice on one side of {pattern!r}")
        axes = [] if number else [dots or name]
        seen.update(axes)
        if inside:
            groups[-1] += axes
        else:
            groups.append(_REST if dots else axes)
    if inside:
        raise ArgumentError(f"rearrange: the parentheses of {pattern!r} must be closed, and hold none")
    return groups


@functools.lru_cache(256)
def _parsed(pattern: str, given: tuple[str, ...]) -> tuple[list[list[str] | str], list[list[str] | str]]:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ArgumentError(f"rearrange: {pattern!r} must have two sides, with one '->' between them")
    left, right = (_groups(pattern, side) for side in sides)
    if any(axes != _REST and _REST in axes for axes in left):
        raise ArgumentError(f"rearrange: '...' stands in no parentheses on the left side of {pattern!r}")
    named, wanted = ({axis for axes in groups for axis in ([axes] if axes == _REST else axes)} for groups in (left, right))
    odd = named ^ wanted
    if odd:
        raise ArgumentError(f"rearrange: {', '.join(sorted(odd))} must be on both sides of {pattern!r}")
    unknown = set(given) - named
    if unknown:
        raise ArgumentError(f"rearrange: sizes are given of {', '.join(sorted(unknown))}, which {pattern!r} does not name")
    return left, right


def _spelled(groups: list[list[str] | str], rest: list[str]) -> list[list[str]]:
    """`groups` with the names of the dimensions that the dots stand for."""
    spelled: list[list[str]] = []
    for axes in groups:
        if axes == _REST:
            spelled += [[name] for name in rest]
        else:
            spelled.append([name for axis in axes for name in (rest if axis == _REST else (axis,))])
    return spelled


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """`tensor` with its dimensions moved, split and joined as `pattern` says: names of the dimensions before and after "->". A group in
    parentheses is one dimension that consists of several, "1" or "()" one of size 1, "..." all that are not named. Several tensors are
    stacked along a new first dimension. A view where PyTorch's `reshape` gives one.

    `axes_lengths`: sizes of axes; of each group, one may be left out.

    Raises: ArgumentError for a pattern that says nothing clear; ShapeError for sizes that do not fit.

    >>> volta.func.rearrange(volta.zeros(2, 3, 8), "b c (h w) -> b h w c", h=2).shape
    volta.Size([2, 2, 4, 3])
    """
    x = tensor if isinstance(tensor, TensorBase) else stack(tuple(tensor))
    left, right = _parsed(pattern, tuple(axes_lengths))
    shape = tuple(x.shape)
    rest = [f"...{k}" for k in range(len(shape) - len(left) + 1)]
    left, right = _spelled(left, rest), _spelled(right, rest)
    if len(left) != len(shape):
        raise ShapeError(f"rearrange: {pattern!r} names {len(left)} dimensions, and the tensor has shape {x.shape}")
    sizes = dict(axes_lengths)
    for axes, size in zip(left, shape):
        unknown = [axis for axis in axes if axis not in sizes]
        known = math.prod(sizes[axis] for axis in axes if axis in sizes)
        if len(unknown) > 1:
            raise ArgumentError(f"rearrange: of {' '.join(axes)}, the sizes of {', '.join(unknown)} cannot all be told; give all but one")
        if unknown and known and size % known == 0:
            sizes[unknown[0]] = size // known
        elif unknown or known != size:
            raise ShapeError(f"rearrange: {' '.join(axes) or 1!r} of sizes {[sizes.get(axis, '?') for axis in axes]} must be {size} "
                             "elements")
    order = [axis for axes in left for axis in axes]
    split = reshape(x, [sizes[axis] for axis in order])
    moved = permute(split, [order.index(axis) for axes in right for axis in axes])
    return reshape(moved, [math.prod(sizes[axis] for axis in axes) for axes in right])
