"""The translation of recurrences: LSTM, GRU and RNN of ONNX, whose gates stand in another order.

A record is given what the inputs give to the gates, all rows of all steps. ONNX's operators multiply the inputs themselves: where a linear
record made the rows, its input and weights are taken; else the weight is the identity.
"""
from __future__ import annotations

import numpy as np

from volta.dtypes import to_numpy
from volta.onnx.graph import Call, Graph, translates

_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "tanh": (0,), "relu": (0,)}          # i f g o as i o f g; r z n as z r n


def _turned(g, x, size, mode):
    """The blocks of `size` rows in ONNX's order, with a dimension of one direction before them."""
    if len(_ORDER[mode]) > 1:
        rows = np.concatenate([np.arange(k * size, (k + 1) * size) for k in _ORDER[mode]])
        x = g.constant(g.initializers[x][rows]) if x in g.initializers else g.node("Gather", x, g.constant(rows.astype(np.int64)), axis=0)
    return g.constant(g.initializers[x][None]) if x in g.initializers else g.node("Unsqueeze", x, g.ints([0]))


def _source(g, c):
    """(rows, weight, bias) that the gates' part of the inputs is made of."""
    made = g.producer(c.inputs[0])
    if made is not None and made.op == "linear" and all(v is None or not v.traced for v in made.inputs[1:]):
        return (*[g.name(v) for v in made.inputs[:2]], "" if made.inputs[2] is None else g.name(made.inputs[2]), made.inputs[0].shape[1])
    return c[0], g.constant(np.eye(c.shape()[1], dtype=to_numpy(c.dtype))), "", c.shape()[1]


@translates("recurrent")
def _recurrent(g: Graph, c: Call):
    mode, size = c.mode, c.shape(1)[1]
    steps, batch = c.batch_sizes if len(c.batch_sizes) == 2 else (0, 0)
    if c.shape()[0] != steps * batch:
        raise c.refuse("packed sequences of different lengths are not exported; pad them")
    if c.used[3]:
        raise c.refuse("what is kept for the gradient is not exported")
    x, w, own, width = _source(g, c)
    nothing = g.constant(np.zeros(len(_ORDER[mode]) * size, to_numpy(c.dtype)))
    bias = g.node("Concat", *[_turned(g, b or nothing, size, mode) for b in (own, c[2])], axis=1)
    x = g.reshape(x, (steps, batch, width))
    states = [_first(g, c, i, batch, size) for i in ((3, 4) if mode == "lstm" else (3,))]
    op = {"lstm": "LSTM", "gru": "GRU"}.get(mode, "RNN")
    found = g.node(op, x, _turned(g, w, size, mode), _turned(g, c[1], size, mode), bias, "", *states, outputs=3 if mode == "lstm" else 2,
                   hidden_size=size, direction="reverse" if c.reverse else "forward", linear_before_reset=1 if mode == "gru" else None,
                   activations=[mode.capitalize()] if op == "RNN" else None)
    rows = g.reshape(found[0], c.out.shape)
    hidden, *cell = (g.node("Squeeze", state, g.ints([0])) for state in found[1:])
    return rows, hidden, cell[0] if cell else "", ""


def _first(g, c, i, batch, size):
    """A state before the first step."""
    return "" if c.inputs[i] is None else g.node("Unsqueeze", c[i], g.ints([0]))


