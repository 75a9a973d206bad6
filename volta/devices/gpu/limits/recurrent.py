"""Recurrences beyond one binding: by steps, one half after the other; a single step by its sequences."""
from __future__ import annotations

from volta.devices.gpu.copy import cat, full
from volta.devices.gpu.limits.cut import join, part, refuse


def _pieces(batch_sizes, reverse):
    """(first row, end, batch sizes) of both halves of the steps, in the order of computation."""
    middle = len(batch_sizes) // 2
    rows = sum(batch_sizes[:middle])
    found = (0, rows, batch_sizes[:middle]), (rows, sum(batch_sizes), batch_sizes[middle:])
    return found[::-1] if reverse else found


def _state(t, like, batch, size):
    return full((batch, size), 0.0, like.dtype, like.device) if t is None else t


def _head(t, count):
    """The first rows of a state."""
    return part(t, None if t is None or t.shape[0] == count else 0, 0, count)


def _onto(t, state):
    """t, and the rows of a longer state that it has not."""
    count = t.shape[0]
    return t if state is None or count >= state.shape[0] else cat(t, part(state, 0, count, state.shape[0]), dim=0)


def _by_sequences(run, batch, tensors, params):
    """A single step, of which `weight` and `bias` are the second and perhaps third operand, whole."""
    if batch < 2:
        refuse(tensors[0][0])
    halves = [run(*[part(t, d, a, b) for t, d in tensors], **{**params, "batch_sizes": (b - a,)})
              for a, b in ((0, batch // 2), (batch // 2, batch))]
    return join(*halves, (0,) * 4)


def recurrent(run, x, weight, bias, h0, c0, *, mode, batch_sizes, reverse):
    """The half that is computed last begins with the states at which the other one ends."""
    params, batch, size = {"mode": mode, "reverse": reverse}, batch_sizes[0], weight.shape[1]
    if len(batch_sizes) == 1:
        return _by_sequences(run, batch, ((x, 0), (weight, None), (bias, None), (h0, 0), (c0, 0)), params)
    h, c = _state(h0, x, batch, size), _state(c0, x, batch, size) if mode == "lstm" else None
    found = []
    for start, stop, sizes in _pieces(batch_sizes, reverse):
        out, hidden, cell, saved = run(part(x, 0, start, stop), weight, bias, _head(h, sizes[0]), _head(c, sizes[0]), batch_sizes=sizes,
                                       **params)
        h, c = _onto(hidden, h), _onto(cell, c)
        found.append((out, saved))
    (out, saved), (more, kept) = found[::-1] if reverse else found
    return cat(out, more, dim=0), h, cell if c is None else c, cat(saved, kept, dim=0)


def recurrent_grad(run, x, weight, saved, g_out, g_hidden, g_cell, *, mode, batch_sizes, reverse):
    """The half that was computed last gives what reaches the states at which the other one ends."""
    params, batch, size = {"mode": mode, "reverse": reverse}, batch_sizes[0], weight.shape[0]
    if len(batch_sizes) == 1:
        return _by_sequences(run, batch, ((x, 0), (weight, None), (saved, 0), (g_out, 0), (g_hidden, 0), (g_cell, 0)), params)
    h, c = _state(g_hidden, x, batch, size), _state(g_cell, x, batch, size) if mode == "lstm" else None
    found = []
    for start, stop, sizes in _pieces(batch_sizes, reverse)[::-1]:
        dx, dgates, dh0, dc0 = run(*[part(t, d, start, stop) for t, d in ((x, 0), (weight, None), (saved, 0), (g_out, 0))],
                                   _head(h, sizes[0]), _head(c, sizes[0]), batch_sizes=sizes, **params)
        h, c = _onto(dh0, h), _onto(dc0, c)
        found.append((dx, dgates))
    (dx, dgates), (more, others) = found if reverse else found[::-1]
    return cat(dx, more, dim=0), cat(dgates, others, dim=0), h, dc0 if c is None else c
