"""2-D convolution. Layouts are PyTorch's: N, C, H, W and O, C/groups, kh, kw."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.errors import ArgumentError, ShapeError
from volta.ops.join import pad
from volta.ops.records.conv import conv2d_op, np_conv2d
from volta.ops.records.view import reshape_op
from volta.ops.table import case, composed
from volta.shapes import per_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["conv2d"]


def pair(op: str, name: str, value: object, least: int = 1) -> tuple[int, int]:
    """(height, width) from an int or a pair.

    Raises: ArgumentError for anything else or a value below `least`.
    """
    return per_dim(op, name, value, 2, least)


def _check_size(op, size, kernel, padding, dilation):
    """Raise unless a window fits."""
    if 0 in kernel:
        raise ShapeError(f"{op}: the kernel must have a size of at least 1, got {kernel[0]}x{kernel[1]}")
    for n, k, p, d in zip(size, kernel, padding, dilation):
        if n + 2 * p < d * (k - 1) + 1:
            raise ShapeError(f"{op}: an input of {size[0]}x{size[1]} with padding {padding} is smaller than the kernel "
                             f"{kernel[0]}x{kernel[1]} with dilation {dilation}")


def same_padding(kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int, int, int]:
    """(left, right, top, bottom), in the order of `pad`, that keep the size; an odd one has the larger part behind."""
    height, width = (d * (k - 1) for k, d in zip(kernel, dilation))
    return width // 2, width - width // 2, height // 2, height - height // 2


def _named_padding(input, padding, kernel, stride, dilation):
    """(input, padding) of padding 'same' or 'valid'."""
    if padding not in ("same", "valid"):
        raise ArgumentError(f"conv2d: padding must be ints, 'same' or 'valid', got {padding!r}")
    if padding == "valid":
        return input, (0, 0)
    if stride != (1, 1):
        raise ArgumentError(f"conv2d: padding 'same' needs stride 1, got {stride}")
    left, right, top, bottom = same_padding(kernel, dilation)
    if (left, top) == (right, bottom):
        return input, (top, left)
    return pad(input, (0, right - left, 0, bottom - top)), (top, left)


def _np_conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    if padding == "same":
        left, right, top, bottom = same_padding(weight.shape[2:], (dilation, dilation))
        x, padding = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right))), 0
    return np_conv2d(x, weight, bias, *[(v, v) if isinstance(v, int) else v for v in (stride, padding, dilation)], groups)


@composed(samples=(case((2, 4, 6, 5), (6, 2, 3, 3), (6,), stride=(2, 1), padding=1, groups=2),
                   case((1, 2, 6, 6), (3, 2, 2, 3), padding="same"), case((1, 2, 7, 7), (3, 2, 3, 2), padding=(0, 1), dilation=2)),
          numpy=_np_conv2d, rtol=1e-4, method=False)
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """2-D cross-correlation.

    Shape: input (N, C, H, W) or (C, H, W), weight (O, C/groups, kh, kw), bias (O,) -> (N, O, H', W').
    Raises: ShapeError, ArgumentError, DTypeError where the arguments do not fit.

    >>> volta.conv2d(volta.ones(1, 3, 8, 8), volta.ones(4, 3, 3, 3), padding=1).shape
    (1, 4, 8, 8)
    """
    if input.ndim == 3:
        out = conv2d(reshape_op(input, shape=(1,) + input.shape), weight, bias, stride, padding, dilation, groups)
        return reshape_op(out, shape=out.shape[1:])
    if input.ndim != 4 or weight.ndim != 4:
        raise ShapeError(f"conv2d: needs input (N, C, H, W) and weight (O, C/groups, kh, kw), got {input.shape} and {weight.shape}")
    if groups < 1 or input.shape[1] != weight.shape[1] * groups or weight.shape[0] % groups:
        raise ShapeError(f"conv2d: input {input.shape} has {input.shape[1]} channels; weight {weight.shape} with groups={groups} "
                         f"needs {weight.shape[1] * groups}, and {weight.shape[0]} outputs must divide by the groups")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(f"conv2d: bias must have shape {weight.shape[:1]}, got {bias.shape}")
    kernel = weight.shape[2:]
    stride, dilation = pair("conv2d", "stride", stride), pair("conv2d", "dilation", dilation)
    if isinstance(padding, str):
        input, padding = _named_padding(input, padding, kernel, stride, dilation)
    padding = pair("conv2d", "padding", padding, 0)
    _check_size("conv2d", input.shape[2:], kernel, padding, dilation)
    return conv2d_op(input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
