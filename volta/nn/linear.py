"""Linear, Bilinear, Identity, Flatten and Unflatten."""
from __future__ import annotations

from volta.errors import ArgumentError, CallError
from volta.nn import functional, init
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.ops.creation import empty
from volta.ops.view import flatten
from volta.tensor import Tensor

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]


class Weighted(Module):
    """A layer with a weight and perhaps a bias for each output."""

    def _make(self, shape, bias, device, dtype, outputs=None):
        """`outputs` is the first of `shape` if not given."""
        self.weight = Parameter(empty(*shape, device=device, dtype=dtype))
        outputs = shape[0] if outputs is None else outputs
        self.register_parameter("bias", Parameter(empty(outputs, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.default_(self.weight, self.bias)


class Linear(Weighted):
    """x @ weight.T + bias over the last dimension.

    Shape: (..., in_features) -> (..., out_features).
    Raises: ArgumentError for sizes below 0; ShapeError for an input that does not fit.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__()
        self.in_features, self.out_features = sizes("Linear", in_features=in_features, out_features=out_features)
        self._make((self.out_features, self.in_features), bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class NonDynamicallyQuantizableLinear(Linear):
    """Linear under the name that PyTorch shows for the projection out of MultiheadAttention."""


class Bilinear(Weighted):
    """input1 @ weight[o] @ input2 + bias[o] for every output o.

    Shape: (..., in1_features), (..., in2_features) -> (..., out_features).
    Raises: ArgumentError for sizes below 0, and for no features in input1; ShapeError for inputs that do not fit.
    """

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = sizes(
            "Bilinear", in1_features=in1_features, in2_features=in2_features, out_features=out_features)
        if not in1_features:
            raise ArgumentError("Bilinear: in1_features must be positive, got 0")
        self._make((out_features, in1_features, in2_features), bias, device, dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = self.in1_features ** -0.5
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return functional.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class Identity(Module):
    """Gives its input back; takes and ignores any arguments, so that it can stand for another layer."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Flatten(Module):
    """Dimensions start_dim to end_dim as one."""

    _shown = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return flatten(input, self.start_dim, self.end_dim)


class Unflatten(Module):
    """Dimension `dim` as several of the sizes `unflattened_size`.

    Raises: ArgumentError unless these are integers.
    """

    def __init__(self, dim: int, unflattened_size) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)) or not all(isinstance(n, int) for n in unflattened_size):
            raise CallError(f"Unflatten: unflattened_size must be a tuple of integers, got {unflattened_size!r}")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


def sizes(layer: str, **values: object) -> tuple[int, ...]:
    """The values as ints.

    Raises: ArgumentError for one that is no integer or is negative.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
            raise (ArgumentError if isinstance(value, int) else CallError)(f"{layer}: {name} must be an integer >= 0, got {value!r}")
    return tuple(int(v) for v in values.values())
