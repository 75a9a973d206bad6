"""The names of this module before records and functions had files of their own; goes as soon as nothing imports it."""
# ruff: noqa: F401, I001
from volta.ops.math import addcmul, clamp, div, gelu, leaky_relu, negative_abs, softplus, square, where
from volta.ops.records.math import (
    abs, add_op as add, bitwise_and, bitwise_or, bitwise_xor, ceil, cos, div_op as div_, div_trunc, eq, erf as erf_, exp, exp2, expm1,
    floor, floor_divide, fmod, ge, gelu_grad, gelu_op as gelu_, gelu_tanh, gelu_tanh_grad, gt, isfinite, isinf, isnan, le, log, log1p,
    log2, logical_and, logical_not, logical_or, logical_xor, lt, lt as cmplt, maximum, minimum, mul, mulacc, ne, neg, pow, pow as pow_,
    reciprocal, reciprocal as recip, relu, relu_grad, remainder, remainder as mod, round_op as round, rsqrt, sigmoid, sigmoid_grad, sign,
    silu, silu_grad, sin, sqrt, sub_op as sub, tan, tanh, tanh_grad, trunc,
)
