"""Convolutions, transposed ones, and MaxPool2d."""
from __future__ import annotations

from volta.errors import ArgumentError
from volta.nn import functional
from volta.nn.functional.conv import same_padding
from volta.nn.linear import Weighted, sizes
from volta.shapes import per_dim
from volta.tensor import Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


def _listed(names, *first):
    """'a', 'b' or 'c'."""
    *most, last = [*first, *map(repr, names)]
    return f"{', '.join(most)} or {last}" if most else last


class _Convolution(Weighted):
    """What the convolutions of `rank` dimensions share; a transposed one has its weight as (in_channels, out_channels / groups, ...)."""

    rank: int
    transposed = False
    padding_modes = ("zeros", "reflect", "replicate", "circular")
    named_paddings = ("same", "valid")

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode,
                 device, dtype) -> None:
        super().__init__()
        name, rank = type(self).__name__, self.rank
        self.in_channels, self.out_channels, self.groups = sizes(name, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(f"{name}: in_channels {in_channels} and out_channels {out_channels} must be multiples of groups {groups}")
        if padding_mode not in self.padding_modes:
            raise ArgumentError(f"{name}: padding_mode must be {_listed(self.padding_modes)}, got {padding_mode!r}")
        if isinstance(padding, str) and padding not in self.named_paddings:
            raise ArgumentError(f"{name}: padding must be {_listed(self.named_paddings, 'ints')}, got {padding!r}")
        self.kernel_size, self.stride = per_dim(name, "kernel_size", kernel_size, rank), per_dim(name, "stride", stride, rank)
        self.padding = padding if isinstance(padding, str) else per_dim(name, "padding", padding, rank, 0)
        if self.padding == "same" and max(self.stride) > 1:
            raise ArgumentError(f"{name}: padding 'same' needs stride 1, got {stride}")
        self.dilation, self.padding_mode = per_dim(name, "dilation", dilation, rank), padding_mode
        self.output_padding = per_dim(name, "output_padding", output_padding, rank, 0)
        shape = (in_channels, out_channels // groups) if self.transposed else (out_channels, in_channels // groups)
        self._make((*shape, *self.kernel_size), bias, device, dtype, out_channels)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        zeros = (0,) * self.rank
        for name, default in (("padding", zeros), ("dilation", (1,) * self.rank), ("output_padding", zeros), ("groups", 1)):
            value = getattr(self, name)
            text += "" if value == default else f", {name}={value}"
        text += "" if self.bias is not None else ", bias=False"
        return text + ("" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}")


class _Conv(_Convolution):
    """Cross-correlation with a learned kernel."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1,
                 bias: bool = True, padding_mode: str = "zeros", device=None, dtype=None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, 0, groups, bias, dilation, padding_mode, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = functional.pad(input, self._sides(), self.padding_mode), 0
        convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[self.rank - 1]
        return convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _sides(self):
        """(before, after) of the last dimension, then of the one before it."""
        if self.padding == "valid":
            return (0,) * (2 * self.rank)
        if self.padding == "same":
            return same_padding(self.kernel_size, self.dilation)
        return tuple(side for p in self.padding[::-1] for side in (p, p))


class Conv1d(_Conv):
    """1-D cross-correlation with a learned kernel. `padding` may be "same" (stride 1) or "valid"; `padding_mode` is "zeros", "reflect",
    "replicate" or "circular".

    Shape: (N, in_channels, L) or (in_channels, L) -> the same with out_channels and the size that remains.
    Raises: ArgumentError for arguments that do not fit; ShapeError for an input that does not.
    """

    rank = 1


class Conv2d(_Conv):
    """2-D cross-correlation with a learned kernel. `padding` may be "same" (stride 1) or "valid"; `padding_mode` is "zeros", "reflect",
    "replicate" or "circular".

    Shape: (N, in_channels, H, W) or (in_channels, H, W) -> the same with out_channels and the sizes that remain.
    Raises: ArgumentError for arguments that do not fit; ShapeError for an input that does not.
    """

    rank = 2


class Conv3d(_Conv):
    """3-D cross-correlation with a learned kernel. `padding` may be "same" (stride 1) or "valid"; `padding_mode` is "zeros", "reflect",
    "replicate" or "circular".

    Shape: (N, in_channels, D, H, W) or (in_channels, D, H, W) -> the same with out_channels and the sizes that remain.
    Raises: ArgumentError for arguments that do not fit; ShapeError for an input that does not.
    """

    rank = 3


class _ConvTranspose(_Convolution):
    """Transposed convolution with a learned kernel."""

    transposed = True
    padding_modes = ("zeros",)
    named_paddings = ()

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0, groups: int = 1,
                 bias: bool = True, dilation=1, padding_mode: str = "zeros", device=None, dtype=None) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation, padding_mode,
                         device, dtype)

    def forward(self, input: Tensor, output_size=None) -> Tensor:
        more = self.output_padding if output_size is None else self._output_padding(input, tuple(output_size))
        convolve = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[self.rank - 1]
        return convolve(input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)

    def _output_padding(self, input, output_size):
        """What makes the output of this size, which may be given with the batch and the channels."""
        name, rank = type(self).__name__, self.rank
        if len(output_size) == input.ndim:
            output_size = output_size[-rank:]
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in
                 zip(input.shape[-rank:], self.stride, self.padding, self.dilation, self.kernel_size)]
        if len(output_size) != rank or not all(low <= n < low + s for n, low, s in zip(output_size, least, self.stride)):
            raise ArgumentError(f"{name}: output_size must have {rank} sizes from {least} to "
                                f"{[low + s - 1 for low, s in zip(least, self.stride)]} for an input of {input.shape}, got {output_size}")
        return tuple(n - low for n, low in zip(output_size, least))


class ConvTranspose1d(_ConvTranspose):
    """Transposed 1-D convolution with a learned kernel: the gradient of Conv1d for its input. Several sizes of an input give Conv1d the
    same; `output_padding`, or `output_size` in the call, says which is meant.

    Shape: (N, in_channels, L) or (in_channels, L) -> the same with out_channels and (L - 1) * stride - 2 * padding +
        dilation * (kernel_size - 1) + output_padding + 1.
    Raises: ArgumentError for arguments that do not fit; ShapeError for an input that does not.
    """

    rank = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed 2-D convolution with a learned kernel: the gradient of Conv2d for its input. Sizes are those of ConvTranspose1d.

    Shape: (N, in_channels, H, W) or (in_channels, H, W) -> the same with out_channels and the new sizes.
    Raises: ArgumentError for arguments that do not fit; ShapeError for an input that does not.
    """

    rank = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed 3-D convolution with a learned kernel: the gradient of Conv3d for its input. Sizes are those of ConvTranspose1d.

    Shape: (N, in_channels, D, H, W) or (in_channels, D, H, W) -> the same with out_channels and the new sizes.
    Raises: ArgumentError for arguments that do not fit; ShapeError for an input that does not.
    """

    rank = 3
