"""Records of activations with numbers, and of their fused derivatives; those without are in `math.py`."""
from __future__ import annotations

import math

import numpy as np

from volta._kernels.core import indexing
from volta.ops.records.copy import cat_op
from volta.ops.records.elementwise import binary, gradient, ternary, unary
from volta.ops.records.math import exp, relu, sigmoid, sigmoid_grad, sign, tanh, where_op, zero
from volta.ops.records.math import log1p as log1p_op
from volta.ops.records.view import slice_op
from volta.ops.table import BINARY_SHAPES, TERNARY_SHAPES, UNARY_SHAPES, Derived, case, register

_FUNCTIONAL = {"promote": "common", "function": False, "method": False, "inplace": False}


def _with(*numbers):
    """Samples of one tensor and numbers."""
    return tuple(case(shape, *numbers) for shape in UNARY_SHAPES)


# ---------------------------------------------------------------- leaky_relu (and prelu, with a tensor of slopes), elu
def _np_elu(x, alpha, inner):
    return np.where(x > 0, x, alpha * np.expm1(np.where(x > 0, 0.0, x) * inner))


def _elu_grad(g, x, alpha, inner):
    return where_op(x <= 0, g * exp(where_op(x < 0, x, 0.0) * inner) * (alpha * inner), g)


def _slope_grad(g, a):
    if isinstance(a, (int, float)):
        return zero(g) if a > 0 else g * a
    return where_op(a > 0, 0.0, g * a)


leaky_relu = binary("leaky_relu", (lambda g, a, b: leaky_relu_grad(g, a, b), _slope_grad), takes="f",
                    second="negative_slope", numpy=lambda x, slope: np.where(x > 0, x, x * slope), public=False, fits="ifh")
leaky_relu_grad = gradient("leaky_relu_grad", "x", (
    lambda gg, x, negative_slope: leaky_relu_grad(gg, x, negative_slope), zero, lambda gg, g, x: where_op(x > 0, 0.0, gg * g)),
    numpy=lambda g, x, slope: np.where(x > 0, g, g * slope), numbers={"negative_slope": 0.1})


def tie(g, x):
    """g, recorded as a function of x whose derivative is 0."""
    return leaky_relu_grad(g, x, 1.0)


elu = ternary("elu", ("x", "alpha", "inner"), (lambda g, x, alpha, inner: elu_grad(g, x, alpha, inner), None, None), takes="f",
              numpy=_np_elu, cases=_with(1.5, 0.5), public=False, fits="ifh")
elu_grad = gradient("elu_grad", "x", reference=_elu_grad, numbers={"alpha": 1.5, "inner": 0.5},
                    numpy=lambda g, x, alpha, inner: g * np.where(x > 0, 1.0, alpha * inner * np.exp(np.minimum(x, 0) * inner)))

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
selu = unary("selu", lambda g, x: elu_grad(g, x, SELU_ALPHA, 1.0) * SELU_SCALE, numpy=lambda x: SELU_SCALE * _np_elu(x, SELU_ALPHA, 1.0),
             promote="common", public=False)


# ---------------------------------------------------------------- glu
def _halves(x, dim):
    return (slice_op(x, **indexing.part(x, dim, at, x.shape[dim] // 2)) for at in (0, x.shape[dim] // 2))


def _glu(x, dim):
    first, gate = _halves(x, dim)
    return first * sigmoid(gate)


def _glu_grad(g, x, dim):
    first, gate = _halves(x, dim)
    gate = sigmoid(gate)
    return cat_op(g * gate, sigmoid_grad(g * first, gate), dim=dim)


def _np_glu(x, dim):
    first, gate = np.split(x, 2, dim)
    return first / (1 + np.exp(-gate))


def _np_glu_grad(g, x, dim):
    first, gate = np.split(x, 2, dim)
    gate = 1 / (1 + np.exp(-gate))
    return np.concatenate([g * gate, g * first * gate * (1 - gate)], dim)


_GLU_CASES = (case((3, 4), dim=1), case((4, 3), dim=0), case((2, 6, 5), dim=1), case((3, 2600), dim=1), case((70, 30), dim=1),
              case((2, 0), dim=1))
glu_op = register("glu", ("x",), family="glu", takes="f", cases=_GLU_CASES, numpy=_np_glu, reference=_glu,
                  vjp=(lambda g, x, dim: glu_grad(g, x, dim=dim),))
glu_grad = register("glu_grad", ("g", "x"), family="glu", takes="f", reference=_glu_grad, numpy=_np_glu_grad, cases=tuple(
    case(tuple([n // 2 if d == c.params["dim"] else n for d, n in enumerate(c.inputs[0])]), *c.inputs, **c.params) for c in _GLU_CASES))


# ---------------------------------------------------------------- cut lines
hardtanh = ternary("hardtanh", ("x", "min_val", "max_val"), (
    lambda g, x, min_val, max_val: hardtanh_grad(g, x, min_val, max_val), None, None), takes="f", numpy=np.clip, cases=_with(-0.5, 1.0),
    public=False, fits="ifh")
hardtanh_grad = gradient("hardtanh_grad", "x", (
    lambda gg, x, min_val, max_val: hardtanh_grad(gg, x, min_val, max_val), zero, None, None),
    numpy=lambda g, x, low, high: np.where((x <= low) | (x >= high), 0.0, g), numbers={"min_val": -0.5, "max_val": 1.0})
hardsigmoid = unary("hardsigmoid", lambda g, x: hardsigmoid_grad(g, x), numpy=lambda x: np.clip(x + 3, 0, 6) / 6, domain=(-5.0, 5.0),
                    **_FUNCTIONAL)
hardsigmoid_grad = gradient("hardsigmoid_grad", "x", (lambda gg, x: hardsigmoid_grad(gg, x), zero), domain=(-5.0, 5.0),
                            numpy=lambda g, x: np.where(np.abs(x) < 3, g / 6, 0.0))
hardswish = unary("hardswish", lambda g, x: hardswish_grad(g, x), numpy=lambda x: x * (np.clip(x + 3, 0, 6) / 6), domain=(-5.0, 5.0),
                  **_FUNCTIONAL)
hardswish_grad = gradient("hardswish_grad", "x", (
    lambda gg, x: hardswish_grad(gg, x), lambda gg, g, x: hardsigmoid_grad(gg * g, x) * 2.0), domain=(-5.0, 5.0),
    numpy=lambda g, x: np.where(x <= -3, 0.0, np.where(x < 3, g * (x / 3 + 0.5), g)))


def _np_huber(x, target, delta):
    d = np.abs(x - target)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


huber = ternary("huber", ("x", "target", "delta"), (lambda g, x, target, delta: huber_grad(g, x, target, delta),
                                                    lambda g, x, target, delta: huber_grad(g, target, x, delta), None),
                takes="f", public=False, cases=tuple(case(*shapes, 0.7) for shapes in BINARY_SHAPES), numpy=_np_huber)
huber_grad = ternary("huber_grad", ("g", "x", "target", "delta"), None, takes="f", public=False,
                     cases=tuple(case(*shapes, 0.7) for shapes in TERNARY_SHAPES),
                     reference=lambda g, x, target, delta: g * hardtanh(x - target, -delta, delta),
                     numpy=lambda g, x, target, delta: g * np.clip(x - target, -delta, delta))


def _signs(*arrays):
    return np.where(np.arange(arrays[-1].size).reshape(arrays[-1].shape) % 3, 1.0, -1.0)


def _np_cosine_loss(x, target, margin):
    return np.where(target == 1, 1 - x, np.where(target == -1, np.maximum(x - margin, 0), 0))


# Of cosines that are to be 1 where target is 1 and at most the margin where that is -1; nothing of other targets.
cosine_loss = ternary("cosine_loss", ("x", "target", "margin"), (
    lambda g, x, target, margin: cosine_loss_grad(g, x, target, margin), None, None), takes="f", public=False, numpy=_np_cosine_loss,
    cases=tuple(case(s, Derived(_signs), 0.3) for s in ((6,), (3, 4), ())))
cosine_loss_grad = ternary("cosine_loss_grad", ("g", "x", "target", "margin"), (
    lambda gg, x, target, margin: cosine_loss_grad(gg, x, target, margin), zero, None, None), takes="f", public=False,
    numpy=lambda g, x, target, margin: np.where(target == 1, -g, np.where((target == -1) & (x >= margin), g, 0.0)),
    cases=tuple(case(s, s, Derived(_signs), 0.3) for s in ((6,), (3, 4), ())))
hardshrink_op = binary("hardshrink", (lambda g, a, b: shrink_grad(g, a, -b, b), zero), takes="f", cases=_with(0.7), public=False,
                       numpy=lambda x, lambd: np.where(np.abs(x) <= lambd, 0.0, x), fits="ifh")
softshrink = binary("softshrink", (lambda g, a, b: shrink_grad(g, a, -b, b), lambda g, out: -g * sign(out)), takes="f",
                    cases=_with(0.7), public=False,
                    numpy=lambda x, lambd: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, np.where(x == x, 0, x))),
                    fits="ifh")
threshold = ternary("threshold", ("x", "limit", "value"), (lambda g, x, limit: shrink_grad(g, x, -math.inf, limit), None, None),
                    takes="fib", kinds="fi", numpy=lambda x, limit, value: np.where(x <= limit, value, x), cases=_with(2, 3),
                    smooth=False, public=False, fits="ifh")
shrink_grad = gradient("shrink_grad", "x", (lambda gg, x, low, high: shrink_grad(gg, x, low, high), zero, None, None),
                       numpy=lambda g, x, low, high: np.where((x >= low) & (x <= high), 0.0, g), numbers={"low": -0.7, "high": 0.7})


# ---------------------------------------------------------------- smooth ones
softsign = unary("softsign", lambda g, x: softsign_grad(g, x), numpy=lambda x: x / (1 + np.abs(x)), promote="float", public=False)
softsign_grad = gradient("softsign_grad", "x", (
    lambda gg, x: softsign_grad(gg, x), lambda gg, g, x: softsign_grad(gg * g * -2.0, x) * sign(x) / (abs(x) + 1.0)),
    numpy=lambda g, x: g / (1 + np.abs(x)) ** 2 + (x - x))                        # of infinity NaN


def _np_softplus(x, beta, threshold):
    return np.where(x * beta > threshold, x, np.logaddexp(0.0, x * beta) / beta)


def _softplus_grad(g, x, beta, threshold):
    scaled = x * beta
    return where_op(scaled > threshold, g, g * sigmoid(scaled))


def _softplus_of(x):
    return relu(x) + log1p_op(exp(where_op(x > 0, -x, x)))


def _mish_grad(g, x):
    t = tanh(_softplus_of(x))
    return g * (t + x * sigmoid(x) * (1.0 - t * t))


def _np_mish_grad(g, x):
    t = np.tanh(np.logaddexp(0.0, x))
    return g * (t + x * (1 - t * t) / (1 + np.exp(-x)))


softplus = ternary("softplus", ("x", "beta", "threshold"), (
    lambda g, x, beta, threshold: softplus_grad(g, x, beta, threshold), None, None), takes="f", numpy=_np_softplus,
    cases=(*_with(1.0, 20.0), case((30,), 3.0, 2.0)), public=False, fits="ifh")
softplus_grad = gradient("softplus_grad", "x", reference=_softplus_grad, numbers={"beta": 3.0, "threshold": 2.0},
                         numpy=lambda g, x, beta, threshold: np.where(x * beta > threshold, g, g / (1 + np.exp(-x * beta))))
logsigmoid = unary("logsigmoid", lambda g, x: softplus_grad(g, x, -1.0, 3e38),
                   numpy=lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), **_FUNCTIONAL)
logsigmoid.pointwise = False                # row-major, as in PyTorch
mish = unary("mish", lambda g, x: mish_grad(g, x), numpy=lambda x: x * np.tanh(np.logaddexp(0.0, x)), **_FUNCTIONAL)
mish_grad = gradient("mish_grad", "x", reference=_mish_grad, numpy=_np_mish_grad)
