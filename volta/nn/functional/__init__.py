"""The functions behind the layers, under PyTorch's names: the only home of functions of networks."""
from volta.nn.functional.activation import gelu, leaky_relu, leaky_relu_, log_softmax, relu, relu_, sigmoid, silu, softmax, softplus, tanh
from volta.nn.functional.conv import conv2d, max_pool2d
from volta.nn.functional.loss import binary_cross_entropy_with_logits, cross_entropy, l1_loss, mse_loss, nll_loss
from volta.nn.functional.norm import batch_norm, layer_norm, normalize
from volta.nn.functional.other import dropout, linear, one_hot
from volta.ops.checks import explain_all
from volta.ops.join import pad

__all__ = ["batch_norm", "binary_cross_entropy_with_logits", "conv2d", "cross_entropy", "dropout", "gelu", "l1_loss", "layer_norm",
           "leaky_relu", "leaky_relu_", "linear", "log_softmax", "max_pool2d", "mse_loss", "nll_loss", "normalize", "one_hot", "pad",
           "relu", "relu_", "sigmoid", "silu", "softmax", "softplus", "tanh"]

explain_all(globals())
