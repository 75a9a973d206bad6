"""Activations under PyTorch's names, with its `inplace`. What `volta.ops` already has in PyTorch's form is only named here."""
from __future__ import annotations

from volta.errors import ArgumentError
from volta.ops import elementwise, functions, reduce
from volta.ops.operands import floating
from volta.tensor import Tensor, replace

gelu, sigmoid, tanh = elementwise.gelu, functions.sigmoid, functions.tanh


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """The larger of 0 and x; the derivative at 0 is 0."""
    return input.relu_() if inplace else elementwise.relu(input)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place."""
    return input.relu_()


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, else negative_slope * x."""
    return replace(input, elementwise.leaky_relu, negative_slope) if inplace else elementwise.leaky_relu(input, negative_slope)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return replace(input, functions.silu) if inplace else elementwise.silu(input)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta * x)) / beta, and x itself where beta * x > threshold."""
    floating("softplus", input=input)
    scaled = input if beta == 1 else input * beta
    smooth = elementwise.softplus(scaled)
    return elementwise.where(scaled > threshold, input, smooth if beta == 1 else smooth / beta)


def softmax(input: Tensor, dim: int | None = None, dtype=None) -> Tensor:
    """exp(x) normalised to sum 1 along `dim`."""
    return reduce.softmax(input, need_dim("softmax", dim), dtype)


def log_softmax(input: Tensor, dim: int | None = None, dtype=None) -> Tensor:
    """The logarithm of `softmax`, without overflow."""
    return reduce.log_softmax(input, need_dim("log_softmax", dim), dtype)


def need_dim(name: str, dim: int | None) -> int:
    """`dim`, which PyTorch once guessed and Volta does not.

    Raises: ArgumentError for None.
    """
    if dim is None:
        raise ArgumentError(f"{name}: give dim, the dimension that is normalised (often dim=1 or dim=-1)")
    return dim
