"""What a box shows of a feature map, and convolutions whose taps move: composed of products and of sampling between pixels."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from volta import nn
from volta.errors import ArgumentError, ShapeError
from volta.nn import functional as F
from volta.ops.creation import arange, empty, full
from volta.ops.join import cat
from volta.ops.linalg import matmul
from volta.ops.math import where
from volta.shapes import per_dim

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["DeformConv2d", "RoIAlign", "RoIPool", "deform_conv2d", "roi_align", "roi_pool"]


def _rows(name, input, boxes):
    """The boxes with the number of their image in front, without a graph."""
    if input.ndim != 4:
        raise ShapeError(f"{name}: the feature map must have shape (N, C, H, W), got {tuple(input.shape)}")
    if isinstance(boxes, (list, tuple)):
        if any(b.ndim != 2 or b.shape[1] != 4 for b in boxes):
            raise ShapeError(f"{name}: a list holds boxes (n, 4) for each image, got {[tuple(b.shape) for b in boxes]}")
        boxes = cat([cat([full((b.shape[0], 1), float(i), dtype=b.dtype, device=b.device), b], 1) for i, b in enumerate(boxes)])
    if boxes.ndim != 2 or boxes.shape[1] != 5:
        raise ShapeError(f"{name}: boxes are rows (image, x1, y1, x2, y2), or a list of boxes (n, 4), got {tuple(boxes.shape)}")
    return boxes.detach()


def _shares(start, size, bins, length, ratio):
    """What each pixel of a line counts in each bin: samples lie evenly in a bin, and take the two pixels next to them by their nearness.
    Shape: (boxes, bins, length)."""
    step = size / bins
    samples = full(size.shape, float(ratio), dtype=size.dtype, device=size.device) if ratio > 0 else step.ceil()
    samples = where(samples.abs() < 2 ** 31, samples, 0.0)                  # a box with a side that is no number shows nothing
    count = max(ratio, 1) if ratio > 0 else max(int(samples.max().item()), 1) if samples.numel() else 1
    inner = arange(count, dtype=size.dtype, device=size.device)
    within = (inner + 0.5) / samples.clamp(min=1)[:, None]                                                  # (boxes, samples)
    at = start[:, None, None] + (arange(bins, dtype=size.dtype, device=size.device)[:, None] + within[:, None]) * step[:, None, None]
    counts = (at >= -1) & (at <= length) & (inner < samples[:, None])[:, None]
    near = (1 - (at.clamp(0, length - 1)[..., None] - arange(length, dtype=size.dtype, device=size.device)).abs()).clamp(min=0)
    return where(counts[..., None], near, 0.0).sum(2) / samples.clamp(min=1)[:, None, None]


def roi_align(input: Tensor, boxes: Tensor | Sequence[Tensor], output_size: int | tuple[int, int], spatial_scale: float = 1.0,
              sampling_ratio: int = -1, aligned: bool = False) -> Tensor:
    """What each box shows of a feature map, as a grid of means over samples between pixels. With `aligned`, pixels are where their centres
    are. Without a `sampling_ratio` there are as many samples as a bin has pixels, for which the largest box is read.

    Shape: (N, C, H, W) with boxes (K, 5), or N of (n, 4) -> (K, C, *output_size). Source: He et al., Mask R-CNN.

    >>> volta.vision.ops.roi_align(volta.ones(1, 1, 4, 4), [volta.tensor([[0.0, 0.0, 2.0, 2.0]])], 1).item()
    1.0
    """
    boxes, (height, width) = _rows("roi_align", input, boxes), per_dim("roi_align", "output_size", output_size, 2)
    n, channels, rows, columns = input.shape
    x1, y1, x2, y2 = (boxes[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)).unbind(1)
    down = _shares(y1, y2 - y1 if aligned else (y2 - y1).clamp(min=1), height, rows, sampling_ratio)
    along = _shares(x1, x2 - x1 if aligned else (x2 - x1).clamp(min=1), width, columns, sampling_ratio)
    own = (boxes[:, :1] == arange(n, dtype=boxes.dtype, device=boxes.device)).to(down.dtype)
    down = (own[:, None, :, None] * down[:, :, None]).reshape(-1, n * rows).to(input.dtype)                 # a box knows its image alone
    found = matmul(down, input.transpose(1, 2).reshape(n * rows, channels * columns))
    found = found.reshape(-1, height * channels, columns)
    return matmul(found, along.transpose(1, 2).to(input.dtype)).reshape(-1, height, channels, width).transpose(1, 2)


def _quotient(x, n):
    """x / n, rounded as the CPU does: a GPU's division may be off in its last bit, which moves an edge by a pixel where it is a whole
    number. The remainder is exact, since the quotient's halves times a small `n` are."""
    q = x / n
    high = q * 4097.0 - (q * 4097.0 - q)
    return q + ((x - high * n) - (q - high) * n) / n


def _largest(x, start, size, bins, length):
    """The largest along the last dimension in each bin of whole pixels, 0 in an empty one. Shape: (boxes, ..., length) -> (..., bins)."""
    step, places, found = _quotient(size, bins), arange(length, dtype=start.dtype, device=start.device), []
    lead = (-1,) + (1,) * (x.ndim - 2) + (length,)
    for k in range(bins):
        low, high = (((k + edge) * step) for edge in (0, 1))
        low, high = (low.floor() + start).clamp(0, length)[:, None], (high.ceil() + start).clamp(0, length)[:, None]
        inside = ((places >= low) & (places < high)).reshape(lead)
        best = x.masked_fill(~inside, -math.inf).max(-1).values
        found.append(best.masked_fill((high <= low).reshape(lead[:-1]), 0.0))
    return found


def roi_pool(input: Tensor, boxes: Tensor | Sequence[Tensor], output_size: int | tuple[int, int], spatial_scale: float = 1.0) -> Tensor:
    """The largest that each box shows of a feature map in each cell of a grid.

    Shape: (N, C, H, W) with boxes (K, 5), or N of (n, 4) -> (K, C, *output_size). Source: Girshick, Fast R-CNN.

    >>> volta.vision.ops.roi_pool(volta.arange(4.0).reshape(1, 1, 2, 2), [volta.tensor([[0.0, 0.0, 1.0, 1.0]])], 1).item()
    3.0
    """
    boxes, (height, width) = _rows("roi_pool", input, boxes), per_dim("roi_pool", "output_size", output_size, 2)
    scaled = boxes[:, 1:] * spatial_scale
    x1, y1, x2, y2 = (scaled.sign() * (scaled.abs() + 0.5).floor()).unbind(1)                               # halves away from 0
    x = input[boxes[:, 0].long()].transpose(2, 3)
    lines = _largest(x, y1, (y2 - y1 + 1).clamp(min=1), height, input.shape[2])
    cells = [_largest(line, x1, (x2 - x1 + 1).clamp(min=1), width, input.shape[3]) for line in lines]
    return cat([cell[..., None] for row in cells for cell in row], -1).reshape(-1, input.shape[1], height, width)


def deform_conv2d(input: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | tuple[int, int] = (1, 1),
                  padding: int | tuple[int, int] = (0, 0), dilation: int | tuple[int, int] = (1, 1), mask: Tensor | None = None) -> Tensor:
    """A convolution whose taps are moved by `offset` (y, then x, of each tap, for each group of channels), between pixels, and weighed by
    `mask`; outside of the image is 0.

    Shape: (N, C, H, W), offset (N, 2 * groups * kh * kw, H', W'), weight (O, C / g, kh, kw), mask (N, groups * kh * kw, H', W')
    -> (N, O, H', W'). Source: Dai et al., Deformable Convolutional Networks; Zhu et al., version 2.

    Raises: ShapeError for other shapes.

    >>> volta.vision.ops.deform_conv2d(volta.ones(1, 1, 3, 3), volta.zeros(1, 18, 1, 1), volta.ones(1, 1, 3, 3)).item()
    9.0
    """
    (sy, sx), (py, px), (dy, dx) = (per_dim("deform_conv2d", name, value, 2, least) for name, value, least in (
        ("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)))
    n, channels, rows, columns = input.shape
    outs, share, kh, kw = weight.shape
    taps = kh * kw
    height, width = (rows + 2 * py - dy * (kh - 1) - 1) // sy + 1, (columns + 2 * px - dx * (kw - 1) - 1) // sx + 1
    groups = offset.shape[1] // (2 * taps)
    if not groups or offset.shape != (n, 2 * groups * taps, height, width) or channels % groups or channels % share:
        raise ShapeError(f"deform_conv2d: offset must have shape ({n}, 2 * groups * {taps}, {height}, {width}), and the groups and the "
                         f"weight's {share} channels divide {channels}; got {tuple(offset.shape)}")
    if mask is not None and mask.shape != (n, groups * taps, height, width):
        raise ShapeError(f"deform_conv2d: mask must have shape {(n, groups * taps, height, width)}, got {tuple(mask.shape)}")

    def line(count, step):
        return arange(count, dtype=input.dtype, device=input.device) * step
    moved = offset.reshape(n * groups, kh, kw, 2, height, width)
    y = moved[:, :, :, 0] + line(kh, dy)[:, None, None, None] + line(height, sy)[:, None] - py
    x = moved[:, :, :, 1] + line(kw, dx)[:, None, None] + line(width, sx) - px
    grid = cat([((2 * x + 1) / columns - 1)[..., None], ((2 * y + 1) / rows - 1)[..., None]], -1)
    found = F.grid_sample(input.reshape(n * groups, -1, rows, columns), grid.reshape(n * groups, taps * height, width, 2),
                          align_corners=False)
    if mask is not None:
        found = found * mask.reshape(n * groups, 1, taps * height, width)
    parts = channels // share
    found = found.reshape(n, parts, share * taps, height * width)
    out = matmul(weight.reshape(parts, outs // parts, share * taps), found).reshape(n, outs, height, width)
    return out if bias is None else out + bias[:, None, None]


class RoIAlign(nn.Module):
    """`roi_align` as a layer."""

    def __init__(self, output_size: int | tuple[int, int], spatial_scale: float, sampling_ratio: int, aligned: bool = False) -> None:
        super().__init__()
        self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned = output_size, spatial_scale, sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Tensor | Sequence[Tensor]) -> Tensor:
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)

    def __repr__(self) -> str:
        return (f"RoIAlign(output_size={self.output_size}, spatial_scale={self.spatial_scale}, sampling_ratio={self.sampling_ratio}, "
                f"aligned={self.aligned})")


class RoIPool(nn.Module):
    """`roi_pool` as a layer."""

    def __init__(self, output_size: int | tuple[int, int], spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Tensor | Sequence[Tensor]) -> Tensor:
        return roi_pool(input, rois, self.output_size, self.spatial_scale)

    def __repr__(self) -> str:
        return f"RoIPool(output_size={self.output_size}, spatial_scale={self.spatial_scale})"


class DeformConv2d(nn.Module):
    """`deform_conv2d` with a weight of its own. Raises: ArgumentError unless the groups divide both numbers of channels."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, int], stride: int | tuple[int, int] = 1,
                 padding: int | tuple[int, int] = 0, dilation: int | tuple[int, int] = 1, groups: int = 1, bias: bool = True) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ArgumentError(f"DeformConv2d: groups={groups} must divide in_channels={in_channels} and out_channels={out_channels}")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.padding, self.dilation = (
            per_dim("DeformConv2d", name, value, 2, least) for name, value, least in (
                ("kernel_size", kernel_size, 1), ("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)))
        self.weight = nn.Parameter(empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias: Any = nn.Parameter(empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, as a convolution does."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
