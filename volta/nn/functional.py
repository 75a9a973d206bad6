"""The functions behind the layers, under PyTorch's names. What `volta.ops` already has in PyTorch's form is only named here."""
from __future__ import annotations

from volta.errors import ArgumentError, ShapeError
from volta.ops import creation, elementwise, functions, indexing, loss, reduce
from volta.ops.checks import explain_all
from volta.ops.conv import conv2d, max_pool2d
from volta.ops.linalg import linear
from volta.ops.norm import batch_norm, layer_norm
from volta.ops.padding import pad
from volta.tensor import Tensor, replace

__all__ = ["batch_norm", "binary_cross_entropy_with_logits", "conv2d", "cross_entropy", "dropout", "gelu", "l1_loss", "layer_norm",
           "leaky_relu", "linear", "log_softmax", "max_pool2d", "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "relu",
           "relu_", "sigmoid", "silu", "softmax", "softplus", "tanh"]

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
    scaled = input if beta == 1 else input * beta
    smooth = elementwise.softplus(scaled)
    return elementwise.where(scaled > threshold, input, smooth if beta == 1 else smooth / beta)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p), in training."""
    return replace(input, creation.dropout, p, training) if inplace else creation.dropout(input, p, training)


def softmax(input: Tensor, dim: int | None = None, dtype=None) -> Tensor:
    """exp(x) normalised to sum 1 along `dim`."""
    return reduce.softmax(input, need_dim("softmax", dim), dtype)


def log_softmax(input: Tensor, dim: int | None = None, dtype=None) -> Tensor:
    """The logarithm of `softmax`, without overflow."""
    return reduce.log_softmax(input, need_dim("log_softmax", dim), dtype)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 rows with a 1 at each label; num_classes -1 takes the largest label + 1, which reads the tensor."""
    return indexing.one_hot(tensor, int(tensor.max()) + 1 if num_classes == -1 else num_classes)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """input / max(norm, eps) along `dim`."""
    return input / elementwise.maximum(reduce.norm(input, p, dim, keepdim=True), eps)


def reduction_of(name: str, size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction, which PyTorch's two old arguments override where they are given.

    Raises: ArgumentError for a string in their place: the reduction is given by name.
    """
    for value in (size_average, reduce):
        if isinstance(value, str):
            raise ArgumentError(f"{name}: give the reduction by name, as in reduction={value!r}")
    if size_average is None and reduce is None:
        return reduction
    return "none" if reduce is False else "sum" if size_average is False else "mean"


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                  ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    """Cross entropy of logits (N, C, ...) with class indices (N, ...) or probabilities (N, C, ...). Units: nats."""
    reduction = reduction_of("cross_entropy", size_average, reduce, reduction)
    return loss.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
             reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Negative log likelihood of log-probabilities. Shape: (N, C, ...) and (N, ...)."""
    return loss.nll_loss(input, target, weight, ignore_index, reduction_of("nll_loss", size_average, reduce, reduction))


def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
             weight: Tensor | None = None) -> Tensor:
    """Squared error, with `weight` for each element.

    Raises: ShapeError where the shapes differ; PyTorch broadcasts them, with a warning.
    """
    reduction = reduction_of("mse_loss", size_average, reduce, reduction)
    return _weighted("mse_loss", loss.mse_loss, input, target, reduction, weight)


def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
            weight: Tensor | None = None) -> Tensor:
    """Absolute error, with `weight` for each element.

    Raises: ShapeError where the shapes differ; PyTorch broadcasts them, with a warning.
    """
    reduction = reduction_of("l1_loss", size_average, reduce, reduction)
    return _weighted("l1_loss", loss.l1_loss, input, target, reduction, weight)


def _weighted(name, function, input, target, reduction, weight):
    if weight is None:
        return function(input, target, reduction)
    if weight.shape != input.shape:
        raise ShapeError(f"{name}: weight {weight.shape} and input {input.shape} must have the same shape")
    values = function(input, target, "none") * weight
    return reduce.sum(values) / reduce.sum(weight) if reduction == "mean" else loss._reduce(name, values, reduction)


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                                     reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None) -> Tensor:
    """Cross entropy of a sigmoid, from logits, without overflow; `pos_weight` scales the positive target's term. Units: nats."""
    reduction = reduction_of("binary_cross_entropy_with_logits", size_average, reduce, reduction)
    if weight is None and pos_weight is None:
        return loss.binary_cross_entropy_with_logits(input, target, reduction)
    values = loss.binary_cross_entropy_with_logits(input, target, "none")
    if pos_weight is not None:
        values = values + (pos_weight - 1.0) * target * softplus(-input)
    return loss._reduce("binary_cross_entropy_with_logits", values if weight is None else values * weight, reduction)


def need_dim(name: str, dim: int | None) -> int:
    """`dim`, which PyTorch once guessed and Volta does not.

    Raises: ArgumentError for None.
    """
    if dim is None:
        raise ArgumentError(f"{name}: give dim, the dimension that is normalised (often dim=1 or dim=-1)")
    return dim


explain_all(globals())
