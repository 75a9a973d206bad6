"""Layers that vision models share."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from volta import nn
from volta.errors import ArgumentError
from volta.ops.creation import empty, ones, zeros

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["MLP", "Conv2dNormActivation", "FrozenBatchNorm2d", "Permute", "SqueezeExcitation", "StochasticDepth", "stochastic_depth"]


def make_divisible(v: float, divisor: int, min_value: int | None = None) -> int:
    """The multiple of `divisor` next to `v`, at least nine tenths of it."""
    found = max(min_value or divisor, int(v + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * v else found


class Conv2dNormActivation(nn.Sequential):
    """A convolution of images that keeps their size at stride 1, a normalization and an activation."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int] = 3, stride: int | tuple[int, int] = 1,
                 padding: int | tuple[int, int] | str | None = None, groups: int = 1,
                 norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm2d,
                 activation_layer: Callable[..., nn.Module] | None = nn.ReLU, dilation: int | tuple[int, int] = 1,
                 inplace: bool | None = True, bias: bool | None = None) -> None:
        if padding is None:
            sizes, steps = ((x, x) if isinstance(x, int) else x for x in (kernel_size, dilation))
            padding = ((sizes[0] - 1) // 2 * steps[0], (sizes[1] - 1) // 2 * steps[1])
        super().__init__(nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                                   norm_layer is None if bias is None else bias),
                         *([] if norm_layer is None else [norm_layer(out_channels)]),
                         *([] if activation_layer is None else [activation_layer(**_in_place(inplace))]))
        self.out_channels = out_channels


def _in_place(inplace: bool | None) -> dict[str, bool]:
    return {} if inplace is None else {"inplace": inplace}


class SqueezeExcitation(nn.Module):
    """Weighs channels by what they are on average. Source: Hu et al., Squeeze-and-Excitation Networks."""

    def __init__(self, input_channels: int, squeeze_channels: int, activation: Callable[..., nn.Module] = nn.ReLU,
                 scale_activation: Callable[..., nn.Module] = nn.Sigmoid) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(input_channels, squeeze_channels, 1), nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input))))) * input


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Zero for all of a batch, or for single samples ("row"), with probability `p`; the rest is scaled to keep the mean.

    Source: Huang et al., Deep Networks with Stochastic Depth.
    Raises: ArgumentError for a `p` outside of [0, 1], and another `mode`.

    >>> volta.vision.ops.stochastic_depth(volta.ones(2, 3), 0.0, "row")
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    if not 0 <= p <= 1:
        raise ArgumentError(f"stochastic_depth: p must be from 0 to 1, got {p}")
    if mode not in ("batch", "row"):
        raise ArgumentError(f"stochastic_depth: mode must be 'batch' or 'row', got {mode!r}")
    if not training or p == 0:
        return input
    rows = input.shape[0] if mode == "row" else 1
    kept = empty(rows, *[1] * (input.ndim - 1), dtype=input.dtype, device=input.device).bernoulli_(1 - p)
    return input * (kept / (1 - p) if p < 1 else kept)


class StochasticDepth(nn.Module):
    """`stochastic_depth` in training."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}, mode={self.mode}"


class MLP(nn.Sequential):
    """Linear layers with a normalization, an activation and dropout between them."""

    def __init__(self, in_channels: int, hidden_channels: Sequence[int], norm_layer: Callable[..., nn.Module] | None = None,
                 activation_layer: Callable[..., nn.Module] = nn.ReLU, inplace: bool | None = None, bias: bool = True,
                 dropout: float = 0.0) -> None:
        options = _in_place(inplace)
        layers: list[nn.Module] = []
        for width in hidden_channels[:-1]:
            layers += [nn.Linear(in_channels, width, bias), *([] if norm_layer is None else [norm_layer(width)]),
                       activation_layer(**options), nn.Dropout(dropout, **options)]
            in_channels = width
        super().__init__(*layers, nn.Linear(in_channels, hidden_channels[-1], bias), nn.Dropout(dropout, **options))


class Permute(nn.Module):
    """Dimensions in another order."""

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.dims)


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization of images whose statistics, weight and bias are buffers, and do not change."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, value in (("weight", ones), ("bias", zeros), ("running_mean", zeros), ("running_var", ones)):
            self.register_buffer(name, value(num_features))
        self.register_load_state_dict_pre_hook(lambda module, state, prefix, *_: state.pop(f"{prefix}num_batches_tracked", None))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return x * scale[:, None, None] + (self.bias - self.running_mean * scale)[:, None, None]

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"
