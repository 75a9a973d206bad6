"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes, of which the rare ones are computed where a target is among them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from volta.errors import ArgumentError, IndexRangeError, ShapeError
from volta.nn.container import ModuleList, Sequential
from volta.nn.linear import Linear
from volta.nn.module import Module
from volta.ops.join import cat
from volta.ops.reduce import log_softmax
from volta.tensor import Tensor
from volta.types import DeviceLike, DTypeLike

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """Log-probabilities of the targets, and minus their mean."""
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax over classes that are sorted by falling frequency: those below `cutoffs[0]` and one entry for each further cluster are
    computed always, a cluster's classes by a projection of width in_features / div_value ** i where a target is in it. Which rows these
    are is read from the device. Units: nats. Source: Grave et al. 2017.

    Shape: (N, in_features) and (N,), or without N -> output (N,), loss ().
    Raises: ArgumentError for cutoffs that do not rise from 1 to below n_classes; ShapeError; IndexRangeError for a target out of range.
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
                 device: DeviceLike = None, dtype: DTypeLike = None) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs or cutoffs != sorted({int(c) for c in cutoffs}) or cutoffs[0] < 1 or cutoffs[-1] >= n_classes:
            raise ArgumentError(f"AdaptiveLogSoftmaxWithLoss: cutoffs must be rising integers from 1 to n_classes - 1, got {cutoffs} for "
                                f"{n_classes} classes")
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            width = int(in_features // div_value ** (i + 1))
            self.tail.append(Sequential(Linear(in_features, width, bias=False, **place), Linear(width, high - low, bias=False, **place)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in (self.head, *(layer for projection in self.tail for layer in projection)):
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> tuple[Tensor, Tensor]:
        """(output, loss): log-probabilities of the targets, and minus their mean."""
        if target_.ndim > 1 or input_.ndim != target_.ndim + 1 or input_.shape[:-1] != target_.shape:
            raise ShapeError("AdaptiveLogSoftmaxWithLoss: needs an input (N, in_features) with a target (N,), or both without N, got "
                             f"{input_.shape} and {target_.shape}")
        rows, wanted = input_.reshape(-1, input_.shape[-1]), target_.reshape(-1)
        output, places = rows.new_zeros(len(wanted)), wanted.clone()
        found = int((wanted >= 0).logical_and(wanted < self.shortlist_size).sum())
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            index = (wanted >= low).logical_and(wanted < high).nonzero().squeeze(1)
            if index.numel():
                found += index.numel()
                inside = log_softmax(self.tail[i](rows.index_select(0, index)), 1)
                inside = inside.gather(1, (wanted.index_select(0, index) - low).unsqueeze(1)).squeeze(1)
                output = output.to(inside.dtype).index_copy(0, index, inside)
                places = places.index_fill(0, index, self.shortlist_size + i)
        if found != len(wanted):
            raise IndexRangeError(f"AdaptiveLogSoftmaxWithLoss: targets must be in [0, {self.n_classes}), got values in "
                                  f"[{int(wanted.min())}, {int(wanted.max())}]")
        output = output + log_softmax(self.head(rows), 1).gather(1, places.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output.reshape(target_.shape), -output.mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes. Shape: (N, in_features) -> (N, n_classes)."""
        head = log_softmax(self.head(input), 1)
        clusters = [log_softmax(projection(input), 1) + head[:, self.shortlist_size + i:self.shortlist_size + i + 1]
                    for i, projection in enumerate(self.tail)]
        return cat([head[:, :self.shortlist_size], *clusters], 1)

    def predict(self, input: Tensor) -> Tensor:
        """The class of the largest probability. Shape: (N, in_features) -> (N,)."""
        output = self.head(input).argmax(1)
        index = (output >= self.shortlist_size).nonzero().squeeze(1)
        return output.index_copy(0, index, self.log_prob(input.index_select(0, index)).argmax(1)) if index.numel() else output
