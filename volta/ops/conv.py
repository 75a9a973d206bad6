"""2-D convolution and max pooling. Layouts are PyTorch's: N, C, H, W and O, C/groups, kh, kw."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.errors import ArgumentError, ShapeError
from volta.ops.index import gather_primitive
from volta.ops.movement import _reshape
from volta.ops.operands import floating, same_dtype
from volta.ops.padding import pad
from volta.ops.reduce import sum_primitive
from volta.ops.table import Labels, case, register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

# ---------------------------------------------------------------- records
_DEFAULT = dict(stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1)


def _np_conv2d(x, weight, bias, stride, padding, dilation, groups):
    """The definition in NumPy, for the tests."""
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    n, c, h, w = x.shape
    o, cg, kh, kw = weight.shape
    oh, ow = ((s - d * (k - 1) - 1) // t + 1 for s, k, d, t in zip((h, w), (kh, kw), dilation, stride))
    out = np.zeros((n, o, oh, ow))
    for i in range(kh):
        for j in range(kw):
            a, b = i * dilation[0], j * dilation[1]
            patch = x[:, :, a:a + (oh - 1) * stride[0] + 1:stride[0], b:b + (ow - 1) * stride[1] + 1:stride[1]]
            patch = patch.reshape(n, groups, cg, oh, ow)
            out += np.einsum("ngchw,goc->ngohw", patch, weight[:, :, i, j].reshape(groups, o // groups, cg)).reshape(out.shape)
    return out if bias is None else out + bias[:, None, None]


def _np_windows(g_shape, kernel, stride, dilation):
    """Per kernel element (i, j), the slices of the padded input that meet it."""
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            a, b = i * dilation[0], j * dilation[1]
            yield i, j, (Ellipsis, slice(a, a + (g_shape[2] - 1) * stride[0] + 1, stride[0]),
                         slice(b, b + (g_shape[3] - 1) * stride[1] + 1, stride[1]))


def _np_conv2d_grad_input(g, weight, height, width, stride, padding, dilation, groups):
    n, o, oh, ow = g.shape
    cg, kernel = weight.shape[1], weight.shape[2:]
    dx = np.zeros((n, cg * groups, height + 2 * padding[0], width + 2 * padding[1]))
    for i, j, window in _np_windows(g.shape, kernel, stride, dilation):
        w = weight[:, :, i, j].reshape(groups, o // groups, cg)
        dx[window] += np.einsum("ngohw,goc->ngchw", g.reshape(n, groups, -1, oh, ow), w).reshape(n, -1, oh, ow)
    return dx[:, :, padding[0]:padding[0] + height, padding[1]:padding[1] + width]


def _np_conv2d_grad_weight(g, x, kernel, stride, padding, dilation, groups):
    n, o, oh, ow = g.shape
    x = np.pad(x, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    dw = np.zeros((o, x.shape[1] // groups) + tuple(kernel))
    for i, j, window in _np_windows(g.shape, kernel, stride, dilation):
        patch = x[window].reshape(n, groups, -1, oh, ow)
        dw[:, :, i, j] = np.einsum("ngohw,ngchw->goc", g.reshape(n, groups, -1, oh, ow), patch).reshape(o, -1)
    return dw


def _np_max_pool2d(x, kernel, stride, padding, dilation, size=None):
    n, c, h, w = x.shape
    oh, ow = size or ((s + 2 * p - d * (k - 1) - 1) // t + 1 for s, k, p, d, t in zip((h, w), kernel, padding, dilation, stride))
    reach = [(o - 1) * t + d * (k - 1) + 1 - s - p for o, t, d, k, s, p in zip((oh, ow), stride, dilation, kernel, (h, w), padding)]
    widths = ((0, 0), (0, 0), (padding[0], max(reach[0], 0)), (padding[1], max(reach[1], 0)))
    values = np.pad(x.astype(np.float64), widths, constant_values=-np.inf)
    places = np.pad(np.broadcast_to(np.arange(h * w).reshape(h, w), x.shape), widths, constant_values=-1)
    windows = [window for _, _, window in _np_windows((n, c, oh, ow), kernel, stride, dilation)]
    stacked, where = np.stack([values[v] for v in windows]), np.stack([places[v] for v in windows])
    best = np.argmax(np.where(where < 0, -np.inf, stacked), axis=0)[None]
    return np.take_along_axis(stacked, best, 0)[0], np.take_along_axis(where, best, 0)[0]


def _np_max_pool2d_grad(g, index, height, width, **window):
    out = np.zeros(g.shape[:2] + (height * width,))
    np.add.at(out, (*np.indices(g.shape)[:2], index), g)
    return out.reshape(g.shape[:2] + (height, width))


def _geometry(**changes):
    return {**_DEFAULT, **changes}


def _conv2d_bias(g):
    return sum_primitive(g, dim=(0, 2, 3), keepdim=False)


conv2d_primitive = register(
    "conv2d", ("x", "weight", "bias"), family="conv", rtol=1e-4, numpy=_np_conv2d,
    vjp=(lambda g, x_shape, weight, stride, padding, dilation, groups: conv2d_grad_input(
            g, weight, height=x_shape[2], width=x_shape[3], stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda g, x, weight_shape, stride, padding, dilation, groups: conv2d_grad_weight(
            g, x, kernel=weight_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups),
         _conv2d_bias),
    cases=(case((2, 3, 6, 5), (4, 3, 3, 3), (4,), **_geometry(padding=(1, 1))),
           case((2, 4, 7, 6), (6, 2, 3, 2), None, **_geometry(stride=(2, 1), padding=(1, 0), groups=2)),
           case((1, 2, 8, 8), (3, 2, 3, 3), (3,), **_geometry(stride=(1, 2), padding=(2, 2), dilation=(2, 2))),
           case((2, 3, 4, 4), (5, 3, 1, 1), (5,), **_DEFAULT)))
conv2d_grad_input = register(
    "conv2d_grad_input", ("g", "weight"), family="conv", rtol=1e-4, numpy=_np_conv2d_grad_input,
    vjp=(lambda _, weight, stride, padding, dilation, groups: conv2d_primitive(
            _, weight, None, stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda _, g, weight_shape, stride, padding, dilation, groups: conv2d_grad_weight(
            g, _, kernel=weight_shape[2:], stride=stride, padding=padding, dilation=dilation, groups=groups)),
    cases=(case((2, 4, 6, 5), (4, 3, 3, 3), height=6, width=5, **_geometry(padding=(1, 1))),
           case((2, 6, 4, 5), (6, 2, 3, 2), height=7, width=6, **_geometry(stride=(2, 1), padding=(1, 0), groups=2))))
conv2d_grad_weight = register(
    "conv2d_grad_weight", ("g", "x"), family="conv", rtol=1e-4, numpy=_np_conv2d_grad_weight,
    vjp=(lambda _, x, stride, padding, dilation, groups: conv2d_primitive(
            x, _, None, stride=stride, padding=padding, dilation=dilation, groups=groups),
         lambda _, g, x_shape, stride, padding, dilation, groups: conv2d_grad_input(
            g, _, height=x_shape[2], width=x_shape[3], stride=stride, padding=padding, dilation=dilation, groups=groups)),
    cases=(case((2, 4, 6, 5), (2, 3, 6, 5), kernel=(3, 3), **_geometry(padding=(1, 1))),
           case((2, 6, 4, 5), (2, 4, 7, 6), kernel=(3, 2), **_geometry(stride=(2, 1), padding=(1, 0), groups=2))))


def _pool_grad_vjp(_, index):
    n, c, h, w = _.shape
    flat = _reshape(_, shape=(n, c, h * w))
    at = _reshape(index, shape=(n, c, index.shape[2] * index.shape[3]))
    return _reshape(gather_primitive(flat, at, dim=2), shape=index.shape)


max_pool2d_primitive = register(
    "max_pool2d", ("x",), family="pool", outputs=("out", "index"), numpy=_np_max_pool2d,
    vjp=(lambda g, index, x_shape, kernel, stride, padding, dilation: max_pool2d_grad(
            g, index, height=x_shape[2], width=x_shape[3], kernel=kernel, stride=stride, padding=padding, dilation=dilation),),
    cases=(case((2, 3, 6, 8), kernel=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1)),
           case((1, 2, 7, 5), kernel=(3, 2), stride=(2, 1), padding=(1, 1), dilation=(1, 2)),
           case((2, 3, 7, 5), kernel=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1), size=(4, 3)),
           case((1, 2, 6, 9), kernel=(3, 3), stride=(2, 4), padding=(1, 0), dilation=(1, 1), size=(4, 3))))
max_pool2d_grad = register(
    "max_pool2d_grad", ("g", "index"), family="pool", vjp=(_pool_grad_vjp, None), numpy=_np_max_pool2d_grad,
    cases=(case((2, 3, 3, 4), Labels((2, 3, 3, 4), 48), height=6, width=8),))


# ---------------------------------------------------------------- functions
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


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """2-D cross-correlation.

    Shape: input (N, C, H, W) or (C, H, W), weight (O, C/groups, kh, kw), bias (O,) -> (N, O, H', W').
    Raises: ShapeError, ArgumentError, DTypeError where the arguments do not fit.
    """
    if input.ndim == 3:
        out = conv2d(_reshape(input, shape=(1,) + input.shape), weight, bias, stride, padding, dilation, groups)
        return _reshape(out, shape=out.shape[1:])
    if input.ndim != 4 or weight.ndim != 4:
        raise ShapeError(f"conv2d: needs input (N, C, H, W) and weight (O, C/groups, kh, kw), got {input.shape} and {weight.shape}")
    floating("conv2d", input=input)
    same_dtype("conv2d", input.dtype, weight=weight, bias=bias)
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
    return conv2d_primitive(input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def max_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Largest value of each window; the first of equal ones gets the gradient. With `ceil_mode` windows may end behind the input;
    `return_indices` adds where the values were, in H * W.

    Shape: (N, C, H, W) or (C, H, W) -> (N, C, H', W').
    Raises: ArgumentError, ShapeError where the window does not fit.
    """
    if input.ndim == 3:
        out = max_pool2d(_reshape(input, shape=(1,) + input.shape), kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        strip = [_reshape(o, shape=o.shape[1:]) for o in (out if return_indices else (out,))]
        return tuple(strip) if return_indices else strip[0]
    if input.ndim != 4:
        raise ShapeError(f"max_pool2d: needs an input (N, C, H, W) or (C, H, W), got {input.shape}")
    floating("max_pool2d", input=input)
    kernel = pair("max_pool2d", "kernel_size", kernel_size)
    stride = kernel if stride is None or stride in ((), []) else pair("max_pool2d", "stride", stride)
    padding, dilation = pair("max_pool2d", "padding", padding, 0), pair("max_pool2d", "dilation", dilation)
    if any(2 * p > k for p, k in zip(padding, kernel)):
        raise ArgumentError(f"max_pool2d: padding {padding} must be at most half of the kernel {kernel}")
    if kernel[0] * kernel[1] > MAX_WINDOW:
        raise ArgumentError(f"max_pool2d: a kernel of {kernel[0]}x{kernel[1]} is too large, it may have {MAX_WINDOW} elements; use amax")
    size = _pooled("max_pool2d", input.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    out, index = max_pool2d_primitive(input, kernel=kernel, stride=stride, padding=padding, dilation=dilation, size=size)
    return (out, index) if return_indices else out
