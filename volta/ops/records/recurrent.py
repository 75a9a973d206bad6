"""Records of recurrences over whole sequences: LSTM, GRU and the plain one with tanh or relu.

Rows of all steps lie behind one another: `batch_sizes` of them, which never grow, as in a packed sequence. x holds what the inputs give to
the gates; weight[gates * H, H] and bias what the state before gives. With `reverse` the last step is the first. `saved` holds for every row
what the derivative needs, H columns each: LSTM i, f, g, o, tanh(c), the cell before; GRU r, z, n and the state's part of n; the plain ones
the result. The state before comes last.
"""
from __future__ import annotations

from itertools import accumulate

import numpy as np

from volta import autograd
from volta._kernels.core.graph import is_grad_enabled
from volta.ops.records.copy import cast, cat_op
from volta.ops.records.create import full_op
from volta.ops.records.linalg import linear_op, matmul_op, turned
from volta.ops.records.math import relu, sigmoid, tanh
from volta.ops.records.reduce import sum_op
from volta.ops.records.view import reshape_op, slice_op
from volta.ops.table import Derived, case, create, register

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
SAVED = {"lstm": 7, "gru": 5, "tanh": 2, "relu": 2}         # in H columns


def steps(batch_sizes: tuple[int, ...], reverse: bool) -> list[tuple[int, int]]:
    """(first row, rows) of every step, in the order of computation."""
    found = [(end - count, count) for end, count in zip(accumulate(batch_sizes), batch_sizes)]
    return found[::-1] if reverse else found


# ---------------------------------------------------------------- composed of simpler ops, for derivatives of derivatives
def _part(x, dim, start, size):
    starts, sizes = [0, 0], list(x.shape)
    starts[dim], sizes[dim] = start, size
    return slice_op(x, starts=tuple(starts), sizes=tuple(sizes), steps=(1, 1))


def _step(mode, x, h, c, weight, bias):
    """State and cell after one step."""
    y, size = linear_op(h, weight, bias), h.shape[1]
    if mode in ("tanh", "relu"):
        return (tanh if mode == "tanh" else relu)(x + y), c
    if mode == "gru":
        gates = sigmoid(_part(x, 1, 0, 2 * size) + _part(y, 1, 0, 2 * size))
        n = tanh(_part(x, 1, 2 * size, size) + _part(gates, 1, 0, size) * _part(y, 1, 2 * size, size))
        return n + _part(gates, 1, size, size) * (h - n), c
    i, f, g, o = (_part(x + y, 1, k * size, size) for k in range(4))
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def composed(x, weight, bias, h0, c0, mode, batch_sizes, reverse):
    """(out, hidden, cell)"""
    batch = batch_sizes[0]
    nothing = create(full_op, (batch, weight.shape[1]), 0.0, dtype=x.dtype, device=x.device)
    states, results = [nothing if s is None else s for s in (h0, c0)], []
    for first, count in steps(batch_sizes, reverse):
        found = _step(mode, _part(x, 0, first, count), *[_part(s, 0, 0, count) for s in states], weight, bias)
        states = [new if count == batch else cat_op(new, _part(s, 0, count, batch - count), dim=0) for new, s in zip(found, states)]
        results.append(found[0])
    return cat_op(*(results[::-1] if reverse else results), dim=0), *states


def _again(inputs, needs, given, options):
    """The gradients by simpler ops, to be differentiated again. The inputs pass by aliases, as one may have been made of another."""
    inputs = [t if t is None else reshape_op(t, shape=t.shape) for t in inputs]
    pairs = [(t, g) for t, g in zip(composed(*inputs, **options), given)
             if g is not None and t.requires_grad]
    found = iter(autograd.grad([t for t, _ in pairs], [t for t, need in zip(inputs, needs) if need], [g for _, g in pairs],
                               create_graph=True, allow_unused=True))
    return tuple([next(found) if need else None for need in needs])


def _recurrent_vjp(g_out, g_hidden, g_cell, x, weight, bias, h0, c0, saved, needs, mode, batch_sizes, reverse):
    options = {"mode": mode, "batch_sizes": batch_sizes, "reverse": reverse}
    if is_grad_enabled():
        return _again((x, weight, bias, h0, c0), needs, (g_out, g_hidden, g_cell), options)
    dx, dgates, dh0, dc0 = recurrent_grad(x, weight, saved, g_out, g_hidden, g_cell, **options)
    dgates, size = dgates if mode == "gru" else dx, weight.shape[1]
    before = cast(_part(saved, 1, (SAVED[mode] - 1) * size, size), x.dtype)
    return (dx, matmul_op(turned(dgates), before) if needs[1] else None,
            sum_op(dgates, dim=(0,), keepdim=False) if needs[2] else None, dh0 if needs[3] else None, dc0 if needs[4] else None)


# ---------------------------------------------------------------- in NumPy, for the tests
def _np_sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _np_step(mode, x, h, c, weight, bias):
    """(state, cell, what is saved)"""
    y = h @ weight.T + (0 if bias is None else bias)
    if mode == "lstm":
        i, f, g, o = np.split(x + y, 4, axis=1)
        i, f, g, o = _np_sigmoid(i), _np_sigmoid(f), np.tanh(g), _np_sigmoid(o)
        new = f * c + i * g
        return o * np.tanh(new), new, (i, f, g, o, np.tanh(new), c, h)
    if mode == "gru":
        (xr, xz, xn), (yr, yz, yn) = np.split(x, 3, axis=1), np.split(y, 3, axis=1)
        r, z = _np_sigmoid(xr + yr), _np_sigmoid(xz + yz)
        n = np.tanh(xn + r * yn)
        return (1 - z) * n + z * h, c, (r, z, n, yn, h)
    out = np.tanh(x + y) if mode == "tanh" else np.maximum(x + y, 0)
    return out, c, (out, h)


def _np_recurrent(x, weight, bias, h0, c0, mode, batch_sizes, reverse):
    size, batch = weight.shape[1], batch_sizes[0]
    h, c = (np.zeros((batch, size)) if s is None else s.copy() for s in (h0, c0))
    out, saved = np.zeros((len(x), size)), np.zeros((len(x), SAVED[mode] * size))
    for first, count in steps(batch_sizes, reverse):
        rows = slice(first, first + count)
        out[rows], new, kept = _np_step(mode, x[rows], h[:count], c[:count], weight, bias)
        saved[rows] = np.concatenate(kept, axis=1)
        h[:count], c[:count] = out[rows], new
    return out, h, c if mode == "lstm" else c[:0], saved


def _np_step_grad(mode, dh, dc, kept):
    """(gradient of x, that of the state's part, that of the cell or of the state directly)"""
    if mode == "lstm":
        i, f, g, o, t, c, _ = kept
        dc = dc + dh * o * (1 - t * t)
        dx = np.concatenate((dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g * g), dh * t * o * (1 - o)), axis=1)
        return dx, dx, dc * f
    if mode == "gru":
        r, z, n, y, h = kept
        dn = dh * (1 - z) * (1 - n * n)
        dx = np.concatenate((dn * y * r * (1 - r), dh * (h - n) * z * (1 - z), dn), axis=1)
        return dx, np.concatenate((dx[:, :2 * n.shape[1]], dn * r), axis=1), dh * z
    dx = dh * (1 - kept[0] ** 2 if mode == "tanh" else kept[0] > 0)
    return dx, dx, 0.0


def _np_recurrent_grad(x, weight, saved, g_out, g_hidden, g_cell, mode, batch_sizes, reverse):
    size, batch = weight.shape[1], batch_sizes[0]
    dh, carried = (np.zeros((batch, size)) if g is None else g.copy() for g in (g_hidden, g_cell))
    dx, dgates = np.zeros_like(x), np.zeros_like(x)
    for first, count in steps(batch_sizes, reverse)[::-1]:
        rows = slice(first, first + count)
        dx[rows], dgates[rows], carried[:count] = _np_step_grad(
            mode, dh[:count] + (0 if g_out is None else g_out[rows]), carried[:count], np.split(saved[rows], SAVED[mode], axis=1))
        dh[:count] = dgates[rows] @ weight + (carried[:count] if mode == "gru" else 0)
    return dx, dgates if mode == "gru" else dgates[:0], dh, carried if mode == "lstm" else carried[:0]


# ---------------------------------------------------------------- records
def _case(mode, batch_sizes, size, reverse=False, bias=True, first=True):
    rows, batch, gates = sum(batch_sizes), batch_sizes[0], GATES[mode] * size
    state = (batch, size) if first else None
    return case((rows, gates), (gates, size), (gates,) if bias else None, state, state if mode == "lstm" else None, mode=mode,
                batch_sizes=batch_sizes, reverse=reverse)


def _case_of_gradient(c, last=True):
    options, (x, weight) = c.params, c.inputs[:2]
    state = (options["batch_sizes"][0], weight[1]) if last else None

    def saved(x, weight):
        return _np_recurrent(x, weight, None, None, None, **options)[3]
    return case(x, weight, Derived(saved), (x[0], weight[1]), state, state if options["mode"] == "lstm" else None, **options)


_CASES = (_case("lstm", (3, 3), 4), _case("lstm", (4, 2, 1), 5, first=False), _case("lstm", (5, 3), 3, reverse=True, bias=False),
          _case("gru", (3, 2), 4), _case("gru", (2, 2, 1), 3, reverse=True), _case("gru", (2,), 3, bias=False, first=False),
          _case("tanh", (3, 1), 4), _case("tanh", (2, 1), 3, reverse=True, bias=False), _case("relu", (2, 2), 5, first=False),
          _case("lstm", (0, 0), 3))
_OPTIONAL = {"g_out": "=x?", "g_hidden": "=x?", "g_cell": "=x?"}
recurrent_op = register(
    "recurrent", ("x", "weight", "bias", "h0", "c0"), family="recurrent", outputs=("out", "hidden", "cell", "saved"),
    takes={"x": "f", "weight": "=x", "bias": "=x?", "h0": "=x?", "c0": "=x?"}, wide=("saved",),
    differentiable=("out", "hidden", "cell"), vjp=_recurrent_vjp, numpy=_np_recurrent, cases=_CASES, rtol=1e-4)
recurrent_grad = register(
    "recurrent_grad", ("x", "weight", "saved", *_OPTIONAL), family="recurrent", outputs=("dx", "dgates", "dh0", "dc0"),
    takes={"x": "f", "weight": "=x", "saved": "=x or wide", **_OPTIONAL}, numpy=_np_recurrent_grad, rtol=1e-4, smooth=False,
    cases=tuple(_case_of_gradient(c, last) for c, last in zip((*_CASES, _case("lstm", (9, 9), 66)), (True, False) * 6)))
