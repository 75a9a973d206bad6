"""Convolution in one to three dimensions, and its transpose. Layouts are PyTorch's: N, C, H, W and O, C/groups, kh, kw.
Lines are images of one row."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels.core import reshaped
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare
from volta.dtypes import float32
from volta.errors import ArgumentError, DTypeError, ShapeError, warn_once
from volta.nn.functional import integers
from volta.ops.copy import cast, in_float32, pixels_as
from volta.ops.join import pad
from volta.ops.records.conv import conv2d_grad_input, conv2d_op, conv3d_grad_input, conv3d_op, np_conv, np_conv_transpose
from volta.ops.records.view import part, reshape_op, row_major
from volta.ops.table import case, composed
from volta.ops.view import squeeze, unsqueeze
from volta.shapes import per_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.tensor import Tensor

__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


def _sized(sizes):
    return "x".join(map(str, sizes))


def _check_size(op, size, kernel, padding, dilation):
    """Raise unless a window fits."""
    if 0 in kernel:
        raise ShapeError(f"{op}: the kernel must have a size of at least 1, got {_sized(kernel)}")
    for n, k, p, d in zip(size, kernel, padding, dilation):
        if n + 2 * p < d * (k - 1) + 1:
            raise ShapeError(f"{op}: an input of {_sized(size)} with padding {padding} is smaller than the kernel "
                             f"{_sized(kernel)} with dilation {dilation}")


def same_padding(kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """(before, after) of the last dimension, then of the one before it, that keep the size; an odd one has the larger part behind."""
    reach = [d * (k - 1) for k, d in zip(kernel, dilation)][::-1]
    return tuple(side for n in reach for side in (n // 2, n - n // 2))


def _named_padding(op, input, padding, kernel, stride, dilation):
    """(input, padding) of padding 'same' or 'valid'."""
    if padding not in ("same", "valid"):
        raise ArgumentError(f"{op}: padding must be ints, 'same' or 'valid', got {padding!r}")
    if padding == "valid":
        return input, 0
    if max(stride) > 1:
        raise ArgumentError(f"{op}: padding 'same' needs stride 1, got {stride}")
    sides = same_padding(kernel, dilation)
    before, after = sides[::2], sides[1::2]
    more = [side for a, b in zip(before, after) for side in (0, b - a)]
    if not any(more):
        return input, before[::-1]
    warn_once("convolution: padding='same' of an even kernel with an odd dilation copies the input, with more padding behind", stacklevel=5)
    return pad(input, more), before[::-1]


# ---------------------------------------------------------------- convolution
_LAYOUTS = {1: ("L", "k"), 2: ("H, W", "kh, kw"), 3: ("D, H, W", "kd, kh, kw")}


def _batched(function, op, rank, input, *arguments):
    """function(op, rank, input, ...), the input being a batch or one of it."""
    if input.ndim != rank + 1:
        return function(op, rank, input, *arguments)
    out = function(op, rank, reshape_op(input, shape=(1,) + input.shape), *arguments)
    return reshape_op(out, shape=out.shape[1:])


@functools.lru_cache(maxsize=1024)
def _check_weight(op, rank, input, weight, bias, groups, transposed=False):
    """Raise unless the channels fit. IN: shapes."""
    size, taps = _LAYOUTS[rank]
    if len(input) != rank + 2 or len(weight) != rank + 2:
        layout = f"C, O/groups, {taps}" if transposed else f"O, C/groups, {taps}"
        raise ShapeError(f"{op}: needs input (N, C, {size}) and weight ({layout}), got {input} and {weight}")
    outputs = weight[1] * groups if transposed else weight[0]
    needed = weight[0] if transposed else weight[1] * groups
    if groups < 1 or input[1] != needed or weight[0] % groups:
        raise ShapeError(f"{op}: input {input} has {input[1]} channels; weight {weight} with groups={groups} "
                         f"needs {needed}, and {weight[0]} {'inputs' if transposed else 'outputs'} must divide by the groups")
    if weight[0] < groups:
        raise ShapeError(f"{op}: weight must have a size of at least {groups} in dimension 0, with groups={groups}, got {weight}")
    if 0 in input[2:] and input[0] and input[1]:
        raise ShapeError(f"{op}: only the batch and the channels may have a size of 0, got an input {input}")
    if bias is not None and bias != (outputs,):
        raise ShapeError(f"{op}: bias must have shape {(outputs,)}, got {bias}")


@functools.lru_cache(maxsize=1024)
def _fitted(op, rank, input, weight, bias, stride, padding, dilation, groups):
    """(stride, padding, dilation) of every dimension, of what fits. Kept, as small convolutions take no longer than this. IN: shapes."""
    _check_weight(op, rank, input, weight, bias, groups)
    stride, dilation = per_dim(op, "stride", stride, rank), per_dim(op, "dilation", dilation, rank)
    padding = per_dim(op, "padding", padding, rank, 0)
    _check_size(op, input[2:], weight[2:], padding, dilation)
    return stride, padding, dilation


def _conv(op, rank, input, weight, bias, stride, padding, dilation, groups):
    shapes = input._shape, weight._shape, None if bias is None else bias._shape
    if isinstance(padding, str):
        _check_weight(op, rank, *shapes, groups)
        stride, dilation = per_dim(op, "stride", stride, rank), per_dim(op, "dilation", dilation, rank)
        input, padding = _named_padding(op, input, padding, weight._shape[2:], stride, dilation)
        shapes = input._shape, *shapes[1:]
    stride, padding, dilation = [tuple(x) if type(x) is list else x for x in (stride, padding, dilation)]
    stride, padding, dilation = _fitted(op, rank, *shapes, stride, padding, dilation, groups)
    out = _called(rank, input, weight, bias, stride, padding, dilation, groups)
    return out if input._shape[1] else part(out, 1, 0, 0)            # of no channels PyTorch makes none, however many weights there are


def _called(rank, input, weight, bias, stride, padding, dilation, groups):
    """The op of this rank."""
    if not input.dtype.is_floating_point:
        return pixels_as(weight, pixels_as(input, integers.conv(input, weight, bias, stride, padding, dilation, groups)))
    if rank == 1:                                                   # images of one row
        return _line(_called(2, _row(row_major(input)), _row(weight), bias, (1, *stride), (0, *padding), (1, *dilation), groups))
    op = conv2d_op if rank == 2 else conv3d_op
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if bare(input, weight) and (bias is None or bare(bias)):
        return run_kernel(op, input.device, (input, weight, bias), options)
    return op(input, weight, bias, **options)


def _row(x):
    return _reshaped(x, x._shape[:2] + (1,) + x._shape[2:]) if x._contiguous and x._strides[1] != 1 else unsqueeze(x, 2)


def _line(x):
    return _reshaped(x, x._shape[:2] + x._shape[3:]) if x._contiguous and x._shape[1] > 1 else squeeze(x, 2)


def _reshaped(x, shape):
    """What is contiguous in another shape; as no op of its own where nobody records."""
    return reshaped(x, shape) if bare(x) else reshape_op(x, shape=shape)


@functools.lru_cache(maxsize=1024)
def _fitted_transpose(op, rank, input, weight, bias, stride, padding, more, dilation, groups):
    """(size, cut, stride, padding, dilation) of what fits: cut of a result without padding, where it is longer than what a convolution
    could have read, or empty, else None. IN: shapes."""
    _check_weight(op, rank, input, weight, bias, groups, transposed=True)
    size, kernel = input[2:], weight[2:]
    stride, dilation = per_dim(op, "stride", stride, rank), per_dim(op, "dilation", dilation, rank)
    padding, more = per_dim(op, "padding", padding, rank, 0), per_dim(op, "output_padding", more, rank, 0)
    if any(m >= max(s, d) for m, s, d in zip(more, stride, dilation)):
        raise ArgumentError(f"{op}: output_padding {more} must be smaller than the stride {stride} or the dilation {dilation}")
    reach = tuple([(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(size, stride, dilation, kernel)])
    found = tuple([r - 2 * p + m for r, p, m in zip(reach, padding, more)])
    if 0 in kernel or 0 in size or min(found) < 0:
        raise ShapeError(f"{op}: an input of {_sized(size)} with a kernel of {_sized(kernel)} and padding {padding} leaves "
                         f"nothing: the output would have {_sized(found)}")
    if 0 not in found and all(m < s for m, s in zip(more, stride)):
        return found, None, stride, padding, dilation
    cut = [side for n, r, p in zip(found[::-1], reach[::-1], padding[::-1]) for side in (-p, n + p - r)]
    return reach, cut, stride, (0,) * rank, dilation


def _conv_transpose(op, rank, input, weight, bias, stride, padding, more, groups, dilation):
    stride, padding, more, dilation = [tuple(x) if type(x) is list else x for x in (stride, padding, more, dilation)]
    size, cut, stride, padding, dilation = _fitted_transpose(op, rank, input._shape, weight._shape, None if bias is None else bias._shape,
                                                             stride, padding, more, dilation, groups)
    transposed = _TRANSPOSED[rank] if input.dtype.is_floating_point else integers.conv_transpose
    out = transposed(input, weight, size, stride, padding, dilation, groups)
    out = out if cut is None else pad(out, cut)
    return out if bias is None else out + reshape_op(bias, shape=bias.shape + (1,) * rank)


def _of_dtype(op, bias, input, groups):
    """The bias in the dtype of the input. Raises: DTypeError for another one where PyTorch takes none."""
    kind = input.dtype
    if bias is None or bias.dtype is kind:
        return bias
    if kind.itemsize == 2 or kind is float32 and groups > 1 or bias.dtype.is_floating_point > kind.is_floating_point:
        raise DTypeError(f"{op}: bias must be {kind.name}, got {bias.dtype.name}; convert it with .to({kind})")
    return cast(bias, kind)


@in_float32
def _transposed(input, op, rank, *arguments):
    return _batched(_conv_transpose, op, rank, input, *arguments)


def _transpose1d(x, weight, size, stride, padding, dilation, groups):
    return _line(_transpose2d(_row(row_major(x)), _row(weight), (1, *size), (1, *stride), (0, *padding), (1, *dilation), groups))


def _transpose2d(x, weight, size, stride, padding, dilation, groups):
    options = {"height": size[0], "width": size[1], "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if x.dtype is weight.dtype and bare(x, weight):
        return run_kernel(conv2d_grad_input, x.device, (x, weight), options)
    return conv2d_grad_input(x, weight, **options)


def _transpose3d(x, weight, size, stride, padding, dilation, groups):
    return conv3d_grad_input(x, weight, size=size, stride=stride, padding=padding, dilation=dilation, groups=groups)


_TRANSPOSED = {1: _transpose1d, 2: _transpose2d, 3: _transpose3d}


def _np_conv(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    kernel = weight.shape[2:]
    stride, dilation = ((v,) * len(kernel) if isinstance(v, int) else v for v in (stride, dilation))
    if padding == "same":
        sides = same_padding(kernel, dilation)
        x, padding = np.pad(x, ((0, 0), (0, 0), *zip(sides[-2::-2], sides[::-2]))), 0
    return np_conv(x, weight, bias, stride, (padding,) * len(kernel) if isinstance(padding, int) else padding, dilation, groups)


def _np_conv_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    kernel = weight.shape[2:]
    stride, padding, more, dilation = ((v,) * len(kernel) if isinstance(v, int) else v for v in (stride, padding, output_padding, dilation))
    size = [(n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, s, p, d, k, m in
            zip(x.shape[2:], stride, padding, dilation, kernel, more)]
    out = np_conv_transpose(x, weight, size, stride, padding, dilation, groups)
    return out if bias is None else out + bias.reshape(-1, *[1] * len(kernel))


_options = dict(rtol=1e-4, method=False, takes={"input": "fi", "weight": "=input", "bias": "=input?"})
_any_bias = {**_options, "takes": {**_options["takes"], "bias": "fib?"}}


@composed(samples=(case((2, 4, 9), (6, 2, 3), (6,), stride=2, padding=1, groups=2), case((1, 2, 7), (3, 2, 4), padding="same"),
                   case((1, 2, 7), (3, 2, 2), dilation=3)), numpy=_np_conv, **_options)
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """1-D cross-correlation.

    Shape: input (N, C, L) or (C, L), weight (O, C/groups, k), bias (O,) -> (N, O, L').
    Raises: ShapeError, ArgumentError, DTypeError where the arguments do not fit.

    >>> volta.conv1d(volta.ones(1, 3, 8), volta.ones(4, 3, 3), padding=1).shape
    volta.Size([1, 4, 8])
    """
    return _batched(_conv, "conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@composed(samples=(case((2, 4, 6, 5), (6, 2, 3, 3), (6,), stride=(2, 1), padding=1, groups=2),
                   case((1, 2, 6, 6), (3, 2, 2, 3), padding="same"), case((1, 2, 7, 7), (3, 2, 3, 2), padding=(0, 1), dilation=2)),
          numpy=_np_conv, **_options)
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """2-D cross-correlation.

    Shape: input (N, C, H, W) or (C, H, W), weight (O, C/groups, kh, kw), bias (O,) -> (N, O, H', W').
    Raises: ShapeError, ArgumentError, DTypeError where the arguments do not fit.

    >>> volta.conv2d(volta.ones(1, 3, 8, 8), volta.ones(4, 3, 3, 3), padding=1).shape
    volta.Size([1, 4, 8, 8])
    """
    return _batched(_conv, "conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@composed(samples=(case((2, 2, 5, 4, 3), (4, 1, 3, 2, 2), (4,), stride=(2, 1, 1), padding=1, groups=2),
                   case((1, 2, 4, 3, 3), (2, 2, 2, 3, 1), padding="same"), case((1, 1, 5, 4, 3), (2, 1, 2, 2, 2), dilation=(2, 1, 2))),
          numpy=_np_conv, **_options)
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
           padding: int | Sequence[int] | str = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """3-D cross-correlation.

    Shape: input (N, C, D, H, W) or (C, D, H, W), weight (O, C/groups, kd, kh, kw), bias (O,) -> (N, O, D', H', W').
    Raises: ShapeError, ArgumentError, DTypeError where the arguments do not fit.

    >>> volta.conv3d(volta.ones(1, 3, 4, 8, 8), volta.ones(4, 3, 3, 3, 3), padding=1).shape
    volta.Size([1, 4, 4, 8, 8])
    """
    return _batched(_conv, "conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@composed(samples=(case((2, 4, 5), (4, 3, 3), (6,), stride=2, padding=1, output_padding=1, groups=2),
                   case((1, 2, 4), (2, 3, 2), output_padding=2, dilation=3)), numpy=_np_conv_transpose, **_any_bias)
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
                     padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
                     dilation: int | Sequence[int] = 1) -> Tensor:
    """Transposed 1-D convolution: the gradient of `conv1d` for its input.

    Shape: input (N, C, L) or (C, L), weight (C, O/groups, k), bias (O,) -> (N, O, L').
    Raises: ShapeError, ArgumentError, DTypeError where the arguments do not fit.

    >>> volta.conv_transpose1d(volta.ones(1, 3, 8), volta.ones(3, 4, 2), stride=2).shape
    volta.Size([1, 4, 16])
    """
    bias = _of_dtype("conv_transpose1d", bias, input, groups)
    return _transposed(input, "conv_transpose1d", 1, weight, bias, stride, padding, output_padding, groups, dilation)


@composed(samples=(case((2, 4, 3, 4), (4, 3, 3, 2), (6,), stride=(2, 1), padding=1, output_padding=(1, 0), groups=2),
                   case((1, 2, 3, 3), (2, 3, 2, 2), dilation=2)), numpy=_np_conv_transpose, **_any_bias)
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
                     padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
                     dilation: int | Sequence[int] = 1) -> Tensor:
    """Transposed 2-D convolution: the gradient of `conv2d` for its input.

    Shape: input (N, C, H, W) or (C, H, W), weight (C, O/groups, kh, kw), bias (O,) -> (N, O, H', W').
    Raises: ShapeError, ArgumentError, DTypeError where the arguments do not fit.

    >>> volta.conv_transpose2d(volta.ones(1, 3, 8, 8), volta.ones(3, 4, 2, 2), stride=2).shape
    volta.Size([1, 4, 16, 16])
    """
    bias = _of_dtype("conv_transpose2d", bias, input, groups)
    return _transposed(input, "conv_transpose2d", 2, weight, bias, stride, padding, output_padding, groups, dilation)


@composed(samples=(case((2, 2, 3, 2, 3), (2, 2, 3, 2, 2), (4,), stride=(2, 1, 2), padding=1, output_padding=(1, 0, 1), groups=2),
                   case((1, 2, 2, 3, 3), (2, 1, 2, 1, 2), dilation=2)), numpy=_np_conv_transpose, in_float32=True, **_options)
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int | Sequence[int] = 1,
                     padding: int | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1,
                     dilation: int | Sequence[int] = 1) -> Tensor:
    """Transposed 3-D convolution: the gradient of `conv3d` for its input.

    Shape: input (N, C, D, H, W) or (C, D, H, W), weight (C, O/groups, kd, kh, kw), bias (O,) -> (N, O, D', H', W').
    Raises: ShapeError, ArgumentError, DTypeError where the arguments do not fit.

    >>> volta.conv_transpose3d(volta.ones(1, 3, 4, 8, 8), volta.ones(3, 4, 2, 2, 2), stride=2).shape
    volta.Size([1, 4, 8, 16, 16])
    """
    return _batched(_conv_transpose, "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)
