"""A convolution or linear layer joined with the batch normalisation behind it, for evaluation."""
from __future__ import annotations

import copy
from typing import TypeVar

from volta.errors import ArgumentError, AssertedError
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.ops.creation import ones_like, zeros_like
from volta.ops.records.math import rsqrt
from volta.tensor import Tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M", bound=Module)


def fuse_conv_bn_weights(conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
                         bn_b: Tensor | None, transpose: bool = False) -> tuple[Parameter, Parameter]:
    """(weight, bias) of the convolution that does what the two layers do; `transpose` says that it is a transposed one."""
    scale = rsqrt(bn_rv + bn_eps) * (ones_like(bn_rm) if bn_w is None else bn_w)
    shape = (1, -1) if transpose else (-1, 1)
    bias = ((zeros_like(bn_rm) if conv_b is None else conv_b) - bn_rm) * scale + (zeros_like(bn_rm) if bn_b is None else bn_b)
    weight = conv_w * scale.reshape(*shape, *(1,) * (conv_w.ndim - 2))
    return (Parameter(weight.detach().to(conv_w.dtype), conv_w.requires_grad),
            Parameter(bias.detach().to(conv_w.dtype if conv_b is None else conv_b.dtype), conv_b is not None and conv_b.requires_grad))


def fuse_linear_bn_weights(linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
                           bn_b: Tensor | None) -> tuple[Parameter, Parameter]:
    """(weight, bias) of the linear layer that does what the two layers do."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """A copy of `conv` that does what both do in evaluation. Raises: ArgumentError where one of them is in training."""
    return _fused("fuse_conv_bn_eval", conv, bn, transpose)


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """A copy of `linear` that does what both do in evaluation. Raises: ArgumentError where one of them is in training, or the
    normalisation is of another number of features than 1 and those of `linear`."""
    if bn.num_features not in (1, linear.out_features):
        raise ArgumentError(f"fuse_linear_bn_eval: linear.out_features {linear.out_features} and bn.num_features {bn.num_features} differ")
    return _fused("fuse_linear_bn_eval", linear, bn)


def _fused(name, layer, bn, transpose=False):
    if layer.training or bn.training:
        raise AssertedError(f"{name}: both layers must be in evaluation; call .eval()")
    if bn.running_mean is None:
        raise ArgumentError(f"{name}: the normalisation has no running statistics")
    out = copy.deepcopy(layer)
    weight, out.bias = fuse_conv_bn_weights(layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
                                            transpose)
    out.weight = weight
    return out
