"""Parts of buffers that one binding can show, and where steps find elements in them."""
from __future__ import annotations

from typing import NamedTuple

from volta.devices.gpu.common import BYTES, WINDOW_ALIGNMENT
from volta.devices.gpu.plans import At


class Place(NamedTuple):
    """Where a step finds elements: a binding, and how many elements into it they begin; `offset` is an At where calls differ in it."""

    binding: object
    offset: object

    def words(self, width: int = 1):
        """The offset in units of `width` elements."""
        return At(self.offset.operand, width) if type(self.offset) is At else self.offset // width


def step_of(limit: int) -> int:
    """Elements that fit a window; windows that follow each other at this distance start where bindings may."""
    return (limit - 2 * WINDOW_ALIGNMENT) // (2 * WINDOW_ALIGNMENT) * (WINDOW_ALIGNMENT // 2)


def pieces(first: int, stop: int, step: int):
    """(start, length) of the pieces of [first, stop)."""
    return [(start, min(step, stop - start)) for start in range(first, stop, step or 1)]


def window(buffer: int, dtype, first: int, count: int) -> Place:
    """`count` elements of a buffer of the plan, from its element `first` on."""
    itemsize = BYTES[dtype.code]
    begin = first * itemsize
    start = begin // WINDOW_ALIGNMENT * WINDOW_ALIGNMENT
    return Place((buffer, start, -(-(begin + count * itemsize - start) // 16) * 16), (begin - start) // itemsize)


