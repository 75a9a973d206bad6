"""Conv2d and MaxPool2d."""
from __future__ import annotations

from volta.errors import ArgumentError
from volta.nn import functional
from volta.nn.functional.conv import pair, same_padding
from volta.nn.linear import Weighted, sizes
from volta.nn.module import Module
from volta.tensor import Tensor

__all__ = ["Conv2d", "MaxPool2d"]


class Conv2d(Weighted):
    """2-D cross-correlation with a learned kernel. `padding` may be "same" (stride 1) or "valid"; `padding_mode` is "zeros", "reflect",
    "replicate" or "circular".

    Shape: (N, in_channels, H, W) or (in_channels, H, W) -> the same with out_channels and the sizes that remain.
    Raises: ArgumentError for arguments that do not fit; ShapeError for an input that does not.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1,
                 bias: bool = True, padding_mode: str = "zeros", device=None, dtype=None) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.groups = sizes("Conv2d", in_channels=in_channels, out_channels=out_channels,
                                                                 groups=groups)
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(f"Conv2d: in_channels {in_channels} and out_channels {out_channels} must be multiples of groups "
                                f"{groups}")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ArgumentError(f"Conv2d: padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got {padding_mode!r}")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ArgumentError(f"Conv2d: padding must be ints, 'same' or 'valid', got {padding!r}")
        self.kernel_size, self.stride = pair("Conv2d", "kernel_size", kernel_size), pair("Conv2d", "stride", stride)
        self.padding = padding if isinstance(padding, str) else pair("Conv2d", "padding", padding, 0)
        if self.padding == "same" and self.stride != (1, 1):
            raise ArgumentError(f"Conv2d: padding 'same' needs stride 1, got {stride}")
        self.dilation, self.padding_mode = pair("Conv2d", "dilation", dilation), padding_mode
        self._make((out_channels, in_channels // groups, *self.kernel_size), bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = functional.pad(input, self._sides(), self.padding_mode), 0
        return functional.conv2d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _sides(self):
        """(left, right, top, bottom)."""
        if self.padding == "valid":
            return (0, 0, 0, 0)
        if self.padding == "same":
            return same_padding(self.kernel_size, self.dilation)
        height, width = self.padding
        return (width, width, height, height)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        for name, default in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)):
            value = getattr(self, name)
            text += "" if value == default else f", {name}={value}"
        text += "" if self.bias is not None else ", bias=False"
        return text + ("" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}")


class MaxPool2d(Module):
    """Largest value of each window; the stride is the window where not given. See `functional.max_pool2d`.

    Shape: (N, C, H, W) or (C, H, W) -> the same with the sizes that remain.
    """

    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices: bool = False,
                 ceil_mode: bool = False) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def forward(self, input: Tensor):
        return functional.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
                                     self.return_indices)
