"""Padding: constant by one kernel (`place`), and what comes from the input itself (reflect, replicate, circular) by joining its parts."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta.dtypes import uint8
from volta.errors import ArgumentError, ShapeError
from volta.ops.movement import _place, cast, cat, contiguous_, expand, slice_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Padding; `pad` = (left, right) of the last dimension, then of the one before it, and so on. Negative cuts. The mode says with
    what: "constant" (`value`), "reflect" (the neighbours mirrored at the edge), "replicate" (the edge), "circular" (the other end).

    Raises: ArgumentError for another mode, an odd number of sizes, or a value with a mode that has none; ShapeError for more than
    the input can give.
    """
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise ArgumentError(f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}")
    if mode != "constant" and value is not None:
        raise ArgumentError(f"pad: mode {mode!r} takes no value, got {value}")
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ArgumentError(f"pad: needs two sizes for each of up to {input.ndim} dimensions, got {tuple(pad)}")
    before, after = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = int(pad[2 * i]), int(pad[2 * i + 1])
    if mode != "constant":
        out = input
        for d in range(input.ndim):
            if before[d] or after[d]:
                out = _extend(out, d, before[d], after[d], mode)
        return contiguous_(input) if out is input else out
    if any(n + a + b < 0 for n, a, b in zip(input.shape, before, after)):
        raise ShapeError(f"pad: {tuple(pad)} cuts more than shape {input.shape} has")
    if min(before + after, default=0) < 0:
        input = slice_view(input, tuple(slice(max(-a, 0), n + min(b, 0)) for n, a, b in zip(input.shape, before, after)))
        before, after = [max(a, 0) for a in before], [max(b, 0) for b in after]
    shape = tuple(n + a + b for n, a, b in zip(input.shape, before, after))
    where = {"shape": shape, "starts": tuple(before), "steps": (1,) * input.ndim}
    if input.dtype.code == 0:
        return cast(_place(cast(input, uint8), value=bool(value), **where), input.dtype)
    return _place(input, value=(value or 0.0) if input.dtype.is_floating_point else int(value or 0), **where)


def _extend(x, d, before, after, mode):
    """x with `before` and `after` more elements along dimension d, taken from x itself."""
    if mode == "circular" and min(before, after) < 0:       # what is cut does not come back at the other end
        x = slice_view(x, tuple(slice(max(-before, 0), s + min(after, 0)) if i == d else slice(None) for i, s in enumerate(x.shape)))
        before, after = max(before, 0), max(after, 0)
    n = x.shape[d]
    most = {"reflect": n - 1, "replicate": max(before, after, 0) if n else 0, "circular": n}[mode]
    if max(before, after) > most or max(-before, -after) > n or n + before + after < (1 if mode == "reflect" else 0):
        raise ShapeError(f"pad: mode {mode!r} cannot extend dimension {d} of size {n} by ({before}, {after})")

    def part(start, stop, step=1):
        return slice_view(x, tuple(slice(start, None if stop < 0 else stop, step) if i == d else slice(None) for i in range(x.ndim)))

    def edge(start, length):
        return expand(part(start, start + 1), x.shape[:d] + (length,) + x.shape[d + 1:])
    low, high = max(before, 0), max(after, 0)
    if mode == "reflect":
        ends = part(low, 0, -1), part(n - 2, n - 2 - high, -1)
    elif mode == "replicate":
        ends = edge(0, low) if low else None, edge(n - 1, high) if high else None
    else:
        ends = part(n - low, n), part(0, high)
    middle = part(max(-before, 0), n + min(after, 0))
    pieces = [end for end, length in ((ends[0], low), (middle, 1), (ends[1], high)) if length]
    return cat(pieces, d) if len(pieces) > 1 else contiguous_(middle)
