"""Layers that give images another size: resampled, with channels as pixels, and taken apart into windows."""
from __future__ import annotations

from volta.nn import functional
from volta.nn.module import Module
from volta.tensor import Tensor

__all__ = ["ChannelShuffle", "Fold", "PixelShuffle", "PixelUnshuffle", "Unfold", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Images at another `size`, or at `scale_factor` times theirs; see `functional.interpolate`.

    Shape: (N, C, ...) with one to three more dimensions -> the same with the new sizes.
    """

    def __init__(self, size=None, scale_factor=None, mode: str = "nearest", align_corners: bool | None = None,
                 recompute_scale_factor: bool | None = None) -> None:
        super().__init__()
        self.name = type(self).__name__             # as PyTorch's have it
        self.size, self.mode, self.align_corners, self.recompute_scale_factor = size, mode, align_corners, recompute_scale_factor
        several = isinstance(scale_factor, tuple)
        self.scale_factor = tuple(map(float, scale_factor)) if several else float(scale_factor) if scale_factor else None

    def forward(self, input: Tensor) -> Tensor:
        return functional.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)

    def extra_repr(self) -> str:
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample by "nearest"."""

    def __init__(self, size=None, scale_factor=None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """Upsample by "bilinear" with align_corners=True."""

    def __init__(self, size=None, scale_factor=None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(Module):
    """Channels spread over blocks of pixels; see `functional.pixel_shuffle`.

    Shape: (..., C * r * r, H, W) -> (..., C, H * r, W * r), r being `upscale_factor`.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return functional.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Blocks of pixels as channels; see `functional.pixel_unshuffle`.

    Shape: (..., C, H * r, W * r) -> (..., C * r * r, H, W), r being `downscale_factor`.
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return functional.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels dealt out anew among `groups`; see `functional.channel_shuffle`.

    Shape: (N, C, ...) -> the same.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return functional.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Unfold(Module):
    """The windows of images as columns; see `functional.unfold`.

    Shape: (N, C, H, W) or (C, H, W) -> (N, C * kh * kw, windows).
    """

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return functional.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Unfold):
    """Images from the columns of Unfold; where windows overlap, they are added. See `functional.fold`.

    Shape: (N, C * kh * kw, windows) or (C * kh * kw, windows) -> (N, C, H, W).
    """

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return functional.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}, {super().extra_repr()}"
