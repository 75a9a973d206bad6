"""2-D convolution and max pooling. Layouts are PyTorch's: N, C, H, W and O, C/groups, kh, kw."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.errors import ArgumentError, ShapeError
from volta.ops.join import pad
from volta.ops.records.conv import conv2d_op, max_pool2d_op, np_conv2d, np_max_pool2d
from volta.ops.records.view import reshape_op
from volta.ops.table import case, composed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["conv2d", "max_pool2d"]

MAX_WINDOW = 1 << 24        # elements of a pooling window, padding included: what no image has would only keep the device busy


def pair(op: str, name: str, value: object, least: int = 1) -> tuple[int, int]:
    """(height, width) from an int or a pair.

    Raises: ArgumentError for anything else or a value below `least`.
    """
    values = (value, value) if hasattr(value, "__index__") else tuple(value) if isinstance(value, (tuple, list)) else ()
    values = values * 2 if len(values) == 1 else values
    if len(values) != 2 or not all(hasattr(v, "__index__") and least <= v < 1 << 31 for v in values):
        raise ArgumentError(f"{op}: {name} must be an int or a pair of ints >= {least}, got {value!r}")
    return int(values[0]), int(values[1])


def _check_size(op, size, kernel, padding, dilation, behind=(0, 0)):
    """Raise unless a window fits; it may end as far behind the input as `behind` says."""
    if 0 in kernel:
        raise ShapeError(f"{op}: the kernel must have a size of at least 1, got {kernel[0]}x{kernel[1]}")
    for n, k, p, d, b in zip(size, kernel, padding, dilation, behind):
        if n + 2 * p + b < d * (k - 1) + 1:
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


def _pooled(op, size, kernel, stride, padding, dilation, ceil_mode):
    """Output size of a pooling, rounded up with `ceil_mode`; no window starts behind the padding on the right."""
    _check_size(op, size, kernel, padding, dilation, [s - 1 if ceil_mode else 0 for s in stride])
    out = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        out.append(count - 1 if ceil_mode and (count - 1) * s >= n + p else count)
    return tuple(out)


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


def _np_max_pool2d(x, kernel_size, stride=None, padding=0, return_indices=False):
    kernel, stride, padding = ((v, v) for v in (kernel_size, stride or kernel_size, padding))
    out = np_max_pool2d(x, kernel, stride, padding, (1, 1))
    return out if return_indices else out[0]


@composed(samples=(case((2, 3, 6, 8), 2), case((1, 2, 7, 7), 3, stride=2, padding=1), case((1, 2, 6, 6), 2, return_indices=True)),
          numpy=_np_max_pool2d, method=False)
def max_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Largest value of each window; the first of equal ones gets the gradient. With `ceil_mode` windows may end behind the input;
    `return_indices` adds where the values were, in H * W.

    Shape: (N, C, H, W) or (C, H, W) -> (N, C, H', W').
    Raises: ArgumentError, ShapeError where the window does not fit.

    >>> volta.max_pool2d(volta.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[4.]]])
    """
    if input.ndim == 3:
        out = max_pool2d(reshape_op(input, shape=(1,) + input.shape), kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        squeezed = [reshape_op(o, shape=o.shape[1:]) for o in (out if return_indices else (out,))]
        return tuple(squeezed) if return_indices else squeezed[0]
    if input.ndim != 4:
        raise ShapeError(f"max_pool2d: needs an input (N, C, H, W) or (C, H, W), got {input.shape}")
    kernel = pair("max_pool2d", "kernel_size", kernel_size)
    stride = kernel if stride is None or stride in ((), []) else pair("max_pool2d", "stride", stride)
    padding, dilation = pair("max_pool2d", "padding", padding, 0), pair("max_pool2d", "dilation", dilation)
    if any(2 * p > k for p, k in zip(padding, kernel)):
        raise ArgumentError(f"max_pool2d: padding {padding} must be at most half of the kernel {kernel}")
    if kernel[0] * kernel[1] > MAX_WINDOW:
        raise ArgumentError(f"max_pool2d: a kernel of {kernel[0]}x{kernel[1]} is too large, it may have {MAX_WINDOW} elements; use amax")
    size = _pooled("max_pool2d", input.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    out, index = max_pool2d_op(input, kernel=kernel, stride=stride, padding=padding, dilation=dilation, size=size)
    return (out, index) if return_indices else out
