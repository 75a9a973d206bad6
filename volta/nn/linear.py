"""Linear, Identity and Flatten."""
from __future__ import annotations

from volta.errors import ArgumentError
from volta.nn import functional, init
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.ops.creation import empty
from volta.ops.view import flatten
from volta.tensor import Tensor

__all__ = ["Flatten", "Identity", "Linear"]


class Weighted(Module):
    """A layer with a weight and perhaps a bias for each output."""

    def _make(self, shape, bias, device, dtype):
        self.weight = Parameter(empty(*shape, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(shape[0], device=device, dtype=dtype)) if bias else None)
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


def sizes(layer: str, **values: object) -> tuple[int, ...]:
    """The values as ints.

    Raises: ArgumentError for one that is no integer or is negative.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
            raise ArgumentError(f"{layer}: {name} must be an integer >= 0, got {value!r}")
    return tuple(int(v) for v in values.values())
