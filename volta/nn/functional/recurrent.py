"""Recurrences of layers over sequences and single steps: the products with the inputs in one matmul, then the record of the recurrence."""
from __future__ import annotations

from typing import TYPE_CHECKING

from volta.errors import ShapeError
from volta.nn.functional.dropouts import dropout
from volta.ops.join import cat, stack
from volta.ops.parts import unbind
from volta.ops.records.linalg import linear_op, matmul_op, turned
from volta.ops.records.recurrent import GATES, recurrent_op, steps

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__: list[str] = []


def recurrence(mode: str, x: Tensor, states: tuple[Tensor | None, ...], weights: tuple[Tensor | None, ...], batch_sizes: tuple[int, ...],
               reverse: bool = False) -> tuple[Tensor, ...]:
    """(out, hidden, cell) of one layer in one direction over the rows x. IN: states, h0 and perhaps c0; weights in torch's order, the
    biases None where there are none, then the projection where there is one."""
    weight_ih, weight_hh, bias_ih, bias_hh, *projection = weights
    size = (projection[0] if projection else weight_hh).shape[1]
    rows, columns = GATES[mode] * size, projection[0].shape[0] if projection else size
    if weight_ih.shape != (rows, x.shape[1]) or weight_hh.shape != (rows, columns) or any(
            b is not None and b.shape != (rows,) for b in (bias_ih, bias_hh)):
        raise ShapeError(f"{mode}: weights and biases must have the shapes {(rows, x.shape[1])}, {(rows, columns)} and {(rows,)} for a "
                         f"state of {size} and inputs of {x.shape[1]}, got {', '.join(str(w.shape) for w in weights if w is not None)}")
    if bias_hh is not None and mode != "gru":           # where both only add up, they have one gradient
        bias_ih, bias_hh = bias_ih + bias_hh, None
    gates = linear_op(x, weight_ih, bias_ih)
    h0, c0 = (*states, None)[:2]
    if not projection:
        return recurrent_op(gates, weight_hh, bias_hh, h0, c0, mode=mode, batch_sizes=batch_sizes, reverse=reverse)[:3]
    # The state that comes back is a product, weight_hr @ m: so is its part of the gates, (weight_hh @ weight_hr) @ m.
    if h0 is not None:
        gates = _entered(gates, matmul_op(h0, turned(weight_hh)), batch_sizes, reverse)
    out, hidden, cell, _ = recurrent_op(gates, matmul_op(weight_hh, projection[0]), bias_hh, None, c0, mode=mode, batch_sizes=batch_sizes,
                                        reverse=reverse)
    return linear_op(out, projection[0], None), linear_op(hidden, projection[0], None), cell


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
