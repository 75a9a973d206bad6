"""The names of this module before `math.py`; goes as soon as nothing imports it."""
# ruff: noqa: F401, I001
from volta.ops.math import (
    abs, absolute, add, addcdiv, addcmul, allclose, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, cast_default, ceil, check_exponent,
    clamp, clamp_max, clamp_min, cmplt, cos, div, divide, eq, equal, erf, exp, exp2, expm1, floor, floor_divide, fmod, frac, ge, gelu,
    greater, greater_equal, gt, isclose, isfinite, isinf, isnan, le, leaky_relu, lerp, less, less_equal, log, log10, log1p, log2,
    logical_and, logical_not, logical_or, logical_xor, lt, maximum, minimum, mod, mul, mulacc, multiply, nan_to_num, ne, need_integers,
    neg, negative, negative_abs, not_equal, pow, recip, reciprocal, relu, remainder, round, rsqrt, scaled, sigmoid, sign, silu, sin,
    softplus, sqrt, square, sub, subtract, tan, tanh, true_divide, trunc, where,
)
