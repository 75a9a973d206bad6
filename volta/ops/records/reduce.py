"""Records of the reductions over any dimensions, of argmax and argmin, and of softmax along one."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core.graph import is_grad_enabled
from volta.ops.records.chain import fused
from volta.ops.records.copy import cast
from volta.ops.records.math import exp, logical_and, root_grad, where_op
from volta.ops.records.scan import cumprod_op, flipped
from volta.ops.records.view import expand_op, part, permute_op, place, reshape_op
from volta.ops.table import case, register
from volta.shapes import reduced

if TYPE_CHECKING:
    from volta.tensor import Tensor

_CASES = (case((3, 4), dim=(1,), keepdim=False), case((3, 4), dim=(0,), keepdim=True), case((2, 3, 4), dim=(0, 2), keepdim=False),
          case((2, 3, 4), dim=(0, 1, 2), keepdim=False), case((5, 1), dim=(1,), keepdim=False), case((2, 70), dim=(1,), keepdim=True))
_EMPTY = (case((0, 3), dim=(0,), keepdim=False), case((2, 0), dim=(1,), keepdim=True))


def _expanded(g, shape, dim, keepdim):
    """A reduced gradient seen at every element that went into it."""
    if not keepdim:
        g = reshape_op(g, shape=reduced(shape, dim, True))
    return expand_op(g, shape=shape)


def count(shape: tuple[int, ...], dim: tuple[int, ...]) -> int:
    """Elements that are reduced to one."""
    return math.prod([shape[d] for d in dim])


def sum_to(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Undo broadcasting: sum `g` down to `shape`."""
    lead = len(g.shape) - len(shape)
    dims = tuple([i for i, n in enumerate(g.shape) if i < lead or (shape[i - lead] == 1 and n != 1)])
    if dims:
        g = sum_op(g, dim=dims, keepdim=lead == 0)
    return g if g.shape == shape else reshape_op(g, shape=shape)


def _extreme_vjp(g, x, out, dim, keepdim):
    """Shared equally among equal extremes, where there is a NaN all NaN, as in torch.amax. A `keepdim` of None is that of torch.max of all
    elements, whose gradient goes to NaN as to an extreme."""
    hit = x == _expanded(out, x.shape, dim, keepdim)
    hit = cast(hit if keepdim is not None else hit | (x != x), g.dtype)
    return fused(_shared, hit, _expanded(g, x.shape, dim, keepdim), sum_op(hit, dim=dim, keepdim=True))


def _shared(hit, g, count):
    return hit * g / count


def _prod_vjp(g, x, out, dim, keepdim):
    """g times the product of the others: as in PyTorch, the whole product divided by each element where none is 0."""
    if not x.ndim:
        return g                                        # of an infinite element, too
    g, whole = _expanded(g, x.shape, dim, keepdim), _expanded(out, x.shape, dim, keepdim)
    if not x.ndim:
        return g
    if not x._size:
        return g * x
    every = all_op(x, dim=tuple(range(x.ndim)), keepdim=False)
    if core.host_sees(every):
        return g * (whole / x if every.item() else _beside_zeros(x, dim))
    taken = where_op(every, x, 1.0)                     # the way that is not taken is that of ones: none of its derivatives is NaN
    if is_grad_enabled():
        whole = _expanded(prod_op(taken, dim=dim, keepdim=keepdim), x.shape, dim, keepdim)
    return g * where_op(every, whole / taken, _beside_zeros(where_op(every, 1.0, x), dim))


def _beside_zeros(x, dim):
    """`_others`, but for a product of all elements of which two are 0: there NaN and infinity do not count, as in PyTorch, unless the
    gradient is to be differentiated."""
    others = _others(x, dim)
    if len(dim) < x.ndim or is_grad_enabled():
        return others
    several = sum_op(cast(x == 0, core.dtype_from_code(3)), dim=dim, keepdim=False) > 1
    return where_op(logical_and(several, others != others), 0.0, others)


def _others(x, dim):
    """For each element the product of all others over `dim`. Multiplications alone give it, so its derivatives are right, too."""
    if len(dim) == 1:
        return _others_along(x, dim[0])
    order = (*dim, *[d for d in range(x.ndim) if d not in dim])
    shape = tuple([x.shape[d] for d in order])
    others = _others_along(reshape_op(permute_op(x, dims=order), shape=(count(x.shape, dim),) + shape[len(dim):]), 0)
    return permute_op(reshape_op(others, shape=shape), dims=tuple([order.index(d) for d in range(x.ndim)]))


def _others_along(x, d):
    """Along dimension d: the product of those before each element, times that of those behind it."""
    first, steps = tuple([int(k == d) for k in range(x.ndim)]), (1,) * x.ndim

    def before(x):
        return cumprod_op(place(part(x, d, 0, x.shape[d] - 1), shape=x.shape, starts=first, steps=steps, value=1.0), dim=d)
    return before(x) * flipped(before(flipped(x, d)), d)


def _norm2_vjp(g, x, out, dim, keepdim):
    if not keepdim:
        kept = reduced(x._shape, dim, True)
        g, out = reshape_op(g, shape=kept), reshape_op(out, shape=kept)
    return fused(_norm2_slope, x, g, out)


def _norm2_slope(x, g, out):
    return x * root_grad(g + g, out)


def _reduction(name, vjp, numpy, cases=_CASES + _EMPTY, kinds="fib", **options):
    return register(name, ("x",), names=("input",), family="reduce", vjp=vjp and (vjp,), cases=cases, kinds=kinds, takes=kinds,
                    numpy=lambda x, dim, keepdim: numpy(x, axis=dim, keepdims=keepdim), **options)


sum_op = _reduction("sum", lambda g, x_shape, dim, keepdim: _expanded(g, x_shape, dim, keepdim), np.sum)
mean_op = _reduction(
    "mean", lambda g, x_shape, dim, keepdim: _expanded(g * (1.0 / (count(x_shape, dim) or 1)), x_shape, dim, keepdim), np.mean, _CASES,
    kinds="f")
amax_op = _reduction("amax", _extreme_vjp, np.amax, _CASES)
amin_op = _reduction("amin", _extreme_vjp, np.amin, _CASES)
prod_op = _reduction("prod", _prod_vjp, np.prod, domain=(0.5, 1.5))
norm2_op = _reduction(
    "norm2", _norm2_vjp, kinds="f", domain=(0.3, 2.0),
    numpy=lambda x, axis, keepdims: np.sqrt((x * x).sum(axis, keepdims=keepdims)))
any_op = _reduction("any", None, np.any)
all_op = _reduction("all", None, np.all)



def _var_vjp(g_out, g_mean, x, mean, dim, keepdim, correction):
    n, dx = count(x.shape, dim), None
    if g_out is not None:
        away = x - _expanded(mean, x.shape, dim, keepdim)
        dx = away * _expanded(g_out * (2.0 / (n - correction) if n != correction else math.inf), x.shape, dim, keepdim)
    if g_mean is not None:
        share = _expanded(g_mean * (1.0 / n), x.shape, dim, keepdim)
        dx = share if dx is None else dx + share
    return (dx,)


def _np_var(x, dim, keepdim, correction):
    mean = x.mean(axis=dim, keepdims=True)
    rest = ((x - mean) ** 2).sum(axis=dim, keepdims=keepdim)
    return rest / max(count(x.shape, dim) - correction, 0), mean.reshape(rest.shape)


var_op = register(
    "var", ("x",), names=("input",), family="moments", takes="f", outputs=("out", "mean"), differentiable=("out", "mean"), vjp=_var_vjp,
    numpy=_np_var, rtol=1e-4,
    cases=(case((3, 4), dim=(1,), keepdim=False, correction=1.0), case((3, 4), dim=(0,), keepdim=True, correction=0.0),
           case((2, 3, 4), dim=(1, 2), keepdim=False, correction=1.0), case((2, 30, 8), dim=(1,), keepdim=False, correction=1.5),
           case((3, 5, 2), dim=(0, 1), keepdim=True, correction=1.0), case((4, 300), dim=(0, 1), keepdim=False, correction=1.0),
           case((2, 520), dim=(1,), keepdim=False, correction=1.0), case((300, 4), dim=(0,), keepdim=False, correction=1.0)))

_ARG_CASES = (case((3, 4), dim=1, keepdim=False), case((3, 4), dim=0, keepdim=True), case((2, 3, 4), dim=1, keepdim=False),
              case((130,), dim=0, keepdim=False))
argmax_op = register("argmax", ("x",), names=("input",), family="arg", kinds="fi", takes="fi", cases=_ARG_CASES,
                     numpy=lambda x, dim, keepdim: np.argmax(x, axis=dim, keepdims=keepdim))
argmin_op = register("argmin", ("x",), names=("input",), family="arg", kinds="fi", takes="fi", cases=_ARG_CASES,
                     numpy=lambda x, dim, keepdim: np.argmin(x, axis=dim, keepdims=keepdim))


# ---------------------------------------------------------------- softmax
def np_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    """softmax in NumPy, for the tests."""
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


_SOFTMAX_CASES = (case((3, 5), dim=1), case((3, 5), dim=0), case((2, 3, 4), dim=1), case((4, 1), dim=1), case((0, 3), dim=1))
_SOFTMAX_GRAD_CASES = tuple(case(c.inputs[0], c.inputs[0], **c.params) for c in _SOFTMAX_CASES)
softmax_op = register("softmax", ("x",), names=("input",), family="softmax", takes="f", numpy=np_softmax, cases=_SOFTMAX_CASES,
                      vjp=(lambda g, out, dim: softmax_grad(g, out, dim=dim),))
log_softmax_op = register(
    "log_softmax", ("x",), names=("input",), family="softmax", takes="f", cases=_SOFTMAX_CASES,
    vjp=(lambda g, out, dim: log_softmax_grad(g, out, dim=dim),), numpy=lambda x, dim: np.log(np_softmax(x, dim)))
logsumexp_op = register(
    "logsumexp", ("x",), names=("input",), family="softmax", takes="f", cases=_SOFTMAX_CASES[:-1],
    vjp=(lambda g, x, out, dim: _expanded(g, x.shape, (dim,), False) * exp(x - _expanded(out, x.shape, (dim,), False)),),
    numpy=lambda x, dim: np.log(np.exp(x).sum(axis=dim)))
softmax_grad = register(
    "softmax_grad", ("g", "out"), family="softmax", takes="f", cases=_SOFTMAX_GRAD_CASES,
    reference=lambda g, out, dim: out * (g - sum_op(g * out, dim=(dim,), keepdim=True)),
    numpy=lambda g, out, dim: out * (g - (g * out).sum(axis=dim, keepdims=True)))
log_softmax_grad = register(
    "log_softmax_grad", ("g", "out"), family="softmax", takes="f", cases=_SOFTMAX_GRAD_CASES,
    reference=lambda g, out, dim: g - exp(out) * sum_op(g, dim=(dim,), keepdim=True),
    numpy=lambda g, out, dim: g - np.exp(out) * g.sum(axis=dim, keepdims=True))
