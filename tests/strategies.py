"""Hypothesis strategies: arrays, shapes that broadcast, chains of views, and indices."""
from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

SIZES = st.sampled_from([0, 1, 1, 2, 3, 3, 4, 5])


@st.composite
def shapes(draw, low: int = 0, high: int = 4):
    """A shape of few dimensions, some of size 0 and 1."""
    return tuple(draw(st.lists(SIZES, min_size=low, max_size=high)))


@st.composite
def broadcasting(draw, count: int):
    """`count` shapes that broadcast together."""
    full = draw(shapes())
    out = []
    for _ in range(count):
        kept = full[draw(st.integers(0, len(full))):]
        out.append(tuple(1 if draw(st.booleans()) and draw(st.booleans()) else s for s in kept))
    return out


def distinct(shape: tuple, dtype=np.float32) -> np.ndarray:
    """0, 1, 2, ... in a shape: every element tells where it came from."""
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


@st.composite
def slices(draw, size: int, negative: bool = True):
    """A slice of a dimension, also out of bounds and backwards."""
    bound = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    step = draw(st.sampled_from([None, 1, 2, 3] + ([-1, -2] if negative else [])))
    return slice(draw(bound), draw(bound), step)


@st.composite
def basic_indices(draw, shape: tuple):
    """A tuple of ints, slices, None and at most one Ellipsis."""
    out, dotted = [], False
    for size in shape[:draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["slice", "slice", "int", "new", "dots"]))
        if kind == "dots" and not dotted:
            dotted = True
            out.append(Ellipsis)
            break
        if kind == "new":
            out.append(None)
        out.append(draw(st.integers(-size, size - 1)) if kind == "int" and size else draw(slices(size)))
    if dotted and draw(st.booleans()) and len(shape) > len([i for i in out if i is not None and i is not Ellipsis]):
        out.append(draw(slices(shape[-1])))
    return tuple(out)


@st.composite
def advanced_indices(draw, shape: tuple):
    """A tuple with integer arrays that broadcast together, mixed with slices and ints."""
    lead = draw(st.sampled_from([(), (3,), (2, 1), (2, 3), (0,)]))
    out = []
    for size in shape[:draw(st.integers(1, len(shape)))]:
        kind = draw(st.sampled_from(["array", "array", "slice", "int"]))
        if kind == "array":
            own = lead[draw(st.integers(0, len(lead))):]
            values = draw(st.lists(st.integers(-size, size - 1), min_size=int(np.prod(own)), max_size=int(np.prod(own))))
            out.append(np.array(values, np.int64).reshape(own))
        elif kind == "int":
            out.append(draw(st.integers(-size, size - 1)))
        else:
            out.append(draw(slices(size)))
    return tuple(out)


@st.composite
def view_steps(draw, shape: tuple):
    """One view operation that fits a shape: (name, argument)."""
    kind = draw(st.sampled_from(["slice", "permute", "expand", "unsqueeze", "squeeze", "reshape", "flip", "transpose"]))
    rank = len(shape)
    if kind == "slice" or (kind in ("transpose", "flip") and rank == 0):
        return "slice", tuple(draw(slices(n)) for n in shape)
    if kind == "permute":
        return kind, tuple(draw(st.permutations(range(rank))))
    if kind == "expand":
        return kind, (draw(st.integers(1, 3)),) * (rank < 5) + tuple(draw(st.integers(0, 3)) if n == 1 else n for n in shape)
    if kind == "unsqueeze":
        return kind, draw(st.integers(0, rank)) if rank < 6 else 0
    if kind == "reshape":
        return kind, draw(st.sampled_from(factorisations(int(np.prod(shape)))))
    if kind == "transpose":
        return kind, (draw(st.integers(-rank, rank - 1)), draw(st.integers(-rank, rank - 1)))
    if kind == "flip":
        return kind, tuple(draw(st.sets(st.integers(0, rank - 1), max_size=rank)))
    return "squeeze", None


def factorisations(size: int) -> list:
    """Shapes of up to three dimensions with `size` elements."""
    if size == 0:
        return [(0,), (2, 0), (0, 3, 1)]
    out = [(size,), (1, size), (size, 1, 1)]
    for a in (2, 3, 4, 5):
        if size % a == 0:
            out += [(a, size // a), (size // a, a), (1, a, size // a)]
    return out if size > 1 else [(), *out]
