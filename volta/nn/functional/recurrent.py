"""Recurrences of layers over sequences and single steps: the products with the inputs in one matmul, then the record of the recurrence."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from volta._kernels.core import TensorBase
from volta.errors import ArgumentError, RankError, ShapeError
from volta.nn.functional.dropouts import dropout
from volta.ops.join import cat, stack
from volta.ops.parts import unbind
from volta.ops.records.copy import cast
from volta.ops.records.linalg import linear_op, matmul_op, turned
from volta.ops.records.recurrent import GATES, recurrent_op, steps
from volta.ops.table import composed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__: list[str] = []


def recurrence(mode: str, x: Tensor, states: tuple[Tensor | None, ...], weights: tuple[Tensor | None, ...], batch_sizes: tuple[int, ...],
               reverse: bool = False, cell: bool = False) -> tuple[Tensor, ...]:
    """(out, hidden, cell) of one layer in one direction over the rows x. IN: states, h0 and perhaps c0; weights in torch's order, the
    biases None where there are none, then the projection where there is one; `cell` says that it is a single step."""
    weight_ih, weight_hh, bias_ih, bias_hh, *projection = weights
    if any(w.ndim != 2 for w in (weight_ih, weight_hh, *projection)):
        raise RankError(f"{mode}: the weights must be matrices, got {', '.join(str(w.shape) for w in weights if w is not None)}")
    size = (projection[0] if projection else weight_hh).shape[1]
    rows, columns = GATES[mode] * size, projection[0].shape[0] if projection else size
    if weight_ih.shape != (rows, x.shape[1]) or weight_hh.shape != (rows, columns) or any(
            b is not None and b.shape != (rows,) for b in (bias_ih, bias_hh)):
        raise ShapeError(f"{mode}: weights and biases must have the shapes {(rows, x.shape[1])}, {(rows, columns)} and {(rows,)} for a "
                         f"state of {size} and inputs of {x.shape[1]}, got {', '.join(str(w.shape) for w in weights if w is not None)}")
    for state, length in zip(states, (columns, size)):
        if state is not None and state.shape[1] != length:
            raise ShapeError(f"{mode}: a state must have rows of {length}, as the weights do, got {state.shape}")
    if bias_hh is not None and mode != "gru":           # where both only add up, they have one gradient
        bias_ih, bias_hh = bias_ih + bias_hh, None
    gates = linear_op(x, weight_ih, bias_ih)
    h0, c0 = (*states, None)[:2]
    if gates.dtype.itemsize == 2 and not x.device.is_gpu and under_autocast(x):
        keeps = mode == "gru" or mode == "lstm" and cell            # the dtype of its states, as in PyTorch
        dtype = (x if h0 is None else h0).dtype if keeps else gates.dtype
        gates, weight_hh, bias_hh, h0, c0 = [t if t is None or t.dtype is dtype else cast(t, dtype)
                                             for t in (gates, weight_hh, bias_hh, h0, c0)]
    if not projection:
        return recurrent_op(gates, weight_hh, bias_hh, h0, c0, mode=mode, batch_sizes=batch_sizes, reverse=reverse)[:3]
    # The state that comes back is a product, weight_hr @ m: so is its part of the gates, (weight_hh @ weight_hr) @ m.
    if h0 is not None:
        gates = _entered(gates, matmul_op(h0, turned(weight_hh)), batch_sizes, reverse)
    out, hidden, cell, _ = recurrent_op(gates, matmul_op(weight_hh, projection[0]), bias_hh, None, c0, mode=mode, batch_sizes=batch_sizes,
                                        reverse=reverse)
    return linear_op(out, projection[0], None), linear_op(hidden, projection[0], None), cell


def under_autocast(x: Tensor) -> bool:
    """Whether what x meets is converted; without an import, which every use of layers would wait for."""
    amp = sys.modules.get("volta.amp.mode")
    return amp is not None and amp.is_autocast_enabled("gpu" if x.device.is_gpu else "cpu")


def _entered(gates, first, batch_sizes, reverse):
    """gates with what the first states give to the rows at which the sequences begin."""
    pieces, begun, end = [], 0, 0
    for start, count in steps(batch_sizes, reverse):
        if count > begun:
            pieces.append((start + begun, first[begun:count]))
            begun = count
    parts = []
    for start, piece in sorted(pieces, key=lambda pair: pair[0]):
        parts += [gates[end:start], gates[start:start + piece.shape[0]] + piece]
        end = start + piece.shape[0]
    return cat([*parts, gates[end:]])


def layers(mode: str, x: Tensor, states: tuple[Tensor, ...] | None, weights: list[tuple], batch_sizes: tuple[int, ...], directions: int,
           dropped: float) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The result of all layers, and their last states, each (layers * directions, batch, ...). IN: weights of every layer and direction;
    dropped, the probability of dropout between layers."""
    kinds = 2 if mode == "lstm" else 1
    given = [(None,) * kinds] * len(weights) if states is None else list(zip(*map(unbind, states)))
    last = []
    for layer in range(0, len(weights), directions):
        if layer and dropped:
            x = dropout(x, dropped)
        found = [recurrence(mode, x, given[i], weights[i], batch_sizes, i > layer) for i in range(layer, layer + directions)]
        x = found[0][0] if directions == 1 else cat([out for out, *_ in found], 1)
        last += [each[1:1 + kinds] for each in found]
    return x, tuple(stack(each) for each in zip(*last))


def check_steps(name: str, rows: Tensor, batch_sizes: tuple[int, ...]) -> None:
    """Raises: ShapeError unless these are the steps of a packed sequence with these rows; kernels rely on it."""
    if rows.ndim != 2 or not batch_sizes or batch_sizes[-1] < 1 or any(a < b for a, b in zip(batch_sizes, batch_sizes[1:])) or (
            sum(batch_sizes) != rows.shape[0]):
        raise ShapeError(f"{name}: batch_sizes of a packed sequence must be positive, never grow, and add up to the "
                         f"{rows.shape[0] if rows.ndim else 0} rows of its data, a matrix, got {list(batch_sizes)} and data of shape "
                         f"{rows.shape}; make it by pack_padded_sequence")


# ---------------------------------------------------------------- as functions of `torch`
_UNTESTED = "tests/test_native_forms.py: by the layers"


def _sequence(mode, input, hx, params, has_biases, num_layers, dropped, train, bidirectional, batch_first):
    """(out, *last states) of rows of several steps: (L, N, C), (N, L, C) with `batch_first`, or (L, C)."""
    batched, dim = input.ndim == 3, 0 if batch_first else 1
    if input.ndim not in (2, 3):
        raise RankError(f"{mode}: needs an input (L, N, C) or (L, C), got {input.shape}")
    x = input if batched else input.unsqueeze(dim)
    states = tuple(hx) if batched else tuple([h.unsqueeze(1) for h in hx])
    x = x.transpose(0, 1) if batch_first else x
    out, *last = _packed(mode, x.flatten(0, 1), (x.shape[1],) * x.shape[0], states, params, has_biases, num_layers, dropped, train,
                         bidirectional)
    out = out.reshape(x.shape[0], x.shape[1], out.shape[1])
    out = out.transpose(0, 1) if batch_first else out
    return (out, *last) if batched else (out.squeeze(dim), *[h.squeeze(1) for h in last])


def _packed(mode, rows, batch_sizes, states, params, has_biases, num_layers, dropped, train, bidirectional):
    directions = 2 if bidirectional else 1
    each, rest = divmod(len(params), max(num_layers, 1) * directions)
    names = 4 if has_biases else 2
    if num_layers < 1 or rest or each not in (names, names + (mode == "lstm")):
        raise ArgumentError(f"{mode}: {len(params)} weights and biases do not fit {num_layers} layers of {directions} directions")
    if not batch_sizes or min(batch_sizes) < 1:
        raise ShapeError(f"{mode}: needs at least one step of at least one row, got {list(batch_sizes)}")
    for state in states:
        if state.ndim != 3 or state.shape[:2] != (num_layers * directions, batch_sizes[0]):
            raise ShapeError(f"{mode}: states must have shape {(num_layers * directions, batch_sizes[0])} + (H,), got {state.shape}")
    weights = [tuple(params[i:i + each]) for i in range(0, len(params), each)]
    if not has_biases:
        weights = [(*w[:2], None, None, *w[2:]) for w in weights]
    out, last = layers(mode, rows, states, weights, batch_sizes, directions, dropped if train else 0.0)
    return out, *last


def _make_layer(name, mode, pair):
    def function(input: Tensor, hx: Tensor | Sequence[Tensor], params: Tensor | Sequence[Tensor], has_biases: bool | Sequence[Tensor],
                 num_layers: int | bool, dropout: float, train: bool | float, bidirectional: bool, batch_first: bool) -> tuple[Tensor, ...]:
        packed = isinstance(hx, TensorBase) and (pair or isinstance(params, TensorBase))
        states = params if packed else hx
        states = tuple(states) if pair else (states,)
        if len(states) != 1 + pair:
            raise ArgumentError(f"{name}: hx must be a pair of tensors, (h, c), got {len(states)}")
        if packed:                              # every argument from hx on stands one place further
            rest = bool(num_layers), dropout, train, bidirectional, batch_first
            if hx.ndim != 1 or hx.dtype.is_floating_point:
                raise ShapeError(f"{name}: batch_sizes must be a vector of integers, got {hx.dtype} of shape {hx.shape}")
            check_steps(name, input, batch_sizes := tuple(hx.tolist()))
            return _packed(mode, input, batch_sizes, states, has_biases, *rest)
        return _sequence(mode, input, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""`nn.{"LSTM" if pair else "GRU" if mode == "gru" else "RNN"}` as a function of its weights:
    {name}(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or of a packed sequence
    {name}(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional).

    Raises: ArgumentError, ShapeError where the arguments do not fit.

    >>> weights, h = (volta.zeros({GATES[mode]}, 1), volta.zeros({GATES[mode]}, 1)), volta.zeros(1, 1, 1)
    >>> volta.{name}(volta.ones(2, 1, 1), {"(h, h)" if pair else "h"}, weights, False, 1, 0.0, False, False, False)[0].flatten()
    tensor([0., 0.])
    """
    return composed(untested=_UNTESTED, method=False)(function)


lstm, gru, rnn_tanh, rnn_relu = (_make_layer(name, mode, name == "lstm") for name, mode in (
    ("lstm", "lstm"), ("gru", "gru"), ("rnn_tanh", "tanh"), ("rnn_relu", "relu")))


def _cell(mode, input, states, w_ih, w_hh, b_ih, b_hh):
    """State and cell after one step."""
    if input.ndim != 2 or any(h.ndim != 2 or h.shape[0] != input.shape[0] for h in states):
        raise RankError(f"{mode} cell: needs an input (N, C) and states (N, H), got {input.shape} and "
                         f"{', '.join(str(h.shape) for h in states)}")
    if (b_ih is None) != (b_hh is None):
        raise ArgumentError(f"{mode} cell: needs both biases or none")
    if w_ih.ndim != 2 or w_hh.ndim != 2:
        raise RankError(f"{mode} cell: the weights must be matrices, got {w_ih.shape} and {w_hh.shape}")
    return recurrence(mode, input, states, (w_ih, w_hh, b_ih, b_hh), (input.shape[0],), cell=True)[1:]


@composed(untested=_UNTESTED, method=False)
def lstm_cell(input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
              b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """`nn.LSTMCell` as a function of its weights: (h, c) after a step.

    Raises: ArgumentError, ShapeError where the arguments do not fit.

    >>> volta.lstm_cell(volta.ones(1, 1), (volta.zeros(1, 1), volta.ones(1, 1)), volta.zeros(4, 1), volta.zeros(4, 1))[1]
    tensor([[0.5000]])
    """
    if len(hx) != 2:
        raise ArgumentError(f"lstm_cell: hx must be a pair of tensors, (h, c), got {len(hx)}")
    hidden, cell = _cell("lstm", input, tuple(hx), w_ih, w_hh, b_ih, b_hh)
    return hidden, cell


def _make_cell(name, mode):
    def function(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
        return _cell(mode, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""`nn.{"GRUCell" if mode == "gru" else "RNNCell"}` as a function of its weights: the state after a step.

    Raises: ArgumentError, ShapeError where the arguments do not fit.

    >>> volta.{name}(volta.ones(1, 1), volta.zeros(1, 1), volta.zeros({GATES[mode]}, 1), volta.zeros({GATES[mode]}, 1))
    tensor([[0.]])
    """
    return composed(untested=_UNTESTED, method=False)(function)


gru_cell, rnn_tanh_cell, rnn_relu_cell = (_make_cell(name, mode) for name, mode in (
    ("gru_cell", "gru"), ("rnn_tanh_cell", "tanh"), ("rnn_relu_cell", "relu")))

# What layers call where a mode or a class of tensors may take the call over.
SEQUENCES = {"lstm": lstm, "gru": gru, "tanh": rnn_tanh, "relu": rnn_relu}
CELLS = {"lstm": lstm_cell, "gru": gru_cell, "tanh": rnn_tanh_cell, "relu": rnn_relu_cell}
