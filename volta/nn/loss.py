"""Losses as layers."""
from __future__ import annotations

import math
import warnings
from typing import Any

from volta.errors import ArgumentError, ShapeError
from volta.nn import functional
from volta.nn.functional.linear_loss import LinearCrossEntropyOptions
from volta.nn.functional.loss import reduction_of
from volta.nn.linear import Linear
from volta.nn.module import Module
from volta.tensor import Tensor

__all__ = ["BCEWithLogitsLoss", "CrossEntropyLoss", "L1Loss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions", "MSELoss",
           "NLLLoss", "NLLLoss2d"]


class _Loss(Module):
    """Holds the reduction, and class weights as a buffer, since they move with the module."""

    REDUCTIONS = ("mean", "sum", "none")

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        reduction = reduction_of(type(self).__name__, size_average, reduce, reduction)
        if reduction not in self.REDUCTIONS:
            raise ArgumentError(f"{type(self).__name__}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        self.reduction = reduction


class CrossEntropyLoss(_Loss):
    """Cross entropy of logits and class indices, or class probabilities. Units: nats.

    Shape: (N, C, ...) and (N, ...) or, for probabilities, (N, C, ...).
    """

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
                                        label_smoothing=self.label_smoothing)


class LinearCrossEntropyLoss(_Loss):
    """A linear layer and the cross entropy of its outputs, for each of `out_features` its own. See `functional.linear_cross_entropy`.

    Shape: (N, in_features) or (in_features,), and (N, *out_features) or, for probabilities, (N, num_classes, *out_features).
    """

    def __init__(self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False, device=None,
                 dtype=None, reduction: str = "mean", weight: Tensor | None = None, ignore_index: int | None = None,
                 label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None) -> None:
        super().__init__(reduction=reduction)
        if weight is not None and getattr(weight, "shape", None) != (num_classes,):
            raise ShapeError(f"LinearCrossEntropyLoss: weight must have shape {(num_classes,)}, got {getattr(weight, 'shape', weight)}")
        self.register_buffer("weight", weight)
        self.num_classes, self.out_features = num_classes, tuple(out_features)
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        self.linear = Linear(in_features, math.prod(self.out_features, start=num_classes), bias, device, dtype)

    def extra_repr(self) -> str:
        return (f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
                f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
                f"label_smoothing={self.label_smoothing}, options={self.options}")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return functional.linear_cross_entropy(
            input, self.linear.weight.reshape(*shape, self.linear.in_features), target,
            linear_bias=None if bias is None else bias.reshape(shape), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options)


class NLLLoss(_Loss):
    """Negative log likelihood of log-probabilities. Shape: (N, C, ...) and (N, ...). Units: nats."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
                 reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """NLLLoss under its old name for images, which is deprecated."""

    def __init__(self, *args: Any, **options: Any) -> None:
        warnings.warn("NLLLoss2d is deprecated; write NLLLoss", FutureWarning, stacklevel=2)
        super().__init__(*args, **options)


class MSELoss(_Loss):
    """Squared error."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """Absolute error."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.l1_loss(input, target, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Cross entropy of a sigmoid, from logits, without overflow. Units: nats."""

    def __init__(self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean", pos_weight: Tensor | None = None) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(input, target, self.weight, reduction=self.reduction,
                                                           pos_weight=self.pos_weight)
