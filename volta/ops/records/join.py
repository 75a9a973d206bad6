"""Records of triangles, and of extending x[planes, (depth, height,) width] by own elements: `before` more ahead of the first of each axis
and, up to the size `outs`, behind the last; negative numbers cut. The mode is "reflect" (the neighbours mirrored at the edge), "replicate"
(the edge) or "circular" (the other end). And of what is moved along a dimension."""
from __future__ import annotations

import numpy as np

from volta.ops.table import case, register


def np_sources(n: int, outs: int, before: int, mode: str) -> np.ndarray:
    """The element that each output takes along an axis."""
    i = np.arange(outs) - before
    if mode == "reflect":
        return np.minimum(abs(i), 2 * (n - 1) - abs(i))
    return i % n if mode == "circular" else np.clip(i, 0, n - 1)


def _np_extend(x, outs, before, mode):
    return x[(slice(None), *np.ix_(*[np_sources(n, m, b, mode) for n, m, b in zip(x.shape[1:], outs, before)]))]


def _np_extend_grad(g, size, before, mode):
    out = np.zeros(g.shape[:1] + size, g.dtype)
    np.add.at(out, (slice(None), *np.ix_(*[np_sources(n, m, b, mode) for n, m, b in zip(size, g.shape[1:], before)])), g)
    return out


_CASES = (((3, 1, 4, 5), (1, 7, 9), (0, 2, 1)), ((2, 3, 4, 3), (5, 5, 4), (2, -1, 2)), ((2, 1, 1, 6), (1, 1, 3), (0, 0, -2)),
          ((2, 4), (7,), (1,)), ((2, 3, 4), (3, 6), (0, 2)))
_MODES = ("reflect", "replicate", "circular")
extend_op = register(
    "extend", ("x",), family="movement", takes="fib", kinds="fib", numpy=_np_extend,
    vjp=(lambda g, x_shape, before, mode: extend_grad(g, size=x_shape[1:], before=before, mode=mode),),
    cases=tuple(case(shape, outs=outs, before=before, mode=mode) for shape, outs, before in _CASES for mode in _MODES
                if mode != "circular" or min(before) >= 0))
extend_grad = register(
    "extend_grad", ("g",), family="movement", takes="f", numpy=_np_extend_grad,
    vjp=(lambda gg, g_shape, before, mode: extend_op(gg, outs=g_shape[1:], before=before, mode=mode),),
    cases=tuple(case(shape[:1] + outs, size=shape[1:], before=before, mode=mode) for shape, outs, before in _CASES for mode in _MODES
                if mode != "circular" or min(before) >= 0))
triangle_op = register(
    "triangle", ("x",), names=("input",), family="movement", takes="fib", kinds="fib",
    numpy=lambda x, diagonal, upper: (np.triu if upper else np.tril)(x, diagonal),
    vjp=(lambda g, diagonal, upper: triangle_op(g, diagonal=diagonal, upper=upper),),
    cases=tuple(case(shape, diagonal=diagonal, upper=upper) for shape, diagonal in (
        ((3, 4), 1), ((2, 3, 3), 0), ((5, 2), -2), ((3, 8), -9), ((4, 4), 9), ((0, 3), 0), ((3, 0), 1)) for upper in (False, True)))
roll_op = register(
    "roll", ("x",), family="movement", takes="fib", kinds="fib", numpy=lambda x, shift, dim: np.roll(x, shift, dim),
    vjp=(lambda g, shift, dim: roll_op(g, shift=g.shape[dim] - shift, dim=dim),),
    cases=(case((3, 5), shift=2, dim=1), case((5, 3), shift=1, dim=0), case((2, 40, 3), shift=39, dim=1), case((130,), shift=1, dim=0)))
