"""Activations in PyTorch's forms for networks, with its `inplace`. What `volta` has under the same name is only named here."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core.inplace import InPlace
from volta.ops.math import gelu
from volta.ops.records import math as r
from volta.ops.records.math import sigmoid, tanh
from volta.ops.reduce import log_softmax, softmax
from volta.ops.table import case, composed

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["gelu", "leaky_relu", "leaky_relu_", "log_softmax", "relu", "relu_", "sigmoid", "silu", "softmax", "softplus",
           "softsign", "tanh"]

_SAMPLES = (case((3, 4)), case(()), case((0, 2)))
relu_, _silu_ = InPlace("relu_", r.relu), InPlace("silu_", r.silu)


@composed(name="functional.relu", samples=_SAMPLES, numpy=lambda x: np.maximum(x, 0), kinds="fi", elementwise=True, function=False,
          method=False)
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The larger of 0 and x; the derivative at 0 is 0.

    >>> volta.nn.functional.relu(volta.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return relu_(input) if inplace else r.relu(input)


@composed(name="functional.leaky_relu", samples=(*_SAMPLES, case((5,), negative_slope=0.3)), in_float32=True, elementwise=True,
          function=False, method=False, numpy=lambda x, negative_slope=0.01: np.where(x > 0, x, x * negative_slope))
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, else negative_slope * x.

    >>> volta.nn.functional.leaky_relu(volta.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5000,  2.0000])
    """
    return leaky_relu_(input, negative_slope) if inplace else r.where_op(input > 0, input, input * negative_slope)


leaky_relu_ = InPlace("leaky_relu_", leaky_relu)


@composed(name="functional.silu", samples=_SAMPLES, numpy=lambda x: x / (1 + np.exp(-x)), elementwise=True, function=False, method=False)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x).

    >>> volta.nn.functional.silu(volta.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """
    return _silu_(input) if inplace else r.silu(input)


@composed(samples=_SAMPLES, numpy=lambda x: x / (1 + np.abs(x)), in_float32=True, elementwise=True,
          function=False, method=False)
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|).

    >>> volta.nn.functional.softsign(volta.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    return input / (r.abs(input) + 1)


@composed(name="functional.softplus", samples=(*_SAMPLES, case((5,), beta=3.0, threshold=2.0)), in_float32=True, elementwise=True,
          takes={"input": "f"}, numpy=lambda x, beta=1, threshold=20: np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta),
          function=False, method=False)
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold.

    >>> volta.nn.functional.softplus(volta.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.0000])
    """
    scaled = input if beta == 1 else input * beta
    smooth = r.relu(scaled) + r.log1p(r.exp(r.where_op(scaled > 0, -scaled, scaled)))       # of the left branch's derivative at 0
    return r.where_op(scaled > threshold, input, smooth if beta == 1 else smooth / beta)
