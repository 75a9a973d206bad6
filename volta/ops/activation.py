"""Activations that are methods of tensors too; the others are in `nn/functional/activation.py`."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.errors import ShapeError
from volta.ops.records.activation import hardshrink_op, leaky_relu
from volta.ops.table import case, composed
from volta.ops.view import reshape

if TYPE_CHECKING:
    from volta.tensor import Tensor


@composed(samples=(case((3, 4), (1,)), case((3, 4), (4,)), case((2, 3, 5), (3,)), case((), (1,)), case((5,), ())),
          takes={"input": "f", "weight": "=input"}, numpy=lambda x, weight: np.where(x > 0, x, x * (
              weight.reshape((-1, *[1] * (x.ndim - 2))) if weight.size > 1 else weight.reshape(()))))
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where positive, else weight * x, with one weight or one for each channel (dimension 1). Source: He et al. 2015, eq. 1.

    Raises: ShapeError where the weights do not fit.

    >>> volta.nn.functional.prelu(volta.tensor([-1.0, 2.0]), volta.tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.ndim > 1 or weight.numel() not in (1, channels):
        raise ShapeError(f"prelu: needs one weight, or one for each of {channels} channels, got weights of shape {weight.shape}")
    shape = () if weight.numel() == 1 else (channels,) + (1,) * (input.ndim - 2)
    return leaky_relu(input, reshape(weight, shape))


@composed(samples=(case((3, 4)), case(()), case((0, 2)), case((5,), lambd=1.0)), elementwise=True, takes={"input": "f"},
          numpy=lambda x, lambd=0.5: np.where(np.abs(x) <= lambd, 0.0, x))
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, but 0 in [-lambd, lambd].

    >>> volta.nn.functional.hardshrink(volta.tensor([0.5, -2.0]))
    tensor([ 0., -2.])
    """
    return hardshrink_op(input, lambd)
