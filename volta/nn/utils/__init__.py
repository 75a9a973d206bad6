"""Helpers over the parameters of a model, under PyTorch's names: clipping of gradients, parameters as one vector, parameters computed from
others (weight and spectral normalisation, parametrizations, pruning), packed sequences (rnn), layers joined with the next one."""
from volta.late import modules_of as _modules_of
from volta.nn.utils import parametrizations, parametrize, prune, rnn, stateless
from volta.nn.utils.fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
from volta.nn.utils.parameters import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format,
    get_total_norm,
    parameters_to_vector,
    skip_init,
    vector_to_parameters,
)
from volta.nn.utils.recomputed import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "convert_conv2d_weight_memory_format",
           "convert_conv3d_weight_memory_format", "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval",
           "fuse_linear_bn_weights", "get_total_norm", "parameters_to_vector", "parametrizations",
           "parametrize", "prune", "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init", "spectral_norm",
           "stateless", "vector_to_parameters", "weight_norm"]

__getattr__ = _modules_of(__name__)
