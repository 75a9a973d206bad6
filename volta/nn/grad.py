"""The gradients of convolutions by themselves, under the names of torch.nn.grad."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from volta.autograd import enable_grad, grad, is_grad_enabled
from volta.errors import ShapeError
from volta.nn.functional import conv1d, conv2d, conv3d
from volta.tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]

Sizes = int | tuple[int, ...]


def _gradient(name: str, convolve: Callable[..., Tensor], size: Sequence[int], other: Tensor, grad_output: Tensor, of_weight: bool,
              *geometry: Sizes) -> Tensor:
    wanted = other.new_zeros(tuple(size)).requires_grad_()
    recorded = is_grad_enabled() and (other.requires_grad or grad_output.requires_grad)
    with enable_grad():
        out = convolve(*((other, wanted) if of_weight else (wanted, other)), None, *geometry)
        if out.shape != grad_output.shape:
            raise ShapeError(f"{name}: the convolution gives {out.shape}, grad_output is {grad_output.shape}")
        return grad(out, wanted, grad_output, create_graph=recorded)[0]


def conv1d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0,
                 dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """The gradient of `conv1d` for an input of this size."""
    return _gradient("conv1d_input", conv1d, input_size, weight, grad_output, False, stride, padding, dilation, groups)


def conv1d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0,
                  dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """The gradient of `conv1d` for a weight of this size."""
    return _gradient("conv1d_weight", conv1d, weight_size, input, grad_output, True, stride, padding, dilation, groups)


def conv2d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0,
                 dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """The gradient of `conv2d` for an input of this size."""
    return _gradient("conv2d_input", conv2d, input_size, weight, grad_output, False, stride, padding, dilation, groups)


def conv2d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0,
                  dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """The gradient of `conv2d` for a weight of this size."""
    return _gradient("conv2d_weight", conv2d, weight_size, input, grad_output, True, stride, padding, dilation, groups)


def conv3d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0,
                 dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """The gradient of `conv3d` for an input of this size."""
    return _gradient("conv3d_input", conv3d, input_size, weight, grad_output, False, stride, padding, dilation, groups)


def conv3d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Sizes = 1, padding: Sizes = 0,
                  dilation: Sizes = 1, groups: int = 1) -> Tensor:
    """The gradient of `conv3d` for a weight of this size."""
    return _gradient("conv3d_weight", conv3d, weight_size, input, grad_output, True, stride, padding, dilation, groups)
