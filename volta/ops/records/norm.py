"""Records of batch normalisation: the fused forward, its derivative and the move of the running statistics."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from volta.ops.records.copy import cast
from volta.ops.records.create import full_op
from volta.ops.records.math import mulacc, reciprocal, rsqrt
from volta.ops.records.reduce import mean_op, sum_op
from volta.ops.records.view import reshape_op, row_major
from volta.ops.table import Derived, case, create, register

if TYPE_CHECKING:
    from volta.tensor import Tensor


def _axes(x):
    return (0,) + tuple(range(2, len(x.shape)))


def column(v: Tensor, rank: int) -> Tensor:
    """A vector over channels, shaped to broadcast against (N, C, ...)."""
    return reshape_op(v, shape=(1, v.shape[0]) + (1,) * (rank - 2))


def np_batch_norm(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, eps: float) -> tuple:
    """(out, mean, rstd) in NumPy, for the tests."""
    axes = _axes(x)
    mean, var = x.mean(axis=axes), x.var(axis=axes)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    rstd = 1 / np.sqrt(var + eps)
    out = (x - mean.reshape(shape)) * rstd.reshape(shape)
    if weight is not None:
        out = out * weight.reshape(shape) + (0 if bias is None else bias.reshape(shape))
    return out, mean, rstd


def _scale_given(var, weight, eps):
    scale = rsqrt(var + eps)
    return scale if weight is None else scale * weight


def _batch_norm_given(x, mean, var, weight, bias, eps):
    x, scale = row_major(x), _scale_given(var, weight, eps)
    if mean is None and bias is None:
        return x * column(scale, x.ndim)
    shift = bias if mean is None else -mean * scale if bias is None else mulacc(mean, -scale, bias)
    return mulacc(x, column(scale, x.ndim), column(shift, x.ndim))


def _batch_norm_given_grad(g, x, weight, mean, var, eps):
    axes = _axes(x)
    normal = (x - column(mean, x.ndim)) * column(rsqrt(var + eps), x.ndim)
    return (g * column(_scale_given(var, weight, eps), x.ndim), sum_op(g * normal, dim=axes, keepdim=False),
            sum_op(g, dim=axes, keepdim=False))


def _batch_norm_given_vjp(g, x, mean, var, weight, eps, needs):
    if not any(needs[1:]):
        return batch_norm_given(g, None, var, weight, None, eps=eps), None, None, None, None
    mean = create(full_op, var.shape, 0.0, dtype=var.dtype, device=var.device) if mean is None else mean
    dx, dweight, dbias = batch_norm_given_grad(g, x, weight, mean, var, eps=eps)
    dmean = dvar = None
    if needs[1] or needs[2]:
        scale = _scale_given(var, weight, eps)
        dmean, dvar = -(dbias * scale), dweight * scale * rsqrt(var + eps) * -0.5
    return tuple([d if need else None for d, need in zip((dx, dmean, dvar, dweight, dbias), needs)])


def _np_batch_norm_given(x, mean, var, weight, bias, eps):
    mean, var, weight, bias = (v if v is None else v.reshape(-1, *(1,) * (x.ndim - 2)) for v in (mean, var, weight, bias))
    out = (x if mean is None else x - mean) / np.sqrt(var + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _np_batch_norm_grad(g, x, weight, mean, rstd):
    axes, shape = _axes(x), (1, -1) + (1,) * (x.ndim - 2)
    normal = (x - mean.reshape(shape)) * rstd.reshape(shape)
    h = g if weight is None else g * weight.reshape(shape)
    centred = h - h.mean(axis=axes, keepdims=True) - normal * (h * normal).mean(axis=axes, keepdims=True)
    return centred * rstd.reshape(shape), (g * normal).sum(axis=axes), g.sum(axis=axes)


def _np_batch_norm_given_grad(g, x, weight, mean, var, eps):
    axes, shape = _axes(x), (1, -1) + (1,) * (x.ndim - 2)
    rstd = 1 / np.sqrt(var + eps)
    normal = (x - mean.reshape(shape)) * rstd.reshape(shape)
    return g * (rstd if weight is None else rstd * weight).reshape(shape), (g * normal).sum(axis=axes), g.sum(axis=axes)


def _np_batch_norm_update(running_mean, running_var, mean, rstd, momentum, eps, count):
    var = (1 / rstd ** 2 - eps) * count / (count - 1)
    return (running_mean + momentum * (mean - running_mean), running_var + momentum * (var - running_var), None, None)


def _batch_norm_grad(g, x, weight, mean, rstd):
    """The fused derivative in simpler ops. Statistics are taken from x again, so that higher orders see them depend on it."""
    axes, rank = _axes(x), x.ndim
    eps = (reciprocal(rstd * rstd) - _variance(x, axes)).detach()
    centred = x - mean_op(x, dim=axes, keepdim=True)
    scale = rsqrt(mean_op(centred * centred, dim=axes, keepdim=True) + column(eps, rank))
    normal = centred * scale
    dweight = sum_op(g * normal, dim=axes, keepdim=False)
    dbias = sum_op(g, dim=axes, keepdim=False)
    h = g if weight is None else g * column(weight, rank)
    dx = (h - mean_op(h, dim=axes, keepdim=True) - normal * mean_op(h * normal, dim=axes, keepdim=True)) * scale
    return dx, dweight, dbias


def _variance(x, axes):
    x = x.detach()
    centred = x - mean_op(x, dim=axes, keepdim=True)
    return mean_op(centred * centred, dim=axes, keepdim=False)


def in_wide(grad, needs, g, x, weight, mean, rstd, *more, **params):
    """The wanted gradients of a normalisation, in the dtype of its statistics: float32 for float16 inputs."""
    wide = mean.dtype
    g, x_wide, weight, *more = (None if t is None else cast(t, wide) for t in (g, x, weight, *more))
    gradients = grad(g, x_wide, weight, mean, rstd, *more, **params)
    return tuple(cast(d, x.dtype) if need else None for d, need in zip(gradients, needs))


def _batch_norm_vjp(g, x, weight, mean, rstd, needs):
    return in_wide(batch_norm_grad, needs, g, x, weight, mean, rstd)


_MEAN = Derived(lambda g, x, weight: x.mean(axis=_axes(x)))
_RSTD = Derived(lambda g, x, weight, mean: 1 / np.sqrt(x.var(axis=_axes(x)) + 1e-5))
batch_norm_op = register(
    "batch_norm", ("x", "weight", "bias"), names=("input", "weight", "bias"), family="norm", pixels=("x",), outputs=("out", "mean", "rstd"),
    takes={"x": "f", "weight": "=x?", "bias": "=x?"}, wide=("mean", "rstd"), vjp=_batch_norm_vjp, numpy=np_batch_norm, rtol=1e-4,
    cases=(case((4, 3, 5, 2), (3,), (3,), eps=1e-5), case((6, 2), (2,), (2,), eps=1e-3), case((3, 2, 4), None, None, eps=1e-5)))
batch_norm_given = register(
    "batch_norm_given", ("x", "mean", "var", "weight", "bias"), family="norm", pixels=("x",), reference=_batch_norm_given,
    vjp=_batch_norm_given_vjp, numpy=_np_batch_norm_given,
    takes={"x": "f", "mean": "=x?", "var": "=x", "weight": "=x?", "bias": "=x?"}, domain=(0.2, 2.0), rtol=1e-4,
    cases=tuple(case(s, s[1:2] if i < 5 else None, s[1:2], *[s[1:2] if i % 2 else None, s[1:2] if i % 3 else None], eps=1e-3)
                for i, s in enumerate(((4, 3, 5, 2), (6, 5), (3, 2, 4), (2, 70), (2, 3, 4, 4), (2, 3, 4), (6, 5)))))
batch_norm_given_grad = register(
    "batch_norm_given_grad", ("g", "x", "weight", "mean", "var"), family="norm", pixels=("g",), outputs=("dx", "dweight", "dbias"),
    takes={"g": "f", "x": "=g", "weight": "=g?", "mean": "=g", "var": "=g"}, domain=(0.2, 2.0),
    reference=_batch_norm_given_grad, numpy=_np_batch_norm_given_grad, rtol=1e-4,
    cases=tuple(case(s, s, w, s[1:2], s[1:2], eps=1e-3)
                for s, w in (((4, 3, 5, 2), (3,)), ((6, 2), (2,)), ((3, 2, 4), None), ((9, 3, 7, 1), (3,)))))
batch_norm_grad = register(
    "batch_norm_grad", ("g", "x", "weight", "mean", "rstd"), family="norm", pixels=("g",), outputs=("dx", "dweight", "dbias"),
    takes={"g": "f", "x": "=g", "weight": "=g?", "mean": "=g", "rstd": "=g"},
    reference=_batch_norm_grad, numpy=_np_batch_norm_grad, rtol=1e-4,
    cases=tuple(case(s, s, w, _MEAN, _RSTD)
                for s, w in (((4, 3, 5, 2), (3,)), ((6, 2), (2,)), ((3, 2, 4), None), ((9, 3, 7, 1), (3,)))))
batch_norm_update = register(
    "batch_norm_update", ("running_mean", "running_var", "mean", "rstd"), family="update", numpy=_np_batch_norm_update,
    takes={"running_mean": "f", "running_var": "=running_mean", "mean": "=running_mean or wide", "rstd": "=mean"},
    writes=("running_mean", "running_var"), domain=(0.3, 2.0), rtol=1e-4,
    cases=(case((3,), (3,), (3,), (3,), momentum=0.1, eps=1e-5, count=40),
           case((300,), (300,), (300,), (300,), momentum=1.0, eps=1e-3, count=2)))
