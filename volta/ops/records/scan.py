"""Records of the scans along one dimension."""
from __future__ import annotations

import numpy as np

from volta._kernels import core
from volta.ops.records.copy import cat_op
from volta.ops.records.create import full_op
from volta.ops.records.index import scatter_add_op
from volta.ops.records.math import exp, isfinite, where_op
from volta.ops.records.view import part, place, row_major, slice_op
from volta.ops.table import case, create, register

_CASES = (case((3, 4), dim=1), case((3, 4), dim=0), case((2, 3, 5), dim=1), case((700,), dim=0), case((40, 60), dim=0),
          case((600, 3), dim=0), case((0, 3), dim=1))
_LONG = (case((3000,), dim=0), case((9000,), dim=0), case((1500, 2), dim=0))


def flipped(x, dim):
    """The elements along `dim` in reverse order, as a view."""
    return slice_op(x, starts=tuple([n - 1 if d == dim and n else 0 for d, n in enumerate(x.shape)]), sizes=x.shape,
                    steps=tuple([-1 if d == dim else 1 for d in range(len(x.shape))]))


def _to_the_end(scan, g, dim):
    """The scan of what follows each element, and itself."""
    return flipped(scan(flipped(g, dim), dim=dim), dim)


def _recurrence_to_the_end(x, g, dim):
    """For each element the sum over itself and all later ones of g times the product of the x between."""
    n = x.shape[dim]
    following = cat_op(part(x, dim, 1, n - 1), part(x, dim, 0, 1), dim=dim)         # the last one is multiplied with nothing
    return flipped(recurrence_op(flipped(following, dim), flipped(g, dim), dim=dim), dim)


def _factor_gradient(g, a, out, dim):
    n = a.shape[dim]
    if n < 2:                                   # the first one is multiplied with nothing
        return create(full_op, a.shape, 0, dtype=g.dtype, device=g.device)
    sums = _recurrence_to_the_end(a, g, dim)
    return place(part(out, dim, 0, n - 1) * part(sums, dim, 1, n - 1), shape=a.shape, starts=tuple(int(d == dim) for d in range(a.ndim)),
                 steps=(1,) * a.ndim, value=0.0)


def _cumprod_vjp(g, x, out, dim):
    """For each element the product of those before it, times the sum over all later ones of g times the product of those between."""
    n = x.shape[dim] if x.ndim else 1
    if n < 2:
        return g
    last = part(out, dim, n - 1, 1)                     # what is not finite stays so to the end
    if core.host_sees(out):
        return (_cumprod_gradient if np.isfinite(last.detach().numpy()).all() else _cumprod_beside_infinity)(g, x, out, dim)
    finite = isfinite(last)
    return where_op(finite, _cumprod_gradient(g, x, out, dim), _cumprod_beside_infinity(g, where_op(finite, 1.0, x), out, dim))


def _cumprod_gradient(g, x, out, dim):
    n = x.shape[dim]
    sums = _recurrence_to_the_end(x, g, dim)
    return cat_op(part(sums, dim, 0, 1), part(out, dim, 0, n - 1) * part(sums, dim, 1, n - 1), dim=dim)


def _cumprod_beside_infinity(g, x, out, dim):
    """The derivative of `cumprod` where elements are not finite, in the terms of PyTorch: before the first 0 the sum over all later ones of
    g * out, divided by x; of it the product before it, times the sum of g times the product of those after it; behind it 0."""
    zero, one = x == 0, create(full_op, (), 1, dtype=x.dtype, device=x.device)
    zeros = cumsum_op(zero * one, dim=dim)
    first, none = zeros == 1, zeros == 0
    before = _to_the_end(cumsum_op, where_op(none, g * out, 0.0), dim) / x
    after = cumprod_op(where_op(first, where_op(zero, 1.0, x), 1.0), dim=dim)
    total = part(cumsum_op(where_op(first, g, 0.0) * after, dim=dim), dim, x.shape[dim] - 1, 1)
    ahead = cat_op(where_op(part(first, dim, 0, 1), one, one), part(out, dim, 0, x.shape[dim] - 1), dim=dim)
    return where_op(none, before, where_op(first, where_op(zero, total * ahead, 0.0), 0.0))


def _logcumsumexp_vjp(g, x, out, dim):
    """The sum over all later ones of g * exp(x - out), as exp(x - out) * r with r = g + exp(out - next out) * next r: no factor overflows,
    and it is linear in g, so that forward derivatives follow from it."""
    if not x.ndim:                                      # the number itself
        return g
    n = x.shape[dim]
    if n > 1:
        here, after = part(out, dim, 0, n - 1), part(out, dim, 1, n - 1)
        step = where_op(here == after, 1.0, exp(here - after))              # infinite ones, too
        following = cat_op(step, part(step, dim, 0, 1), dim=dim)            # the last one is multiplied with nothing
        g = flipped(recurrence_op(flipped(following, dim), flipped(g, dim), dim=dim), dim)
    return g * exp(x - out)


def _scan(name, numpy, vjp, takes="fib", cases=(), **options):
    return register(name, ("x",), names=("input",), family="scan", takes=takes, kinds=takes, vjp=(vjp,), **options,
                    cases=(*_CASES, case((), dim=0), *cases),
                    numpy=lambda x, dim: numpy(x, dim) if x.ndim else numpy(x.reshape(1), 0).reshape(()))


def _np_recurrence(a, b, dim):
    out = np.moveaxis(b, dim, 0).copy()
    for i, factor in enumerate(np.moveaxis(a, dim, 0)[1:], 1):
        out[i] += factor * out[i - 1]
    return np.moveaxis(out, 0, dim)


def _extreme(name, extreme):
    def scan(x, dim):
        best = extreme.accumulate(x, dim)
        return best, np.maximum.accumulate(np.where((x == best) | (x != x), np.indices(x.shape)[dim], 0), dim)
    return register(name, ("x",), names=("input",), outputs=("values", "indices"), family="scan", takes="fib", kinds="fib", numpy=scan,
                    cases=_CASES + _LONG, domain=(-900.0, 900.0),        # far apart, for finite differences
                    vjp=(lambda g, indices, x_shape, dim: scatter_add_op(g, indices, dim=dim, size=x_shape[dim]),))


cumsum_op = _scan("cumsum", np.cumsum, lambda g, dim: row_major(_to_the_end(cumsum_op, g, dim)),          # gradients are not shown mirrored
                  cases=(*_LONG, case((33000,), dim=0)), rtol=2e-5)
cumprod_op = _scan("cumprod", np.cumprod, _cumprod_vjp, rtol=2e-5, domain=(0.7, 1.3), cases=(case((1500,), dim=0),))
logcumsumexp_op = _scan("logcumsumexp", np.logaddexp.accumulate, _logcumsumexp_vjp, "f", rtol=2e-5)
cummax_op, cummin_op = _extreme("cummax", np.maximum), _extreme("cummin", np.minimum)
recurrence_op = register(
    "recurrence", ("a", "b"), family="scan", takes={"a": "f", "b": "=a"}, numpy=_np_recurrence, rtol=2e-5, domain=(-1.1, 1.1),
    vjp=(_factor_gradient, lambda g, a, dim: row_major(_recurrence_to_the_end(a, g, dim)) if a.shape[dim] > 1 else g),
    cases=tuple(case(shape, shape, dim=dim) for shape, dim in (
        ((3, 4), 1), ((3, 4), 0), ((2, 3, 5), 1), ((40, 60), 1), ((600, 3), 0), ((3, 1), 1), ((0, 3), 1), ((3000,), 0))))
