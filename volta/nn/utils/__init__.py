"""Helpers over the parameters of a model, under PyTorch's names: clipping of gradients, parameters as one vector, parameters computed from
others (weight and spectral normalisation, parametrizations), packed sequences (rnn)."""
from volta.nn.utils import parametrizations, parametrize, rnn
from volta.nn.utils.parameters import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from volta.nn.utils.recomputed import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector", "parametrizations",
           "parametrize", "remove_spectral_norm", "remove_weight_norm", "rnn", "spectral_norm", "vector_to_parameters", "weight_norm"]
