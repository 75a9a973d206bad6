"""Recurrent layers, RNN, LSTM and GRU, over whole sequences, packed ones too, and their cells, which take one step."""
from __future__ import annotations

import warnings
from math import sqrt

from volta._kernels.core import overriding
from volta._kernels.core.order import owned
from volta.errors import ArgumentError, CallError, DTypeError, ShapeError
from volta.nn import init
from volta.nn.functional.recurrent import CELLS, SEQUENCES, check_steps, layers, recurrence, under_autocast
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.nn.utils.rnn import PackedSequence
from volta.ops.creation import empty
from volta.ops.from_data import tensor
from volta.ops.records.recurrent import GATES
from volta.tensor import Tensor

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]


class _Recurrent(Module):
    """What layers and cells share."""

    def reset_parameters(self) -> None:
        """Draw all weights and biases uniformly within 1 / sqrt(hidden_size)."""
        bound = 1.0 / sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)


def _named(name: str, nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f"{name}: unknown nonlinearity {nonlinearity!r}; select from 'tanh' or 'relu'")
    return nonlinearity


class RNNBase(_Recurrent):
    """The common part of RNN, LSTM and GRU; `mode` is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".

    Shape: (L, N, input_size), (N, L, input_size) with batch_first, (L, input_size) or a PackedSequence -> as many, with directions *
    (proj_size or hidden_size) features, and the last states, (layers * directions, N, ...).
    Raises: ArgumentError for sizes, probabilities and modes that make no sense; ShapeError for what does not fit; DTypeError.
    """

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device=None, dtype=None) -> None:
        super().__init__()
        kind = str(mode).lower().removeprefix("rnn_")
        if kind not in GATES:
            raise ArgumentError(f"{self._name()}: unrecognized RNN mode {mode!r}")
        self._check(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size, self.num_layers, self.bias = mode, input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional, self.proj_size = batch_first, float(dropout), bool(bidirectional), proj_size
        gates, state = GATES[kind] * hidden_size, proj_size or hidden_size
        self._all_weights = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[:self._directions]:
                features = state * self._directions if layer else input_size
                shapes = {"weight_ih": (gates, features), "weight_hh": (gates, state)}
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)} if bias else {}
                shapes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
                self._all_weights.append([f"{name}_l{layer}{suffix}" for name in shapes])
                for name, shape in zip(self._all_weights[-1], shapes.values()):
                    setattr(self, name, Parameter(empty(*shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def _name(self) -> str:
        return type(self).__name__

    def _check(self, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size):
        """Raise for arguments that make no layer."""
        name = self._name()
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ArgumentError(f"{name}: dropout should be a number in range [0, 1], the probability of an element being zeroed, got "
                                f"{dropout!r}")
        for argument, value in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(value, bool):
                raise DTypeError(f"{name}: {argument} should be of type bool, got: {type(value).__name__}")
        for argument, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if not isinstance(value, int):
                raise DTypeError(f"{name}: {argument} should be of type int, got: {type(value).__name__}")
            if value <= 0:
                raise ArgumentError(f"{name}: {argument} must be greater than zero, got {value}")
        if num_layers > 1 << 20:                        # whose weights would be made until memory ends
            raise ArgumentError(f"{name}: num_layers must be at most {1 << 20}, got {num_layers}")
        if not 0 <= proj_size < hidden_size:
            raise ArgumentError(f"{name}: proj_size must be zero, for no projection, or a positive number smaller than hidden_size, got "
                                f"{proj_size}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"{name}: dropout is added after all but the last recurrent layer, so it expects num_layers greater than 1, but "
                          f"got dropout={dropout} and num_layers={num_layers}", stacklevel=4)

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of every layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Does nothing: it is a matter of cuDNN."""

    def _weights(self) -> list[tuple]:
        """Of every layer and direction, with None for biases that are not there."""
        return [tuple(each if self.bias else [*each[:2], None, None, *each[2:]]) for each in self.all_weights]

    def forward(self, input: Tensor | PackedSequence, hx=None):
        pair = self.mode == "LSTM"
        states = None if hx is None else tuple(hx) if pair else (hx,)
        if pair and states is not None and len(states) != 2:
            raise ShapeError(f"{self._name()}: hx must be a pair of tensors, (h, c), got {len(states)}")
        if isinstance(input, PackedSequence):
            x, sizes, order, back = input
            sizes = tuple(sizes.tolist())
            check_steps(self._name(), x, sizes)
            states = self._ordered(states, order)
            out, last = self._run(x, states, sizes, sizes[0], 2)
            last = self._ordered(last, back)
            return PackedSequence(out, *input[1:]), last if pair else last[0]
        if input.ndim not in (2, 3):
            raise ShapeError(f"{self._name()}: Expected input to be 2D or 3D, got {input.ndim}D tensor instead")
        batched, dim = input.ndim == 3, 0 if self.batch_first else 1
        for state in states or ():
            if state.ndim != input.ndim:
                raise ShapeError(f"{self._name()}: for {'batched 3-D' if batched else 'unbatched 2-D'} input, hx should also be "
                                 f"{input.ndim}-D but got a {state.ndim}-D tensor")
        if not batched:
            input, states = input.unsqueeze(dim), None if states is None else tuple(s.unsqueeze(1) for s in states)
        x = input.transpose(0, 1) if self.batch_first else input
        steps, batch = x.shape[:2]
        if not steps:
            raise ShapeError(f"{self._name()}: expected sequence length to be larger than 0, got input of shape {input.shape}")
        out, last = self._run(x.flatten(0, 1), states, (batch,) * steps, batch, 3)
        out = owned(out.reshape(steps, batch, out.shape[1]))
        out = out.transpose(0, 1) if self.batch_first else out
        if not batched:
            out, last = out.squeeze(dim), tuple(s.squeeze(1) for s in last)
        return out, last if pair else last[0]

    @staticmethod
    def _ordered(states, order):
        return states if states is None or order is None else tuple(s.index_select(1, order) for s in states)

    def _run(self, x, states, sizes, batch, rank):
        """(out, last states) of rows, after checks."""
        name, weights = self._name(), self._weights()
        dtype = weights[0][0].dtype
        if x.dtype is not dtype and not under_autocast(x):
            raise ArgumentError(f"{name}: input dtype ({x.dtype}) does not match weight dtype ({dtype}). Convert input: input.to({dtype}), "
                                f"or convert model: model.to({x.dtype})")
        if x.ndim != 2:
            raise ShapeError(f"{name}: input must have {rank} dimensions, got {x.ndim + rank - 2}")
        if x.shape[1] != self.input_size:
            raise ShapeError(f"{name}: input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[1]}")
        for i, state in enumerate(states or ()):
            needed = (self.num_layers * self._directions, batch, (0 if i else self.proj_size) or self.hidden_size)
            if state.shape != needed:
                raise ShapeError(f"{name}: Expected hidden{f'[{i}]' if len(states) > 1 else ''} size {needed}, got {list(state.shape)}")
        kind = self.mode.lower().removeprefix("rnn_")
        if overriding.asks(x, *weights[0], *(states or ())):
            states = states or tuple([x.new_zeros(self.num_layers * self._directions, batch, size)
                                      for size in (self.proj_size or self.hidden_size, self.hidden_size)[:1 + (kind == "lstm")]])
            out, *last = SEQUENCES[kind](x, tensor(sizes, device="cpu"), states if kind == "lstm" else states[0],
                                         [w for each in self.all_weights for w in each], self.bias, self.num_layers, self.dropout,
                                         self.training, self.bidirectional)
            return out, tuple(last)
        return layers(kind, x, states, weights, sizes, self._directions, self.dropout if self.training else 0.0)

    def extra_repr(self) -> str:
        shown = [f"{self.input_size}, {self.hidden_size}"]
        for name, usual in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
                            ("bidirectional", False)):
            if getattr(self, name) != usual:
                shown.append(f"{name}={getattr(self, name)}")
        return ", ".join(shown)


class RNN(RNNBase):
    """h' = tanh(W x + b + W' h + b'), or relu. Shape: as `RNNBase` says. Source: Elman 1990."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device=None, dtype=None) -> None:
        super().__init__(f"RNN_{_named('RNN', nonlinearity).upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory; `hx` and the last states are pairs, (h, c). Shape: as `RNNBase` says, but for c, which has hidden_size
    elements with a proj_size, too. Source: Hochreiter and Schmidhuber 1997; Sak et al. 2014."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device=None, dtype=None) -> None:
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)


class GRU(RNNBase):
    """Gated recurrent units. Shape: as `RNNBase` says. Source: Cho et al. 2014, with the reset gate behind the product."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, device=None, dtype=None, **options: int) -> None:
        if "proj_size" in options:
            raise CallError("GRU: proj_size is for LSTM alone")
        if options:
            raise TypeError(f"GRU.__init__() got an unexpected keyword argument {next(iter(options))!r}")
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device=device, dtype=dtype)


# ---------------------------------------------------------------- cells
class RNNCellBase(_Recurrent):
    """The common part of the cells: one step of `num_chunks` gates.

    Shape: (N, input_size) or (input_size,), and states of hidden_size -> the states after the step.
    Raises: ShapeError for what does not fit.
    """

    _kind = ""

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device=None, dtype=None) -> None:
        super().__init__()
        for argument, value in (("hidden_size", hidden_size), ("num_chunks", num_chunks)):
            if not isinstance(value, int):
                raise DTypeError(f"{type(self).__name__}: {argument} should be of type int, got: {type(value).__name__}")
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        for name, shape in (("weight_ih", (rows, input_size)), ("weight_hh", (rows, hidden_size)),
                            ("bias_ih", (rows,)), ("bias_hh", (rows,))):
            there = bias or name.startswith("weight")
            self.register_parameter(name, Parameter(empty(*shape, device=device, dtype=dtype)) if there else None)
        self.reset_parameters()

    def forward(self, input: Tensor, hx=None):
        name, pair = type(self).__name__, self._kind == "lstm"
        states = (None, None) if hx is None else tuple(hx) if pair else (hx,)
        if pair and len(states) != 2:
            raise ShapeError(f"{name}: hx must be a pair of tensors, (h, c), got {len(states)}")
        for what, t in (("input", input), *[(f"hx[{i}]" if pair else "hidden", s) for i, s in enumerate(states) if s is not None]):
            if t.ndim not in (1, 2):
                raise ShapeError(f"{name}: Expected {what} to be 1D or 2D, got {t.ndim}D instead")
        single = input.ndim == 1
        if single:
            input, *states = (t if t is None else t.unsqueeze(0) for t in (input, *states))
        if input.shape[1] != self.input_size:
            raise ShapeError(f"{name}: input has inconsistent input_size: got {input.shape[1]} expected {self.input_size}")
        for i, state in enumerate(states):
            if state is not None and state.shape != (input.shape[0], self.hidden_size):
                raise ShapeError(f"{name}: hidden{i} must have input's batch size and hidden_size, {(input.shape[0], self.hidden_size)}, "
                                 f"got {state.shape}")
        weights, kind = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh), self._kind or self.nonlinearity
        if overriding.asks(input, *weights, *states):
            states = [input.new_zeros(input.shape[0], self.hidden_size) if t is None else t for t in states]
            found = CELLS[kind](input, states if pair else states[0], *weights)
            found = found if pair else [found]
        else:
            _, *found = recurrence(kind, input, tuple(states), weights, (input.shape[0],), cell=True)
        found = [t.squeeze(0) if single else t for t in (found if pair else found[:1])]
        return tuple(found) if pair else found[0]

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias is True else f", bias={self.bias}")
        return shown + (f", nonlinearity={self.nonlinearity}" if getattr(self, "nonlinearity", "tanh") != "tanh" else "")


class RNNCell(RNNCellBase):
    """One step of an RNN. Shape: input (N, input_size), hx (N, hidden_size), or both without N -> as hx."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = _named("RNNCell", nonlinearity)


class LSTMCell(RNNCellBase):
    """One step of an LSTM: `hx` and the result are pairs, (h, c). Shape: input (N, input_size), h and c (N, hidden_size), or all
    without N."""

    _kind = "lstm"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)


class GRUCell(RNNCellBase):
    """One step of a GRU. Shape: input (N, input_size), hx (N, hidden_size), or both without N -> as hx."""

    _kind = "gru"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)
